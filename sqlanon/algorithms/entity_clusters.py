"""Clusters of persons whose rows are matched one to one, so that all persons of a cluster show the same rows.

    shape: entity
    algorithm: entity_clusters

Persons with nearly the same rows come into one cluster, of k persons or more. Their rows are matched one to one, and
each quasi-identifier of a match is shown as the lowest node of its hierarchy that covers both values; so a column may
have several levels. Rows that find no partner are left out, with the rows of child tables below them: they count
against the `suppression_limit`. Which clusters are good is a greedy guess, as in MiRaCLe; it keeps more than
`entity_levels` where persons differ in how many rows they have. Where a cluster breaks another model it is merged with
the nearest one, or its persons are suppressed, whichever loses less.

It compares the distinct sets of rows outside the database: at most 20,000 of them, with 200 rows each.

What it does not protect: a row that is left out is seen from outside where somebody knows that a person has more rows
than are shown. Values that have several levels are harder to analyze.
cite: Nergiz, Clifton and Nergiz 2009, Multirelational k-anonymity (MiRaCLe)
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from sqlanon.buckets.bucketize import Parted
from sqlanon.entities.cluster_persons import cluster_persons
from sqlanon.entities.forest import EntityForest
from sqlanon.entities.release_tables import write_tables
from sqlanon.families import AlgorithmTraits

TRAITS = AlgorithmTraits(shapes=("entity",), writes_rows=True)


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def part(forest: EntityForest, params: Params) -> Parted:
    found = cluster_persons(forest)
    written = write_tables(forest, found.tree, found.gone)
    return Parted(
        written.main,
        found.clusters,
        f"{found.clusters:,} clusters of persons whose rows are matched one to one",
        written.companions,
        measured={"persons": forest.persons, "suppressed_persons": found.persons, "clusters": found.clusters},
        suppressed=found.rows,
        loss=found.loss,
    )
