"""Patience before a recovery: what looks abandoned must have looked so for a while, to the same observer. Pure.

After Redis was away, or a machine slept, every lease looks ended until its holder has had a chance to renew it.
"""

from __future__ import annotations

from collections.abc import Iterable


class Suspects:
    """Remembers since when each suspect has been one. Time is handed in, in monotonic seconds."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[bytes, float] = {}

    def ripe(self, seen: Iterable[bytes], now: float) -> list[bytes]:
        """Of those seen now, the ones that were seen at every look for at least the patience; others are forgotten."""
        self._since = {suspect: self._since.get(suspect, now) for suspect in seen}
        return [suspect for suspect, since in self._since.items() if now - since >= self._patience]
