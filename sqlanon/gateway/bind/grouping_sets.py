"""GROUP BY ROLLUP, CUBE and GROUPING SETS, written as one SELECT for each set of keys.

    SELECT a, b, SUM(x) FROM t GROUP BY ROLLUP(a, b)

is the UNION ALL of the groups by a and b, by a, and of all rows; a key that a set lacks is NULL there. GROUPING(a) is a
number that each SELECT knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.gateway.bind.calls import is_aggregate
from sqlanon.gateway.bind.scalars import only, refusal
from sqlanon.gateway.bind.select_items import Item

MOST_SETS = 32
Keys = tuple[int, ...]  # places among all keys
MARGINS = (exp.Rollup, exp.Cube, exp.GroupingSets)
# A value of each type of keys: NULL of that type is what is equal to it, and not.
VALUES: dict[str, exp.Expr] = {
    "int": exp.Literal.number(0),
    "float": exp.cast(exp.Literal.number(0), "double"),
    "text": exp.Literal.string(""),
    "bool": exp.Boolean(this=False),
    "date": exp.cast(exp.Literal.string("2000-01-01"), "date"),
    "timestamp": exp.cast(exp.Literal.string("2000-01-01 00:00:00"), "timestamp"),
}


def holds_margins(node: exp.Select) -> bool:
    """Whether a SELECT asks for several groupings at once."""
    group = node.args.get("group")
    if group is None:
        return False
    written = any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets"))
    return written or any(isinstance(each, MARGINS) for each in group.expressions)


def read_sets(group: exp.Expr) -> tuple[list[exp.Expr], list[Keys]]:
    """All keys, and the sets of them that are asked for.

    >>> from sqlglot import parse_one
    >>> keys, sets = read_sets(parse_one("SELECT 1 FROM t GROUP BY ROLLUP(a, b)").args["group"])
    >>> [key.name for key in keys], sets
    (['a', 'b'], [(0, 1), (0,), ()])
    >>> read_sets(parse_one("SELECT 1 FROM t GROUP BY c, CUBE(a, b)").args["group"])[1]
    [(0, 1, 2), (0, 1), (0, 2), (0,)]
    """
    only(group, "expressions", "rollup", "cube", "grouping_sets")
    listed = list(group.expressions)
    for name in ("rollup", "cube", "grouping_sets"):
        listed += group.args.get(name) or []
    keys: list[exp.Expr] = []
    parts = [_sets_of(each, keys) for each in listed]
    found = []
    for chosen in itertools.product(*parts):
        merged = tuple(sorted({place for part in chosen for place in part}))
        found.append(merged)
        if len(found) > MOST_SETS:
            raise refusal(group, f"more than {MOST_SETS} groupings at once are not answered", sqlstate="54011")
    if len(set(found)) < len(found):
        raise refusal(group, "the same grouping twice is not answered", hint="leave one of them out")
    return keys, found


def _sets_of(node: exp.Expr, keys: list[exp.Expr]) -> list[Keys]:
    if not isinstance(node, MARGINS):
        return [_places(node, keys)]
    only(node, "expressions")
    if not node.expressions:
        hint = "write ROLLUP (a, b)"
        raise refusal(node, f"{node.key.upper()} without a list of keys is not answered", hint=hint)
    if isinstance(node, exp.GroupingSets):
        return [each for part in node.expressions for each in _sets_of(part, keys)]
    parts = [_places(each, keys) for each in node.expressions]
    if isinstance(node, exp.Rollup):
        return [_merged(parts[:length]) for length in range(len(parts), -1, -1)]
    if len(parts) > MOST_SETS.bit_length():
        raise refusal(node, f"more than {MOST_SETS} groupings at once are not answered", sqlstate="54011")
    return [_merged(chosen) for length in range(len(parts), -1, -1) for chosen in itertools.combinations(parts, length)]


def _merged(parts: Sequence[Keys]) -> Keys:
    return tuple(dict.fromkeys(place for part in parts for place in part))


def _places(node: exp.Expr, keys: list[exp.Expr]) -> Keys:
    """The places of one key, or of those in parentheses."""
    listed = node.expressions if isinstance(node, exp.Tuple) else [node.unnest()]
    found = []
    for each in listed:
        if each not in keys:
            keys.append(each)
        found.append(keys.index(each))
    return tuple(found)


def select_set(node: exp.Select, items: Sequence[Item], keys: Sequence[exp.Expr], kinds: Sequence[str],
               chosen: Keys) -> exp.Select:  # fmt: skip
    """The SELECT of one set of keys. Those that it lacks are NULL, of their type."""
    values = [VALUES[kind] for kind in kinds]
    missing = {
        place: exp.Nullif(this=value.copy(), expression=value.copy())
        for place, value in enumerate(values)
        if place not in chosen
    }
    made = exp.Select(**{name: node.args[name].copy() for name in ("from_", "where") if node.args.get(name)})
    if node.args.get("joins"):
        made.set("joins", [join.copy() for join in node.args["joins"]])
    for item in items:
        made.append("expressions", exp.alias_(_written(item.node, keys, missing, chosen), item.name, quoted=True))
    if chosen:
        made.set("group", exp.Group(expressions=[keys[place].copy() for place in chosen]))
    having = node.args.get("having")
    if having is not None:
        only(having, "this")
        made.set("having", exp.Having(this=_written(having.this, keys, missing, chosen)))
    return made


def _written(node: exp.Expr, keys: Sequence[exp.Expr], missing: Mapping[int, exp.Expr], chosen: Keys) -> exp.Expr:
    if isinstance(node, exp.Grouping | exp.GroupingId):
        return _grouping(node, keys, chosen)
    for place, tree in missing.items():
        if node == keys[place]:
            return tree.copy()
    if is_aggregate(node) or isinstance(node, exp.Query):
        return node.copy()
    made = node.copy()
    for name, value in node.args.items():
        if isinstance(value, exp.Expr):
            made.set(name, _written(value, keys, missing, chosen))
        elif isinstance(value, list):
            made.set(name, [
                _written(each, keys, missing, chosen) if isinstance(each, exp.Expr) else each for each in value
            ])  # fmt: skip
    return made


def _grouping(node: exp.Expr, keys: Sequence[exp.Expr], chosen: Keys) -> exp.Expr:
    """GROUPING(a, b): a bit for each key, which is 1 where the key is summed over."""
    found = 0
    for each in node.expressions:
        if each not in keys:
            raise refusal(node, "GROUPING takes keys of the GROUP BY", sqlstate="42803")
        found = 2 * found + (list(keys).index(each) not in chosen)
    return exp.Literal.number(found)


def union_of(selects: Sequence[exp.Select]) -> exp.Expr:
    """UNION ALL of several SELECTs, as flat a tree as can be."""
    if len(selects) == 1:
        return selects[0]
    half = (len(selects) + 1) // 2
    return exp.Union(this=union_of(selects[:half]), expression=union_of(selects[half:]), distinct=False)


def order_by_place(order: exp.Expr | None, items: Sequence[Item]) -> exp.Expr | None:
    """ORDER BY of all sets together: what is written as in the SELECT list is the place of that column."""
    if order is None:
        return None
    made = order.copy()
    for each in made.expressions:
        for place, item in enumerate(items, start=1):
            if each.this == item.node and not (isinstance(each.this, exp.Literal)):
                each.set("this", exp.Literal.number(place))
                break
    return made
