"""The oracle itself on Adult: brute.py and brute_loss.py find there what ARX and pycanon found.

The data may not be committed, the numbers are in tests/oracles/numbers. Checks of the oracle that need none of it:

- test_arx_metrics, test_arx_metrics_of_all_nodes, test_arx_loss_of_the_optimum:
  tests/oracles/test_brute.py::test_losses_of_a_small_release
- test_pycanon_measures: tests/oracles/test_pycanon_generated.py::test_the_oracle_measures_what_pycanon_measures
"""

import json
from fractions import Fraction
from functools import cache

import brute
import brute_loss as loss
import pytest
from adult_tables import COLUMNS, read_paths, read_rows
from arx_cases import NODES, NUMBERS, listed_models, on_subset
from oracle_numbers import read_numbers
from shared_data import adult_folder


@cache
def adult(name):
    return read_rows(adult_folder(), name)


@cache
def adult_hierarchies():
    return {column: {path[0]: tuple(path) for path in read_paths(adult_folder(), column)} for column in COLUMNS}


def generalize(rows, columns, levels):
    trees = adult_hierarchies()
    steps = list(zip(columns, levels, strict=True))
    return [{**row, **{c: trees[c][row[c]][level] for c, level in steps}} for row in rows]


def violations(rows, columns, model):
    """The classes that break a model as ARX writes it."""
    name, arguments = model.split("(", 1)
    numbers = [Fraction(number) for number in NUMBERS.findall(f"({arguments}")]
    match name:
        case "KAnonymity":
            return brute.broken_k_anonymity(rows, columns, k=int(numbers[0]))
        case "RecursiveCLDiversity":
            policy = {"c": numbers[0], "l": int(numbers[1])}
            return brute.broken_recursive_cl_diversity(rows, columns, "occupation", **policy)
        case "HierarchicalDistanceTCloseness":
            tree = {leaf: path[1:] for leaf, path in adult_hierarchies()["occupation"].items()}
            policy = {"t": numbers[0], "taxonomy": tree}
            return brute.broken_hierarchical_t_closeness(rows, columns, "occupation", **policy)
        case "BasicBLikeness":
            return brute.broken_basic_beta_likeness(rows, columns, "occupation", beta=numbers[0])
        case "EnhancedBLikeness":
            return brute.broken_enhanced_beta_likeness(rows, columns, "occupation", beta=numbers[0])
    raise ValueError(f"no oracle for {model}")


def arx_node(rows, columns, levels, models, population=None):
    """A node of ARX's lattice: triples of original row, generalized row and whether its class is kept."""
    coarse = generalize(rows, columns, levels)
    broken = set().union(*(violations(coarse, columns, model) for model in models))
    if population is not None:
        presence = {"dmin": 0.05, "dmax": 0.15, "population_rows": generalize(population, columns, levels)}
        broken |= brute.broken_delta_presence(coarse, columns, **presence)
    return [(old, new, tuple(new[c] for c in columns) not in broken) for old, new in zip(rows, coarse, strict=True)]


def descending(found):
    return sorted(found.values(), reverse=True)


ARX_METRICS = {
    "createAECSMetric()": lambda node, qi, trees: loss.aecs(loss.released(node), qi),
    "createDiscernabilityMetric(false)": lambda node, qi, trees: loss.discernibility(loss.released(node), qi),
    "createDiscernabilityMetric(true)": lambda node, qi, trees: loss.discernibility_star(node, qi),
    "createEntropyMetric()": lambda node, qi, trees: loss.non_uniform_entropy(node, qi),
    "createEntropyMetric(false)": lambda node, qi, trees: loss.non_uniform_entropy(node, qi),
    "createHeightMetric()": lambda node, qi, trees: loss.height(loss.generalized(node), qi, trees),
    "createLossMetric(AggregateFunction.RANK)": lambda node, qi, trees: descending(
        loss.ncp_by_column(loss.released(node), qi, trees)
    ),
    "createPrecisionMetric(false)": lambda node, qi, trees: loss.precision(loss.released(node), qi, trees),
    "createPrecisionMetric(true)": lambda node, qi, trees: loss.precision(loss.generalized(node), qi, trees),
}


def assert_arx_nodes(case, nodes):
    rows = adult("adult_subset" if on_subset(case) else "adult")
    population = adult("adult") if on_subset(case) else None
    models = listed_models(case)
    qi = [column for column in COLUMNS if column != case["sensitive"]]
    for levels, expected in nodes:
        node = arx_node(rows, qi, levels, models, population)
        measured = ARX_METRICS[case["metric"]](node, qi, adult_hierarchies())
        measured = [float(x) for x in measured] if isinstance(measured, list) else float(measured)
        # ARX prints the ranked losses with ten decimals, cut off.
        assert measured == pytest.approx(json.loads(expected), rel=1e-12, abs=1.01e-10), levels


