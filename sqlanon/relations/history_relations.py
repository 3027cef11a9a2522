"""The relations across releases, from a release that is not yet shown and from what is kept of earlier ones.

members(person, original, group_id, class_id, v1, v2, …)  a person of the new release; group 0 was never released
moves(group_id, class_id, value, records)                 persons by their past and present; class NULL has left
class_values(class_id, value, records)                    sensitive values as released
unknown(value)                                            the label of NULL, unless the policy says that it is a value
state tables: persons, past, past_classes, past_values, past_labels, past_paths, candidates, group_values
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from sqlanon.families import plugin
from sqlanon.relations.classes import NULL_NODE, Grouping, Prelude, class_columns, classes, labels, number_classes
from sqlanon.relations.rewrite import pseudonym
from sqlanon.sqltree.tree import (
    TEXT,
    alias,
    bind,
    column,
    count_all,
    join_clause,
    literal,
    nest_query,
    rows_relation,
    select,
    table,
    text,
    union_all,
)

UUID = exp.DataType.build("uuid")
HEX = 32  # digits of a hash that make a uuid
CLASS = "sqlanon_class"  # the column of a release with counterfeit rows that tells its classes apart
NOTHING = ""  # stands for the sensitive value where no column is sensitive


def step(name: str, params: Mapping[str, Any], relations: Mapping[str, str]) -> exp.Select:
    """A statement of sql/releases/ over these tables."""
    return bind(plugin("releases", name).sql, params, relations)


def person_hash(person: str, dialect: str) -> exp.Expr:
    """A person as the history knows it: a keyed hash, of which 128 bits are kept."""
    digest = pseudonym(column(person), person, dialect)
    return exp.Cast(this=exp.func("SUBSTRING", digest, literal(1), literal(HEX)), to=UUID.copy())


def value_label(name: str | None) -> exp.Expr:
    """A sensitive value as a label; NULL is a value of its own."""
    if name is None:
        return text(literal(NOTHING))
    return exp.Coalesce(this=text(column(name)), expressions=[literal(NULL_NODE)])


def members(
    prelude: Prelude, grouping: Grouping, person: str, attributes: Sequence[str | None], secret: str
) -> exp.Query:
    """One row a row of the release: who it is, and in which class. Duplicates are for the caller to find."""
    made_of = [alias(item, name) for item, name in zip(class_columns(grouping), labels(grouping), strict=True)]
    values = [f"v{place}" for place in range(1, len(attributes) + 1)]
    rows = select(
        *made_of,
        alias(column(person), "original"),
        alias(person_hash(person, prelude.dialect), "person"),
        *(alias(value_label(name), short) for name, short in zip(attributes, values, strict=True)),
        source=nest_query(prelude.rows.copy(), "source"),
        joins=[exp.Join(this=table(secret, alias="secret"), kind="CROSS")],
    )
    return number_classes(prelude, grouping, rows, ["person", "original", *values])


def with_groups(found: str, persons: str, values: int) -> exp.Query:
    """The members with the group in which each was; 0 if it was never released."""
    own = [exp.column(name, table="m") for name in ("person", "original", "class_id")]
    group = exp.Coalesce(this=exp.column("group_id", table="p"), expressions=[literal(0)])
    return select(
        *own,
        alias(group, "group_id"),
        *(exp.column(f"v{place}", table="m") for place in range(1, values + 1)),
        source=table(found, alias="m"),
        joins=[
            join_clause(
                table(persons, alias="p"),
                exp.column("person", table="p").eq(exp.column("person", table="m")),
                side="LEFT",
            )
        ],
    )


def moves(member: str, gone: exp.Query, place: int) -> exp.Query:
    names = ["group_id", "class_id", f"v{place}"]
    value, records = alias(exp.column(f"v{place}"), "value"), alias(count_all(), "records")
    return union_all([select("group_id", "class_id", value, records, source=table(member), groups=names), gone])


def unknown_values(*, null_is_value: bool) -> exp.Select:
    """The labels that stand for no value: that of NULL, or none."""
    tree = rows_relation([(NULL_NODE,)], ["value"], [TEXT])
    return tree.where(exp.false()) if null_is_value else tree


def class_values_of(member: str, place: int) -> exp.Query:
    chosen: list[exp.Expr | str] = ["class_id", alias(exp.column(f"v{place}"), "value"), alias(count_all(), "records")]
    return select(*chosen, source=table(member), groups=["class_id", f"v{place}"])


def class_labels(prelude: Prelude, grouping: Grouping, version: int) -> exp.Query:
    """The labels of the classes of a release: version, class_id, attribute, label."""
    made = classes(prelude, grouping)
    parts: list[exp.Query] = [
        select(
            alias(exp.cast(literal(version), "bigint"), "version"),
            "class_id",
            alias(text(literal(name)), "attribute"),
            alias(exp.Coalesce(this=text(exp.column(short)), expressions=[literal(NULL_NODE)]), "label"),
            source=table(made),
        )
        for name, short in zip(grouping.columns, labels(grouping), strict=False)
    ]
    return union_all(parts)
