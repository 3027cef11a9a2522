"""Single visits are suppressed until nobody is found by a few of them: for lkc_privacy and km_anonymity of sequences.

    shape: sequence
    columns: {patient: identifier, hour: time, ward: place, disease: sensitive}
    models: [{lkc_privacy: {l: 2, k: 5, c: 0.5}}]
    algorithm: {path_suppression: {levels: {hour: 1}, keep: frequent}}

Times, places and stays are shown on the levels of their hierarchies that `levels` names: hour to day, ward to building,
days of a stay to bands with a top and a bottom. Then
the minimal violating sequences are found: sets of visits that break a model while each part of them holds. Doublets (a
place at a time) are suppressed in all journeys at once, until each such sequence has lost one. The support of what is
left does not change, so the sequences are found once. The doublet of most sequences for what it is worth goes first; it
is worth its visits, or with `keep: frequent` the number of maximal frequent sequences that hold it. With `search:
exact` as few visits as possible go, or as little of that worth.

What it does not protect: against who knows more than l visits, such as a whole journey. Whoever sees a gap learns that
something was suppressed there. A person without any visit left is not published.
cite: Mohammed, Fung and Debbabi 2009; Chen, Fung, Mohammed, Desai and Wang 2013
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.families import AlgorithmTraits
from sqlanon.paths.choose_doublets import choose_exactly, choose_greedily, count_maximal
from sqlanon.paths.journeys import (
    JourneyRelease,
    Journeys,
    find_broken,
    find_frequent,
    release_doublets,
    without_items,
)
from sqlanon.sqltree.tree import count_all, select, table

TRAITS = AlgorithmTraits(shapes=("sequence",))
OFTEN = 0.05  # the share of persons with a frequent sequence, where `support` is left out


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    levels: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, description="The level of times, places and stays; 0, the value itself, where left out."
    )
    keep: Literal["instances", "frequent"] = Field(
        "instances", description="What a doublet is worth: its visits, or the maximal frequent sequences that hold it."
    )
    support: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Persons with a frequent sequence; 5 % of all, and at least 2, if left out."
    )
    longest: Annotated[int, Field(ge=1)] = Field(3, description="Doublets of a frequent sequence, at most.")
    search: Literal["greedy", "exact"] = Field("greedy", description="The exact search needs the package highspy.")
    seconds: Annotated[float, Field(gt=0)] = Field(60.0, description="Time for the exact search.")


def release_journeys(journeys: Journeys, params: Params) -> JourneyRelease:
    policy = journeys.policy
    items = journeys.open(params.levels)
    broken = find_broken(items, policy, policy.models)
    sequences = [item.items for item in broken]
    instances = items.supports
    support = params.support or max(2, round(OFTEN * items.persons))
    frequent = find_frequent(items, support, params.longest)
    worth = dict(count_maximal(frequent)) if params.keep == "frequent" else dict(instances)
    proven = False
    if params.search == "greedy":
        chosen = choose_greedily(sequences, worth, items.labels)
    else:
        # A doublet in no frequent sequence is worth nothing, but of two such choices the one of fewer visits is taken.
        most = 1 + sum(instances.values())
        weight = {
            doublet: worth.get(doublet, 0) * most + instances[doublet] if params.keep == "frequent" else worth[doublet]
            for doublet in instances
        }
        chosen, proven = choose_exactly(sequences, weight, params.seconds)
    if len(chosen) == len(instances):
        raise PolicyError(
            "every visit would be suppressed", hint="show times and places on a higher level: 'levels' names it"
        )
    kept = without_items(items, chosen)
    gone = set(chosen)
    suppressed = sum(instances[doublet] for doublet in chosen)
    left = [own for own in frequent if not own & gone]
    persons = int(items.engine.query(_count_persons(kept))[0][0])
    sizes = [len(item.items) for item in broken]
    measured = {
        "minimal_violating_sequences": len(broken),
        "by_length": {str(size): sizes.count(size) for size in sorted(set(sizes))},
        "doublets": len(instances),
        "suppressed_doublets": len(chosen),
        "visits": items.occurrences,
        "suppressed_visits": suppressed,
        "persons": items.persons,
        "suppressed_persons": items.persons - persons,
        "frequent_support": support,
        "frequent_sequences": len(frequent),
        "frequent_sequences_kept": len(left),
    }
    how = "the fewest that end" if proven else "chosen to end"
    return JourneyRelease(
        select=release_doublets(journeys, items, kept, params.levels),
        records=items.occurrences,
        visits=items.occurrences - suppressed,
        persons=persons,
        why=f"{len(chosen):,} of {len(instances):,} doublets are suppressed, {how} {len(broken):,} minimal violating "
        f"sequences; {suppressed:,} of {items.occurrences:,} visits go with them",
        levels={name: params.levels.get(name, 0) for name in policy.visit_columns},
        measured=measured,
        loss=suppressed / items.occurrences if items.occurrences else 0.0,
        proven=proven,
    )


def _count_persons(kept: str) -> exp.Select:
    return select(count_all(), source=select("person", source=table(kept)).distinct().subquery(alias="left_"))
