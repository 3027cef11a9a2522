"""The cases of ARX's own tests on Adult, as tests/oracles/numbers has them, in the words of a policy."""

from __future__ import annotations

import re
from typing import Any

from oracle_numbers import read_numbers

OPTIMA = read_numbers("arx_optima")["cases"]
NODES = read_numbers("arx_node_metrics")["cases"]
NUMBERS = re.compile(r"(?<=[( ])[0-9.]+(?=[,)])")
# Cases of NODES that ARX ran on its sample adult_subset.csv, together with (0.05, 0.15)-presence in adult.csv, which
# the list of models does not say. Named by the line of ARX's own test.
SUBSET = {59, 62, 72, 76, 78, 90, 93, 95, 96, 97, 102, 110, 115, 121, 128, 133, 140, 147, 150}
SUBSET |= {176, 178, 185, 186, 188, 192, 197, 207}
MODELS: dict[str, Any] = {
    "KAnonymity": lambda n: {"k_anonymity": {"k": int(n[0])}},
    "RecursiveCLDiversity": lambda n: {"recursive_cl_diversity": {"c": n[0], "l": int(n[1])}},
    "HierarchicalDistanceTCloseness": lambda n: {"hierarchical_t_closeness": {"t": n[0]}},
    "BasicBLikeness": lambda n: {"basic_beta_likeness": {"beta": n[0]}},
    "EnhancedBLikeness": lambda n: {"enhanced_beta_likeness": {"beta": n[0]}},
    "EntropyLDiversity": lambda n: {"entropy_l_diversity": {"l": n[0]}},
}


def on_subset(case: dict[str, Any]) -> bool:
    """Whether a case of NODES was run on the sample."""
    return int(case["from"].rsplit(":", 1)[1]) in SUBSET


def listed_models(case: dict[str, Any]) -> list[str]:
    """The models as ARX writes them. Some cases have a text that names none."""
    return case["models"] if isinstance(case["models"], list) else []


def arx_models(case: dict[str, Any]) -> list[Any] | None:
    """The models of a case, or None where one of them is not known here."""
    found: list[Any] = []
    for model in listed_models(case):
        name = model.split("(")[0]
        if name not in MODELS or "GRASSBERGER" in model:
            return None
        found.append(MODELS[name]([float(number) for number in NUMBERS.findall(model)]))
    return found
