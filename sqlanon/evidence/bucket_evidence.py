"""A release that parts rows, as the models see it: its groups are the classes, and the tables must fit together."""

from __future__ import annotations

from pathlib import Path

from sqlglot import exp

from sqlanon import hierarchies
from sqlanon.engines import Engine
from sqlanon.engines.companion_files import changed_files, companion_file
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import SourceError
from sqlanon.families import plugin
from sqlanon.policy import Column, Policy, Source
from sqlanon.relations.bucketization import GROUP, RECORDS, SENSITIVE, companion, has_two_tables, misfits
from sqlanon.relations.classes import Step, as_label
from sqlanon.relations.guarding_nodes import taxonomy_of
from sqlanon.relations.slicing_posterior import posterior, worst_share
from sqlanon.relations.source import relation, table_parts, table_tree
from sqlanon.relations.transformation_tables import written_key
from sqlanon.sqltree.tree import (
    alias,
    bind,
    case,
    column,
    count_all,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    text,
)

PREFIX = "sqlanon_guarded"
TOLERANCE = 1e-9  # products of shares are not exact


def as_groups(policy: Policy, engine: Engine, release: Source) -> tuple[Policy, Source, list[str]]:
    """The policy and the release with the group in place of the quasi-identifiers, and what is wrong with the tables,
    whatever is in their groups."""
    main = relation(engine.resolve(release), engine.dialect)
    names = [item.name for item in engine.columns(main)]
    if GROUP not in names:
        raise SourceError(f"the release has no column '{GROUP}'", hint="it was not written by the policy's algorithm")
    breaches = [f"the release holds the identifier '{name}'" for name in policy.identifiers if name in names]
    rows = main
    if has_two_tables(policy):
        breaches += [
            f"'{name}' is in the same table as the quasi-identifiers" for name in policy.sensitive if name in names
        ]
        rows = sensitive_rows(engine, release)
        if release.path is not None:
            breaches += [
                f"'{name}' is not the file that was published with the evidence: files of two versions tell nothing"
                for name in changed_files(release.path, (SENSITIVE,))
            ]
        breaches += _misfits(policy, engine, main, rows)
    if policy.algorithm_traits.parts:
        breaches += _sliced(policy, engine, main)
    seen = select(*(column(name) for name in (GROUP, *policy.sensitive)), source=nest_query(rows.copy(), "r"))
    roles = {GROUP: Column(role="quasi_identifier")} | {name: policy.columns[name] for name in policy.sensitive}
    kept = {name: use for name, use in policy.hierarchies.items() if name in policy.sensitive}
    narrowed = policy.model_copy(update={"columns": roles, "hierarchies": kept, "person": None, "algorithm": None})
    return narrowed, Source(query=seen.sql(engine.dialect)), breaches


def sensitive_rows(engine: Engine, release: Source) -> exp.Select:
    """The table or file with the sensitive values of the groups of a release."""
    if release.path is not None:
        file = companion_file(release.path, SENSITIVE)
        if not Path(file).is_file():
            raise SourceError(f"there is no file '{file}'", hint="a release of this algorithm is two files")
        return relation(engine.resolve(Source(path=file)), engine.dialect)
    values = companion(release.text, SENSITIVE) if release.table is not None else release.text
    if release.table is None or engine.find(table_parts(values)) is None:
        raise SourceError(f"there is no table '{values}'", hint="a release of this algorithm is two tables")
    return select(exp.Star(), source=table_tree(values))


def overfull(policy: Policy, engine: Engine, release: Source) -> list[str]:
    """Whether a class of a release with m-confidentiality shows more of the sensitive values than it may."""
    if policy.algorithm is None or not policy.algorithm_traits.distorts:
        return []
    (sensitive,) = policy.sensitive
    labels = [literal(as_label(value)) for value in policy.algorithm.params["values"]]
    main = relation(engine.resolve(release), engine.dialect)
    one = case((text(column(sensitive)).isin(*labels), literal(1)), default=literal(0))
    own = [column(name) for name in policy.quasi_identifiers]
    twice = 2 * int(policy.algorithm.params["m"])
    counts = [alias(count_all(), "n"), alias(sum_bigint(one), "sensitive")]
    classes = select(*counts, source=nest_query(main, "r"), groups=own)
    many = exp.Mul(this=exp.column("sensitive"), expression=literal(twice)) > exp.column("n")
    if engine.query(select(literal(1), source=nest_query(classes, "c"), where=many).limit(1)):
        return [f"in a class more than 1/{twice} of the rows have one of the sensitive values"]
    return []


