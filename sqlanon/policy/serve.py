"""The section `serve` of a policy: where the proxy listens, what it may use, and where users and audit log are kept.

A sibling of `gateway` in the same file; each key may be left out, and so may the section.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, PlainValidator, PrivateAttr, field_validator
from pydantic.json_schema import JsonSchemaValue, WithJsonSchema
from pydantic_core import CoreSchema

from sqlanon.errors import did_you_mean
from sqlanon.policy.checks import Draft
from sqlanon.policy.gateway import Gateway, Number
from sqlanon.policy.gateway_column import Flag, Part, Text, wrong
from sqlanon.policy.marginals import Marginals
from sqlanon.policy.schedule import Schedule
from sqlanon.policy.shape import Expected, describe
from sqlanon.policy.yaml_lines import KeyPath, Origin, PolicyProblem

UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}
SIZE = re.compile(r"([0-9]{1,12}) ?([kKMG]?B)", re.IGNORECASE)


def _size(least: int, most: int) -> Callable[[Any], int]:
    """Reads a number of bytes, written as PostgreSQL writes one: "16MB"; a kB has 1024 bytes."""

    def read(value: Any) -> int:
        found = SIZE.fullmatch(value) if isinstance(value, str) else None
        if found is not None:
            value = int(found[1]) * UNITS[found[2].upper()]
        if type(value) is not int:
            shown = f"'{value[:40]}'" if isinstance(value, str) else describe(value)
            raise wrong(f"must be a size such as 16MB, not {shown}", "the units are B, kB, MB and GB")
        if not least <= value <= most:
            raise wrong(
                f"must be a size from {size_text(least)} to {size_text(most)}", "the units are B, kB, MB and GB"
            )
        return value

    return read


def size_text(size: int) -> str:
    """
    >>> size_text(2**24), size_text(3 * 2**30), size_text(100)
    ('16MB', '3GB', '100B')
    """
    unit = next(unit for unit in ("GB", "MB", "KB", "B") if size % UNITS[unit] == 0)
    return f"{size // UNITS[unit]}{unit.replace('K', 'k')}"


Port = Annotated[int, Field(strict=True, ge=0, le=65_535), Expected("a port from 0 to 65535")]
Count = Annotated[int, Field(strict=True, ge=1, le=10_000), Expected("an integer from 1 to 10000")]
Seconds = Annotated[
    Number, Field(gt=0, le=2_592_000), Expected("a number of seconds greater than 0, at most 2592000 (30 days)")
]
_SIZE_SCHEMA = {"anyOf": [{"type": "string", "pattern": "^[0-9]+ ?[kKMG]?B$"}, {"type": "integer"}]}
Memory = Annotated[int, PlainValidator(_size(2**28, 2**40)), WithJsonSchema(_SIZE_SCHEMA)]
Message = Annotated[int, PlainValidator(_size(2**16, 2**29)), WithJsonSchema(_SIZE_SCHEMA)]
Result = Annotated[int, PlainValidator(_size(2**20, 2**40)), WithJsonSchema(_SIZE_SCHEMA)]


class Tls(Part):
    """Certificate and private key, as PEM files."""

    certificate: Text = Field(description="PEM file with the certificate, and those that it needs after it.")
    key: Text = Field(description="PEM file with the private key, which only its owner may read.")


class Http(Part):
    """The HTTP door; written `off` for none."""

    port: Port = Field(description="Port of the HTTP door, on the same host; 0 takes a free one.")
    local_metrics: Flag = Field(
        False,
        description="Whether programs on this machine read /metrics without a token; else auditors and administrators.",
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"const": "off"}, handler.resolve_ref_schema(handler(core))]}


class ServeLimits(Part):
    """How much clients may use."""

    connections: Count = Field(100, description="Most clients at a time.")
    unauthenticated: Count = Field(20, description="Most clients at a time that have not yet given their password.")
    statements: Count = Field(16, description="Most statements of one principal at a time, running or waiting.")
    wrong_passwords: Count = Field(
        10, description="Most wrong passwords in a minute, of one user from one address; five times as many in all."
    )
    message: Message = Field(16 * 2**20, description="Longest message of a client, such as 16MB.")
    result: Result = Field(256 * 2**20, description="Most bytes of one answer, such as 256MB.")


class Timeouts(Part):
    """Seconds after which a client is sent away."""

    authentication: Seconds = Field(10.0, description="Seconds in which a client must give its password.")
    idle: Seconds = Field(3600.0, description="Seconds that a client may be idle.")
    statement: Annotated[Seconds | None, Expected("a number of seconds greater than 0, at most 2592000 (30 days)")] = (
        Field(None, description="Seconds that a statement may run; the timeout of the gateway if left out.")
    )


class Serve(Part):
    """Where the proxy listens, and what it may use."""

    host: Text = Field("127.0.0.1", description="Address that clients connect to; off loopback it needs tls.")
    port: Port = Field(6543, description="Port that clients connect to; 0 takes a free one.")
    database: Text | None = Field(None, description="Database name that clients give; that of the file if left out.")
    users: Text | None = Field(None, description="File with the users; beside the policy if left out.")
    audit: Text | None = Field(None, description="File with the audit log; beside the policy if left out.")
    tls: Annotated[Tls | None, Expected("a mapping such as {certificate: server.crt, key: server.key}")] = Field(
        None, description="Certificate and private key; needed off loopback."
    )
    workers: Annotated[int, Field(strict=True, ge=1, le=256), Expected("an integer from 1 to 256")] = Field(
        3, description="Processes that answer statements."
    )
    memory: Memory = Field(2 * 2**30, description="Most memory of one worker, such as 2GB.")
    limits: Annotated[ServeLimits, Expected("a mapping such as {connections: 100, message: 16MB}")] = Field(
        default_factory=ServeLimits, description="How many clients there may be, and how much each may send and get."
    )
    timeouts: Annotated[Timeouts, Expected("a mapping such as {authentication: 10, idle: 3600}")] = Field(
        default_factory=Timeouts, description="How long a client may take."
    )
    http: Annotated[Http | None, Expected("'off', or a mapping such as {port: 8080}")] = Field(
        None, description="The HTTP door; off if left out."
    )
    console: Flag = Field(False, description="Whether the HTTP door also shows the web console; it needs http.")
    policies: Text | None = Field(
        None, description="Folder of the policies that owners keep over SQL; they keep none if left out."
    )
    dry_run: Flag | tuple[Text, ...] = Field(
        False, description="Who gets answers from synthetic data only: everybody, nobody, or these principals."
    )
    administrators: tuple[Text, ...] = Field(
        (),
        description="Principals who may try the rights of others, on synthetic data, and read audit log and metrics.",
    )
    _origin: Origin = PrivateAttr(default_factory=Origin)
    _gateway: Gateway | None = PrivateAttr(None)

    @field_validator("http", mode="before")
    @classmethod
    def _off(cls, value: Any) -> Any:
        return None if value == "off" else value

    @field_validator("dry_run", mode="before")
    @classmethod
    def _who(cls, value: Any) -> Any:
        if not isinstance(value, bool | list | tuple):
            raise wrong(f"must be true, false, or a list of principals, not {describe(value)}", "write [intern]")
        return value

    @property
    def gateway(self) -> Gateway:
        """The gateway that is served, from the same file."""
        assert self._gateway is not None  # `load_serve` gives no section without one
        return self._gateway

    @property
    def name(self) -> str:
        """Name of the file, as errors show it."""
        return self._origin.name

    @property
    def database_name(self) -> str:
        """What clients give as the name of the database."""
        return self.database or Path(self.name).stem

    @property
    def located_users(self) -> Path:
        """The file of users, seen from the working directory."""
        return self._origin.base / (self.users or f"{Path(self.name).stem}.users")

    @property
    def located_audit(self) -> Path:
        """The audit log, seen from the working directory."""
        return self._origin.base / (self.audit or f"{Path(self.name).stem}.audit.jsonl")

    @property
    def located_policies(self) -> Path | None:
        """The folder of policies that owners keep over SQL, seen from the working directory."""
        return self._origin.base / self.policies if self.policies is not None else None

    @property
    def located_tls(self) -> tuple[Path, Path] | None:
        """Certificate and key, seen from the working directory."""
        return (self._origin.base / self.tls.certificate, self._origin.base / self.tls.key) if self.tls else None

    @property
    def statement_timeout(self) -> float:
        return self.timeouts.statement or self.gateway.timeout

    def is_dry(self, principal: str) -> bool:
        """Whether this principal is answered from made-up data only."""
        return self.dry_run if isinstance(self.dry_run, bool) else principal in self.dry_run

    def line_of(self, *path: str | int) -> int | None:
        return self._origin.line_of("serve", *path)


class GatewayFile(Part):
    """A file that holds a gateway, and nothing to publish."""

    gateway: Gateway = Field(description="What the query gateway protects, how far, and who may ask.")
    serve: Serve | None = Field(None, description="Where the proxy listens, and what it may use.")
    marginals: Marginals | None = Field(None, description="Counts with differential privacy.")
    schedule: Schedule | None = Field(None, description="When the marginals are refreshed.")
    _origin: Origin = PrivateAttr(default_factory=Origin)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "db.example.org")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


def is_text(path: KeyPath) -> bool:
    """Where, below `serve`, a number or boolean is meant as text."""
    match path:
        case ("host" | "database" | "users" | "audit" | "policies",) | ("tls", _) | ("dry_run" | "administrators", _):
            return True
    return False


# ---- what the parts say about each other, and about the gateway


def problems(draft: Draft) -> Iterator[PolicyProblem]:
    if "serve" in draft.data and "gateway" not in draft.data:
        hint = "add the section 'gateway', which says what is served"
        yield PolicyProblem("the file has a section 'serve' but no 'gateway'", hint, ("serve",))
    if isinstance(draft.data.get("serve"), Mapping):
        for check in CHECKS:
            yield from check(draft)


def check_host(draft: Draft) -> Iterator[PolicyProblem]:
    section = draft.mapping("serve")
    host = section.get("host")
    if not isinstance(host, str) or not host:
        return
    if not re.fullmatch(r"[0-9A-Za-z_.:%-]+", host):
        hint = "it is a name or an address, without a port; 0.0.0.0 stands for all addresses"
        yield PolicyProblem(f"'host' cannot be '{host}'", hint, ("serve", "host"))
    elif not is_loopback(host) and "tls" not in section:
        hint = "add 'tls: {certificate: server.crt, key: server.key}', or use 127.0.0.1"
        yield PolicyProblem(f"the host '{host}' can be reached from elsewhere, and needs tls", hint, ("serve", "host"))


def check_ports(draft: Draft) -> Iterator[PolicyProblem]:
    port = draft.mapping("serve").get("port", 6543)
    http = draft.mapping("serve", "http").get("port")
    if type(http) is int and http == port and http != 0:
        yield PolicyProblem(f"both doors have the port {http}", "give each its own", ("serve", "http", "port"))


def check_console(draft: Draft) -> Iterator[PolicyProblem]:
    section = draft.mapping("serve")
    if section.get("console") is True and not isinstance(section.get("http"), Mapping):
        hint = "add 'http: {port: 8080}', or start the console by itself: 'sqlanon console POLICY'"
        yield PolicyProblem("the web console is pages of the HTTP door, and there is none", hint, ("serve", "console"))


def check_files(draft: Draft) -> Iterator[PolicyProblem]:
    """One file for two purposes would be overwritten by one of them."""
    stem = Path(draft.origin.name).stem
    gateway, section = draft.mapping("gateway"), draft.mapping("serve")
    known = {
        "the database": gateway.get("database"),
        "the ledger": gateway.get("ledger", f"{stem}.ledger"),
        "the policy": draft.origin.name,
        "the certificate": draft.mapping("serve", "tls").get("certificate"),
        "the private key": draft.mapping("serve", "tls").get("key"),
    }
    files = {posixpath.normpath(path): what for what, path in known.items() if isinstance(path, str) and path}
    for key, what in (("users", "the file of users"), ("audit", "the audit log")):
        path = section.get(key, f"{stem}.users" if key == "users" else f"{stem}.audit.jsonl")
        if not isinstance(path, str) or not path:
            continue
        if "://" in path:
            yield PolicyProblem(f"'{key}' is a file, not a URL", f"write '{key}: {stem}.{key}'", ("serve", key))
        other = files.setdefault(posixpath.normpath(path), what)
        if other != what:
            yield PolicyProblem(f"{what} cannot be {other}", "give it a file of its own", ("serve", key))


def check_principals(draft: Draft) -> Iterator[PolicyProblem]:
    known = list(draft.mapping("gateway", "principals") or ["analyst"])
    for key in ("dry_run", "administrators"):
        listed = draft.mapping("serve").get(key)
        for index, name in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(name, str) and name not in known:
                hint = did_you_mean(name, known) or f"there are {', '.join(known[:20])}"
                yield PolicyProblem(f"the gateway has no principal '{name}'", hint, ("serve", key, index))


def check_times(draft: Draft) -> Iterator[PolicyProblem]:
    """Answers about persons that would leave after the timeout of a statement are refused."""
    most, wait = draft.mapping("serve", "timeouts").get("statement"), draft.mapping("gateway").get("answer_time", 2.0)
    if isinstance(most, int | float) and isinstance(wait, int | float) and 0 < most < wait:
        hint = "raise the timeout to some times of it, or lower the answer_time of the gateway"
        said = f"a statement may take {most:g} s, and answers about persons leave after {wait:g} s"
        yield PolicyProblem(said, hint, ("serve", "timeouts", "statement"))


CHECKS: tuple[Callable[[Draft], Iterator[PolicyProblem]], ...] = (
    check_host,
    check_ports,
    check_console,
    check_files,
    check_principals,
    check_times,
)
