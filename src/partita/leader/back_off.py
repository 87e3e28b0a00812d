"""For how long a device must be back before it is used again: no I/O, and no clock."""

from __future__ import annotations

from dataclasses import dataclass

#: A device that is lost so soon after it was used again flaps. Not tuned: what is used again has
#: costs of seconds, for loading, a trial and what stands by, which must come to pay.
_SOON_S = 10.0
#: The wait after the first flap, and the longest: it doubles with each.
_FIRST_S, _MOST_S = 2.0, 300.0


@dataclass
class _Record:
    """What is known of one device.

    Attributes:
        used_s: When it was last used again; None where it is lost, or never was.
        flaps: How often in a row it was lost soon after that.
    """

    used_s: float | None = None
    flaps: int = 0

    @property
    def wait_s(self) -> float:
        return min(_FIRST_S * 2.0 ** (self.flaps - 1), _MOST_S) if self.flaps else 0.0


class BackOff:
    """Devices that come and go: each time that one is soon lost again the wait is twice as long.

    So plans do not change with it. One that stays for long, as long as twice its last wait at
    least, is trusted as at first.
    """

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def use(self, device: str, now_s: float) -> None:
        """Take note that a device is used again."""
        self._records.setdefault(device, _Record()).used_s = now_s

    def lose(self, device: str, now_s: float) -> None:
        """Take note that a device is lost."""
        record = self._records.get(device)
        if record is None or record.used_s is None:
            return
        stayed_s, record.used_s = now_s - record.used_s, None
        record.flaps = record.flaps + 1 if stayed_s < max(_SOON_S, 2 * record.wait_s) else 0

    def wait_s(self, device: str) -> float:
        """The seconds that a device must have been there without a break."""
        record = self._records.get(device)
        return 0.0 if record is None else record.wait_s
