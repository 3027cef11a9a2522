"""Groups of persons whose private items are counted in a table of their own: what the models see, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines.companion_files import changed_files
from sqlanon.errors import SourceError
from sqlanon.evidence.bucket_evidence import sensitive_rows
from sqlanon.families import Plugin, plugin
from sqlanon.itemsets.find_itemsets import find_items, is_of_itemsets
from sqlanon.itemsets.open_items import Items
from sqlanon.policy import Policy, Source
from sqlanon.relations.bucketization import GROUP, RECORDS, SENSITIVE
from sqlanon.relations.classes import as_label
from sqlanon.relations.itemsets import PERSON_NUMBER
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import alias, bigint, column, count_all, join_clause, literal, nest_query, select, table, text


@dataclass(frozen=True)
class Groups:
    """`classes` and `class_values` as the models read them, and what is wrong with the tables of a release."""

    classes: str
    values: str
    breaches: tuple[str, ...] = ()


def is_of_groups(model: Plugin) -> bool:
    """Whether a model looks at private items of groups."""
    return "private_items" in model.needs and not is_of_itemsets(model)


def shows_groups(policy: Policy) -> bool:
    """Whether a release of a policy has groups of persons, and their private items in a table of their own."""
    return any(is_of_groups(plugin("models", use.name)) for use in policy.models)


def read_groups(
    policy: Policy, items: Items, model: Plugin, params: Mapping[str, Any], *, release: Source | None = None
) -> Groups:
    """The groups of a release; in a source, everybody is a group of their own."""
    if release is not None:
        return _released(policy, items, params, release)
    private = find_items(items, model, params["private"], "private", policy.absent_values)
    one = alias(bigint(literal(1)), "records")
    alone = select(alias(exp.column("person"), "class_id"), one, source=table(items.tables.persons))
    chosen = exp.column("item").isin(*(literal(item) for item in private)) if private else exp.false()
    own = select(
        alias(exp.column("person"), "class_id"), alias(exp.column("item"), "value"), one.copy(),
        source=table(items.tables.items), where=chosen,
    )  # fmt: skip
    return Groups(items.make("classes", alone), items.make("class_values", own))


def _released(policy: Policy, items: Items, params: Mapping[str, Any], release: Source) -> Groups:
    engine = items.engine
    main = relation(engine.resolve(release), engine.dialect)
    if GROUP not in (names := [item.name for item in engine.columns(main)]):
        raise SourceError(
            f"the release has no column '{GROUP}'",
            hint=f"it has {', '.join(repr(name) for name in names[:20])}; 'permutation' writes a release with groups",
        )
    (item,) = policy.items
    told = sensitive_rows(engine, release)
    needed = (GROUP, item, RECORDS)
    lacking = [name for name in needed if name not in {each.name for each in engine.columns(told)}]
    if lacking:
        raise SourceError(f"the table of private items lacks '{lacking[0]}'", hint=f"it has {', '.join(needed)}")
    person = column(PERSON_NUMBER)
    groups = items.make(
        "person_groups",
        select(
            alias(text(column(GROUP)), "class_id"), alias(person, "person"), source=nest_query(main.copy(), "r")
        ).distinct(),
    )
    counted = select("class_id", alias(count_all(), "records"), source=table(groups), groups=["class_id"])
    classes = items.make("classes", counted)
    records = bigint(column(RECORDS))
    told_values = items.make(
        "told_values",
        select(
            alias(text(column(GROUP)), "class_id"), alias(text(column(item)), "value"), alias(records, "records"),
            source=nest_query(told, "t"),
        ),
    )  # fmt: skip
    summed = alias(bigint(exp.Sum(this=exp.column("records"))), "records")
    values = select("class_id", "value", summed, source=table(told_values), groups=["class_id", "value"])
    return Groups(
        classes,
        items.make("class_values", values),
        tuple(_breaches(items, params, release, groups, classes, told_values)),
    )


def _breaches(
    items: Items, params: Mapping[str, Any], release: Source, groups: str, classes: str, values: str
) -> list[str]:
    engine = items.engine

    def count(tree: exp.Select) -> int:
        return int(engine.query(select(count_all(), source=nest_query(tree, "found")))[0][0])

    found = []
    private = {as_label(name) for name in params["private"]}
    if shown := private & set(items.names.values()):
        found.append(f"{len(shown):,} private items are in the same table as the public ones")
    several = select("person", source=table(groups), groups=["person"]).having(count_all() > 1)
    if many := count(several):
        found.append(f"{many:,} persons of the release are in several groups")
    empty = [exp.column(name).is_(exp.Null()) for name in ("class_id", "value", "records")]
    nothing = exp.column("records") < 1
    if many := count(select("class_id", source=table(groups), where=empty[0])):
        found.append(f"{many:,} persons of the release have no group")
    if many := count(select("class_id", source=table(values), where=exp.or_(*empty, nothing, copy=False))):
        found.append(f"{many:,} rows of the table of private items do not say how many persons have what")
    same = exp.column("class_id", table="c").eq(exp.column("class_id", table="v"))
    joins = [join_clause(table(classes, alias="c"), same, side="LEFT")]
    lone = exp.column("class_id", table="c").is_(exp.Null())
    strangers = select(exp.column("class_id", table="v"), source=table(values, alias="v"), joins=joins, where=lone)
    if many := count(strangers):
        found.append(f"{many:,} rows of the table of private items are of groups without persons")
    if release.path is not None:
        found += [
            f"'{name}' is not the file that was published with the evidence: files of two versions tell nothing"
            for name in changed_files(release.path, (SENSITIVE,))
        ]
    return found
