"""The header line `bounds:` says what the statement of a model does: the minimality attack concludes from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import measure, policy_for

from sqlanon.evidence.attacks.minimality import SensitiveValue, bounds_of, broken_by
from sqlanon.families import family, models_of_shape

whole, part = st.integers(2, 4), st.sampled_from([0.25, 0.5, 0.6, 0.75])
PARAMS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "k_anonymity": {"k": whole},
    "confidence_bounding": {"value": st.sampled_from(["1", "2"]), "h": part},
    "alpha_k_anonymity": {"alpha": part, "k": st.just(2), "guarded": st.sampled_from([None, ["1"], ["1", "3"]])},
    "distinct_l_diversity": {"l": whole},
    "entropy_l_diversity": {"l": st.sampled_from([1.5, 2, 2.5, 3])},
    "recursive_cl_diversity": {"c": st.sampled_from([0.5, 1, 2]), "l": st.integers(1, 3)},
    "t_closeness": {"t": st.sampled_from([0.1, 0.25, 0.5])},
    "k_e_anonymity": {"k": whole, "e": st.sampled_from([0, 1, 2])},
}


def test_every_model_with_bounds_takes_part() -> None:
    assert set(PARAMS) == {name for name, item in models_of_shape("rows").items() if item.bounds is not None}


@pytest.mark.parametrize("name", sorted(PARAMS))
def test_a_bound_is_what_the_statement_says(duck: Database, name: str) -> None:
    @settings(max_examples=examples(20))
    @given(
        classes=st.lists(st.lists(st.integers(1, 4), min_size=2, max_size=6), min_size=1, max_size=4),
        params=st.fixed_dictionaries(PARAMS[name]),
    )
    def check(classes: list[list[int]], params: dict[str, Any]) -> None:
        given_params = {key: value for key, value in params.items() if value is not None}
        policy = policy_for(["a"], ["s"], [{name: given_params}])
        duck.run("CREATE OR REPLACE TABLE t (a INT, s INT)")
        for place, values in enumerate(classes):
            duck.run("INSERT INTO t VALUES " + ", ".join(f"({place}, {value})" for value in values))
        (found,) = measure(duck.engine, policy)
        totals = Counter(value for values in classes for value in values)
        known = [SensitiveValue(value, str(value), float(value), n) for value, n in sorted(totals.items())]
        breaks: Callable[[Counter[int]], bool] = broken_by(policy, "s", known)
        _, least = bounds_of(policy, "s")
        sized = family("models")[name].bounds.kind in ("size", "share")  # type: ignore[union-attr]
        for place, values in enumerate(classes):
            wanted = breaks(Counter(values)) or (sized and len(values) < least)
            assert found[(str(place),)][1] == wanted, (values, params)

    check()
