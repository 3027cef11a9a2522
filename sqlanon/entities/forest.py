"""Persons as trees of rows, compressed: every kind of row once, every signature once, and how many persons have it.

members(signature, code, n)                 how often a kind of row occurs in a signature
packed(code, k, b1, …, p1, f1_1, …)         a kind of row: its values as bits of a key, the signatures of its child
                                            rows, the places of its values, and the leaves below their labels by level
trees(signature, rows_, weight)             how many rows a signature has, those of child tables among them, and what it
                                            costs to suppress them
persons(signature, persons)                 how many persons have a signature

The first three are made for each table, the last one for the persons. Kinds and signatures are those of
`sqlanon.relations.entities`. What a search asks of a node is asked of these, and reads no row of the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import EngineError, PolicyError
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import Policy
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import BITS, Domain, code, dictionary, laid_out, sizes
from sqlanon.relations.entities import EntityTable, Signed, sign_rows
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    column,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    same,
    select,
    sum_bigint,
    table,
    window,
)

PREFIX = "sqlanon_entities"
Levels = Mapping[str, int]  # by quasi-identifier


@dataclass
class EntityForest:
    """What an algorithm is given: the compressed trees of all persons, and the tables that they were made from."""

    policy: Policy
    engine: Engine
    prelude: Prelude
    tree: EntityTable
    hierarchies: Mapping[str, Hierarchy]
    signed: Signed
    domains: Mapping[str, tuple[Domain, ...]]  # by table
    rows_of: Mapping[str, int]  # of each table
    packed: dict[str, str] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    trees: dict[str, str] = field(default_factory=dict)
    persons_of: str = ""
    records: int = 0  # rows of all tables
    persons: int = 0
    made: int = 0  # steps that were run
    drawn: dict[str, str] = field(default_factory=dict)  # tables of numbers in place of persons and keys

    @property
    def limit(self) -> int:
        """How many rows may be suppressed; those of nobody's tree are."""
        return int(self.policy.suppression_limit * self.records + 1e-9)

    @property
    def all_domains(self) -> list[Domain]:
        """In the order of the policy."""
        found = {domain.name: domain for item in self.domains.values() for domain in item}
        return [found[name] for name in self.policy.quasi_identifiers]

    def weight(self, name: str) -> float:
        """What a cell of a quasi-identifier costs at most: all cells together cost 1."""
        own = {item.name for item in self.domains_of(name)}
        assert name in own
        total = sum(self.policy.columns[item.name].weight for item in self.all_domains)
        rows = next(self.rows_of[of] for of, items in self.domains.items() if name in {item.name for item in items})
        return self.policy.columns[name].weight / total / max(rows, 1)

    def domains_of(self, name: str) -> tuple[Domain, ...]:
        """Those of the table that has a quasi-identifier."""
        return next(items for items in self.domains.values() if name in {item.name for item in items})

    def run(self) -> None:
        """Make the tables that were planned since the last time."""
        run_steps(self.engine, self.prelude.steps[self.made :])
        self.made = len(self.prelude.steps)

    def close(self) -> None:
        drop_steps(self.engine, self.prelude.steps)


