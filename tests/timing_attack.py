"""What an attacker does with a clock: questions whose work hangs on one person, and a threshold that is learned.

`Trial`s are made of two worlds that differ in one person alone, in random order, so that whatever else the machine does
meets both. The threshold, and on which side of it the person is, is chosen on one half and tested on the other.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb

EXAMPLE = Path(__file__).parents[1] / "examples" / "gateway"
CHOSEN = 17  # the customer that the attacker asks about
LEVEL = 0.001  # how seldom a test of a clock that tells nothing may fail


@dataclass(frozen=True)
class Trial:
    seconds: float
    truth: bool


def shop(folder: Path, born: int, policy: Callable[[str], str] = str) -> Path:
    """The example as it is shipped, where the chosen customer was born in this year; gives its policy."""
    folder.mkdir()
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute((EXAMPLE / "data.sql").read_text(encoding="utf-8"))
        connection.execute(f"UPDATE customers SET born = {born} WHERE customer_id = {CHOSEN}")
    text = (EXAMPLE / "policy.yml").read_text(encoding="utf-8")
    (folder / "policy.yml").write_text(policy(text), encoding="utf-8")
    return folder / "policy.yml"


def long_question(number: int, pattern: int, *, who: int = CHOSEN, joined: bool = False) -> str:
    """Slow if and only if a customer was born before 1970; `number` makes it a new question.

    Joined with the public cities twice, 36 times as slow.
    """
    others, more = ("CROSS JOIN cities a CROSS JOIN cities b", " || a.city || b.city") if joined else ("", "")
    looked = f"('é{'x' * 9_000}' || c.city{more}) ILIKE '%_{'x' * pattern}q_%'"
    return (
        f"SELECT count(*) FROM customers c {others} WHERE c.customer_id <> {100_000 + number} "
        f"AND CASE WHEN c.customer_id = {who} AND c.born < 1970 THEN {looked} END"
    )


def longest_pattern(is_refused: Callable[[int], bool]) -> int:
    """The longest pattern with which a question is not refused: the most work that a row may cause."""
    low, high = 0, 1_000
    assert not is_refused(low) and is_refused(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_refused(middle) else (middle, high)
    return low


def trials(count: int, ask: Callable[[bool, int], float], seed: int = 1) -> list[Trial]:
    """`ask` puts the numbered question to one of both worlds, and tells how long the answer took."""
    draw = random.Random(seed)
    # In pairs of both worlds, or the halves would differ in how often a guess is right.
    truths = [truth for _ in range(count // 2) for truth in draw.sample([True, False], 2)]
    return [Trial(ask(truth, number), truth) for number, truth in enumerate(truths)]


def guessed_right(found: Sequence[Trial]) -> tuple[int, int]:
    """How many trials of the second half are told by the threshold that is best on the first, and of how many."""
    half = len(found) // 2
    train, test = found[:half], found[half:]
    ordered = sorted(trial.seconds for trial in train)
    cuts = [(one + two) / 2 for one, two in pairwise(ordered)]

    def right(of: Sequence[Trial], cut: float, above: bool) -> int:
        return sum(((trial.seconds > cut) == above) == trial.truth for trial in of)

    cut, above = max(((cut, above) for cut in cuts for above in (True, False)), key=lambda each: right(train, *each))
    return right(test, cut, above), len(test)


def chance(right: int, of: int) -> float:
    """How likely it is that a coin guesses as many right, or more.

    >>> chance(50, 50) < 1e-15, chance(25, 50) > 0.5, round(chance(3, 3), 3)
    (True, True, 0.125)
    """
    return sum(math.comb(of, each) for each in range(right, of + 1)) / 2**of


def within(right: int, of: int, level: float = 0.05) -> float:
    """The largest share of right guesses that is not excluded at this level (Clopper and Pearson).

    >>> round(within(50, 100), 3), round(within(0, 59), 3)
    (0.586, 0.05)
    """
    low, high = right / of, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        below = sum(math.comb(of, each) * middle**each * (1 - middle) ** (of - each) for each in range(right + 1))
        low, high = (middle, high) if below > level else (low, middle)
    return low
