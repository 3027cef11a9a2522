"""The combinations of freeform attacks at a node: any column may hold secrets, and any other values lead to them.

Every row meets every set of columns: its values there, where none of them is a secret, are one combination. A class of
the release meets those combinations from which one of its own secrets can be inferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.lattice.model_classes import join_keys
from sqlanon.lattice.model_tables import Node, Parts, Special, or_null, shows_label
from sqlanon.relations.classes import as_label
from sqlanon.relations.compressed_rows import Compressed
from sqlanon.relations.model_relations import MOST_FREEFORM_COLUMNS
from sqlanon.sqltree.tree import alias, bigint, case, literal, select, sum_bigint, table, text, union_all

NOTHING = "nothing"  # a combination that leads to no secret: every class meets it, so that every class is measured


def freeform(
    packed: Compressed, columns: Sequence[str], totals: Mapping[str, str], secrets: Mapping[str, Sequence[Any]]
) -> Special:
    """`totals` are the tables of the values of those columns that are no quasi-identifiers."""
    if len(columns) > MOST_FREEFORM_COLUMNS:
        raise PolicyError(
            f"ff_anonymity looks at every combination of columns; {len(columns)} columns are too many",
            hint=f"declare at most {MOST_FREEFORM_COLUMNS} quasi-identifiers and sensitive columns in all",
        )
    places = {domain.name: place for place, domain in enumerate(packed.domains)}
    targets = [(name, value) for name, values in secrets.items() for value in values]

    def holds(node: Node, name: str, value: Any) -> exp.Expr:
        """Whether a row has a secret."""
        if name in places:
            return shows_label(packed, node, places[name], as_label(value))
        known = exp.select("value").from_(table(totals[name]))
        known = known.where(or_null(exp.column("label")).eq(literal(as_label(value))))
        return exp.column(packed.values[name]).isin(query=known)

    def subsets(node: Node) -> exp.Values:
        """Each set of columns: its bits, the masks that a node leaves to its quasi-identifiers, and its values."""
        rows = []
        for size in range(len(columns)):
            for chosen in combinations(range(len(columns)), size):
                masks = [0] * packed.keys
                for place in (places[columns[i]] for i in chosen if columns[i] in places):
                    masks[packed.domains[place].key] |= packed.domains[place].masks[node[place]]
                flags = [int(i in chosen) for i, name in enumerate(columns) if name not in places]
                rows.append(tuple(map(literal, (sum(1 << i for i in chosen), *masks, *flags))))
        names = [
            *(f"m{i}" for i in range(1, packed.keys + 1)),
            *(f"b{packed.values[n]}" for n in columns if n in totals),
        ]
        return exp.values(rows, alias="sets", columns=["bits", *names])

    def cells(node: Node, key: exp.Expr, source: str) -> exp.Select:
        secret: list[exp.Expr] = [bigint(literal(0))]
        for name in secrets:
            found = exp.or_(*(holds(node, name, value) for value in secrets[name]))
            secret.append(case((found, bigint(literal(1 << columns.index(name)))), default=bigint(literal(0))))
        flags = secret[0]
        for flag in secret[1:]:
            flags = exp.Add(this=flags, expression=flag)
        named = [
            alias(case((holds(node, *target), literal(1)), default=literal(0)), f"t{i}")
            for i, target in enumerate(targets, start=1)
        ]
        own = [*packed.key_names, *packed.values.values(), *(["person"] if packed.person else []), "n"]
        inner = select(*own, alias(key.copy(), "class_id"), alias(flags, "secrets"), *named, source=table(source))
        shown: list[exp.Expr] = [exp.column("bits", table="sets")]
        for place, name in enumerate(packed.key_names, start=1):
            mask = bigint(exp.column(f"m{place}", table="sets"))
            shown.append(exp.BitwiseAnd(this=exp.column(name, table="c"), expression=mask))
        for name in (packed.values[n] for n in columns if n in totals):
            known = exp.column(name, table="c")
            shown.append(case((exp.column(f"b{name}", table="sets").eq(1), known), default=bigint(literal(0))))
        kept = [
            "c.class_id",
            *(["c.person"] if packed.person else []),
            "c.n",
            *(f"c.t{i + 1}" for i in range(len(targets))),
        ]
        tree = exp.select(*kept, "sets.bits", alias(join_keys(shown), "combination")).from_(inner.subquery(alias="c"))
        tree = tree.join(subsets(node), join_type="cross")
        hit = exp.BitwiseAnd(this=exp.column("secrets", table="c"), expression=bigint(exp.column("bits", table="sets")))
        return tree.where(exp.paren(hit).eq(0))

    def made(place: int, node: Node, key: exp.Expr, counted: exp.Expr, source: str) -> tuple[Parts, dict[str, str]]:
        own = f"freeform_cells_{place}"
        found: list[exp.Select] = [
            exp.select(alias(literal(NOTHING), "class_id"), alias(bigint(literal(1)), "records"),
                       alias(bigint(literal(0)), "matching"))
        ]  # fmt: skip
        counts = alias(sum_bigint(exp.column("n")), "rows_")
        every = [alias(key.copy(), "class_id"), alias(literal(NOTHING), "own"), counts]
        met = [select(*every, source=table(source), groups=[key.copy()])]
        for number, (name, _) in enumerate(targets, start=1):
            combination = join_keys([literal(f"{number}:"), text(exp.column("combination"))])
            outside = exp.BitwiseAnd(this=exp.column("bits"), expression=literal(1 << columns.index(name)))
            hit = exp.column(f"t{number}").eq(1)
            mine = exp.select("*").from_(own).where(exp.paren(outside).eq(0)).subquery(alias="mine")
            who: exp.Expr = case((hit.copy(), exp.column("n")), default=literal(0))
            matching: exp.Expr = sum_bigint(who)
            if packed.person:
                whose = case((hit.copy(), exp.column("person")), default=exp.Null())
                matching = bigint(exp.Count(this=exp.Distinct(expressions=[whose])))
            chosen = [alias(combination, "class_id"), alias(counted.copy(), "records"), alias(matching, "matching")]
            tree = (
                exp.select(*chosen)
                .from_(mine)
                .group_by("combination")
                .having(exp.Max(this=exp.column(f"t{number}")).eq(1))
            )
            found.append(tree)
            pairs: list[str | exp.Expr] = ["class_id", alias(combination.copy(), "own"), counts.copy()]
            met.append(exp.select(*pairs).from_(mine.copy()).where(hit).group_by("class_id", "combination"))
        names = {"combinations": f"combinations_{place}", "pairs": f"freeform_pairs_{place}"}
        parts: Parts = [(own, cells(node, key, source))]
        parts += [(names["combinations"], union_all(found)), (names["pairs"], union_all(met))]
        return parts, names

    return made
