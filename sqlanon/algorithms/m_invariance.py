"""Classes whose sensitive values all differ, and in which a person meets the same values in every release.

A person who was released before stays in a bucket with the values of its last class. Where a bucket lacks a value,
newcomers who have it fill it up, and counterfeit rows where there is none: rows of nobody, which no reader can tell
from others, and which are counted in the evidence. The newcomers who are left make buckets of their own, and those who
cannot, since too many have the same, wait. So do those whose value is NULL, unless the policy says `sensitive_nulls:
value`. Each bucket is cut into classes with one row of each value, of rows that lie close to one another. The release
gets the column `sqlanon_class`, which tells the classes apart.

`history` names m: `history: {models: [{m_invariance: {m: 3}}]}`. A person whose sensitive value changed would be told
by it, and is shown no more unless it changes back. One sensitive column, and no other column is shown as it is: a
counterfeit row has nothing to show there.

What it does not protect: against who knows this algorithm and the quasi-identifiers of all persons. Persons of a value
go to buckets and classes in the order of their quasi-identifiers, and nothing of that is drawn: from who is in which
class follows who has which value, sometimes surely (`sqlanon attack --attack minimality`).
cite: Xiao and Tao 2007
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from sqlglot import exp

from sqlanon.errors import NotReleased, PolicyError
from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Assigned, Solution
from sqlanon.regions.partition import Parts
from sqlanon.regions.range_labels import labels_of, loss_of
from sqlanon.regions.value_orders import Order, orders
from sqlanon.relations.bucket_quotas import Bucket, Signature, fill_buckets
from sqlanon.relations.classes import NULL_NODE
from sqlanon.relations.compressed_rows import code, same_value
from sqlanon.relations.history_relations import value_label
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    column,
    count_all,
    join_clause,
    literal,
    nest_query,
    select,
    table,
    union_all,
    window,
)

BITS = 60  # of a number that orders rows so that neighbours are alike
TEXT, BIGINT = exp.DataType.build("text"), exp.DataType.build("bigint")

TRAITS = AlgorithmTraits(history="signatures", counterfeits=True, worlds="invariance")


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def run(problem: Problem, params: Params) -> Solution:
    m = _required(problem)
    lines = orders(problem)
    people = _made(problem, "people", _people(problem, lines))
    buckets, waiting = _planned(problem, people, m)
    places = _made(problem, "places_in_buckets", _placed(problem, people, buckets))
    counterfeits = sum(bucket.counterfeits().total() for bucket in buckets)
    missing = _made(problem, "counterfeits", _counterfeits(problem, buckets, places))
    regions = _made(problem, "bucket_regions", _regions(places, len(lines)))
    parts = Parts(places, regions, lines, 1, True)
    labels = labels_of(problem, parts, ranges=True)
    if not problem.records - waiting:
        raise Infeasible(None)
    return Solution(
        loss=loss_of(problem, parts, labels),
        suppressed=waiting,
        why=f"{len(buckets):,} buckets, {counterfeits:,} counterfeit rows, {waiting:,} rows wait",
        assigned=Assigned(places, labels, missing, counterfeits),
    )


def _required(problem: Problem) -> int:
    """m, if the policy is one that this algorithm can serve."""
    policy = problem.policy
    uses = policy.history.models if policy.history is not None else ()
    wanted = [int(use.params["m"]) for use in uses if use.name == "m_invariance"]
    if not wanted or problem.requirements.past is None:
        raise PolicyError(
            "m_invariance needs a history that asks for it", hint="add 'history: {models: [{m_invariance: {m: 3}}]}'"
        )
    if len(policy.sensitive) != 1:
        raise PolicyError("m_invariance needs one sensitive column", hint="release others under another name")
    shown = [name for name, item in policy.columns.items() if item.role == "insensitive" or item.pseudonym]
    if shown:
        raise PolicyError(
            f"m_invariance adds rows of nobody, and these have no '{shown[0]}' to show",
            hint="make it a quasi-identifier, or an identifier without a pseudonym",
        )
    return max(wanted)


def _made(problem: Problem, kind: str, query: exp.Query) -> str:
    made = problem.prelude.once(f"m_{kind}", (len(problem.prelude.steps),), lambda: query)
    problem.run()
    return made


def _people(problem: Problem, lines: tuple[Order, ...]) -> exp.Select:
    """(original, value, signature, seen, p1, …, z): every row, with the signature of its person, if it has one.

    z puts rows in an order in which neighbours are alike: the bits of all places, the highest ones first."""
    policy, dialect = problem.policy, problem.engine.dialect
    past = problem.requirements.past
    assert policy.person is not None and past is not None
    joins = []
    for place, line in enumerate(lines, start=1):
        dictionary, codes = f"d{place}", f"o{place}"
        own = same_value(dialect, column(line.domain.name, "original"), dictionary)
        known = select("original", alias(code(line.domain), "code"), source=table(line.domain.dictionary))
        joins.append(join_clause(nest_query(known, dictionary), own))
        same = exp.column("code", table=codes).eq(exp.column("code", table=dictionary))
        joins.append(join_clause(table(line.codes, alias=codes), same))
    person = column(policy.person, "original")
    joins.append(
        join_clause(table(past.people, alias="s"), exp.column("original", table="s").eq(person.copy()), side="LEFT")
    )
    value = value_label(policy.sensitive[0])
    for found in value.find_all(exp.Column):
        found.set("table", exp.to_identifier("original"))
    placed = select(
        alias(person, "original"),
        alias(value, "value"),
        exp.column("signature", table="s"),
        exp.column("seen", table="s"),
        *(alias(bigint(exp.column("at_", table=f"o{place}")), f"p{place}") for place in range(1, len(lines) + 1)),
        source=nest_query(problem.prelude.rows.copy(), "original"),
        joins=joins,
    )
    return select(exp.Star(), alias(_curve(lines), "z"), source=nest_query(placed, "placed"))


def _curve(lines: tuple[Order, ...]) -> exp.Expr:
    bits = max(1, min(10, BITS // len(lines)))
    terms: list[exp.Expr] = []
    for bit in range(bits):
        for place, line in enumerate(lines):
            wide = exp.Mul(this=exp.column(f"p{place + 1}"), expression=bigint(literal((1 << bits) - 1)))
            scaled = exp.func("FLOOR", exp.Div(this=wide, expression=literal(float(max(line.leaves, 1)))))
            shifted = exp.BitwiseRightShift(this=exp.paren(bigint(scaled)), expression=literal(bit))
            one = exp.paren(exp.BitwiseAnd(this=exp.paren(shifted), expression=bigint(literal(1))))
            terms.append(exp.Mul(this=one, expression=bigint(literal(1 << (bit * len(lines) + place)))))
    tree = terms[0]
    for term in terms[1:]:
        tree = exp.Add(this=tree, expression=term)
    return bigint(tree)


def _planned(problem: Problem, people: str, m: int) -> tuple[list[Bucket], int]:
    """The buckets, and how many rows wait; refused where these are more than the policy allows."""
    past = problem.requirements.past
    assert past is not None
    counted = select(
        "signature", "value", "seen", count_all(), source=table(people), groups=["signature", "value", "seen"]
    )
    known: dict[Signature, Counter[str]] = {}
    newcomers: Counter[str] = Counter()
    changed = changed_now = unknown = 0
    for signature, value, seen, n in problem.engine.query(counted):
        if signature is None and value == NULL_NODE and problem.policy.sensitive_nulls == "unknown":
            unknown += int(n)
            continue
        if signature is None:
            newcomers[str(value)] += int(n)
            continue
        own = parse_signature(str(signature))
        if str(value) in own:
            known.setdefault(own, Counter())[str(value)] += int(n)
        else:
            changed += int(n)
            changed_now += int(n) * (int(seen or 0) == past.version)
    buckets = fill_buckets(known, newcomers, m)
    placed = sum((bucket.new.total() for bucket in buckets), 0)
    delayed = newcomers.total() - placed + unknown
    assert problem.policy.history is not None
    limit = problem.policy.history.hold_back
    if delayed + changed_now > limit * problem.records + 1e-9:
        raise NotReleased(
            f"{delayed + changed_now:,} of {problem.records:,} rows would have to wait, since too many newcomers have "
            f"the same sensitive value or none, or values changed; the limit is {limit:.1%}",
            hint="raise 'hold_back' under 'history', or lower m; the last release is still in place",
        )
    return buckets, delayed + changed


def parse_signature(signature: str) -> Signature:
    """The values of a signature as it is kept: each with its length before it.

    >>> sorted(parse_signature("3:flu5:4:you"))
    ['4:you', 'flu']
    """
    found, rest = [], signature
    while rest:
        length, _, rest = rest.partition(":")
        found.append(rest[: int(length)])
        rest = rest[int(length) :]
    return frozenset(found)


def format_signature(signature: Signature) -> str:
    return "".join(f"{len(value)}:{value}" for value in sorted(signature))


def _placed(problem: Problem, people: str, buckets: list[Bucket]) -> exp.Query:
    """(original, value, bucket, region, p1, …): the persons who are shown, each in its class.

    Persons of a bucket and value are numbered along the curve and spread over all classes of the bucket, so that those
    of one class lie close to one another."""
    offset, numbers, allowed, taken = 0, [], [], []
    given: Counter[str] = Counter()
    for place, bucket in enumerate(buckets, start=1):
        numbers.append((place, offset, bucket.classes))
        offset += bucket.classes
        for value in sorted(bucket.signature):
            allowed.append((format_signature(bucket.signature), value, place))
            if bucket.new[value]:
                taken.append((value, place, given[value] + 1, given[value] + bucket.new[value]))
                given[value] += bucket.new[value]
    listed = _loaded(problem, "bucket_list", numbers, {"bucket": BIGINT, "start_": BIGINT, "classes": BIGINT})
    belongs = _loaded(problem, "bucket_values", allowed, {"signature": TEXT, "value": TEXT, "bucket": BIGINT})
    ranges = _loaded(problem, "newcomers", taken, {"value": TEXT, "bucket": BIGINT, "first_": BIGINT, "last_": BIGINT})
    dims = [
        item.name
        for item in problem.engine.columns(select(exp.Star(), source=table(people)))
        if item.name.startswith("p")
    ]
    order = [exp.column("z"), exp.column("original")]
    own = [exp.column(name, table="b").eq(exp.column(name, table="r")) for name in ("signature", "value")]
    back = select(
        "original", exp.column("value", table="r"), "z", *dims, exp.column("bucket", table="b"),
        source=table(people, alias="r"), joins=[join_clause(table(belongs, alias="b"), exp.and_(*own))],
    )  # fmt: skip
    fresh = select(
        "original", "value", "z", *dims,
        alias(window(exp.RowNumber(), partition=[exp.column("value")], order=order), "number"),
        source=table(people), where=exp.column("signature").is_(exp.Null()),
    )  # fmt: skip
    within = exp.and_(
        exp.column("value", table="t").eq(exp.column("value", table="f")),
        exp.column("number", table="f").between(exp.column("first_", table="t"), exp.column("last_", table="t")),
    )
    joining = select(
        "original", exp.column("value", table="f"), "z", *dims, exp.column("bucket", table="t"),
        source=nest_query(fresh, "f"), joins=[join_clause(table(ranges, alias="t"), within)],
    )  # fmt: skip
    together = [exp.column("bucket"), exp.column("value")]
    ranked = select(
        exp.Star(),
        alias(window(exp.RowNumber(), partition=together, order=[item.copy() for item in order]), "number"),
        alias(exp.Window(this=exp.Count(this=exp.Star()), partition_by=[item.copy() for item in together]), "every"),
        source=nest_query(union_all([back, joining]), "shown"),
    )
    before = exp.paren(exp.Sub(this=exp.column("number", table="n"), expression=literal(1)))
    spread = exp.Mul(this=before, expression=exp.column("classes", table="b"))
    whole = exp.func("FLOOR", exp.Div(this=exp.cast(spread, "double"), expression=exp.column("every", table="n")))
    region = exp.Add(
        this=exp.Add(this=exp.column("start_", table="b"), expression=bigint(whole)), expression=literal(1)
    )
    return select(
        "original", "value", exp.column("bucket", table="n"), alias(bigint(region), "region"), *dims,
        source=nest_query(ranked, "n"),
        joins=[join_clause(
            table(listed, alias="b"), exp.column("bucket", table="b").eq(exp.column("bucket", table="n")),
        )],
    )  # fmt: skip


def _counterfeits(problem: Problem, buckets: list[Bucket], places: str) -> exp.Query:
    """(region, value): what a class lacks of the values of its bucket."""
    lacking = [(place, value) for place, bucket in enumerate(buckets, start=1) for value in bucket.counterfeits()]
    wanted = _loaded(problem, "lacking", lacking, {"bucket": BIGINT, "value": TEXT})
    regions = select("bucket", "region", source=table(places)).distinct()
    same = exp.column("bucket", table="w").eq(exp.column("bucket", table="c"))
    there = [
        exp.column("region", table="p").eq(exp.column("region", table="c")),
        exp.column("value", table="p").eq(exp.column("value", table="w")),
    ]
    return select(
        exp.column("region", table="c"),
        exp.column("value", table="w"),
        source=nest_query(regions, "c"),
        joins=[
            join_clause(table(wanted, alias="w"), same),
            join_clause(table(places, alias="p"), exp.and_(*there), side="LEFT"),
        ],
        where=exp.column("region", table="p").is_(exp.Null()),
    )


def _regions(places: str, dims: int) -> exp.Select:
    ends: list[exp.Expr] = [
        alias(function(this=exp.column(f"p{place}")), f"{name}{place}")
        for place in range(1, dims + 1)
        for name, function in (("lo", exp.Min), ("hi", exp.Max))
    ]
    return select("region", alias(count_all(), "rows_"), *ends, source=table(places), groups=["region"])


def _loaded(problem: Problem, kind: str, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, exp.DataType]) -> str:
    """Buckets may be many: a table is loaded, and not written out."""
    texts = tuple(tuple(str(item) for item in row) for row in rows)
    raw = problem.prelude.load(f"m_{kind}_text", (len(problem.prelude.steps),), tuple(columns), texts)
    problem.run()
    typed = [alias(exp.Cast(this=exp.column(name), to=type_.copy()), name) for name, type_ in columns.items()]
    return _made(problem, kind, select(*typed, source=table(raw)))
