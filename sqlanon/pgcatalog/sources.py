"""FROM: relations of the catalog, queries, functions that give rows, and how they are joined."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused, did_you_mean
from sqlanon.pgcatalog import sets, settings_relation
from sqlanon.pgcatalog.binder import CatalogBinder, only, refusal
from sqlanon.pgcatalog.bound_expression import Bound, binary, call, text
from sqlanon.pgcatalog.calls import apply_function
from sqlanon.pgcatalog.functions import no_function
from sqlanon.pgcatalog.kinds import INT8, TEXTS
from sqlanon.pgcatalog.operators import match_types
from sqlanon.pgcatalog.relations import FORBIDDEN, RELATIONS, relation
from sqlanon.pgcatalog.scope import Field, FromSource, SelectScope, fields_of, fold_name, position

MOST_SOURCES = 60
TABLE = frozenset({"this", "db", "catalog", "alias", "joins"})
FUNCTION = TABLE | {"ordinality"}


def add(b: CatalogBinder, node: exp.Select, made: exp.Select, scope: SelectScope) -> None:
    """Put FROM and its joins into the generated SELECT."""
    given = node.args.get("from_")
    if given is None:
        return
    only(given, frozenset({"this"}))
    made.set("from_", exp.From(this=_source(b, given.this, scope)))
    made.set("joins", [_join(b, each, scope) for each in node.args.get("joins") or []])


def _source(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> exp.Expr:
    """One item of FROM, which may carry joins in parentheses."""
    if len(scope.sources) > MOST_SOURCES:
        raise Refused("too many relations are joined", sqlstate="54001")
    if type(node) is exp.Table:
        named = isinstance(node.this, exp.Identifier)
        only(node, TABLE if named else FUNCTION)
        made = _relation(b, node, scope) if named else _function(b, node, scope)
        return _with_joins(b, node, made, scope)
    if type(node) is exp.Subquery and isinstance(node.this, exp.Table | exp.Subquery) and not node.args.get("alias"):
        only(node, frozenset({"this", "joins"}))
        return _with_joins(b, node, exp.Subquery(this=_source(b, node.this, scope)), scope)
    if type(node) is exp.Subquery:
        only(node, frozenset({"this", "alias", "joins", "with_"}))
        return _with_joins(b, node, _derived(b, node, scope), scope)
    if type(node) is exp.Values:
        return _derived(b, node, scope)
    if type(node) is exp.Unnest:
        only(node, frozenset({"expressions", "alias", "offset"}))
        return _unnest(b, node, scope)
    if type(node) is exp.Lateral:
        inner = node.this
        only(node, frozenset({"this", "alias"} if type(inner) is exp.Subquery else {"this", "alias", "ordinality"}))
        if type(inner) is exp.Subquery:
            inner = exp.Subquery(this=inner.this, alias=node.args.get("alias"))
            return _derived(b, inner, scope, lateral=True)
        given = {name: node.args.get(name) for name in ("alias", "ordinality")}
        return _function(b, exp.Table(this=inner, **given), scope)
    raise refusal(node)


def _with_joins(b: CatalogBinder, node: exp.Expr, made: exp.Expr, scope: SelectScope) -> exp.Expr:
    if node.args.get("joins"):
        made.set("joins", [_join(b, each, scope) for each in node.args["joins"]])
    return made


def _alias(node: exp.Expr) -> tuple[str | None, list[str]]:
    given = node.args.get("alias")
    if given is None:
        return None, []
    if type(given) is not exp.TableAlias:
        return fold_name(given), []
    name = fold_name(given.this) if given.this is not None else None
    return name, [fold_name(column) for column in given.args.get("columns") or []]


def _placed(
    b: CatalogBinder,
    scope: SelectScope,
    name: str | None,
    columns: tuple[Field, ...],
    schema: str | None = None,
    oid: int = 0,
) -> str:
    alias = b.fresh("r")
    scope.add(FromSource(name, alias, columns, schema, oid))
    return alias


def _renamed(columns: tuple[Field, ...], wanted: list[str]) -> tuple[Field, ...]:
    if len(wanted) > len(columns):
        raise Refused("more names are given than there are columns", sqlstate="42P10")
    names = [*wanted, *(column.name for column in columns[len(wanted) :])]
    return tuple(
        Field(name, column.type, column.column, column.origin, column.fields, column.typmod)
        for name, column in zip(names, columns, strict=True)
    )


def _relation(b: CatalogBinder, node: exp.Table, scope: SelectScope) -> exp.Expr:
    name, schema = fold_name(node.this), fold_name(node.args["db"]) if node.args.get("db") else None
    catalog = node.args.get("catalog")
    if catalog is not None and fold_name(catalog) != b.view.metadata.database:
        raise Refused("cross-database references are not implemented", sqlstate="0A000")
    alias_name, wanted = _alias(node)
    shared = b.shared.get(name) if schema is None else None
    if shared is not None:
        alias = _placed(b, scope, alias_name or name, _renamed(shared.columns, wanted))
        return _table(shared.alias, alias)
    found = relation(schema, name)
    if found is None:
        raise _unknown(b, schema, name, node)
    if found.name in FORBIDDEN:
        raise Refused(f"permission denied for table {found.name}", sqlstate="42501")
    if found.name == "pg_settings":
        return settings_relation.relation(
            b, lambda columns: _placed(b, scope, alias_name or name, _renamed(columns, wanted), "pg_catalog")
        )
    b.needs.relations.add(found.key)
    columns = tuple(
        Field(column, kind, column, (found.oid, place)) for place, (column, kind) in enumerate(found.columns, start=1)
    )
    place = None if alias_name else found.schema
    alias = _placed(b, scope, alias_name or name, _renamed(columns, wanted), place, found.oid)
    return _table(found.key, alias)


def _table(name: str, alias: str) -> exp.Expr:
    return exp.Table(this=exp.to_identifier(name, quoted=True), alias=exp.TableAlias(this=exp.to_identifier(alias)))


def _unknown(b: CatalogBinder, schema: str | None, name: str, node: exp.Expr) -> Refused:
    place = position(node)
    entry = b.view.find(schema, name) or (b.view.find("public", name) if schema == "main" else None)
    if entry is not None:
        return Refused(
            "catalog and data cannot be mixed in one statement",
            hint=f"ask {name[:80]} in a statement of its own",
            sqlstate="0A000",
            position=place,
        )
    shown = f"{schema}.{name}" if schema else name
    known = [each.name for each in RELATIONS.values() if each.schema == (schema or "pg_catalog")]
    hint = did_you_mean(name, known)
    return Refused(f'relation "{shown[:120]}" does not exist', hint=hint, sqlstate="42P01", position=place)


def _derived(b: CatalogBinder, node: exp.Expr, scope: SelectScope, *, lateral: bool = False) -> exp.Expr:
    """A query in FROM; it sees the relations before it only if LATERAL says so."""
    name, wanted = _alias(node)
    inner = node.this if type(node) is exp.Subquery else exp.Values(expressions=node.expressions)
    plan = b.query(inner, scope if lateral else scope.parent)
    plan.settle()
    columns = _renamed(fields_of(plan.names, plan.items), wanted)
    made = exp.Subquery(this=plan.tree())
    return _as(made, _placed(b, scope, name, columns))


def _as(made: exp.Expr, alias: str) -> exp.Expr:
    made.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return made


def _function(b: CatalogBinder, node: exp.Table, scope: SelectScope) -> exp.Expr:
    """A function that gives rows; it sees the relations before it."""
    target: Any = node.this
    if type(target) is exp.Dot:
        if type(target.this) is not exp.Identifier or fold_name(target.this) not in (
            "pg_catalog",
            "information_schema",
        ):
            raise Refused("only functions of the catalog are answered here", sqlstate="42883")
        target = target.expression
    schema = node.args.get("db")
    if schema is not None and fold_name(schema) not in ("pg_catalog", "information_schema"):
        raise Refused("only functions of the catalog are answered here", sqlstate="42883")
    numbered = node.args.get("ordinality")
    if type(target) is exp.Unnest:
        numbered = numbered or target.args.get("offset")
        alias = node.args.get("alias")
        return _unnest(b, exp.Unnest(expressions=target.expressions, alias=alias, offset=numbered), scope)
    if type(target) is not exp.Anonymous:
        raise Refused("only functions of the catalog are answered here", sqlstate="0A000")
    name = str(target.this).lower()
    if name == "pg_show_all_settings" and not target.expressions and not numbered:
        given, wanted = _alias(node)
        return settings_relation.relation(
            b, lambda columns: _placed(b, scope, given or name, _renamed(columns, wanted))
        )
    if name == "pg_get_keywords" and not target.expressions and not numbered:
        return _keywords(b, node, scope)
    items = [b.expression(each, scope) for each in target.expressions]
    if name in sets.SETS:
        return _rows(b, name, items, node, scope)
    item = apply_function(b, name, items)
    return _one_column(b, item, name, node, scope, exp.Literal.number(1))


def _unnest(b: CatalogBinder, node: exp.Unnest, scope: SelectScope) -> exp.Expr:
    items = [b.expression(each, scope) for each in node.expressions]
    return _rows(b, "unnest", items, node, scope) if len(items) == 1 else _unnest_beside(b, items, node, scope)


def _unnest_beside(b: CatalogBinder, items: list[Bound], node: exp.Unnest, scope: SelectScope) -> exp.Expr:
    """unnest(a, b): a column an array; what is shorter ends in NULL."""
    items = [b.casts.to(item, TEXTS) if item.unknown else item for item in items]
    kinds = [item.type.element for item in items if item.type.element is not None]
    if len(kinds) != len(items) or not items:
        raise no_function("unnest", items)
    lengths = [call("coalesce", call("len", item.tree.copy()), exp.Literal.number(0)) for item in items]
    ends = [exp.Literal.number(1), call("greatest", *lengths), exp.Literal.number(1)]
    numbers = call("pg_series", *(exp.cast(end, exp.DataType.Type.BIGINT) for end in ends))
    zipped = call("unnest", call("list_zip", *(item.tree for item in items), numbers))
    columns = [Field("unnest", kind, f"c{place}") for place, kind in enumerate(kinds)]
    offset = _numbered(node)
    if offset:
        columns.append(Field("ordinality", INT8, f"c{len(columns)}"))
    given, wanted = _alias(node)
    if isinstance(offset, exp.Identifier):  # the parser takes the last name from the list
        wanted = [*wanted, fold_name(offset)]
    inner = exp.Subquery(
        this=exp.Select(expressions=[exp.Alias(this=zipped, alias=exp.to_identifier("v"))]),
        alias=exp.TableAlias(this=exp.to_identifier("u")),
    )
    parts: list[exp.Expr] = [
        exp.Alias(
            this=call("struct_extract", exp.column("v"), exp.Literal.number(place + 1)),
            alias=exp.to_identifier(f"c{place}"),
        )
        for place in range(len(columns))
    ]
    made = exp.Subquery(this=exp.Select(expressions=parts).from_(inner))
    return _as(made, _placed(b, scope, given or "unnest", _renamed(tuple(columns), wanted)))


def _rows(b: CatalogBinder, name: str, items: list[Bound], node: exp.Expr, scope: SelectScope) -> exp.Expr:
    tree, kind, fields = sets.rows(b, name, items)
    if fields is not None:
        if _numbered(node):
            raise Refused("records with ORDINALITY are not answered here", sqlstate="0A000")
        given, wanted = _alias(node)
        record = exp.Select(expressions=[exp.Alias(this=call("unnest", tree), alias=exp.to_identifier("v"))])
        inner = exp.Subquery(this=record, alias=exp.TableAlias(this=exp.to_identifier("u")))
        parts = [
            exp.Alias(this=call("struct_extract", exp.column("v"), text(field)), alias=exp.to_identifier(f"c{place}"))
            for place, field in enumerate(fields)
        ]
        columns = tuple(Field(field, of, f"c{place}") for place, (field, of) in enumerate(fields.items()))
        made = exp.Subquery(this=exp.Select(expressions=parts).from_(inner))
        return _as(made, _placed(b, scope, given or name, _renamed(columns, wanted)))
    numbers = call("generate_subscripts", tree.copy(), exp.Literal.number(1))
    return _one_column(b, Bound(call("unnest", tree), kind), name, node, scope, numbers)


def _numbered(node: exp.Expr) -> Any:
    """WITH ORDINALITY"""
    return node.args.get("ordinality") or node.args.get("offset")


def _one_column(
    b: CatalogBinder, item: Bound, name: str, node: exp.Expr, scope: SelectScope, numbers: exp.Expr
) -> exp.Expr:
    given, wanted = _alias(node)
    offset = _numbered(node)
    columns: tuple[Field, ...] = (Field(sets.RESULTS.get(name) or given or name, item.type, "c0"),)
    parts: list[exp.Expr] = [exp.Alias(this=item.tree, alias=exp.to_identifier("c0"))]
    if isinstance(offset, exp.Identifier):  # the parser takes the last name from the list
        wanted = [*wanted, fold_name(offset)]
    if offset:
        columns = (*columns, Field("ordinality", INT8, "c1"))
        parts.append(exp.Alias(this=numbers, alias=exp.to_identifier("c1")))
    made = exp.Subquery(this=exp.Select(expressions=parts))
    return _as(made, _placed(b, scope, given or name, _renamed(columns, wanted)))


def _keywords(b: CatalogBinder, node: exp.Table, scope: SelectScope) -> exp.Expr:
    given, wanted = _alias(node)
    columns = tuple(Field(name, kind, f"c{place}") for place, (name, kind) in enumerate(sets.KEYWORDS.items()))
    rows = [
        exp.Tuple(expressions=[text(cell) if isinstance(cell, str) else exp.Boolean(this=cell) for cell in row])
        for row in sets.keywords()
    ]
    alias = _placed(b, scope, given or "pg_get_keywords", _renamed(columns, wanted))
    names = [exp.to_identifier(column.column) for column in columns]
    return exp.Values(expressions=rows, alias=exp.TableAlias(this=exp.to_identifier(alias), columns=names))


def _join(b: CatalogBinder, node: exp.Expr, scope: SelectScope) -> exp.Expr:
    only(node, frozenset({"this", "kind", "side", "on", "using", "method"}))
    side, kind, method = (str(node.args.get(name) or "").upper() for name in ("side", "kind", "method"))
    if (
        side not in ("", "LEFT", "RIGHT", "FULL")
        or kind not in ("", "INNER", "OUTER", "CROSS")
        or method not in ("", "NATURAL")
    ):
        raise Refused("this join is not answered here", sqlstate="0A000")
    before = len(scope.sources)
    made = _source(b, node.this, scope)
    on, using = node.args.get("on"), node.args.get("using")
    condition: exp.Expr | None = None
    if using or method:
        names = [fold_name(each) for each in using or []] if not method else _common_names(scope, before)
        condition = _using(b, names, scope, before, side)
    elif on is not None:
        condition = b.condition(on, scope)
    if condition is None and (side or kind == "INNER"):
        condition = exp.Boolean(this=True)
    return exp.Join(this=made, side=side or None, kind="CROSS" if kind == "CROSS" else None, on=condition)


def _common_names(scope: SelectScope, before: int) -> list[str]:
    left = {column.name for source in scope.sources[:before] for column in source.columns}
    return [column.name for source in scope.sources[before:] for column in source.columns if column.name in left]


def _using(b: CatalogBinder, names: list[str], scope: SelectScope, before: int, side: str) -> exp.Expr | None:
    """Columns of the same name become one."""
    left, right = SelectScope(None, scope.sources[:before], scope.merged), SelectScope(None, scope.sources[before:])
    condition: exp.Expr | None = None
    for name in names:
        one, other = (each.column(name, None, None, None) for each in (left, right))
        pair = match_types(b, "=", [one, other])
        test = binary(exp.EQ, pair[0].tree, pair[1].tree)
        condition = test if condition is None else exp.And(this=condition, expression=test)
        for item in (one, other):
            if type(item.tree) is exp.Column:
                scope.hidden.add((item.tree.table, item.tree.name))
        kept = other if side == "RIGHT" else one
        if side == "FULL":
            kept = Bound(call("coalesce", pair[0].tree.copy(), pair[1].tree.copy()), pair[0].type, name, 2)
        scope.merged[name] = kept.named(name)
    return condition
