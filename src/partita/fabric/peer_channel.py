"""What a data plane knows of one target."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from partita.fabric.flows import Outflow
from partita.fabric.local_socket import LocalPath


@dataclass
class PeerChannel:
    """All that is sent to one target; ``lock`` keeps its messages in order."""

    target: str
    publisher: Any
    flow: Outflow
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_ready: bool = False
    path: LocalPath | None = None
    is_resending: bool = False
    resent_s: float = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether its target is not there, and nobody waits for it."""
        return not (self.is_ready or self.flow.unacked or self.lock.locked())
