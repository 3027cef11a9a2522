"""The HTTP door, by clients that behave and clients that do not; behind it is a real gate over made-up persons."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from gateway_world import World, policy, world
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy_login import certificate

from sqlanon.errors import BudgetExhausted, EngineError, LedgerError, Refused
from sqlanon.pgwire import tls
from sqlanon.server import users
from sqlanon.server.audit import AuditLog, Record
from sqlanon.server.http_api import KEYS, ROUTES, Api, HttpError, Result, read_body
from sqlanon.server.users import Users

pytest.importorskip("h11", reason="needs the package h11")
from sqlanon.server.http import HttpLimits, HttpServer

PASSWORD = "correct horse battery"


@dataclass
class GateDoor:
    """The door over a gate: what the server does with workers, here with threads."""

    world: World
    is_healthy: bool = True
    local_metrics: bool = False
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)
    raises: BaseException | None = None

    async def query(
        self, principal: str, sql: str, parameters: Sequence[Any], *, epsilon: float | None, dry_run: bool, door: str,
        intervals: bool = False, error: float | None = None,
    ) -> Result:  # fmt: skip
        self.asked.append((principal, sql, list(parameters), epsilon, dry_run, door))
        if self.raises is not None:
            raise self.raises
        if sql == "SLEEP":
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        options = {"dialect": "postgres", "epsilon": epsilon, "error": error}
        answer = await asyncio.to_thread(self.world.gate.answer, sql, principal, parameters, **options)  # type: ignore[arg-type]
        columns = [(name, "text") for name in answer.columns]
        return Result(
            columns, [list(row) for row in answer.rows], {"epsilon": answer.cost.epsilon, "cached": answer.cached}
        )

    async def explain(
        self, principal: str, sql: str, parameters: Sequence[Any], *, epsilon: float | None, dry_run: bool, door: str,
        intervals: bool = False, error: float | None = None,
    ) -> Result:  # fmt: skip
        gate = self.world.gate
        prepared = gate.prepare(sql, principal, parameters, dialect="postgres", epsilon=epsilon, error=error)
        answer = gate.explain(prepared, principal)
        return Result([("QUERY PLAN", "text")], [list(row) for row in answer.rows], {"kind": "explain"})

    async def budget(self, principal: str) -> Mapping[str, Any]:
        left = self.world.gate.left(principal)
        return {"epsilon": {"spent": left.spent.epsilon, "left": left.left.epsilon}}

    def tables(self, principal: str) -> list[dict[str, Any]]:
        return [{"name": "visits", "kind": "persons", "columns": []}] if principal == "analyst" else []

    def healthy(self) -> bool:
        return self.is_healthy


@dataclass
class Site:
    """A running server, and clients for it."""

    server: HttpServer
    door: GateDoor
    tokens: dict[str, str]
    port: int
    loop: asyncio.AbstractEventLoop
    audit: Path

    def ask(
        self, method: str, path: str, body: Any = None, *, who: str | None = "analyst", headers: Any = None
    ) -> tuple[int, Any, Mapping[str, str]]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            return self.on(connection, method, path, body, who=who, headers=headers)

    def on(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None, *,
        who: str | None = "analyst", headers: Any = None,
    ) -> tuple[int, Any, Mapping[str, str]]:  # fmt: skip
        sent = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes | str) else json.dumps(body)
        connection.request(method, path, body, sent | (headers or {}))
        response = connection.getresponse()
        data = response.read()
        plain = response.headers["Content-Type"] != "application/json"
        return response.status, data.decode() if plain else json.loads(data), response.headers

    def raw(self, data: bytes, wait: float = 5.0) -> bytes:
        """What the server says to these bytes, until it closes or is silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as connection:
            connection.sendall(data)
            made = b""
            with suppress(TimeoutError, ConnectionResetError):
                while more := connection.recv(65536):
                    made += more
            return made


