"""One level for each quasi-identifier, the best of all, where classes are persons with the same rows.

    shape: entity
    algorithm: entity_levels

Every quasi-identifier is shown at one level of its hierarchy, in all rows. Persons whose rows then are those of too few
others, or whose class breaks another model, are left out with all their rows, up to the `suppression_limit`. Of all
choices of levels it takes one with the least loss (ncp; a suppressed row loses all). It looks at them from the least
possible loss on, so that it may stop early and is exact for every model. Each look is one statement over the distinct
sets of rows; more than 200,000 nodes are refused.

What it does not protect: how many rows a person has is shown, and a person with a number of rows that nobody else has
must be left out, at any level. Where that takes too many, shorten the rows of persons first (`truncation`), or take
`entity_clusters`, which leaves out single rows.
cite: Nergiz, Clifton and Nergiz 2009, Multirelational k-anonymity; Samarati 2001
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from sqlanon.buckets.bucketize import Parted
from sqlanon.entities.forest import EntityForest
from sqlanon.entities.label_rows import label_tables
from sqlanon.entities.release_tables import write_tables
from sqlanon.entities.search_levels import search_levels
from sqlanon.families import AlgorithmTraits

TRAITS = AlgorithmTraits(shapes=("entity",), writes_rows=True)


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def part(forest: EntityForest, params: Params) -> Parted:
    best = search_levels(forest)
    written = write_tables(forest, label_tables(forest, best.levels), best.gone)
    return Parted(
        written.main,
        0,
        f"the least loss of {best.nodes:,} choices of levels, of which {best.measured:,} were looked at",
        written.companions,
        measured={"persons": forest.persons, "suppressed_persons": best.persons},
        suppressed=best.rows,
        loss=best.loss,
        proven=True,
        passes=(best.levels,),
    )
