# ruff: noqa: E741  (l is what the literature and the policies call this parameter)
"""Privacy models computed in plain Python from their definitions: the oracle that the SQL is compared with.

Every model is a pair of functions with the same parameters: `model(rows, group, [sensitive], **parameters)`
returns the measured value of every class, `broken_model(...)` the keys of the classes that violate the model.
`rows` is a list of dicts, `group` the list of columns that make the classes, and a class key the tuple of
their values. Slow on purpose: a function can be read next to the definition that it cites.

- None is a value like any other: two None match, and None is one of the sensitive values.
- `person` names a column. With it a number of rows is the number of distinct persons among them; a row whose
  person is None belongs to nobody and adds nothing, and a value that only nobody has does not occur. A person
  may have several values, so the shares p(G,s) = count(s)/size may add up to more than 1; the distribution
  models divide by the sum of the counts instead. A class of nobody has no distribution: it is at distance 0
  from every other.
- q, the distribution of the whole table, counts a person once for each value, however many classes it is in.
- Shares and distances are exact fractions, and thresholds are read as the decimals that they are written as:
  a share of 3/10 does not exceed 0.3. Logarithms and distances get a tolerance, in favour of "holds".
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations, product
from typing import Any

Row = Mapping[str, Any]
Rows = Sequence[Row]
Key = tuple[Any, ...]
Number = int | float | Fraction | Decimal
Shares = Mapping[Any, Fraction]

TOLERANCE = Fraction(1, 10**9)


# What the models share


def exact(number: Number) -> Fraction:
    """The number as it is written: 0.3 is 3/10, not the nearest binary fraction.

    >>> exact(0.3)
    Fraction(3, 10)
    """
    return Fraction(str(number)) if isinstance(number, float) else Fraction(number)


def classes(rows: Rows, group: Sequence[str]) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in group), []).append(row)
    return found


def size(rows: Rows, person: str | None) -> int:
    return len(rows) if person is None else len({row[person] for row in rows} - {None})


def counts(rows: Rows, column: str, person: str | None) -> dict[Any, int]:
    """How many rows (or persons) have each value of the column."""
    found = {value: size(members, person) for (value,), members in classes(rows, [column]).items()}
    return {value: count for value, count in found.items() if count > 0}


def shares(rows: Rows, column: str, person: str | None) -> dict[Any, Fraction]:
    """p(G,s): the part of the class that has the value."""
    whole = size(rows, person)
    return {value: Fraction(count, whole) for value, count in counts(rows, column, person).items()}


def distribution(rows: Rows, column: str, person: str | None) -> dict[Any, Fraction]:
    """As the shares, but they always add up to 1."""
    found = counts(rows, column, person)
    return {value: Fraction(count, sum(found.values())) for value, count in found.items()}


def entropy(probabilities: Shares) -> float:
    return -math.fsum(float(p) * math.log(p) for p in probabilities.values())


def over(part: int, whole: int) -> Number:
    return Fraction(part, whole) if whole else math.inf


def each(rows: Rows, group: Sequence[str], measure: Callable[[list[Row]], Any]) -> dict[Key, Any]:
    return {key: measure(members) for key, members in classes(rows, group).items()}


def where(measured: Mapping[Key, Any], violates: Callable[[Any], bool]) -> set[Key]:
    return {key for key, value in measured.items() if violates(value)}


# Record linkage


def k_anonymity(rows, group, *, k, person=None):
    """Sweeney 2002: the size of the class."""
    return each(rows, group, lambda members: size(members, person))


def broken_k_anonymity(rows, group, *, k, person=None):
    return where(k_anonymity(rows, group, k=k, person=person), lambda records: records < k)


def sizes_of(rows, group, person):
    return each(rows, group, lambda members: size(members, person))


def average_risk(rows, group, *, risk, person=None):
    """El Emam 2013: classes by records; here over the classes that are not smaller than one."""
    found = sizes_of(rows, group, person)
    return {
        key: Fraction(sum(other >= own for other in found.values()), sum(o for o in found.values() if o >= own))
        for key, own in found.items()
    }


def broken_average_risk(rows, group, *, risk, person=None):
    return where(average_risk(rows, group, risk=risk, person=person), lambda share: share > exact(risk))


def record_risk(rows, group, *, risk, share, person=None):
    """El Emam 2013: the share of records whose class is too small."""
    found = sizes_of(rows, group, person)
    small = {key for key, own in found.items() if Fraction(1, own) > exact(risk)}
    at_risk = Fraction(sum(found[key] for key in small), sum(found.values())) if found else Fraction(0)
    return {key: at_risk if key in small else Fraction(0) for key in found}


def broken_record_risk(rows, group, *, risk, share, person=None):
    measured = record_risk(rows, group, risk=risk, share=share, person=person)
    return where(measured, lambda found: found > exact(share))


def sample_uniqueness(rows, group, *, share, person=None):
    """Bethlehem, Keller and Pannekoek 1990: the share of records that are alone."""
    found = sizes_of(rows, group, person)
    alone = sum(own == 1 for own in found.values())
    return {key: Fraction(alone, sum(found.values())) if own == 1 else Fraction(0) for key, own in found.items()}


def broken_sample_uniqueness(rows, group, *, share, person=None):
    return where(sample_uniqueness(rows, group, share=share, person=person), lambda found: found > exact(share))


def population_uniqueness(rows, group, *, share, sampling_fraction, person=None):
    """Zayatz 1991: a unique of the sample is one of the population with the probability that a class of one is drawn
    once, among all classes that are drawn once, if the population has classes as the sample has them."""
    found = sizes_of(rows, group, person)
    left = 1 - exact(sampling_fraction)
    ones = sum(own == 1 for own in found.values())
    drawn_once = sum(own * exact(sampling_fraction) * left ** (own - 1) for own in found.values())
    chance = ones * exact(sampling_fraction) / drawn_once if found else Fraction(0)
    estimate = chance * Fraction(ones, sum(found.values())) if found else Fraction(0)
    return {key: estimate if own == 1 else Fraction(0) for key, own in found.items()}


def broken_population_uniqueness(rows, group, *, share, sampling_fraction, person=None):
    measured = population_uniqueness(rows, group, share=share, sampling_fraction=sampling_fraction, person=person)
    return where(measured, lambda found: found > exact(share) + TOLERANCE)


def row_sets(rows, group, *, person):
    """Persons by their rows on the columns, each as often as it occurs: a tuple of rows and how often to persons."""
    own: dict[Any, list[Any]] = {}
    for row in rows:
        own.setdefault(row[person], []).append(tuple(row[column] for column in group))
    found: dict[Any, set[Any]] = {}
    for who, seen in own.items():
        found.setdefault(frozenset((one, seen.count(one)) for one in seen), set()).add(who)
    return found


def multirelational_k_anonymity(rows, group, *, k, person):
    """Owners who share a set of joined rows, by set."""
    return {rows_of: len(owners) for rows_of, owners in row_sets(rows, group, person=person).items()}


def xy_anonymity(rows, x, y, *, k, person=None):
    """Wang and Fung 2006: distinct values of Y for each value of X; as in COUNT(DISTINCT), None is none.

    Y is a column or a list of columns. What is counted is Y, so a person key changes nothing.
    """
    y = [y] if isinstance(y, str) else y
    return each(rows, x, lambda members: sum(None not in value for value in classes(members, y)))


def broken_xy_anonymity(rows, x, y, *, k, person=None):
    return where(xy_anonymity(rows, x, y, k=k), lambda distinct: distinct < k)


def population_sizes(population_rows, group, person):
    # A population table may have one row for each person and no key.
    keyed = person if population_rows and person in population_rows[0] else None
    return each(population_rows, group, lambda members: size(members, keyed))


def k_map(rows, group, *, k, population_rows, person=None):
    """Sweeney 2001: how many of the population, generalized alike, look like the class."""
    population = population_sizes(population_rows, group, person)
    return {key: population.get(key, 0) for key in classes(rows, group)}


def broken_k_map(rows, group, *, k, population_rows, person=None):
    matches = k_map(rows, group, k=k, population_rows=population_rows, person=person)
    return where(matches, lambda records: records < k)


# Attribute linkage: l-diversity (Machanavajjhala et al. 2007)


def distinct_l_diversity(rows, group, sensitive, *, l, person=None):
    """m, the number of distinct values."""
    return each(rows, group, lambda members: len(counts(members, sensitive, person)))


def broken_distinct_l_diversity(rows, group, sensitive, *, l, person=None):
    return where(distinct_l_diversity(rows, group, sensitive, l=l, person=person), lambda m: m < l)


def entropy_l_diversity(rows, group, sensitive, *, l, person=None):
    """exp(-sum p ln p): as uncertain as so many equally frequent values."""
    return each(rows, group, lambda members: math.exp(entropy(distribution(members, sensitive, person))))


def broken_entropy_l_diversity(rows, group, sensitive, *, l, person=None):
    entropies = each(rows, group, lambda members: entropy(distribution(members, sensitive, person)))
    return where(entropies, lambda nats: nats < math.log(l) - TOLERANCE)


def dominance(found: Mapping[Any, int], l: int) -> tuple[int, int]:
    """r_1, and r_l + ... + r_m."""
    r = sorted(found.values(), reverse=True)
    return sum(r[:1]), sum(r[l - 1 :])


def recursive_cl_diversity(rows, group, sensitive, *, c, l, person=None):
    """r_1 / (r_l + ... + r_m), infinite with fewer than l values."""
    return each(rows, group, lambda members: over(*dominance(counts(members, sensitive, person), l)))


def broken_recursive_cl_diversity(rows, group, sensitive, *, c, l, person=None):
    pairs = each(rows, group, lambda members: dominance(counts(members, sensitive, person), l))
    return where(pairs, lambda pair: not pair[0] < exact(c) * pair[1])


def positive_dominance(found: Mapping[Any, int], l: int, dont_care: Iterable[Any]) -> tuple[int, int] | None:
    """Definition 4.4: r_y and the sum that it is compared with; None if every value may be disclosed."""
    dont_care = set(dont_care)
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0] in dont_care))
    r = {rank: count for rank, (_, count) in enumerate(ranked, start=1)}
    y = next((rank for rank, (value, _) in enumerate(ranked, start=1) if value not in dont_care), None)
    if y is None:
        return None
    if y <= l - 1:
        return r[y], sum(r[j] for j in r if j >= l)
    return r[y], sum(r[j] for j in r if l - 1 <= j < y) + sum(r[j] for j in r if j > y)


def positive_recursive_cl_diversity(rows, group, sensitive, *, c, l, dont_care, person=None):
    """r_y over its sum, y being the rank of the most frequent value that is not a don't-care."""

    def measure(members):
        pair = positive_dominance(counts(members, sensitive, person), l, dont_care)
        return over(*pair) if pair else 0

    return each(rows, group, measure)


