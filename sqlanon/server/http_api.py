"""What the HTTP door says: requests in, JSON out. No sockets here, and no data: statements go through the one door."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs
from uuid import UUID

from sqlanon.errors import Refused, SqlanonError, did_you_mean
from sqlanon.gateway.read_error import read_error
from sqlanon.policy.gateway import Principal
from sqlanon.server.audit_chain import recent
from sqlanon.server.login_log import Logins
from sqlanon.server.metrics import Metrics
from sqlanon.server.openapi import describe_api
from sqlanon.server.users import Users, UsersError

MOST_PARAMETERS = 65_535
LARGE = 2**16  # bytes of JSON: more is read and written in a thread, so that others need not wait
ROUTES = {
    "/v1/query": "POST",
    "/v1/explain": "POST",
    "/v1/budget": "GET",
    "/v1/tables": "GET",
    "/v1/audit": "GET",
    "/v1/openapi.json": "GET",
    "/healthz": "GET",
    "/metrics": "GET",
}
KEYS = ("sql", "parameters", "epsilon", "error", "dry_run", "intervals")


@dataclass(frozen=True)
class Result:
    """An answer: columns with the names of their types, rows, and what is to be said about it."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]]
    summary: Any = None  # a mapping or a dataclass


class QueryDoor(Protocol):
    """The choke point: it charges, audits and answers. Errors carry sqlstate, message, detail, hint and position."""

    async def query(
        self, principal: str, sql: str, parameters: Sequence[Any], *, epsilon: float | None, dry_run: bool, door: str,
        intervals: bool = False, error: float | None = None,
    ) -> Result: ...  # fmt: skip

    async def explain(
        self, principal: str, sql: str, parameters: Sequence[Any], *, epsilon: float | None, dry_run: bool, door: str,
        intervals: bool = False, error: float | None = None,
    ) -> Result: ...  # fmt: skip

    async def budget(self, principal: str) -> Mapping[str, Any]: ...

    def tables(self, principal: str) -> Sequence[Mapping[str, Any]]: ...

    def healthy(self) -> bool: ...


@dataclass(frozen=True)
class HttpRequest:
    method: str
    target: str
    headers: Mapping[str, str]  # names in lower case
    peer_is_local: bool = False
    peer: str = ""  # its address

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    kind: str = "application/json"


