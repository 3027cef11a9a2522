"""Statements read as commands. What is neither a command that the server knows nor a SELECT is refused."""

from __future__ import annotations

from itertools import pairwise

from sqlanon.errors import Refused
from sqlanon.server.commands import (
    CloseCommand,
    Command,
    Copy,
    Deallocate,
    Declare,
    Discard,
    ExecuteCommand,
    Fetch,
    Nothing,
    Prepare,
    Question,
    Reset,
    Set,
    Show,
    Transaction,
)
from sqlanon.server.copy_command import read_copy
from sqlanon.server.setting_calls import select_settings
from sqlanon.sqlfront.command_reader import CommandReader
from sqlanon.sqlfront.lexer import Statement

# A statement that names one of these is about the catalog; a table of the policy with such a name cannot be asked.
CATALOGS = frozenset({"pg_catalog", "information_schema"})
# What asyncpg sends when a connection goes back to its pool: there are no locks here.
UNLOCK = ["select", "pg_advisory_unlock_all", "(", ")"]
QUESTIONS = frozenset({"select", "with", "values", "table", "explain"})


def parse_command(statement: Statement) -> Command:
    """Read one statement. What is neither a command of this list nor a SELECT is refused."""
    if [token.value for token in statement.tokens] == UNLOCK:
        return Nothing("SELECT 1")
    if asks(statement):
        return select_settings(statement) or question(statement)
    word = statement.word(0)
    read = _READERS.get(word)
    reader = CommandReader(statement)
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
    """Either way nothing is read but what may be: the catalog holds no data, and the gateway has no catalog."""
    listed = [token.value.lower() if token.kind in ("word", "quoted") else "" for token in statement.tokens]
    words = set(listed)
    # A column may be called by any name: SELECT COUNT(*) AS pg_total FROM visits ORDER BY pg_total.
    aliases = {word for before, word in pairwise(listed) if before == "as"}
    aliases -= {word for before, word in pairwise(listed) if before in ("from", "join", "table")}
    tables = names_table(statement)
    named = any(word in CATALOGS or (word.startswith("pg_") and word not in aliases) for word in words)
    return Question(statement.text, "catalog" if named or not tables else "query")


# Words that a list of relations ends with.
_AFTER_FROM = frozenset(
    {
        "where", "group", "order", "having", "limit", "offset", "fetch", "union", "except", "intersect", "window",
        "select",
    }
)  # fmt: skip


def names_table(statement: Statement) -> bool:
    """Whether FROM or JOIN names a relation that is neither a call nor a query: FROM current_schema() reads no table.

    >>> from sqlanon.sqlfront.lexer import statements
    >>> asked = "1 FROM f(1), a.g() AS x JOIN (VALUES (1)) v ON true", "1 FROM f(1), cities", "1 AS from"
    >>> [names_table(statements(f"SELECT {rest}")[0]) for rest in asked]
    [False, True, False]
    """
    tokens = statement.tokens
    shared = _shared_names(statement)
    around: list[bool] = []  # for each parenthesis that is open, whether it stands in a list of relations
    listing = expected = False  # in such a list; and a relation comes next
    for place, token in enumerate(tokens):
        word = token.value if token.kind == "word" else ""
        if place and tokens[place - 1].kind == "word" and tokens[place - 1].value == "as":
            word = ""  # the name of a column, whatever it says elsewhere
        if expected and word not in ("lateral", "only"):
            expected = token.value == "(" and token.kind == "symbol"
            if token.kind in ("word", "quoted") and word not in QUESTIONS:
                if not _is_called(statement, place) and token.value not in shared:
                    return True
            elif word:
                listing = False
        if word == "table":
            return True
        if word in ("from", "join"):
            listing = expected = True
        elif word in _AFTER_FROM:
            listing = False
        elif token.kind == "symbol" and token.value == "(":
            around.append(listing)
            listing = expected
        elif token.kind == "symbol" and token.value == ")" and around:
            listing = around.pop()
        elif token.kind == "symbol" and token.value == ",":
            expected = listing
    return False


def _shared_names(statement: Statement) -> set[str]:
    """The names that WITH gives to queries. A query that reads itself may never end: none of its names is taken."""
    values = [token.value for token in statement.tokens]
    if statement.word(0) not in ("with", "explain") or "recursive" in values:
        return set()
    found = set()
    for place, value in enumerate(values[:-1]):
        if place and value == "as" and values[place + 1] in ("(", "materialized", "not"):
            name = place - 1
            if values[name] == ")":  # the names of its columns
                name = max((at for at, sign in enumerate(values[:name]) if sign == "("), default=1) - 1
            found.add(values[name])
    return found


def _is_called(statement: Statement, place: int) -> bool:
    """Whether the name at a place, with all that stands before a dot, is that of a function."""
    values = [token.value if token.kind != "string" else "" for token in statement.tokens[place : place + 7]]
    end = 1
    while values[end : end + 1] == ["."]:
        end += 2
    return values[end : end + 1] == ["("]


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


def _begin(reader: CommandReader) -> Transaction:
    if not reader.take("work"):
        reader.take("transaction")
    return Transaction("begin", isolation=_modes(reader))


def _start(reader: CommandReader) -> Transaction:
    if not reader.take("transaction"):
        reader.wrong()
    return Transaction("begin", "START TRANSACTION", isolation=_modes(reader))


