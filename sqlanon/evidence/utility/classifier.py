"""Classifier accuracy: a model that is trained on the release is tested on original rows that were held out.

A quarter of the rows, chosen by a hash of their number, is held out. A logistic regression is trained on what the
release shows of the others, and for comparison on their originals; both predict the class of the rows that were held
out. These are originals, with the one exception of columns that were generalized to nodes of a hierarchy: a model that
has seen nodes only is shown the nodes of the row. `baseline` is the accuracy of always saying the most frequent class.

Needs scikit-learn. Not rows come into Python but distinct combinations of a tenth of the range for each number (by the
deciles of the source) and of categories, with their counts; more than MOST of them are refused.
cite: Iyengar 2002; LeFevre, DeWitt and Ramakrishnan 2006
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.relations.training_rows import TrainingColumns, combinations

MOST = 100_000
RARE = "\u2205 rare"
MOST_CATEGORIES = 50  # of a column; all others are one


@dataclass(frozen=True)
class Accuracy:
    target: str
    released: float | None  # None where the release shows no class to learn from
    original: float
    baseline: float
    tested: int


def require_scikit_learn() -> None:
    try:
        import_module("sklearn")
    except ImportError:
        raise PolicyError(
            "the accuracy of a classifier needs scikit-learn", hint="pip install 'sqlanon[classifier]'"
        ) from None


def accuracy(engine: Engine, pairs: str, asked: TrainingColumns, target: str) -> Accuracy | None:
    """None where no rows are held out, as in a table of very few."""
    train, test = (_rows(engine, pairs, asked, released=False, held_out=part) for part in (False, True))
    tested = sum(count for *_, count in test)
    if not tested or not train:
        return None
    learned = _rows(engine, pairs, asked, released=True, held_out=False)
    shown = _rows(engine, pairs, asked, released=True, held_out=True)
    classes: Counter[Any] = Counter()
    for row in train:
        classes[row[-2]] += row[-1]
    most = max(classes, key=lambda value: (classes[value], str(value)))
    return Accuracy(
        target=target,
        released=_right(learned, shown) / tested if learned else None,
        original=_right(train, test) / tested,
        baseline=sum(row[-1] for row in test if row[-2] == most) / tested,
        tested=tested,
    )


def _rows(
    engine: Engine, pairs: str, asked: TrainingColumns, *, released: bool, held_out: bool
) -> list[tuple[Any, ...]]:
    found = engine.query(combinations(pairs, asked, released=released, held_out=held_out, most=MOST))
    if len(found) > MOST:
        raise PolicyError(
            f"the columns have more than {MOST:,} combinations, too many to learn from outside of the database",
            hint="leave out columns with many values: give the columns to learn from with --features",
        )
    # In an order of their own: engines give them in any, and what is learned depends on it in the last digits.
    return sorted((*map(str, row[:-1]), int(row[-1])) for row in found)


def _right(train: Sequence[tuple[Any, ...]], test: Sequence[tuple[Any, ...]]) -> int:
    """How many of the rows to test are classified rightly."""
    classes = sorted({row[-2] for row in train})
    if len(classes) < 2 or len(train[0]) < 3:
        only: Counter[Any] = Counter()
        for row in train:
            only[row[-2]] += row[-1]
        said = max(only, key=lambda value: (only[value], str(value)))
        return sum(row[-1] for row in test if row[-2] == said)
    known = _frequent(train)
    encoder = import_module("sklearn.preprocessing").OneHotEncoder(handle_unknown="ignore")
    model = import_module("sklearn.linear_model").LogisticRegression(max_iter=500)
    inputs = encoder.fit_transform([_features(row, known) for row in train])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one that has not quite converged is a classifier too
        model.fit(inputs, [row[-2] for row in train], sample_weight=[row[-1] for row in train])
    said_ = model.predict(encoder.transform([_features(row, known) for row in test]))
    return sum(row[-1] for row, guess in zip(test, said_, strict=True) if row[-2] == guess)


def _frequent(rows: Sequence[tuple[Any, ...]]) -> list[set[Any]]:
    found = []
    for place in range(len(rows[0]) - 2):
        counts: Counter[Any] = Counter()
        for row in rows:
            counts[row[place]] += row[-1]
        order = sorted(counts, key=lambda value: (-counts[value], str(value)))
        found.append(set(order[:MOST_CATEGORIES]))
    return found


def _features(row: tuple[Any, ...], known: Sequence[set[Any]]) -> list[str]:
    return [value if value in names else RARE for value, names in zip(row[:-2], known, strict=True)]
