"""US ZIP codes, as HIPAA Safe Harbor asks: 13053 -> 130** -> *.

    hierarchies:
      zip:
        zip3:
          population: {table: census.zcta, zip: zcta5, people: total}

Level 1 is the first three digits. An area of three digits in which at most `threshold` people live is
"000**" (45 CFR 164.514(b)(2)(i)(B)); so is an area that the table does not know. `population` names a
table, or a query, with one row for each ZIP code of five digits and the people who live there; with
`digits: 3`, for each area. Codes must be text: rows whose code has not as many digits are not counted,
which at worst makes more areas "000**".

It is a lookup of all codes from 00000 to 99999. NULL and all other text, such as ZIP+4 or a code that lost
its leading zeros, are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.hierarchies import Hierarchy
from sqlanon.hierarchies._source import TableSource, column
from sqlanon.hierarchies._values import Integer
from sqlanon.sqltree.labels import call, join_text, number, string, text

ROOT = "*"
SMALL_AREA = "000**"


class Population(TableSource):
    zip: str = Field("zip", min_length=1, description="The column with the ZIP code.")
    people: str = Field("population", min_length=1, description="The column with the number of people.")
    digits: Literal[3, 5] = Field(5, description="How many digits the codes of this table have.")


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    population: Population = Field(description="How many people live where.")
    threshold: Integer = Field(20000, ge=0, description="Areas with at most so many people are not told.")


def _codes() -> exp.Select:
    """All codes of five digits, with their area."""
    digits = [(digit,) for digit in "0123456789"]
    places = [exp.column("digit", table=f"place_{place}") for place in range(1, 6)]
    query = exp.select(exp.alias_(join_text(*places), "zip"), exp.alias_(join_text(*places[:3]), "area")).from_(
        exp.values(digits, alias="place_1", columns=["digit"])
    )
    for place in range(2, 6):
        query = query.join(exp.values(digits, alias=f"place_{place}", columns=["digit"]), join_type="cross")
    return query


def _areas(population: Population) -> exp.Select:
    """How many people live in each area of three digits."""
    code = text(column(population.zip))
    area = call("SUBSTRING", code, 1, 3)
    well_formed = exp.RegexpLike(this=code.copy(), expression=string(f"^[0-9]{{{population.digits}}}$"))
    return (
        exp.select(exp.alias_(area, "area"), exp.alias_(exp.Sum(this=column(population.people)), "people"))
        .from_(population.relation("source"))
        .where(well_formed)
        .group_by(area)
    )


def build(params: Params, base: Path) -> Hierarchy:
    known = exp.column("people", table="areas") > number(params.threshold)
    area = exp.column("area", table="codes")
    # An unknown area has NULL people, which is not above the threshold.
    label = exp.case().when(known, join_text(area, "**")).else_(string(SMALL_AREA))
    relation = (
        exp.select(
            exp.alias_(exp.column("zip", table="codes"), "level_0"),
            exp.alias_(label, "level_1"),
            exp.alias_(text(string(ROOT)), "level_2"),
        )
        .from_(_codes().subquery("codes"))
        .join(
            _areas(params.population).subquery("areas"),
            on=area.eq(exp.column("area", table="areas")),
            join_type="left",
        )
    )
    return Hierarchy(height=2, root=ROOT, relation=relation)