def _modes(reader: CommandReader) -> str:
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


def _commit(reader: CommandReader) -> Transaction:
    return Transaction("commit", chain=_chain(reader))


def _chain(reader: CommandReader) -> bool:
    if not reader.take("work"):
        reader.take("transaction")
    if reader.take("and", "no", "chain"):
        return False
    return reader.take("and", "chain")


def _rollback(reader: CommandReader) -> Transaction:
    place = reader.place
    if not reader.take("work"):
        reader.take("transaction")
    if reader.take("to"):
        reader.take("savepoint")
        return Transaction("rollback to", reader.name())
    reader.place = place
    return Transaction("rollback", chain=_chain(reader))


def _savepoint(reader: CommandReader) -> Transaction:
    return Transaction("savepoint", reader.name())


def _release(reader: CommandReader) -> Transaction:
    reader.take("savepoint")
    return Transaction("release", reader.name())


def _set(reader: CommandReader) -> Command:
    local = reader.take("local")
    session = not local and reader.take("session")
    if session and reader.take("characteristics", "as", "transaction"):
        level = _modes(reader)
        return Set("default_transaction_isolation", level) if level else Nothing("SET")
    if reader.take("transaction"):
        level = _modes(reader)
        return Set("transaction_isolation", level, local=True) if level else Nothing("SET")
    if reader.take("time", "zone"):
        return Set("timezone", _zone(reader), local)
    if reader.take("names"):
        return Set("client_encoding", _setting(reader), local)
    if (session and reader.take("authorization")) or reader.take("role"):
        raise Refused("the role of a session cannot be changed", sqlstate="42501", hint="connect as the other role")
    name = reader.dotted()
    if not reader.take("=") and not reader.take("to"):
        reader.wrong()
    return Set(name, _setting(reader), local)


def _zone(reader: CommandReader) -> str | None:
    """A zone, or INTERVAL '+02:00' HOUR TO MINUTE, as Sequelize sends it."""
    if not reader.take("interval"):
        return _setting(reader)
    if reader.token is None or reader.token.kind != "string":
        reader.wrong()
    zone = reader.value()
    if reader.take("hour"):
        reader.take("to", "minute")
    return zone


def _setting(reader: CommandReader) -> str | None:
    if reader.take("default"):
        return None
    parts = [reader.value()]
    while reader.take(","):
        parts.append(reader.value())
    return ", ".join(parts)


def _reset(reader: CommandReader) -> Reset:
    return Reset("timezone" if reader.take("time", "zone") else reader.dotted())


def _show(reader: CommandReader) -> Show:
    if reader.take("time", "zone"):
        return Show("timezone")
    if reader.take("transaction", "isolation", "level"):
        return Show("transaction_isolation")
    if reader.take("session", "authorization"):
        return Show("session_authorization")
    return Show(reader.dotted())


def _discard(reader: CommandReader) -> Discard:
    what = reader.name()
    if what not in ("all", "plans", "sequences", "temp", "temporary"):
        reader.place -= 1
        reader.wrong()
    return Discard(what)


def _declare(reader: CommandReader) -> Declare:
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


def _asked(reader: CommandReader) -> Question:
    """The rest of a command, which must be a question."""
    if not asks(reader.statement, reader.place):
        raise _no_question(reader.statement.word(reader.place))
    rest = reader.rest()
    reader.place = len(reader.tokens)
    return question(rest)


def _fetch(reader: CommandReader) -> Fetch:
    return _moved(reader, move=False)


def _move(reader: CommandReader) -> Fetch:
    return _moved(reader, move=True)


def _moved(reader: CommandReader, *, move: bool) -> Fetch:
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


def _close(reader: CommandReader) -> CloseCommand:
    return CloseCommand(None) if reader.take("all") else CloseCommand(reader.name())


def _prepare(reader: CommandReader) -> Prepare:
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


def _execute(reader: CommandReader) -> ExecuteCommand:
    name = reader.name()
    arguments: list[str | None] = []
    if reader.take("("):
        while True:
            arguments.append(None if reader.take("null") else reader.value())
            if reader.take(")"):
                break
            if not reader.take(","):
                reader.wrong()
    return ExecuteCommand(name, tuple(arguments))


def _deallocate(reader: CommandReader) -> Deallocate:
    reader.take("prepare")
    return Deallocate(None) if reader.take("all") else Deallocate(reader.name())


def _copy(reader: CommandReader) -> Copy:
    inner, options, header, reader.place = read_copy(reader.statement, reader.place)
    if not asks(inner):
        raise _no_question(inner.word(0))
    return Copy(question(inner), options, header)


def _unlisten(reader: CommandReader) -> Nothing:
    if not reader.take("*"):
        reader.name()
    return Nothing("UNLISTEN")


_READERS = {
    "begin": _begin, "start": _start, "commit": _commit, "end": _commit, "rollback": _rollback, "abort": _rollback,
    "savepoint": _savepoint, "release": _release, "set": _set, "reset": _reset, "show": _show, "discard": _discard,
    "declare": _declare, "fetch": _fetch, "move": _move, "close": _close, "prepare": _prepare, "execute": _execute,
    "deallocate": _deallocate, "copy": _copy, "unlisten": _unlisten,
}  # fmt: skip