def broken_positive_recursive_cl_diversity(rows, group, sensitive, *, c, l, dont_care, person=None):
    pairs = each(rows, group, lambda members: positive_dominance(counts(members, sensitive, person), l, dont_care))
    return where(pairs, lambda pair: pair is not None and not pair[0] < exact(c) * pair[1])


def negative_positive_recursive_cl_diversity(rows, group, sensitive, *, c1, c2, l, dont_care, protect, person=None):
    """Measured as the positive-disclosure model; whether a value to protect is too rare is checked apart."""
    return positive_recursive_cl_diversity(rows, group, sensitive, c=c1, l=l, dont_care=dont_care, person=person)


def broken_negative_positive_recursive_cl_diversity(
    rows, group, sensitive, *, c1, c2, l, dont_care, protect, person=None
):
    found = each(rows, group, lambda members: shares(members, sensitive, person))
    rare = where(found, lambda p: any(p.get(value, 0) < exact(c2) for value in protect))
    return rare | broken_positive_recursive_cl_diversity(
        rows, group, sensitive, c=c1, l=l, dont_care=dont_care, person=person
    )


def multi_attribute_l_diversity(rows, group, sensitive, *, l, others, person=None):
    """Distinct values for somebody who knows the other sensitive attributes; keys are group, then others."""
    return distinct_l_diversity(rows, [*group, *others], sensitive, l=l, person=person)


