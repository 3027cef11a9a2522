"""The proxy over PostgreSQL: it tells of columns what the database behind it tells."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from proxy_servers import Server, running_proxy
from raw_client import Raw, Reply, query
from test_proxy_clients_psql import PSQL, psql


@pytest.fixture(scope="module")
def over(real_server: Server) -> Iterator[Server]:
    with running_proxy(over=real_server) as found:
        yield found


@pytest.fixture(scope="module")
def both(real_server: Server, over: Server) -> Iterator[tuple[Raw, Raw]]:
    with Raw(real_server.host, real_server.port) as real, Raw(over.host, over.port) as proxy:
        real.login(real_server.user, real_server.password, real_server.database)
        yield real, proxy.login(over.user, over.password, over.database)


def columns(reply: Reply) -> list[tuple[str, int, int]]:
    """Of a RowDescription: name, type, and its modifier."""
    found, at = [], 2
    for name, oid, _ in reply.columns:
        end = reply.body.index(b"\0", at)
        found.append((name, oid, struct.unpack_from("!i", reply.body, end + 13)[0]))
        at = end + 19
    return found


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM people_released ORDER BY id",
        "SELECT * FROM kinds ORDER BY id",
        "SELECT code AS c, income FROM people_released ORDER BY id LIMIT 3",
        "SELECT p.code, c.city FROM people_released p JOIN cities c ON c.city = p.city ORDER BY p.id LIMIT 3",
        "SELECT attname, atttypid, atttypmod FROM pg_attribute JOIN pg_class c ON c.oid = attrelid "
        "WHERE relname IN ('people_released', 'kinds') AND attnum > 0 ORDER BY relname, attnum",
        "SELECT column_name, data_type, character_maximum_length, numeric_precision FROM information_schema.columns "
        "WHERE table_name = 'people_released' ORDER BY ordinal_position",
    ],
)
def test_types_have_their_lengths(both: tuple[Raw, Raw], sql: str) -> None:
    real, proxy = (each.ask(query(sql)) for each in both)
    assert columns(proxy[0]) == columns(real[0])
    assert [reply.body for reply in proxy[1:]] == [reply.body for reply in real[1:]]


@pytest.mark.full
@pytest.mark.skipif(PSQL is None, reason="needs psql (package postgresql-client)")
@pytest.mark.parametrize("table", ["people_released", "cities", "kinds", "names"])
def test_psql_shows_the_same_table(real_server: Server, over: Server, table: str) -> None:
    assert psql(over, f"\\d {table}").stdout == psql(real_server, f"\\d {table}").stdout