def arx_cases(wanted=lambda case: True):
    cases = [case for case in NODES if wanted(case)]
    return pytest.mark.parametrize("case", cases, ids=lambda case: f"{case['from']}-{case['metric']}")


@arx_cases(lambda case: case["models"] == ["KAnonymity(5)"] or isinstance(case["models"], str))
def test_arx_metrics(case):
    assert_arx_nodes(case, case["nodes"][1:2])


@pytest.mark.long
@arx_cases()
def test_arx_metrics_of_all_nodes(case):
    assert_arx_nodes(case, case["nodes"])


@pytest.mark.parametrize(
    ("model", "levels", "expected"),
    [
        ("KAnonymity(5)", [0, 3, 0, 1, 1, 1, 1, 2, 0], 0.26611081915757495),
        ("KAnonymity(5)", [0, 3, 0, 0, 2, 1, 1, 1, 0], 0.22041192847984292),
        ('BasicBLikeness("occupation", 3)', [0, 3, 0, 0, 2, 0, 1, 0], 0.34883856157237925),
        ('BasicBLikeness("occupation", 1)', [1, 4, 0, 1, 3, 0, 2, 0], 0.6081345989904172),
        ('EnhancedBLikeness("occupation", 10)', [0, 3, 0, 0, 3, 1, 2, 0], 0.3419039849540606),
        ('EnhancedBLikeness("occupation", 2)', [1, 4, 1, 1, 3, 2, 2, 0], 0.759176305345683),
    ],
)
def test_arx_loss_of_the_optimum(model, levels, expected):
    qi = [column for column in COLUMNS if len(levels) == 9 or column != "occupation"]
    node = arx_node(adult("adult"), qi, levels, [model])
    measured = loss.ncp_geometric(loss.released(node), qi, adult_hierarchies())
    # ARX cuts the loss of each attribute off after ten decimals.
    assert expected <= measured < expected + 1.01e-10


@pytest.mark.long
@pytest.mark.parametrize("case", read_numbers("pycanon_adult")["cases"], ids=lambda case: case["case"])
def test_pycanon_measures(case):
    if "definition" not in case or case["case"] == "A_raw_8qi":
        pytest.skip("several sensitive attributes, or 18,109 classes, which is slow and shows nothing more")
    qi, (s,) = case["qi"], case["sa"]
    trees = adult_hierarchies()
    keep = [f"KAnonymity({case['drop_k']})"] if case["drop_k"] else []
    node = arx_node(adult("adult"), qi, case["levels"], keep)
    rows = [new for _, new, kept in node if kept]
    by_definition = case["definition"]

    def extreme(pick, measured):
        return float(pick(measured.values()))

    assert extreme(min, brute.k_anonymity(rows, qi, k=1)) == by_definition["k"]
    assert extreme(min, brute.distinct_l_diversity(rows, qi, s, l=1)) == by_definition["l"]
    assert extreme(min, brute.entropy_l_diversity(rows, qi, s, l=1)) == pytest.approx(by_definition["entropy_l"])
    assert extreme(max, brute.alpha_k_anonymity(rows, qi, s, alpha=1, k=1)) == by_definition["alpha"]
    for name, measured in (
        ("basic_beta", brute.basic_beta_likeness(rows, qi, s, beta=1)),
        ("delta_definition", brute.delta_disclosure(rows, qi, s, delta=1)),
        ("t_equal", brute.t_closeness(rows, qi, s, t=1)),
        ("t_ordered_by_sorted_value", brute.ordered_t_closeness(rows, qi, s, t=1)),
    ):
        assert extreme(max, measured) == pytest.approx(float(by_definition[name])), name
    for name, largest in by_definition["recursive_c_sup"].items():
        measured = brute.recursive_cl_diversity(rows, qi, s, c=1, l=int(name[2:]))
        assert extreme(max, measured) == pytest.approx(float(largest)), name
    pairs = loss.released(node)
    utility = case["utility_vs_raw"]
    assert loss.discernibility(pairs, qi) == utility["dm"]
    assert float(loss.ncp(pairs, qi, trees)) == pytest.approx(utility["gcp"])
    k = max(case["drop_k"], 1)
    assert float(loss.average_class_size(pairs, qi, k)) == pytest.approx(utility["c_avg"])
