"""What a statement gives and takes, told from its text, the policy and the schema alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlanon.gateway.bind.parameters import number_slots
from sqlanon.gateway.bind.read_statement import ParsedStatement
from sqlanon.gateway.bind.selects import Binder, not_shown
from sqlanon.gateway.bind.values import Learned, Relation
from sqlanon.gateway.price.prepared_statement import Description, build_output, type_of_slot
from sqlanon.sqlfront.explain_word import PLAN


def description(
    statement: ParsedStatement, kinds: Sequence[str | None], binder_of: Callable[[], Binder], intervals: bool
) -> Description:
    """Bind a statement until the kinds of all its parameters are known; `kinds` are those that are declared."""
    slots = number_slots(statement.slots, kinds)
    while True:
        binder = binder_of()
        unknown = [slot for slot in slots if slot.kind is None]
        try:
            relation = binder.query(statement.tree, {})
        except Learned:
            continue
        if not unknown:
            break
        if all(slot.kind is None for slot in unknown):
            for slot in unknown:
                slot.kind = "text"  # as in PostgreSQL: nothing tells what it is
    _, columns, types = build_output(visible(relation), binder, intervals)
    if statement.explain:
        columns, types = (PLAN,), ("text",)
    return Description(columns, types, tuple(type_of_slot(slot) for slot in slots))


def visible(relation: Relation) -> Relation:
    if relation.nature == "private":
        raise not_shown()
    return relation