def broken_multi_attribute_l_diversity(rows, group, sensitive, *, l, others, person=None):
    return broken_distinct_l_diversity(rows, [*group, *others], sensitive, l=l, person=person)


# Attribute linkage: (l,alpha)-diversity (Sun, Li and Wang 2010)


def category_weights(count: int, scheme: str = "uniform", beta: Number = 1) -> list[Number]:
    """The weights of equation 1, from the most sensitive category (0) to the least (1).

    >>> [str(weight) for weight in category_weights(4, "sensitivity", beta=2)]
    ['0', '36/49', '45/49', '1']
    """
    if count < 2:
        raise ValueError("the first category weighs 0 and the last one 1, so there must be two")
    step = {"uniform": lambda i: Fraction(1), "sensitivity": lambda i: 1 / Fraction(i - 1) ** beta}[scheme]
    steps = [step(i) for i in range(2, count + 1)]
    return [sum(steps[:i], Fraction(0)) / sum(steps) for i in range(count)]


def category(value, categories):
    """Values that no category names form one further category (None) of weight 0."""
    return next((i for i, values in enumerate(categories) if value in values), None)


def categorized(rows, sensitive, categories):
    return [{**row, sensitive: category(row[sensitive], categories)} for row in rows]


def distinct_l_alpha_diversity(rows, group, sensitive, *, l, alpha, categories, weights, person=None):
    """The total weight of the rows of the class."""
    weight = {None: Fraction(0)} | {i: exact(w) for i, w in enumerate(weights)}

    def measure(members):
        found = counts(members, sensitive, person)
        return sum((count * weight[category(value, categories)] for value, count in found.items()), Fraction(0))

    return each(rows, group, measure)


