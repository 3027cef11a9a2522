"""Noise is distributed as it says, costs no more than was asked, and an audit finds no more loss than is claimed."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations

import pytest
from conftest import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlanon.errors import MechanismError
from sqlanon.gateway.replay.empirical_epsilon import CONFIDENCE, epsilon_lower_bound, lower_bound, upper_bound
from sqlanon.mechanisms import Cost, choose_best, gaussian, laplace, quantile_scores, quantile_sensitivity, select_keys

SAMPLES = 20_000
ODDS = 20.0  # a random failure of one comparison is rarer than exp(-20)
unhurried = settings(deadline=None, max_examples=examples(60))


def test_opendp_is_imported_when_a_mechanism_is_built() -> None:
    code = (
        "import sys; from sqlanon.mechanisms import laplace; before = 'opendp' in sys.modules; "
        "laplace(1, 1.0); print(before, 'opendp' in sys.modules, 'polars' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "False True False", run.stderr


# Distributions


def laplace_pmf(scale: float, x: int) -> float:
    return math.tanh(1 / (2 * scale)) * math.exp(-abs(x) / scale)


def gaussian_pmf(scale: float, x: int) -> float:
    return math.exp(-((x / scale) ** 2) / 2) / gaussian_total(scale)


@cache
def gaussian_total(scale: float) -> float:
    reach = math.ceil(40 * scale) + 1
    return math.fsum(math.exp(-((k / scale) ** 2) / 2) for k in range(-reach, reach + 1))


def assert_distributed(samples: Sequence[Hashable], pmf: dict[Hashable, float]) -> None:
    """Chi-square: what is expected less than 50 times is one bin, and so is what is not in the pmf."""
    seen, total = Counter(samples), len(samples)
    kept = [output for output, p in pmf.items() if p * total >= 50]
    bins = [(seen[output], pmf[output] * total) for output in kept]
    rest = total - sum(expected for _, expected in bins)
    if rest >= 50:
        bins.append((total - sum(seen[output] for output in kept), rest))
    statistic = sum((count - expected) ** 2 / expected for count, expected in bins)
    freedom = len(bins) - 1
    assert statistic <= freedom + 2 * math.sqrt(freedom * ODDS) + 2 * ODDS  # Laurent and Massart 2000


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 2.0), (1, 1.0), (3, 0.7), (5, 0.25)])
def test_laplace_has_its_distribution(sensitivity: int, epsilon: float) -> None:
    mechanism = laplace(sensitivity, epsilon)
    pmf = {7 + x: laplace_pmf(sensitivity / epsilon, x) for x in range(-2000, 2000)}
    assert_distributed(mechanism.add_noise([7] * SAMPLES), pmf)


@pytest.mark.parametrize(("sensitivity", "rho"), [(1.0, 0.5), (1.5, 0.3), (10.0, 0.125)])
def test_gaussian_has_its_distribution(sensitivity: float, rho: float) -> None:
    mechanism = gaussian(sensitivity, rho, delta=1e-6)
    pmf = {x - 7: gaussian_pmf(sensitivity / math.sqrt(2 * rho), x) for x in range(-100, 100)}
    assert_distributed(mechanism.add_noise([-7] * SAMPLES), pmf)


def permute_and_flip(scores: Sequence[int], scale: float) -> dict[int, float]:
    """Go through the candidates in random order and take one with probability exp(-(best - score) / scale)."""
    taken = [math.exp((score - max(scores)) / scale) for score in scores]
    orders = list(permutations(range(len(scores))))
    chances = dict.fromkeys(range(len(scores)), 0.0)
    for order in orders:
        left = 1 / len(orders)
        for index in order:
            chances[index] += left * taken[index]
            left *= 1 - taken[index]
    return chances


def test_a_choice_has_its_distribution() -> None:
    scores = [3, 0, 5, 4]
    choice = choose_best(sensitivity=2, epsilon=2.0)
    assert choice.scale == 2.0
    picked = [choice.choose(scores) for _ in range(SAMPLES // 5)]
    assert_distributed(picked, permute_and_flip(scores, choice.scale))


def test_a_choice_handles_scores_of_any_size() -> None:
    assert choose_best(1, 1.0).choose([-(2**80), 2**62, -1]) == 1
    assert choose_best(0.5, 1.0).scale == 2.0
    with pytest.raises(MechanismError):
        choose_best(1, 1.0).choose([])


def test_noise_is_fresh_in_each_cell_and_each_call() -> None:
    mechanism = laplace(1, 0.001)
    assert mechanism is laplace(1, 0.001)
    assert len(set(mechanism.add_noise([0] * 1000))) > 500
    assert mechanism.add_noise([0] * 20) != mechanism.add_noise([0] * 20)


@pytest.mark.parametrize("mechanism", [laplace(1, 1.0), gaussian(1.0, 0.5, 1e-6), laplace(1, 1e-15 * 2**10)])
def test_large_integers_do_not_wrap(mechanism) -> None:
    width = math.ceil(60 * mechanism.scale)
    for value in (2**62, -(2**62)):
        assert all(abs(noisy - value) <= width for noisy in mechanism.add_noise([value] * 100))
    highest, lowest = mechanism.add_noise([2**63 - 1, -(2**63)])
    assert 2**63 - 1 - width <= highest < 2**63 and -(2**63) <= lowest <= -(2**63) + width
    beyond = mechanism.add_noise([2**200, -(2**200)])
    assert beyond[0] > 0 > beyond[1]
    assert mechanism.add_noise([]) == []


def test_only_whole_numbers_get_noise() -> None:
    for wrong in (1.5, None, "1"):
        with pytest.raises(MechanismError) as failure:
            laplace(1, 1.0).add_noise([1, wrong])  # type: ignore[list-item]
        assert str(wrong) not in str(failure.value)


# Half widths


@unhurried
@given(st.floats(0.02, 60), st.floats(0.001, 0.9999999))
@example(1.0, 0.95)
def test_half_widths_are_the_smallest(scale: float, coverage: float) -> None:
    for mechanism, pmf in (
        (laplace(1, 1 / scale), laplace_pmf),
        (gaussian(1.0, 1 / (2 * scale**2), 1e-6), gaussian_pmf),
    ):
        width = int(mechanism.half_width(coverage))
        mass = pmf(mechanism.scale, 0)
        inside = mass + 2 * math.fsum(pmf(mechanism.scale, k) for k in range(1, width + 1))
        assert inside >= coverage - 1e-9
        if width:
            assert inside - 2 * pmf(mechanism.scale, width) <= coverage + 1e-9


def test_half_widths_cover() -> None:
    for mechanism in (laplace(3, 0.01), gaussian(50.0, 0.01, 1e-6)):
        for coverage in (0.5, 0.95):
            width = mechanism.half_width(coverage)
            inside = sum(abs(noise) <= width for noise in mechanism.add_noise([0] * SAMPLES))
            assert lower_bound(inside, SAMPLES, 1e-8) <= coverage + 0.01
            assert upper_bound(inside, SAMPLES, 1e-8) >= coverage


def test_half_widths_of_large_scales() -> None:
    assert laplace(2**40, 0.01).half_width(0.95) == pytest.approx(math.log(20) * 2**40 * 100)
    wide = gaussian(float(2**40), 0.01, 1e-6)
    assert wide.half_width(0.95) == pytest.approx(1.959964 * wide.scale)
    for wrong in (0.0, 1.0, float("nan"), -1.0):
        with pytest.raises(MechanismError):
            wide.half_width(wrong)


# Costs


epsilons = st.floats(1e-9, 1e6)
deltas = st.one_of(st.floats(1e-12, 0.49), st.floats(1e-290, 1e-30), st.floats(0.5, 1, exclude_max=True))


@unhurried
@given(st.integers(1, 2**28), epsilons)
@example(1, 0.1)
@example(3, 1.1)
def test_laplace_costs_no_more_than_asked(sensitivity: int, epsilon: float) -> None:
    mechanism = laplace(sensitivity, epsilon)
    assert epsilon * (1 - 1e-12) <= mechanism.cost.epsilon <= epsilon
    assert mechanism.cost.delta == 0
    assert mechanism.cost.rho == pytest.approx(mechanism.cost.epsilon**2 / 2)
    assert Fraction(sensitivity) / Fraction(mechanism.scale) <= Fraction(epsilon)


@unhurried
@given(st.floats(0.5, 2**30), st.floats(1e-9, 1e3), st.floats(1e-12, 0.4))
def test_gaussian_costs_no_more_than_asked(sensitivity: float, rho: float, delta: float) -> None:
    cost = gaussian(sensitivity, rho, delta).cost
    assert rho * (1 - 1e-12) <= cost.rho <= rho
    assert cost.delta == delta
    assert cost.epsilon <= (rho + 2 * math.sqrt(rho * math.log(1 / delta))) * (1 + 1e-6)  # Bun and Steinke 2016


@unhurried
@given(st.integers(1, 2**28), epsilons)
def test_a_choice_costs_no_more_than_asked(sensitivity: int, epsilon: float) -> None:
    choice = choose_best(sensitivity, epsilon)
    assert epsilon * (1 - 1e-12) <= choice.cost.epsilon <= epsilon
    assert Fraction(2 * sensitivity) / Fraction(choice.scale) <= Fraction(epsilon)


def test_costs_add_up() -> None:
    total = sum((laplace(1, 0.5).cost, choose_best(1, 0.25).cost, select_keys(1, 1, 0.25, 1e-6).cost), Cost())
    assert total.epsilon == 1.0
    assert 0 < total.delta <= 1e-6
    assert total.rho == pytest.approx((0.25 + 0.0625 + 0.0625) / 2)


BAD_EPSILONS = (0, -1.0, math.nan, math.inf, -math.inf, 1e-320, 1e300, 10**400, True, "1", None)
BAD_SENSITIVITIES = (0, -1, 2**63, 10**400, True, None, "1", math.nan)
BAD_DELTAS = (0, 1, -1e-6, 1.5, math.nan, math.inf, None)


@pytest.mark.parametrize(
    ("build", "arguments"),
    [(laplace, (1, bad)) for bad in BAD_EPSILONS]
    + [(laplace, (bad, 1.0)) for bad in (*BAD_SENSITIVITIES, 1.5)]
    + [(laplace, (2**62, 1e-12))]
    + [(gaussian, (1.0, bad, 1e-6)) for bad in BAD_EPSILONS]
    + [(gaussian, (bad, 1.0, 1e-6)) for bad in BAD_SENSITIVITIES]
    + [(gaussian, (1.0, 1.0, bad)) for bad in BAD_DELTAS]
    + [(choose_best, (1, bad)) for bad in BAD_EPSILONS]
    + [(choose_best, (bad, 1.0)) for bad in BAD_SENSITIVITIES]
    + [(select_keys, (1, 1, bad, 1e-6)) for bad in BAD_EPSILONS]
    + [(select_keys, (1, 1, 1.0, bad)) for bad in BAD_DELTAS]
    + [(select_keys, (bad, 1, 1.0, 1e-6)) for bad in (*BAD_SENSITIVITIES, 1.5)]
    + [(select_keys, (1, bad, 1.0, 1e-6)) for bad in (*BAD_SENSITIVITIES, 1.5)]
    + [(quantile_sensitivity, (bad, 0.5)) for bad in BAD_SENSITIVITIES]
    + [(quantile_sensitivity, (1, bad)) for bad in (-0.1, 1.1, math.nan, None)],
    ids=lambda part: getattr(part, "__name__", None) or repr(part)[:40],
)
def test_bad_arguments_are_refused(build: Callable[..., object], arguments: tuple[object, ...]) -> None:
    with pytest.raises(MechanismError) as failure:
        build(*arguments)
    assert failure.value.sqlstate == "22023"


# Keys


def delta_of(groups: int, scale: float, reach: int) -> float:
    """By another way than the code: floats that keep what is small."""
    tail = math.exp(-reach / scale - math.log1p(math.exp(-1 / scale)))
    return -math.expm1(groups * math.log1p(-tail)) if tail < 1 else 1.0


@unhurried
@given(st.integers(1, 1000), st.integers(1, 100), st.floats(1e-6, 100), deltas)
@example(1, 1, 1.0, 0.99)
@example(1, 1, 1e6, 1e-6)
@example(1, 1, 1e9, 1e-6)
def test_the_threshold_is_the_smallest_that_keeps_delta(
    groups: int, minimum: int, epsilon: float, delta: float
) -> None:
    keys = select_keys(groups, minimum, epsilon, delta)
    assert keys.cost.epsilon <= epsilon and 0 <= keys.cost.delta <= delta
    assert keys.threshold >= keys.minimum == minimum
    reach = keys.threshold - minimum
    assert delta_of(groups, keys.scale, reach) <= delta * (1 + 1e-9)
    assert delta_of(groups, keys.scale, reach) == pytest.approx(keys.cost.delta, rel=1e-9, abs=1e-320)
    if reach:
        assert delta_of(groups, keys.scale, reach - 1) > delta * (1 - 1e-9)


@pytest.mark.parametrize("groups", [1, 3])
def test_keys_are_released_with_exact_probability(groups: int) -> None:
    keys = select_keys(groups, minimum=4, epsilon=1.0, delta=0.1)
    for persons in (4, 5, keys.threshold, keys.threshold + 2):
        gap = keys.threshold - persons
        q = math.exp(-1 / keys.scale)
        chance = q**gap / (1 + q) if gap > 0 else 1 - q ** (1 - gap) / (1 + q)
        released = [noisy for noisy in keys.select([persons] * SAMPLES) if noisy is not None]
        assert min(released) >= keys.threshold
        assert lower_bound(len(released), SAMPLES, 1e-8) <= chance <= upper_bound(len(released), SAMPLES, 1e-8)
    assert keys.select([0, 1, 2, 3] * 1000) == [None] * 4000


def test_a_delta_may_be_as_small_as_a_float_can_be() -> None:
    keys = select_keys(groups=3, minimum=1, epsilon=3.0, delta=5e-324)
    assert keys.cost.delta == 5e-324
    assert 740 < keys.threshold < 750


def test_a_key_of_no_person_is_never_released() -> None:
    keys = select_keys(groups=5, minimum=1, epsilon=0.001, delta=0.4)
    assert keys.select([0] * 1000) == [None] * 1000
    assert keys.select([]) == []


# Quantiles


@unhurried
@given(st.lists(st.integers(0, 20), max_size=12), st.lists(st.integers(0, 20), min_size=1, max_size=4), st.floats(0, 1))
def test_the_sensitivity_of_quantiles_holds(others: list[int], person: list[int], alpha: float) -> None:
    def scores(rows: list[int]) -> list[int]:
        candidates = range(-1, 22)
        below = [sum(row < candidate for row in rows) for candidate in candidates]
        return quantile_scores(below, [sum(row > candidate for row in rows) for candidate in candidates], alpha)

    moved = max(abs(one - two) for one, two in zip(scores(others), scores(others + person), strict=True))
    assert moved <= quantile_sensitivity(len(person), alpha)


def test_quantiles_prefer_the_right_value() -> None:
    rows = sorted([*range(1000), *range(0, 1000, 3)])
    candidates = range(0, 1000, 10)
    below = [sum(row < candidate for row in rows) for candidate in candidates]
    above = [sum(row > candidate for row in rows) for candidate in candidates]
    for alpha in (0.0, 0.1, 0.5, 0.9):
        choice = choose_best(quantile_sensitivity(1, alpha), epsilon=5.0)
        chosen = candidates[choice.choose(quantile_scores(below, above, alpha))]
        assert abs(chosen - alpha * 1000) <= 30
    with pytest.raises(MechanismError):
        quantile_scores([1], [1, 2], 0.5)


# The audit

Sampler = Callable[[int], Sequence[Hashable]]


def cells(mechanism, *exact: int) -> Sampler:
    """Independent runs on a few cells; noise is fresh in each cell of a call, which has its own audit below."""

    def sample(runs: int) -> Sequence[Hashable]:
        noisy = mechanism.add_noise(list(exact) * runs)
        # Few outputs are better told apart; for Laplace noise, all of them outside of the exact values are alike.
        low, high = (-15, 18) if mechanism.distribution == "gaussian" and len(exact) == 1 else (0, 3)
        clipped = [min(max(value, low), high) for value in noisy]
        return clipped if len(exact) == 1 else list(zip(*[iter(clipped)] * len(exact), strict=True))

    return sample


def calls(mechanism, *exact: int) -> Sampler:
    """One call a run, seen through the difference of two cells: the noise must not cancel."""

    def sample(runs: int) -> Sequence[Hashable]:
        noisy = (mechanism.add_noise(exact) for _ in range(runs))
        return [min(max(first - second, -6), 6) for first, second in noisy]

    return sample


def shared(mechanism, *exact: int) -> Sampler:
    """Broken: one draw for two cells."""
    return lambda runs: [exact[0] + noise - (exact[1] + noise) for noise in mechanism.add_noise([0] * runs)]


def released(select: Callable[[Sequence[int]], list[int | None]], *persons: int) -> Sampler:
    def sample(runs: int) -> Sequence[Hashable]:
        clipped = [None if noisy is None else min(noisy, 25) for noisy in select(list(persons) * runs)]
        return list(zip(*[iter(clipped)] * len(persons), strict=True))

    return sample


def chosen(choice, *scores: int) -> Sampler:
    return lambda runs: [choice.choose(scores) for _ in range(runs)]


def without_delta(persons: Sequence[int]) -> list[int | None]:
    """Broken: keys are held against the minimum, not against a threshold."""
    noisy = laplace(2, 1.0).add_noise(persons)
    return [count if known >= 3 and count >= 3 else None for known, count in zip(persons, noisy, strict=True)]


def one_too_low(persons: Sequence[int]) -> list[int | None]:
    """Broken: what is one below the threshold is released too."""
    noisy, threshold = laplace(1, 1.0).add_noise(persons), select_keys(1, 3, 1.0, 0.05).threshold
    return [
        count if known >= 3 and count >= threshold - 1 else None for known, count in zip(persons, noisy, strict=True)
    ]


LAPLACE, GAUSSIAN = laplace(3, 1.0), gaussian(3.0, 0.5, 0.01)
KEYS, KEY, CHOICE = select_keys(2, 3, 1.0, 0.05), select_keys(1, 3, 1.0, 0.05), choose_best(1, 1.0)
HONEST = {
    "laplace": (LAPLACE.cost, cells(LAPLACE, 3), cells(LAPLACE, 0)),
    "laplace, two cells": (LAPLACE.cost, cells(LAPLACE, 2, 1), cells(LAPLACE, 0, 0)),
    "laplace, cell against cell": (LAPLACE.cost, calls(LAPLACE, 3, 0), calls(LAPLACE, 0, 0)),
    "gaussian": (GAUSSIAN.cost, cells(GAUSSIAN, 3), cells(GAUSSIAN, 0)),
    "gaussian, two cells": (GAUSSIAN.cost, cells(GAUSSIAN, 2, 2), cells(GAUSSIAN, 0, 0)),
    "gaussian, cell against cell": (GAUSSIAN.cost, calls(GAUSSIAN, 3, 0), calls(GAUSSIAN, 0, 0)),
    "a key appears": (KEY.cost, released(KEY.select, 3), released(KEY.select, 2)),
    "two keys appear": (KEYS.cost, released(KEYS.select, 3, 3), released(KEYS.select, 2, 2)),
    "a key appears, a key grows": (KEYS.cost, released(KEYS.select, 9, 3), released(KEYS.select, 8, 2)),
    "two keys grow": (KEYS.cost, released(KEYS.select, 9, 9), released(KEYS.select, 8, 8)),
    "choice": (CHOICE.cost, chosen(CHOICE, 1, -1), chosen(CHOICE, 0, 0)),
    "choice of three": (CHOICE.cost, chosen(CHOICE, 1, -1, 1), chosen(CHOICE, 0, 0, 0)),
}
BROKEN = {
    "laplace, half the scale": (LAPLACE.cost, cells(laplace(3, 2.0), 3), cells(laplace(3, 2.0), 0)),
    "laplace, sensitivity of one row": (LAPLACE.cost, cells(laplace(1, 1.0), 3), cells(laplace(1, 1.0), 0)),
    "laplace, sensitivity of one cell": (LAPLACE.cost, cells(laplace(3, 1.0), 3, 3), cells(laplace(3, 1.0), 0, 0)),
    "laplace, shared noise": (LAPLACE.cost, shared(LAPLACE, 2, 1), shared(LAPLACE, 0, 0)),
    "gaussian, half the scale": (GAUSSIAN.cost, cells(gaussian(3.0, 2.0, 0.01), 3), cells(gaussian(3.0, 2.0, 0.01), 0)),
    "gaussian, shared noise": (GAUSSIAN.cost, shared(GAUSSIAN, 2, 1), shared(GAUSSIAN, 0, 0)),
    "keys without delta": (KEYS.cost, released(without_delta, 3, 3), released(without_delta, 2, 2)),
    "keys, one too low": (KEY.cost, released(one_too_low, 3), released(one_too_low, 2)),
    "keys, noise for one group": (
        KEYS.cost,
        released(select_keys(1, 3, 1.0, 0.05).select, 9, 9),
        released(select_keys(1, 3, 1.0, 0.05).select, 8, 8),
    ),
    "choice": (CHOICE.cost, chosen(choose_best(1, 2.0), 1, -1), chosen(choose_best(1, 2.0), 0, 0)),
}


ONE_BY_ONE = {"laplace, cell against cell", "gaussian, cell against cell", "choice", "choice of three"}


def audited(cost: Cost, one: Sampler, two: Sampler, runs: int) -> float:
    return epsilon_lower_bound(one(runs), two(runs), cost.delta, CONFIDENCE)


def short(name: str) -> int:
    """Runs that cannot be batched are few in the short form."""
    return SAMPLES // 5 if name in ONE_BY_ONE else SAMPLES


@pytest.mark.full
@pytest.mark.parametrize("name", HONEST)
def test_the_audit_finds_no_more_than_is_claimed(name: str) -> None:
    cost, one, two = HONEST[name]
    assert audited(cost, one, two, short(name)) <= cost.epsilon


@pytest.mark.full
@pytest.mark.parametrize("name", BROKEN)
def test_the_audit_catches_what_is_broken(name: str) -> None:
    cost, one, two = BROKEN[name]
    assert audited(cost, one, two, short(name)) > cost.epsilon


def test_the_audit_is_sharp() -> None:
    for name in ("laplace", "laplace, two cells"):
        cost, one, two = HONEST[name]
        assert audited(cost, one, two, short(name)) > cost.epsilon * 0.4, name


@pytest.mark.long
@pytest.mark.parametrize("name", HONEST)
def test_the_audit_finds_no_more_than_is_claimed_in_many_runs(name: str) -> None:
    cost, one, two = HONEST[name]
    assert audited(cost, one, two, 100_000) <= cost.epsilon


@pytest.mark.long
@pytest.mark.parametrize("name", BROKEN)
def test_the_audit_catches_what_is_broken_in_many_runs(name: str) -> None:
    cost, one, two = BROKEN[name]
    assert audited(cost, one, two, 100_000) > cost.epsilon


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 10, 0.0, 0.3085), (1, 10, 0.0025, 0.4450), (5, 10, 0.1871, 0.8129), (10, 100, 0.0490, 0.1762)],
)
def test_binomial_bounds_are_those_of_the_tables(successes: int, trials: int, low: float, high: float) -> None:
    assert lower_bound(successes, trials, 0.025) == pytest.approx(low, abs=5e-5)
    assert upper_bound(successes, trials, 0.025) == pytest.approx(high, abs=5e-5)


@settings(deadline=None, max_examples=examples(30))
@given(st.integers(1, 200), st.floats(0, 1), st.sampled_from([0.05, 1e-3, 1e-8]))
def test_binomial_bounds_solve_the_tail(trials: int, share: float, error: float) -> None:
    successes = min(int(share * trials), trials - 1)
    p = Fraction(upper_bound(successes, trials, error))
    tail = sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes + 1))
    assert float(tail) == pytest.approx(error, rel=1e-6)
    assert lower_bound(trials - successes, trials, error) == pytest.approx(1 - float(p))


def test_binomial_bounds_of_many_trials() -> None:
    assert upper_bound(0, 100_000, 1e-8) == pytest.approx(1 - 1e-8 ** (1 / 100_000), rel=1e-6)
    assert upper_bound(50_000, 100_000, 0.025) == pytest.approx(0.5031, abs=1e-4)
