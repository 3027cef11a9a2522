"""Answers about the catalog that stay the same as long as the policy does: asked again, no worker is asked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from sqlanon.errors import Refused
from sqlanon.server.work_messages import Described, RowChunk, Summary
from sqlanon.sqlfront.lexer import tokens

MOST, LARGEST = 500, 2**14  # answers, and bytes of one
# Words whose meaning changes from call to call. A constant that is one of the last few may become a time.
CHANGING = frozenset(
    {
        "now", "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "clock_timestamp",
        "statement_timestamp", "transaction_timestamp", "timeofday", "age", "random", "setseed", "gen_random_uuid",
        "uuid_generate_v4", "nextval", "currval", "lastval", "pg_backend_pid", "txid_current",
        "txid_current_if_assigned", "pg_current_xact_id", "pg_current_snapshot", "pg_postmaster_start_time",
        "pg_conf_load_time", "inet_client_addr", "inet_client_port", "pg_stat_activity", "pg_locks", "pg_sleep",
        "today", "tomorrow", "yesterday",
    }
)  # fmt: skip


@lru_cache(1024)
def is_lasting(text: str) -> bool:
    """
    >>> is_lasting("SELECT relname FROM pg_class"), is_lasting("SELECT now()"), is_lasting("SELECT 'NOW'::date")
    (True, False, False)
    """
    try:
        found = tokens(text)
    except Refused:
        return False
    return not any(token.value.strip().lower() in CHANGING for token in found if token.kind != "symbol")


class AnswerStream(Protocol):
    """An answer on its way, from a worker or from here."""

    @property
    def summary(self) -> Summary | None: ...
    async def described(self) -> Described: ...
    def chunks(self) -> AsyncIterator[RowChunk]: ...


@dataclass(frozen=True)
class CachedAnswer:
    """An answer that was given before."""

    columns: Described
    rows: tuple[RowChunk, ...]
    summary: Summary

    async def described(self) -> Described:
        return self.columns

    async def chunks(self) -> AsyncIterator[RowChunk]:
        for chunk in self.rows:
            yield chunk


@dataclass
class Lasting:
    """The last answers, by all that they depend on."""

    _kept: OrderedDict[Hashable, CachedAnswer] = field(default_factory=OrderedDict)

    def get(self, key: Hashable) -> CachedAnswer | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, answer: CachedAnswer) -> None:
        self._kept[key] = answer
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        self._kept.clear()


@dataclass
class CachingAnswer:
    """An answer of a worker that is kept when it has come to its end, if it is small."""

    inner: AnswerStream
    kept: Lasting
    key: Hashable

    @property
    def summary(self) -> Summary | None:
        return self.inner.summary

    async def described(self) -> Described:
        return await self.inner.described()

    async def chunks(self) -> AsyncIterator[RowChunk]:
        found, size = [], 0
        async for chunk in self.inner.chunks():
            size += len(chunk.data)
            if size <= LARGEST:
                found.append(chunk)
            yield chunk
        if size <= LARGEST and self.summary is not None:
            self.kept.put(self.key, CachedAnswer(await self.described(), tuple(found), self.summary))
