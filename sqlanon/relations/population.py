"""The population of a policy as a search needs it: one row a distinct combination, under the keys of the source.

A value that the source has not got shares the code of its lowest label that the source has; below that it is a
stranger, whose bits are all ones. The layout leaves that code free, so that no released row is taken for a stranger.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.relations.classes import Grouping, Prelude, grouped_rows
from sqlanon.relations.compressed_rows import Domain, add_up, label_values, same_value
from sqlanon.sqltree.tree import alias, bigint, column, count_all, join_clause, literal, select, table


def population(
    prelude: Prelude, rows: exp.Select, domains: Sequence[Domain], keys: int, person: str | None = None
) -> str:
    """The table (k1, …, person, n); `person` is the column to count persons by, if the population has it."""
    grouping = Grouping(tuple(domain.name for domain in domains))

    def combined() -> exp.Query:
        extra: dict[str, exp.Expr] = {} if person is None else {"person": column(person)}
        return grouped_rows(Prelude(rows, prelude.dialect), grouping, extra, count_all())

    made = prelude.once("population_combined", (), combined)
    values = [_values(prelude, made, domain) for domain in domains]

    def build() -> exp.Query:
        tree = exp.select().from_(table(made, alias="c"))
        parts: list[list[exp.Expr]] = [[] for _ in range(keys)]
        for place, (domain, known) in enumerate(zip(domains, values, strict=True), start=1):
            same = same_value(prelude.dialect, exp.column(domain.short, table="c"), f"d{place}")
            tree = tree.join(table(known, alias=f"d{place}"), on=same)
            parts[domain.key].append(exp.column("bits", table=f"d{place}"))
        for number, codes in enumerate(parts, start=1):
            tree = tree.select(alias(bigint(add_up(codes)), f"k{number}"))
        if person is not None:
            tree = tree.select("c.person")
        return tree.select(alias(exp.column("records", table="c"), "n"))

    return prelude.once("population", (), build)


def _values(prelude: Prelude, made: str, domain: Domain) -> str:
    """The values of a quasi-identifier in the population, as (original, n0, bits)."""

    def build() -> exp.Query:
        own = label_values(prelude, made, domain.name, domain.short, domain.hierarchy)
        covered = exp.column("missing", table="d").eq(0)
        edges = domain.bits[1:]
        joins, bits = [], []
        for level in range(domain.height):
            known = f"k{level}"
            label = exp.column(f"n{level}")
            labels = select(label, alias(exp.Min(this=exp.column(f"r{level}")), "place"),
                            source=table(domain.dictionary), groups=[label.copy()])  # fmt: skip
            same = exp.and_(exp.column(f"n{level}", table=known).eq(exp.column(f"n{level}", table="d")), covered.copy())
            joins.append(join_clause(labels.subquery(alias=known), same, side="LEFT"))
            stranger = (1 << (edges[level + 1] - edges[level])) - 1
            place = exp.Coalesce(this=exp.column("place", table=known), expressions=[literal(stranger)])
            bits.append(exp.Mul(this=bigint(place), expression=bigint(literal(1 << edges[level]))))
        chosen = [exp.column("original", table="d"), exp.column("n0", table="d"), alias(add_up(bits), "bits")]
        return select(*chosen, source=own, joins=joins)

    return prelude.once("population_values", (domain.name,), build)
