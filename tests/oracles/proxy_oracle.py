"""A real PostgreSQL that writes values, and refuses them, as ours must."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

pq = pytest.importorskip("psycopg.pq", reason="needs the package psycopg")


class Refusal(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


class Oracle:
    """The bytes that PostgreSQL sends, without any client's own reading of them."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def ask(
        self,
        sql: str,
        values: Sequence[bytes | None] = (),
        oids: Sequence[int] = (),
        formats: Sequence[int] = (),
        form: int = 0,
    ) -> list[list[bytes | None]]:
        result = self.connection.exec_params(
            sql.encode(), list(values), list(oids) or None, list(formats) or None, form
        )
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise Refusal(result.error_field(pq.DiagnosticField.SQLSTATE).decode())
        return [[result.get_value(row, at) for at in range(result.nfields)] for row in range(result.ntuples)]

    def cast(self, text: str, kind: str, form: int) -> bytes | None:
        """A literal as PostgreSQL reads and sends it."""
        return self.ask(f"SELECT $1::{kind}", [text.encode()], [0], [0], form)[0][0]

    def through(self, data: bytes, oid: int, given: int, wanted: int) -> bytes | None:
        """A parameter that comes back in another format."""
        return self.ask("SELECT $1", [data], [oid], [given], wanted)[0][0]

    def run(self, sql: str) -> None:
        result = self.connection.exec_(sql.encode())
        assert result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK), result.error_message

    def copy(self, sql: str) -> bytes:
        """All bytes that COPY … TO STDOUT sends."""
        result = self.connection.exec_(sql.encode())
        assert result.status == pq.ExecStatus.COPY_OUT, result.error_message
        parts = []
        while True:
            size, data = self.connection.get_copy_data(0)
            if size < 0:
                break
            parts.append(bytes(data))
        while self.connection.get_result():
            pass
        return b"".join(parts)


@contextlib.contextmanager
def oracle(url: str) -> Iterator[Oracle]:
    connection = pq.PGconn.connect(url.encode())
    assert connection.status == pq.ConnStatus.OK, connection.error_message
    made = Oracle(connection)
    for setting in ("timezone = 'UTC'", "datestyle = 'ISO'", "intervalstyle = 'postgres'", "client_encoding = 'UTF8'"):
        made.run(f"SET {setting}")
    yield made
    connection.finish()
