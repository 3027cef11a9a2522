"""Offline audit: whether the exact answers that were given, taken together, determine what belongs to one person.

The database sorts persons into classes: those who have the same number of rows in every group of every query set that
was answered. Persons of a class appear in sums together or not at all, so that an answer is a sum over classes: a row
of a matrix, one for each column that was summed and one for all counts. A class of one person is exposed if the rows
combine to that class alone, which is computed exactly, in fractions; a count then shows that it is one person.

The same is asked of every group that the controls withheld, and of the withheld groups inside an answered one together:
whether the rows combine to it, so that margins less what was answered give it back.

What is reported are the answers that do it, and how many persons or withheld groups they expose, never who. Query sets
are read from today's data. With one row a person the result is exact. Where persons have several rows, a row is taken
for as good as another row of the same person: what two answers tell of different rows of a person is put together as if
it were one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction

import sqlglot
from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import EngineError
from sqlanon.gateway.bind.values import UNIT
from sqlanon.gateway.controls.query_sets import QuerySet, earlier_sets
from sqlanon.ledger import Ledger

MAX_CLASSES = 20_000
COUNTS = ("count", "persons")

Cell = tuple[int, int]  # a query set, and a group of it
Line = dict[int, Fraction]  # a row of the matrix, by class; and how it was combined
Row = tuple[tuple[int, int], ...]  # the same of integers


@dataclass(frozen=True)
class Exposure:
    """Answers that determine what belongs to some persons."""

    measure: str  # "count", or the column that was summed
    events: tuple[int, ...]  # of the ledger
    persons: int
    pair: bool  # one query set less another
    withheld: int = 0  # groups that the controls withheld, each of which these answers give back
    together: int = 1  # so many of them added up, where that is what is given back


@dataclass(frozen=True)
class Audit:
    """What the exact answers of a principal give away together; of all principals, as if they talked, for None."""

    principal: str | None
    answers: int
    query_sets: int
    exposures: tuple[Exposure, ...] = ()
    stale: int = 0  # answers from data of another version than the last one

    @property
    def persons(self) -> int:
        """Most persons that are exposed in one measure."""
        total: Counter[str] = Counter()
        for exposure in self.exposures:
            total[exposure.measure] += exposure.persons
        return max(total.values(), default=0)


def audit_principal(engine: Engine, ledger: Ledger, principal: str | None) -> Audit:
    """Audit the exact answers of a principal; of all of them together for None."""
    asked = list(earlier_sets(ledger, principal))
    events = {each.event: each.version for each in asked}
    if not asked:
        return Audit(principal, 0, 0)
    latest = asked[-1].version
    # Of older data it is not known any more which groups were hidden to protect others: all count as answered.
    asked = [each if each.version == latest else replace(each, hidden=()) for each in asked]
    distinct = list(dict.fromkeys((each.held, each.hidden) for each in asked))
    first = {(each.held, each.hidden): each for each in reversed(asked)}
    together = {at for at, held in enumerate(distinct) if first[held].family}
    classes, hidden = _classes(engine, [first[held] for held in distinct])
    exposures: list[Exposure] = []
    for measure in sorted({_measure(told) for each in asked for told in each.measures}):
        answers = [
            (distinct.index((each.held, each.hidden)), told == "persons", each.event)
            for each in asked
            for told in each.measures
            if _measure(told) == measure
        ]
        exposures += _exposed(measure, answers, classes, hidden, together)
    stale = sum(version != asked[-1].version for version in events.values())
    return Audit(principal, len(events), len(distinct), tuple(exposures), stale)


def lines(report: Audit) -> list[str]:
    """The report for people.

    >>> found = Exposure("visits.cost", (3, 5), 1, pair=True)
    >>> for line in lines(Audit("ann", 4, 5, (found,))): print(line)
    ann: 4 exact answers about 5 query sets
      visits.cost: 1 person is exposed by the difference of the answers 3 and 5
    """
    who = report.principal if report.principal is not None else "all principals together"
    made = [f"{who}: {_many(report.answers, 'exact answer')} about {_many(report.query_sets, 'query set')}"]
    if report.stale:
        made.append(f"  {_many(report.stale, 'answer')} of other data: read again from those of today")
    for each in report.exposures:
        by = ", ".join(map(str, each.events[:-1])) + (" and " if len(each.events) > 1 else "") + str(each.events[-1])
        kind = "the difference of " if each.pair else ""
        answers = "the answer" if len(each.events) == 1 else "the answers"
        made.append(f"  {each.measure}: {_whom(each)} exposed by {kind}{answers} {by}")
    if not report.exposures:
        made.append("  no person is exposed")
    return made


def _whom(each: Exposure) -> str:
    if not each.withheld:
        return f"{each.persons} {'person is' if each.persons == 1 else 'persons are'}"
    if each.together > 1:
        return f"the sum of {each.together} withheld groups is"
    return f"{each.withheld} withheld {'group is' if each.withheld == 1 else 'groups are'}"


def _many(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _measure(told: str) -> str:
    return "count" if told in COUNTS else told


# ---- in the database


def _classes(engine: Engine, sets: Sequence[QuerySet]) -> tuple[list[tuple[dict[Cell, int], int]], set[Cell]]:
    """Classes of persons: their rows in each group of each query set, and how many persons they are; and the groups
    that were withheld."""
    parts: exp.Query | None = None
    for place, each in enumerate(sets):
        keys = [exp.column(f"k{at}") for at in range(each.keys)]
        rank = exp.Window(this=exp.DenseRank(), order=exp.Order(expressions=keys), over="OVER")
        group = rank if keys else exp.Literal.number(1)
        held = _held(each)
        part = exp.Select().select(UNIT, f"{place} AS q", exp.alias_(group, "g"), "n", "ok")
        part = part.from_(held.subquery("held"))
        parts = part if parts is None else exp.Union(this=parts, expression=part, distinct=False)
    assert parts is not None
    # PostgreSQL and DuckDB agree on this text.
    cell = " || ':' || ".join(f"CAST({name} AS TEXT)" for name in ("q", "g", "n", "ok"))
    signature = sqlglot.parse_one(f"STRING_AGG({cell}, ' ' ORDER BY q, g)", read="postgres")
    persons = exp.Select().select(exp.alias_(signature, "s")).from_(parts.subquery("p")).group_by(UNIT)
    counted = exp.Select().select("s", "COUNT(*)").from_(persons.subquery("c")).group_by("s").limit(MAX_CLASSES + 1)
    found = engine.query(counted)
    if len(found) > MAX_CLASSES:
        raise EngineError(f"the answers sort persons into more than {MAX_CLASSES} classes", hint="audit one principal")
    classes, withheld = [], set()
    for text, size in sorted(found):
        cells = [tuple(map(int, cell.split(":"))) for cell in text.split()]
        classes.append(({(q, g): n for q, g, n, _ in cells}, int(size)))
        withheld |= {(q, g) for q, g, _, ok in cells if not ok}
    return classes, withheld


def _held(each: QuerySet) -> exp.Select:
    """Persons with their rows; without keys the answer was given as a whole, and there is nothing to judge again."""
    tree = sqlglot.parse_one(each.relation if not each.keys else each.held, read=each.dialect)
    assert isinstance(tree, exp.Select)
    if each.keys:
        return _without_hidden(tree, each) if each.hidden else tree
    rows = tree.where(sqlglot.parse_one(each.present, read=each.dialect)).subquery("r")
    shown = exp.alias_(exp.Literal.number(int(not each.hidden)), "ok")
    return exp.Select().select(UNIT, "COUNT(*) AS n", shown).from_(rows).group_by(UNIT)


def _without_hidden(tree: exp.Select, each: QuerySet) -> exp.Select:
    """The same persons; groups that were hidden to protect others were not let out either."""
    keys = [exp.column(f"k{at}") for at in range(each.keys)]
    rank = exp.Window(this=exp.DenseRank(), order=exp.Order(expressions=keys), over="OVER")
    placed = exp.Select().select("*", exp.alias_(rank, "place_")).from_(tree.subquery("held_"))
    inside = exp.In(this=exp.column("place_"), expressions=[exp.Literal.number(place) for place in each.hidden])
    shown = exp.Case().when(inside, exp.Literal.number(0)).else_(exp.column("ok"))
    chosen = [key.copy() for key in keys]
    return exp.Select().select(UNIT, *chosen, "n", exp.alias_(shown, "ok")).from_(placed.subquery("placed_"))


# ---- linear algebra


def _exposed(
    measure: str,
    answers: Sequence[tuple[int, bool, int]],
    classes: Sequence[tuple[dict[Cell, int], int]],
    withheld: Set[Cell],
    together: Set[int] = frozenset(),
) -> list[Exposure]:
    """The exposures among answers: query set, whether it counts persons and not rows, and event. What query sets of
    `together` hide was decided by all that they show: the sum of several of their groups may be known."""
    rows: dict[Row, int] = {}  # by class; the event that told it first
    secrets: dict[int, dict[Row, None]] = defaultdict(dict)  # withheld groups by query set
    by_set: dict[int, list[int]] = defaultdict(list)
    for at, (cells, _) in enumerate(classes):
        for place in {q for q, _ in cells}:
            by_set[place].append(at)
    for place, heads, event in answers:
        groups: dict[int, dict[int, int]] = defaultdict(dict)
        for at in by_set[place]:
            for (q, g), n in classes[at][0].items():
                if q == place:
                    groups[g][at] = 1 if heads else n
        for g, row in groups.items():
            if (place, g) in withheld:
                secrets[place][tuple(sorted(row.items()))] = None
            else:
                rows.setdefault(tuple(sorted(row.items())), event)
    matrix, events = [dict(row) for row in rows], list(rows.values())
    alone = {at for at, (_, size) in enumerate(classes) if size == 1}
    reduced = _reduced(matrix)
    found: Counter[tuple[tuple[int, ...], bool]] = Counter()
    for used in _isolated(matrix, reduced, alone).values():
        told = tuple(sorted({events[row] for row in used}))
        found[told, len(used) == 2 and _nested(matrix, used)] += 1
    made = [Exposure(measure, told, persons, pair) for (told, pair), persons in sorted(found.items())]
    alone_ = [list(each) for place, each in secrets.items() if place not in together]
    shared = [list(each) for place, each in secrets.items() if place in together]
    return made + _given_back(measure, matrix, events, reduced, alone_, shared)


def _given_back(
    measure: str,
    matrix: Sequence[dict[int, int]],
    events: Sequence[int],
    reduced: Sequence[tuple[Line, Line]],
    secrets: Sequence[Sequence[Row]],
    shared: Sequence[Sequence[Row]] = (),
) -> list[Exposure]:
    """Withheld groups that rows combine to; and those inside an answered group, together, if not one by one."""
    echelon = {next(iter(row)): (row, used) for row, used in _by_pivot(reduced)}
    singles: Counter[tuple[int, ...]] = Counter()
    unions: Counter[tuple[tuple[int, ...], int]] = Counter()
    known: set[Row] = set()
    for row in dict.fromkeys(row for listed in (*secrets, *shared) for row in listed):
        if (used := _combined(dict(row), echelon)) is not None:
            known.add(row)
            singles[tuple(sorted({events[each] for each in used}))] += 1
    asked = {tuple(sorted(each.items())) for each in matrix}
    for listed in secrets:
        for around in matrix:
            inside = [row for row in listed if row not in known and {at for at, _ in row} <= set(around)]
            total: Counter[int] = Counter()
            for row in inside:
                total.update(dict(row))
            union = tuple(sorted(total.items()))
            if len(inside) < 2 or union in asked or union in known:
                continue  # a margin that was answered as such was judged as such
            if (used := _combined(dict(total), echelon)) is not None:
                known.add(union)
                unions[tuple(sorted({events[each] for each in used})), len(inside)] += 1
    found = [Exposure(measure, told, 0, False, withheld=number) for told, number in sorted(singles.items())]
    return found + [Exposure(measure, told, 0, False, n, together) for (told, together), n in sorted(unions.items())]


def _by_pivot(reduced: Sequence[tuple[Line, Line]]) -> Iterator[tuple[Line, Line]]:
    """Rows of the reduced echelon form with their pivots first: the class that is in no other row."""
    seen = Counter(at for row, _ in reduced for at in row)
    for row, used in reduced:
        pivot = next(at for at in row if seen[at] == 1 and row[at] == 1)
        yield {pivot: row[pivot], **row}, used


def _combined(wanted: Mapping[int, int], echelon: Mapping[int, tuple[Line, Line]]) -> list[int] | None:
    """The rows of the matrix that combine to a vector, or None if they do not."""
    left: Line = {at: Fraction(value) for at, value in wanted.items()}
    used: Line = {}
    for pivot in [at for at in left if at in echelon]:
        factor = Fraction(wanted[pivot])
        _subtract(left, echelon[pivot][0], factor)
        _subtract(used, echelon[pivot][1], -factor)
    return sorted(used) if not left else None


def _nested(matrix: Sequence[dict[int, int]], used: Sequence[int]) -> bool:
    one, other = (set(matrix[row]) for row in used)
    return one < other or other < one


def _isolated(
    matrix: Sequence[dict[int, int]], reduced: Sequence[tuple[Line, Line]], wanted: Iterable[int]
) -> dict[int, list[int]]:
    """The wanted columns that rows combine to alone, each with rows that do.

    A vector of one 1 lies in the row space if and only if it is a row of the reduced echelon form.
    """
    direct = _by_pairs(matrix)
    isolated: dict[int, list[int]] = {}
    echelon = {at: used for row, used in reduced if len(row) == 1 for at in row}
    for at in sorted(set(wanted) & set(echelon)):
        isolated[at] = direct.get(at) or _fewer(matrix, at, sorted(echelon[at]))
    return isolated


def _by_pairs(matrix: Sequence[dict[int, int]]) -> dict[int, list[int]]:
    """Columns that one row is alone, or the difference of two rows."""
    found: dict[int, list[int]] = {}
    for one, row in enumerate(matrix):
        if len(row) == 1:
            found.setdefault(next(iter(row)), [one])
    for one, row in enumerate(matrix):
        for other in range(one):
            differ = dict(row.items() ^ matrix[other].items())
            if len(differ) == 1:
                found.setdefault(next(iter(differ)), [other, one])
    return found


def _fewer(matrix: Sequence[dict[int, int]], at: int, used: list[int]) -> list[int]:
    """Leave out rows that are not needed."""
    for row in list(used):
        rest = [each for each in used if each != row]
        if any(list(line) == [at] for line, _ in _reduced([matrix[each] for each in rest])):
            used = rest
    return used


def _reduced(matrix: Sequence[dict[int, int]]) -> list[tuple[Line, Line]]:
    """The reduced echelon form: rows, each with the rows of the matrix that it is combined of."""
    done: dict[int, tuple[Line, Line]] = {}  # by pivot
    for number, given in enumerate(matrix):
        row: Line = {at: Fraction(value) for at, value in given.items()}
        used: Line = {number: Fraction(1)}
        for pivot in [at for at in row if at in done]:
            factor = row[pivot]
            _subtract(row, done[pivot][0], factor)
            _subtract(used, done[pivot][1], factor)
        if not row:
            continue
        pivot = next(iter(row))
        factor = row[pivot]
        row, used = ({at: value / factor for at, value in line.items()} for line in (row, used))
        for line, combined in done.values():
            if (factor := line.get(pivot, Fraction(0))) != 0:
                _subtract(line, row, factor)
                _subtract(combined, used, factor)
        done[pivot] = (row, used)
    return list(done.values())


def _subtract(line: Line, other: Line, factor: Fraction) -> None:
    for at, value in other.items():
        left = line.get(at, Fraction(0)) - factor * value
        if left:
            line[at] = left
        else:
            line.pop(at, None)
