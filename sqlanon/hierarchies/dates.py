"""Dates and times become longer and longer periods: 2024-03-05 -> 2024-03 -> 2024-Q1 -> 2024 -> 2020s -> *.

    hierarchies:
      born:
        dates: {levels: [month, year]}

`levels` names periods from short to long: hour, day, week, month, quarter, year, decade; the level after the
last is the root. `hour` and `day` are for timestamps, such as the visits of journeys.

Weeks do not nest in months. So with `week` every longer period is that of the Thursday of the week, as ISO 8601
has it for years: 2024-12-30 -> 2025-W01 -> 2025-01 -> 2025. A week then lies in one month, the one that has most
of its days, and the days at the ends of a month may be shown as the month beside it.

It takes DATE and TIMESTAMP columns. A TIMESTAMP WITH TIME ZONE falls on the day that the time zone of the
session says: convert it to a fixed zone first. NULL stays NULL below the root; the infinities are "not a
date". Years have as many digits as they need. Before year 1, a year is the number that the engine gives: 44
BC is -43 for DuckDB, which counts a year 0, and -44 for PostgreSQL, which does not; the decade "-50s" is
the years -50 to -41.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator
from sqlglot import exp

from sqlanon.hierarchies import Hierarchy, Level
from sqlanon.hierarchies._levels import root
from sqlanon.sqltree.labels import call, join_text, string, text

Period = Literal["hour", "day", "week", "month", "quarter", "year", "decade"]
PERIODS: tuple[Period, ...] = get_args(Period)
NOT_A_DATE = "not a date"


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    levels: tuple[Period, ...] = Field(
        ("month", "quarter", "year", "decade"), min_length=1, description="The periods, from short to long."
    )

    @field_validator("levels")
    @classmethod
    def _from_short_to_long(cls, levels: tuple[Period, ...]) -> tuple[Period, ...]:
        ordered = tuple(period for period in PERIODS if period in levels)
        if levels != ordered:
            raise ValueError(f"name each period once, from short to long: [{', '.join(ordered)}]")
        return levels


def _part(name: str, column: exp.Expr) -> exp.Expr:
    return exp.Extract(this=exp.var(name), expression=column.copy())


def _whole(value: exp.Expr) -> exp.Expr:
    return text(exp.cast(value, "INT"))


def _two_digits(name: str, column: exp.Expr) -> exp.Expr:
    return call("LPAD", _whole(_part(name, column)), 2, "0")


def _period(period: Period, column: exp.Expr) -> exp.Expr:
    """The label of a finite date.

    >>> _period("quarter", exp.column("born")).sql("duckdb")
    "CAST(CAST(EXTRACT(YEAR FROM born) AS INT) AS TEXT) || '-Q' || CAST(CAST(EXTRACT(QUARTER FROM born) AS INT) AS TEXT)"
    """  # noqa: E501 - the SQL is shown as it is
    year = _whole(_part("YEAR", column))
    if period == "hour":
        hours = _two_digits("HOUR", exp.cast(column.copy(), "timestamp"))
        return join_text(_period("day", column), " ", hours, "h")
    if period == "week":
        return join_text(year, "-W", _two_digits("WEEK", column))
    if period == "day":
        return join_text(year, "-", _two_digits("MONTH", column), "-", _two_digits("DAY", column))
    if period == "month":
        return join_text(year, "-", _two_digits("MONTH", column))
    if period == "quarter":
        return join_text(year, "-Q", _whole(_part("QUARTER", column)))
    if period == "year":
        return year
    tens = call("FLOOR", _part("YEAR", column) / exp.Literal.number("10.0"))
    return join_text(_whole(tens * 10), "s")


def _thursday(column: exp.Expr) -> exp.Expr:
    """The day that says to which month and year a week belongs.

    >>> _thursday(exp.column("born")).sql("postgres")
    "DATE_TRUNC('WEEK', CAST(born AS TIMESTAMP)) + INTERVAL '3 DAY'"
    """
    monday = exp.TimestampTrunc(this=exp.cast(column.copy(), "timestamp"), unit=exp.var("WEEK"))
    return exp.Add(this=monday, expression=exp.Interval(this=exp.Literal.string("3"), unit=exp.var("DAY")))


def _level(period: Period, *, by_weeks: bool) -> Level:
    def label(column: exp.Expr) -> exp.Expr:
        # Infinity has no month; for PostgreSQL its year is infinite, which cannot be cast.
        finite = _part("MONTH", column).is_(exp.null()).not_()
        known = column.is_(exp.null()).not_()
        return (
            exp.case()
            .when(finite, _period(period, _thursday(column) if by_weeks else column))
            .when(known, string(NOT_A_DATE))
        )

    return label


def build(params: Params, base: Path) -> Hierarchy:
    long = PERIODS[PERIODS.index("week") :] if "week" in params.levels else ()
    levels = tuple(_level(period, by_weeks=period in long) for period in params.levels)
    return Hierarchy(height=len(levels) + 1, levels=(*levels, root("*")))
