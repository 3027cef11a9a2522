"""The rows of a view: SELECT * FROM a table, or a query of columns and conditions that is written anew from its tree.

What an owner writes never reaches an engine as written. A query is admitted by the exact type of each of its parts;
none of them reads a file, calls a function that is not listed, or names a table by anything but its name.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqlanon.ddl.names import join_name
from sqlanon.errors import Refused
from sqlanon.policy.table_names import table_parts
from sqlanon.sqlfront.dialects import READ
from sqlanon.sqlfront.lexer import Statement
from sqlanon.sqlfront.limits import nested_too_deeply
from sqlanon.sqlfront.parse_trees import parse_trees

# All that computes one value of one row, and reads nothing but it.
ADMITTED: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Select, exp.From, exp.Table, exp.Identifier, exp.Column, exp.Star, exp.Alias, exp.TableAlias, exp.Where,
        exp.Join, exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between,
        exp.In, exp.Is, exp.Null, exp.Like, exp.Literal, exp.Boolean, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div,
        exp.Case, exp.If, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Coalesce, exp.Upper, exp.Lower, exp.Trim,
        exp.Substring, exp.Length, exp.Abs, exp.Round, exp.Extract, exp.Var, exp.Nullif, exp.Distinct, exp.Tuple,
        exp.Placeholder, exp.DPipe, exp.Concat, exp.Left, exp.Right, exp.Interval, exp.CurrentDate,
    }
)  # fmt: skip
HINT = "a view shows columns of tables, with conditions: SELECT age, zip FROM patients WHERE admitted >= '2024-01-01'"


def read_source(statement: Statement, start: int, end: int) -> tuple[dict[str, str], tuple[str, ...] | None]:
    """The source of a policy: a table, or a query; and the columns that it shows, if it is a list of names."""
    simple = _simple_table(statement, start, end)
    if simple is not None:
        return {"table": simple}, None
    text = statement.text[statement.tokens[start].start : statement.tokens[end - 1].end]
    tree = _parse(text)
    names = tuple(each.alias_or_name for each in tree.expressions)
    return {"query": write_query(tree, "postgres")}, None if "*" in names else names


def _simple_table(statement: Statement, start: int, end: int) -> str | None:
    """The table of SELECT * FROM table, or of TABLE table."""
    tokens = statement.tokens[start:end]
    values = [token.value if token.kind in ("word", "symbol") else None for token in tokens]
    if values[:3] == ["select", "*", "from"]:
        rest = tokens[3:]
    elif values[:1] == ["table"]:
        rest = tokens[1:]
    else:
        return None
    if len(rest) not in (1, 3, 5):
        return None
    named = all(token.kind in ("word", "quoted") for token in rest[::2])
    dotted = all(token.kind == "symbol" and token.value == "." for token in rest[1::2])
    return join_name([token.value for token in rest[::2]]) if named and dotted else None


def _parse(text: str) -> exp.Select:
    try:
        trees = parse_trees(text, READ["postgres"])
    except SqlglotError:
        raise Refused("the query of the view cannot be read", hint=HINT, sqlstate="42601") from None
    except RecursionError:
        raise nested_too_deeply() from None
    if len(trees) != 1 or type(trees[0]) is not exp.Select:
        raise Refused("a view shows one SELECT", hint=HINT, sqlstate="0A000")
    for name in trees[0].find_all(exp.Identifier):
        if not name.args.get("quoted"):
            name.set("this", name.name.lower())  # as PostgreSQL reads it, and labels of columns too
    require_admitted(trees[0])
    return trees[0]


def require_admitted(tree: exp.Select) -> None:
    """Refuse all that a row of named tables does not need."""
    for node in tree.walk():
        if type(node) not in ADMITTED:
            raise Refused(f"{node.key.upper()} is not admitted in a view", hint=HINT, sqlstate="0A000")
        if isinstance(node, exp.Select) and node is not tree:
            raise Refused("a view has no query inside its query", hint=HINT, sqlstate="0A000")
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            raise Refused("a view names its tables", hint=HINT, sqlstate="0A000")
        if isinstance(node, exp.Placeholder) and node.name != "due":
            raise Refused("a view has no parameter but :due", hint=HINT, sqlstate="42P02")
    known = {"kind", "expressions", "from_", "where", "joins", "distinct"}
    more = [name for name, value in tree.args.items() if value and name not in known]
    if more:
        raise Refused(f"{more[0].strip('_').upper()} is not admitted in a view", hint=HINT, sqlstate="0A000")
    if tree.args.get("from_") is None:
        raise Refused("a view reads a table", hint=HINT, sqlstate="0A000")
    if any(type(each) not in (exp.Column, exp.Star, exp.Alias) for each in tree.expressions):
        raise Refused("what a view computes needs a name", hint="write AS after it", sqlstate="42601")


def write_query(tree: exp.Select, dialect: str) -> str:
    """An admitted query as text; :due stays as policies write it."""
    made = tree.copy()
    for node in list(made.find_all(exp.Placeholder)):
        node.replace(exp.Var(this=f":{node.name}"))
    return made.sql(dialect)


def query_for(query: str, dialect: str) -> str:
    """A query as `read_source` gives it, in the dialect of the database that it is for."""
    return write_query(_parse(query), dialect)


def query_as_written(query: str, dialect: str) -> str | None:
    """What stands after AS for the query of a policy; None for one that would not be admitted, or read as another."""
    try:
        tree = sqlglot.parse_one(query, read=dialect)
        if type(tree) is not exp.Select:
            return None
        require_admitted(tree)
        made = write_query(tree, "postgres")
        return made if query_for(made, dialect) == query else None
    except (SqlglotError, Refused, RecursionError):
        return None


def rename_tables(query: str, rename: Callable[[str], str]) -> str:
    """The same query with other names of its tables."""
    tree = _parse(query)
    for table in tree.find_all(exp.Table):
        parts = [exp.to_identifier(part, quoted=True) for part in table_parts(rename(_name_of(table)))]
        for key, part in zip(("this", "db", "catalog"), [*reversed(parts), None, None], strict=False):
            table.set(key, part)
    return write_query(tree, "postgres")


def tables_of(query: str) -> list[str]:
    """The tables that an admitted query names."""
    return [_name_of(table) for table in _parse(query).find_all(exp.Table)]


def _name_of(table: exp.Table) -> str:
    return join_name([part.name for part in (table.args.get("catalog"), table.args.get("db"), table.this) if part])