@contextmanager
def site(folder: Path, limits: HttpLimits | None = None, context: ssl.SSLContext | None = None) -> Iterator[Site]:
    principals = {"analyst": {}, "guest": {"tables": ["visits", "regions"]}, "auditor": {"auditor": True}, "chief": {}}
    made = world(folder, given=policy(principals=principals))
    file = folder / "site.users"
    tokens = {}
    for name in (*principals, "left"):
        users.set_password(file, name, PASSWORD, new=True)
        tokens[name], _ = users.add_token(file, name, 1)
    loaded = Users.load(file)
    door = GateDoor(made)
    log = AuditLog(folder / "audit.jsonl")
    log.append([Record(f"s{i}", ["analyst", "guest"][i % 2], "http", "answered", shape="SELECT ?") for i in range(120)])
    log.close()
    api = Api(
        door, lambda: loaded.current(), lambda: made.gate.policy.principals, log.path,
        administrators=lambda: ("chief",), local_metrics=lambda: door.local_metrics,
    )  # fmt: skip
    loop = asyncio.new_event_loop()
    server = HttpServer(api, limits or HttpLimits(), context)
    loop.run_until_complete(server.start("127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield Site(server, door, tokens, server.port, loop, log.path)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        made.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("http")) as made:
        yield made


SQL = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY 1"


# What is answered


def test_a_statement_is_answered(shop: Site) -> None:
    status, found, headers = shop.ask("POST", "/v1/query", {"sql": SQL})
    assert status == 200, found
    assert found["columns"] == [{"name": "region", "type": "text"}, {"name": "n", "type": "text"}]
    assert {row[0] for row in found["rows"]} <= {"R0", "R1", "R2", "R99"} and found["summary"]["epsilon"] == 1.0
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
    assert headers["Access-Control-Allow-Origin"] is None and headers["Server"] is None
    again = shop.ask("POST", "/v1/query", {"sql": SQL})[1]
    assert again["rows"] == found["rows"] and again["summary"] == {"epsilon": 0.0, "cached": True}


def test_what_is_asked_reaches_the_door(shop: Site) -> None:
    body = {"sql": "SELECT region FROM regions WHERE size > $1 AND country <> $2", "parameters": [1, "é\u2028"],
            "epsilon": 0.5, "dry_run": True}  # fmt: skip
    status, found, _ = shop.ask("POST", "/v1/query", body, who="guest")
    assert (status, sorted(found["rows"])) == (200, [["R1"], ["R2"], ["R9"]])
    assert shop.door.asked[-1] == ("guest", body["sql"], [1, "é\u2028"], 0.5, True, "http")
    shop.ask("POST", "/v1/query", {"sql": "SELECT 1 FROM regions"})
    assert shop.door.asked[-1][3:] == (None, False, "http")


def test_an_error_may_be_asked_for(shop: Site) -> None:
    status, found, _ = shop.ask("POST", "/v1/query", {"sql": "SELECT COUNT(*) FROM visits", "error": 60})
    assert status == 200 and found["summary"]["epsilon"] == pytest.approx(0.2, abs=0.005)
    assert (
        shop.ask("POST", "/v1/query", {"sql": "SELECT COUNT(*) FROM visits", "error": "60"})[1]["rows"] == found["rows"]
    )
    for wrong in ("2%", -1, True, "much"):
        status, found, _ = shop.ask("POST", "/v1/query", {"sql": "SELECT COUNT(*) FROM visits", "error": wrong})
        assert status == 400 and found["error"]["message"].startswith("'error': an error")
    both = {"sql": "SELECT COUNT(*) FROM visits", "error": 60, "epsilon": 0.5}
    assert "together" in shop.ask("POST", "/v1/query", both)[1]["error"]["message"]


def test_a_plan_costs_nothing(shop: Site) -> None:
    before = shop.ask("GET", "/v1/budget")[1]
    status, found, _ = shop.ask("POST", "/v1/explain", {"sql": "SELECT SUM(income) FROM visits"})
    assert status == 200 and any("epsilon 1" in row[0] for row in found["rows"])
    assert shop.ask("GET", "/v1/budget")[1] == before and before["epsilon"]["left"] > 0


def test_several_requests_on_one_connection(shop: Site) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", shop.port, timeout=10)) as connection:
        for _ in range(3):
            assert shop.on(connection, "GET", "/v1/budget")[0] == 200
            assert shop.on(connection, "POST", "/v1/query", {"sql": "SELECT nothing FROM regions"})[0] == 400
            assert shop.on(connection, "POST", "/v1/query", {"sql": "SELECT region FROM regions"})[0] == 200


def test_requests_that_come_in_one_piece_are_answered_in_turn(shop: Site) -> None:
    one = f"GET /v1/budget HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {shop.tokens['analyst']}\r\n\r\n"
    last = one.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
    answered = shop.raw((one * 5 + last).encode())
    assert answered.count(b"HTTP/1.1 200") == 6 and answered.count(b'"left"') == 6


def test_chunks_and_continue(shop: Site) -> None:
    head = (
        f"POST /v1/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {shop.tokens['analyst']}\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n"
    )
    body = json.dumps({"sql": "SELECT region FROM regions ORDER BY 1 LIMIT 1"}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert b'"rows":[["R0"]]' in shop.raw((head + "Transfer-Encoding: chunked\r\n\r\n").encode() + chunks)
    wanted = f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection(("127.0.0.1", shop.port), timeout=5) as connection:
        connection.sendall((head + wanted).encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        connection.sendall(body)
        assert b"200" in connection.recv(1000)


# Who may


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/query"), ("POST", "/v1/explain"), ("GET", "/v1/budget"), ("GET", "/v1/audit")]
)
def test_nobody_without_a_token(shop: Site, method: str, path: str) -> None:
    token = shop.tokens["analyst"]
    asked = len(shop.door.asked)
    wrong = [None, "", "Bearer", "Bearer ", f"Basic {token}", token, f"Bearer {token}x", f"Bearer {token[:-1]}"]
    for sent in [*wrong, f"Bearer {shop.tokens['left']}", "Bearer sqlanon_" + "A" * 43]:
        headers = {} if sent is None else {"Authorization": sent}
        status, found, said = shop.ask(
            method, path, {"sql": SQL} if method == "POST" else None, who=None, headers=headers
        )
        assert status == 401 and said["WWW-Authenticate"] == 'Bearer realm="sqlanon"', sent
        told = {"message": "a valid bearer token is needed", "hint": "'sqlanon user token' makes one"}
        assert found == {"error": told | {"detail": None, "sqlstate": "28000", "position": None}}
    assert len(shop.door.asked) == asked


def test_a_token_in_the_address_is_none(shop: Site) -> None:
    assert shop.ask("GET", f"/v1/budget?access_token={shop.tokens['analyst']}", who=None)[0] == 401


def test_two_tokens_are_none(shop: Site) -> None:
    line = f"Authorization: Bearer {shop.tokens['analyst']}\r\n"
    said = shop.raw(f"GET /v1/budget HTTP/1.1\r\nHost: x\r\n{line}{line}\r\n".encode())
    assert said.startswith(b"HTTP/1.1 400")


def test_a_revoked_token_is_none_at_once(tmp_path: Path) -> None:
    with site(tmp_path) as made:
        assert made.ask("GET", "/v1/budget")[0] == 200
        file = tmp_path / "site.users"
        users.remove(file, "analyst")
        assert made.ask("GET", "/v1/budget")[0] == 401
        file.chmod(0o644)
        status, found, _ = made.ask("GET", "/v1/budget", who="guest")
        assert status == 503 and str(tmp_path) not in json.dumps(found)


def test_a_principal_sees_the_own_records(shop: Site) -> None:
    found = shop.ask("GET", "/v1/audit")[1]["records"]
    assert len(found) == 50 and {each["principal"] for each in found} == {"analyst"}
    assert len(shop.ask("GET", "/v1/audit?limit=1000")[1]["records"]) == 60
    assert shop.ask("GET", "/v1/audit?principal=analyst&limit=2")[1]["records"] == found[:2]
    status, told, _ = shop.ask("GET", "/v1/audit?principal=guest")
    assert status == 403 and "records" not in told
    both = shop.ask("GET", "/v1/audit?limit=1000", who="auditor")[1]["records"]
    assert len(both) == 120
    assert len(shop.ask("GET", "/v1/audit?limit=1000&principal=guest", who="auditor")[1]["records"]) == 60
    assert shop.ask("GET", "/v1/audit?limit=1000", who="chief")[1]["records"] == both


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limit", "a=1", "limit=1&limit=2&a&b&c&d", "%zz", "limit=-1"]
)
def test_what_the_audit_log_is_not_asked(shop: Site, query: str) -> None:
    assert shop.ask("GET", f"/v1/audit?{query}")[0] == 400


def test_health_needs_no_token_and_tells_no_more(shop: Site) -> None:
    assert shop.ask("GET", "/healthz", who=None)[:2] == (200, {"status": "ok"})
    shop.door.is_healthy = False
    try:
        assert shop.ask("GET", "/healthz", who=None)[:2] == (503, {"status": "failing"})
    finally:
        shop.door.is_healthy = True


def test_metrics_are_for_auditors_and_administrators(shop: Site) -> None:
    assert shop.ask("GET", "/metrics", who=None)[0] == 401
    for who in ("analyst", "guest"):
        status, told, _ = shop.ask("GET", "/metrics", who=who)
        assert (status, told["error"]["sqlstate"]) == (403, "42501")
    assert shop.ask("GET", "/metrics", who="chief")[0] == 200
    status, text, headers = shop.ask("GET", "/metrics", who="auditor")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    line = re.compile(r'# (HELP|TYPE) \w+ .+|sqlanon_\w+(\{(\w+="[\w.+]+",?)+\})? [0-9.e+-]+')
    assert all(line.fullmatch(each) for each in text.splitlines())
    assert 'sqlanon_logins_total{door="http",decision="refused"}' in text
    assert not re.search("analyst|guest|visits|R0|SELECT", text)


def test_metrics_without_a_token_are_for_this_machine_and_by_the_policy_alone(shop: Site) -> None:
    shop.door.local_metrics = True
    try:
        assert shop.ask("GET", "/metrics", who=None)[0] == 200
        assert shop.ask("GET", "/metrics", who="guest")[0] == 403, "who says who he is, is that one"
        assert shop.ask("GET", "/v1/budget", who=None)[0] == 401
        for name in ("X-Forwarded-For", "Forwarded", "Via"):  # from behind a proxy on this machine
            assert shop.ask("GET", "/metrics", who=None, headers={name: "1.2.3.4"})[0] == 401
            assert shop.ask("GET", "/metrics", who="auditor", headers={name: "1.2.3.4"})[0] == 200
    finally:
        shop.door.local_metrics = False
    assert shop.ask("GET", "/metrics", who=None)[0] == 401


# Errors


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [("GET", "/", 404, None), ("GET", "/v1", 404, None), ("GET", "/v1/query/", 404, None),
     ("GET", "/v1/query", 405, "POST"),
     ("POST", "/v1/budget", 405, "GET"), ("OPTIONS", "/v1/query", 405, "POST"), ("PUT", "/v1/query", 405, "POST"),
     ("HEAD", "/healthz", 405, "GET"), ("GET", "//v1/budget", 404, None), ("GET", "/v1/../v1/budget", 404, None),
     ("TRACE", "/v1/query", 405, "POST"), ("GET", "/v1/query%20", 404, None)],
)  # fmt: skip
def test_addresses_and_methods(shop: Site, method: str, path: str, status: int, allow: str | None) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", shop.port, timeout=10)) as connection:
        connection.request(method, path)
        response = connection.getresponse()
        assert (response.status, response.headers["Allow"]) == (status, allow)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Refused("no", hint="h", sqlstate="42703", position=8), 400),
        (Refused("no"), 400),
        (Refused("no", sqlstate="42501"), 403),
        (Refused("no", sqlstate="28000"), 403),
        (BudgetExhausted("spent"), 429),
        (Refused("late", sqlstate="57014"), 408),
        (EngineError("broken"), 503),
        (LedgerError("gone"), 503),
        (Refused("full", sqlstate="53300"), 503),
    ],
    ids=lambda value: getattr(value, "sqlstate", value),
)
def test_errors_have_one_shape(shop: Site, error: Any, status: int) -> None:
    shop.door.raises = error
    try:
        found = shop.ask("POST", "/v1/query", {"sql": "SELECT 1"})
    finally:
        shop.door.raises = None
        error.with_traceback(None)  # it lives as long as the module, and would keep the gate that raised it
    assert found[0] == status
    shape = ("message", "detail", "hint", "sqlstate", "position")
    assert found[1] == {"error": {name: getattr(error, name, None) for name in shape}}