def broken_distinct_l_alpha_diversity(rows, group, sensitive, *, l, alpha, categories, weights, person=None):
    weighed = distinct_l_alpha_diversity(
        rows, group, sensitive, l=l, alpha=alpha, categories=categories, weights=weights, person=person
    )
    light = where(weighed, lambda weight: weight < exact(alpha))
    return light | broken_distinct_l_diversity(rows, group, sensitive, l=l, person=person)


def entropy_l_alpha_diversity(rows, group, sensitive, *, l, alpha, categories, weights, person=None):
    """exp(entropy) over the categories."""
    return entropy_l_diversity(categorized(rows, sensitive, categories), group, sensitive, l=l, person=person)


def broken_entropy_l_alpha_diversity(rows, group, sensitive, *, l, alpha, categories, weights, person=None):
    return broken_distinct_l_alpha_diversity(
        rows, group, sensitive, l=l, alpha=alpha, categories=categories, weights=weights, person=person
    ) | broken_entropy_l_diversity(categorized(rows, sensitive, categories), group, sensitive, l=l, person=person)


def recursive_cl_alpha_diversity(rows, group, sensitive, *, c, l, alpha, categories, weights, person=None):
    """r_1 / (r_l + ... + r_m) over the categories."""
    return recursive_cl_diversity(categorized(rows, sensitive, categories), group, sensitive, c=c, l=l, person=person)


def broken_recursive_cl_alpha_diversity(rows, group, sensitive, *, c, l, alpha, categories, weights, person=None):
    return broken_distinct_l_alpha_diversity(
        rows, group, sensitive, l=l, alpha=alpha, categories=categories, weights=weights, person=person
    ) | broken_recursive_cl_diversity(
        categorized(rows, sensitive, categories), group, sensitive, c=c, l=l, person=person
    )


