"""Categories are changed at random, with known probabilities (post-randomization, PRAM).

    transformations:
      - pram: {columns: [job], keep: 0.8, invariant: true}
      - pram:
          columns: [smoker]
          matrix: {yes: {yes: 0.9, no: 0.1}, no: {yes: 0.1, no: 0.9}}

`matrix` gives the probability of each new value for each old one; its rows add up to 1, and every value of the column
has a row. `keep` stands for the matrix that keeps a value with this probability, and changes it to any other value of
the column with equal ones. With `invariant` the matrix is put together with its own reversal, so that the distribution
of the column is kept on average, without any correction by the reader; fewer values stay unchanged then than `keep`
says. NULL stays NULL. Each row has its own draw, which is the same in every release.

What it does not protect: a value that is kept with a high probability is still most likely the true one; ask for
`random_replacement` with `rho1` and `rho2` for a bound on what is learned. Combinations with other columns may give a
changed value away, such as a pregnant man.
cite: Gouweleeuw, Kooiman, Willenborg and de Wolf 1998
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field, field_validator, model_validator
from sqlglot import exp

from sqlanon.sqltree.tree import DOUBLE, TEXT, table
from sqlanon.transformations import Changed, DataCheck, File, Given, Make, Step
from sqlanon.transformations._lookup import (
    Label,
    forbid_unlisted,
    inline_rows,
    marginals,
    move_values,
    require_categories,
)
from sqlanon.transformations._params import Base, Columns, Number

MOST_VALUES = 200  # of a column: the matrix has so many rows, and so many columns
TOLERANCE = 1e-9


class Params(Base):
    columns: Columns = Field(description="Columns of categories: text, integers, booleans or dates.")
    keep: Number | None = Field(None, gt=0, lt=1, description="Probability that a value stays as it is.")
    matrix: dict[Label, dict[Label, Number]] | None = Field(
        None, description="For each value the probabilities of what it becomes; each row adds up to 1."
    )
    invariant: bool = Field(False, strict=True, description="Keep the distribution of the column on average.")

    @field_validator("matrix")
    @classmethod
    def _is_stochastic(cls, matrix: dict[str, dict[str, float]] | None) -> dict[str, dict[str, float]] | None:
        for source, row in (matrix or {}).items():
            for target, share in row.items():
                if not 0 <= share <= 1:
                    raise ValueError(f"the probability {share:g} of '{source}' to '{target}' is not between 0 and 1")
                if target not in (matrix or {}):
                    raise ValueError(f"'{source}' may become '{target}', which has no row of its own; add one")
            if abs(sum(row.values()) - 1) > TOLERANCE:
                raise ValueError(f"the row of '{source}' adds up to {sum(row.values()):g}, not to 1")
        if matrix is not None and len(matrix) < 2:
            raise ValueError("a matrix has at least two values")
        if matrix and all(row.get(source) == 1 for source, row in matrix.items()):
            raise ValueError("the matrix changes nothing; let some value become another one")
        return matrix

    @model_validator(mode="after")
    def _one_of(self) -> Params:
        if (self.keep is None) == (self.matrix is None):
            raise ValueError("give either 'keep' or 'matrix'")
        return self


uses_secret = True


def change(params: Params, given: Given) -> Changed:
    require_categories(given, params.columns)
    steps: list[Step] = []
    labels: list[str] = []
    for place, name in enumerate(params.columns, start=1):
        prefix = given.name(f"column_{place}")
        counts, moves = f"{prefix}_counts", f"{prefix}_moves"
        steps += [marginals(given, name, counts), *_possible(params, name, counts), _matrix(params, counts, moves)]
        if params.invariant:
            relations = {"moves": moves, "marginals": counts}
            moves = f"{prefix}_invariant"
            steps.append(Make(moves, File("pram_invariant", {}, relations)))
        made = move_values(given, name, moves, prefix)
        steps += made.steps
        labels += made.seeds
        given = replace(given, rows=made.rows)
    return Changed(given.rows, steps, labels)


def _possible(params: Params, name: str, counts: str) -> list[Step]:
    if params.matrix is not None:
        return [forbid_unlisted(counts, params.matrix, name, "the matrix")]
    size = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(table(counts)).subquery(alias="c")
    n = exp.column("n")
    ask = exp.select(exp.convert(1)).from_(size)
    return [
        DataCheck(
            ask.where(exp.LT(this=n, expression=exp.convert(2))), f"'{name}' has fewer than two values", "take it out"
        ),
        DataCheck(
            ask.where(exp.GT(this=n.copy(), expression=exp.convert(MOST_VALUES))),
            f"'{name}' has more than {MOST_VALUES} values",
            "group its values first, or take 'random_replacement', which has no such limit",
        ),
    ]


def _matrix(params: Params, counts: str, made: str) -> Make:
    if params.matrix is None:
        return Make(made, File("pram_keep", {"keep": params.keep}, {"marginals": counts}))
    rows = [(source, target, p) for source, row in params.matrix.items() for target, p in row.items()]
    return Make(made, inline_rows(rows, ["source", "target", "p"], [TEXT, TEXT, DOUBLE]))