@dataclass
class Failure:
    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None
    position: int | None = 3


class Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__("not to be shown")
        self.failure = failure


def test_failures_of_workers_are_told_and_others_are_not(shop: Site) -> None:
    try:
        shop.door.raises = Failed(Failure("42P01", "no such relation"))
        status, found, _ = shop.ask("POST", "/v1/query", {"sql": "SELECT 1"})
        assert status == 400 and found["error"]["message"] == "no such relation" and found["error"]["position"] == 3
        for error in (ValueError("secret of R99"), KeyError("secret"), RecursionError("secret"), MemoryError("secret")):
            shop.door.raises = error
            status, found, _ = shop.ask("POST", "/v1/query", {"sql": "SELECT 1"})
            assert (status, found["error"]["sqlstate"]) == (500, "XX000") and "secret" not in json.dumps(found)
    finally:
        shop.door.raises = None


def test_the_gate_refuses_through_this_door_too(shop: Site) -> None:
    for sql, status, state in (
        ("SELECT * FROM visits", 403, "42501"),
        ("SELECT COUNT(*) FROM nowhere", 400, "42P01"),
        ("SELECT 1; SELECT 2", 400, "42601"),
        ("COPY visits TO '/tmp/x'", 400, "0A000"),
        ("ATTACH 'x' AS y (TYPE sqlite)", 400, "42601"),
    ):
        found = shop.ask("POST", "/v1/query", {"sql": sql})
        assert found[0] == status, (sql, found)
        assert found[1]["error"]["sqlstate"][:2] == state[:2], (sql, found)


