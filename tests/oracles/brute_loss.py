"""Loss metrics computed in plain Python from their definitions: the oracle that the SQL is compared with.

A release is a list of pairs (original row, released row), the released row None where it is suppressed. Two
metrics also look at what was suppressed: they take triples (original row, generalized row, kept).
`hierarchies` maps a column, then an original value, to the tuple of its labels from level 0 (the value) to
the root. The level of a cell is the lowest one at which its label stands above the original value; a
suppressed cell counts as the root. A column of which nothing can be lost (one leaf, or one level) loses
nothing. Results are exact fractions unless a logarithm is taken.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]
Pairs = Sequence[tuple[Row, Row | None]]
Triples = Sequence[tuple[Row, Row, bool]]
Columns = Sequence[str]
Hierarchy = Mapping[Any, Sequence[Any]]
Hierarchies = Mapping[str, Hierarchy]


# What the metrics share


def released(triples: Triples) -> list[tuple[Row, Row | None]]:
    """The release that is published: suppressed rows are gone."""
    return [(original, generalized if kept else None) for original, generalized, kept in triples]


def generalized(triples: Triples) -> list[tuple[Row, Row | None]]:
    """The release that would be published if nothing were suppressed."""
    return [(original, row) for original, row, _ in triples]


def cells(pairs: Pairs, column: str, hierarchy: Hierarchy) -> Iterator[tuple[int, int]]:
    """The level of each cell and the number of leaves that its label stands for."""
    leaves = Counter((level, label) for path in hierarchy.values() for level, label in enumerate(path))
    for original, row in pairs:
        path = hierarchy[original[column]]
        if row is None:
            yield len(path) - 1, len(hierarchy)
        else:
            level = list(path).index(row[column])
            yield level, leaves[level, row[column]]


def tree_height(hierarchy: Hierarchy) -> int:
    return max(map(len, hierarchy.values())) - 1


def class_sizes(rows: Sequence[Row], columns: Columns) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[column] for column in columns) for row in rows)


def kept_classes(pairs: Pairs, columns: Columns) -> Counter[tuple[Any, ...]]:
    return class_sizes([row for _, row in pairs if row is not None], columns)


def mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values) if values else Fraction(0)


# What happened to each cell


def minimal_distortion(pairs: Pairs, columns: Columns, hierarchies: Hierarchies) -> int:
    """Samarati 2001: one unit for each level that a cell was raised."""
    return sum(level for column in columns for level, _ in cells(pairs, column, hierarchies[column]))


def iloss(pairs: Pairs, columns: Columns, hierarchies: Hierarchies) -> Fraction:
    """Xiao and Tao 2006: (leaves - 1)/|D| summed over the cells, all weights 1."""
    return sum(
        (
            Fraction(leaves - 1, len(hierarchies[column]))
            for column in columns
            for _, leaves in cells(pairs, column, hierarchies[column])
        ),
        Fraction(0),
    )


def ncp_by_column(pairs: Pairs, columns: Columns, hierarchies: Hierarchies) -> dict[str, Fraction]:
    """Xu et al. 2006: the mean of (leaves - 1)/(|D| - 1). ARX's createLossMetric(RANK) sorts these down."""
    found = {}
    for column in columns:
        lost = sum(leaves - 1 for _, leaves in cells(pairs, column, hierarchies[column]))
        most = len(pairs) * (len(hierarchies[column]) - 1)
        found[column] = Fraction(lost, most) if most else Fraction(0)
    return found


def ncp(pairs: Pairs, columns: Columns, hierarchies: Hierarchies) -> Fraction:
    return mean(list(ncp_by_column(pairs, columns, hierarchies).values()))


def ncp_geometric(pairs: Pairs, columns: Columns, hierarchies: Hierarchies) -> float:
    """prod(1 + x_a)^(1/m) - 1: ARX's createLossMetric()."""
    found = ncp_by_column(pairs, columns, hierarchies)
    return float(math.prod(1 + x for x in found.values())) ** (1 / len(found)) - 1


def precision(pairs: Pairs, columns: Columns, hierarchies: Hierarchies) -> Fraction:
    """Sweeney 2002 (1 - Prec): the mean of level/height. Of a single row, this is also the distortion of
    Sattar et al. 2013.

    ARX: createPrecisionMetric(false) is this; createPrecisionMetric(true) leaves suppression out of account,
    which is this on `generalized(triples)`.
    """
    found = []
    for column in columns:
        raised = sum(level for level, _ in cells(pairs, column, hierarchies[column]))
        most = len(pairs) * tree_height(hierarchies[column])
        found.append(Fraction(raised, most) if most else Fraction(0))
    return mean(found)