def compress_trees(
    policy: Policy, engine: Engine, tree: EntityTable, hierarchies: Mapping[str, Hierarchy], prelude: Prelude
) -> EntityForest:
    """Compress the rows of a policy, once. The caller closes the forest."""
    assert policy.person is not None
    for parent in tree.all_tables:
        _require_keys(engine, parent)
    signed = sign_rows(prelude, tree, [policy.person], policy.quasi_identifiers)
    try:
        run_steps(engine, prelude.steps)
        done = len(prelude.steps)
        drafts = {item.tree.name: _domains(prelude, item, hierarchies) for item in signed.all_tables}
        run_steps(engine, prelude.steps[done:])
        done = len(prelude.steps)
        domains = {name: _placed(engine, items) for name, items in drafts.items()}
        rows_of = {item.tree.name: _count(engine, item) for item in signed.all_tables}
        forest = EntityForest(policy, engine, prelude, tree, hierarchies, signed, domains, rows_of, made=done)
        for item in reversed(signed.all_tables):  # children come first
            _compress_table(forest, item)
        number = alias(count_all(), "persons")
        forest.persons_of = prelude.once(
            "persons",
            (),
            lambda: select("signature", number, source=table(signed.owners), groups=["signature"]),
        )
        forest.run()
        asked = [sum_bigint(exp.column("persons")), _product("persons", "rows_")]
        met = exp.column("signature", table="t").eq(exp.column("signature", table="p"))
        joins = [join_clause(table(forest.trees[tree.name], alias="t"), met)]
        persons, inside = engine.query(select(*asked, source=table(forest.persons_of, alias="p"), joins=joins))[0]
        forest.persons, forest.records = int(persons or 0), sum(rows_of.values())
        outside = forest.records - int(inside or 0)
        if outside:
            raise PolicyError(
                f"{outside:,} rows belong to nobody: their key is NULL, or names no row of the table that they hang on",
                hint="correct their keys, or read the table through a view without them",
            )
    except BaseException:
        drop_steps(engine, prelude.steps)
        raise
    return forest


def _require_keys(engine: Engine, parent: EntityTable) -> None:
    """What child tables name must be one row of their parent: else a row of a child would be in several trees."""
    for branch in parent.branches:
        if len(branch.on) > 1:
            raise PolicyError(
                f"the key of '{branch.child.name}' has {len(branch.on)} columns, and one is replaced by a number",
                hint="put them together into one column, in a view",
            )
        key = column(branch.on[0][0])
        counted = [exp.Count(this=key), exp.Count(this=exp.Distinct(expressions=[key.copy()]))]
        filled, distinct = engine.query(select(*counted, source=nest_query(parent.rows.copy(), "source")))[0]
        if filled != distinct:
            raise PolicyError(
                f"the key '{branch.on[0][0]}' of '{parent.name}' is not unique: rows of '{branch.child.name}' belong "
                "to several rows",
                hint="name a key with one row a value under 'on'",
            )


def _compress_table(forest: EntityForest, item: Signed) -> None:
    name, once = item.tree.name, forest.prelude.once
    domains = forest.domains[name]
    forest.members[name] = once("members", (name,), lambda: _members(item))
    forest.packed[name] = once("packed", (name,), lambda: _packed(forest.engine.dialect, item, domains))
    cost = sum(forest.weight(domain.name) for domain in domains)
    forest.trees[name] = once("trees", (name,), lambda: _trees(forest, item, cost))


def _product(left: str, right: str) -> exp.Expr:
    return sum_bigint(exp.Mul(this=exp.column(left), expression=exp.column(right)))


def _count(engine: Engine, item: Signed) -> int:
    rows = int(engine.query(select(count_all(), source=nest_query(item.tree.rows.copy(), "source")))[0][0])
    kinds = exp.Coalesce(this=sum_bigint(exp.column("records")), expressions=[literal(0)])
    counted = int(engine.query(select(kinds, source=table(item.codes)))[0][0])
    if rows != counted:
        raise EngineError(
            f"rows of '{item.tree.name}' were counted twice: {rows:,} and {counted:,}",
            hint="a key of a child table must name columns that are equal; was the source changed meanwhile?",
        )
    return rows


def _domains(prelude: Prelude, item: Signed, hierarchies: Mapping[str, Hierarchy]) -> list[Domain]:
    return [
        Domain(
            name, f"c{place}", hierarchies[name], dictionary(prelude, item.codes, name, f"c{place}", hierarchies[name])
        )
        for place, name in enumerate(item.columns, start=1)
    ]


def _placed(engine: Engine, domains: Sequence[Domain]) -> tuple[Domain, ...]:
    if not domains:
        return ()
    placed, keys = laid_out(domains, engine.query(sizes(domains)))
    if keys > 1:
        raise PolicyError(
            f"the values of {', '.join(domain.name for domain in domains)} need more than {BITS} bits together",
            hint="make a column coarser in a view or 'query:', or give one of them another role",
        )
    return placed


