"""Conditions: comparisons, lists, CASE, and what connects them. Rules like those of `scalars`."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlglot import exp

from sqlanon.gateway.bind.arrays import array_in, elements_of
from sqlanon.gateway.bind.row_work import weigh_comparison
from sqlanon.gateway.bind.scalars import (
    Scope,
    bind,
    bind_shown,
    branch,
    common,
    derive_value,
    only,
    read_as,
    refusal,
    rule,
    temporal,
    text_literal,
)
from sqlanon.gateway.bind.values import NUMBERS, TIMES, Value, clamp_time, hull

READ = ("int", "float", "bool")  # kinds that a text beside them is read as
# Nodes that compare texts for equality alone; a join with USING does, too.
EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Nullif, exp.If, exp.Join)


def comparable(node: exp.Expr, left: Value, right: Value) -> tuple[exp.Expr, exp.Expr]:
    """Both sides of a comparison; a text beside a date is read as a date here, not by the engine."""
    left.learn(right.kind, right.beside)
    right.learn(left.kind, left.beside)
    left, right = _meant(node, left, right), _meant(node, right, left)
    kinds = {left.kind, right.kind} - {"null"}
    if "opaque" in kinds:
        raise refusal(node, "values of this type are not compared", sqlstate="42883")
    if len(kinds) > 1 and (left.nothing or right.nothing):
        return tuple(exp.Null() if side.nothing else side.tree.copy() for side in (left, right))  # type: ignore[return-value]
    if len(kinds) > 1 and not kinds <= set(NUMBERS) and not kinds <= set(TIMES):
        raise refusal(
            node,
            f"a {left.kind} cannot be compared with a {right.kind}",
            sqlstate="42883",
            hint="compare like with like",
        )
    if type(node) in EQUALITIES and kinds <= {"text"}:
        return left.whole.copy(), right.whole.copy()
    if kinds == set(TIMES):
        # An engine makes a timestamp of the date, and fails if its year is too large for one.
        return clamp_time(left.tree), clamp_time(right.tree)
    return left.tree.copy(), right.tree.copy()


def _meant(node: exp.Expr, value: Value, other: Value) -> Value:
    """A text that is written beside another kind is one of that kind, as in PostgreSQL; a parameter has its own."""
    if not isinstance(value.literal, str):
        return value
    if other.kind in TIMES:
        return temporal(node, value.literal, other.kind, zoned=other.zoned)
    if value.slot is None and other.stored == "uuid":
        try:
            return text_literal(str(UUID(value.literal)))
        except ValueError:
            raise refusal(node, "invalid input syntax for type uuid", sqlstate="22P02") from None
    return read_as(node, value.literal, other.kind) if value.slot is None and other.kind in READ else value


def condition(node: exp.Expr | None, scope: Scope) -> Value:
    value = bind(node, scope)
    value.learn("bool")
    if value.kind not in ("bool", "null"):
        raise refusal(node or exp.Null(), f"a condition is needed here, not a {value.kind}", sqlstate="42804")
    return value


@rule(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
def _comparison(node: exp.Binary, scope: Scope) -> Value:
    only(node, "this", "expression", "operator")
    given = array_in(node)
    if given is not None:
        return _of_array(node, given, scope)
    left, right = bind(node.this, scope), bind(node.expression, scope)
    return derive_value(exp.Paren(this=build_comparison(type(node), node, left, right)), "bool", [left, right])


def build_comparison(kind: type[exp.Expr], node: exp.Expr, left: Value, right: Value) -> exp.Expr:
    """A comparison, which looks at no more characters than the shorter text has."""
    a, b = comparable(node, left, right)
    length = min(left.longest, right.longest)
    return weigh_comparison(kind(this=a, expression=b), length, bytewise=kind in EQUALITIES)


@rule(exp.And, exp.Or)
def _connector(node: exp.Binary, scope: Scope) -> Value:
    only(node, "this", "expression", "operator")
    left, right = condition(node.this, scope), condition(node.expression, scope)
    return derive_value(exp.Paren(this=type(node)(this=left.tree, expression=right.tree)), "bool", [left, right])


@rule(exp.Not)
def _not(node: exp.Not, scope: Scope) -> Value:
    only(node, "this")
    value = condition(node.this, scope)
    # NOT binds less than what may stand around it: NOT (a) IS NULL would be NOT (a IS NULL).
    return derive_value(exp.Paren(this=exp.Not(this=exp.Paren(this=value.tree))), "bool", [value])


@rule(exp.Is)
def _is(node: exp.Is, scope: Scope) -> Value:
    only(node, "this", "expression", "operator")
    value = (bind_shown if type(node.expression) is exp.Null else bind)(node.this, scope)
    if type(node.expression) not in (exp.Null, exp.Boolean):
        raise refusal(node, "IS takes NULL, TRUE or FALSE", sqlstate="42601")
    if type(node.expression) is exp.Boolean and value.kind not in ("bool", "null"):
        raise refusal(node, f"IS TRUE needs a condition, not a {value.kind}", sqlstate="42804")
    return derive_value(
        exp.Paren(this=exp.Is(this=value.shown.copy(), expression=node.expression.copy())), "bool", [value]
    )


@rule(exp.Between)
def _between(node: exp.Between, scope: Scope) -> Value:
    only(node, "this", "low", "high")
    value, low, high = (bind(node.args[name], scope) for name in ("this", "low", "high"))
    both = exp.And(
        this=build_comparison(exp.GTE, node, value, low), expression=build_comparison(exp.LTE, node, value, high)
    )
    return derive_value(exp.Paren(this=both), "bool", [value, low, high])


@rule(exp.In)
def _in(node: exp.In, scope: Scope) -> Value:
    if node.args.get("query") is not None:
        raise refusal(node, "IN with a subquery is not answered", hint="list the values, or join a public table")
    only(node, "this", "expressions")
    value = bind(node.this, scope)
    items = [bind(item, scope) for item in node.expressions]
    if not items:
        raise refusal(node, "IN takes a list of literals", sqlstate="42601")
    return derive_value(_listed(node, value, items), "bool", [value])


def _listed(node: exp.Expr, value: Value, items: Sequence[Value]) -> exp.Expr:
    if any(item.literal is None and item.kind != "null" and not item.nothing for item in items):
        raise refusal(node, "IN takes a list of literals", hint="join a public table for longer lists")
    sides = [comparable(node, value, item) for item in items]
    # One date beside one timestamp is held to years that both can be: then it must be, for all of them.
    held = next((left for left, _ in sides if left not in (value.tree, value.whole)), sides[0][0])
    found = exp.In(this=held, expressions=[right for _, right in sides])
    length = sum(min(value.longest, item.longest) for item in items)
    return exp.Paren(this=weigh_comparison(found, length + len(items), bytewise=True))


def _of_array(node: exp.Binary, given: exp.Expr, scope: Scope) -> Value:
    """= ANY(array) is IN, <> ALL(array) is NOT IN; of an array without elements, that is known without looking."""
    value = bind(node.this, scope)
    items = elements_of(node, given, value, scope)
    if items is None:
        return derive_value(exp.cast(exp.Null(), exp.DataType.Type.BOOLEAN), "bool", [value])
    other = type(node) is exp.NEQ
    if not items:
        return derive_value(exp.Boolean(this=other), "bool", [value])
    tree = _listed(node, value, items)
    return derive_value(exp.Paren(this=exp.Not(this=tree)) if other else tree, "bool", [value])


@rule(exp.Case)
def _case(node: exp.Case, scope: Scope) -> Value:
    only(node, "this", "ifs", "default")
    subject = bind(node.this, scope) if node.args.get("this") is not None else None
    tests: list[Value] = []
    results: list[Value] = []
    for each in node.args["ifs"]:
        only(each, "this", "true")
        if subject is None:
            tests.append(condition(each.this, scope))
        else:
            equal = build_comparison(exp.EQ, each, subject, other := bind(each.this, scope))
            tests.append(derive_value(exp.Paren(this=equal), "bool", [subject, other]))
        results.append(bind(each.args["true"], scope))
    default = node.args.get("default")
    results.append(bind(default, scope) if default is not None else Value(exp.Null(), "null", public=True))
    return build_case(node, tests, results)


def build_case(node: exp.Expr, tests: Sequence[Value], results: Sequence[Value]) -> Value:
    kind = common(node, results)
    tree = exp.Case()
    for test, result in zip(tests, results, strict=False):
        tree = tree.when(test.tree, branch(result, kind), copy=False)
    tree = tree.else_(branch(results[-1], kind), copy=False)
    finite = all(result.literal is not None or result.kind == "null" for result in results)
    keys = tuple(dict.fromkeys(result.literal for result in results)) if finite else None
    bounds = hull(part.bounds for part in results if part.bounds is not None) if kind in NUMBERS else None
    return derive_value(tree, kind, [*tests, *results], bounds, keys)


@rule(exp.If)
def _if(node: exp.If, scope: Scope) -> Value:
    only(node, "this", "true", "false")
    other = node.args.get("false")
    results = [bind(node.args["true"], scope), bind(other, scope) if other is not None else Value(exp.Null(), "null")]
    return build_case(node, [condition(node.this, scope)], results)


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that all must hold."""
    if type(node) is exp.Paren:
        return conjuncts(node.this)
    return conjuncts(node.this) + conjuncts(node.expression) if type(node) is exp.And else [node]
