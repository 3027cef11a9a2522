"""Journeys are drawn together in groups of k, at the same times and within delta: for k_delta_anonymity.

    shape: sequence
    columns: {taxi: identifier, at: time, east: place, north: place}
    models: [{k_delta_anonymity: {k: 5, delta: 100}}]
    algorithm: {never_walk_alone: {step: 60, period: 10}}

Journeys get a position at every `step` of time, on a straight line between two points, and are cut to multiples of
`period` steps, so that many begin and end together; those that share both with fewer than k others are left out.
The journey farthest from former pivots takes its k - 1 nearest ones, if they are within the radius; the rest joins the
nearest pivot or is left out. The radius grows by half until at most the share `trash` is left out. Then each position
that is farther than delta / 2 from the mean of its group moves towards it, until it is that far.

What it does not protect: with delta above 0, whoever knows where a person was usually finds their journey by taking the
nearest published one; publishing tries this and says how it went. With delta 0 a group is published as one journey.
Sensitive values of a group may be all the same.
cite: Abul, Bonchi and Nanni 2008, Never walk alone; Trujillo-Rasua and Domingo-Ferrer 2013
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.families import AlgorithmTraits, plugin
from sqlanon.paths.journeys import (
    GROUP_NUMBER,
    JourneyRelease,
    Journeys,
    add_sensitive,
    journey_columns,
    number_persons,
)
from sqlanon.paths.path_tables import PathTables
from sqlanon.paths.read_journeys import read_points
from sqlanon.paths.walk_together import WalkOptions, attack_by_nearest_path, walk_together
from sqlanon.relations.itemsets import PERSON_NUMBER
from sqlanon.sqltree.tree import alias, bigint, double, join_clause, literal, select, table

TRAITS = AlgorithmTraits(shapes=("sequence",))
MOST_TARGETS = 500  # persons of the attack by the nearest path


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    step: Annotated[float, Field(gt=0)] = Field(description="Time between two positions: seconds, or a number.")
    period: Annotated[int, Field(ge=1)] = Field(1, description="Journeys are cut to multiples of so many steps.")
    trash: Annotated[float, Field(ge=0, lt=1)] = Field(0.1, description="Largest share of journeys that is left out.")
    radius: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Largest mean distance to the pivot at first; delta or more, by the data, if left out."
    )


def release_journeys(journeys: Journeys, params: Params) -> JourneyRelease:
    policy = journeys.policy
    if len(policy.models) != 1 or "positions" not in plugin("models", policy.models[0].name).needs:
        raise PolicyError(
            "never_walk_alone protects the model k_delta_anonymity, and no other beside it",
            hint="publish with 'models: [{k_delta_anonymity: {k: 5, delta: 100}}]' alone",
        )
    asked = policy.models[0].params
    options = WalkOptions(
        int(asked["k"]), float(asked["delta"]), params.step, params.period, params.trash, params.radius
    )
    items = journeys.open({})
    with PathTables(items.engine) as tables:
        read_points(tables, journeys.rows, policy, items.tables.persons)
        found = walk_together(tables, options)
        attacked = attack_by_nearest_path(tables, one_in=max(1, found.loss.paths // MOST_TARGETS))
        chosen: list[exp.Expr | str] = ["leader", "person", "tick", "x", "y"]
        shown = items.make("shifted", select(*chosen, source=table(tables.name("shifted"))))
    loss = found.loss
    share = loss.cut_positions / loss.positions
    return JourneyRelease(
        select=_release_positions(journeys, shown, options.step),
        records=loss.positions,
        visits=loss.positions - loss.cut_positions,
        persons=loss.paths - loss.trash,
        why=f"{found.clusters:,} groups within a radius of {found.radius:.6g}; {loss.trash:,} of {loss.paths:,} "
        f"journeys are left out, positions moved by {loss.moved:.6g} in all; the nearest published journey is the "
        f"right one for {attacked.certain:,} of {attacked.targets:,} persons",
        measured={
            "groups": found.clusters,
            "radius": found.radius,
            "visits": items.occurrences,
            "persons": loss.paths,
            "suppressed_persons": loss.trash,
            "positions": loss.positions,
            "suppressed_positions": loss.cut_positions,
            "moved": loss.moved,
            "farthest_moved": loss.farthest,
            "distortion": loss.distortion,
            "range_error": loss.range_error,
            "density_error": loss.density_error,
            "nearest_path": {
                "targets": attacked.targets,
                "found": attacked.certain,
                "expected": attacked.found,
            },
        },
        loss=share,
    )


def _release_positions(journeys: Journeys, shown: str, step: float) -> exp.Select:
    """The rows of the release: random numbers of persons and groups, time, coordinates, the sensitive value."""
    policy, items = journeys.policy, journeys.opened[0]
    (time,), (x, y) = policy.times, policy.places
    persons = number_persons(items, shown)
    groups = number_persons(items, shown, GROUP_NUMBER, "leader")
    kinds = {item.name: item for item in journeys.engine.columns(journeys.rows)}
    moment: exp.Expr = exp.Mul(this=double(exp.column("tick", table="s")), expression=literal(float(step)))
    if kinds[time].temporal:
        ticks = bigint(exp.Round(this=exp.Mul(this=exp.paren(moment), expression=literal(1e6))))
        if journeys.engine.dialect == "duckdb":
            moment = exp.Anonymous(this="MAKE_TIMESTAMP", expressions=[ticks])
        else:
            micro = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("MICROSECOND"))
            start = exp.Cast(this=exp.Literal.string("1970-01-01"), to=exp.DataType.build("timestamp"))
            moment = exp.Add(this=start, expression=exp.paren(exp.Mul(this=ticks, expression=micro)))
    chosen: list[exp.Expr | str] = [
        exp.column(PERSON_NUMBER, table="p"),
        exp.column(GROUP_NUMBER, table="g"),
        alias(moment, time, quoted=True),
        alias(exp.column("x", table="s"), x, quoted=True),
        alias(exp.column("y", table="s"), y, quoted=True),
    ]
    same_person = exp.column("person", table="p").eq(exp.column("person", table="s"))
    same_group = exp.column("leader", table="g").eq(exp.column("leader", table="s"))
    joins = [join_clause(table(persons, alias="p"), same_person), join_clause(table(groups, alias="g"), same_group)]
    joins += add_sensitive(items, journey_columns(policy), chosen, "s")
    return select(*chosen, source=table(shown, alias="s"), joins=joins)
