"""Attacks on releases that take sensitive values apart from their rows: anatomy, (k,e) grouping and slicing."""

from __future__ import annotations

from dataclasses import dataclass

from sqlanon.engines import Engine
from sqlanon.errors import SourceError
from sqlanon.evidence.attacks.attacked_table import NotJudged, Side, Targets, side_of
from sqlanon.evidence.bucket_evidence import as_groups, sensitive_rows
from sqlanon.families import plugin
from sqlanon.policy import Policy, Source
from sqlanon.relations.attacks import bucket_relations as relations
from sqlanon.relations.bucketization import has_two_tables
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import bind

# What an attack may need that finds a person's group and looks at its values, and at nothing else.
OF_GROUPS = {"sensitive", "taxonomy", "numeric", "epsilon"}


@dataclass
class Apart:
    """A release by parts. `people` shows the quasi-identifiers, `groups` the sensitive values of each group."""

    policy: Policy
    engine: Engine
    release: Source
    people: Side
    groups: Side

    @property
    def name(self) -> str:
        assert self.policy.algorithm is not None
        return self.policy.algorithm.name

    @property
    def parts(self) -> list[list[str]]:
        """The columns that a row shows together; those of an own table, or of a permuted column, are apart."""
        assert self.policy.algorithm is not None
        if (parts := self.policy.algorithm_traits.parts) is not None:
            return [list(names) for names in self.policy.algorithm.params[parts]]
        return [list(self.policy.quasi_identifiers), list(self.policy.sensitive)]

    def require_whole_rows(self) -> None:
        """Who is looked for by all quasi-identifiers must find them in one row."""
        own = set(self.policy.quasi_identifiers)
        if not any(own <= set(names) for names in self.parts):
            raise NotJudged(f"{self.name} took the quasi-identifiers of a row apart")

    def require_groups(self, attribute: str) -> None:
        """Whether a person's values are those of the group, and no fewer."""
        if [attribute] not in self.parts:
            raise NotJudged(f"{self.name} shows '{attribute}' beside other columns: groups are not what it tells")

    def first_beliefs(self, targets: Targets, attribute: str) -> str:
        prelude = self.people.prelude
        main = relation(self.engine.resolve(self.release), self.engine.dialect)
        known = [[name for name in names if name in targets.known] for names in self.parts]
        secret = next(place for place, names in enumerate(self.parts) if attribute in names)
        rows = main
        if has_two_tables(self.policy):
            try:
                rows = sensitive_rows(self.engine, self.release)
            except SourceError as error:
                raise NotJudged(error.message) from None
        places = {name: place for place, name in enumerate(targets.known, start=1)}
        made = {
            "target_parts": relations.target_parts(prelude, targets.table, known, places),
            "part_cells": relations.part_cells(prelude, main, known),
            "part_sizes": relations.part_sizes(prelude, main),
            "part_secrets": relations.part_secrets(
                prelude, rows, known[secret], attribute, counted=has_two_tables(self.policy)
            ),
        }
        targets.work.run()
        tree = bind(plugin("attacks", "apart_beliefs").sql, {"parts": len(known), "secret_part": secret}, made)
        first = prelude.once("beliefs", ("apart", targets.table, attribute), lambda: tree)
        self.people.work.run()
        return first


def apart_of(policy: Policy, engine: Engine, release: Source) -> Apart:
    """Prepare both sides of a release that parts rows."""
    shown = {name: item for name, item in policy.columns.items() if item.role != "sensitive"}
    kept = {name: use for name, use in policy.hierarchies.items() if name in shown}
    plain = policy.model_copy(update={"columns": shown, "hierarchies": kept, "algorithm": None})
    said: list[str] = []  # of columns that the parts add
    people = side_of(plain, engine, release, "sqlanon_release", said)
    try:
        narrowed, groups, _ = as_groups(policy, engine, release)
        return Apart(policy, engine, release, people, side_of(narrowed, engine, groups, "sqlanon_groups", said))
    except BaseException:
        people.drop()
        raise
