"""Read data of persons: after a charge, within the time of the answer, one statement at a time.

Answers with noise and exact answers under controls both read through `PrivateReads`, so that the rules about time,
failures and the keys of links are the same for both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import Refused, SqlanonError
from sqlanon.gateway.answer.linked_keys import LinkedKey, require_keys
from sqlanon.gateway.answer.read_data import Data
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.core import Core
from sqlanon.gateway.price.budgets import limits_of
from sqlanon.ledger import Ledger
from sqlanon.ledger.limits import Left, Limits
from sqlanon.policy.gateway import Gateway


@dataclass
class PrivateReads:
    """The database, the ledger and the policy, with the rules for every read of private tables."""

    policy: Gateway
    engine: Engine
    ledger: Ledger
    catalog: Catalog
    pause: Callable[[float], None] = field(default=time.sleep, kw_only=True)
    # Wraps the work for a charge, and is given its seconds: a server cancels nothing inside.
    shield: Callable[[float], AbstractContextManager[None]] = field(default=lambda seconds: nullcontext(), kw_only=True)
    # The keys of links that were found to be unique, each with the version of the data in which it was.
    verified: dict[LinkedKey, str] = field(default_factory=dict, kw_only=True)
    lock: threading.Lock = field(default_factory=threading.Lock, kw_only=True)  # held while private data are read
    _counted: dict[tuple[str, str], int] = field(default_factory=dict, kw_only=True)

    @property
    def data(self) -> Data:
        return Data(self.engine, self.ledger, self.policy.timeout)

    def left(self, principal: str) -> Left:
        return self.ledger.left(principal, self.limits(principal))

    def limits(self, principal: str) -> Limits:
        return limits_of(self.policy, principal)

    def data_version(self) -> str:
        """Of a file, when it was last written; of a server, the day: an older answer is as private as a new one."""
        path = Path(self.policy.located_database)
        if "://" not in self.policy.database and path.exists():
            state = path.stat()
            return f"{state.st_mtime_ns}-{state.st_size}"
        return date.today().isoformat()

    def public_number(self, query: exp.Select) -> int:
        """One number about public tables, counted once for each version of the data."""
        known = (self.data_version(), query.sql("duckdb"))
        if known not in self._counted:
            ((found,),) = self.data.guarded(lambda: self.engine.query(query), charged=False)
            self._counted[known] = int(found or 0)
        return self._counted[known]

    def require_keys(self, cores: Sequence[Core]) -> None:
        """Before a charge: refuse a statement that follows a link to a key that is not unique any more."""
        # Others write to PostgreSQL at any time: there, no version of the data vouches for a key.
        version = self.data_version() if self.engine.dialect == "duckdb" else None
        require_keys(self.data, self.catalog, cores, self.verified, version)

    def require_unlocked(self, principal: str) -> None:
        """Refuse principals of whom too many statements failed after the charge: a failure may depend on the data."""
        most = self.policy.failures
        if self.ledger.failures(principal, self.policy.timeout) >= most:
            raise Refused(
                f"role '{principal}' is locked: {most} statements failed within a day after they were charged",
                hint="the owner of the data can unlock it: sqlanon budget unlock",
                sqlstate="55000",
            )

    def require_time(self, statements: int, timeout: float | None) -> float:
        """The seconds after which an answer leaves that takes so many statements about persons."""
        seconds = self.policy.answer_time * max(1, statements)
        longest = min(self.policy.timeout, timeout or self.policy.timeout)
        if seconds > longest:
            raise Refused(
                f"this answer would leave after {seconds:g} s, which is longer than the statement may take",
                detail="An answer about persons leaves at a time that depends on the statement alone, not on the data.",
                hint="raise statement_timeout, or ask for less at a time",
                sqlstate="54000",
            )
        return seconds

    def note_failure(self, charge: Left) -> None:
        with suppress(SqlanonError):
            self.ledger.settle(charge, "failed")