# Attribute linkage: bounds on a confidence


def l_plus_diversity(rows, group, sensitive, *, thresholds, person=None):
    """Liu and Wang 2010: the largest excess of a share over the threshold of its value (negative: none)."""

    def measure(members):
        p = shares(members, sensitive, person)
        return max((p.get(value, 0) - exact(theta) for value, theta in thresholds.items()), default=-math.inf)

    return each(rows, group, measure)


def broken_l_plus_diversity(rows, group, sensitive, *, thresholds, person=None):
    excess = l_plus_diversity(rows, group, sensitive, thresholds=thresholds, person=person)
    return where(excess, lambda difference: difference > 0)


def confidence_bounding(rows, group, sensitive, *, value, h, person=None):
    """Wang, Fung and Yu 2005: conf(class -> value)."""
    return each(rows, group, lambda members: shares(members, sensitive, person).get(value, Fraction(0)))


def broken_confidence_bounding(rows, group, sensitive, *, value, h, person=None):
    confidence = confidence_bounding(rows, group, sensitive, value=value, h=h, person=person)
    return where(confidence, lambda p: p > exact(h))


def alpha_k_anonymity(rows, group, sensitive, *, alpha, k, values=None, person=None):
    """Wong et al. 2006: the largest share of a value, or of one of the given values."""

    def measure(members):
        p = shares(members, sensitive, person)
        return max((p.get(value, 0) for value in (p if values is None else values)), default=0)

    return each(rows, group, measure)


def broken_alpha_k_anonymity(rows, group, sensitive, *, alpha, k, values=None, person=None):
    largest = alpha_k_anonymity(rows, group, sensitive, alpha=alpha, k=k, values=values, person=person)
    return broken_k_anonymity(rows, group, k=k, person=person) | where(largest, lambda p: p > exact(alpha))


def xy_privacy(rows, x, y, *, values, k, h, person=None):
    """Wang and Fung 2006: the largest conf(x -> y) over the given values of Y."""
    return alpha_k_anonymity(rows, x, y, alpha=h, k=k, values=values, person=person)


def broken_xy_privacy(rows, x, y, *, values, k, h, person=None):
    return broken_alpha_k_anonymity(rows, x, y, alpha=h, k=k, values=values, person=person)


# Attribute linkage: a numeric sensitive attribute


def numbers(rows, sensitive, person):
    """The distinct numbers; None is not one."""
    return {exact(value) for value in counts(rows, sensitive, person) if value is not None}


def k_e_anonymity(rows, group, sensitive, *, k, e, person=None):
    """Zhang et al. 2007: the range of the values."""

    def measure(members):
        found = numbers(members, sensitive, person)
        return max(found) - min(found) if found else Fraction(0)

    return each(rows, group, measure)


def broken_k_e_anonymity(rows, group, sensitive, *, k, e, person=None):
    distinct = each(rows, group, lambda members: len(numbers(members, sensitive, person)))
    ranges = k_e_anonymity(rows, group, sensitive, k=k, e=e, person=person)
    return where(distinct, lambda count: count < k) | where(ranges, lambda width: width < exact(e))


def crowding(rows, sensitive, person, reach):
    """The largest share of the class that lies within reach(s) of one of its values s."""

    def share_near(s):
        near = [r for r in rows if r[sensitive] is not None and abs(exact(r[sensitive]) - s) <= reach(s)]
        return Fraction(size(near, person), size(rows, person))

    if size(rows, person) == 0:
        return Fraction(0)
    missing = Fraction(size([r for r in rows if r[sensitive] is None], person), size(rows, person))
    return max([missing, *map(share_near, numbers(rows, sensitive, person))])


def epsilon_m_anonymity(rows, group, sensitive, *, epsilon, m, person=None):
    """Li, Tao and Xiao 2008: the largest share within [s - epsilon, s + epsilon]; None is near None alone."""
    return each(rows, group, lambda members: crowding(members, sensitive, person, lambda s: exact(epsilon)))


