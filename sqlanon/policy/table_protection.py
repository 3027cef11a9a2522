"""How the unsafe cells of tables of statistics are protected: one method with its settings.

The docstring of each class is the manual page of its method: `sqlanon explain cell_key` prints it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from sqlanon.policy.parts import SHARED, Number, OptionalText
from sqlanon.policy.shape import Expected

Seconds = Annotated[Number, Field(gt=0), Expected("a number greater than 0")]
Base = Annotated[int, Field(strict=True, ge=2, le=10**12), Expected("a whole number of at least 2")]


class Suppression(BaseModel):
    """Unsafe cells are hidden, and others with them, until nobody can compute the first.

        protect: {suppression: {search: exact, seconds: 60}}

    The patterns are looked for by linear programs (HiGHS): `exact` finds the one that costs least, or stops at
    `seconds` and tells how far from the least it may be; `heuristic` protects one unsafe cell after the other, then
    publishes again what it can and exchanges cells for others that cost less. `hypercube` looks in the database for
    cubes of cells that protect each other, and hides more. `hierarchical` searches one sub-table after the other from
    the top, for large hierarchies. Whatever these two leave open in the whole table is closed by the heuristic, and the
    audit is always one of all tables.

    What it does not protect: whoever knows much about hidden cells, unless `known_within` says so; releases of the same
    records under other names.
    cite: Fischetti and Salazar 2001, Solving the cell suppression problem on tabular data with linear constraints;
    Giessing and Repsilber 2002 (GHMITER); de Wolf 2002 (HiTaS)
    """

    model_config = SHARED
    search: Literal["by_size", "heuristic", "exact", "hypercube", "hierarchical"] = Field(
        "by_size", description="How the hidden cells are found; 'by_size' is exact up to 5,000 cells."
    )
    seconds: Seconds = Field(60.0, description="How long a better pattern is looked for, once there is one.")
    singletons: Literal["protect", "alone", "ignore"] = Field(
        "protect",
        description="Contributors who know their own amounts are attackers too: those who are alone in a cell or have "
        "the largest part of an unsafe one; 'alone' leaves out the latter.",
    )
    weight: Literal["value", "cells", "log"] = Field(
        "value", description="What hiding a cell costs: its value, 1, or the logarithm of its value."
    )
    zeros: Literal["known", "unknown"] = Field(
        "known", description="Whether everybody knows which cells are empty, so that hiding these helps nobody."
    )
    known_within: Annotated[Number, Field(gt=0), Expected("a number greater than 0")] | None = Field(
        None, description="Everybody knows values up to this share, such as 0.5; only that they are not negative "
        "if left out."
    )  # fmt: skip


class ControlledRounding(BaseModel):
    """Every cell becomes a multiple of the base beside its value, so that all totals are still the sums of their parts.

        protect: {rounding: {base: 5}}

    An integer program (HiGHS) finds the table nearest to the true one; a multiple of the base stays as it is. A reader
    knows each value up to base - 1. For unsafe cells the program leaves as much open above and below as their rules ask
    for, and the table as written is audited with these bounds and all totals. Where no such table exists, cells may go
    one step further; the evidence says so, and readers may know it.

    What it does not protect: that a cell is small. Whoever knows the rules and the program may exclude some of the
    values that the bounds allow. Values must be whole numbers.
    cite: Cox 1987, A constructive procedure for unbiased controlled rounding; Salazar 2008
    """

    model_config = SHARED
    base: Base = Field(description="Values become multiples of it.")
    seconds: Seconds = Field(60.0, description="How long a nearer table is looked for.")


class RandomRounding(BaseModel):
    """Every cell becomes a multiple of the base above or below it by chance, right on average.

        person: person_id
        protect: {random_rounding: {base: 3}}

    A value goes up with probability (value mod base) / base. The draw is a keyed hash of who is in the cell, under
    SQLANON_KEY: the same cell has the same result in every table and release. A cell of nobody stays 0. Totals are
    rounded by themselves, and are not the sums of their parts.

    What it does not protect: a reader knows each value up to base - 1, and closer where totals confine it; the audit
    refuses a table where an unsafe cell is confined to less than its rules ask for. Values must be whole numbers.
    cite: Fellegi 1975, Controlled random rounding; Nargundkar and Saveland 1972
    """

    model_config = SHARED
    base: Base = Field(description="Values become multiples of it.")


class TabularAdjustment(BaseModel):
    """Unsafe cells move away from their value by their level, and others as little as needed for all totals to hold.

        protect: {adjustment: {search: exact, seconds: 60}}

    A mixed integer program (HiGHS) chooses for each unsafe cell whether it moves up or down; the sum of all changes is
    least. `heuristic` takes the directions in turn, the largest level first, and solves one linear program. Counts stay
    whole. An empty cell stays empty, and no cell falls below 0.

    What it does not protect: an unsafe cell that moves by exactly its level has one of two values for whoever knows the
    levels; `sqlanon attack` counts them.
    cite: Dandekar and Cox 2002, Synthetic tabular data; Castro 2006, Minimum-distance controlled perturbation methods
    """

    model_config = SHARED
    search: Literal["exact", "heuristic"] = Field("exact", description="How directions are chosen.")
    seconds: Seconds = Field(60.0, description="How long smaller changes are looked for, once there are some.")
    weight: Literal["cells", "share"] = Field(
        "cells", description="What a change costs: its amount, or its amount as a share of the value."
    )


class CellKey(BaseModel):
    """Counts get noise that depends on who is in the cell: the same people, the same result, in every table.

        person: person_id
        protect: {cell_key: {d: 5, v: 3, js: 2}}

    Each contributor has a record key, 32 bits of a keyed hash under SQLANON_KEY. The sum of the record keys in a cell,
    modulo 2^32, looks up its noise in a perturbation table: for each count a distribution over -d to d with mean 0 and
    variance v that has the greatest entropy, never a negative result, and never one of 1 to js. It exists if v is at
    most d, and at least i * (js + 1 - i) for each i up to js. `ptable` names a CSV file with the columns i, v and p in
    its place: so likely is noise v on count i; the last i serves all larger counts. An empty cell stays 0.

    What it does not protect: totals are not the sums of their parts, and averaging breakdowns of a total comes closer
    to it; `sqlanon attack` measures how close, and what all totals together confine. A cell that is shown as 0 is known
    to be occupied where a total differs from its only other part.
    cite: Fraser and Wooton 2005, A proposed method for confidentialising tabular output to protect against
    differencing; Giessing 2016, Computational issues in the design of transition probabilities
    """

    model_config = SHARED
    d: Annotated[int, Field(strict=True, ge=1, le=1000), Expected("a whole number from 1 to 1000")] | None = Field(
        None, description="The greatest noise."
    )
    v: Annotated[Number, Field(gt=0), Expected("a number greater than 0")] | None = Field(
        None, description="The variance of the noise."
    )
    js: Annotated[int, Field(strict=True, ge=0, le=100), Expected("a whole number from 0 to 100")] = Field(
        0, description="Results from 1 to this number do not occur."
    )
    ptable: OptionalText = Field(None, description="A CSV file with a perturbation table, in place of d, v and js.")

    @model_validator(mode="after")
    def _one_table(self) -> CellKey:
        drawn = self.d is not None or self.v is not None or "js" in self.model_fields_set
        said, hint, at = "", "write {d: 5, v: 3, js: 2}, or {ptable: noise.csv}", ""
        if self.ptable is not None and drawn:
            said, at = "has a perturbation table and numbers to make one from", "ptable"
        elif self.ptable is None and (self.d is None or self.v is None):
            said = "needs d and v, or a perturbation table"
        if said:
            raise PydanticCustomError("policy", "{said}", {"said": said, "hint": hint, "at": at})
        return self


Method = Suppression | ControlledRounding | RandomRounding | TabularAdjustment | CellKey


class Protect(BaseModel):
    """How unsafe cells are protected: one method."""

    model_config = SHARED
    suppression: Annotated[Suppression, Expected("a mapping such as {search: exact, seconds: 60}")] | None = Field(
        None, description="Hide unsafe cells, and others so that the first cannot be computed."
    )
    rounding: Annotated[ControlledRounding, Expected("a mapping such as {base: 5}")] | None = Field(
        None, description="Round all cells so that totals stay sums."
    )
    random_rounding: Annotated[RandomRounding, Expected("a mapping such as {base: 3}")] | None = Field(
        None, description="Round all cells by chance, each by itself."
    )
    adjustment: Annotated[TabularAdjustment, Expected("a mapping such as {search: exact}")] | None = Field(
        None, description="Move unsafe cells by their level, and others so that totals stay sums."
    )
    cell_key: Annotated[CellKey, Expected("a mapping such as {d: 5, v: 3, js: 2}")] | None = Field(
        None, description="Add noise to counts that depends on who is in a cell."
    )

    KEYED: ClassVar[frozenset[str]] = frozenset({"random_rounding", "cell_key"})

    @model_validator(mode="before")
    @classmethod
    def _not_private(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for key in value:
                if str(key).lower() in _PRIVATE:
                    said = f"has no '{key}': noise with a privacy budget is made by the section 'marginals'"
                    hint = "write the counts under 'marginals' in a file of its own; they are charged to the ledger"
                    raise PydanticCustomError("policy", "{said}", {"said": said, "hint": hint, "at": key})
        return value

    @model_validator(mode="after")
    def _one_method(self) -> Protect:
        given = [name for name in METHODS if getattr(self, name) is not None]
        if len(given) != 1:
            said = f"has {' and '.join(given)}" if given else f"needs one of {', '.join(METHODS)}"
            hint = "keep one method: all tables of a policy are protected together" if given else (
                "write for example {suppression: {search: exact}}"
            )  # fmt: skip
            at = given[-1] if given else ""
            raise PydanticCustomError("policy", "{said}", {"said": said, "hint": hint, "at": at})
        return self

    @property
    def name(self) -> str:
        """The method."""
        return next(name for name in METHODS if getattr(self, name) is not None)

    @property
    def method(self) -> Method:
        found: Method = getattr(self, self.name)
        return found

    @property
    def hides(self) -> bool:
        """Whether cells are hidden, and all others are shown as they are."""
        return self.suppression is not None

    @property
    def is_keyed(self) -> bool:
        """Whether it draws from SQLANON_KEY."""
        return self.name in self.KEYED

    @property
    def knowledge(self) -> Suppression:
        """What attackers are taken to know; the methods that change values say nothing of their own about it."""
        return self.suppression or Suppression(search="by_size", singletons="ignore", weight="value")


METHODS: dict[str, type[BaseModel]] = {
    "suppression": Suppression, "rounding": ControlledRounding, "random_rounding": RandomRounding,
    "adjustment": TabularAdjustment, "cell_key": CellKey,
}  # fmt: skip
_PRIVATE = frozenset({"marginals", "dp", "differential_privacy", "laplace", "gaussian", "epsilon", "noise"})
