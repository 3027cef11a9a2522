"""The classes that a search measures: what makes them, what is counted in them, and which of them break a model.

Any key that numbers classes will do, over any table with the columns of the compressed one: models are bound to the
relations that are made from it, as a check binds them to relations made from the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.lattice.model_classes import distinct, join_keys, lift_verdicts, own_id, pairs
from sqlanon.lattice.nodes import Node
from sqlanon.lattice.requirements import Requirement, Requirements
from sqlanon.lattice.search_table import SearchTable
from sqlanon.relations.compressed_rows import Compressed
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    bind,
    case,
    excess,
    inline_verdict,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    uses_column,
    with_verdict,
)
from sqlanon.sqltree.tree import join_clause as joined_to


@dataclass(frozen=True)
class ClassQueries:
    """The statements about classes, for a table and what is required of it. They read `source`: the compressed table,
    or another with its columns."""

    table: SearchTable
    requirements: Requirements

    @property
    def compressed(self) -> Compressed:
        return self.table.compressed

    def classes(
        self,
        masks: Sequence[exp.Expr],
        source: str,
        costs: Sequence[exp.Expr] = (),
        *,
        measures: bool = False,
        node: Node = (),
    ) -> tuple[str, list[tuple[str, exp.Query]]]:
        """The classes of a node as (class_id, records, rows_, cost1, …, broken, nested): a name, and its CTEs. With
        `measures`, one of these is the result of each model. `node` is needed where a model asks for its levels."""
        key = self.class_id(masks)
        more: dict[str, Any] = {"brought": self.class_population(key), "measures": measures, "node": node}
        return self.classes_by(key, source, costs, masks=masks, **more)

    def class_population(self, key: exp.Expr, sizes: str = "class_sizes") -> dict[str, exp.Query]:
        """The CTE of the classes of the population, beside those of `sizes`, where a model looks at them."""
        if self.table.population is None:
            return {}
        counted = self._counted(persons=self.table.population_persons)
        people = select(
            alias(key.copy(), "class_id"),
            alias(counted, "population"),
            source=table(self.table.population),
            groups=[key.copy()],
        )
        same = exp.column("class_id", table="p").eq(exp.column("class_id", table="c"))
        own = exp.Coalesce(this=exp.column("class_id", table="c"), expressions=[exp.column("class_id", table="p")])
        numbers = [
            alias(exp.Coalesce(this=exp.column(name, table=side), expressions=[literal(0)]), name)
            for name, side in (("records", "c"), ("population", "p"))
        ]
        # What has no released row is read only where it can break a model.
        side = "LEFT" if self.requirements.may_suppress else "FULL"
        joins = [joined_to(nest_query(people, "p"), same, side=side)]
        tree = select(alias(own, "class_id"), *numbers, source=table(sizes, alias="c"), joins=joins)
        return {"class_population": tree}

    def classes_by(
        self,
        key: exp.Expr,
        source: str,
        costs: Sequence[exp.Expr] = (),
        also: Sequence[exp.Expr] = (),
        brought: Mapping[str, str | exp.Query] | None = None,
        masks: Sequence[exp.Expr] = (),
        measures: bool = False,
        node: Node = (),
    ) -> tuple[str, list[tuple[str, exp.Query]]]:
        """The same for any class number `key` over a table with the columns of the compressed one; `also` are further
        aggregates to keep of each class, `brought` relations over these classes that not every algorithm can make: the
        name of a table, or a CTE that may read `class_sizes`. Models with classes of their own need `masks`."""
        if self.requirements.plain and not measures:
            inlined = [inline_verdict(item.model.sql, item.params) for item in self.requirements.models]
            verdicts = [verdict for verdict in inlined if verdict is not None]
            grouped = self.grouped(key, source, costs, also).subquery(alias="grouped")
            tree = exp.select("*", *self.flags(verdicts)).from_(grouped, copy=False)
            return "node_classes", [("node_classes", tree)]
        also = [*also, *self._own_ids(masks)]
        parts: list[tuple[str, exp.Query]] = [("class_sizes", self.grouped(key, source, costs, also))]
        made: dict[str, str] = {}
        for relation, given in (brought or {}).items():
            if isinstance(given, exp.Query):
                parts.append((relation, given))
            made[relation] = given if isinstance(given, str) else relation
        shared = [item for item in self.requirements.models if item.own is None]
        used = dict.fromkeys(item.attribute for item in shared if item.attribute is not None)
        parts += [(_values_name(name, used), self._class_values(key, source, name)) for name in used]
        tree = exp.select("class_sizes.*").from_("class_sizes")
        verdicts = []
        for place, item in enumerate(self.requirements.models, start=1):
            name = f"result_{place}"
            if item.own is not None:
                parts += self._own_result(place, item, key, source, masks, node)
                name = f"lifted_{place}"
            else:
                parts += self._result(place, item, key, source, made, used)
            same = exp.column("class_id", table=name).eq(exp.column("class_id", table="class_sizes"))
            tree = tree.join(name, on=same, join_type="left", copy=False)
            # A class without a result was not measured, and what was not measured is not safe.
            verdict: exp.Expr = exp.Coalesce(this=exp.column("broken", table=name), expressions=[literal(1)])
            if item.everybody:
                sizes = f"own_sizes_{place}" if item.own else "class_sizes"
                verdict = exp.func("GREATEST", verdict, _unreleased(f"result_{place}", sizes))
            verdicts.append(verdict)
            if self._convex(item) and item.own:
                tree = tree.select(alias(exp.column("lost", table=name), f"lost{place}"))
            elif self._convex(item):
                lost = exp.Mul(this=exp.column("rows_", table="class_sizes"), expression=self._excess(item, name))
                tree = tree.select(alias(lost, f"lost{place}"))
        tree = tree.select(*self.flags(verdicts))
        return "node_classes", [*parts, ("node_classes", tree)]

    def _result(
        self,
        place: int,
        item: Requirement,
        key: exp.Expr,
        source: str,
        made: Mapping[str, str],
        used: Mapping[str, None],
    ) -> list[tuple[str, exp.Query]]:
        """What a model says about each class of the release: the last of these CTEs."""
        own = {"classes": "class_sizes", **made}
        if item.attribute is not None:
            own["class_values"] = _values_name(item.attribute, used)
        parts = self._beside(place, item, key, source, own, self.compressed.person)
        return [*parts, (f"result_{place}", with_verdict(bind(item.model.sql, item.params, {**item.relations, **own})))]

    def _beside(
        self, place: int, item: Requirement, key: exp.Expr, source: str, own: dict[str, str], persons: bool
    ) -> list[tuple[str, exp.Query]]:
        """Relations that few models read, as CTEs; their names are added to those of `own`."""
        parts: list[tuple[str, exp.Query]] = []
        if "value_categories" in item.relations:
            own["class_categories"] = f"class_categories_{place}"
            parts.append((own["class_categories"], self._class_categories(source, key, item, persons)))
        if "guards" in item.relations:
            own["class_guards"] = f"class_guards_{place}"
            parts.append((own["class_guards"], self._class_guards(source, key, item)))
        return parts

    def _own_ids(self, masks: Sequence[exp.Expr]) -> list[exp.Expr]:
        """Of each class of the release, that of a model which holds it as a whole."""
        return [
            alias(exp.Min(this=own_id(self.compressed, item.own, masks)), f"own{place}")
            for place, item in enumerate(self.requirements.models, start=1)
            if item.own is not None and item.own.whole and masks
        ]

    def _own_result(
        self,
        place: int,
        item: Requirement,
        key: exp.Expr,
        source: str,
        masks: Sequence[exp.Expr],
        node: Node,
    ) -> list[tuple[str, exp.Query]]:
        """The same for a model with classes of its own, and as the last CTE what follows for those of the release."""
        assert item.own is not None
        mine = own_id(self.compressed, item.own, masks)
        names = {"classes": f"own_sizes_{place}"}
        number, rows = exp.column(f"own{place}"), sum_bigint(exp.column("rows_"))
        if item.own.whole and not item.own.persons and not item.own.counted:
            chosen = [alias(number, "class_id"), alias(rows, "records")]
            sizes = select(*chosen, source=table("class_sizes"), groups=[number.copy()])
        else:
            counted = self._counted(persons=item.own.persons)
            if item.own.counted:
                counted = distinct(self.compressed, item.own, masks)
            chosen = [alias(mine.copy(), "class_id"), alias(counted, "records")]
            sizes = select(*chosen, source=table(source), groups=[mine.copy()])
        parts: list[tuple[str, exp.Query]] = [(names["classes"], sizes)]
        if item.attribute is not None:
            names["class_values"] = f"own_values_{place}"
            values = self._class_values(mine, source, item.attribute, persons=item.own.persons)
            parts.append((names["class_values"], values))
        if "population" in item.model.needs:
            names["class_population"] = f"own_population_{place}"
            parts += [
                (names["class_population"], tree) for tree in self.class_population(mine, names["classes"]).values()
            ]
        parts += self._beside(place, item, mine, source, names, item.own.persons)
        if item.special is not None:
            more, read = item.special(place, node, mine, self._counted(persons=item.own.persons), source)
            parts += more
            names |= read
        result, met = f"result_{place}", names.get("pairs", f"pairs_{place}")
        parts.append((result, with_verdict(bind(item.model.sql, item.params, {**item.relations, **names}))))
        if "pairs" in names:
            pass
        elif item.own.whole:
            parts.append((met, select("class_id", alias(number.copy(), "own"), "rows_", source=table("class_sizes"))))
        else:
            parts.append((met, pairs(key, mine, source)))
        beyond = self._excess(item, result) if self._convex(item) else None
        return [*parts, (f"lifted_{place}", lift_verdicts(met, result, beyond))]

    def _convex(self, item: Requirement) -> bool:
        """Whether the excess of a class is at most the mean of the excesses of its parts. Shares of persons, who may
        be in several classes, do not add up like that."""
        return bool(item.model.excess) and not self.compressed.person

    def _excess(self, item: Requirement, result: str) -> exp.Expr:
        return excess(item.model.excess, item.params, result)

    def doomed(self) -> exp.Expr:
        """Rows that any node below must suppress: the excess of all classes together never falls when they are split,
        and a suppressed row takes at most the largest excess with it."""
        sums = [
            exp.Coalesce(this=exp.Sum(this=exp.column(f"lost{place}")), expressions=[literal(0.0)])
            for place, item in enumerate(self.requirements.models, start=1)
            if self._convex(item)
        ]
        return _any(sums)

    def flags(self, verdicts: Sequence[exp.Expr]) -> list[exp.Expr]:
        nested = [
            verdict.copy()
            for verdict, item in zip(verdicts, self.requirements.models, strict=True)
            if self.requirements.is_nested(item)
        ]
        return [alias(_any(verdicts), "broken"), alias(_any(nested), "nested")]

    def class_id(self, masks: Sequence[exp.Expr]) -> exp.Expr:
        """The number of a class: the key without the bits that a node hides; a text where there are two keys."""
        found: list[exp.Expr] = [
            exp.BitwiseAnd(this=exp.column(name), expression=mask.copy())
            for name, mask in zip(self.compressed.key_names, masks, strict=False)  # the mask of u may follow
        ]
        return join_keys(found)

    def node_masks(self, node: Node) -> tuple[int, ...]:
        """The masks of the keys at a node; where a model asks for what is NULL, also that of its flags."""
        flags = [self.compressed.shown_nulls(node)] if self.requirements.asks_for_nulls else []
        return (*self.compressed.masks(node), *flags)

    def literal_masks(self, node: Node) -> list[exp.Expr]:
        return [bigint(literal(mask)) for mask in self.node_masks(node)]

    def sizes(self, node: Node, source: str, costs: Sequence[exp.Expr] = ()) -> exp.Select:
        return self.grouped(self.class_id(self.literal_masks(node)), source, costs, ())

    def _counted(self, *, persons: bool | None = None) -> exp.Expr:
        if self.compressed.person if persons is None else persons:
            return bigint(exp.Count(this=exp.Distinct(expressions=[exp.column("person")])))
        return sum_bigint(exp.column("n"))

    def grouped(self, key: exp.Expr, source: str, costs: Sequence[exp.Expr], also: Sequence[exp.Expr]) -> exp.Select:
        tree = exp.select(
            alias(key.copy(), "class_id"),
            alias(self._counted(), "records"),
            alias(sum_bigint(exp.column("n")), "rows_"),
            *(alias(exp.Sum(this=cost), f"cost{i}") for i, cost in enumerate(costs, start=1)),
            *also,
        ).from_(table(source))
        return tree.group_by(key.copy(), copy=False)

    def _class_values(self, key: exp.Expr, source: str, attribute: str, *, persons: bool | None = None) -> exp.Select:
        value = exp.column(self.compressed.values[attribute])
        counted = self._counted(persons=persons)
        asked = any(
            item.attribute == attribute and uses_column(item.model.sql, "known") for item in self.requirements.models
        )
        known = alias(self.known(attribute) if asked else literal(1), "known")
        tree = exp.select(alias(key.copy(), "class_id"), alias(value, "value"), alias(counted, "records"), known)
        return tree.from_(table(source)).group_by(key.copy(), value.copy(), copy=False)

    def known(self, attribute: str, table_name: str | None = None) -> exp.Expr:
        """1 for a value that counts, 0 for the number of NULL where that is an unknown value."""
        if self.table.null_is_value:
            return literal(1)
        nothing = exp.select("value").from_(table(self.table.value_labels[attribute]))
        nothing = nothing.where(exp.column("label").is_(exp.Null()))
        value = exp.column(self.compressed.values[attribute], table=table_name)
        return case((value.isin(query=nothing), literal(0)), default=literal(1))

    def _class_categories(self, source: str, key: exp.Expr, item: Requirement, persons: bool) -> exp.Select:
        assert item.attribute is not None
        value = exp.column(self.compressed.values[item.attribute])
        known = table(item.relations["value_categories"], alias="known")
        counted = alias(self._counted(persons=persons), "records")
        tree = exp.select(alias(key.copy(), "class_id"), "known.category", counted)
        tree = tree.from_(table(source)).join(known, on=value.eq(exp.column("value", table="known")), copy=False)
        return tree.group_by(key.copy(), "known.category", copy=False)

    def _class_guards(self, source: str, key: exp.Expr, item: Requirement) -> exp.Select:
        """The guarding nodes that the rows of a class name, by the labels of the column that holds them."""
        named = exp.column(self.compressed.values[str(item.params["guard"])])
        known = table(item.relations["guards"], alias="known")
        tree = exp.select(alias(key.copy(), "class_id"), alias(exp.column("label", table="known"), "guard")).distinct()
        tree = tree.from_(table(source)).join(known, on=named.eq(exp.column("value", table="known")), copy=False)
        return tree.where(exp.column("label", table="known").is_(exp.Null()).not_(), copy=False)


def _unreleased(result: str, sizes: str) -> exp.Expr:
    """1 if a class without a released row breaks a model. No suppression mends that: then all rows count as broken."""
    broken = exp.Coalesce(this=exp.Max(this=exp.column("broken", table="u")), expressions=[literal(0)])
    shown = exp.select("class_id").from_(sizes)
    tree = exp.select(broken).from_(table(result, alias="u"))
    return tree.where(exp.column("class_id", table="u").isin(query=shown).not_()).subquery()


def _values_name(attribute: str, used: Mapping[str, None]) -> str:
    return f"class_values_{list(used).index(attribute) + 1}"


def _any(flags: Sequence[exp.Expr]) -> exp.Expr:
    if not flags:
        return literal(0)
    return flags[0] if len(flags) == 1 else exp.func("GREATEST", *flags)


def rows_where(flag: str, rows: exp.Expr) -> exp.Expr:
    return sum_bigint(case((exp.column(flag).eq(1), rows), default=literal(0)))


def with_parts(tree: exp.Select, parts: Sequence[tuple[str, exp.Query]]) -> exp.Select:
    for name, query in parts:
        tree = tree.with_(name, as_=query, copy=False)
    return tree
