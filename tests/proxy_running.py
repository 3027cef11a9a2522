"""A proxy that runs inside of the test's process, in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from sqlanon.ledger import Ledger
from sqlanon.pgwire import tls
from sqlanon.server import serve as serving
from sqlanon.server import users
from sqlanon.server.server import Server

PASSWORD = "correct horse battery"
POLICY = """
gateway:
  database: shop.duckdb
  unit: {table: people, key: person}
  tables:
    people: {columns: {age: {low: 0, high: 100}}}
    visits: {unit: person, columns: {cost: {low: 0, high: 50}}}
    towns: {public: true}
  rows: 4
  budget:
    statement: {epsilon: 1, delta: 1e-6, default: 0.5}
    principal: {epsilon: 100, delta: 1e-3}
  answer_time: 0
  principals:
    ann: {}
    bob: {tables: [towns, visits]}
    dana: {}
    poor: {epsilon: 0.6}
serve:
  port: 0
  workers: 1
  administrators: [dana]
"""
DATA = """
CREATE TABLE people AS SELECT i AS person, i % 90 AS age FROM range(3000) t(i);
CREATE TABLE visits AS SELECT i AS visit, i % 3000 AS person, i % 60 AS cost, 'w' || (i % 4) AS ward
FROM range(9000) t(i);
CREATE TABLE towns AS SELECT * FROM (VALUES ('Athens', 3), ('Bonn', 4)) t(town, size);
"""


@dataclass
class Running:
    server: Server
    loop: asyncio.AbstractEventLoop
    folder: Path

    def connect(self, user: str = "ann", password: str = PASSWORD, **more: Any) -> psycopg.Connection[Any]:
        given = {"host": "127.0.0.1", "port": self.server.port, "dbname": "policy", "autocommit": True} | more
        return psycopg.connect(user=user, password=password, **given)

    def call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(300)

    @property
    def log(self) -> list[dict[str, Any]]:
        return self.events("statement")

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.folder / "policy.audit.jsonl").read_text(encoding="utf-8").splitlines()
        return [entry for entry in map(json.loads, lines) if entry.get("event") == kind]

    def spent(self, who: str = "ann") -> float:
        with Ledger.open(self.folder / "policy.ledger") as ledger:
            return sum(event.epsilon for event in ledger.history(who) if event.kind == "charge")


@contextmanager
def served(policy: Path) -> Iterator[tuple[Server, asyncio.AbstractEventLoop]]:
    """A policy whose ledger and users are there already."""
    ready: Future[tuple[Server, asyncio.AbstractEventLoop]] = Future()
    stop = threading.Event()

    async def serve() -> None:
        async with serving.open_door(policy) as (door, known):
            found = door.current.serve.located_tls
            server = Server(door, known, tls.load(*found) if found else None)
            await server.start()
            ready.set_result((server, asyncio.get_running_loop()))
            while not stop.is_set():
                await asyncio.sleep(0.02)
            await server.close(0.2)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ready.result(300)  # a machine that does much else takes a minute to start a few processes
    finally:
        stop.set()
        thread.join(300)
    assert not thread.is_alive()


def made(folder: Path, text: str = POLICY) -> Path:
    """A policy with three small tables and four users."""
    policy = folder / "policy.yml"
    policy.write_text(text, encoding="utf-8")
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(DATA)
    Ledger.create(folder / "policy.ledger").close()
    for name in ("ann", "bob", "dana", "poor"):
        users.set_password(folder / "policy.users", name, PASSWORD, new=True)
    return policy


@contextmanager
def running(folder: Path, text: str = POLICY) -> Iterator[Running]:
    with served(made(folder, text)) as (server, loop):
        yield Running(server, loop, folder)
