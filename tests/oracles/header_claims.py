"""What the headers of SQL plug-ins claim, checked on small worlds: each checker returns a counterexample, or None.

A world is a table with random nested hierarchies. All classes of all nodes of its lattice are put into the canonical
relations at once, so that one statement measures them all; a class of a node is a union of classes of the node below.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

import duckdb
from histories import RELATIONS as HISTORY_RELATIONS
from histories import Release
from histories import relations as history_relations
from sqlglot import exp

from sqlanon.families import Plugin
from sqlanon.lattice.pose_problem import ALSO_SUPPRESSED, is_monotone
from sqlanon.relations.category_weights import category_rows
from sqlanon.sqltree.tree import bind, excess, find_references, threshold, with_verdict

Leaf = int | None
Node = tuple[int, ...]
Key = tuple[Any, ...]
NULL_NODE = "\u2205 NULL"
SECRETS = (None, "flu", "gout", "hiv")  # in the order of their places; NULL comes first
NUMBERS = {None: None, "flu": 0.0, "gout": 1.0, "hiv": 2.0}
TOLERANCE = 1e-7
RELATIONS = {
    "classes": "class_id BIGINT, records BIGINT",
    "class_values": "class_id BIGINT, value BIGINT, records BIGINT, known INTEGER",
    "totals": "value BIGINT, label TEXT, number DOUBLE, records BIGINT",
    "taxonomy": "value BIGINT, level INTEGER, node TEXT",
    "class_population": "class_id BIGINT, records BIGINT, population BIGINT",
    "class_categories": "class_id BIGINT, category INTEGER, records BIGINT",
    "class_guards": "class_id BIGINT, guard TEXT",
    "class_supersets": "class_id BIGINT, superset_id BIGINT",
    "superset_values": "superset_id BIGINT, value BIGINT, records BIGINT",
    "superset_sizes": "superset_id BIGINT, records BIGINT",
    "class_probability": "class_id BIGINT, value BIGINT, probability DOUBLE",
    "combinations": "class_id BIGINT, records BIGINT, matching BIGINT",
    "guarded": "label TEXT",
    "dont_care": "label TEXT",
    "protect": "label TEXT",
    "thresholds": "label TEXT, amount DOUBLE",
    "weights": "label TEXT, category INTEGER, weight DOUBLE",
    "recoded_classes": "class_id BIGINT, records BIGINT, kept INTEGER",
    "recoded_values": "attribute INTEGER, value INTEGER, label INTEGER, level INTEGER, height INTEGER, leaves INTEGER,"
    " domain INTEGER, weight DOUBLE, kept INTEGER, records BIGINT",
    "recoded_tuples": "class_id BIGINT, records BIGINT, class_records BIGINT, area DOUBLE, kept INTEGER",
    "recoded_class_values": "class_id BIGINT, value TEXT, records BIGINT, kept INTEGER",
    "joined": "class_id BIGINT, version BIGINT, records BIGINT, ours BIGINT, theirs BIGINT",
    "joined_values": "class_id BIGINT, value TEXT, records BIGINT",
    "unknown": "value TEXT",
}


@dataclass(frozen=True)
class Row:
    leaves: tuple[Leaf, ...]
    secret: str | None = None
    other: int = 0
    person: int = 0
    guard: str | None = None


@dataclass(frozen=True)
class Hierarchy:
    """For each leaf its label on every level: the first is the leaf itself, the last the root."""

    paths: tuple[tuple[int, ...], ...]

    @property
    def height(self) -> int:
        return len(self.paths[0]) - 1

    def label(self, leaf: Leaf, level: int) -> Leaf:
        """NULL stays NULL below the root, which covers it."""
        if leaf is None:
            return None if level < self.height else 0
        return self.paths[leaf][level]

    def leaves(self, leaf: Leaf, level: int) -> int:
        """The leaves that the label of a leaf stands for; NULL below the root stands for itself."""
        if leaf is None and level < self.height:
            return 1
        return sum(path[level] == self.label(leaf, level) for path in self.paths)


@dataclass(frozen=True)
class World:
    hierarchies: tuple[Hierarchy, ...]
    kinds: tuple[int, ...]  # of each known secret, its node below the root
    rows: tuple[Row, ...]
    population: tuple[tuple[Leaf, ...], ...]
    persons: bool  # count persons, not rows
    null_is_value: bool

    def nodes(self) -> Iterator[Node]:
        return product(*(range(hierarchy.height + 1) for hierarchy in self.hierarchies))

    def steps(self) -> Iterator[tuple[Node, Node]]:
        """Each node, and those one level above it."""
        for node in self.nodes():
            for place, hierarchy in enumerate(self.hierarchies):
                if node[place] < hierarchy.height:
                    yield node, (*node[:place], node[place] + 1, *node[place + 1 :])

    def labels(self, leaves: tuple[Leaf, ...], node: Node) -> Key:
        return tuple(h.label(leaf, level) for h, leaf, level in zip(self.hierarchies, leaves, node, strict=True))

    def count(self, rows: Iterable[Row]) -> int:
        found = list(rows)
        return len({row.person for row in found}) if self.persons else len(found)


def random_hierarchy(rng: Random, most_leaves: int = 4) -> Hierarchy:
    leaves = rng.choice([1, *range(2, most_leaves + 1), most_leaves])
    levels = [list(range(leaves))]
    for _ in range(rng.randint(0, 2)):
        above = {label: rng.randint(0, 2) for label in sorted(set(levels[-1]))}
        levels.append([above[label] for label in levels[-1]])
    levels.append([0] * leaves)
    return Hierarchy(tuple(zip(*levels, strict=True)))


def random_leaves(rng: Random, hierarchies: Sequence[Hierarchy]) -> tuple[Leaf, ...]:
    return tuple(rng.choice([*range(len(hierarchy.paths)), None]) for hierarchy in hierarchies)


def random_world(rng: Random, columns: int = 2, most_rows: int = 14) -> World:
    """Uniform draws: they find what is false after fewer worlds than draws that prefer small and equal values."""
    hierarchies = tuple(random_hierarchy(rng) for _ in range(columns))
    rows = tuple(
        Row(
            random_leaves(rng, hierarchies),
            rng.choice(SECRETS),
            rng.randint(0, 1),
            rng.randint(0, 5),
            rng.choice([None, "flu", "kind 0", "root"]),
        )
        for _ in range(rng.randint(2, most_rows))
    )
    others = [random_leaves(rng, hierarchies) for _ in range(rng.randint(0, 6))]
    present = [row.leaves for row in rows if rng.random() < 0.7]
    kinds = tuple(rng.randint(0, 1) for _ in SECRETS[1:])
    return World(hierarchies, kinds, rows, (*others, *present), rng.random() < 0.5, rng.random() < 0.5)


# Classes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    rows: int
    measured: float
    broken: bool
    excess: float


def class_keys(world: World, kind: str, node: Node) -> dict[Key, list[Row]]:
    """The rows of each class, by what the header says of `classes`; row sets hold a person's rows under its set."""
    found: dict[Key, list[Row]] = defaultdict(list)
    if kind == "row_sets":
        own: dict[int, list[Row]] = defaultdict(list)
        for row in world.rows:
            own[row.person].append(row)
        for rows in own.values():
            shown = Counter(world.labels(row.leaves, node) for row in rows)
            found[(frozenset(shown.items()),)].extend(rows)
        return found
    for row in world.rows:
        labels = world.labels(row.leaves, node)
        key = labels[:1] if kind == "x" else (*labels, row.other) if kind == "other_sensitive" else labels
        found[key].append(row)
    return found


