"""Single cells are suppressed, as few as a greedy search can, and nothing is generalized.

A row whose class breaks a model loses the cells that it takes to be like enough other rows; such rows may have to be
borrowed from classes that hold, and then lose the same cells. Each column has a weight: a step takes the rows for which
the weights of the cells to suppress, over the rows that are helped, are least. A suppressed cell is a value of its own,
alike with suppressed cells only. Rows are suppressed as a whole where that costs less and the limit allows it.

With `suppressed_cells: any_value` in the policy a suppressed cell matches any value, as sdcMicro counts: no row is
borrowed, fewer cells are suppressed, and less is promised. A row is safe if it matches k rows, where two rows match if
they agree in each column or one of them has a suppressed cell there. A row that matches too few loses the cheapest
cells with which it matches enough, and no more while there is time: k - 1 rows without any value match all others, so
that the fewest cells of all would hide nobody.

What `suppressed_cells: any_value` does not protect: whoever knows the suppressed value of a person finds the rows that
fit it, and these may be fewer than k, down to the person's own; the evidence tells how many rows are found like that.
Whoever knows that as few cells as possible are suppressed knows that a cell was hidden because its value is rare. Rows
that match a third row need not match each other: there are no classes of k rows that are all alike.
cite: Hundepool and Willenborg 1996; Templ et al. 2015
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.cells.cell_tables import ALL, Cells, Lending
from sqlanon.cells.matching_cells import MatchingCells
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.relations.matching_classes import matches_any_value, suppressed_labels
from sqlanon.sqltree.tree import count_all, literal, select, table, text

# Costs that differ by less are a tie.
TIE = 1e-9
TOGETHER = 6  # patterns that are worth one statement

TRAITS = AlgorithmTraits(suppresses_cells=True)


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    importance: dict[str, float] | list[str] = Field(
        default_factory=dict,
        description="What a suppressed cell of a column costs, as a number greater than 0; a column that is left out "
        "keeps its weight from the policy. Or a list of all columns, the most important one first: a cell of a column "
        "then costs more than cells of all later columns together.",
    )
    patterns: int = Field(
        1024,
        ge=1,
        description="How many sets of columns are tried as what to suppress, the cheapest first. More sets, "
        "fewer suppressed cells, more time.",
    )


def run(problem: Problem, params: Params) -> Solution:
    costs = weights(problem, params)
    patterns = _patterns(costs, _by_size(problem, costs), params.patterns)
    if matches_any_value(problem.policy):
        return _run_matching(problem, patterns, costs)
    cells = Cells(problem)
    waiting, tried = cells.waiting(), 0
    for lending in _ways(problem):
        if not waiting or (waiting <= problem.limit and tried):
            break
        if lending.size is None:
            cells.lend_whole_classes()
        waiting, more = _round(problem, cells, patterns, costs, lending, waiting)
        tried += more
    if waiting > problem.limit or (problem.records and waiting == problem.records):
        if not cells.place_all():
            raise Infeasible(None)
        waiting = 0
    return _solution(problem, cells, waiting, tried)


def weights(problem: Problem, params: Params) -> list[float]:
    """The cost of a cell for each quasi-identifier."""
    names = [domain.name for domain in problem.domains]
    given = params.importance
    for name in given:
        if name not in names:
            raise PolicyError(
                f"'importance' names '{name}', which is no quasi-identifier", hint=did_you_mean(name, names)
            )
    if isinstance(given, list):
        if given and sorted(given) != sorted(names):
            raise PolicyError(
                "a list for 'importance' must name each quasi-identifier once", hint=f"there are {', '.join(names)}"
            )
        given = {name: float(2**place) for place, name in enumerate(reversed(given))}
    if any(not (0 < cost < math.inf) for cost in given.values()):
        raise PolicyError("the numbers of 'importance' must be greater than 0")
    return [given.get(name, problem.policy.columns[name].weight) for name in names]


def _ways(problem: Problem) -> list[Lending]:
    """How groups may borrow, from what suppresses least to what is sure to find something."""
    whole = [Lending(donors=1), Lending(donors=8), Lending(donors=ALL)]
    counting = all(item.model.bounds_size_alone for item in problem.requirements.models)
    if not counting or problem.compressed.person:
        return whole  # which rows a class can spare is for the models to say
    return [Lending(size=_largest_k(problem)), *whole]


def _largest_k(problem: Problem) -> int:
    models = problem.requirements.models
    return max((int(str(item.params[item.model.bounds.params[0]])) for item in models if item.model.bounds), default=1)


def _round(
    problem: Problem, cells: Cells, patterns: Sequence[int], costs: Sequence[float], lending: Lending, waiting: int
) -> tuple[int, int]:
    """Cheapest first, until no row waits or none can be helped. A pattern that was measured tells what it costs at
    least from then on: the pool only shrinks. Returns the rows that still wait, and how many patterns were measured."""
    price = _prices(patterns, costs)
    root = (1 << len(costs)) - 1
    heap = [(cost, pattern) for pattern, cost in price.items()]
    heapq.heapify(heap)
    every, tried = waiting, 0
    while heap and waiting:
        bound, pattern = heapq.heappop(heap)
        worth = price[root] * (1 + TIE) if waiting <= problem.limit else math.inf  # what suppressing the row costs
        if bound > worth:
            break
        if problem.state.out_of_time() and pattern != root:
            continue
        edge = min(max(bound, heap[0][0] if heap else math.inf), worth) / price[pattern]
        edge = min(edge * (1 + TIE), float(problem.records))
        found, beyond = cells.measure(pattern, edge, lending)
        tried += 1
        if found:
            cells.place(pattern, edge, lending)
            waiting = cells.waiting()
            problem.state.tell("suppressing cells", every - waiting, every)
        if beyond is not None:
            heapq.heappush(heap, (beyond * price[pattern], pattern))
    return waiting, tried


def _run_matching(problem: Problem, patterns: Sequence[int], costs: Sequence[float]) -> Solution:
    """The same where a suppressed cell matches any value. What a row loses is known to be the cheapest if all cheaper
    patterns were tried before, also those that became possible by what others lost."""
    _require_no_marker(problem)
    size = _largest_k(problem)
    if problem.records < size:
        raise Infeasible(None)
    cells, price = MatchingCells(problem, size), _prices(patterns, costs)
    batches, root = _batches(price), (1 << len(costs)) - 1
    every = waiting = cells.waiting()
    tried = place = 0
    while waiting:
        batch = [root] if problem.state.out_of_time() else batches[place]
        found = cells.measure(batch)
        tried += len(batch)
        if not found:
            place += 1
            continue
        cells.place(*_cheapest_step(found, price, float(problem.records)))
        waiting, place = cells.waiting(), 0
        problem.state.tell("suppressing cells", every - waiting, every)
    return replace(_solution(problem, cells, 0, tried), found_by_values=cells.rows_found_by_values())


def _require_no_marker(problem: Problem) -> None:
    """A value that looks like a suppressed cell would match any value, and nothing of it would be hidden."""
    for domain in problem.domains:
        labels = suppressed_labels(domain.name, problem.table.hierarchies)
        own = text(exp.column("original")).isin(*(literal(label) for label in labels))
        if problem.engine.query(select(count_all(), source=table(domain.dictionary), where=own))[0][0]:
            raise PolicyError(
                f"'{domain.name}' has a value that looks like a suppressed cell: {' or '.join(map(repr, labels))}",
                hint="spell it otherwise in a view or 'query:', or take 'suppressed_cells: own_value'",
            )


def _batches(price: Mapping[int, float]) -> list[list[int]]:
    """Patterns to be measured together, cheapest first; those of one price are never parted.

    >>> _batches({1: 1.0, 2: 1.0, 3: 2.0})
    [[1, 2, 3]]
    """
    found: list[list[int]] = []
    for pattern in sorted(price, key=lambda pattern: (price[pattern], pattern)):
        if found and (len(found[-1]) < TOGETHER or _is_tie(price[pattern], price[found[-1][-1]])):
            found[-1].append(pattern)
        else:
            found.append([pattern])
    return found


def _cheapest_step(
    found: Sequence[tuple[int, float, int]], price: Mapping[int, float], most: float
) -> tuple[int, float]:
    """Of the patterns that cost least, the one that helps most rows for each that loses it, and up to which ratio: as
    long as no other pattern does better."""
    least = min(price[pattern] for pattern, *_ in found)
    best = sorted((ratio, -helped, pattern) for pattern, ratio, helped in found if _is_tie(price[pattern], least))
    return best[0][2], best[1][0] * (1 + TIE) if len(best) > 1 else most


def _is_tie(one: float, other: float) -> bool:
    return abs(one - other) <= TIE * max(one, other)


def _prices(patterns: Sequence[int], costs: Sequence[float]) -> dict[int, float]:
    return {pattern: sum(cost for i, cost in enumerate(costs) if pattern >> i & 1) for pattern in patterns}


def _solution(problem: Problem, cells: Cells | MatchingCells, waiting: int, tried: int) -> Solution:
    rows = cells.rows_by_pattern()
    each = {
        domain.name: sum(count for pattern, count in rows.items() if pattern >> i & 1)
        for i, domain in enumerate(problem.domains)
    }
    own = {domain.name: problem.policy.columns[domain.name].weight for domain in problem.domains}
    lost = sum(own[domain.name] * each[domain.name] for domain in problem.domains if domain.leaves > 1)
    lost += waiting * sum(own.values())
    shown = ", ".join(f"{name} {count}" for name, count in each.items() if count) or "none"
    return Solution(
        loss=lost / (problem.records * sum(own.values())) if problem.records else 0.0,
        suppressed=waiting,
        why=f"{sum(each.values())} cells suppressed ({shown})",
        regions=cells.regions(),
        checks=tried,
    )


def _by_size(problem: Problem, costs: Sequence[float]) -> list[int]:
    """Columns from the one that tells rows apart most for its weight."""
    return sorted(
        range(len(costs)), key=lambda i: (costs[i] / max(math.log(max(problem.domains[i].leaves, 2)), 0.1), i)
    )


def _patterns(costs: Sequence[float], order: Sequence[int], limit: int) -> list[int]:
    """The cheapest sets of columns; where there are too many, also a chain of sets that ends with all columns.

    >>> _patterns([1.0, 2.0, 4.0], [0, 1, 2], 4)
    [1, 2, 3, 4, 7]
    """
    found = [pattern for pattern, _ in zip(_cheapest(costs), range(limit), strict=False)]
    chain, whole = [], 0
    for i in order:
        whole |= 1 << i
        chain.append(whole)
    return list(dict.fromkeys([*found, *chain]))


def _cheapest(costs: Sequence[float]) -> Iterator[int]:
    """All sets of columns but the empty one, in the order of their costs, made as they are asked for."""
    order = sorted(range(len(costs)), key=lambda i: (costs[i], i))
    heap = [(costs[order[0]], 1 << order[0], 0)]
    while heap:
        cost, pattern, last = heapq.heappop(heap)
        yield pattern
        if last + 1 < len(order):
            own, following = order[last], order[last + 1]
            heapq.heappush(heap, (cost + costs[following], pattern | 1 << following, last + 1))
            swapped = pattern ^ 1 << own | 1 << following
            heapq.heappush(heap, (cost + costs[following] - costs[own], swapped, last + 1))