def _members(item: Signed) -> exp.Select:
    each = exp.Anonymous(this="UNNEST", expressions=[exp.column("spelt")])
    single = select("signature", alias(each, "code"), source=table(item.kinds))
    n = alias(count_all(), "n")
    return select("signature", "code", n, source=nest_query(single, "single"), groups=["signature", "code"])


def _packed(dialect: str, item: Signed, domains: Sequence[Domain]) -> exp.Select:
    chosen: list[exp.Expr] = [exp.column("code", table="c")]
    joins, parts, leaves = [], [], []
    for place, domain in enumerate(domains, start=1):
        name = f"d{place}"
        counts = [f"f{level}" for level in range(1, domain.height)]
        known = select("original", alias(code(domain), "bits"), "position", *counts, source=table(domain.dictionary))
        own = same(dialect, exp.column(domain.short, table="c"), exp.column("original", table=name))
        joins.append(join_clause(nest_query(known, name), own))
        parts.append(exp.column("bits", table=name))
        leaves.append(alias(exp.column("position", table=name), f"p{place}"))
        leaves += [alias(exp.column(count, table=name), f"f{place}_{count[1:]}") for count in counts]
    key: exp.Expr = bigint(literal(0))
    for part in parts:
        key = exp.Add(this=key, expression=part)
    chosen.append(alias(bigint(key), "k"))
    chosen += [exp.column(f"b{place}", table="c") for place in range(1, len(item.below) + 1)]
    return select(*chosen, *leaves, source=table(item.codes, alias="c"), joins=joins)


def _trees(forest: EntityForest, item: Signed, cost: float) -> exp.Select:
    rows: exp.Expr = bigint(literal(1))
    weight: exp.Expr = literal(cost)
    same_code = exp.column("code", table="p").eq(exp.column("code", table="m"))
    joins = [join_clause(table(forest.packed[item.tree.name], alias="p"), same_code)]
    for place, child in enumerate(item.below, start=1):
        name = f"t{place}"
        own = exp.column("signature", table=name).eq(exp.column(f"b{place}", table="p"))
        joins.append(join_clause(table(forest.trees[child.tree.name], alias=name), own, side="LEFT"))
        more = exp.Coalesce(this=exp.column("rows_", table=name), expressions=[literal(0)])
        rows = exp.Add(this=rows, expression=more)
        dear = exp.Coalesce(this=exp.column("weight", table=name), expressions=[literal(0.0)])
        weight = exp.Add(this=weight, expression=dear)
    n = exp.column("n", table="m")
    return select(
        exp.column("signature", table="m"),
        alias(sum_bigint(exp.Mul(this=n, expression=exp.paren(rows))), "rows_"),
        alias(exp.Sum(this=exp.Mul(this=double(n.copy()), expression=exp.paren(weight))), "weight"),
        source=table(forest.members[item.tree.name], alias="m"),
        joins=joins,
        groups=[exp.column("signature", table="m")],
    )


# Nodes ----------------------------------------------------------------------------------------------------------------