@pytest.mark.full
def test_an_exhausted_budget_is_429(tmp_path: Path) -> None:
    with site(tmp_path) as made:
        codes = [
            made.ask("POST", "/v1/query", {"sql": f"SELECT COUNT(*) FROM visits WHERE age > {age}", "epsilon": 2})[0]
            for age in range(50)
        ]
        assert codes == [200] * 45 + [429] * 5


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"sql": 5}', b'{"sql": ""}', b'{"sql": " "}', b'{"sql": "a\\u0000"}',
     b'{"sql": "a", "sqll": 1}', b'{"sql": "a", "sql": "b"}', b'{"sql": "a", "parameters": {}}',
     b'{"sql": "a", "parameters": [[1]]}', b'{"sql": "a", "parameters": [NaN]}', b'{"sql": "a", "parameters": [1e999]}',
     b'{"sql": "a", "parameters": [9223372036854775808]}', b'{"sql": "a", "parameters": ["\\u0000"]}',
     b'{"sql": "a", "epsilon": "1"}', b'{"sql": "a", "epsilon": true}', b'{"sql": "a", "epsilon": 0}',
     b'{"sql": "a", "epsilon": -1}', b'{"sql": "a", "epsilon": Infinity}', b'{"sql": "a", "dry_run": 1}',
     b'{"sql": "a", "dry_run": null}', b'{"sql": "a", "intervals": "on"}',
     b"\xff", b"[" * 100_000, b'{"sql": ' + b"9" * 5000 + b"}",
     b'{"principal": "x"}'],
    ids=lambda body: ascii(body[:40]),
)  # fmt: skip
def test_a_body_that_is_not_understood_is_refused(shop: Site, body: bytes) -> None:
    asked = len(shop.door.asked)
    status, found, _ = shop.ask("POST", "/v1/query", body)
    assert status == 400 and set(found["error"]) == {"message", "detail", "hint", "sqlstate", "position"}
    assert len(shop.door.asked) == asked


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonx"])
def test_a_form_of_a_web_page_is_refused(shop: Site, kind: str) -> None:
    body = json.dumps({"sql": SQL})
    assert shop.ask("POST", "/v1/query", body, headers={"Content-Type": kind})[0] == 415


