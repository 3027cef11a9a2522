"""The relations of attacks that learn from all classes, or look for the nearest records."""

from __future__ import annotations

from sqlanon.evidence.attacks.attacked_table import Side, Targets, find_target_classes, fits_of
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.attacks import learning_relations

MOST_TARGETS = 1_000  # groups of persons that are compared with every class
MOST_PAIRS = 20_000_000


def truths(targets: Targets, attribute: str) -> str:
    """What the persons have: known if they are those of the source."""
    made = learning_relations.truths(targets.work.prelude, targets.grouping, None if targets.external else attribute)
    targets.work.run()
    return made


def beliefs(targets: Targets, side: Side, attribute: str, rounds: int) -> str:
    """What an attacker believes after so many rounds of learning."""
    fitting = find_target_classes(targets, side)
    values = relations.named_values(side.prelude, side.grouping, attribute)
    return revised_beliefs(targets, side, learning_relations.first_beliefs(side.prelude, fitting, values), rounds)


def revised_beliefs(targets: Targets, side: Side, first: str, rounds: int, learners: str | None = None) -> str:
    """`learners` are the targets with the number of persons to learn from, if not from all."""
    targets.work.run()
    known = len(targets.known)
    made = learning_relations.learn_beliefs(side.prelude, learners or targets.table, known, first, rounds)
    side.work.run()
    return made


def chosen_targets(
    targets: Targets, side: Side, notes: list[str], attack: str = "distance_linkage", pairs: int | None = None
) -> str:
    """A sample of the targets, such that comparing each with each class takes no more than a while."""
    shown, wanted = relations.spell_classes(side.prelude, side.grouping, side.known(targets)), targets.table
    side.work.run()
    targets.work.run()
    engine = side.work.engine
    classes = int(engine.query(relations.count_table(shown))[0][0])
    groups = int(engine.query(relations.count_table(wanted))[0][0])
    most = max(1, min(MOST_TARGETS, (pairs or MOST_PAIRS) // max(classes, 1)))
    if groups > most:
        notes.append(f"{attack}: a sample of {most:,} of {groups:,} kinds of targets was looked for")
    made = learning_relations.chosen_targets(targets.work.prelude, wanted, len(targets.known), most)
    targets.work.run()
    return made


def distances(targets: Targets, side: Side, notes: list[str]) -> str:
    known = side.known(targets)
    shown = relations.spell_classes(side.prelude, side.grouping, known)
    chosen = chosen_targets(targets, side, notes)
    numeric = side.numeric()
    places = {
        place: targets.known.index(name) + 1
        for place, name in enumerate(known, start=1)
        if name in numeric and name in targets.numeric
    }
    ranges = {}
    if places:
        widths = side.work.engine.query(learning_relations.ranges(targets.table, list(places.values())))[0]
        ranges = {place: float(width) for place, width in zip(places, widths, strict=True)}
    fits = fits_of(targets, side) if side.released else None
    own = [targets.known.index(name) + 1 for name in known]
    made = learning_relations.distances(side.prelude, chosen, shown, ranges, fits, own)
    side.work.run()
    return made
