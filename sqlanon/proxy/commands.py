"""What a statement asks of a session: a command that the server itself obeys, or a question for a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from sqlanon.errors import Refused
from sqlanon.proxy.lexing import Statement, Token, statements
from sqlanon.proxy.work import CopyOptions

MAX_COUNT = 2**31 - 1


@dataclass(frozen=True)
class Question:
    """A SELECT, or EXPLAIN of one: the text as it was written."""

    text: str
    route: Literal["query", "catalogue"]


@dataclass(frozen=True)
class Copy:
    question: Question
    options: CopyOptions
    header: bool = False


@dataclass(frozen=True)
class Transaction:
    """begin, commit, rollback, savepoint, release, rollback to; `chain` begins anew at once."""

    verb: str
    name: str = ""  # of a savepoint; of a beginning its tag, if it has one of its own
    chain: bool = False
    isolation: str = ""


@dataclass(frozen=True)
class Set:
    name: str
    value: str | None  # None: the default
    local: bool = False


@dataclass(frozen=True)
class Reset:
    name: str  # or "all"


@dataclass(frozen=True)
class Show:
    name: str


@dataclass(frozen=True)
class Discard:
    what: str


@dataclass(frozen=True)
class Declare:
    cursor: str
    question: Question
    hold: bool
    binary: bool


@dataclass(frozen=True)
class Fetch:
    cursor: str
    count: int | None  # None: all
    move: bool = False


@dataclass(frozen=True)
class Close:
    cursor: str | None  # None: all


@dataclass(frozen=True)
class Prepare:
    name: str
    types: tuple[str, ...]
    question: Question


@dataclass(frozen=True)
class Execute:
    name: str
    arguments: tuple[str | None, ...]


@dataclass(frozen=True)
class Deallocate:
    name: str | None  # None: all


@dataclass(frozen=True)
class Nothing:
    """A command that changes nothing here and that clients send all the same."""

    tag: str


Command = (
    Question | Copy | Transaction | Set | Reset | Show | Discard | Declare | Fetch | Close | Prepare | Execute
    | Deallocate | Nothing
)  # fmt: skip

# A statement that names one of these is about the catalogue; a table of the policy with such a name cannot be asked.
CATALOGUES = frozenset({"pg_catalog", "information_schema"})
# What asyncpg sends when a connection goes back to its pool: there are no locks here.
UNLOCK = ["select", "pg_advisory_unlock_all", "(", ")"]
QUESTIONS = frozenset({"select", "with", "values", "table", "explain"})


@dataclass
class _Reader:
    """The tokens of one command, taken from the left."""

    statement: Statement
    place: int = 0
    tokens: Sequence[Token] = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.statement.tokens

    @property
    def token(self) -> Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def take(self, *words: str) -> bool:
        """Whether these words or symbols come next; they are taken."""
        end = self.place + len(words)
        found = [each.value if each.kind in ("word", "symbol") else "" for each in self.tokens[self.place : end]]
        if found != list(words):
            return False
        self.place = end
        return True

    def name(self) -> str:
        token = self.token
        if token is None or token.kind not in ("word", "quoted"):
            self.wrong()
        self.place += 1
        return token.value

    def dotted(self) -> str:
        name = self.name()
        while self.take("."):
            name += "." + self.name()
        return name

    def value(self) -> str:
        """A name, string or number, signs included."""
        sign = "-" if self.take("-") else ""
        if not sign:
            self.take("+")
        token = self.token
        if token is None or token.kind in ("symbol", "parameter") or (sign and token.kind != "number"):
            self.wrong()
        self.place += 1
        return sign + token.value

    def count(self) -> int:
        text = self.value()
        if not text.lstrip("-").isascii() or not text.lstrip("-").isdigit() or len(text) > 11:
            self.wrong()
        if int(text) < 0:
            raise Refused("cursor can only scan forward", sqlstate="55000", hint="FETCH FORWARD is answered")
        return min(int(text), MAX_COUNT)

    def rest(self) -> Statement:
        """What is left, as a statement of its own."""
        if self.token is None:
            self.wrong()
        return statements(self.statement.text[self.token.start :])[0]

    def end(self) -> None:
        if self.token is not None:
            self.wrong()

    def wrong(self) -> NoReturn:
        token = self.token
        if token is None:
            raise Refused("syntax error at end of input", sqlstate="42601", position=len(self.statement.text) + 1)
        text = self.statement.text[token.start : token.end][:40]
        raise Refused(f'syntax error at or near "{text}"', sqlstate="42601", position=token.start + 1)


def understood(statement: Statement) -> Command:
    """Read one statement. What is neither a command of this list nor a SELECT is refused."""
    if [token.value for token in statement.tokens] == UNLOCK:
        return Nothing("SELECT 1")
    if asks(statement):
        return question(statement)
    word = statement.word(0)
    read = _READERS.get(word)
    reader = _Reader(statement)
    if read is None:
        if word not in _WRITES | _REFUSED:
            reader.wrong()
        raise Refused(
            f"{word.upper()[:40]} is not answered", hint="this server answers SELECT, and changes no data",
            sqlstate="25006" if word in _WRITES else "0A000", position=1,
        )  # fmt: skip
    reader.place = 1
    found = read(reader)
    reader.end()
    return found


def asks(statement: Statement, place: int = 0) -> bool:
    """Whether a question begins there: looked at first, for commands in commands in commands take long to read."""
    if place >= len(statement.tokens):
        return False
    return statement.word(place) in QUESTIONS or statement.tokens[place].value == "("


def question(statement: Statement) -> Question:
    words = {token.value.lower() for token in statement.tokens if token.kind in ("word", "quoted")}
    tables = "from" in words or "table" in words
    catalogue = any(word in CATALOGUES or word.startswith("pg_") for word in words) or not tables
    return Question(statement.text, "catalogue" if catalogue else "query")


_WRITES = frozenset(
    {
        "insert", "update", "delete", "merge", "truncate", "create", "drop", "alter", "grant", "revoke", "vacuum",
        "analyze", "reindex", "cluster", "refresh", "comment", "import", "lock",
    }
)  # fmt: skip


_REFUSED = frozenset(
    {
        "attach", "detach", "pragma", "install", "load", "call", "do", "listen", "notify", "use", "export",
        "checkpoint", "describe", "summarize", "pivot", "unpivot", "from", "security", "reassign", "replace", "force",
    }
)  # fmt: skip


def _no_question(word: str) -> Refused:
    if word in _WRITES:
        return Refused(f"{word.upper()} is not answered", sqlstate="25006", hint="this server changes no data")
    return Refused("a SELECT is expected there", sqlstate="42601")


def _begin(reader: _Reader) -> Transaction:
    if not reader.take("work"):
        reader.take("transaction")
    return Transaction("begin", isolation=_modes(reader))


def _start(reader: _Reader) -> Transaction:
    if not reader.take("transaction"):
        reader.wrong()
    return Transaction("begin", "START TRANSACTION", isolation=_modes(reader))


def _modes(reader: _Reader) -> str:
    """The isolation level. Each statement here sees one state of the data, so that it is told, and changes nothing."""
    found = ""
    while reader.token is not None:
        if reader.take("isolation", "level"):
            for level in ("serializable", "repeatable read", "read committed", "read uncommitted"):
                if reader.take(*level.split()):
                    found = level
                    break
            else:
                reader.wrong()
        elif not (
            reader.take("read", "only") or reader.take("read", "write")
            or reader.take("not", "deferrable") or reader.take("deferrable")
        ):  # fmt: skip
            reader.wrong()
        reader.take(",")
    return found


def _commit(reader: _Reader) -> Transaction:
    return Transaction("commit", chain=_chain(reader))


def _chain(reader: _Reader) -> bool:
    if not reader.take("work"):
        reader.take("transaction")
    if reader.take("and", "no", "chain"):
        return False
    return reader.take("and", "chain")


def _rollback(reader: _Reader) -> Transaction:
    place = reader.place
    if not reader.take("work"):
        reader.take("transaction")
    if reader.take("to"):
        reader.take("savepoint")
        return Transaction("rollback to", reader.name())
    reader.place = place
    return Transaction("rollback", chain=_chain(reader))


def _savepoint(reader: _Reader) -> Transaction:
    return Transaction("savepoint", reader.name())


def _release(reader: _Reader) -> Transaction:
    reader.take("savepoint")
    return Transaction("release", reader.name())


def _set(reader: _Reader) -> Command:
    local = reader.take("local")
    session = not local and reader.take("session")
    if session and reader.take("characteristics", "as", "transaction"):
        level = _modes(reader)
        return Set("default_transaction_isolation", level) if level else Nothing("SET")
    if reader.take("transaction"):
        level = _modes(reader)
        return Set("transaction_isolation", level, local=True) if level else Nothing("SET")
    if reader.take("time", "zone"):
        return Set("timezone", _setting(reader), local)
    if reader.take("names"):
        return Set("client_encoding", _setting(reader), local)
    if (session and reader.take("authorization")) or reader.take("role"):
        raise Refused("the role of a session cannot be changed", sqlstate="42501", hint="connect as the other role")
    name = reader.dotted()
    if not reader.take("=") and not reader.take("to"):
        reader.wrong()
    return Set(name, _setting(reader), local)


def _setting(reader: _Reader) -> str | None:
    if reader.take("default"):
        return None
    parts = [reader.value()]
    while reader.take(","):
        parts.append(reader.value())
    return ", ".join(parts)


def _reset(reader: _Reader) -> Reset:
    return Reset("timezone" if reader.take("time", "zone") else reader.dotted())


def _show(reader: _Reader) -> Show:
    if reader.take("time", "zone"):
        return Show("timezone")
    if reader.take("transaction", "isolation", "level"):
        return Show("transaction_isolation")
    if reader.take("session", "authorization"):
        return Show("session_authorization")
    return Show(reader.dotted())


def _discard(reader: _Reader) -> Discard:
    what = reader.name()
    if what not in ("all", "plans", "sequences", "temp", "temporary"):
        reader.place -= 1
        reader.wrong()
    return Discard(what)


def _declare(reader: _Reader) -> Declare:
    cursor, binary = reader.name(), False
    while not reader.take("cursor"):
        if reader.take("binary"):
            binary = True
        elif reader.take("scroll"):
            raise Refused("a cursor that scrolls is not answered", sqlstate="0A000", hint="leave SCROLL out")
        elif not (reader.take("insensitive") or reader.take("asensitive") or reader.take("no", "scroll")):
            reader.wrong()
    hold = reader.take("with", "hold")
    if not hold:
        reader.take("without", "hold")
    if not reader.take("for"):
        reader.wrong()
    return Declare(cursor, _asked(reader), hold, binary)


def _asked(reader: _Reader) -> Question:
    """The rest of a command, which must be a question."""
    if not asks(reader.statement, reader.place):
        raise _no_question(reader.statement.word(reader.place))
    rest = reader.rest()
    reader.place = len(reader.tokens)
    return question(rest)


def _fetch(reader: _Reader) -> Fetch:
    return _moved(reader, move=False)


def _move(reader: _Reader) -> Fetch:
    return _moved(reader, move=True)


def _moved(reader: _Reader, *, move: bool) -> Fetch:
    count: int | None = 1
    named = len(reader.tokens) == 2  # FETCH c
    if named or reader.take("next"):
        pass
    elif reader.take("all") or reader.take("forward", "all"):
        count = None
    elif reader.take("forward"):
        if reader.token is not None and reader.token.kind == "number":
            count = reader.count()
    elif reader.statement.word(reader.place) in ("prior", "first", "last", "absolute", "relative", "backward"):
        raise Refused("cursor can only scan forward", sqlstate="55000", hint="FETCH FORWARD is answered")
    elif reader.token is not None and (reader.token.kind == "number" or reader.token.value == "-"):
        count = reader.count()
    if not reader.take("from"):
        reader.take("in")
    return Fetch(reader.name(), count, move)


def _close(reader: _Reader) -> Close:
    return Close(None) if reader.take("all") else Close(reader.name())


def _prepare(reader: _Reader) -> Prepare:
    name = reader.name()
    types: list[str] = []
    if reader.take("("):
        while True:
            words = [reader.name()]
            while reader.token is not None and reader.token.kind == "word":
                words.append(reader.name())
            if reader.take("["):
                if not reader.take("]"):
                    reader.wrong()
                words[-1] += "[]"
            types.append(" ".join(words))
            if reader.take(")"):
                break
            if not reader.take(","):
                reader.wrong()
    if not reader.take("as"):
        reader.wrong()
    return Prepare(name, tuple(types), _asked(reader))


def _execute(reader: _Reader) -> Execute:
    name = reader.name()
    arguments: list[str | None] = []
    if reader.take("("):
        while True:
            arguments.append(None if reader.take("null") else reader.value())
            if reader.take(")"):
                break
            if not reader.take(","):
                reader.wrong()
    return Execute(name, tuple(arguments))


def _deallocate(reader: _Reader) -> Deallocate:
    reader.take("prepare")
    return Deallocate(None) if reader.take("all") else Deallocate(reader.name())


def _copy(reader: _Reader) -> Copy:
    from sqlanon.proxy.copying import read_copy

    inner, options, header, reader.place = read_copy(reader.statement, reader.place)
    if not asks(inner):
        raise _no_question(inner.word(0))
    return Copy(question(inner), options, header)


def _unlisten(reader: _Reader) -> Nothing:
    if not reader.take("*"):
        reader.name()
    return Nothing("UNLISTEN")


_READERS = {
    "begin": _begin, "start": _start, "commit": _commit, "end": _commit, "rollback": _rollback, "abort": _rollback,
    "savepoint": _savepoint, "release": _release, "set": _set, "reset": _reset, "show": _show, "discard": _discard,
    "declare": _declare, "fetch": _fetch, "move": _move, "close": _close, "prepare": _prepare, "execute": _execute,
    "deallocate": _deallocate, "copy": _copy, "unlisten": _unlisten,
}  # fmt: skip
