"""The metric that a policy minimizes, made ready for a search over the lattice of a problem."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.families import plugin
from sqlanon.lattice.metrics import AverageSize, Divergence, Entropies, Guesses, Known, Linear, Metric, Squares
from sqlanon.lattice.problem import Problem
from sqlanon.sqltree.tree import alias, double, literal, table, window


def build_metric(problem: Problem, name: str | None = None) -> Metric:
    """The metric that the policy minimizes, ready for a search over the whole lattice."""
    name = name or problem.requirements.minimize
    weights = [problem.policy.columns[domain.name].weight for domain in problem.domains]
    count = len(problem.domains)
    whole = sum(weights)
    leaves = [float(domain.leaves) for domain in problem.domains]
    flags = ("broken",) if problem.requirements.nested else ("broken", "nested")

    def linear(components: Sequence[Sequence[float]], relative_to: Sequence[float], **more: bool | float) -> Linear:
        return Linear(
            problem.compressed,
            problem.shape,
            problem.marginals(),
            problem.records,
            components,
            leaves_matter=bool(more.get("leaves", True)),
            relative_to=relative_to,
            scale=float(more.get("scale", 1.0)),
            geometric=bool(more.get("geometric", False)),
            suppresses=problem.limit > 0,
            flags=flags,
        )

    steps = [leaf - 1 if leaf > 1 else 0.0 for leaf in leaves]
    match name:
        case "ncp":
            return linear([[weight / whole for weight in weights]], steps)
        case "ncp_geometric":
            each = [[float(i == j) for j in range(count)] for i in range(count)]
            return linear(each, steps, geometric=True)
        case "iloss":
            return linear([weights], leaves, scale=problem.records)
        case "precision":
            heights = [float(domain.height) for domain in problem.domains]
            return linear([[1 / count] * count], heights, leaves=False)
        case "minimal_distortion":
            return linear([[1.0] * count], [1.0] * count, leaves=False, scale=problem.records)
        case "discernibility" | "discernibility_star":
            return Squares(problem.shape, problem.records, penalty=name == "discernibility", flags=flags)
        case "aecs" | "c_avg":
            asked = max((use.params["k"] for use in problem.policy.models if "k" in use.params), default=1)
            return AverageSize(problem.shape, problem.records, problem.limit, int(asked), name == "aecs")
        case "non_uniform_entropy":
            return Entropies(_entropies(problem), sql=plugin("loss", name).sql, nested=problem.requirements.nested)
        case "kl_divergence":
            nothing = [[0.0] * size for size in problem.shape]
            sql, nested = plugin("loss", name).sql, problem.requirements.nested
            return Divergence(nothing, sql=sql, always=True, records=problem.records, nested=nested)
        case "classification_metric":
            _require_target(problem)
            nothing = [[0.0] * size for size in problem.shape]
            return Guesses(nothing, sql=plugin("loss", name).sql, always=True, records=problem.records)
        case "height":
            return Known([[float(level) for level in range(size)] for size in problem.shape])
    raise PolicyError(
        f"a search cannot minimize '{name}'",
        hint="take ncp, ncp_geometric, iloss, precision, minimal_distortion, discernibility, discernibility_star, "
        "aecs, c_avg, non_uniform_entropy, kl_divergence, classification_metric or height",
    )


def _require_target(problem: Problem) -> None:
    if problem.requirements.target is None:
        raise PolicyError(
            "classification_metric needs the column that a reader of the release is to foretell",
            hint="write for example 'algorithm: {full_domain: {class_attribute: income}}'",
        )


def _entropies(problem: Problem) -> list[list[float]]:
    """For each attribute and level the bits that are lost by showing labels in place of values."""
    found = []
    for domain in problem.domains:
        own = double(exp.column("records"))
        bits = []
        for level in range(1, domain.height):
            label = window(exp.Sum(this=own.copy()), partition=[exp.column(f"n{level}")])
            bits.append(alias(_bits(own.copy(), label), f"b{level}"))
        bits.append(alias(_bits(own.copy(), window(exp.Sum(this=own.copy()))), f"b{domain.height}"))
        inner = exp.select(*bits).from_(table(domain.dictionary))
        sums = [exp.Sum(this=exp.column(f"b{level}")) for level in range(1, domain.height + 1)]
        row = problem.engine.query(exp.select(*sums).from_(inner.subquery(alias="bits")))[0]
        found.append([0.0, *(float(value or 0) for value in row)])
    return found


def _bits(own: exp.Expr, whole: exp.Expr) -> exp.Expr:
    ratio = exp.Div(this=whole, expression=own)
    return exp.Div(this=exp.Mul(this=own.copy(), expression=exp.Ln(this=ratio)), expression=exp.Ln(this=literal(2.0)))