def height(pairs: Pairs, columns: Columns, hierarchies: Hierarchies) -> int:
    """The sum over the columns of the highest level of a released cell.

    ARX's createHeightMetric() leaves suppression out of account, which is this on `generalized(triples)`.
    """
    kept = [pair for pair in pairs if pair[1] is not None]
    return sum(max((level for level, _ in cells(kept, c, hierarchies[c])), default=0) for c in columns)


# What happened to the classes


def discernibility(pairs: Pairs, columns: Columns) -> int:
    """Bayardo and Agrawal 2005: |E|^2 for each class, n for each suppressed row.

    ARX: createDiscernabilityMetric(false).
    """
    classes = kept_classes(pairs, columns)
    suppressed = len(pairs) - classes.total()
    return sum(records**2 for records in classes.values()) + suppressed * len(pairs)


def discernibility_star(triples: Triples, columns: Columns) -> int:
    """|E|^2 for each class, suppressed or not. ARX: createDiscernabilityMetric(true)."""
    return sum(records**2 for records in class_sizes([row for _, row, _ in triples], columns).values())


def average_class_size(pairs: Pairs, columns: Columns, k: int) -> Fraction | float:
    """LeFevre et al. 2006, C_AVG: kept rows over kept classes over k, infinite if nothing is kept."""
    classes = kept_classes(pairs, columns)
    return Fraction(classes.total(), len(classes) * k) if classes else math.inf


def aecs(pairs: Pairs, columns: Columns) -> Fraction:
    """All rows over classes, the suppressed rows being one class. ARX: createAECSMetric()."""
    classes = kept_classes(pairs, columns)
    count = len(classes) + (classes.total() < len(pairs))
    return Fraction(len(pairs), count) if count else Fraction(0)


def classification_metric(pairs: Pairs, columns: Columns, target: str) -> Fraction:
    """Iyengar 2002: the share of rows that are suppressed or not of the majority of their class."""
    labels: dict[tuple[Any, ...], Counter[Any]] = {}
    for original, row in pairs:
        if row is not None:
            labels.setdefault(tuple(row[c] for c in columns), Counter())[original[target]] += 1
    right = sum(max(found.values()) for found in labels.values())
    return Fraction(len(pairs) - right, len(pairs)) if pairs else Fraction(0)


# What happened to the information


def non_uniform_entropy(triples: Triples, columns: Columns) -> float:
    """Gionis and Tassa 2009, in bits, as ARX computes it.

    log2(f_gen/f_orig) over *all* rows, kept or not, both frequencies being counted over all rows; then, on
    top, the bits that suppression takes from the generalized values: number of suppressed rows * entropy of
    the generalized values among them, in each column. Both createEntropyMetric() and
    createEntropyMetric(false) are this sum, for the suppression limits 0.0 and 0.05 alike (the limit and the
    flag change how ARX searches, not the value of a node). Adding up only the kept rows does not give ARX's
    numbers. Without suppression both readings agree.
    """
    bits = 0.0
    for column in columns:
        before = Counter(original[column] for original, _, _ in triples)
        after = Counter(row[column] for _, row, _ in triples)
        lost = Counter(row[column] for _, row, kept in triples if not kept)
        bits += math.fsum(math.log2(after[row[column]] / before[original[column]]) for original, row, _ in triples)
        bits -= math.fsum(count * math.log2(count / lost.total()) for count in lost.values())
    return bits


def kl_divergence(pairs: Pairs, columns: Columns, hierarchies: Hierarchies) -> float:
    """Sun, Li and Wang 2010, section 3.1: sum of F ln(F/F*) over the kept rows, in nats.

    F is the share of an original tuple, F* that of its class spread evenly over the tuples that the class
    covers. A row is compared with the class that it is in, also where local recoding puts equal rows into
    different classes.
    """
    kept = [pair for pair in pairs if pair[1] is not None]
    n = len(kept)
    tuples = class_sizes([original for original, _ in kept], columns)
    classes = kept_classes(kept, columns)
    leaves = zip(*([count for _, count in cells(kept, c, hierarchies[c])] for c in columns), strict=True)
    total = 0.0
    for (original, row), covered in zip(kept, leaves, strict=True):
        f = Fraction(tuples[tuple(original[c] for c in columns)], n)
        f_star = Fraction(classes[tuple(row[c] for c in columns)], n * math.prod(covered))
        total += math.log(f / f_star) / n
    return total