def broken_epsilon_m_anonymity(rows, group, sensitive, *, epsilon, m, person=None):
    crowded = epsilon_m_anonymity(rows, group, sensitive, epsilon=epsilon, m=m, person=person)
    return where(crowded, lambda share: share > 1 / exact(m))


def relative_epsilon_m_anonymity(rows, group, sensitive, *, epsilon, m, person=None):
    """The same between s(1 - epsilon) and s(1 + epsilon), whichever is the smaller."""
    return each(rows, group, lambda members: crowding(members, sensitive, person, lambda s: abs(s * exact(epsilon))))


def broken_relative_epsilon_m_anonymity(rows, group, sensitive, *, epsilon, m, person=None):
    crowded = relative_epsilon_m_anonymity(rows, group, sensitive, epsilon=epsilon, m=m, person=person)
    return where(crowded, lambda share: share > 1 / exact(m))


# Attribute linkage: closeness to a distribution


def equal_distance(p: Shares, q: Shares) -> Fraction:
    """Every value is as far from every other."""
    return sum((abs(p.get(v, 0) - q.get(v, 0)) for v in {*p, *q}), Fraction(0)) / 2 if p else Fraction(0)


def ordered_distance(p: Shares, q: Shares) -> Fraction:
    """Neighbours in the order of the values of q, None first, are 1/(N-1) apart."""
    if len(q) < 2 or not p:
        return Fraction(0)
    work = carried = Fraction(0)
    for value in sorted(q, key=lambda value: (value is not None, value)):
        carried += p.get(value, 0) - q[value]
        work += abs(carried)
    return work / (len(q) - 1)


def hierarchical_distance(p: Shares, q: Shares, taxonomy: Mapping[Any, Sequence[Any]]) -> Fraction:
    """Li et al. 2007: two values are height(lowest common ancestor)/H apart.

    `taxonomy` maps a value to its ancestors, from its parent to the root; a value that it lacks hangs from
    the root. Beneath each node the surplus of some children pays the deficit of others, at the height of the
    node.
    """
    # A node is its path to the root, because a label may occur at several places.
    root = next(iter(taxonomy.values()))[-1]
    paths = {v: (v, *taxonomy.get(v, (root,))) for v in {*p, *q, *taxonomy}}
    height: dict[Key, int] = {}
    extra: dict[Key, Fraction] = {}
    for value, path in paths.items():
        for up in range(len(path)):
            node = path[up:]
            height[node] = max(height.get(node, 0), up)
            extra[node] = extra.get(node, Fraction(0)) + p.get(value, 0) - q.get(value, 0)
    cost = Fraction(0)
    for node in height:
        below = [extra[child] for child in height if child[1:] == node]
        surplus = sum((e for e in below if e > 0), Fraction(0))
        deficit = -sum((e for e in below if e < 0), Fraction(0))
        cost += Fraction(height[node], height[(root,)]) * min(surplus, deficit)
    return cost if p else Fraction(0)


def closeness(rows, group, sensitive, person, distance):
    q = distribution(rows, sensitive, person)
    return each(rows, group, lambda members: distance(distribution(members, sensitive, person), q))


def t_closeness(rows, group, sensitive, *, t, person=None):
    """Li et al. 2007: the earth mover's distance to the whole table, all values equally far apart."""
    return closeness(rows, group, sensitive, person, equal_distance)


def broken_t_closeness(rows, group, sensitive, *, t, person=None):
    distances = t_closeness(rows, group, sensitive, t=t, person=person)
    return where(distances, lambda distance: distance > exact(t) + TOLERANCE)


def ordered_t_closeness(rows, group, sensitive, *, t, person=None):
    """The same with the values in their order."""
    return closeness(rows, group, sensitive, person, ordered_distance)


def broken_ordered_t_closeness(rows, group, sensitive, *, t, person=None):
    distances = ordered_t_closeness(rows, group, sensitive, t=t, person=person)
    return where(distances, lambda distance: distance > exact(t) + TOLERANCE)


