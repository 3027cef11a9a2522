"""Attacks on sets of items: by a few items, by one more than the models allow, by an item that is not there, by how
many there are, by the whole set; and what follows for private items.

In a release a target is looked for by the labels of what is left of them: items that are suppressed tell nobody from
others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.attacks.journey_attacks import JourneyOutcome, judge_matches
from sqlanon.evidence.item_checks import count_whole_sets, item_columns
from sqlanon.evidence.item_groups import read_groups
from sqlanon.evidence.item_risk import ATTACKERS, count_known
from sqlanon.families import Plugin, plugin
from sqlanon.itemsets.find_itemsets import is_of_itemsets, know_items, largest_set, walk_levels
from sqlanon.itemsets.open_items import Items, open_items
from sqlanon.policy import Policy, Source, missing_columns
from sqlanon.relations.itemsets import surest_values
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import alias, case, count_all, literal, nest_query, select, table, union_all

KNOWN, MORE, SIZE, ABSENT, WHOLE, PRIVATE = (
    "known_items",
    "one_more_item",
    "basket_size",
    "absent_items",
    "whole_set",
    "private_items",
)
NAMES = (KNOWN, MORE, SIZE, ABSENT, WHOLE, PRIVATE)
BY_ITEMS = {KNOWN: (0, 0), MORE: (0, 1), SIZE: (1, 0), ABSENT: (2, 0)}  # who, and how many items more than known
AIMS = {"private_items", "sensitive_items", "sensitive"}  # models that say what an attacker is after
VALUES = "private items of persons"
MOST_KNOWN = 2  # where no model says how much is known


@dataclass(frozen=True)
class ItemAttack:
    """One attack on the source and on the release: how many items are known, and of which model it asks."""

    name: str
    model: str | None
    known: int | None
    before: JourneyOutcome
    after: JourneyOutcome | None
    not_judged: str | None = None


def attack_items(
    policy: Policy, engine: Engine, release: Source | None, names: Sequence[str], knowledge: int | None
) -> tuple[list[ItemAttack], dict[str, str]]:
    """Every attack that was tried, and why others were not."""
    for name in names:
        if name not in NAMES:
            hint = did_you_mean(name, NAMES) or f"for sets of items there are {', '.join(NAMES)}"
            raise PolicyError(f"there is no attack on sets of items called '{name}'", hint=hint)
    if knowledge is not None and knowledge < 1:
        raise PolicyError("'knowledge' must be >= 1: an attacker knows at least one item of a person")
    wanted = [name for name in NAMES if not names or name in names]
    models = [(plugin("models", use.name), use.params) for use in policy.models]
    allowed = [most for model, given in models if (most := _most_known(model, given))]
    known = knowledge or max(allowed, default=MOST_KNOWN)
    sides = [_Side(policy, engine, each, known) for each in ((None, release) if release is not None else (None,))]
    found: list[ItemAttack] = []
    refused: dict[str, str] = {}
    try:
        for name in wanted:
            if name != PRIVATE:
                _try(sides, name, None, known + BY_ITEMS.get(name, (0, 0))[1], found, refused)
                continue
            aims = [(model, given) for model, given in models if set(model.needs) & AIMS]
            if not aims:
                refused[name] = "the policy names no private item and no sensitive value"
            for model, given in aims:
                _try(sides, name, (model, given), known, found, refused)
        return found, refused
    finally:
        for side in sides:
            side.items.close()


def find_alike_sets(policy: Policy, engine: Engine, release: Source) -> JourneyOutcome:
    """How surely somebody finds a person who knows every item that is left of them; those who are alone are broken."""
    side = _Side(policy, engine, release, 1)
    try:
        return judge_matches(count_whole_sets(side.items), 2)
    finally:
        side.items.close()


def _most_known(model: Plugin, given: Mapping[str, Any]) -> int | None:
    """How many items a model lets an attacker know."""
    if not is_of_itemsets(model):
        return None
    largest = largest_set(model, model.filled(given))
    return MOST_KNOWN if largest is None else largest


def _try(
    sides: Sequence[_Side],
    name: str,
    aim: tuple[Plugin, Mapping[str, Any]] | None,
    known: int,
    found: list[ItemAttack],
    refused: dict[str, str],
) -> None:
    label = name if aim is None else f"{name} of {aim[0].name}"
    outcomes: list[JourneyOutcome] = []
    why = None
    for side in sides:
        try:
            outcomes.append(side.count_found(name) if aim is None else side.conclude(*aim))
        except PolicyError as error:
            why = error.message
            break
    if not outcomes:
        refused[label] = why or "there is nothing to attack"
        return
    shown = None if name == WHOLE else known
    after = outcomes[1] if len(outcomes) > 1 else None
    found.append(ItemAttack(name, None if aim is None else aim[0].name, shown, outcomes[0], after, why))


class _Side:
    """The source, or the release."""

    def __init__(self, policy: Policy, engine: Engine, release: Source | None, known: int) -> None:
        self.policy, self.engine, self.release, self.known = policy, engine, release, known
        rows = relation(engine.resolve(release or policy.source), engine.dialect)
        if release is None:
            missing_columns(policy, [item.name for item in engine.columns(rows)])
        columns = item_columns(policy, released=release is not None)
        self.items: Items = open_items(engine, rows, columns, prefix=f"sqlanon_{'released' if release else 'attacked'}")
        self.k = max([2, *(int(use.params["k"]) for use in policy.models if "k" in use.params)])

    def count_found(self, name: str) -> JourneyOutcome:
        """Persons who are found among fewer than k."""
        if name == WHOLE:
            return judge_matches(count_whole_sets(self.items), self.k)
        who, more = BY_ITEMS[name]
        last: list[tuple[int, int]] = []
        for attacker, _, matches in count_known(self.items, self.known + more, ATTACKERS[: who + 1]):
            if attacker == ATTACKERS[who]:
                last = matches
        return judge_matches(last, self.k)

    def conclude(self, model: Plugin, given: Mapping[str, Any]) -> JourneyOutcome:
        """How surely a private item or a sensitive value of a person follows from others."""
        filled = model.filled(given)
        if not is_of_itemsets(model):
            return self._of_groups(model, filled)
        limit, reached = _limit(filled)
        known = know_items(self.items, model, filled, absent="allow" if self.release else self.policy.absent_values)
        assert known.owners is not None
        found: list[exp.Query] = []
        for level in walk_levels(self.items, model, filled, known, prune=False, most=self.known):
            assert level.values is not None
            surest = surest_values(known.items, level.sets, level.values, known.owners, level.size)
            found.append(select("person", "value", "share", source=table(self.items.make("surest", surest))))
        if not found:
            return JourneyOutcome(0, 0, None, None, VALUES)
        best = alias(exp.Max(this=exp.column("share")), "share")
        own = select("person", "value", best, source=nest_query(union_all(found), "s"), groups=["person", "value"])
        return self._sum_up(own, limit, reached=reached)

    def _of_groups(self, model: Plugin, filled: Mapping[str, Any]) -> JourneyOutcome:
        """Who is found in a group has a private item with its share there."""
        made = read_groups(self.policy, self.items, model, filled, release=self.release)
        same = exp.column("class_id", table="v").eq(exp.column("class_id", table="c"))
        share = exp.Div(
            this=exp.Cast(this=exp.column("records", table="v"), to=exp.DataType.build("double")),
            expression=exp.column("records", table="c"),
        )
        shares = select(
            alias(exp.column("records", table="v"), "persons"),
            alias(share, "share"),
            source=table(made.values, alias="v"),
        ).join(table(made.classes, alias="c"), on=same, copy=False)
        return self._sum_up(shares, 1 / int(filled["p"]), reached=False, weight="persons")

    def _sum_up(self, shares: exp.Select, limit: float, *, reached: bool, weight: str | None = None) -> JourneyOutcome:
        share = exp.column("share")
        number: exp.Expr = literal(1) if weight is None else exp.column(weight)
        edge = literal(limit - 1e-12 if reached else limit + 1e-12)
        over = exp.GTE(this=share.copy(), expression=edge) if reached else exp.GT(this=share.copy(), expression=edge)
        broken = exp.Sum(this=case((over, number.copy()), default=literal(0)))
        weighted = exp.Sum(this=exp.Mul(this=share.copy(), expression=number.copy()))
        tree = select(
            count_all() if weight is None else exp.Sum(this=number.copy()), broken, exp.Max(this=share), weighted,
            source=nest_query(shares, "s"),
        )  # fmt: skip
        targets, many, highest, total = self.engine.query(tree)[0]
        if not targets:
            return JourneyOutcome(0, 0, None, None, VALUES)
        return JourneyOutcome(int(targets), int(many or 0), float(highest), float(total) / int(targets), VALUES)


def _limit(filled: Mapping[str, Any]) -> tuple[float, bool]:
    """The share that breaks a model, and whether it breaks it where it is reached, or only above it."""
    if "rho" in filled:
        return float(filled["rho"]), True
    return float(filled["h"] if "h" in filled else filled["c"]), False
