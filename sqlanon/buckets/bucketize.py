"""What algorithms that part rows have in common: they put rows into groups, and show the values of a group without
saying whose they are. Quasi-identifiers stay as they are; there is no lattice, and nothing to search for.

Such an algorithm has `part(rows, params)` in place of `run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.identities import find_identities
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError
from sqlanon.families import load_module, module_names, plugin
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.policy import Policy
from sqlanon.relations.bucketization import ESTIMATE, GROUP, RECORDS, parts_rows
from sqlanon.relations.classes import Prelude, Step
from sqlanon.relations.draw_chains import canonical_json, digest_of
from sqlanon.relations.source import relation
from sqlanon.relations.transformation_tables import identify_rows, key_columns, seeds_of, written_key
from sqlanon.sqltree.draws import digest, number, seed_row, times, uniform
from sqlanon.sqltree.tree import alias, bigint, bind, column, count_all, nest_query, select, table
from sqlanon.transformations import KEY, ROW, Given

PREFIX = "sqlanon_parted"
SEEDS = f"{PREFIX}_seeds"
KNOWN = {"sensitive", "numeric", "hierarchy"}  # what a model may need that is asked about groups
MOST_BITS = 48  # of a draw


@dataclass(frozen=True)
class Parted:
    """`select` is the release; `companions` are further tables, and `views` over them, by what is added to its name."""

    select: exp.Select
    groups: int
    why: str
    companions: Mapping[str, exp.Select] = field(default_factory=dict)
    views: Mapping[str, Callable[[str], exp.Select]] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)  # for the evidence
    suppressed: int = 0  # these and the rest where rows were generalized before
    loss: float = 0.0
    proven: bool = False
    passes: tuple[Mapping[str, int], ...] = ()
    hidden: tuple[str, ...] = ()  # columns that only the checks may see


@dataclass
class Rows:
    """The rows that are parted: `tree` has all columns, the number ROW and the identity KEY; copy it for each use."""

    policy: Policy
    engine: Engine
    tree: exp.Select
    given: Given
    records: int
    prelude: Prelude
    # Generalizes the rows by those models of a policy that look at no sensitive column. The caller closes the problem.
    search: Callable[[Policy], tuple[Problem, Solution]]

    def make(self, what: str, query: exp.Query) -> str:
        """A temporary table."""
        name = f"{PREFIX}_{what}"
        step = Step(name, query)
        self.prelude.steps[:] = [item for item in self.prelude.steps if item.name != name] + [step]
        run_steps(self.engine, [step])
        return name

    def load(self, what: str, columns: tuple[str, ...], given: Sequence[tuple[str, ...]]) -> str:
        """A temporary table of text that is known here."""
        name = f"{PREFIX}_{what}"
        step = Step(name, None, columns, tuple(given))
        self.prelude.steps.append(step)
        run_steps(self.engine, [step])
        return name

    def draw(self, bits: int, label: str, identity: exp.Expr) -> exp.Expr:
        """So many bits that are drawn for an identity, as an integer; `label` is the alias of the seed."""
        hashed = digest(self.engine.dialect, label, identity)
        if self.engine.dialect == "duckdb" and bits == MOST_BITS:  # the bits themselves, which is what follows below
            return bigint(exp.Paren(this=exp.BitwiseAnd(this=hashed, expression=exp.convert(2**bits - 1))))
        drawn = uniform(self.engine.dialect, hashed)
        return bigint(exp.Floor(this=times(drawn, number(float(2**bits)))))

    def seed(self, label: str, name: str) -> exp.Join:
        return exp.Join(this=seed_row(self.given.seeds, label, name), kind="CROSS")

    @property
    def shown(self) -> list[str]:
        """The columns that are neither left out nor sensitive."""
        return [name for name, item in self.policy.columns.items() if item.role in ("quasi_identifier", "insensitive")]

    def sensitive(self, algorithm: str) -> str:
        """The one sensitive column."""
        names = self.policy.sensitive
        if len(names) != 1:
            raise PolicyError(
                f"{algorithm} parts one sensitive column from the rest, and there are {len(names)}",
                hint="give the others another role, or take slicing",
            )
        return names[0]

    def close(self) -> None:
        drop_steps(self.engine, self.prelude.steps)


def draw_twice(
    rows: Rows, label: str, stratum: exp.Expr, chosen: Sequence[exp.Expr] = (), *joins: exp.Join
) -> exp.Select:
    """row_id, stratum, key, draw, second: two draws for each row, which is called `t`, for a permutation."""
    dialect = rows.engine.dialect
    hashed = digest(dialect, "s", column(KEY, "t"))
    return select(
        alias(column(ROW, "t"), "row_id"),
        alias(stratum, "stratum"),
        alias(column(KEY, "t"), "key"),
        alias(uniform(dialect, hashed), "draw"),
        alias(uniform(dialect, hashed.copy(), 1), "second"),
        *chosen,
        source=nest_query(rows.tree.copy(), "t"),
        joins=[*joins, rows.seed(label, "s")],
    )


def permute_rows(drawn: str) -> exp.Select:
    """row_id, partner: every row takes the place of another one of its stratum."""
    return bind(plugin("transformations", "permutation").sql, {}, {"drawn": drawn})


def require_fit(policy: Policy) -> None:
    """Refuse what an algorithm that writes rows itself does not do."""
    assert policy.algorithm is not None
    name = policy.algorithm.name
    unused: dict[str, object] = {
        "history": policy.history,
        "suppressed_rows": policy.suppressed_rows != "drop",
        "columns": [item for item, role in policy.columns.items() if role.pseudonym],
    }
    if parts_rows(policy):
        _require_groups(policy)
        unused |= {
            "hierarchies": [item for item in policy.hierarchies if item in policy.quasi_identifiers],
            "qids": policy.qids,
            "population": policy.population,
            "nulls": policy.nulls != "value",
        }
    for key, given in unused.items():
        if given:
            what = "pseudonyms" if key == "columns" else f"'{key}'"
            raise policy.error(f"{what} cannot be combined with {name}", key, hint="leave it out")


def _require_groups(policy: Policy) -> None:
    """Refuse what has no meaning where quasi-identifiers are shown as they are."""
    assert policy.algorithm is not None
    name = policy.algorithm.name
    for place, use in enumerate(policy.models):
        model = plugin("models", use.name)
        if "sensitive" not in model.needs or set(model.needs) - KNOWN or model.classes or use.qid is not None:
            raise policy.error(
                f"{name} shows quasi-identifiers as they are: {use.name} cannot be asked of its groups",
                "models",
                place,
                hint="ask for models of the sensitive values of a group, such as distinct_l_diversity",
            )
    for reserved in (GROUP, RECORDS, ESTIMATE):
        if reserved in policy.columns and policy.columns[reserved].role != "identifier":
            raise policy.error(
                f"{name} writes a column '{reserved}' of its own", "columns", reserved, hint="rename it in a query"
            )


def described_groups(policy: Policy) -> str | None:
    """Canonical text of what groups depend on beside the rows, where the algorithm of a policy draws them."""
    use = policy.algorithm
    if use is None or use.name not in module_names("algorithms"):
        return None
    module = load_module("algorithms", use.name)
    if not module.TRAITS.seeds and "seed" not in module.Params.model_fields:
        return None
    params = module.Params.model_validate(use.params).model_dump(mode="json")
    models = sorted(canonical_json([item.name, item.attribute, item.params]) for item in policy.models)
    # A search that draws did so from its seed alone in earlier versions: with the key it draws otherwise.
    keyed = [] if module.TRAITS.seeds else ["key"]
    return canonical_json(
        [use.name, params, sorted(policy.quasi_identifiers), sorted(policy.sensitive), models, *keyed]
    )


def _no_search(policy: Policy) -> tuple[Problem, Solution]:
    raise NotImplementedError("these rows are not generalized")


def prepare_rows(policy: Policy, engine: Engine, secret: str | None, labels: tuple[str, ...]) -> Rows:
    """The rows of a policy, ready to be parted, with the seeds of these labels."""
    rows = relation(engine.resolve(policy.source), engine.dialect)
    kinds = {item.name: item.type for item in engine.columns(rows)}
    types = {name: exp.DataType.build(kind, dialect=engine.dialect) for name, kind in kinds.items()}
    named = key_columns(policy)
    told = find_identities(engine, policy, rows, types)
    unique = told is not None
    if told is not None:
        records = told.records
    else:
        records = int(engine.query(select(count_all(), source=nest_query(rows.copy(), "source")))[0][0])
    if not records:
        raise PolicyError("the source has no rows", hint="there is nothing to publish")
    prelude = Prelude(rows, engine.dialect, prefix=PREFIX)
    given = Given(rows, types, engine.dialect, SEEDS, PREFIX, "", policy.person)
    task = Rows(policy, engine, rows, given, records, prelude, _no_search)
    try:
        if policy.person is not None and not (unique and named == (policy.person,)):
            _require_one_row_each(policy, engine, rows)
        for action in seeds_of(prelude, SEEDS, labels, secret, digest_of(described_groups(policy))):
            assert isinstance(action, Step)
            prelude.steps.append(action)
            run_steps(engine, [action])
        if unique and len(named) == 1:  # what is unique is as good as a number, and need not be written down
            own = [alias(column(named[0]), ROW, quoted=True), alias(written_key(named, types), KEY, quoted=True)]
            task.tree = select(*own, *(column(name) for name in types), source=nest_query(rows.copy(), "source"))
        else:
            tree = identify_rows(policy, rows, types, "unique" if unique else "numbered")
            stored = task.make("rows", tree)
            task.tree = select(exp.Star(), source=table(stored))
    except BaseException:
        task.close()
        raise
    return task


def _require_one_row_each(policy: Policy, engine: Engine, rows: exp.Select) -> None:
    assert policy.person is not None
    person = exp.Count(this=exp.Distinct(expressions=[column(policy.person)]))
    every, different = engine.query(select(count_all(), person, source=nest_query(rows.copy(), "source")))[0]
    if every != different:
        raise policy.error(
            f"a person of '{policy.person}' has several rows, or none: who knows all groups of a person learns more",
            "person",
            hint="release one row a person, from a view or 'query:'",
        )