def signatures_at(forest: EntityForest, levels: Levels, item: Signed | None = None) -> exp.Select:
    """(signature, spelt, loss): what a signature of a table becomes at a node, and what its rows lose there. Equal
    signatures stay equal at every node: `spelt` is a function of the rows one by one."""
    item = item or forest.signed
    name = item.tree.name
    domains = forest.domains[name]
    mask = 0
    for domain in domains:
        mask |= domain.masks[levels[domain.name]]
    own = exp.BitwiseAnd(this=exp.column("k", table="p"), expression=bigint(literal(mask)))
    cost = [_cost(forest, domain, place, levels[domain.name]) for place, domain in enumerate(domains, start=1)]
    joins: list[exp.Join] = []
    shown: list[exp.Expr] = [own]
    for place, child in enumerate(item.below, start=1):
        short = f"n{place}"
        inner = signatures_at(forest, levels, child)
        kind = alias(window(exp.DenseRank(), order=[exp.column("spelt")]), "kind")
        numbered = select("signature", kind, "loss", source=nest_query(inner, f"at_{place}"))
        met = exp.column("signature", table=short).eq(exp.column(f"b{place}", table="p"))
        joins.append(join_clause(nest_query(numbered, short), met, side="LEFT"))
        shown.append(exp.Coalesce(this=exp.column("kind", table=short), expressions=[literal(0)]))
        cost.append(exp.Coalesce(this=exp.column("loss", table=short), expressions=[literal(0.0)]))
    total: exp.Expr = literal(0.0)
    for part in cost:
        total = exp.Add(this=total, expression=part)
    number: exp.Expr = shown[0] if len(shown) == 1 else bigint(window(exp.DenseRank(), order=shown))
    kinds = select(
        exp.column("code", table="p"),
        alias(number, "shown"),
        alias(total, "loss"),
        source=table(forest.packed[name], alias="p"),
        joins=joins,
    )
    counted = select(
        exp.column("signature", table="m"),
        exp.column("shown", table="q"),
        alias(sum_bigint(exp.column("n", table="m")), "n"),
        alias(
            exp.Sum(this=exp.Mul(this=double(exp.column("n", table="m")), expression=exp.column("loss", table="q"))),
            "loss",
        ),
        source=table(forest.members[name], alias="m"),
        joins=[join_clause(nest_query(kinds, "q"), exp.column("code", table="q").eq(exp.column("code", table="m")))],
        groups=[exp.column("signature", table="m"), exp.column("shown", table="q")],
    )
    return select(
        "signature",
        alias(_spelt(forest.engine.dialect), "spelt"),
        alias(exp.Sum(this=exp.column("loss")), "loss"),
        source=nest_query(counted, "rows_at"),
        groups=["signature"],
    )


def _spelt(dialect: str) -> exp.Expr:
    """The kinds of rows in their order, and beside them how often each occurs."""
    shown, n = exp.column("shown"), exp.column("n")
    if dialect == "duckdb":
        pair = exp.Anonymous(this="ROW", expressions=[shown, n])
        return exp.Anonymous(this="LIST_SORT", expressions=[exp.Anonymous(this="LIST", expressions=[pair])])

    def ordered(item: exp.Expr) -> exp.Expr:
        order = [exp.Ordered(this=shown.copy(), nulls_first=False)]
        return exp.ArrayAgg(this=exp.Order(this=item, expressions=order))

    # Both lists have one element for each kind, so that two pairs of lists never make one.
    return exp.Anonymous(this="ARRAY_CAT", expressions=[ordered(shown), ordered(n)])


def _cost(forest: EntityForest, domain: Domain, place: int, level: int) -> exp.Expr:
    """What a cell loses at a level, as its part of the whole loss."""
    weight = forest.weight(domain.name)
    if level == 0 or domain.leaves <= 1:
        return literal(0.0)
    if level >= domain.height:
        return literal(weight)
    leaves = double(exp.column(f"f{place}_{level}", table="p"))
    return exp.Mul(
        this=exp.paren(exp.Sub(this=leaves, expression=literal(1.0))),
        expression=literal(weight / (domain.leaves - 1)),
    )


def mean_losses(forest: EntityForest) -> dict[str, list[float]]:
    """For each quasi-identifier what all its cells lose together at each level, if no row is suppressed."""
    found: dict[str, list[float]] = {}
    for item in forest.signed.all_tables:
        for place, domain in enumerate(forest.domains[item.tree.name], start=1):
            n = double(exp.column("records", table="c"))
            sums = [
                exp.Coalesce(
                    this=exp.Sum(this=exp.Mul(this=n.copy(), expression=_cost(forest, domain, place, level))),
                    expressions=[literal(0.0)],
                )
                for level in range(domain.height + 1)
            ]
            met = exp.column("code", table="p").eq(exp.column("code", table="c"))
            row = forest.engine.query(
                select(
                    *sums,
                    source=table(item.codes, alias="c"),
                    joins=[join_clause(table(forest.packed[item.tree.name], alias="p"), met)],
                )
            )[0]
            found[domain.name] = [float(value) for value in row]
    return found
