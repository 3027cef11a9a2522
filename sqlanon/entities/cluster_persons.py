"""Clusters of persons whose rows are matched one to one, so that everybody in a cluster shows the same rows.

Signatures are few where persons are many, so that they are clustered here and not in the database. A signature that
k persons have is a cluster already. The others are sorted by their number of rows and by what their rows are, from the
root down; each in turn is a seed, and takes the nearest of those after it until it has k persons. Who is left over
joins the nearest cluster. Where a cluster breaks another model, it is merged with the nearest one, or its persons are
suppressed, whichever loses less.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlanon.entities.align_rows import Aligner, LabelPaths, TreeRow
from sqlanon.entities.forest import EntityForest
from sqlanon.entities.judge_classes import bounds_sizes_alone, judge_tables
from sqlanon.entities.search_levels import smallest_class
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.relations.classes import NULL_NODE
from sqlanon.relations.entities import EntityTable, Signed, coded_rows
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
    text,
    window,
)

MOST_SIGNATURES = 20_000  # they are compared in Python
MOST_ROWS = 500_000  # of all signatures together
LONGEST = 200  # rows of a signature: matching two of them looks at each pair
NEIGHBORS = 48  # a seed looks at so many of those that are sorted after it
MOST_ROUNDS = 12


@dataclass
class Cluster:
    """Persons who show the same rows. `sizes` are the persons of each signature."""

    rows: list[TreeRow]
    sizes: dict[int, int]

    @property
    def persons(self) -> int:
        return sum(self.sizes.values())


@dataclass(frozen=True)
class Clustered:
    """`tree` are the tables with labels, without suppressed rows; `gone` is a table of persons who are suppressed."""

    tree: EntityTable
    gone: str | None
    clusters: int
    persons: int  # suppressed, with all their rows
    rows: int  # suppressed in all
    loss: float


@dataclass
class _Nodes:
    """Rows of signatures, numbered: in which table, below which node, as which copy of a kind of row."""

    places: list[tuple[int, int, int, int]] = field(default_factory=list)  # table, parent, code, rank

    def add(self, number: int, parent: int, code: int, rank: int) -> int:
        self.places.append((number, parent, code, rank))
        return len(self.places) - 1


def cluster_persons(forest: EntityForest) -> Clustered:
    """Cluster the persons of a forest until all models hold."""
    tables = forest.signed.all_tables
    scales = [_scales(forest, item) for item in tables]
    aligner = Aligner(scales)
    nodes = _Nodes()
    clusters = _read_signatures(forest, scales, nodes)
    known = {signature: item for item in clusters for signature in item.sizes}
    sizes = {
        signature: (sum(row.size for row in item.rows), sum(row.whole for row in item.rows))
        for signature, item in known.items()
    }
    clusters = form_clusters(clusters, aligner, smallest_class(forest))
    best: tuple[float, list[Cluster]] | None = None
    for _ in range(MOST_ROUNDS):
        found, lost = _judge(forest, clusters, scales, nodes, sizes)
        if found.rows <= forest.limit and found.persons < forest.persons and (best is None or found.loss < best[0]):
            best = (found.loss, clusters)
        broken = [item for item in clusters if any(lost.get(signature) for signature in item.sizes)]
        if not broken or len(clusters) == 1:
            break
        clusters = _merge_broken(clusters, broken, aligner)
    if best is not None:
        return found if best[1] is clusters else _judge(forest, best[1], scales, nodes, sizes)[0]
    raise NotReleased(
        f"no clusters were found that meet the requirements within the suppression limit of "
        f"{forest.policy.suppression_limit:.1%}: they would suppress {found.rows:,} of {forest.records:,} rows",
        hint="allow more suppression, or keep fewer rows of a person with the transformation 'truncation'",
    )


def _judge(
    forest: EntityForest,
    clusters: Sequence[Cluster],
    scales: Sequence[Sequence[LabelPaths]],
    nodes: _Nodes,
    sizes: Mapping[int, tuple[int, float]],
) -> tuple[Clustered, dict[int, int]]:
    """What clusters suppress and lose, and how many persons of each signature break a model."""
    tree = _label(forest, clusters, scales, nodes)
    gone = None if bounds_sizes_alone(forest) else judge_tables(forest, tree, keep=True)
    lost = _gone_by_signature(forest, gone)
    return _measure(clusters, sizes, lost, tree, gone), lost


# Signatures -----------------------------------------------------------------------------------------------------------


def _scales(forest: EntityForest, item: Signed) -> list[LabelPaths]:
    found = []
    for domain in forest.domains[item.tree.name]:
        names = [*(f"n{level}" for level in range(domain.height)), *(f"f{level}" for level in range(1, domain.height))]
        rows = forest.engine.query(
            select(
                "position",
                exp.column("original").is_(exp.Null()),
                *names,
                source=table(domain.dictionary),
            ).order_by("position", copy=False)
        )
        weight = forest.weight(domain.name)
        paths: list[tuple[str, ...]] = [()]  # positions begin at 1
        losses: list[tuple[float, ...]] = [()]
        for _, missing, *rest in rows:
            labels, leaves = rest[: domain.height], rest[domain.height :]
            # NULL stays NULL below the root, and is like nothing else there.
            own = [NULL_NODE] * domain.height if missing else [str(label) for label in labels]
            paths.append((*own, domain.hierarchy.root))
            inner = [weight * (float(count) - 1) / max(domain.leaves - 1, 1) for count in leaves]
            losses.append((0.0, *inner, weight if domain.leaves > 1 else 0.0))
        found.append(LabelPaths(paths, losses))
    return found


def _read_signatures(forest: EntityForest, scales: Sequence[Sequence[LabelPaths]], nodes: _Nodes) -> list[Cluster]:
    """Every signature as a cluster of its own."""
    engine, tables = forest.engine, forest.signed.all_tables
    (number,) = engine.query(select(count_all(), source=table(forest.persons_of)))[0]
    if number > MOST_SIGNATURES:
        raise PolicyError(
            f"{number:,} different sets of rows are too many to be clustered, the most are {MOST_SIGNATURES:,}",
            hint="keep fewer rows of a person with 'truncation', make columns coarser in a view, or take entity_levels",
        )
    numbers = {item.tree.name: place for place, item in enumerate(tables)}
    members: list[dict[int, list[tuple[int, int]]]] = []
    codes: list[dict[int, tuple[tuple[int, ...], tuple[int, ...]]]] = []
    for item in tables:
        name = item.tree.name
        listed: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for signature, code, n in engine.query(select("signature", "code", "n", source=table(forest.members[name]))):
            listed[int(signature)].append((int(code), int(n)))
        members.append({signature: sorted(rows) for signature, rows in listed.items()})
        columns = [f"p{place}" for place in range(1, len(item.columns) + 1)]
        below = [f"b{place}" for place in range(1, len(item.below) + 1)]
        found = engine.query(select("code", *columns, *below, source=table(forest.packed[name])))
        codes.append(
            {
                int(code): (tuple(int(v) for v in rest[: len(columns)]), tuple(int(v) for v in rest[len(columns) :]))
                for code, *rest in found
            }
        )
    weights = [sum(forest.weight(domain.name) for domain in forest.domains[item.tree.name]) for item in tables]
    children = [[numbers[child.tree.name] for child in item.below] for item in tables]

    def grow(place: int, signature: int, parent: int) -> list[TreeRow]:
        rows = []
        for code, n in members[place][signature]:
            positions, below = codes[place][code]
            for rank in range(1, n + 1):
                node = nodes.add(place, parent, code, rank)
                if len(nodes.places) > MOST_ROWS:
                    raise PolicyError(
                        f"the different sets of rows have more than {MOST_ROWS:,} rows together",
                        hint="keep fewer rows of a person with 'truncation', or take entity_levels",
                    )
                lower = tuple(
                    grow(child, kind, node) if kind else [] for child, kind in zip(children[place], below, strict=True)
                )
                inside = [row for rows_ in lower for row in rows_]
                whole = weights[place] + sum(row.whole for row in inside)
                rows.append(TreeRow(place, tuple((0, position) for position in positions), lower, 0.0, whole, [node]))
        return rows

    found_: list[Cluster] = []
    asked = select("signature", "persons", source=table(forest.persons_of)).order_by("signature", copy=False)
    for signature, persons in engine.query(asked):
        rows = grow(0, int(signature), int(signature))
        if len(rows) > LONGEST:
            raise PolicyError(
                f"a person has {len(rows):,} rows, and rows are matched one by one up to {LONGEST}",
                hint="keep fewer rows of a person with the transformation 'truncation'",
            )
        found_.append(Cluster(rows, {int(signature): int(persons)}))
    found_.sort(key=lambda item: _order(item, scales))
    return found_


def _order(item: Cluster, scales: Sequence[Sequence[LabelPaths]]) -> tuple[int, list[list[tuple[str, ...]]]]:
    """Signatures of as many rows are neighbors, and of these such with rows that are alike from the root down."""

    def told(row: TreeRow) -> list[tuple[str, ...]]:
        return [tuple(reversed(scales[row.table][place].paths[cell[1]])) for place, cell in enumerate(row.cells)]

    return -len(item.rows), sorted(told(row) for row in item.rows)


# Clusters -------------------------------------------------------------------------------------------------------------


def form_clusters(items: Sequence[Cluster], aligner: Aligner, least: int) -> list[Cluster]:
    """Greedy clusters of at least so many persons; `items` are sorted so that neighbors are alike."""
    done = [item for item in items if item.persons >= least]
    waiting = [item for item in items if item.persons < least]
    while waiting:
        cluster = waiting.pop(0)
        while cluster.persons < least and waiting:
            near = range(min(NEIGHBORS, len(waiting)))
            best = min(near, key=lambda place: (_price(aligner, cluster, waiting[place]), place))
            cluster = _join(aligner, cluster, waiting.pop(best))
        if cluster.persons >= least:
            done.append(cluster)
        elif done:
            nearest = min(range(len(done)), key=lambda place: (_cost(aligner, done[place], cluster), place))
            done[nearest] = _join(aligner, done[nearest], cluster)
        else:
            raise NotReleased(
                f"there are only {cluster.persons:,} persons, and a class needs {least:,}",
                hint="publish a larger table, or ask for a smaller k",
            )
    return done


def _cost(aligner: Aligner, one: Cluster, other: Cluster) -> float:
    return aligner.align(one.rows, other.rows, (one.persons, other.persons))[1]


def _price(aligner: Aligner, one: Cluster, other: Cluster) -> float:
    """What it costs to take in others, for each of them."""
    return _cost(aligner, one, other) / other.persons


def _join(aligner: Aligner, one: Cluster, other: Cluster) -> Cluster:
    rows = aligner.unite(one.rows, other.rows, (one.persons, other.persons))
    return Cluster(rows, one.sizes | other.sizes)


def _merge_broken(clusters: Sequence[Cluster], broken: Sequence[Cluster], aligner: Aligner) -> list[Cluster]:
    """Each broken cluster joins the nearest one."""
    left = list(clusters)
    for item in broken:
        place = next((i for i, other in enumerate(left) if other is item), None)
        if place is None or len(left) == 1:  # it took in another one already
            continue
        del left[place]
        nearest = min(range(len(left)), key=lambda i: (_cost(aligner, left[i], item), i))
        left[nearest] = _join(aligner, left[nearest], item)
    return left


# The rows -------------------------------------------------------------------------------------------------------------


def _label(
    forest: EntityForest, clusters: Sequence[Cluster], scales: Sequence[Sequence[LabelPaths]], nodes: _Nodes
) -> EntityTable:
    """The tables with the labels of clusters, without rows that found no partner."""
    tables = forest.signed.all_tables
    kept: list[list[tuple[str, ...]]] = [[] for _ in tables]

    def keep(row: TreeRow) -> None:
        labels = [scales[row.table][place].paths[cell[1]][cell[0]] for place, cell in enumerate(row.cells)]
        for node in row.nodes:
            _, parent, code, rank = nodes.places[node]
            kept[row.table].append((str(parent), str(code), str(rank), str(node), *labels))
        for rows in row.below:
            for inner in rows:
                keep(inner)

    for row in itertools.chain.from_iterable(item.rows for item in clusters):
        keep(row)
    numbers = {item.tree.name: place for place, item in enumerate(tables)}

    def write(item: Signed, tree: EntityTable, parent: str | None) -> EntityTable:
        place = numbers[tree.name]
        made = _assign(forest, item, kept[place], place, parent)
        branches = tuple(
            replace(branch, child=write(child, branch.child, made))
            for branch, child in zip(tree.branches, item.below, strict=True)
        )
        rows = select(*(column(name) for name in tree.columns), source=table(made))
        return replace(tree, rows=rows, branches=branches)

    return write(forest.signed, forest.tree, None)


def _assign(forest: EntityForest, item: Signed, kept: Sequence[tuple[str, ...]], place: int, parent: str | None) -> str:
    """The rows of a table with the labels of the node that each one is, as a temporary table; rows of no node are
    left out. Rows of a person that are alike are nodes in any order."""
    engine, tree = forest.engine, item.tree
    map_name, name = f"sqlanon_entities_map_{place}", f"sqlanon_entities_assigned_{place}"
    labels = [f"l{number}" for number in range(1, len(item.columns) + 1)]
    engine.drop_temporary([map_name, name])
    if kept:
        engine.load_temporary(map_name, ("parent", "code", "rank", "node", *labels), list(kept))
    else:  # of a child table without any row that could be matched
        nothing = [alias(text(exp.Null()), label) for label in ("parent", "code", "rank", "node", *labels)]
        engine.create_temporary(map_name, exp.select(*nothing).where(exp.false()))
    also = [alias(column(own, "source"), f"o{number}") for number, own in enumerate(tree.columns, start=1)]
    coded = coded_rows(engine.dialect, tree, item.keys, item.columns, item.below, item.codes, also)
    alike: list[exp.Expr] = [exp.column("k1"), exp.column("code")]
    rank = window(exp.RowNumber(), partition=alike)
    ranked = select(exp.Star(), alias(rank, "rank_"), source=nest_query(coded, "coded"))
    if parent is None:
        above, whose = item.owners, exp.column("signature", table="a")
        met = exp.column("k1", table="a").eq(exp.column("k1", table="r"))
    else:
        above, whose = parent, exp.column("node", table="a")
        met = column(_left_key(forest.signed, item), "a").eq(exp.column("k1", table="r"))
    pairs = [
        exp.column("parent", table="m").eq(text(whose)),
        exp.column("code", table="m").eq(text(exp.column("code", table="r"))),
        exp.column("rank", table="m").eq(text(exp.column("rank_", table="r"))),
    ]
    shown: list[exp.Expr] = [alias(bigint(exp.column("node", table="m")), "node")]
    places = {name_: number for number, name_ in enumerate(item.columns, start=1)}
    for number, own in enumerate(tree.columns, start=1):
        if own in places:
            value: exp.Expr = exp.Nullif(this=exp.column(f"l{places[own]}", table="m"), expression=literal(NULL_NODE))
        else:
            value = exp.column(f"o{number}", table="r")
        shown.append(alias(value, own, quoted=True))
    joins = [
        join_clause(table(above, alias="a"), met),
        join_clause(table(map_name, alias="m"), exp.and_(*pairs, copy=False)),
    ]
    engine.create_temporary(name, select(*shown, source=nest_query(ranked, "r"), joins=joins))
    return name


def _left_key(root: Signed, item: Signed) -> str:
    """The column of the parent that a child table hangs on."""
    for parent in root.all_tables:
        for branch, child in zip(parent.tree.branches, parent.below, strict=True):
            if child is item:
                return branch.on[0][0]
    raise AssertionError("a table below no other")


def drop_assigned(forest: EntityForest) -> None:
    count = len(forest.signed.all_tables)
    names = [f"sqlanon_entities_{kind}_{place}" for kind in ("map", "assigned") for place in range(count)]
    forest.engine.drop_temporary(names)


def _gone_by_signature(forest: EntityForest, gone: str | None) -> dict[int, int]:
    if gone is None:
        return {}
    own = exp.column("person", table="g").eq(exp.column("k1", table="e"))
    tree = select(
        exp.column("signature", table="e"),
        count_all(),
        source=table(forest.signed.owners, alias="e"),
        joins=[join_clause(table(gone, alias="g"), own)],
        groups=[exp.column("signature", table="e")],
    )
    return {int(signature): int(number) for signature, number in forest.engine.query(tree)}


def _measure(
    clusters: Sequence[Cluster],
    sizes: Mapping[int, tuple[int, float]],
    lost: Mapping[int, int],
    tree: EntityTable,
    gone: str | None,
) -> Clustered:
    """What is suppressed and lost. Persons who are suppressed lose all of their rows, and not only the surplus."""
    rows, loss = 0, 0.0
    for item in clusters:
        shown, cost = sum(row.size for row in item.rows), sum(row.loss for row in item.rows)
        inside = sum(row.whole for row in item.rows)
        for signature, persons in item.sizes.items():
            every, whole = sizes[signature]
            away = lost.get(signature, 0)
            rows += (persons - away) * (every - shown) + away * every
            loss += (persons - away) * (cost + whole - inside) + away * whole
    return Clustered(tree, gone, len(clusters), sum(lost.values()), rows, loss)
