"""Visits are suppressed until nobody who knows some places of a journey infers another one: for projections.

    shape: sequence
    columns: {card: identifier, day: time, shop: place}
    models: [{projections: {p: 0.5, owners: {north: [a1, a2], south: [b1, b2]}}}]
    algorithm: projection_suppression

In each round, the projection of an adversary that tells most becomes equal to another one that is a part of it, or that
it is a part of, by the fewest visits: they go from all journeys with the longer one. Without any such projection, all
its visits go. Each round takes a visit away, so it ends; all adversaries are measured again after each.

What it does not protect: who is found, as a journey may be the only one of its kind. Nor against adversaries who know
places of each other, or who know times.
cite: Terrovitis and Mamoulis 2008, Privacy preservation in the publication of trajectories
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.families import AlgorithmTraits, plugin
from sqlanon.paths.journeys import JourneyRelease, Journeys, release_doublets
from sqlanon.paths.path_tables import PathTables
from sqlanon.paths.read_journeys import read_owners, read_visits
from sqlanon.paths.suppress_projections import suppress_projections
from sqlanon.sqltree.tree import join_clause, select, table

TRAITS = AlgorithmTraits(shapes=("sequence",))


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def release_journeys(journeys: Journeys, params: Params) -> JourneyRelease:
    policy = journeys.policy
    if len(policy.models) != 1 or "visits" not in plugin("models", policy.models[0].name).needs:
        raise PolicyError(
            "projection_suppression protects the model projections, and no other beside it",
            hint="publish with 'models: [{projections: …}]' alone",
        )
    use = policy.models[0]
    items = journeys.open({})
    with PathTables(items.engine) as tables:
        read_visits(tables, items, policy)
        read_owners(tables, items, policy, use.params["owners"], absent=policy.absent_values == "allow")
        loss = suppress_projections(tables, float(use.params["p"]))
        same = exp.and_(
            exp.column("person", table="w").eq(exp.column("person", table="v")),
            exp.column("visit", table="w").eq(exp.column("visit", table="v")),
        )
        chosen = [exp.column("person", table="w"), exp.column("item", table="w")]
        joins = [join_clause(table(tables.name("visits"), alias="v"), same)]
        left = select(*chosen, source=table(tables.name("visit_items"), alias="w"), joins=joins)
        kept = items.make("kept_items", left)
    if loss.suppressed == loss.visits:
        raise PolicyError(
            "every visit would be suppressed", hint="allow a larger 'p', or give adversaries fewer places"
        )
    return JourneyRelease(
        select=release_doublets(journeys, items, kept, {}),
        records=loss.visits,
        visits=loss.visits - loss.suppressed,
        persons=loss.paths - loss.empty_paths,
        why=f"{loss.suppressed:,} of {loss.visits:,} visits are suppressed in {loss.rounds:,} rounds",
        levels=dict.fromkeys(policy.visit_columns, 0),
        measured={
            "visits": loss.visits,
            "suppressed_visits": loss.suppressed,
            "persons": loss.paths,
            "suppressed_persons": loss.empty_paths,
            "rounds": loss.rounds,
        },
        loss=loss.suppressed / loss.visits,
    )
