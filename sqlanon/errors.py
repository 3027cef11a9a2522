"""Every error that a person can meet: what happened, then what to do.

Messages are functions of the policy, the command and the schema. They never carry a value that was
read from a protected row, with exceptions that help the owner to correct the policy: values that a hierarchy or the
categories of a model do not cover, and the nearest spelling, among frequent values, of a value that does not occur.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches


class SqlanonError(Exception):
    """Base of all errors that are reported without a traceback; `sqlstate` follows PostgreSQL's codes."""

    sqlstate = "XX000"

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.message]
        if self.detail:
            lines += [f"  {line}" for line in self.detail.splitlines()]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class PolicyError(SqlanonError):
    """The policy, or the options that stand for one, ask for something that does not exist."""

    sqlstate = "22023"


class NotReleased(PolicyError):
    """Nothing was published, since the release would break a requirement of the policy."""


class RequirementBroken(SqlanonError):
    """A table that was checked breaks a requirement, and the caller asked for an error then."""

    sqlstate = "23514"


class SourceError(SqlanonError):
    """The database, file, table or column cannot be read."""

    sqlstate = "42P01"


class DatabaseLocked(SourceError):
    """Another process has the database open in a way that does not go together with this one."""

    sqlstate = "55006"


class HierarchyError(SqlanonError):
    """A hierarchy does not cover its data, or is not a hierarchy."""

    sqlstate = "22023"


class MechanismError(SqlanonError):
    """Noise cannot be made with these parameters."""

    sqlstate = "22023"


class EngineError(SqlanonError):
    """The database refused or broke off a statement."""

    sqlstate = "58000"


class BudgetExhausted(SqlanonError):
    """The statement costs more privacy than is left."""

    sqlstate = "53400"


class LedgerError(SqlanonError):
    """The ledger cannot be read or written, or is damaged: nothing is answered."""

    sqlstate = "58030"


LONGEST_MESSAGE = 400  # characters


class Refused(SqlanonError):
    """The gateway does not answer a statement; told from its text and the policy alone, before any data is read."""

    sqlstate = "0A000"

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        sqlstate: str | None = None,
        position: int | None = None,
    ) -> None:
        # Names of the statement are quoted in messages, and a name may be as long as a statement.
        shown = message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}…"
        super().__init__(shown, detail=detail, hint=hint)
        self.position = position  # of the construct in the text, counted from 1, as PostgreSQL tells it
        if sqlstate is not None:
            self.sqlstate = sqlstate


class Withheld(SqlanonError):
    """The controls do not let an exact answer out. One message for all reasons, for each would tell about data."""

    sqlstate = "42501"


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest right spelling, or None.

    >>> did_you_mean("k_anonimity", ["k_anonymity", "t_closeness"])
    "did you mean 'k_anonymity'?"
    """
    names = list(known)
    folded = {name.casefold(): name for name in names}
    near = get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return f"did you mean '{folded[near[0]]}'?" if near else None


def number(value: float | None) -> str:
    """A measured value, short but not rounded into a lie.

    >>> number(3.0), number(0.74732179), number(float("inf")), number(None)
    ('3', '0.7473', 'infinite', '-')
    """
    if value is None:
        return "-"
    if math.isinf(value):
        return "infinite"
    if math.isnan(value):
        return "not measurable"
    return f"{value:,.0f}" if value == int(value) else f"{value:.4g}"
