"""What analysts write in short, written in full: joins, GROUP BY and literals, before anything is bound.

Each rewriting is an equality of SQL, for every data and for both engines. What comes out is read by the rules that read
it when an analyst writes it so: nothing is admitted here, no bound is known here, and what one person can move is what
it is for the statement in full. What does not fit a rewriting is left as it is, and the rules refuse it by its name.

    FROM a, b WHERE a.x = b.x           FROM a JOIN b ON a.x = b.x
    FROM (a JOIN b ON …)                FROM a JOIN b ON …
    WHERE x IN (SELECT y …)             JOIN (SELECT DISTINCT y …) AS m ON m.y = x: it matches a row once at most
    WHERE EXISTS (… b.x = a.x)          JOIN (SELECT DISTINCT b.x …) AS m ON m.x = a.x
    WHERE NOT EXISTS (… b.x = a.x)      LEFT JOIN (SELECT DISTINCT b.x …) AS m ON m.x = a.x … WHERE m.x IS NULL
    SELECT … QUALIFY q                  SELECT … FROM (SELECT …, q AS q …) WHERE q
    GROUP BY ALL                        GROUP BY all that holds no aggregate
    SELECT (SELECT …), (SELECT …)       SELECT … FROM (…) CROSS JOIN (…), of aggregates, which have one row
    CURRENT_DATE, and literal dates less or more an interval: the date that it is
    date_diff, strftime, to_char, concat, approx_count_distinct: subtraction, parts of a written date, ||, COUNT
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

from sqlglot import exp

from sqlanon.gateway.bind.calls import holds_aggregate
from sqlanon.gateway.bind.conditions import conjuncts
from sqlanon.gateway.bind.select_items import name_of
from sqlanon.gateway.bind.sources import SHORT

MATCH, KEY, KEPT = "_match", "_key", "_kept"  # names of what is written here; a number follows
Type = exp.DataType.Type
UNITS = {"YEAR": 12, "MONTH": 1, "WEEK": 7, "DAY": 1}  # in months, or in days
MOST_MOVED = 400_000  # days
FIELDS = {"%Y": (1, 4), "%m": (6, 2), "%d": (9, 2)}  # of a written date: where they begin, and how long they are
LONGEST_FORMAT = 40


def rewrite_shorthand(tree: exp.Expr, today: date | None) -> exp.Expr:
    """The same statement, written in full; `today` is what CURRENT_DATE says, which is refused without it.

    >>> from sqlglot import parse_one
    >>> rewrite_shorthand(parse_one("SELECT a, COUNT(*) FROM t GROUP BY ALL"), date(2026, 1, 31)).sql()
    'SELECT a, COUNT(*) FROM t GROUP BY a'
    >>> rewrite_shorthand(parse_one("SELECT CURRENT_DATE - INTERVAL '1' MONTH"), date(2026, 3, 31)).sql()
    "SELECT CAST('2026-02-28 00:00:00' AS TIMESTAMP)"
    """
    # What is inside comes first: it is copied into what is written around it.
    for node in reversed(list(tree.walk())):
        made = fold_dates(_value(node, today))
        if made is not node:
            node.replace(made)
    for number, select in enumerate(reversed(list(tree.find_all(exp.Select)))):
        for rewrite in SELECTS:
            rewrite(select, number)
    return tree


# ---- values


def _value(node: exp.Expr, today: date | None) -> exp.Expr:
    if type(node) is exp.CurrentDate and not node.this and today is not None:
        return _written(exp.cast(exp.Literal.string(today.isoformat()), Type.DATE), node)
    if type(node) is exp.ApproxDistinct and not node.args.get("accuracy"):
        return _written(exp.Count(this=exp.Distinct(expressions=[node.this])), node)
    if type(node) is exp.DateDiff and _unit(node.args.get("unit")) == "DAY" and not node.args.get("zone"):
        days = (exp.cast(each, Type.DATE) for each in (node.this, node.expression))
        return _written(exp.Paren(this=exp.Sub(this=next(days), expression=next(days))), node)
    if type(node) is exp.TimeToStr:
        return _formatted(node)
    if type(node) is exp.Concat:
        return _concatenated(node)
    return node


def _written(made: exp.Expr, node: exp.Expr) -> exp.Expr:
    """What stands in the place of a node, with its name and place in the text."""
    made.meta.update(node.meta)
    return made


def _unit(node: exp.Expr | None) -> str:
    return node.name.upper().rstrip("S") if node is not None else ""


def fold_dates(node: exp.Expr) -> exp.Expr:
    """A literal date, less or more an interval of days or months, or a whole number of days: the date that it is."""
    if type(node) not in (exp.Add, exp.Sub):
        return node
    moment, sign = _moment(node.this.unnest()), -1 if type(node) is exp.Sub else 1
    if moment is None:
        return node
    amount = node.expression.unnest()
    if type(amount) is exp.Literal and not amount.is_string and amount.name.isdigit() and len(amount.name) < 7:
        plain = None if isinstance(moment, datetime) else _moved(moment, 0, sign * int(amount.name))
        return node if plain is None else _written(exp.cast(exp.Literal.string(plain.isoformat()), Type.DATE), node)
    steps = _interval(amount)
    if steps is None:
        return node
    start = moment if isinstance(moment, datetime) else datetime.combine(moment, datetime.min.time())
    found = _moved(start, sign * steps[0], sign * steps[1])
    if found is None:
        return node
    text = found.isoformat(sep=" ")  # type: ignore[call-arg]
    return _written(exp.cast(exp.Literal.string(text), Type.TIMESTAMP), node)


def _moment(node: exp.Expr) -> date | None:
    if not isinstance(node, exp.Cast) or type(node.this) is not exp.Literal or not node.this.is_string:
        return None
    if node.args["to"].this not in (Type.DATE, Type.TIMESTAMP, Type.TIMESTAMPNTZ) or node.args["to"].expressions:
        return None
    try:
        found = datetime.fromisoformat(node.this.name.strip())
    except ValueError:
        return None
    if found.tzinfo is not None:
        return None
    return found.date() if node.args["to"].this == Type.DATE else found


def _interval(node: exp.Expr) -> tuple[int, int] | None:
    """Months and days of an interval that is written as '3 months', '3' MONTH or 3 MONTH."""
    if type(node) is not exp.Interval or type(node.this) is not exp.Literal:
        return None
    unit = node.args.get("unit")
    if unit is not None and type(unit) is not exp.Var:
        return None
    text = f"{node.this.name} {unit.name if unit is not None else ''}".strip()
    found = re.fullmatch(r"(\d{1,6})\s*([a-z]+)", text, flags=re.IGNORECASE | re.ASCII)
    word = found[2].upper().removesuffix("S") if found else ""
    if found is None or word not in UNITS:
        return None
    size = int(found[1]) * UNITS[word]
    return (size, 0) if word in ("YEAR", "MONTH") else (0, size)


def _moved(moment: date, months: int, days: int) -> date | None:
    """As both engines have it: of a month with fewer days, the last one."""
    if abs(days) > MOST_MOVED or abs(months) > MOST_MOVED // 30:
        return None
    place = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(place, 12)
    try:
        first = moment.replace(year=year, month=month + 1, day=1)
        last = (first.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
        return first.replace(day=min(moment.day, last.day)) + timedelta(days=days)
    except (ValueError, OverflowError):
        return None


def _formatted(node: exp.Expr) -> exp.Expr:
    """A date in a format of year, month, day and what stands between them: parts of the date as it is written."""
    form = node.args.get("format")
    text = form.name if type(form) is exp.Literal and form.is_string else ""
    if not re.fullmatch(r"(%[Ymd]|[-/._ ])+", text) or "%" not in text or len(text) > LONGEST_FORMAT:
        return node
    if any(node.args.get(name) for name in ("culture", "zone")):
        return node
    parts: list[exp.Expr] = []
    for piece in re.findall(r"%[Ymd]|[-/._ ]+", text):
        if piece in FIELDS:
            start, length = (exp.Literal.number(each) for each in FIELDS[piece])
            day = exp.cast(exp.cast(node.this.copy(), Type.DATE), Type.TEXT)
            parts.append(exp.Substring(this=day, start=start, length=length))
        else:
            parts.append(exp.Literal.string(piece))
    return _written(_joined(parts), node)


def _concatenated(node: exp.Concat) -> exp.Expr:
    """concat() passes over NULL, and writes what is no text as CAST does."""
    if not node.expressions or not node.args.get("coalesce"):
        return node
    parts = [_text(each) for each in node.expressions if type(each) is not exp.Null]
    return _written(_joined(parts or [exp.Literal.string("")]), node)


def _text(node: exp.Expr) -> exp.Expr:
    if type(node) is exp.Literal and node.is_string:
        return node
    return exp.Coalesce(this=exp.cast(node, Type.TEXT), expressions=[exp.Literal.string("")])


def _joined(parts: list[exp.Expr]) -> exp.Expr:
    first, *others = parts
    for each in others:
        first = exp.DPipe(this=first, expression=each, safe=True)
    return exp.Paren(this=first)


# ---- selects


def _open_parentheses(select: exp.Select, number: int) -> None:
    start = select.args.get("from_")
    inside = start.this if start is not None else None
    if (
        start is None
        or type(inside) is not exp.Subquery
        or type(inside.this) is not exp.Table
        or inside.args.get("alias")
    ):
        return
    if any(inside.args.get(name) for name in inside.args if name != "this"):
        return
    table = inside.this
    joins = table.args.get("joins") or []
    if any(join.args.get("method") for join in joins):
        return
    table.set("joins", None)
    start.set("this", table)
    select.set("joins", [*joins, *(select.args.get("joins") or [])])


def _join_commas(select: exp.Select, number: int) -> None:
    """Equalities of columns with the names of their tables become the conditions of joins that have none."""
    where, joins = select.args.get("where"), select.args.get("joins") or []
    if where is None or not joins or any((join.args.get("side") or "").upper() in ("RIGHT", "FULL") for join in joins):
        return
    names = [select.args["from_"].this.alias_or_name.casefold(), *(j.this.alias_or_name.casefold() for j in joins)]
    if "" in names or len(set(names)) < len(names):
        return
    kept = []
    for part in conjuncts(where.this):
        place = _last_place(part, names)
        join = joins[place - 1] if place else None
        if join is None or not _is_comma(join):
            kept.append(part)
            continue
        known = join.args.get("on")
        join.set("on", part.copy() if known is None else exp.And(this=known, expression=part.copy()))
        join.meta["comma"] = True
    for join in joins:
        if join.args.get("on") is not None and (join.args.get("kind") or "").upper() == "CROSS":
            join.set("kind", None)
    _set_where(select, kept)


def _is_comma(join: exp.Join) -> bool:
    if join.meta.get("comma"):
        return True
    bare = not any(join.args.get(name) for name in ("on", "using", "side", "method"))
    return bare and (join.args.get("kind") or "").upper() in ("", "CROSS")


def _last_place(part: exp.Expr, names: list[str]) -> int | None:
    """Of an equality of columns of two tables, the place of the one that comes last."""
    if type(part) is not exp.EQ:
        return None
    sides = [part.this, part.expression]
    if not all(type(side) is exp.Column and side.table.casefold() in names and not side.db for side in sides):
        return None
    places = {names.index(side.table.casefold()) for side in sides}
    return max(places) if len(places) == 2 else None


def _set_where(select: exp.Select, parts: list[exp.Expr]) -> None:
    select.set("where", exp.Where(this=exp.and_(*(part.copy() for part in parts))) if parts else None)


def _join_subqueries(select: exp.Select, number: int) -> None:
    """IN and EXISTS, with AND between them, as joins with what is distinct."""
    where = select.args.get("where")
    if where is None or select.args.get("from_") is None or any(map(_is_star, select.expressions)):
        return
    kept: list[exp.Expr] = []
    changed = False
    for place, part in enumerate(conjuncts(where.this)):
        made = _matched(part, f"{MATCH}_{number}_{place}", select)
        if made is None:
            kept.append(part)
            continue
        changed = True
        join, more = made
        select.set("joins", [*(select.args.get("joins") or []), join])
        kept += more
    if changed:
        _set_where(select, kept)


def _is_star(node: exp.Expr) -> bool:
    return type(node) is exp.Star or (type(node) is exp.Column and type(node.this) is exp.Star)


def _matched(part: exp.Expr, alias: str, select: exp.Select) -> tuple[exp.Join, list[exp.Expr]] | None:
    """The join in place of a condition, and what must hold of its rows."""
    key = exp.column(KEY, table=alias)
    if type(part) is exp.In and part.args.get("query") is not None and not part.expressions:
        query = part.args["query"]
        inner = query.this if type(query) is exp.Subquery and not query.args.get("alias") else query
        keys = _in_keys(inner)
        on = exp.EQ(this=part.this.copy(), expression=key) if keys is not None else None
        return None if keys is None or on is None else (_join_of("IN with a subquery", keys, alias, on, left=False), [])
    absent = type(part) is exp.Not and type(part.this.unnest()) is exp.Exists
    exists = part.this.unnest() if absent else part
    if type(exists) is not exp.Exists or type(exists.this) is not exp.Select:
        return None
    found = _exists_keys(exists.this)
    if found is None:
        return None
    keys, outer = found
    join = _join_of("EXISTS", keys, alias, exp.EQ(this=outer, expression=key), left=absent)
    return join, [exp.Is(this=key.copy(), expression=exp.Null())] if absent else []


def _join_of(word: str, keys: exp.Select, alias: str, on: exp.Expr, *, left: bool) -> exp.Join:
    table = exp.Subquery(this=keys, alias=exp.TableAlias(this=exp.to_identifier(alias)))
    join = exp.Join(this=table, on=on, side="LEFT" if left else None)
    join.meta[SHORT] = word
    return join


def _in_keys(inner: exp.Expr) -> exp.Select | None:
    """SELECT DISTINCT _key FROM (the query), of a query of one column."""
    if type(inner) is not exp.Select or len(inner.expressions) != 1 or _is_star(inner.expressions[0]):
        return None
    made = inner.copy()
    made.set("expressions", [exp.alias_(made.expressions[0].unalias(), KEY)])
    rows = exp.Subquery(this=made, alias=exp.TableAlias(this=exp.to_identifier(KEPT)))
    return exp.Select(expressions=[exp.column(KEY, table=KEPT)], distinct=exp.Distinct()).from_(rows, copy=False)


def _exists_keys(inner: exp.Select) -> tuple[exp.Select, exp.Expr] | None:
    """SELECT DISTINCT inner column AS _key, with all but the one equality with an outer column; and that column."""
    asked = {name for name, value in inner.args.items() if value not in (None, False, [])}
    if not asked <= {"expressions", "from_", "joins", "where"} or not {"from_", "where"} <= asked:
        return None
    if any(holds_aggregate(each) for each in inner.expressions):
        return None  # it has a row whatever the rows are
    sources = [inner.args["from_"].this, *(join.this for join in inner.args.get("joins") or [])]
    names = {each.alias_or_name.casefold() for each in sources}
    pairs, kept = [], []
    for part in conjuncts(inner.args["where"].this):
        sides = [part.this, part.expression] if type(part) is exp.EQ else []
        columns = len(sides) == 2 and all(type(side) is exp.Column and side.table and not side.db for side in sides)
        own = [side for side in sides if columns and side.table.casefold() in names]
        if columns and len(own) == 1:
            pairs.append((own[0], next(side for side in sides if side is not own[0])))
        else:
            kept.append(part)
    if len(pairs) != 1:
        return None
    mine, outer = pairs[0]
    made = exp.Select(
        expressions=[exp.alias_(mine.copy(), KEY)], distinct=exp.Distinct(), from_=inner.args["from_"].copy(),
        joins=[join.copy() for join in inner.args.get("joins") or []],
    )  # fmt: skip
    _set_where(made, kept)
    return made, outer.copy()


def _filter_windows(select: exp.Select, number: int) -> None:
    """QUALIFY, of a SELECT that neither groups nor orders."""
    qualify = select.args.get("qualify")
    others = ("group", "having", "order", "limit", "offset", "distinct", "with_")
    if qualify is None or any(select.args.get(name) for name in others) or any(map(_is_star, select.expressions)):
        return
    if any(holds_aggregate(each) for each in (*select.expressions, qualify.this)):
        return
    named = {each.alias_or_name.casefold(): each for each in select.expressions}
    if "" in named or len(named) < len(select.expressions):
        return
    aliases = {name: each.this for name, each in named.items() if type(each) is exp.Alias}

    def swap(node: exp.Expr) -> exp.Expr:
        if type(node) is exp.Column and not node.table and node.name.casefold() in aliases:
            return exp.Paren(this=aliases[node.name.casefold()].copy())
        return node

    asked = exp.Paren(this=qualify.this.copy()).transform(swap, copy=False)
    if asked.find(exp.Window) is None:
        return  # an engine refuses it, too
    test = exp.alias_(asked, f"{KEPT}_{number}")
    inner = exp.Select(**{name: value for name, value in select.args.items() if name != "qualify"})
    inner.set(
        "expressions", [*(exp.alias_(e.unalias(), e.alias_or_name, quoted=True) for e in select.expressions), test]
    )
    alias = f"{MATCH}_{number}"
    for name in list(select.args):
        select.set(name, None)
    listed = [exp.column(exp.to_identifier(each.alias, quoted=True), table=alias) for each in inner.expressions[:-1]]
    select.set("expressions", listed)
    rows = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(alias)))
    select.set("from_", exp.From(this=rows))
    select.set("where", exp.Where(this=exp.column(f"{KEPT}_{number}", table=alias)))


def _group_by_all(select: exp.Select, number: int) -> None:
    group = select.args.get("group")
    if group is None or not group.args.get("all") or group.expressions or any(map(_is_star, select.expressions)):
        return
    if any(value for name, value in group.args.items() if name not in ("all", "expressions")):
        return
    plain = [each.unalias() for each in select.expressions if not holds_aggregate(each)]
    keys = [each.copy() for each in plain if each.find(exp.Column) is not None]
    if not keys and len(plain) == len(select.expressions):
        return  # literals alone
    select.set("group", exp.Group(expressions=keys) if keys else None)


def _join_single_rows(select: exp.Select, number: int) -> None:
    """SELECT of subqueries alone, each of which has one row: it aggregates, and neither groups nor filters its row."""
    if select.args.get("from_") is not None or any(
        value for name, value in select.args.items() if name not in ("expressions", "with_") and value
    ):
        return
    inner = [each.unalias() for each in select.expressions]
    if len(inner) < 1 or not all(type(each) is exp.Subquery and _has_one_row(each.this) for each in inner):
        return
    listed: list[exp.Expr] = []
    tables = []
    for place, (item, query) in enumerate(zip(select.expressions, inner, strict=True)):
        own, alias = query.this.copy(), f"{MATCH}_{number}_{place}"
        name = item.alias or own.expressions[0].alias or name_of(own.expressions[0])
        own.set("expressions", [exp.alias_(own.expressions[0].unalias(), KEY)])
        listed.append(exp.alias_(exp.column(KEY, table=alias), name, quoted=True))
        tables.append(exp.Subquery(this=own, alias=exp.TableAlias(this=exp.to_identifier(alias))))
    first, *others = tables
    select.set("expressions", listed)
    select.set("from_", exp.From(this=first))
    select.set("joins", [exp.Join(this=each, kind="CROSS") for each in others] or None)


def _has_one_row(query: exp.Expr) -> bool:
    asked = {name for name, value in query.args.items() if value not in (None, False, [])}
    if type(query) is not exp.Select or not asked <= {"expressions", "from_", "joins", "where"}:
        return False
    return len(query.expressions) == 1 and holds_aggregate(query.expressions[0]) and "from_" in asked


Rewriting = Callable[[exp.Select, int], None]
SELECTS: tuple[Rewriting, ...] = (
    _open_parentheses, _join_commas, _join_subqueries, _filter_windows, _group_by_all, _join_single_rows,
)  # fmt: skip
