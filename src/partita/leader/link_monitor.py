"""When a link is given up on which a request waits, long before its deadline: no I/O."""

from __future__ import annotations

from partita.leader.losses import Lost

#: The first look; with the second a little more than the silence of a lost device, which is told
#: first. Requests that take long by nature are waited for in proportion.
_LEAST_S = 1.5
_TIMES = 10
#: Between two looks that must find the same: what is sent without trouble is over by then.
_APART_S = 0.5


class LinkMonitor:
    """Suspects the link that the oldest request waits on, and is sure when it still does later."""

    def __init__(self) -> None:
        self._suspect = Lost()
        self._next_s = 0.0

    def is_due(self, waited_s: float, usual_s: float, now_s: float) -> bool:
        """Whether to look at what the request waits for.

        Args:
            waited_s: For how long no step has finished.
            usual_s: What requests took under this plan.
            now_s: On the caller's clock.
        """
        if waited_s < max(_LEAST_S, _TIMES * usual_s):
            self._suspect = Lost()
            return False
        return now_s >= self._next_s

    def confirm(self, culprit: Lost, now_s: float) -> bool:
        """Whether the culprit, as just looked up, is a link and was it the last time, too."""
        self._next_s = now_s + _APART_S
        is_sure = bool(culprit.links) and culprit == self._suspect
        self._suspect = culprit
        return is_sure