class HttpError(SqlanonError):
    """An error of the request itself, with its status."""

    def __init__(
        self, status: int, message: str, *, hint: str | None = None, sqlstate: str = "22023", allow: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.sqlstate = sqlstate
        self.allow = allow


@dataclass
class Api:
    """The requests of one server. `users` and `principals` are asked anew for each, so that changes count at once."""

    door: QueryDoor
    users: Callable[[], Users]
    principals: Callable[[], Mapping[str, Principal]]
    audit: Path
    metrics: Metrics = field(default_factory=Metrics)
    logins: Logins | None = None
    administrators: Callable[[], Collection[str]] = tuple
    local_metrics: Callable[[], bool] = bool  # whether they need no token on this machine

    def admit(self, request: HttpRequest) -> str | None:
        """Whose request it is, before its body is read; None where nobody needs to be known."""
        allowed = ROUTES.get(request.path)
        if allowed is None:
            raise HttpError(404, "there is no such path", hint=f"there are {', '.join(ROUTES)}", sqlstate="42704")
        if request.method != allowed:
            raise HttpError(405, f"{request.path} takes {allowed}", sqlstate="0A000", allow=allowed)
        if request.path == "/healthz":
            return None
        # What came through another server on this machine is not from this machine.
        forwarded = any(name in request.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip", "via"))
        local = request.peer_is_local and not forwarded and "authorization" not in request.headers
        if request.path == "/metrics" and local and self.local_metrics():
            return None
        owner = self._owner(request)
        if request.path == "/metrics" and not self._sees_all(owner):
            # Sums over everybody: someone who looks often enough sees when others ask, and what it costs them.
            hint = "a token of an auditor or administrator is needed"
            raise HttpError(403, "you may not read the metrics", hint=hint, sqlstate="42501")
        return owner

    def _sees_all(self, principal: str) -> bool:
        known = self.principals().get(principal)
        return known is not None and (known.auditor or principal in self.administrators())

    async def admitted(self, principal: str, request: HttpRequest) -> None:
        """The first request of a connection with a valid token is written down as a login."""
        if self.logins is not None:
            await self.logins.succeeded(principal, "", "http", request.peer)

    def _owner(self, request: HttpRequest) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            owner = self.users().owner(token.strip()) if scheme.casefold() == "bearer" else None
        except UsersError:
            raise HttpError(503, "tokens cannot be checked now", sqlstate="58030") from None
        known = owner is not None and owner in self.principals()
        self.metrics.logins.add(1, door="http", decision="answered" if known else "refused")
        if owner is None or not known:
            if self.logins is not None:
                self.logins.refused(owner or "", "http", request.peer, "28000")
            hint = "'sqlanon user token' makes one"
            raise HttpError(401, "a valid bearer token is needed", hint=hint, sqlstate="28000")
        return owner

    async def answer(self, request: HttpRequest, principal: str | None, body: bytes) -> Response:
        """Answer a request that was admitted; whatever goes wrong is raised, and told by `failure`."""
        if request.path == "/healthz":
            healthy = self.door.healthy()
            return Response(200 if healthy else 503, _json({"status": "ok" if healthy else "failing"}))
        if request.path == "/metrics":
            self.metrics.healthy.set(float(self.door.healthy()))
            return Response(200, self.metrics.text().encode(), kind="text/plain; version=0.0.4; charset=utf-8")
        assert principal is not None
        if request.path == "/v1/budget":
            return Response(200, _json(plain(await self.door.budget(principal))))
        if request.path == "/v1/tables":
            return Response(200, _json({"tables": plain(list(self.door.tables(principal)))}))
        if request.path == "/v1/openapi.json":
            return Response(200, _json(describe_api(ROUTES)))
        if request.path == "/v1/audit":
            return await self._audit(request, principal)
        asked = await _asked(request, body)
        run = self.door.query if request.path == "/v1/query" else self.door.explain
        found = await run(
            principal,
            asked["sql"],
            asked["parameters"],
            epsilon=asked["epsilon"],
            error=asked["error"],
            dry_run=asked["dry_run"],
            door="http",
            intervals=asked["intervals"],
        )
        return Response(200, await asyncio.to_thread(_result, found) if len(found.rows) > 200 else _result(found))

    async def _audit(self, request: HttpRequest, principal: str) -> Response:
        limit, of = _audit_query(request.target.partition("?")[2])
        auditor = self._sees_all(principal)
        if of is not None and of != principal and not auditor:
            raise HttpError(403, "you may read your own records only", hint="leave 'principal' out", sqlstate="42501")
        found = await asyncio.to_thread(recent, self.audit, of if auditor else principal, limit)
        return Response(200, await asyncio.to_thread(_json, {"records": found}))


def _audit_query(text: str) -> tuple[int, str | None]:
    hint = "it takes limit, from 1 to 1000, and principal"
    try:
        given = parse_qs(text, strict_parsing=bool(text), max_num_fields=4, errors="strict", keep_blank_values=True)
        limit = int(given.pop("limit", ["50"])[-1])
        principal = given.pop("principal", [None])[-1]
    except ValueError:
        raise HttpError(400, "the address has unknown options", hint=hint) from None
    if given or not 1 <= limit <= 1000:
        raise HttpError(400, "the address has unknown options", hint=hint)
    return limit, principal


# ---- requests


async def _asked(request: HttpRequest, body: bytes) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json":
        raise HttpError(415, "the body is not JSON", hint="send it with Content-Type: application/json")
    return await asyncio.to_thread(read_body, body) if len(body) > LARGE else read_body(body)


def read_body(body: bytes) -> dict[str, Any]:
    """A statement: what it takes is checked here, once."""
    try:
        data = json.loads(body, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise HttpError(400, "the body is not JSON", hint='send {"sql": "SELECT …"}') from None
    if not isinstance(data, dict):
        raise HttpError(400, "the body is not an object", hint='send {"sql": "SELECT …"}')
    for key in data:
        if key not in KEYS:
            hint = did_you_mean(key[:40], KEYS) or f"the keys are {', '.join(KEYS)}"
            raise HttpError(400, "the body has an unknown key", hint=hint)
    sql, parameters, epsilon = data.get("sql"), data.get("parameters", []), data.get("epsilon")
    if not isinstance(sql, str) or not sql.strip() or "\0" in sql:
        raise HttpError(400, "'sql' must be text", hint='send {"sql": "SELECT …"}')
    if not isinstance(parameters, list) or len(parameters) > MOST_PARAMETERS or not all(map(_is_scalar, parameters)):
        raise HttpError(400, "'parameters' must be a list of texts, numbers, true, false and null")
    if epsilon is not None and not (type(epsilon) in (int, float) and 0 < epsilon <= 1000):
        raise HttpError(400, "'epsilon' must be a number greater than 0")
    error = data.get("error")
    if error is not None:
        try:
            error = read_error(error)
        except Refused as refused:
            raise HttpError(400, f"'error': {refused.message}", hint=refused.hint) from None
    switches = {name: data.get(name, False) for name in ("dry_run", "intervals")}
    for name, value in switches.items():
        if type(value) is not bool:
            raise HttpError(400, f"'{name}' must be true or false")
    wanted = float(epsilon) if epsilon is not None else None
    return {"sql": sql, "parameters": parameters, "epsilon": wanted, "error": error, **switches}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError  # two readers could take another one each
    return made


def _refuse(word: str) -> Any:
    raise ValueError  # NaN and Infinity are no JSON


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" not in value
    return value is None or isinstance(value, bool) or (isinstance(value, int | float) and _is_finite(value))


def _is_finite(value: int | float) -> bool:
    return math.isfinite(value) if isinstance(value, float) else -(2**63) <= value < 2**63


# ---- responses


def failure(error: BaseException) -> Response:
    """One shape for all errors. What is not known to be fit for clients is told as nothing but a failure."""
    told: Any = getattr(error, "failure", error)  # of a worker, or of our own
    state, message = getattr(told, "sqlstate", None), getattr(told, "message", None)
    if not isinstance(state, str) or not isinstance(message, str):
        return _error(500, "the statement could not be answered", None, None, "XX000", None)
    status = error.status if isinstance(error, HttpError) else status_of(state)
    headers: list[tuple[str, str]] = []
    if status == 401:
        headers.append(("WWW-Authenticate", 'Bearer realm="sqlanon"'))
    if isinstance(error, HttpError) and error.allow:
        headers.append(("Allow", error.allow))
    detail, hint, position = (getattr(told, name, None) for name in ("detail", "hint", "position"))
    return _error(status, message, detail, hint, state, position, tuple(headers))


def status_of(sqlstate: str) -> int:
    """
    >>> [status_of(state) for state in ("42703", "42501", "53400", "57014", "58030", "XX000", "28000")]
    [400, 403, 429, 408, 503, 500, 403]
    """
    exact = {"42501": 403, "53400": 429, "57014": 408}
    classes = {"28": 403, "53": 503, "57": 503, "58": 503, "08": 503, "XX": 500}
    return exact.get(sqlstate) or classes.get(sqlstate[:2], 400)


def _error(
    status: int, message: str, detail: Any, hint: Any, sqlstate: str, position: Any,
    headers: tuple[tuple[str, str], ...] = (),
) -> Response:  # fmt: skip
    told = {"message": message, "detail": detail, "hint": hint, "sqlstate": sqlstate, "position": position}
    return Response(status, _json({"error": told}), headers)


def _result(found: Result) -> bytes:
    columns = [{"name": name, "type": kind} for name, kind in found.columns]
    rows = [[plain(value) for value in row] for row in found.rows]
    return _json({"columns": columns, "rows": rows, "summary": plain(found.summary)})


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has no word for is text.

    >>> plain([Decimal("1.10"), float("nan"), b"a", date(2026, 1, 31), 2**60])
    ['1.10', 'NaN', '\\\\x61', '2026-01-31', 1152921504606846976]
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | UUID | timedelta) else None


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