def hierarchical_t_closeness(rows, group, sensitive, *, t, taxonomy, person=None):
    """The same with the values in a tree."""
    return closeness(rows, group, sensitive, person, lambda p, q: hierarchical_distance(p, q, taxonomy))


def broken_hierarchical_t_closeness(rows, group, sensitive, *, t, taxonomy, person=None):
    distances = hierarchical_t_closeness(rows, group, sensitive, t=t, taxonomy=taxonomy, person=person)
    return where(distances, lambda distance: distance > exact(t) + TOLERANCE)


def nt_closeness(rows, group, sensitive, *, n, t, ancestors, person=None):
    """Li, Li and Venkatasubramanian 2010: the least distance to a natural superset of >= n rows, or infinite.

    `ancestors` maps a column, then a value, to the labels above it. A natural superset keeps or generalizes
    each value of the class; the class is one itself.
    """

    def labels(column, value):
        return [value, *ancestors.get(column, {}).get(value, ())]

    measured = {}
    for key, members in classes(rows, group).items():
        p = distribution(members, sensitive, person)
        distances = []
        for superset in product(*map(labels, group, key)):
            named = list(zip(group, superset, strict=True))
            covered = [row for row in rows if all(label in labels(c, row[c]) for c, label in named)]
            if size(covered, person) >= n:
                distances.append(equal_distance(p, distribution(covered, sensitive, person)))
        measured[key] = min(distances, default=math.inf)
    return measured


def broken_nt_closeness(rows, group, sensitive, *, n, t, ancestors, person=None):
    distances = nt_closeness(rows, group, sensitive, n=n, t=t, ancestors=ancestors, person=person)
    return where(distances, lambda distance: distance > exact(t) + TOLERANCE)


def basic_beta_likeness(rows, group, sensitive, *, beta, person=None):
    """Cao and Karras 2012: the largest relative gain (p - q)/q, 0 if there is none."""
    q = distribution(rows, sensitive, person)

    def measure(members):
        p = distribution(members, sensitive, person)
        return max([(p[s] - q[s]) / q[s] for s in p if p[s] > q[s]], default=Fraction(0))

    return each(rows, group, measure)


def broken_basic_beta_likeness(rows, group, sensitive, *, beta, person=None):
    gains = basic_beta_likeness(rows, group, sensitive, beta=beta, person=person)
    return where(gains, lambda gain: gain > exact(beta))


def enhanced_beta_likeness(rows, group, sensitive, *, beta, person=None):
    """Measured as the basic model; the bound also depends on the value, min(beta, -ln q)."""
    return basic_beta_likeness(rows, group, sensitive, beta=beta, person=person)


def broken_enhanced_beta_likeness(rows, group, sensitive, *, beta, person=None):
    q = distribution(rows, sensitive, person)
    found = each(rows, group, lambda members: distribution(members, sensitive, person))
    return where(
        found,
        lambda p: any((p[s] - q[s]) / q[s] > min(float(beta), -math.log(q[s])) + TOLERANCE for s in p if p[s] > q[s]),
    )


def delta_disclosure(rows, group, sensitive, *, delta, person=None):
    """Brickell and Shmatikov 2008: the largest |ln(p/q)| over all values of the table, infinite if absent."""
    q = distribution(rows, sensitive, person)

    def measure(members):
        p = distribution(members, sensitive, person)
        return max((abs(math.log(p[s] / q[s])) if s in p else math.inf for s in q), default=0.0) if p else 0.0

    return each(rows, group, measure)


def broken_delta_disclosure(rows, group, sensitive, *, delta, person=None):
    changes = delta_disclosure(rows, group, sensitive, delta=delta, person=person)
    return where(changes, lambda change: not change < delta)


# Attribute linkage: what each row, or each value, asks for itself


