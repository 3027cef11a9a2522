"""A plan as one SQL script: the temporary tables of the rewrite, then the release. Touches no data."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines import ColumnInfo, ExistingRelation, Reads, WorkPlace
from sqlanon.errors import PolicyError
from sqlanon.evidence.apply_transformations import list_steps
from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.lattice.pose_problem import outline_problem
from sqlanon.lattice.solution import Solution
from sqlanon.plan import Plan, policy_hash
from sqlanon.policy import Policy, Source
from sqlanon.policy.person_shapes import require_shape
from sqlanon.relations.check_script import render_create
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.source import relation, table_tree
from sqlanon.relations.transformation_tables import Outline, plan_transformations, rows_of
from sqlanon.release.algorithm_kind import is_parted
from sqlanon.release.rewrite_release import plan_rewriting


@dataclass
class Paper:
    """An engine that writes nothing: the planned tables are all that is wanted of it."""

    dialect: str
    product = "paper"
    read_only = True

    def __post_init__(self) -> None:
        self.rows_dialect = self.dialect

    def admit(self, policy: Policy, *, publishes: bool = False) -> None: ...
    def place(self, tree: exp.Expr) -> WorkPlace:
        return WorkPlace.ROWS

    def at_rows(self) -> AbstractContextManager[None]:
        return nullcontext()

    def bring_summary(self, names: Sequence[str]) -> None: ...
    def query(self, tree: exp.Expr) -> list[tuple[Any, ...]]:
        raise NotImplementedError("a script asks no questions")

    def batches(self, tree: exp.Query, rows: int) -> Generator[Any, None, None]:
        raise NotImplementedError("a script asks no questions")

    def arrow_table(self, tree: exp.Query) -> Any:
        raise NotImplementedError("a script asks no questions")

    def prepared(self, tree: exp.Expr) -> Callable[[Sequence[int | float]], list[tuple[Any, ...]]]:
        raise NotImplementedError("a script asks no questions")

    def execute(self, tree: exp.Expr) -> None: ...
    def create_temporary(self, name: str, query: exp.Query) -> None: ...
    def load_temporary(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None: ...
    def drop_temporary(self, names: Sequence[str]) -> None: ...
    def write_file(self, query: exp.Query, path: str) -> None: ...
    def close(self) -> None: ...

    def columns(self, rows: exp.Select) -> list[ColumnInfo]:
        return []

    def resolve(self, source: Source) -> Source:
        return source

    def transaction(self) -> AbstractContextManager[None]:
        return nullcontext()

    def one_thread(self) -> AbstractContextManager[None]:
        return nullcontext()

    def interrupt(self) -> None:
        pass

    def tables(self) -> list[str]:
        return []

    def copy_grants(self, parts: Sequence[str], to: Sequence[str]) -> None: ...

    def find(self, parts: Sequence[str]) -> ExistingRelation | None:
        return None

    def reads(self, parts: Sequence[str]) -> Reads:
        return Reads(frozenset())

    def state(self, parts: Sequence[str]) -> str:
        return ""


def release_script(policy: Policy, plan: Plan, dialect: str) -> str:
    """What a publisher runs for a plan: anyone may read it, and run it by hand."""
    require_shape(policy, "a script of the release")
    if plan.policy != policy_hash(policy):
        raise PolicyError(
            "the plan belongs to another policy", hint="make a new one: 'sqlanon publish --dry-run --plan'"
        )
    if is_parted(policy):
        raise PolicyError(
            f"{plan.algorithm} looks at the data while it goes on: its plan is no script",
            hint="'sqlanon publish' writes it, and keeps its SQL with the evidence",
        )
    if not plan.passes:
        raise PolicyError(
            f"{plan.algorithm} recodes locally: its plan is a table of regions, not a script",
            hint="'sqlanon publish' writes it; for a script, ask for one level a column with 'algorithm: full_domain'",
        )
    if policy.transformations:
        policy, prelude = _transformed(policy, plan, dialect)
    else:
        prelude = None
    hierarchies = {name: root_only() for name in policy.quasi_identifiers} | build_hierarchies(policy)
    rows = relation(policy.source, dialect, plan.joined or None)
    task = outline_problem(policy, Paper(dialect), hierarchies, rows, plan.bits, prelude)
    if task.requirements.unsettled and plan.suppressed:
        raise PolicyError(
            "a script cannot tell how often classes have to be suppressed until no model is broken any more",
            hint="'sqlanon publish' asks the database; its evidence shows the statements",
        )
    nodes = tuple(tuple(levels[domain.name] for domain in task.domains) for levels in plan.passes)
    solution = Solution(loss=plan.loss, suppressed=plan.suppressed, why=plan.why, passes=nodes)
    how = plan_rewriting(task, solution, None)
    name = policy.release.table or policy.release.view if policy.release else None
    parts = [f"-- The release of plan {plan.hash[:16]}: {plan.algorithm}, {_levels(plan)}."]
    parts += [render_create(step, dialect) for step in task.prelude.steps]
    made: exp.Expr = how.shown
    if name:
        made = exp.Create(this=table_tree(name), kind="TABLE", expression=how.shown)
    return "\n\n".join([*parts, made.sql(dialect, pretty=True) + ";"]) + "\n"


def _transformed(policy: Policy, plan: Plan, dialect: str) -> tuple[Policy, Prelude]:
    """The policy that reads the rows after its transformations, and their tables, with what the plan knows of them."""
    outline = Outline(**plan.transformed)
    rows = relation(policy.source, dialect)
    prelude = Prelude(rows, dialect, prefix="sqlanon_search")
    actions = plan_transformations(policy, rows, outline, prelude, None)
    prelude.steps += list_steps(actions)
    prelude.rows = rows_of(policy, outline.types)
    source = Source(database=policy.source.database, query=prelude.rows.sql(dialect))
    return policy.model_copy(update={"source": source, "transformations": ()}), prelude


def _levels(plan: Plan) -> str:
    return "; ".join(", ".join(f"{name} {level}" for name, level in levels.items()) for levels in plan.passes)
