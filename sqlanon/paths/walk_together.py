"""(k,δ)-anonymity by never walk alone: paths are cut to common times, put into clusters of k, and drawn together.

points(person, moment, x, y)            where a person was, as given: from the caller
positions(person, tick, x, y)       the same on the common grid of time
spans(person, span, first_tick, last_tick, paths)
cut(person, span, tick, x, y)       paths of spans that k paths share
clusters(person, leader)             who is published together
shifted(leader, person, tick, x, y)  what is published
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.paths.path_tables import PathTables
from sqlanon.sqltree.tree import count_all, join_clause, literal, select, table, with_verdict

MOST_POSITIONS = 10**9  # of the grid: a step far below the distance of two points would fill the disk
MOST_IN_A_STRIP = 1_000  # paths that are all compared with each other
ROUNDS = 60  # the radius grows 1.5 times each: 60 rounds make it 10^10 times as large
WIDER = 1.5
FIRST_RADIUS = 0.005  # of half the diagonal of all positions, where none is given (Abul et al.)


@dataclass(frozen=True)
class WalkOptions:
    """What the clustering is asked for. Ticks are `step` long, and paths are cut to multiples of `period` ticks."""

    k: int
    delta: float
    step: float
    period: int = 1
    trash: float = 0.1
    radius: float | None = None


@dataclass(frozen=True)
class WalkLoss:
    """What it cost: paths that are not published, positions moved and left out, and how wrong counts in boxes are."""

    paths: int
    positions: int
    trash: int
    cut_positions: int
    moved: float
    farthest: float
    range_error: float
    density_error: float

    @property
    def distortion(self) -> float:
        """The distances of moved positions; one that is left out counts as the largest of them."""
        return self.moved + self.cut_positions * self.farthest


@dataclass(frozen=True)
class WalkResult:
    clusters: int
    radius: float
    loss: WalkLoss


def walk_together(tables: PathTables, options: WalkOptions) -> WalkResult:
    """Make `shifted` from `points`; refuse if more paths than the trash allows would be left out."""
    paths = _make_grid(tables, options)
    allowed = math.floor(options.trash * paths + 1e-9)
    tables.make("spans", "path_spans", period=options.period, most=max(MOST_IN_A_STRIP, 8 * options.k))
    tables.make("cut", "cut_positions", k=options.k)
    shared = _count(tables, "cut", "person")
    if paths - shared > allowed:
        raise PolicyError(
            f"{paths - shared} of {paths} paths begin and end at times that fewer than {options.k} paths share, "
            f"and {allowed} may be left out",
            hint="a longer 'period' cuts more paths to the same times; a larger 'trash' leaves more of them out",
        )
    tables.make("reaches", "reaches", k=options.k)
    radius = _first_radius(tables, options)
    for _ in range(ROUNDS):
        _gather(tables, options.k, radius)
        clustered = _count(tables, "clusters", "person")
        if paths - clustered <= allowed:
            break
        radius *= WIDER
    else:
        raise PolicyError(
            f"{paths - clustered} of {paths} paths are in no cluster, and {allowed} may be left out",
            hint="set 'radius' to the distance at which paths may be published together",
        )
    if not clustered:
        raise PolicyError(
            "no path can be published: all of them may be left out, and were",
            hint="a larger 'radius', a longer 'period' or a smaller 'trash' publishes some",
        )
    tables.make("shifted", "shifted_positions", delta=options.delta)
    return WalkResult(_count(tables, "clusters", "leader"), radius, measure_loss(tables, paths))


def measure_loss(tables: PathTables, paths: int) -> WalkLoss:
    """What was lost between `positions` and `shifted`. All paths are counted, also those between two ticks."""
    positions, _ = _sizes(tables, "positions")
    shown, published = _sizes(tables, "shifted")
    _, moved, farthest = tables.ask("moved_distances")[0]
    errors = [float(tables.ask("range_errors", boxes=10, intervals=parts)[0][0]) for parts in (10, 1)]
    return WalkLoss(
        paths=paths,
        positions=positions,
        trash=paths - published,
        cut_positions=positions - shown,
        moved=float(moved),
        farthest=float(farthest),
        range_error=errors[0],
        density_error=errors[1],
    )


@dataclass(frozen=True)
class Colocation:
    """A release as (k,δ)-anonymity sees it: groups, those that break it, and the journeys in these."""

    groups: int
    broken_groups: int
    broken_paths: int
    smallest: int  # paths of a group that are within delta; 0 where they are not


def check_colocation(tables: PathTables, k: int, delta: float) -> Colocation:
    """Measure `published(path, group_id, tick, x, y)` by the model, as it was written."""
    tables.make("path_groups", "path_groups")
    verdict = with_verdict(tables.bind_model("k_delta_anonymity", {"k": k, "delta": delta}))
    same = exp.column("class_id", table="r").eq(exp.column("class_id", table="g"))
    joined = join_clause(verdict.subquery(alias="r", copy=False), same)
    records, broken = exp.column("records", table="g"), exp.column("broken", table="r")
    found = (
        count_all(),
        exp.Sum(this=broken),
        exp.Sum(this=exp.Mul(this=broken.copy(), expression=records)),
        exp.Min(this=exp.column("measured", table="r")),
    )
    tree = select(*found, source=table(tables.name("path_groups"), alias="g"), joins=[joined])
    groups, bad, paths, smallest = (int(value or 0) for value in tables.engine.query(tree)[0])
    return Colocation(groups, bad, paths, smallest)


@dataclass(frozen=True)
class NearestPaths:
    """How the attack went that takes the published path nearest to a known one."""

    targets: int
    found: float  # expected number of right guesses
    certain: int  # whose own path alone was the nearest


def attack_by_nearest_path(tables: PathTables, one_in: int = 1) -> NearestPaths:
    """Link original paths with published ones; every `one_in`-th person is a target."""
    rows = [(int(persons), float(share)) for persons, share in tables.ask("nearest_path", one_in=one_in)]
    return NearestPaths(
        targets=sum(persons for persons, _ in rows),
        found=sum(persons * share for persons, share in rows),
        certain=sum(persons for persons, share in rows if share > 1 - 1e-9),
    )


def _make_grid(tables: PathTables, options: WalkOptions) -> int:
    positions, paths = tables.ask("grid_size", step=options.step)[0]
    if not paths:
        raise PolicyError("there are no paths", hint="the source has no rows")
    if positions > MOST_POSITIONS:
        raise PolicyError(
            f"the paths would have {float(positions):.0e} positions on the grid of time",
            hint="'step' is the time between two positions: take a longer one",
        )
    tables.make("positions", "grid_positions", step=options.step)
    return int(paths)


def _first_radius(tables: PathTables, options: WalkOptions) -> float:
    if options.radius is not None:
        return options.radius
    ends = select(
        *(
            exp.Coalesce(this=function(this=exp.column(name)), expressions=[literal(0.0)])
            for name in ("x", "y")
            for function in (exp.Min, exp.Max)
        ),
        source=table(tables.name("positions")),
    )
    low_x, high_x, low_y, high_y = tables.engine.query(ends)[0]
    extent = math.hypot(high_x - low_x, high_y - low_y) / 2
    return max(options.delta, FIRST_RADIUS * extent)


def _gather(tables: PathTables, k: int, radius: float) -> None:
    """Make `clusters`: pivots take their nearest paths in turn; what is left joins the nearest pivot, if it is near."""
    tables.make("pool", "first_pool", radius=radius)
    tables.define("clusters", _members(tables, "pool", exp.false(), leader="leader"))
    while tables.engine.query(
        select(literal(1), source=table(tables.name("pool")), where=exp.column("open").eq(1)).limit(1)
    ):
        tables.make("ranked", "next_cluster", k=k, radius=radius)
        chosen = exp.and_(exp.column("accepted").eq(1), exp.column("place") <= literal(k))
        tables.add("clusters", _members(tables, "ranked", chosen, leader="leader"))
        tables.make("pool", "next_pool", k=k)
    tables.add("clusters", _members(tables, "pool", exp.column("near") <= literal(radius), leader="leader"))


def _members(tables: PathTables, relation: str, where: exp.Expr, leader: str) -> exp.Select:
    return select("person", leader, source=table(tables.name(relation)), where=where)


def _count(tables: PathTables, relation: str, column: str) -> int:
    counted = exp.Count(this=exp.Distinct(expressions=[exp.column(column)]))
    return int(tables.engine.query(select(counted, source=table(tables.name(relation))))[0][0])


def _sizes(tables: PathTables, relation: str) -> tuple[int, int]:
    paths = exp.Count(this=exp.Distinct(expressions=[exp.column("person")]))
    rows, persons = tables.engine.query(select(count_all(), paths, source=table(tables.name(relation))))[0]
    return int(rows), int(persons)
