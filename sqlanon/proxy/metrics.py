"""Counters of the server; they carry no data and no names."""

from __future__ import annotations


class Metrics:
    def statement(self, door: str, decision: str, sqlstate: str, seconds: float) -> None:
        """One statement has ended."""

    def authentication(self, *, ok: bool) -> None:
        """Somebody tried to log in."""

    def sessions(self, number: int) -> None:
        """So many clients are connected."""

    def reload(self, *, ok: bool) -> None:
        """The policy was read again."""
