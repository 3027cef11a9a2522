"""Many clients at a time: every answer is right, and nothing is left behind when they are gone."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from proxy_servers import Server
from proxy_world import PEOPLE
from psycopg import errors, pq
from raw_client import FLUSH, Raw, bind, execute, parse, query

Connection = psycopg.Connection[Any]
WARDS = "SELECT ward, count(*) FROM visits WHERE cost < 64.5 GROUP BY ward ORDER BY ward"


# ---- statements, each with its own check


def one(db: Connection, chance: random.Random) -> None:
    assert db.execute("SELECT 1").fetchone() == (1,)


def parameters(db: Connection, chance: random.Random) -> None:
    number = chance.randint(1, PEOPLE)
    found = db.execute("SELECT name FROM people_released WHERE id = %s", [number], prepare=chance.random() < 0.5)
    assert found.fetchone() == (f"person {number}",)


def rows(db: Connection, chance: random.Random) -> None:
    cursor = db.cursor(binary=chance.random() < 0.5)
    assert len(cursor.execute("SELECT id, name, born FROM people_released").fetchall()) == PEOPLE


def known_answer(db: Connection, chance: random.Random) -> None:
    assert [ward for ward, _ in db.execute(WARDS)] == ["w0", "w1", "w2", "w3"]


def cursor_left_open(db: Connection, chance: random.Random) -> None:
    with db.transaction():
        db.execute("DECLARE c CURSOR FOR SELECT id FROM people_released ORDER BY id")
        assert db.execute("FETCH 3 FROM c").fetchall() == [(1,), (2,), (3,)]


def error(db: Connection, chance: random.Random) -> None:
    try:
        db.execute("SELECT nothing FROM people_released")
    except errors.UndefinedColumn:
        assert db.info.transaction_status == pq.TransactionStatus.IDLE


def rolled_back(db: Connection, chance: random.Random) -> None:
    db.execute("BEGIN")
    db.execute("SET LOCAL TimeZone TO 'Asia/Tokyo'")
    db.execute("ROLLBACK")


def copy(db: Connection, chance: random.Random) -> None:
    with db.cursor().copy("COPY (SELECT id FROM people_released) TO STDOUT") as copied:
        assert sum(bytes(block).count(b"\n") for block in copied) == PEOPLE


def pipeline(db: Connection, chance: random.Random) -> None:
    with db.pipeline():
        cursors = [db.execute("SELECT %s::int4", [number]) for number in range(5)]
        assert [cursor.fetchone() for cursor in cursors] == [(number,) for number in range(5)]


WORK: tuple[Callable[[Connection, random.Random], None], ...] = (
    one, one, parameters, parameters, rows, known_answer, cursor_left_open, error, rolled_back, copy, pipeline,
)  # fmt: skip


def client(server: Server, statements: int, seed: int) -> int:
    """One client, who connects anew now and then, and sometimes goes without a word."""
    chance, done = random.Random(seed), 0
    while done < statements:
        db = server.connect()
        for _ in range(min(chance.randint(5, 200), statements - done)):
            chance.choice(WORK)(db, chance)
            done += 1
        if chance.random() < 0.5:
            db.close()
        else:
            vanish(server, chance)
            db.close()
    return done


def vanish(server: Server, chance: random.Random) -> None:
    """A client that is gone in the middle of an answer, or of a statement that takes long."""
    with Raw(server.host, server.port) as raw:
        raw.login(server.user, server.password, server.database)
        if chance.random() < 0.2 and not server.proxy:
            raw.send(query("SELECT pg_sleep(0.2)"))
        elif chance.random() < 0.5:
            raw.send(parse("", "SELECT id FROM people_released"), bind("p", ""), execute("p", 10), FLUSH)
            raw.reply()
        else:
            raw.send(query("BEGIN; SELECT name FROM people_released; SELECT city FROM cities"))


# ---- what is left


@dataclass(frozen=True)
class Held:
    """What a server holds when nobody is connected."""

    descriptors: int
    children: int
    sockets: int


def held(server: Server) -> Held:
    folder = Path(f"/proc/{server.pid}")
    links = []
    for entry in os.listdir(folder / "fd"):
        try:
            links.append(os.readlink(folder / "fd" / entry))
        except FileNotFoundError:
            continue
    children = sum(int(line) == server.pid for line in parents())
    return Held(len(links), children, sum(link.startswith("socket:") for link in links))


def parents() -> list[str]:
    """Of every process, its parent."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def settled(server: Server, before: Held, seconds: float = 15.0) -> Held:
    """What is held once the server has noticed that everybody is gone."""
    deadline = time.monotonic() + seconds
    while (now := held(server)) != before and time.monotonic() < deadline:
        if not server.proxy and now.children < before.children:
            return replace(now, children=before.children)  # PostgreSQL was at its own work, such as vacuuming
        time.sleep(0.1)
    return now


def load(server: Server, clients: int, statements: int) -> None:
    with server.connect() as db:
        known_answer(db, random.Random(0))  # it is paid for once, here
        for work in WORK:
            work(db, random.Random(0))
    charges = server.charges()
    before = settled(server, held(server), 1.0)
    with ThreadPoolExecutor(clients) as threads:
        done = list(threads.map(lambda seed: client(server, statements, seed), range(clients)))
    assert done == [statements] * clients
    assert settled(server, before) == before
    assert server.charges() == charges and server.unsettled() == 0
    assert threading.active_count() < 20
    with server.connect() as db:
        one(db, random.Random(0))


@pytest.mark.full
def test_load(server: Server) -> None:
    load(server, clients=8, statements=100)


@pytest.mark.long
def test_load_at_length(server: Server) -> None:
    load(server, clients=32, statements=2_000)


@pytest.mark.full
def test_clients_who_go_stop_their_statement(server: Server) -> None:
    """A worker is free again, or was replaced, soon after its client is gone; the charge is settled."""
    before = held(server)
    for _ in range(6):
        with Raw(server.host, server.port) as raw:
            raw.login(server.user, server.password, server.database)
            raw.send(query(server.slow))
            time.sleep(0.2)
    started = time.monotonic()
    with server.connect() as db:
        known_answer(db, random.Random(0))
        parameters(db, random.Random(0))
    assert time.monotonic() - started < 5
    if server.proxy:
        assert settled(server, before).children == before.children
        assert server.unsettled() == 0
