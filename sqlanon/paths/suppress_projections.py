"""Places that an adversary may not infer from those that they know (Terrovitis and Mamoulis), and suppression for it.

visits(person, visit, place)             visits of a person are numbered in the order of time
owners(place, adversary)                 who knows of visits to a place
projections(adversary, person, projection)
projection_sizes(adversary, projection, persons)
inferences(class_id, adversary, projection, place, records, matching)
breached(class_id, measured)             the inferences that are too sure
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlanon.paths.path_tables import PathTables
from sqlanon.sqltree.tree import BIGINT, count_all, rows_relation, select, table


@dataclass(frozen=True)
class ProjectionBreaches:
    """What adversaries learn: pairs of a projection and a place inferred from it, and the surest one."""

    breaches: int
    worst: float
    persons: int  # whose path holds a place that an adversary infers


@dataclass(frozen=True)
class ProjectionLoss:
    rounds: int
    visits: int
    suppressed: int
    paths: int
    empty_paths: int


def check_projections(tables: PathTables, p: float) -> ProjectionBreaches:
    """Measure `visits` by the model: make `inferences` and what it reads, and `breached`."""
    find_inferences(tables)
    tables.define("breached", tables.bind_model("projections", {"p": p}))
    worst = exp.Coalesce(this=exp.Max(this=exp.column("measured")), expressions=[exp.convert(0.0)])
    breaches, measured = tables.engine.query(select(count_all(), worst, source=table(tables.name("breached"))))[0]
    persons = tables.ask("inferred_persons")[0][0] if breaches else 0
    return ProjectionBreaches(int(breaches), float(measured), int(persons))


def find_inferences(tables: PathTables) -> None:
    """Make `inferences` from `visits` and `owners`."""
    for relation in ("projections", "projection_sizes", "inferences"):
        tables.make(relation, relation)


def suppress_projections(tables: PathTables, p: float) -> ProjectionLoss:
    """Take visits out of `visits` until no adversary infers a place with a probability above p.

    In each round, the projection that tells most becomes equal to one that is a part of it, or that it is a part of, by
    the fewest visits; without any such projection it goes altogether. Every round takes a visit away, so it ends.
    """
    visits, paths = _size(tables)
    rounds = 0
    while check_projections(tables, p).breaches:
        adversary, projection, _ = tables.ask("worst_projection")[0]
        longer, shorter = projection, ""
        nested = tables.ask("nested_projections", adversary=adversary, projection=projection)
        if nested:
            longer, shorter = sorted((projection, nested[0][0]), key=lambda found: -len(split_projection(found)))
        missing = [(ordinal,) for ordinal in list_missing(longer, shorter)]
        tables.define("dropped", rows_relation(missing, ["ordinal"], [BIGINT]))
        tables.make("visits", "remaining_visits", adversary=adversary, projection=longer)
        rounds += 1
    left, shown = _size(tables)
    return ProjectionLoss(rounds, visits, visits - left, paths, paths - shown)


def split_projection(projection: str) -> list[str]:
    """The places of a projection.

    >>> split_projection(",3,,12,,3,"), split_projection("")
    (['3', '12', '3'], [])
    """
    return projection.strip(",").split(",,") if projection else []


def list_missing(longer: str, shorter: str) -> list[int]:
    """Which places of a projection, counted from 1, have to go to make it equal to a part of it.

    >>> list_missing(",3,,12,,3,,4,", ",3,,4,"), list_missing(",3,,3,", "")
    ([2, 3], [1, 2])
    """
    wanted = split_projection(shorter)
    missing = []
    for ordinal, place in enumerate(split_projection(longer), start=1):
        if wanted and wanted[0] == place:
            wanted.pop(0)
        else:
            missing.append(ordinal)
    assert not wanted, "the shorter projection is no part of the longer one"
    return missing


def _size(tables: PathTables) -> tuple[int, int]:
    paths = exp.Count(this=exp.Distinct(expressions=[exp.column("person")]))
    rows, persons = tables.engine.query(select(count_all(), paths, source=table(tables.name("visits"))))[0]
    return int(rows), int(persons)
