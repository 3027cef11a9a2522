"""The classes that a search measures: what makes them, what is counted in them, and which of them break a model.

Any key that numbers classes will do, over any table with the columns of the compressed one: models are bound to the
relations that are made from it, as a check binds them to relations made from the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.compiler.compressed import Compressed
from sqlanon.compiler.tree import (
    alias,
    bigint,
    bind,
    case,
    excess,
    inline_verdict,
    literal,
    nested,
    select,
    summed,
    table,
    text,
    with_verdict,
)
from sqlanon.compiler.tree import joined as joined_to
from sqlanon.families import Plugin
from sqlanon.policy import ModelUse


@dataclass(frozen=True)
class Requirement:
    """A model that classes must meet, with the relations that it reads; `attribute` names its sensitive column."""

    use: ModelUse
    model: Plugin
    attribute: str | None
    relations: Mapping[str, str]
    nested: bool  # a class that breaks it is made of classes that break it
    monotone: bool = False  # a table that holds goes on holding when it is generalized
    everybody: bool = False  # also a class of the population without a released row can break it

    @property
    def params(self) -> dict[str, object]:
        return self.model.filled(self.use.params)


@dataclass
class Classes:
    """What classes are made of: `source` is the compressed table, or what is left of it."""

    compressed: Compressed
    requirements: tuple[Requirement, ...]
    source: str
    population: str | None = None  # its combinations under the same keys; with `population_persons`, and their persons
    population_persons: bool = False

    @property
    def may_suppress(self) -> bool:
        """Where a class of the population has to have a released row, a suppressed class would break that."""
        return not any(item.everybody for item in self.requirements)

    @property
    def plain(self) -> bool:
        """Whether all models look at nothing but the size of a class."""
        return all(inline_verdict(item.model.sql, item.params) is not None for item in self.requirements)

    def classes(
        self, masks: Sequence[exp.Expr], costs: Sequence[exp.Expr] = ()
    ) -> tuple[str, list[tuple[str, exp.Query]]]:
        """The classes of a node as (class_id, records, rows_, cost1, …, broken, nested): a name, and its CTEs."""
        key = self.class_id(masks)
        return self.classes_by(key, self.source, costs, brought=self.class_population(key))

    def class_population(self, key: exp.Expr) -> dict[str, exp.Query]:
        """The CTE of the classes of the population, beside `class_sizes`, where a model looks at them."""
        if self.population is None:
            return {}
        counted = self._counted(persons=self.population_persons)
        people = select(
            alias(key.copy(), "class_id"),
            alias(counted, "population"),
            source=table(self.population),
            groups=[key.copy()],
        )
        same = exp.column("class_id", table="p").eq(exp.column("class_id", table="c"))
        own = exp.Coalesce(this=exp.column("class_id", table="c"), expressions=[exp.column("class_id", table="p")])
        numbers = [
            alias(exp.Coalesce(this=exp.column(name, table=side), expressions=[literal(0)]), name)
            for name, side in (("records", "c"), ("population", "p"))
        ]
        # What has no released row is read only where it can break a model.
        side = "LEFT" if self.may_suppress else "FULL"
        joins = [joined_to(nested(people, "p"), same, side=side)]
        tree = select(alias(own, "class_id"), *numbers, source=table("class_sizes", alias="c"), joins=joins)
        return {"class_population": tree}

    def classes_by(
        self,
        key: exp.Expr,
        source: str,
        costs: Sequence[exp.Expr] = (),
        also: Sequence[exp.Expr] = (),
        brought: Mapping[str, str | exp.Query] | None = None,
    ) -> tuple[str, list[tuple[str, exp.Query]]]:
        """The same for any class number `key` over a table with the columns of the compressed one; `also` are further
        aggregates to keep of each class, `brought` relations over these classes that not every algorithm can make: the
        name of a table, or a CTE that may read `class_sizes`."""
        inlined = [inline_verdict(item.model.sql, item.params) for item in self.requirements]
        if all(verdict is not None for verdict in inlined):
            verdicts = [verdict for verdict in inlined if verdict is not None]
            grouped = self._grouped(key, source, costs, also).subquery(alias="grouped")
            tree = exp.select("*", *self._flags(verdicts)).from_(grouped, copy=False)
            return "node_classes", [("node_classes", tree)]
        parts: list[tuple[str, exp.Query]] = [("class_sizes", self._grouped(key, source, costs, also))]
        made: dict[str, str] = {}
        for relation, given in (brought or {}).items():
            if isinstance(given, exp.Query):
                parts.append((relation, given))
            made[relation] = given if isinstance(given, str) else relation
        used = dict.fromkeys(item.attribute for item in self.requirements if item.attribute is not None)
        parts += [(_values_name(name, used), self._class_values(key, source, name)) for name in used]
        tree = exp.select("class_sizes.*").from_("class_sizes")
        verdicts = []
        for place, item in enumerate(self.requirements, start=1):
            own = {"classes": "class_sizes", **made}
            if item.attribute is not None:
                own["class_values"] = _values_name(item.attribute, used)
            if "value_categories" in item.relations:
                own["class_categories"] = f"class_categories_{place}"
                parts.append((own["class_categories"], self._class_categories(source, key, item)))
            result = with_verdict(bind(item.model.sql, item.params, {**item.relations, **own}))
            name = f"result_{place}"
            parts.append((name, result))
            same = exp.column("class_id", table=name).eq(exp.column("class_id", table="class_sizes"))
            tree = tree.join(name, on=same, join_type="left", copy=False)
            # A class without a result was not measured, and what was not measured is not safe.
            verdict: exp.Expr = exp.Coalesce(this=exp.column("broken", table=name), expressions=[literal(1)])
            verdicts.append(exp.func("GREATEST", verdict, _unreleased(name)) if item.everybody else verdict)
            if self._convex(item):
                lost = exp.Mul(this=exp.column("rows_", table="class_sizes"), expression=self._excess(item, name))
                tree = tree.select(alias(lost, f"lost{place}"))
        tree = tree.select(*self._flags(verdicts))
        return "node_classes", [*parts, ("node_classes", tree)]

    def _convex(self, item: Requirement) -> bool:
        """Whether the excess of a class is at most the mean of the excesses of its parts. Shares of persons, who may
        be in several classes, do not add up like that."""
        return bool(item.model.excess) and not self.compressed.person

    def _excess(self, item: Requirement, result: str) -> exp.Expr:
        return excess(item.model.excess, item.params, result)

    def _doomed(self) -> exp.Expr:
        """Rows that any node below must suppress: the excess of all classes together never falls when they are split,
        and a suppressed row takes at most the largest excess with it."""
        sums = [
            exp.Coalesce(this=exp.Sum(this=exp.column(f"lost{place}")), expressions=[literal(0.0)])
            for place, item in enumerate(self.requirements, start=1)
            if self._convex(item)
        ]
        return _any(sums)

    def is_nested(self, item: Requirement) -> bool:
        return item.nested

    def _flags(self, verdicts: Sequence[exp.Expr]) -> list[exp.Expr]:
        nested = [
            verdict.copy() for verdict, item in zip(verdicts, self.requirements, strict=True) if self.is_nested(item)
        ]
        return [alias(_any(verdicts), "broken"), alias(_any(nested), "nested")]

    def class_id(self, masks: Sequence[exp.Expr]) -> exp.Expr:
        """The number of a class: the key without the bits that a node hides; a text where there are two keys."""
        found: list[exp.Expr] = [
            exp.BitwiseAnd(this=exp.column(name), expression=mask.copy())
            for name, mask in zip(self.compressed.key_names, masks, strict=True)
        ]
        return joined(found)

    def _counted(self, *, persons: bool | None = None) -> exp.Expr:
        if self.compressed.person if persons is None else persons:
            return bigint(exp.Count(this=exp.Distinct(expressions=[exp.column("person")])))
        return summed(exp.column("n"))

    def _grouped(self, key: exp.Expr, source: str, costs: Sequence[exp.Expr], also: Sequence[exp.Expr]) -> exp.Select:
        tree = exp.select(
            alias(key.copy(), "class_id"),
            alias(self._counted(), "records"),
            alias(summed(exp.column("n")), "rows_"),
            *(alias(exp.Sum(this=cost), f"cost{i}") for i, cost in enumerate(costs, start=1)),
            *also,
        ).from_(table(source))
        return tree.group_by(key.copy(), copy=False)

    def _class_values(self, key: exp.Expr, source: str, attribute: str) -> exp.Select:
        value = exp.column(self.compressed.values[attribute])
        tree = exp.select(alias(key.copy(), "class_id"), alias(value, "value"), alias(self._counted(), "records"))
        return tree.from_(table(source)).group_by(key.copy(), value.copy(), copy=False)

    def _class_categories(self, source: str, key: exp.Expr, item: Requirement) -> exp.Select:
        assert item.attribute is not None
        value = exp.column(self.compressed.values[item.attribute])
        known = table(item.relations["value_categories"], alias="known")
        tree = exp.select(alias(key.copy(), "class_id"), "known.category", alias(self._counted(), "records"))
        tree = tree.from_(table(source)).join(known, on=value.eq(exp.column("value", table="known")), copy=False)
        return tree.group_by(key.copy(), "known.category", copy=False)


def _unreleased(result: str) -> exp.Expr:
    """1 if a class without a released row breaks a model. No suppression mends that: then all rows count as broken."""
    broken = exp.Coalesce(this=exp.Max(this=exp.column("broken", table="u")), expressions=[literal(0)])
    shown = exp.select("class_id").from_("class_sizes")
    tree = exp.select(broken).from_(table(result, alias="u"))
    return tree.where(exp.column("class_id", table="u").isin(query=shown).not_()).subquery()


def _values_name(attribute: str, used: Mapping[str, None]) -> str:
    return f"class_values_{list(used).index(attribute) + 1}"


def joined(keys: Sequence[exp.Expr]) -> exp.Expr:
    """One number for several keys: the only key itself, else a text of all."""
    if len(keys) == 1:
        return keys[0]
    tree = text(keys[0])
    for item in keys[1:]:
        tree = exp.DPipe(this=exp.DPipe(this=tree, expression=literal("/")), expression=text(item))
    return tree


def _any(flags: Sequence[exp.Expr]) -> exp.Expr:
    if not flags:
        return literal(0)
    return flags[0] if len(flags) == 1 else exp.func("GREATEST", *flags)


def rows_where(flag: str, rows: exp.Expr) -> exp.Expr:
    return summed(case((exp.column(flag).eq(1), rows), default=literal(0)))


def with_parts(tree: exp.Select, parts: Sequence[tuple[str, exp.Query]]) -> exp.Select:
    for name, query in parts:
        tree = tree.with_(name, as_=query, copy=False)
    return tree