def personalized_privacy(rows, group, sensitive, *, p_breach, guard, taxonomy, person=None):
    """Xiao and Tao 2006: the largest share of the class that lies under a guarding node named in the class.

    `guard` is the column with the node, None for no wish; `taxonomy` maps a value to its ancestors. A value
    lies under itself.
    """

    def measure(members):
        nodes = {row[guard] for row in members} - {None}
        whole = size(members, person)

        def under(node):
            return [r for r in members if node in (r[sensitive], *taxonomy.get(r[sensitive], ()))]

        return max((Fraction(size(under(node), person), whole) for node in nodes if whole), default=Fraction(0))

    return each(rows, group, measure)


def broken_personalized_privacy(rows, group, sensitive, *, p_breach, guard, taxonomy, person=None):
    breach = personalized_privacy(
        rows, group, sensitive, p_breach=p_breach, guard=guard, taxonomy=taxonomy, person=person
    )
    return where(breach, lambda share: share > exact(p_breach))


def ff_anonymity(rows, columns, *, h, sensitive_values, person=None):
    """Wang et al. 2009: conf(X -> s) under the key (X, (column, s)), X a frozenset of (column, value) pairs.

    `sensitive_values` maps a column to its sensitive values. X is any set of values that are not sensitive
    and stand beside s in a row, also the empty set.
    """
    measured = {}
    for row in rows:
        cells = [(column, row[column]) for column in columns]
        secret = [(c, v) for c, v in cells if v in sensitive_values.get(c, ())]
        known = [cell for cell in cells if cell not in secret]
        subsets = chain.from_iterable(combinations(known, length) for length in range(len(known) + 1))
        for x, (column, s) in product(subsets, secret):
            matching = [other for other in rows if all(other[c] == v for c, v in x)]
            hits = [other for other in matching if other[column] == s]
            if size(hits, person):
                measured[frozenset(x), (column, s)] = Fraction(size(hits, person), size(matching, person))
    return measured


def broken_ff_anonymity(rows, columns, *, h, sensitive_values, person=None):
    confidence = ff_anonymity(rows, columns, h=h, sensitive_values=sensitive_values, person=person)
    return where(confidence, lambda p: p > exact(h))


# Table linkage and probabilistic models


def delta_presence(rows, group, *, dmin, dmax, population_rows, person=None):
    """Nergiz et al. 2007: released rows over population rows, for every class of either table."""
    released = each(rows, group, lambda members: size(members, person))
    population = population_sizes(population_rows, group, person)
    return {key: over(released.get(key, 0), population.get(key, 0)) for key in {**population, **released}}


def broken_delta_presence(rows, group, *, dmin, dmax, population_rows, person=None):
    presence = delta_presence(rows, group, dmin=dmin, dmax=dmax, population_rows=population_rows, person=person)
    return where(presence, lambda share: not exact(dmin) <= share <= exact(dmax))


def expected(probability: Number, draws: int) -> float:
    """The chance that a record of this probability is drawn at least once."""
    return 1.0 if probability == 1 else -math.expm1(draws * math.log1p(-float(probability)))


def expected_confidence(rows, group, sensitive, *, beta, public=None, person=None):
    """Sattar et al. 2013: the largest excess of the observed confidence over the expected one.

    Observed is beta * #s/|class|, expected the chance that a random table of this size has the record at all.
    `public` maps a column to its known distribution; a column that it lacks has that of the release.
    """
    known = {column: shares(rows, column, person) for column in (*group, sensitive)} | dict(public or {})
    draws = size(rows, person)
    measured = {}
    for key, members in classes(rows, group).items():
        alike = math.prod(exact(known[column].get(value, 0)) for column, value in zip(group, key, strict=True))
        measured[key] = max(
            (
                float(exact(beta) * p) - expected(alike * exact(known[sensitive].get(s, 0)), draws)
                for s, p in shares(members, sensitive, person).items()
            ),
            default=0.0,
        )
    return measured


def broken_expected_confidence(rows, group, sensitive, *, beta, public=None, person=None):
    excess = expected_confidence(rows, group, sensitive, beta=beta, public=public, person=person)
    return where(excess, lambda difference: difference > 1e-12)