def load(
    connection: Any, relations: Mapping[str, Sequence[tuple[Any, ...]]], types: Mapping[str, str] = RELATIONS
) -> None:
    for name, rows in relations.items():
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({types[name]})")
        if rows:  # columns as lists: a list of VALUES takes four times as long
            kinds = [column.split()[-1] for column in types[name].split(",")]
            given = ", ".join(f"unnest(?::{kind}[])" for kind in kinds)
            connection.execute(
                f"INSERT INTO {name} SELECT {given}", [list(column) for column in zip(*rows, strict=True)]
            )


def fetch(connection: Any, tree: Any) -> list[tuple[Any, ...]]:
    return list(connection.execute(tree.sql("duckdb")).fetchall())


class Lattice:
    """All classes of all nodes of a world in the relations of a database."""

    def __init__(self, connection: Any, world: World, kind: str = "", counts: str = "") -> None:
        self.connection, self.world = connection, world
        self.measures: dict[tuple[str, str, str], dict[int, Measured]] = {}
        self.numbers: dict[tuple[Node, Key], int] = {}
        self.rows: dict[int, list[Row]] = {}
        self.made_of: dict[tuple[Node, int], set[int]] = defaultdict(set)  # a class, in classes of a node below
        everybody = world.population if kind == "" else ()
        for node in world.nodes():
            keys = class_keys(world, kind, node)
            for leaves in everybody:
                keys.setdefault(world.labels(leaves, node), [])
            for key, rows in keys.items():
                self.numbers[node, key] = len(self.rows) + 1
                self.rows[len(self.rows) + 1] = rows
        for lower, upper in world.steps():
            self._link(kind, lower, upper)
        present = sorted({row.secret for row in world.rows}, key=SECRETS.index)
        self.places = {secret: place for place, secret in enumerate(present, start=1)}
        load(connection, self._relations(kind, counts))

    def _link(self, kind: str, lower: Node, upper: Node) -> None:
        if kind == "row_sets":
            pairs = [(self._set_of(lower, row.person), self._set_of(upper, row.person)) for row in self.world.rows]
        else:
            keys = [(row.leaves, row.other) for row in self.world.rows]
            keys += [(leaves, 0) for leaves in self.world.population] if kind == "" else []
            pairs = [(self._find(kind, lower, *key), self._find(kind, upper, *key)) for key in keys]
        for below, above in pairs:
            self.made_of[lower, above].add(below)

    def _find(self, kind: str, node: Node, leaves: tuple[Leaf, ...], other: int) -> int:
        labels = self.world.labels(leaves, node)
        key = labels[:1] if kind == "x" else (*labels, other) if kind == "other_sensitive" else labels
        return self.numbers[node, key]

    def _set_of(self, node: Node, person: int) -> int:
        shown = Counter(self.world.labels(row.leaves, node) for row in self.world.rows if row.person == person)
        return self.numbers[node, (frozenset(shown.items()),)]

    def parts(self) -> Iterator[tuple[int, list[int]]]:
        """Each class of a node with the classes of one node below that it is made of."""
        for (_, above), below in self.made_of.items():
            yield above, sorted(below)

    def _relations(self, kind: str, counts: str) -> dict[str, list[tuple[Any, ...]]]:
        world, places = self.world, self.places
        known = {secret: int(secret is not None or world.null_is_value) for secret in SECRETS}
        classes, values, guards, population = [], [], set(), []
        for number, rows in self.rows.items():
            records = world.count(rows)
            if kind == "row_sets":
                records = len({row.person for row in rows})
            elif counts == "y":
                records = len({row.secret for row in rows} - {None})
            if rows:
                classes.append((number, records))
            for secret, place in places.items():
                own = [row for row in rows if row.secret == secret]
                if own:
                    values.append((number, place, world.count(own), known[secret]))
            guards |= {(number, row.guard) for row in rows if row.guard is not None}
        if kind == "":
            people = Counter(self._find(kind, node, leaves, 0) for node in world.nodes() for leaves in world.population)
            sizes = dict(classes)
            population = [(number, sizes.get(number, 0), people[number]) for number in self.rows]
        whole = {secret: world.count(row for row in world.rows if row.secret == secret) for secret in places}
        return {
            "classes": classes,
            "class_values": values,
            "totals": [(place, secret, NUMBERS[secret], whole[secret]) for secret, place in places.items()],
            "taxonomy": [line for secret, place in places.items() for line in self._path(secret, place)],
            "class_population": population,
            "class_guards": sorted(guards),
            "combinations": [(number, records, max(1, records // 2)) for number, records in classes],
            "class_probability": [(number, place, 1 / (1 + number % 7)) for number, place, *_ in values],
            "class_supersets": [(number, number) for number, _ in classes],
            "superset_values": [(number, place, records) for number, place, records, _ in values],
            "superset_sizes": classes,
        }

    def _path(self, secret: str | None, place: int) -> list[tuple[int, int, str]]:
        if secret is None:
            return [(place, 0, NULL_NODE), (place, 1, NULL_NODE), (place, 2, "root")]
        kind = self.world.kinds[SECRETS.index(secret) - 1]
        return [(place, 0, secret), (place, 1, f"kind {kind}"), (place, 2, "root")]

    def measure(self, plugin: Plugin, params: Mapping[str, Any]) -> dict[int, Measured]:
        """What the model says of every class; the checkers ask for the same."""
        filled = plugin.filled(params)
        key = (plugin.sql, plugin.excess, repr(filled))
        if key not in self.measures:
            self.measures[key] = self._measure(plugin, filled)
        return self.measures[key]

    def _measure(self, plugin: Plugin, filled: Mapping[str, Any]) -> dict[int, Measured]:
        load(self.connection, self._lists(plugin, filled))
        tree = with_verdict(bind(plugin.sql, filled, {}))
        if plugin.excess:
            tree = tree.subquery("r")
            beyond = exp.alias_(excess(plugin.excess, filled, "r"), "excess")
            tree = exp.select("r.class_id", "r.measured", "r.broken", beyond).from_(tree)
        found = {}
        for number, measured, broken, *beyond_limit in fetch(self.connection, tree):
            if number is None:
                continue
            rows = len(self.rows[number])
            value = math.nan if measured is None else float(measured)
            found[number] = Measured(rows, value, broken == 1, float(beyond_limit[0]) if beyond_limit else 0.0)
        return found

    def _lists(self, plugin: Plugin, filled: Mapping[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
        read = find_references(plugin.sql)
        found: dict[str, list[tuple[Any, ...]]] = {}
        if "guarded" in read:
            chosen = self.places if filled["guarded"] is None else filled["guarded"]
            found["guarded"] = [(label,) for label in chosen]
        for name in ("dont_care", "protect"):
            if name in read:
                found[name] = [(label,) for label in filled[name] or ()]
        if "thresholds" in read:
            found["thresholds"] = list(filled["thresholds"].items())
        if "weights" in read and plugin.param("categories"):
            rows = category_rows(filled["categories"], filled["weights"], filled["weighting"], filled["beta"])
            found["weights"] = list(rows)
            of_secret = {secret: place for secret, place, _ in rows}
            found["class_categories"] = self._categories(of_secret)
        return found

    def _categories(self, of_secret: Mapping[str | None, int]) -> list[tuple[Any, ...]]:
        lines: list[tuple[Any, ...]] = []
        for number, rows in self.rows.items():
            own: dict[int | None, list[Row]] = defaultdict(list)
            for row in rows:
                hidden = row.secret is None and not self.world.null_is_value
                own[None if hidden else of_secret[row.secret]].append(row)
            lines += [(number, category, self.world.count(found)) for category, found in own.items()]
        return lines


# Models -------------------------------------------------------------------------------------------------------------


def find_false_monotone(lattice: Lattice, plugin: Plugin, params: Mapping[str, Any]) -> str | None:
    """`yes`: where all parts of a class hold, it holds. `also under record suppression`: where one part holds, it
    holds, also if persons are counted; so that a class that breaks it is made of classes that break it."""
    nested = ALSO_SUPPRESSED in plugin.monotone
    if not is_monotone(plugin, params) or (lattice.world.persons and not nested):
        return None
    found = lattice.measure(plugin, params)
    for whole, parts in lattice.parts():
        verdicts = [found[part].broken for part in parts if part in found]
        if whole not in found or not found[whole].broken or not verdicts:
            continue
        if nested and not all(verdicts):
            return f"{plugin.name}: a class breaks it, but a part of it holds"
        if not any(verdicts):
            return f"{plugin.name}: a class breaks it, but all of its parts hold"
    return None


def find_false_excess(lattice: Lattice, plugin: Plugin, params: Mapping[str, Any]) -> str | None:
    """The excess of a class is 0 where it holds, at most 1, and at most the mean of the excesses of its parts."""
    if not plugin.excess or lattice.world.persons:
        return None
    found = lattice.measure(plugin, params)
    for number, one in found.items():
        if not -TOLERANCE <= one.excess <= 1 + TOLERANCE:
            return f"{plugin.name}: an excess of {one.excess} times the most that is possible"
        if not one.broken and one.excess > TOLERANCE:
            return f"{plugin.name}: class {number} holds, with an excess of {one.excess}"
    for whole, parts in lattice.parts():
        lost = sum(found[part].rows * found[part].excess for part in parts if part in found)
        if whole in found and found[whole].rows * found[whole].excess > lost + TOLERANCE:
            return f"{plugin.name}: a class exceeds the limit by more than its parts together"
    return None


def find_false_direction(lattice: Lattice, plugin: Plugin, params: Mapping[str, Any]) -> str | None:
    """A class that holds is not worse than the limit, one that is worse is broken; and where the model is monotone, a
    class is no worse than the worst of its parts."""
    found = lattice.measure(plugin, params)
    sign = -1.0 if plugin.worse_when_smaller else 1.0
    limit = threshold(plugin.sql, plugin.filled(params), smaller_is_worse=plugin.worse_when_smaller)
    for one in found.values() if limit is not None else ():
        if not one.broken and sign * (one.measured - limit) > TOLERANCE:
            return f"{plugin.name}: a class holds with {one.measured}, which is worse than {limit}"
    if limit is None and not is_monotone(plugin, params):
        return f"{plugin.name}: it has no limit that is passed when the measure is worse"
    if not is_monotone(plugin, params) or lattice.world.persons:
        return None
    for whole, parts in lattice.parts():
        worst = max((sign * found[part].measured for part in parts if part in found), default=math.inf)
        if whole in found and sign * found[whole].measured > worst + TOLERANCE:
            return f"{plugin.name}: a class is worse than each of its parts"
    return None


Checker = Callable[[Lattice, Plugin, Mapping[str, Any]], str | None]
MODEL_CHECKERS: dict[str, Checker] = {
    "monotone": find_false_monotone,
    "excess": find_false_excess,
    "measures": find_false_direction,
}


# Loss ---------------------------------------------------------------------------------------------------------------


def loss_relations(world: World, node: Node, k: int) -> dict[str, list[tuple[Any, ...]]]:
    """The relations of a release at a node that suppresses classes of fewer than k rows."""
    classes: dict[Key, list[Row]] = class_keys(world, "", node)
    numbers = {key: number for number, key in enumerate(classes, start=1)}
    kept = {key: int(len(rows) >= k) for key, rows in classes.items()}
    values: Counter[tuple[Any, ...]] = Counter()
    labels: Counter[tuple[Any, ...]] = Counter()
    tuples: Counter[tuple[Any, ...]] = Counter()
    nulls = [any(row.leaves[place] is None for row in world.rows) for place in range(len(world.hierarchies))]
    for key, rows in classes.items():
        for row in rows:
            labels[numbers[key], row.secret, kept[key]] += 1
            tuples[key, row.leaves] += 1
            for place, (hierarchy, leaf, level) in enumerate(zip(world.hierarchies, row.leaves, node, strict=True)):
                leaves, domain = hierarchy.leaves(leaf, level), len(hierarchy.paths)
                own = (place, -1 if leaf is None else leaf, -1 if key[place] is None else key[place])
                values[*own, level, hierarchy.height, leaves, domain, 1.0, kept[key]] += 1
    areas = {}
    for key, leaves in tuples:
        areas[key, leaves] = math.prod(
            hierarchy.leaves(leaf, level) + int(level == hierarchy.height and nulls[place])
            for place, (hierarchy, leaf, level) in enumerate(zip(world.hierarchies, leaves, node, strict=True))
        )
    return {
        "recoded_classes": [(numbers[key], len(rows), kept[key]) for key, rows in classes.items()],
        "recoded_values": [(*key, n) for key, n in values.items()],
        "recoded_tuples": [
            (numbers[key], n, len(classes[key]), float(areas[key, leaves]), kept[key])
            for (key, leaves), n in tuples.items()
        ],
        "recoded_class_values": [(number, secret, n, shown) for (number, secret, shown), n in labels.items()],
    }


def find_false_loss(connection: Any, world: World, plugins: Sequence[Plugin], k: int) -> dict[str, str]:
    """`yes`: a node above never loses less, also where small classes are suppressed; `yes; not with suppression` and
    `no, with suppression`: where nothing is. By metric."""
    found: dict[str, str] = {}
    for suppress in (False, True):
        asked = [item for item in plugins if item.monotone.startswith("yes" if suppress else ("yes", "no, with"))]
        asked = [item for item in asked if not suppress or "not with suppression" not in item.monotone]
        losses: dict[str, dict[Node, float]] = {item.name: {} for item in asked}
        for node in world.nodes():
            load(connection, loss_relations(world, node, k if suppress else 0))
            for item in asked:
                ((value,),) = fetch(connection, bind(item.sql, item.filled({}), {}))
                losses[item.name][node] = float(value)
        for lower, upper in world.steps():
            for name, own in losses.items():
                if own[upper] < own[lower] - TOLERANCE:
                    found[name] = f"{name}: {own[upper]} above {own[lower]}"
    return found


def connect() -> Any:
    return duckdb.connect(":memory:", config={"threads": 1})


# History ------------------------------------------------------------------------------------------------------------


def find_false_history(
    connection: Any, plugins: Sequence[Plugin], releases: Sequence[Release], merged: Mapping[int, int], limit: int
) -> dict[str, str]:
    """`yes`: a new release that holds beside the earlier ones goes on holding where its classes are merged. `also under
    record suppression`: a merged class that breaks the model is made of classes that break it. By model."""
    *earlier, new = releases
    persons = {person: (merged[class_id], value) for person, (class_id, value) in new.persons.items()}
    counterfeits = [(merged[class_id], value) for class_id, value in new.counterfeits]
    coarser = [*earlier, Release(persons, counterfeits, new.labels)]
    asked = [item for item in plugins if item.monotone.startswith("yes")]
    fine, coarse = (_broken_classes(connection, asked, history, limit) for history in (releases, coarser))
    found = {}
    for item in asked:
        before, after = fine[item.name], coarse[item.name]
        if after and not before:
            found[item.name] = f"{item.name}: it holds before classes are merged, and not afterwards"
        elif ALSO_SUPPRESSED in item.monotone:
            parts = {class_id for class_id in new.classes() if merged[class_id] in after}
            if not parts <= before:
                found[item.name] = f"{item.name}: a merged class breaks it, but a part of it holds"
    return found


def _broken_classes(
    connection: Any, plugins: Sequence[Plugin], releases: Sequence[Release], limit: int
) -> dict[str, set[int | None]]:
    load(connection, history_relations(releases), HISTORY_RELATIONS)
    return {
        item.name: {row[0] for row in fetch(connection, bind(item.sql, item.filled({item.params[0].name: limit}), {}))}
        for item in plugins
    }


def random_history(rng: Random) -> tuple[list[Release], dict[int, int]]:
    """One to three releases of at most eight persons, and into what the classes of the last one are merged."""
    values = ["flu", "gout", "hiv", NULL_NODE]
    own = {f"person {number}": rng.choice(values) for number in range(8)}
    releases = []
    for _ in range(rng.randint(1, 3)):
        present = [person for person in own if rng.random() < 0.75]
        counterfeits = [(rng.randint(1, 4), rng.choice(values)) for _ in range(rng.randint(0, 2))]
        releases.append(Release({person: (rng.randint(1, 4), own[person]) for person in present}, counterfeits))
    return releases, {class_id: rng.randint(1, 2) for class_id in range(1, 5)}


@dataclass(frozen=True)
class Views:
    """Two releases of the same persons: ours shows columns 0 and 1 and a secret, theirs column 1 and one of its own."""

    hierarchies: tuple[Hierarchy, Hierarchy]
    ours: tuple[Row, ...]
    theirs: tuple[tuple[Leaf, int], ...]
    common_known: bool  # whether X has the common column too

    def relations(self, node: Node) -> dict[str, list[tuple[Any, ...]]]:
        """Their rows match ours where their leaf lies below our label."""
        first, common = self.hierarchies
        pairs: dict[Key, list[tuple[int, int]]] = defaultdict(list)
        for mine, row in enumerate(self.ours):
            label = common.label(row.leaves[1], node[1])
            for other, (leaf, own) in enumerate(self.theirs):
                if common.label(leaf, node[1]) == label:
                    known = (label, leaf) if self.common_known else ()
                    pairs[(first.label(row.leaves[0], node[0]), own, *known)].append((mine, other))
        joined, values = [], []
        for number, found in enumerate(pairs.values(), start=1):
            sides = [len({pair[side] for pair in found}) for side in (0, 1)]
            joined.append((number, 1, len(found), *sides))
            secrets = Counter(self.ours[mine].secret or NULL_NODE for mine, _ in found)
            values += [(number, secret, n) for secret, n in secrets.items()]
        return {"joined": joined, "joined_values": values, "unknown": [(NULL_NODE,)]}


def random_views(rng: Random) -> Views:
    hierarchies = (random_hierarchy(rng, 3), random_hierarchy(rng))
    ours = [Row(random_leaves(rng, hierarchies), rng.choice(SECRETS)) for _ in range(rng.randint(1, 8))]
    theirs = [(*random_leaves(rng, hierarchies[1:]), rng.randint(0, 1)) for _ in range(rng.randint(1, 8))]
    return Views(hierarchies, tuple(ours), tuple(theirs), rng.random() < 0.5)


def find_false_view(connection: Any, plugin: Plugin, given: Views, params: Mapping[str, Any]) -> str | None:
    """`yes`: where the join with another release holds, it goes on holding where our levels are raised."""
    if not plugin.monotone.startswith("yes"):
        return None
    heights = [hierarchy.height for hierarchy in given.hierarchies]
    holds = {}
    for node in product(*(range(height + 1) for height in heights)):
        load(connection, given.relations(node))
        holds[node] = not fetch(connection, bind(plugin.sql, plugin.filled(params), {}))
    for lower, upper in product(holds, holds):
        below = all(one <= other for one, other in zip(lower, upper, strict=True))
        if below and holds[lower] and not holds[upper]:
            return f"{plugin.name}: it holds at {lower}, and not at {upper} above"
    return None
