"""A session seen from another process: its leader is asked through a worker."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from partita.errors import RunError
from partita.fabric import Caller, Endpoint
from partita.leader import SAMPLE, LeaderCalls, Sample, SampleSince, ask_leaders
from partita.live.snapshot import Scene
from partita.worker.messages import decode_message, encode_message

#: The method by which a leader says what is known of its plan.
SCENE = "scene"


class OfPlan(msgspec.Struct, frozen=True):
    """Asks for what is known of the plan with a hash."""

    plan: str


class Described(msgspec.Struct, frozen=True):
    """Answer to :class:`OfPlan`: None where nothing is known."""

    scene: Scene | None = None


def offer_scene(calls: LeaderCalls, describe: Callable[[str], Scene | None]) -> None:
    """Let a leader say what is known of its plans."""

    def answer(caller: Caller, body: bytes) -> bytes:
        return encode_message(Described(describe(decode_message(body, OfPlan).plan)))

    calls.offer(SCENE, answer)


class RemoteSession:
    """A session of another process.

    Args:
        endpoint: Reaches the cluster's workers.
        leader: Its name.
    """

    def __init__(self, endpoint: Endpoint, leader: str) -> None:
        self.leader = leader
        self._endpoint = endpoint

    def sample(self, since: int) -> Sample:
        """What it does now; see :meth:`partita.leader.Session.sample`.

        Raises:
            RunError: No worker that is there reaches it.
        """
        return decode_message(self._ask(SAMPLE, SampleSince(since)), Sample)

    def describe(self, plan: str) -> Scene | None:
        """What its leader knows of a plan; None where it says nothing."""
        try:
            return decode_message(self._ask(SCENE, OfPlan(plan)), Described).scene
        except RunError:
            return None

    def _ask(self, method: str, message: msgspec.Struct) -> bytes:
        why = said = ""
        for device in sorted(self._endpoint.peers()):
            try:
                answers = ask_leaders(self._endpoint, device, method, message, leader=self.leader)
            except RunError as error:
                why = error.message
                continue
            for answer in answers:
                if not answer.error:
                    return answer.body
                said = answer.error.removeprefix(f"Device {self.leader!r}: ")
        why = said or why or "no worker is there"  # others are asked that are no workers
        raise RunError(f"Leader {self.leader!r} does not answer: {why}", device=self.leader)