def check_guarding(policy: Policy, engine: Engine, release: Source) -> tuple[Policy, list[str], list[str]]:
    """A release whose sensitive column shows nodes of its taxonomy: the policy without that, what is wrong with it, and
    what could not be measured."""
    use = policy.algorithm
    if use is None or not policy.algorithm_traits.guards:
        return policy, [], []
    (sensitive,) = policy.sensitive
    given = policy.hierarchies[sensitive]
    tree = taxonomy_of(hierarchies.build(given.kind, given.params, policy.base))
    kept = {name: item for name, item in policy.hierarchies.items() if name != sensitive}
    plain = policy.model_copy(update={"hierarchies": kept, "algorithm": None})
    main = relation(engine.resolve(release), engine.dialect)
    kinds = {item.name: item.type for item in engine.columns(main)}
    guard, limit = use.params["guard"], float(use.params["p_breach"])
    if guard not in kinds:
        return plain, [], [f"the release has no column '{guard}': guarding nodes were looked at when it was published"]
    types = {name: exp.DataType.build(kind, dialect=engine.dialect) for name, kind in kinds.items()}
    label = alias(written_key(policy.quasi_identifiers, types), "label")
    shown = [label, alias(text(column(sensitive)), "node"), alias(text(column(guard)), "guard")]
    members = Step(f"{PREFIX}_members", select(*shown, source=nest_query(main.copy(), "r")))
    named = exp.column("guard").is_(exp.Null()).not_()
    guards = Step(f"{PREFIX}_guards", select("label", "guard", source=table(members.name), where=named).distinct())
    counted: list[exp.Expr | str] = ["label", alias(exp.column("node"), "original"), "node", alias(count_all(), "n")]
    pieces = Step(f"{PREFIX}_pieces", select(*counted, source=table(members.name), groups=["label", "node"]))
    steps = [members, guards, pieces]
    try:
        run_steps(engine, steps)
        nodes = {row[0] for row in engine.query(select("node", source=table(members.name)).distinct())}
        every = {row[0] for row in engine.query(select("guard", source=table(guards.name)).distinct())}
        if not nodes | every <= set(tree.leaves):
            return plain, [f"'{sensitive}' or '{guard}' holds what is not in the taxonomy"], []
        steps.append(Step(f"{PREFIX}_moves", tree.moves(sorted(every))))
        run_steps(engine, steps[-1:])
        made = {name: f"{PREFIX}_{name}" for name in ("guards", "pieces", "moves")}
        breaches = nest_query(bind(plugin("parting", "breach").sql, {}, made), "b")
        worst = engine.query(select(exp.Max(this=exp.column("measured")), source=breaches))[0][0]
    finally:
        drop_steps(engine, steps)
    if worst is not None and float(worst) > limit + TOLERANCE:
        return plain, [f"somebody is linked to what lies below a guarding node with more than {limit:g}"], []
    return plain, [], []


def _misfits(policy: Policy, engine: Engine, rows: exp.Select, values: exp.Select) -> list[str]:
    """What is wrong with two tables that should tell of the same groups."""
    found = []
    if engine.query(misfits(rows, values).limit(1)):
        found.append("the tables do not fit together: a group has not as many rows as sensitive values")
    secret = [column(name) for name in (GROUP, *policy.sensitive)]
    counted = select(
        *secret, alias(sum_bigint(exp.column(RECORDS)), "n"), source=nest_query(values.copy(), "v"), groups=secret
    )
    number = exp.Coalesce(this=exp.column("n"), expressions=[literal(0)])
    twice = select(literal(1), source=nest_query(counted, "c"), where=exp.NEQ(this=number, expression=literal(1)))
    if engine.query(twice.limit(1)):
        found.append("a sensitive value is in a group more than once")
    l = int(policy.algorithm.params["l"]) if policy.algorithm is not None else 2  # noqa: E741
    counted_values: exp.Expr = count_all()
    if policy.sensitive_nulls == "unknown":
        counted_values = exp.Count(this=column(policy.sensitive[0]))
    small = select(column(GROUP), source=nest_query(values.copy(), "v"), groups=[column(GROUP)])
    if engine.query(small.having(exp.LT(this=counted_values, expression=exp.convert(l))).limit(1)):
        found.append(f"a group has fewer than {l} sensitive values")
    return found


def _sliced(policy: Policy, engine: Engine, main: exp.Select) -> list[str]:
    """Whether somebody of the source is linked to a sensitive value with more than 1/l."""
    assert policy.algorithm is not None
    (sensitive,) = policy.sensitive
    parts, l = policy.algorithm.params["parts"], int(policy.algorithm.params["l"])  # noqa: E741
    steps: list[Step] = []
    if [sensitive] in [list(names) for names in parts]:
        query = worst_share(main, sensitive)
    else:
        source = relation(engine.resolve(policy.source), engine.dialect)
        types = {
            item.name: exp.DataType.build(item.type, dialect=engine.dialect) for item in engine.columns(main.copy())
        }
        steps, query = posterior(main, source, parts, sensitive, types)
    try:
        run_steps(engine, steps)
        worst = engine.query(query)[0][0]
    finally:
        drop_steps(engine, steps)
    if worst is None or float(worst) > 1 / l + TOLERANCE:
        return [f"somebody is linked to a sensitive value with more than 1/{l}"]
    return []
