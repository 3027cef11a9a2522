"""The relation that a policy reads: a table, a view, a query or files, joined along foreign keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqlanon.errors import PolicyError
from sqlanon.policy import Source
from sqlanon.policy.file_formats import FEATHER, describe_other_format, ending_of
from sqlanon.policy.table_names import table_parts as table_parts
from sqlanon.sqltree.tree import alias, case, column, literal, nest_query, select, text, window

# The number of a row, beside a user's own columns; no sane column is called like this.
ROW = "\u2205 row"
# What stands in every quasi-identifier of a row that was suppressed but kept.
SUPPRESSED = "*"
READERS = {
    ".parquet": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv", ".json": "read_json", ".jsonl": "read_json",
    ".ndjson": "read_json", ".xlsx": "read_xlsx",
}  # fmt: skip
# The types that a column of a CSV file may have. All of DuckDB's own but BOOLEAN: it would read yes, no, T and F as
# true and false, and a release would be written in other words than its source.
CSV_TYPES = ("NULL", "BIGINT", "DOUBLE", "TIME", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "VARCHAR")


def table_tree(name: str) -> exp.Table:
    parts = [exp.to_identifier(part, quoted=True) for part in table_parts(name)]
    keys = ("this", "db", "catalog")
    return exp.Table(**dict(zip(keys, reversed(parts), strict=False)))


def reader(path: str) -> exp.Expr:
    """DuckDB's table function for a file or glob, by its ending."""
    function = READERS.get(ending_of(path))
    if function is None and ending_of(path) in FEATHER:
        raise PolicyError(
            f"no statement reads the Feather file '{path}'", hint="sqlanon reads it itself; for a script write Parquet"
        )
    if function is None:
        message, hint = describe_other_format(path)
        raise PolicyError(message, hint=hint)
    options: list[exp.Expr] = []
    if function == "read_json":
        # Of a sample, a key that only later rows have would be no column.
        options.append(exp.EQ(this=exp.column("sample_size"), expression=exp.Literal.number(-1)))
    if function == "read_xlsx":
        # DuckDB would stop at an empty row, and leave out the persons below it.
        options.append(exp.EQ(this=exp.column("header"), expression=exp.true()))
        options.append(exp.EQ(this=exp.column("stop_at_empty"), expression=exp.false()))
    if function == "read_csv":
        # DuckDB would guess which lines are comments, and leave out persons whose row looks like one.
        options.append(exp.EQ(this=exp.column("comment"), expression=literal("")))
        # It would also skip all lines before those that look best together, with the persons in them.
        options.append(exp.EQ(this=exp.column("skip"), expression=literal(0)))
        candidates = exp.Array(expressions=[literal(kind) for kind in CSV_TYPES])
        options.append(exp.EQ(this=exp.column("auto_type_candidates"), expression=candidates))
    return exp.Anonymous(this=function, expressions=[literal(path), *options])


def query_tree(sql: str, dialect: str, due: datetime | None = None) -> exp.Query:
    """An owner's query. It is his own SQL, run with his own rights; it must still be one SELECT. :due in it is the time
    for which it is refreshed, or else now: a timestamp in UTC, without a zone."""
    try:
        trees = sqlglot.parse(sql, read=dialect)
    except SqlglotError as error:
        raise PolicyError(f"the query of the source cannot be read: {str(error).splitlines()[0]}") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise PolicyError("the query of the source must be one SELECT statement")
    for node in _due_in(trees[0]):
        if due is None:
            node.replace(exp.AtTimeZone(this=exp.CurrentTimestamp(), zone=literal("UTC")))
        else:
            said = due.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
            node.replace(exp.cast(literal(said), "timestamp"))
    return trees[0]


def asks_due(source: Source, dialect: str) -> bool:
    """Whether a source is a query of a time, so that it can be read as it was then."""
    if source.query is None:
        return False
    return any(_due_in(tree) for tree in sqlglot.parse(source.query, read=dialect) if tree is not None)


def _due_in(tree: exp.Expr) -> list[exp.Placeholder]:
    return [node for node in tree.find_all(exp.Placeholder) if node.name == "due"]


def from_item(source: Source, dialect: str, name: str) -> exp.Expr:
    """What stands after FROM for one source, under the given alias."""
    if source.query is not None:
        return query_tree(source.query, dialect, source.due).subquery(alias=name)
    if source.path is not None:
        if dialect != "duckdb":
            raise PolicyError("files are read by DuckDB only", hint="load the file into a table of your database")
        return exp.Table(this=reader(source.path), alias=exp.TableAlias(this=exp.to_identifier(name)))
    named = source.table if source.table is not None else source.view
    assert named is not None
    tree = table_tree(named)
    if tree.name.lower().startswith("sqlanon_"):
        raise PolicyError(
            f"the table '{named}' has a name that begins with sqlanon_, as sqlanon's own temporary tables do",
            hint="read it through a view of another name",
        )
    tree.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
    return tree


def relation(source: Source, dialect: str, child_columns: Mapping[str, Sequence[str]] | None = None) -> exp.Select:
    """SELECT over a source with its joins. Owners without child rows stay, so that none escapes a check.

    Where the columns of the child tables are known, one that an earlier table has already is left out.
    """
    own = None if child_columns is None or not source.joins else exp.to_identifier("source")
    every = exp.Star() if own is None else exp.Column(this=exp.Star(), table=own)
    tree = select(every, source=from_item(source, dialect, "source"))
    for place, join in enumerate(source.joins, start=1):
        name = f"child_{place}"
        child = table_tree(join.table)
        child.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        if child_columns is None and all(left == right for left, right in join.on.items()):
            using: list[int | str | exp.Expr] = [exp.to_identifier(left, quoted=True) for left in join.on]
            tree = tree.join(child, using=using, join_type="left")
            continue
        pairs = [
            column(left, _owner(left, source, place, child_columns)).eq(column(right, name))
            for left, right in join.on.items()
        ]
        tree = tree.join(child, on=exp.and_(*pairs), join_type="left")
        for added in (child_columns or {}).get(join.table, ()):
            tree = tree.select(column(added, name))
    return tree


def _owner(left: str, source: Source, place: int, child_columns: Mapping[str, Sequence[str]] | None) -> str | None:
    """The table that a child hangs on: the earlier child that brought the column, or the source itself."""
    if child_columns is None:
        return "source" if place == 1 else None
    for earlier, join in enumerate(source.joins[: place - 1], start=1):
        if left in child_columns.get(join.table, ()):
            return f"child_{earlier}"
    return "source"


def rows_to_check(
    rows: exp.Select,
    quasi_identifiers: tuple[str, ...],
    *,
    suppressed_marker: str | None,
    number_rows: bool,
    sensitive: tuple[str, ...] = (),
) -> exp.Select:
    """The rows that form classes: without rows kept as all-suppressed ones, numbered where NULLs match nothing.

    A row that still tells a sensitive value is not suppressed, however general its other columns are.
    """
    tree = rows
    if suppressed_marker is not None and quasi_identifiers:
        # CASE, since a comparison with NULL must leave the row in.
        marked = [text(column(name)).eq(literal(suppressed_marker)) for name in quasi_identifiers]
        hidden = exp.and_(*marked, *(column(name).is_(exp.Null()) for name in sensitive))
        flag = case((hidden, literal(1)), default=literal(0))
        tree = select(exp.Star(), source=nest_query(tree, "source"), where=flag.eq(0))
    if number_rows:
        numbered = alias(window(exp.RowNumber()), ROW, quoted=True)
        tree = select(exp.Star(), numbered, source=nest_query(tree, "source"))
    return tree
