"""Every way in which a client can put a statement to the proxy, with what came of it."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxy_servers import Server, free_port, run_sqlanon, running_proxy
from raw_client import SYNC, Closed, Raw, Reply, bind, describe, execute, parse, query

SERVE = """
serve:
  port: {{port}}
  database: warehouse
  workers: 1
  memory: 1GB
  limits: {{{{unauthenticated: 64, connections: 64, result: 16MB}}}}
  timeouts: {{{{authentication: 30, statement: 5}}}}
  http: {{{{port: {http}}}}}
"""
# Words that only an engine, a parser, Python or a file system would say.
ENGINES = re.compile(
    r"duckdb|sqlglot|binder error|parser error|catalog error|conversion error|candidate|traceback|exception|"
    r"macro|\bline \d|errno|/tmp/|/dev/shm|/home|/root|\.py\b|\.duckdb|\.ledger|worker|0x[0-9a-f]{6}",
    re.IGNORECASE,
)


@dataclass
class Outcome:
    """Errors as (SQLSTATE, all that was said), and rows that came."""

    errors: list[tuple[str, str]] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)


@dataclass
class World:
    server: Server
    http: int
    tokens: dict[str, str]
    raws: dict[str, Raw] = field(default_factory=dict)

    def raw(self, user: str = "", password: str = "") -> Raw:
        """A connection of its own, which the caller closes."""
        server = self.server
        return Raw(server.host, server.port, timeout=30).login(
            user or server.user, password or server.password, server.database
        )

    def kept(self) -> Raw:
        """One connection for many statements; a new one if the server has closed it."""
        if "" not in self.raws:
            self.raws[""] = self.raw()
        return self.raws[""]

    def works(self) -> None:
        with self.raw() as raw:
            assert raw.kinds(query("SELECT 1")) == "T D C"
            assert raw.kinds(query("SELECT city FROM cities WHERE city = 'Athens'")) == "T D C"

    def post(self, path: str, body: Any, token: str | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=30)
        try:
            headers = {
                "Authorization": f"Bearer {token or self.tokens[self.server.user]}",
                "Content-Type": "application/json",
            }
            connection.request("POST" if body is not None else "GET", path, json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    @property
    def log(self) -> list[dict[str, Any]]:
        lines = (self.server.folder / "policy.audit.jsonl").read_text(encoding="utf-8").splitlines()
        return [entry for entry in map(json.loads, lines) if entry.get("event") == "statement"]

    @property
    def resident(self) -> int:
        """Memory of the server's process in MB."""
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) // 1024


@contextmanager
def hostile_world(options: str = SERVE) -> Iterator[World]:
    port = free_port()
    with running_proxy(events=1000, options=options.format(http=port)) as server:
        policy = str(server.folder / "policy.yml")
        tokens = {name: run_sqlanon("user", "token", policy, name).strip() for name in (server.user, "Ünï")}
        made = World(server, port, tokens)
        yield made
        for raw in made.raws.values():
            raw.socket.close()


def outcome(replies: list[Reply]) -> Outcome:
    found = Outcome()
    for reply in replies:
        if reply.kind == "E":
            fields = reply.fields
            found.errors.append((fields["C"], " ".join(fields.get(key, "") for key in "MDHW")))
        elif reply.kind == "D":
            found.rows.append(reply.row)
        elif reply.kind == "d":
            found.rows.append(reply.body)
    return found


def _asked(world: World, *messages: bytes) -> Outcome:
    """Messages one after the other, each up to its ReadyForQuery; a transaction that is left over is rolled back."""
    raw, replies = world.kept(), []
    try:
        for each in messages:
            replies += raw.ask(each)
        if raw.status != "I":
            raw.ask(query("ROLLBACK"))
    except Closed:
        world.raws.pop("").socket.close()
        raise
    return outcome(replies)


def simple(world: World, sql: str) -> Outcome:
    return _asked(world, query(sql))


def extended(world: World, sql: str) -> Outcome:
    steps = parse("", sql) + bind("", "") + describe("P", "") + execute() + SYNC
    return _asked(world, steps)


def prepared(world: World, sql: str) -> Outcome:
    """A statement with a name, described, bound in binary, and read row by row."""
    steps = parse("named", sql) + describe("S", "named") + SYNC
    rest = bind("", "named", results=(1,)) + execute("", 1) + execute("", 1) + SYNC
    try:
        return _asked(world, steps, rest)
    finally:
        world.kept().ask(query("DEALLOCATE ALL"))


def with_parameter(world: World, sql: str) -> Outcome:
    """The same with a parameter in it; what is no SELECT gets one all the same, and a value that it does not take."""
    text = re.sub(r"(?i)\bselect\b(?! *(distinct|from))", "SELECT $1::text,", sql, count=1)
    return _asked(world, parse("", text) + bind("", "", (b"1'; SELECT 1; --",)) + execute() + SYNC)


def cursor(world: World, sql: str) -> Outcome:
    return _asked(world, query("BEGIN"), query(f"DECLARE c CURSOR FOR {sql}"), query("FETCH ALL c"), query("ROLLBACK"))


def held_cursor(world: World, sql: str) -> Outcome:
    found = _asked(world, query(f"DECLARE c BINARY CURSOR WITH HOLD FOR {sql}"), query("FETCH ALL c"))
    world.kept().ask(query("CLOSE ALL"))
    return found


def copy(world: World, sql: str) -> Outcome:
    return _asked(world, query(f"COPY ({sql}) TO STDOUT"))


def copy_csv(world: World, sql: str) -> Outcome:
    return _asked(world, parse("", f"COPY ({sql}) TO STDOUT (FORMAT csv, HEADER)") + bind("", "") + execute() + SYNC)


def sql_prepare(world: World, sql: str) -> Outcome:
    try:
        return _asked(world, query(f"PREPARE q AS {sql}"), query("EXECUTE q"))
    finally:
        world.kept().ask(query("DEALLOCATE ALL"))


def explain(world: World, sql: str) -> Outcome:
    return _asked(world, query(f"EXPLAIN {sql}"))


def _posted(world: World, path: str, sql: str) -> Outcome:
    status, answer = world.post(path, {"sql": sql})
    if status == 200:
        return Outcome(rows=answer["rows"])
    error = answer["error"]
    return Outcome([(error["sqlstate"], " ".join(str(error[key] or "") for key in ("message", "detail", "hint")))])


def http_query(world: World, sql: str) -> Outcome:
    return _posted(world, "/v1/query", sql)


def http_explain(world: World, sql: str) -> Outcome:
    return _posted(world, "/v1/explain", sql)


WAYS: tuple[Callable[[World, str], Outcome], ...] = (
    simple, extended, prepared, with_parameter, cursor, held_cursor, copy, copy_csv, sql_prepare, explain,
    http_query, http_explain,
)  # fmt: skip


def own_words(message: str, sql: str) -> bool:
    """Whether nothing in a message is an engine's; what the statement itself says may be in it."""
    return all(found.lower() in sql.lower() for found in ENGINES.findall(message))
