"""What the server and its workers say to each other.

To a worker: pickled messages, from the server that started it. From a worker: a JSON header and raw bytes, which can
carry no code, because a worker reads what strangers wrote.
"""

from __future__ import annotations

import json
import pickle
import struct
import sys
from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from sqlanon.errors import SqlanonError
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.pgwire.types import by_oid
from sqlanon.policy.gateway import Gateway

HEADER = struct.Struct(">II")  # bytes of the JSON header, bytes of the body
LENGTH = struct.Struct(">I")
MAX_HEADER = 16 * 2**20
MAX_BODY = 64 * 2**20

# As the audit log writes them: entries of earlier versions say "catalogue", so it keeps this spelling.
AnswerKind = Literal["dp", "plain", "catalogue", "explain", "synthetic", "controlled"]
WorkerKind = Literal["query", "catalog"]


@dataclass(frozen=True)
class RowChunk:
    """Rows as a worker encoded them: messages one after the other, and where each row's ends, as an offset into `data`.
    The server slices them and needs no numpy for that."""

    data: bytes
    ends: array[int]


def unpack_ends(body: bytes) -> array[int]:
    """The ends of rows from a chunk: 8 bytes each, the lowest first.

    >>> unpack_ends(b"\\x05" + bytes(7) + b"\\x00\\x01" + bytes(6)).tolist()
    [5, 256]
    """
    found = array("q", body)
    if sys.byteorder == "big":
        found.byteswap()
    return found


@dataclass(frozen=True)
class CopyOptions:
    """COPY (…) TO STDOUT: how its rows are written. What stands before and after them is the server's to send."""

    format: Literal["text", "csv", "binary"] = "text"
    delimiter: str | None = None
    null: str | None = None
    quote: str = '"'
    escape: str | None = None
    force_quote: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ask:
    """A statement of a principal. `types` are oids of parameters, 0 where a client does not say."""

    sql: str
    principal: str
    parameters: tuple[Any, ...] = ()
    types: tuple[int, ...] = ()
    epsilon: float | None = None
    error: float | None = None  # that is asked for in place of an epsilon
    formats: tuple[int, ...] = ()  # of results: none is all text, one is for all, or one a column
    copy: CopyOptions | None = None
    dry_run: bool = False
    intervals: bool = False  # error bars are wanted, as columns of their own
    dialect: str = "postgres"
    timeout: float = 30.0
    settings: tuple[tuple[str, str], ...] = ()
    process: int = 0  # what the client knows the session by

    @property
    def sent(self) -> tuple[int, ...]:
        """The formats of the cells that are sent: those of COPY are all alike."""
        return self.formats if self.copy is None else (int(self.copy.format == "binary"),)


@dataclass(frozen=True)
class Described:
    columns: tuple[ResultColumn, ...]
    parameters: tuple[int, ...]  # oids

    def as_json(self) -> dict[str, Any]:
        columns = [[each.name, each.type.oid, each.typmod, each.table, each.attribute] for each in self.columns]
        return {"columns": columns, "parameters": list(self.parameters)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Described:
        columns = (ResultColumn(str(name), by_oid(int(oid)), *map(int, rest)) for name, oid, *rest in data["columns"])
        return cls(tuple(columns), tuple(map(int, data["parameters"])))


@dataclass(frozen=True)
class Summary:
    """What an answer was, for notices and the audit log. Of a plain answer that is read on, `rows` come last."""

    rows: int
    kind: AnswerKind
    epsilon: float = 0.0  # spent now
    delta: float = 0.0
    left_epsilon: float | None = None
    left_delta: float | None = None
    cached: bool = False
    withheld: int = 0
    threshold: int | None = None  # persons that a group takes to be shown, noise aside: of query and policy alone
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # "table.column"
    shape: str = ""  # the statement with every literal replaced by ?
    without_bars: tuple[str, ...] = ()  # columns of numbers that have noise, and no error bars

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Summary:
        lists = {name: tuple(map(str, data[name])) for name in ("tables", "columns", "without_bars")}
        return cls(**{**data, **lists})


@dataclass(frozen=True)
class Failure:
    """Why a statement is not answered, as a client is told."""

    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None
    position: int | None = None


class Failed(SqlanonError):
    """A worker's failure, raised where its answer was awaited."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, detail=failure.detail, hint=failure.hint)
        self.failure = failure
        self.sqlstate = failure.sqlstate
        self.position = failure.position


CANCELLED = Failure("57014", "canceling statement due to user request")
LATE = Failure("57014", "canceling statement due to statement timeout")
NO_MEMORY = Failure("53200", "the statement needs more memory than it may use", hint="ask for less at a time")
UNKNOWN = Failure("XX000", "the statement could not be answered")
DIED = Failure("58000", "the statement could not be answered; its cost may stay charged")
# What the gateway itself says of all that fails after a charge, so that nobody can tell the one from the other.
CHARGED = Failure(
    "58000",
    "the statement could not be answered",
    hint="its cost stays charged; ask for less at a time, or tell the owner of the data",
)
TOO_MANY = Failure("53300", "too many statements are waiting", hint="try again later")


def failure_of(error: BaseException) -> Failure:
    """What is told of an error. Of one that is not our own, nothing: its text may hold data."""
    if isinstance(error, Failed):
        return error.failure
    if isinstance(error, SqlanonError):
        position = getattr(error, "position", None)
        return Failure(error.sqlstate, error.message, error.detail, error.hint, position)
    if isinstance(error, MemoryError):
        return NO_MEMORY
    if isinstance(error, KeyboardInterrupt):
        return CANCELLED
    return UNKNOWN


# ---- to a worker


@dataclass(frozen=True)
class Opening:
    """The first message to a worker: what it is, and what it may use."""

    kind: WorkerKind
    policy: Gateway | None
    memory: int  # bytes of address space, above what it has when it is ready
    temporary: str | None = None
    metadata: Any = None  # of a catalog worker


@dataclass(frozen=True)
class Request:
    number: int
    what: Literal["describe", "run"]
    ask: Ask


@dataclass(frozen=True)
class Next:
    """One more chunk is wanted."""

    number: int


@dataclass(frozen=True)
class Interrupt:
    number: int


Message = Opening | Request | Next | Interrupt


def pack_message(message: Message) -> bytes:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


# ---- from a worker


@dataclass(frozen=True)
class Frame:
    """`what` is ready, charged, described, answer, chunk, end or failure; `data` is JSON, whose shape hangs on it."""

    what: str
    number: int = 0
    data: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""

    def packed(self) -> bytes:
        header = json.dumps([self.what, self.number, self.data]).encode()
        return HEADER.pack(len(header), len(self.body)) + header + self.body

    @classmethod
    def read(cls, header: bytes, body: bytes) -> Frame:
        what, number, data = json.loads(header)
        return cls(str(what), int(number), dict(data), body)


def failure_frame(number: int, failure: Failure) -> Frame:
    return Frame("failure", number, asdict(failure))


def failure_from(data: Mapping[str, Any]) -> Failure:
    """A failure as a worker tells it; a SQLSTATE that is none becomes one."""
    state = str(data.get("sqlstate"))
    texts = {name: str(data[name]) if data.get(name) is not None else None for name in ("detail", "hint")}
    position = data.get("position")
    return Failure(
        state if len(state) == 5 and state.isalnum() and state.isascii() else "XX000",
        str(data.get("message")),
        **texts,
        position=position if isinstance(position, int) and position > 0 else None,
    )
