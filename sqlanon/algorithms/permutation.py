"""Private items are taken apart from the others: each group of persons shows how many of them have which.

    models: [{privacy_degree: {p: 4, private: [insulin]}}]
    algorithm: permutation
    release: {table: baskets_released}

`baskets_released` has the public items of every person as they are, under a fresh random number, and the number of the
person's group; `baskets_released_sensitive` says how many persons of a group have which private item, never more than
one in p. With `release: {path: r.parquet}` they are the files `r.parquet` and `r_sensitive.parquet`.

Persons are put in an order in which those with the same frequent items are near each other. Each person with private
items takes the p - 1 nearest others who have none of these, as long as no private item is then too frequent among those
who are left; who is left at the end is one large group. So private items stay beside nearly the right public ones.
Persons without public items are left out.

What it does not protect: who is in the data, and public items, which are shown as they are. Groups are made around
persons with private items: who is in the large group has a private item less often. What goes with a private item
is learned from all groups together. Two releases of the same persons give it away: their groups differ.
cite: Ghinita, Tao and Kalnis 2008, On the anonymization of sparse high-dimensional data (CAHD)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction

from pydantic import BaseModel, ConfigDict
from sqlglot import exp

from sqlanon.errors import NotReleased
from sqlanon.families import AlgorithmTraits, plugin
from sqlanon.itemsets.find_itemsets import find_items, is_of_itemsets
from sqlanon.itemsets.protect_items import ItemTask, ProtectedItems
from sqlanon.relations.bucketization import GROUP, RECORDS, SENSITIVE
from sqlanon.sqltree.tree import alias, bigint, bind, count_all, join_clause, literal, select, table

TRAITS = AlgorithmTraits(shapes=("set",), groups=True, two_tables=True)
MOST_LOOKED = 10_000  # others who are looked at on each side of a person before it is given up


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def protect(task: ItemTask, params: Params) -> ProtectedItems:
    models = task.models()
    fits = ["private_items" in model.needs and not is_of_itemsets(model) for model, _ in models]
    task.require_models("permutation", fits, "takes private items apart from public ones")
    items = task.items
    if items.columns.sensitive is not None:
        raise task.policy.error(
            f"permutation would show '{items.columns.sensitive}' beside the public items", "algorithm",
            hint="make it an item, and name its values as private",
        )  # fmt: skip
    degree = max(int(given["p"]) for _, given in models)
    private: set[int] = set()
    for model, given in models:
        private |= set(find_items(items, model, given["private"], "private", task.absent))
    owners, order, ordered = _order_persons(task, private)
    found: dict[int, set[int]] = {}
    relations = {"person_order": order, "owners": owners}
    for place, item in items.engine.query(bind(plugin("itemsets", "private_places").sql, {}, relations)):
        found.setdefault(int(place) - 1, set()).add(int(item))
    _require_eligible(task, found, ordered, degree)
    made = group_nearest(ordered, found, degree)
    rest = len(made) + 1
    places = ((place + 1, number) for number, group in enumerate(made, start=1) for place in group)
    listed = items.load("grouped_text", ("place", "group_id"), places)
    numbers = [alias(bigint(exp.column(name)), name) for name in ("place", "group_id")]
    grouped = items.make("grouped", select(*numbers, source=table(listed)))
    relations = {"person_order": order, "grouped": grouped}
    groups = items.make("shown_groups", bind(plugin("itemsets", "permuted_groups").sql, {"rest": rest}, relations))
    counted = items.make(
        "group_items", bind(plugin("itemsets", "group_items").sql, {}, {"person_groups": groups, "owners": owners})
    )
    return _protected(task, private, groups, counted, ordered, degree, made)


def _order_persons(task: ItemTask, private: set[int]) -> tuple[str, str, int]:
    """Who has which private item; everybody with a public item in an order, and how many these are."""
    items = task.items
    is_private = exp.column("item").isin(*(literal(item) for item in sorted(private))) if private else exp.false()
    own = select("person", alias(exp.column("item"), "value"), source=table(items.tables.items), where=is_private)
    owners = items.make("private_owners", own)
    others = select("person", "item", source=table(items.tables.items), where=exp.not_(is_private.copy()))
    public = items.make("public_items", others)
    relations = {"items": public, "person_numbers": items.tables.persons}
    order = items.make("person_order", bind(plugin("itemsets", "person_order").sql, {}, relations))
    return owners, order, int(items.engine.query(select(count_all(), source=table(order)))[0][0])


def _require_eligible(task: ItemTask, found: Mapping[int, set[int]], persons: int, degree: int) -> None:
    """One in p of all persons is the most that any group, and so all of them, can hide."""
    counts: dict[int, int] = {}
    for own in found.values():
        for item in own:
            counts[item] = counts.get(item, 0) + 1
    most = max(counts.values(), default=0)
    if most * degree > persons:
        fits = persons // most
        hint = f"take 'p: {fits}'" if fits >= 2 else "leave that item out with 'query:'"
        raise NotReleased(
            f"a private item is had by more than one in {degree} of the {persons:,} persons with public items",
            hint=f"{hint}, or do not call the most frequent one private",
        )


def group_nearest(persons: int, private: Mapping[int, set[int]], degree: int) -> list[list[int]]:
    """Groups of `degree` places each, around those with private items; whoever is in none is left for one last group.

    >>> group_nearest(6, {1: {7}, 2: {7}}, 2)
    [[0, 1], [2, 3]]
    """
    before = list(range(-1, persons - 1))
    after = [*range(1, persons), -1]
    left = persons
    counts: dict[int, int] = {}
    for own in private.values():
        for item in own:
            counts[item] = counts.get(item, 0) + 1
    of_count: dict[int, int] = {}
    for number in counts.values():
        of_count[number] = of_count.get(number, 0) + 1
    most = max(of_count, default=0)
    taken: set[int] = set()
    groups: list[list[int]] = []
    for place in sorted(private):
        if place in taken:
            continue
        group = _nearest(place, before, after, private, degree)
        if group is None:
            continue
        going = [item for each in group for item in private.get(each, ())]  # each once
        _move(counts, of_count, going, -1)
        while most > 0 and not of_count.get(most):
            most -= 1
        if most * degree > left - degree:
            _move(counts, of_count, going, 1)
            most = max(most, *(counts[item] for item in going))
            continue
        left -= degree
        taken.update(group)
        for each in group:
            if before[each] >= 0:
                after[before[each]] = after[each]
            if after[each] >= 0:
                before[after[each]] = before[each]
        groups.append(sorted(group))
    return sorted(groups)


def _nearest(
    place: int, before: list[int], after: list[int], private: Mapping[int, set[int]], degree: int
) -> list[int] | None:
    """A place with the nearest ones that have no private item in common with it or with each other."""
    group, items = [place], set(private[place])
    low, high, looked = before[place], after[place], 0
    while len(group) < degree and (low >= 0 or high >= 0) and looked < 2 * MOST_LOOKED:
        looked += 1
        if high < 0 or (low >= 0 and place - low <= high - place):
            each, low = low, before[low]
        else:
            each, high = high, after[high]
        own = private.get(each, set())
        if not own & items:
            group.append(each)
            items |= own
    return group if len(group) == degree else None


def _move(counts: dict[int, int], of_count: dict[int, int], items: list[int], by: int) -> None:
    for item in items:
        of_count[counts[item]] -= 1
        counts[item] += by
        of_count[counts[item]] = of_count.get(counts[item], 0) + 1


def _protected(
    task: ItemTask, private: set[int], groups: str, counted: str, persons: int, degree: int, made: list[list[int]]
) -> ProtectedItems:
    items = task.items
    labels = items.load("labels", ("item", "label"), ((item, name) for item, name in items.names.items()))

    def named(item: exp.Column) -> exp.Join:
        return join_clause(table(labels, alias="l"), bigint(exp.column("item", table="l")).eq(item))

    shown = exp.not_(exp.column("item", table="i").isin(*(literal(item) for item in sorted(private))))
    public = select(
        exp.column("person", table="i"),
        exp.column("label", table="l"),
        source=table(items.tables.items, alias="i"),
        joins=[named(exp.column("item", table="i"))],
        where=shown if private else None,
    )
    (name,) = task.policy.items
    told = select(
        alias(exp.column("group_id", table="c"), GROUP, quoted=True),
        alias(exp.column("label", table="l"), name, quoted=True),
        alias(exp.column("records", table="c"), RECORDS, quoted=True),
        source=table(counted, alias="c"),
        joins=[named(exp.column("item", table="c"))],
    )
    sizes = [degree] * len(made)
    if (rest := persons - degree * len(made)) > 0:
        sizes.append(rest)
    number_of = dict(enumerate(sizes, start=1))
    found = [
        (int(group), items.names[int(item)], int(n))
        for group, item, n in items.engine.query(select("group_id", "item", "records", source=table(counted)))
    ]
    hidden = sum((Fraction(n) * (1 - Fraction(n, number_of[group])) for group, _, n in found), Fraction(0))
    kept = sum(n for _, _, n in found)
    gone = sum(items.supports[item] for item in private) - kept
    digest = hashlib.sha256("\n".join(f"{group}\t{item}\t{n}" for group, item, n in sorted(found)).encode())
    return ProtectedItems(
        public,
        float(hidden + gone) / items.occurrences if items.occurrences else 0.0,
        gone,
        f"{len(sizes):,} groups of {degree} persons and more around {len(private):,} private items",
        measured={
            "labels": len(items.names) - len(private),
            "suppressed_items": 0,
            "groups": len(sizes),
            "private_items": len(private),
            "private_rows": kept,
        },
        digest=digest.hexdigest(),
        groups=groups,
        companions={SENSITIVE: told},
    )
