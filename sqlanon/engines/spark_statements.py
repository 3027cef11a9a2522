"""Take a statement apart by where its relations are: what reads rows runs on Spark, what is made of counts beside it.

Trees are written in DuckDB's words. Here they are told apart and put into Spark's; nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlglot import exp

from sqlanon.sqltree.tree import literal

Names = Collection[str]  # of tables beside the rows, in lower case


def inline_ctes(tree: exp.Expr) -> exp.Expr:
    """Put the queries of WITH where they are read, so that each part of a statement stands for itself.

    >>> import sqlglot
    >>> inline_ctes(sqlglot.parse_one("WITH a AS (SELECT 1 AS x) SELECT x FROM a AS b, a")).sql()
    'SELECT x FROM (SELECT 1 AS x) AS b, (SELECT 1 AS x) AS a'
    """
    for holder in reversed(list(tree.find_all(exp.Query))):  # the innermost first
        given = holder.args.get("with_")
        if given is None:
            continue
        listed = list(given.expressions)
        holder.set("with_", None)
        for place, item in enumerate(listed):
            for reader in [holder, *(later.this for later in listed[place + 1 :])]:
                for found in list(reader.find_all(exp.Table)):
                    if found.name.lower() != item.alias.lower() or found.args.get("db"):
                        continue
                    query = item.this.copy()
                    names = item.args["alias"].args.get("columns") or None
                    called = exp.TableAlias(this=exp.to_identifier(found.alias_or_name), columns=names)
                    made = exp.Subquery(this=query, alias=called)
                    if found.args.get("joins"):
                        made.set("joins", found.args["joins"])
                    found.replace(made)
    return tree


def tables_of(tree: exp.Expr) -> list[exp.Table]:
    return [found for found in tree.find_all(exp.Table) if isinstance(found.this, exp.Identifier)]


def is_beside(found: exp.Table, beside: Names) -> bool:
    """Whether a table is one of those beside the rows; these have no schema."""
    return not found.args.get("db") and found.name.lower() in beside


def reads_rows(tree: exp.Expr, beside: Names) -> bool:
    """Whether a statement reads a table that is not one of those beside the rows."""
    return any(not is_beside(found, beside) for found in tables_of(tree))


def is_summary(query: exp.Expr) -> bool:
    """Whether a SELECT returns groups of the rows that it reads, and not rows.

    >>> import sqlglot
    >>> [is_summary(sqlglot.parse_one(f"SELECT {what}")) for what in ("a, COUNT(*) FROM t GROUP BY a", "a FROM t",
    ...  "MAX(a) FROM t", "COUNT(*) OVER () FROM t", "DISTINCT a FROM t", "(SELECT MAX(a) FROM t) FROM u")]
    [True, False, True, False, True, False]
    """
    if not isinstance(query, exp.Select):
        return False
    if query.args.get("group") is not None or query.args.get("distinct") is not None:
        return True
    return any(_aggregates(item) for item in query.expressions)


def _aggregates(node: exp.Expr) -> bool:
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        return any(_aggregates(item) for item in _children(node.this))
    if isinstance(node, exp.AggFunc):
        return True
    return any(_aggregates(item) for item in _children(node))


def _children(node: exp.Expr) -> list[exp.Expr]:
    return list(node.iter_expressions())


def summaries(tree: exp.Expr, beside: Names) -> list[exp.Select] | None:
    """The innermost groupings that read rows, where all that reads rows lies in one; None where rows are asked for."""
    found: list[exp.Select] = []

    def visit(node: exp.Expr) -> bool:
        if isinstance(node, exp.Table):
            return is_beside(node, beside) if isinstance(node.this, exp.Identifier) else True
        before = len(found)
        if not [child for child in _children(node) if not visit(child)]:  # all are looked at
            return True
        if isinstance(node, exp.Select) and is_summary(node):
            del found[before:]
            found.append(node)
            return True
        return False

    return found if visit(tree) else None


def replace_query(tree: exp.Expr, part: exp.Select, name: str) -> exp.Expr:
    """The statement with a table in place of a part of it."""
    read = exp.select("*").from_(exp.Table(this=exp.to_identifier(name)))
    if part is tree:
        return read
    part.replace(read)
    return tree


def parts_beside(tree: exp.Expr, beside: Names) -> list[exp.Expr]:
    """The largest queries of a statement that read tables beside the rows and nothing else, and single tables where a
    query is more than that."""
    found: list[exp.Expr] = []

    def visit(node: exp.Expr) -> None:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if is_beside(node, beside):
                found.append(node)
            return
        whole = isinstance(node, exp.Subquery | exp.Query) and node is not tree
        if whole and tables_of(node) and not reads_rows(node, beside) and not _is_correlated(node):
            found.append(node)
            return
        for child in _children(node):
            visit(child)

    visit(tree)
    return found


def _is_correlated(query: exp.Expr) -> bool:
    known = {found.alias_or_name.lower() for found in query.find_all(exp.Table)}
    known |= {found.alias.lower() for found in query.find_all(exp.Subquery) if found is not query and found.alias}
    return any(found.table and found.table.lower() not in known for found in query.find_all(exp.Column))


def without_shuffle(tree: exp.Expr) -> tuple[exp.Expr, bool]:
    """The statement without ORDER BY RAND(), and whether it had one. Spark drops a sort under a join without a word:
    whoever writes the rows shuffles them last."""
    had = False
    for found in list(tree.find_all(exp.Order)):
        if len(found.expressions) == 1 and isinstance(found.expressions[0].this, exp.Rand) and found.parent:
            found.parent.set("order", None)
            had = True
    return tree, had


def unordered_windows(tree: exp.Expr) -> list[exp.Window]:
    """Windows that number rows in no order, which Spark refuses."""
    numbering = (exp.RowNumber, exp.DenseRank, exp.Rank)
    return [
        found
        for found in tree.find_all(exp.Window)
        if isinstance(found.this, numbering) and not found.args.get("order")
    ]


def to_spark(tree: exp.Expr) -> exp.Expr:
    """The statement with what Spark calls or does otherwise put into its words."""
    for node in list(tree.find_all(exp.Anonymous, exp.Cast)):
        if isinstance(node, exp.Anonymous) and node.name.lower() == "hash":
            inner = node.expressions[0] if len(node.expressions) == 1 else None
            if isinstance(inner, exp.Anonymous) and inner.name.lower() == "hash":
                node.replace(exp.cast(hash_of(inner.expressions), "decimal(38, 0)"))
        elif isinstance(node, exp.Cast) and node.to.this in exp.DataType.INTEGER_TYPES and _is_fraction(node.this):
            # Spark cuts off what DuckDB rounds.
            node.set("this", exp.Anonymous(this="rint", expressions=[node.this]))
    return tree


def _is_fraction(value: exp.Expr) -> bool:
    """Whether a number that becomes an integer may have been computed with a fraction."""
    while isinstance(value, exp.Paren | exp.Alias):
        value = value.this
    if isinstance(value, exp.Div):
        return True
    if isinstance(value, exp.Add | exp.Sub | exp.Mul):
        return _is_fraction(value.this) or _is_fraction(value.expression)
    return isinstance(value, exp.Cast) and value.to.this in (exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT)


def hash_of(values: list[exp.Expr]) -> exp.Expr:
    """A number of 64 bits for a row. Spark leaves NULLs out, so that it is told for each value whether it is one."""
    listed: list[exp.Expr] = []
    for value in values:
        listed += [value.copy(), exp.Is(this=value.copy(), expression=exp.Null())]
    return exp.Anonymous(this="xxhash64", expressions=listed or [literal(0)])


def rename_tables(tree: exp.Expr, named: Callable[[exp.Table], str | None]) -> exp.Expr:
    """The statement with other names for some tables; what called them by their old names goes on doing so."""
    for found in tables_of(tree):
        new = named(found)
        if new is None:
            continue
        if not found.alias:
            found.set("alias", exp.TableAlias(this=exp.to_identifier(found.name)))
        found.set("this", exp.to_identifier(new))
        found.set("db", None)
        found.set("catalog", None)
    return tree
