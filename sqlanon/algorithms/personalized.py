"""Everybody says below which node of a taxonomy nobody may see; single sensitive values are generalized for it.

    columns:
      disease: sensitive
      guarding: identifier        # a node of the taxonomy of disease, or NULL: it does not matter to this person
    hierarchies:
      disease: {tree: {tree: {"*": {lung: [flu, pneumonia], stomach: [ulcer, gastritis]}}}}
    algorithm: {personalized: {p_breach: 0.5, guard: guarding}}

Nobody is linked to what lies below his or her guarding node with more than `p_breach`. From fully general
quasi-identifiers one column after the other goes down a level, always the one that lowers the loss most, as long as the
models hold; in each class as few values as it takes go up in their taxonomy. The loss is the mean over
the quasi-identifiers and the sensitive column. At last the generalization that is best for the quasi-identifiers alone
is compared, too. A record that shows a node may have any leaf below it, all equally likely.

What it does not protect: rows without a guarding node; and who says which: guarding nodes are left out of the release,
so that only at its publication can be measured whether they are kept. Models of the sensitive column cannot be asked
for, since it shows nodes in place of values. Who knows that no value goes up without need concludes from the nodes of a
class what lies below them (`sqlanon attack --attack minimality`). Two releases of the same persons may give more away.
cite: Xiao and Tao 2006, Personalized privacy preservation
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon import hierarchies
from sqlanon.buckets.bucketize import MOST_BITS, Parted, Rows
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import AlgorithmTraits, plugin
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.nodes import Node
from sqlanon.lattice.problem import Problem
from sqlanon.relations.guarding_nodes import Taxonomy, taxonomy_of
from sqlanon.relations.rewrite import SHOWN, Output, by_levels
from sqlanon.relations.transformation_tables import written_key
from sqlanon.sqltree.tree import (
    DOUBLE,
    TEXT,
    alias,
    bind,
    column,
    count_all,
    join_clause,
    literal,
    nest_query,
    rows_relation,
    select,
    table,
    text,
)
from sqlanon.transformations import KEY, ROW

SEEDS = ("personalized/rows",)
TRAITS = AlgorithmTraits(writes_rows=True, seeds=SEEDS, guards=True, worlds="guarding")
MOST_ROUNDS = 10_000


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    p_breach: float = Field(gt=0, lt=1, strict=True, description="Nobody is linked below a guarding node with more.")
    guard: str = Field(min_length=1, description="The column that names the guarding node of each row; an identifier.")


def part(rows: Rows, params: Params) -> Parted:
    sensitive = rows.sensitive("personalized")
    tree = taxonomy(rows, sensitive, params)
    _require_values(rows, sensitive, params, tree)
    task, best = rows.search(rows.policy)
    try:
        metric = build_metric(task)
        rows.make("leaves", _leaves(tree))
        node, (loss, lost) = task.top, _tried(rows, params, sensitive, task, task.top)
        tried = 1
        while True:
            below = [_lower(node, place) for place in range(len(node)) if node[place]]
            measured = task.measure(below, metric) if below else []
            found = [
                (*_tried(rows, params, sensitive, task, item.node), item.node) for item in measured if task.holds(item)
            ]
            tried += len(found)
            if not found or min(found)[0] >= loss:
                break
            loss, lost, node = min(found)
        other, other_lost = _tried(rows, params, sensitive, task, best.passes[0])
        if other < loss:
            loss, lost, node = other, other_lost, best.passes[0]
        _tried(rows, params, sensitive, task, node)
        (chosen,) = task.measure([node], metric)
        levels = task.table.levels(node)
    finally:
        task.close()
    drawn = {"members": "sqlanon_parted_members", "pieces": "sqlanon_parted_pieces"}
    assigned = rows.make("assigned", bind(plugin("parting", "assigned").sql, {}, drawn))
    shown = [
        alias(exp.column("node", table="a"), name, quoted=True) if name == sensitive else column(name, "g")
        for name in rows.policy.columns
        if name in rows.shown or name in (sensitive, params.guard)
    ]
    main = select(
        *shown,
        source=table("sqlanon_parted_general", alias="g"),
        joins=[join_clause(table(assigned, alias="a"), column(ROW, "g").eq(exp.column("row_id", table="a")))],
    )
    why = f"the best of {tried + 1:,} generalizations that were tried; of the sensitive column {lost:.2%} is lost"
    return Parted(
        main,
        0,
        why,
        measured={"sensitive_loss": lost},
        suppressed=chosen.suppressed,
        loss=loss,
        passes=(levels,),
        hidden=(params.guard,),
    )


def taxonomy(rows: Rows, sensitive: str, params: Params) -> Taxonomy:
    """The taxonomy of the sensitive column, all of whose leaves are known."""
    policy = rows.policy
    if params.guard not in policy.columns or policy.columns[params.guard].role != "identifier":
        hint = did_you_mean(params.guard, policy.columns) or f"write '{params.guard}: identifier' under columns"
        raise PolicyError(f"the guarding nodes '{params.guard}' must be an identifier, which is left out", hint=hint)
    for use in policy.models:
        if "sensitive" in plugin("models", use.name).needs:
            raise PolicyError(
                f"{use.name} looks at '{sensitive}', which shows nodes of its taxonomy in place of values",
                hint="ask for models of the quasi-identifiers, such as k_anonymity",
            )
    given = policy.hierarchies.get(sensitive)
    built = hierarchies.build(given.kind, given.params, policy.base) if given is not None else None
    if built is None or not built.is_known_tree():
        raise PolicyError(
            f"'{sensitive}' has no taxonomy whose values are all listed", hint="give it a tree, or a file"
        )
    return taxonomy_of(built)


def _require_values(rows: Rows, sensitive: str, params: Params, tree: Taxonomy) -> None:
    """Every value and every guarding node is in the tree, and no node is so general that nothing can hide it."""
    own, guard = text(column(sensitive, "t")), text(column(params.guard, "t"))
    values = {value for (value,) in rows.engine.query(select(own, source=nest_query(rows.tree.copy(), "t")).distinct())}
    if not values <= set(tree.leaves):
        raise PolicyError(
            f"'{sensitive}' holds values that its taxonomy does not have, or NULL", hint="add them, or fill it"
        )
    named = {
        value for (value,) in rows.engine.query(select(guard, source=nest_query(rows.tree.copy(), "t")).distinct())
    }
    guards = sorted(named - {None})
    if not set(guards) <= set(tree.leaves):
        raise PolicyError(
            f"'{params.guard}' names nodes that the taxonomy of '{sensitive}' does not have",
            hint="correct them, or add them to the hierarchy",
        )
    if any(tree.weight(name, tree.root) > params.p_breach + 1e-12 for name in guards):
        raise PolicyError(
            f"a guarding node has more than {params.p_breach:g} of all values below it: nothing can hide that",
            hint="name nodes further down, or NULL; or allow a larger p_breach",
        )
    rows.make("moves", tree.moves(guards))


def _leaves(tree: Taxonomy) -> exp.Select:
    whole = max(len(tree.leaves[tree.root]) - 1, 1)
    lost = [(node, (len(found) - 1) / whole) for node, found in tree.leaves.items()]
    return rows_relation(lost, ("node", "lost"), [TEXT, DOUBLE])


def _lower(node: Node, place: int) -> Node:
    return tuple(level - (here == place) for here, level in enumerate(node))


def _tried(rows: Rows, params: Params, sensitive: str, task: Problem, node: Node) -> tuple[float, float]:
    """The loss at a node of the lattice, once values have gone up far enough, and that of the sensitive column alone.
    The tables general, members and pieces are those of the last node that was tried."""
    (measured,) = task.measure([node], build_metric(task))
    names = [ROW, KEY, *(name for name in rows.shown if name not in rows.policy.quasi_identifiers)]
    output = Output(dict.fromkeys([*names, sensitive, params.guard], SHOWN), rows.policy.sensitive)
    passes = task.passes([node], suppresses=measured.suppressed > 0)
    general = rows.make("general", by_levels(rows.engine.dialect, task.prelude.rows, task.compressed, passes, output))
    kinds = {item.name: item.type for item in rows.engine.columns(select(exp.Star(), source=table(general)))}
    types = {name: exp.DataType.build(kind, dialect=rows.engine.dialect) for name, kind in kinds.items()}
    known = select(
        alias(column(ROW, "g"), "row_id"),
        alias(column(KEY, "g"), "key"),
        alias(written_key(rows.policy.quasi_identifiers, types), "label"),
        alias(text(column(sensitive, "g")), "original"),
        alias(text(column(params.guard, "g")), "guard"),
        source=table(general, alias="g"),
    )
    members = rows.make(
        "members",
        select(
            *(exp.column(name, table="i") for name in ("row_id", "label", "original", "guard")),
            alias(rows.draw(MOST_BITS, "s", exp.column("key", table="i")), "draw"),
            source=nest_query(known, "i"),
            joins=[rows.seed(SEEDS[0], "s")],
        ),
    )
    named = exp.column("guard").is_(exp.Null()).not_()
    rows.make("guards", select("label", "guard", source=table(members), where=named).distinct())
    chosen: list[exp.Expr | str] = ["label", "original", alias(exp.column("original"), "node"), alias(count_all(), "n")]
    rows.make("pieces", select(*chosen, source=table(members), groups=["label", "original"]))
    lost = _raised(rows, params)
    columns = len(rows.policy.quasi_identifiers)
    return (measured.loss * columns + lost) / (columns + 1), lost


def _raised(rows: Rows, params: Params) -> float:
    """Values go up until no class tells too much; the share of the taxonomy that is lost."""
    made = {name: f"sqlanon_parted_{name}" for name in ("guards", "pieces", "moves", "breaches", "leaves")}
    over = exp.GT(this=exp.column("measured"), expression=literal(params.p_breach + 1e-12))
    for _ in range(MOST_ROUNDS):
        rows.make("breaches", bind(plugin("parting", "breach").sql, {}, made))
        if not rows.engine.query(select(literal(1), source=table(made["breaches"]), where=over.copy()).limit(1)):
            break
        step = rows.make("raised", bind(plugin("parting", "raised").sql, {"p_breach": params.p_breach}, made))
        rows.make("pieces", select("label", "original", "node", "n", source=table(step)))
    lost = exp.Sum(this=exp.Mul(this=exp.column("n", table="p"), expression=exp.column("lost", table="l")))
    mean = exp.Div(this=lost, expression=exp.Sum(this=exp.column("n", table="p")))
    same = exp.column("node", table="l").eq(exp.column("node", table="p"))
    tree = select(
        mean, source=table(made["pieces"], alias="p"), joins=[join_clause(table(made["leaves"], alias="l"), same)]
    )
    return float(rows.engine.query(tree)[0][0] or 0)