WORDS = st.sampled_from(["sql", "parameters", "epsilon", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner),
    max_leaves=6,
)


@given(st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_a_statement_or_an_error(body: bytes) -> None:
    try:
        found = read_body(body)
    except HttpError as error:
        assert error.status == 400
    else:
        assert isinstance(found["sql"], str) and isinstance(found["parameters"], list)


# Limits


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    limits = HttpLimits(connections=8, unauthenticated=3, body=20_000, result=1500, head=0.6, transfer=1.0)
    with site(tmp_path_factory.mktemp("narrow"), limits) as made:
        yield made


def test_long_bodies_are_refused_before_they_are_read(narrow: Site) -> None:
    token = narrow.tokens["analyst"]
    head = f"POST /v1/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    for length in ("20001", "99999999999999999", "9" * 19):
        said = narrow.raw(f"{head}Content-Length: {length}\r\n\r\n".encode())
        assert said.startswith(b"HTTP/1.1 413"), length
    endless = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + (b"1000\r\n" + b" " * 4096 + b"\r\n") * 10
    assert narrow.raw(endless).startswith(b"HTTP/1.1 413")
    fits = {"sql": "SELECT region FROM regions LIMIT 1 -- " + "x" * 19_000}
    assert narrow.ask("POST", "/v1/query", fits)[0] == 200


def test_a_stranger_cannot_send_a_long_body(narrow: Site) -> None:
    said = narrow.raw(b"POST /v1/query HTTP/1.1\r\nHost: x\r\nContent-Length: 19000\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 401")
    assert narrow.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 19000\r\n\r\n").startswith(b"HTTP/1.1 413")


def test_long_answers_are_refused(narrow: Site) -> None:
    sql = "SELECT a.region FROM regions a, regions b, regions c, regions d"
    status, found, _ = narrow.ask("POST", "/v1/query", {"sql": sql})
    assert (status, found["error"]["message"]) == (400, "the answer is too long")


def test_long_heads_are_refused(narrow: Site) -> None:
    for head in (b"GET /" + b"a" * 40_000, b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 40_000):
        assert narrow.raw(head)[:12] in (b"HTTP/1.1 431", b"HTTP/1.1 400")


def test_slow_requests_end(narrow: Site) -> None:
    started = time.monotonic()
    assert narrow.raw(b"") == b""
    assert narrow.raw(b"GET /healthz HT").startswith(b"HTTP/1.1 408")
    head = f"POST /v1/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {narrow.tokens['analyst']}\r\n"
    head += "Content-Length: 10\r\n\r\n"
    assert narrow.raw(head.encode() + b"{").startswith(b"HTTP/1.1 408")
    assert time.monotonic() - started < 8


def test_half_open_connections_keep_nobody_out(narrow: Site) -> None:
    opened = []
    try:
        for _ in range(60):
            connection = socket.create_connection(("127.0.0.1", narrow.port), timeout=5)
            connection.sendall(b"GET /v1/bud")
            opened.append(connection)
        started = time.monotonic()
        assert narrow.ask("GET", "/v1/budget")[0] == 200
        assert time.monotonic() - started < 2
    finally:
        for connection in opened:
            connection.close()


def test_too_many_known_clients_are_told(narrow: Site) -> None:
    opened = []
    try:
        codes = []
        for _ in range(9):
            connection = http.client.HTTPConnection("127.0.0.1", narrow.port, timeout=5)
            opened.append(connection)
            codes.append(narrow.on(connection, "GET", "/v1/budget")[0])
        assert codes == [200] * 8 + [503]
    finally:
        for connection in opened:
            connection.close()
    deadline = time.monotonic() + 5
    while narrow.ask("GET", "/v1/budget")[0] != 200:
        assert time.monotonic() < deadline


def test_who_hangs_up_stops_the_statement(shop: Site) -> None:
    shop.door.cancelled.clear()
    body = json.dumps({"sql": "SLEEP"})
    head = (
        f"POST /v1/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {shop.tokens['analyst']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    with socket.create_connection(("127.0.0.1", shop.port), timeout=5) as connection:
        connection.sendall(head.encode())
        time.sleep(0.2)
        assert not shop.door.cancelled.is_set()
    assert shop.door.cancelled.wait(2)


def test_the_end_of_the_server_stops_statements(tmp_path: Path) -> None:
    with site(tmp_path) as made:
        thread = threading.Thread(target=lambda: suppress_all(made))
        thread.start()
        time.sleep(0.3)
    assert made.door.cancelled.wait(2)
    thread.join(5)


def suppress_all(made: Site) -> None:
    with suppress(Exception):
        made.ask("POST", "/v1/query", {"sql": "SLEEP"})


PIECES = [
    b"GET ", b"POST ", b"/v1/query", b"/healthz", b" HTTP/1.1", b"\r\n", b"\n", b"Host: x", b"Content-Length: ",
    b"5", b"-1", b"Transfer-Encoding: chunked", b"\r\n\r\n", b"\x00", b"\x80", b":", b"ffffffffffff\r\n",
]  # fmt: skip
GARBAGE = st.binary(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join)


@settings(max_examples=examples(150), deadline=None)
@given(GARBAGE)
def test_garbage_gets_an_error_or_nothing(shop: Site, data: bytes) -> None:
    asked = len(shop.door.asked)
    with socket.create_connection(("127.0.0.1", shop.port), timeout=5) as connection:
        with suppress(ConnectionError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        said = b""
        with suppress(ConnectionError):
            while more := connection.recv(65536):
                said += more
    assert said == b"" or said.startswith(b"HTTP/1.1 ")
    assert b"Traceback" not in said and len(shop.door.asked) == asked
    assert shop.ask("GET", "/healthz", who=None)[0] == 200


def test_no_connection_is_left_behind(shop: Site) -> None:
    deadline = time.monotonic() + 5
    while shop.server._clients or shop.server._waiting:
        assert time.monotonic() < deadline, "connections are still open"
        time.sleep(0.05)


# TLS


def test_over_tls(tmp_path: Path) -> None:
    made = tls.load(*certificate(tmp_path))
    limits = HttpLimits(unauthenticated=3, head=1.0)
    with site(tmp_path, limits, made.context) as secured:
        trusted = ssl.create_default_context(cafile=str(tmp_path / "server.crt"))
        connection = http.client.HTTPSConnection("localhost", secured.port, timeout=10, context=trusted)
        with closing(connection):
            for _ in range(2):
                assert secured.on(connection, "POST", "/v1/query", {"sql": SQL})[0] == 200
            assert secured.on(connection, "GET", "/v1/budget")[0] == 200
        assert b"HTTP" not in secured.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")  # not without it
        silent = [socket.create_connection(("127.0.0.1", secured.port)) for _ in range(30)]
        with closing(http.client.HTTPSConnection("localhost", secured.port, timeout=10, context=trusted)) as again:
            assert secured.on(again, "GET", "/v1/budget")[0] == 200
        for each in silent:
            each.close()


def test_tables_are_those_of_the_principal(shop: Site) -> None:
    assert [each["name"] for each in shop.ask("GET", "/v1/tables")[1]["tables"]] == ["visits"]
    assert shop.ask("GET", "/v1/tables", who="auditor")[1]["tables"] == []


def test_the_description_names_every_path_and_what_it_takes(shop: Site) -> None:
    """Its keys are those that the door accepts, and no others."""
    status, found, _ = shop.ask("GET", "/v1/openapi.json")
    assert status == 200 and found["openapi"] == "3.1.0"
    told = {path: [method.upper() for method in methods] for path, methods in found["paths"].items()}
    assert told == {path: [method] for path, method in ROUTES.items()}
    assert set(found["components"]["schemas"]["Statement"]["properties"]) == set(KEYS)
    text = json.dumps(found)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in found["components"]["schemas"]
