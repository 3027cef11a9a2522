"""The oracle itself, checked: worked examples of the literature."""

import math
from fractions import Fraction
from itertools import pairwise, product

import brute
import brute_loss as loss
import pytest


def table(columns, *lines):
    """Rows from lines of words; an underscore stands for a space, a dash for None."""
    names = columns.split()
    return [
        dict(zip(names, (None if w == "-" else w.replace("_", " ") for w in line.split()), strict=True))
        for line in lines
    ]


def repeat(row, times):
    return [row for _ in range(times)]


# Fung et al. 2010: the patients


JOBS = {
    "Engineer": ("Engineer", "Professional", "*"),
    "Lawyer": ("Lawyer", "Professional", "*"),
    "Dancer": ("Dancer", "Artist", "*"),
    "Writer": ("Writer", "Artist", "*"),
}
PATIENTS = table(
    "job sex age disease",
    "Engineer Male 35 Hepatitis",
    "Engineer Male 38 Hepatitis",
    "Lawyer Male 38 HIV",
    "Writer Female 30 Flu",
    "Writer Female 30 HIV",
    "Dancer Female 30 HIV",
    "Dancer Female 30 HIV",
)
EXTERNAL = table(
    "name job sex age",
    "Alice Writer Female 30",
    "Bob Engineer Male 35",
    "Cathy Writer Female 30",
    "Doug Lawyer Male 38",
    "Emily Dancer Female 30",
    "Fred Engineer Male 38",
    "Gladys Dancer Female 30",
    "Henry Lawyer Male 39",
    "Irene Dancer Female 32",
)
QI = ["job", "sex", "age"]
MEN, WOMEN = ("Professional", "Male", "[35-40)"), ("Artist", "Female", "[30-35)")


def coarser(row):
    return {**row, "job": JOBS[row["job"]][1], "age": "[30-35)" if int(row["age"]) < 35 else "[35-40)"}


COARSE = [coarser(row) for row in PATIENTS]
PUBLIC = [coarser(row) for row in EXTERNAL]


def test_patients_record_linkage():
    assert brute.k_anonymity(COARSE, QI, k=3) == {MEN: 3, WOMEN: 4}
    assert brute.broken_k_anonymity(COARSE, QI, k=3) == set()
    assert brute.broken_k_anonymity(COARSE, QI, k=4) == {MEN}
    assert brute.broken_k_anonymity(PATIENTS, QI, k=2) == {
        ("Engineer", "Male", "35"),
        ("Engineer", "Male", "38"),
        ("Lawyer", "Male", "38"),
    }
    assert brute.xy_anonymity(COARSE, ["sex"], "disease", k=2) == {("Male",): 2, ("Female",): 2}
    assert brute.xy_anonymity(COARSE, ["sex"], ["job", "disease"], k=3) == {("Male",): 2, ("Female",): 2}
    assert brute.broken_xy_anonymity(COARSE, ["sex"], "disease", k=3) == {("Male",), ("Female",)}
    assert brute.k_map(COARSE, QI, k=5, population_rows=PUBLIC) == {MEN: 4, WOMEN: 5}
    assert brute.broken_k_map(COARSE, QI, k=5, population_rows=PUBLIC) == {MEN}


def test_patients_attribute_linkage():
    entropies = brute.entropy_l_diversity(COARSE, QI, "disease", l=1.75)
    assert {key: round(value, 2) for key, value in entropies.items()} == {MEN: 1.89, WOMEN: 1.75}
    assert brute.broken_entropy_l_diversity(COARSE, QI, "disease", l=1.75) == set()
    assert brute.broken_entropy_l_diversity(COARSE, QI, "disease", l=1.8) == {WOMEN}
    template = {"value": "HIV", "h": 0.1}
    assert brute.confidence_bounding(COARSE, QI, "disease", **template) == {
        MEN: Fraction(1, 3),
        WOMEN: Fraction(3, 4),
    }
    assert brute.broken_confidence_bounding(COARSE, QI, "disease", **template) == {MEN, WOMEN}
    assert brute.broken_confidence_bounding(COARSE, QI, "disease", value="HIV", h=0.75) == set()
    assert brute.broken_xy_privacy(COARSE, ["sex"], "disease", values=["HIV"], k=3, h=0.5) == {("Female",)}
    assert brute.broken_xy_privacy(COARSE, ["sex"], "disease", values=["Flu"], k=4, h=0.5) == {("Male",)}


def test_patients_table_linkage():
    presence = {"dmin": 0.75, "dmax": 0.8, "population_rows": PUBLIC}
    assert brute.delta_presence(COARSE, QI, **presence) == {MEN: Fraction(3, 4), WOMEN: Fraction(4, 5)}
    assert brute.broken_delta_presence(COARSE, QI, **presence) == set()
    assert brute.broken_delta_presence(COARSE, QI, **{**presence, "dmax": 0.79}) == {WOMEN}
    women = [row for row in COARSE if row["sex"] == "Female"]
    assert brute.delta_presence(women, QI, **presence)[MEN] == 0
    nobody = {**presence, "population_rows": PUBLIC[:1]}
    assert brute.delta_presence(COARSE, QI, **nobody)[MEN] == math.inf


def test_iloss_of_artist():
    dancer = [({"job": "Dancer"}, {"job": "Artist"})]
    assert loss.iloss(dancer, ["job"], {"job": JOBS}) == Fraction(1, 4)
    assert loss.ncp(dancer, ["job"], {"job": JOBS}) == Fraction(1, 3)
    assert loss.minimal_distortion([*dancer, (dancer[0][0], None)], ["job"], {"job": JOBS}) == 3


def test_skewness():
    rows = repeat({"g": "rest", "s": "Flu"}, 18) + table("g s", "small Flu", "small HIV")
    assert brute.t_closeness(rows, ["g"], "s", t=0.4)[("small",)] == Fraction(45, 100)
    assert brute.broken_t_closeness(rows, ["g"], "s", t=0.4) == {("small",)}
    assert brute.broken_t_closeness(rows, ["g"], "s", t=0.45) == set()
    assert brute.distinct_l_diversity(rows, ["g"], "s", l=2)[("small",)] == 2


def test_proximity():
    rows = [{"g": 0, "s": s} for s in (30, 31, 32, 33, 34, 35, 35, 35, 35, 80)]
    assert brute.k_e_anonymity(rows, ["g"], "s", k=7, e=50) == {(0,): 50}
    assert brute.broken_k_e_anonymity(rows, ["g"], "s", k=7, e=50) == set()
    assert brute.broken_k_e_anonymity(rows, ["g"], "s", k=8, e=50) == {(0,)}
    assert brute.broken_k_e_anonymity(rows, ["g"], "s", k=7, e=50.5) == {(0,)}
    assert brute.epsilon_m_anonymity(rows, ["g"], "s", epsilon=5, m=2) == {(0,): Fraction(9, 10)}
    assert all(brute.broken_epsilon_m_anonymity(rows, ["g"], "s", epsilon=5, m=m) for m in range(2, 11))


def test_relative_intervals_and_nulls():
    rows = [{"g": 0, "s": s} for s in (-10, -9, -12, 0, None)]
    # Around -10, 10 %: from -11 to -9. Around 0: only itself. None is in the class, but in no interval.
    assert brute.relative_epsilon_m_anonymity(rows, ["g"], "s", epsilon=0.1, m=2) == {(0,): Fraction(2, 5)}
    assert brute.broken_relative_epsilon_m_anonymity(rows, ["g"], "s", epsilon=0.1, m=2.5) == set()
    assert brute.epsilon_m_anonymity(rows, ["g"], "s", epsilon=2, m=2) == {(0,): Fraction(3, 5)}
    assert brute.k_e_anonymity(rows, ["g"], "s", k=4, e=12) == {(0,): 12}
    assert brute.broken_k_e_anonymity(rows, ["g"], "s", k=5, e=12) == {(0,)}
    assert brute.k_e_anonymity(rows[-1:], ["g"], "s", k=1, e=0) == {(0,): 0}


# Sun, Li and Wang 2010: categories of diseases


CATEGORIES = [
    ["HIV", "Cancer"],
    ["Phthisis", "Hepatitis"],
    ["Obesity", "Asthma"],
    ["Flu", "Indigestion"],
]
UNIFORM = brute.category_weights(4)
ZIPS = ["age", "country", "zip"]
YOUNG, OLD, MIXED = ("<40", "America", "142**"), (">40", "Asia", "130**"), ("<40", "America", "14***")
ASIA = [
    ">40 Asia 130** Hepatitis",
    ">40 Asia 130** Phthisis",
    ">40 Asia 130** Asthma",
    ">40 Asia 130** Obesity",
]
TWO_ANONYMOUS = table(
    "age country zip s",
    "(27-28) America 142** HIV",
    "(27-28) America 142** HIV",
    "(25-26) America 142** Cancer",
    "(25-26) America 142** Cancer",
    *ASIA,
    "(33-35) America 142** Flu",
    "(36-37) America 142** Flu",
    "(36-37) America 142** Flu",
    "(33-35) America 142** Indigestion",
)


def recoded(young, mixed):
    rows = [f"<40 America 142** {s}" for s in young] + ASIA + [f"<40 America 14*** {s}" for s in mixed]
    return table("age country zip s", *rows)


def test_two_anonymous_diseases():
    sizes = brute.k_anonymity(TWO_ANONYMOUS, ZIPS, k=2)
    assert len(sizes) == 5
    assert min(sizes.values()) == 2
    rick_and_rudy = ("(25-26)", "America", "142**")
    assert brute.confidence_bounding(TWO_ANONYMOUS, ZIPS, "s", value="Cancer", h=0.5)[rick_and_rudy] == 1
    assert rick_and_rudy in brute.broken_distinct_l_diversity(TWO_ANONYMOUS, ZIPS, "s", l=2)


def test_two_diverse_diseases_are_similar():
    rows = table(
        "age s",
        *("<30 HIV", "<30 HIV", "<30 Cancer", "<30 Cancer"),
        *(">40 Hepatitis", ">40 Phthisis", ">40 Asthma", ">40 Obesity"),
        *("3* Flu", "3* Flu", "3* Flu", "3* Indigestion"),
    )
    policy = {"l": 2, "alpha": 1, "categories": CATEGORIES, "weights": UNIFORM}
    assert brute.broken_distinct_l_diversity(rows, ["age"], "s", l=2) == set()
    assert brute.distinct_l_alpha_diversity(rows, ["age"], "s", **policy)[("<30",)] == 0
    assert brute.broken_distinct_l_alpha_diversity(rows, ["age"], "s", **policy) == {("<30",)}
    # The third class weighs 4, but all of it is in one category too.
    assert brute.broken_entropy_l_alpha_diversity(rows, ["age"], "s", **policy) == {("<30",), ("3*",)}


def test_distinct_3_1_diversity():
    rows = recoded(["HIV", "HIV", "Cancer", "Flu"], ["Cancer", "Flu", "Flu", "Indigestion"])
    policy = {"l": 3, "alpha": 1, "categories": CATEGORIES, "weights": UNIFORM}
    assert brute.distinct_l_alpha_diversity(rows, ZIPS, "s", **policy) == {YOUNG: 1, OLD: 2, MIXED: 3}
    assert brute.broken_distinct_l_alpha_diversity(rows, ZIPS, "s", **policy) == set()
    assert brute.broken_distinct_l_alpha_diversity(rows, ZIPS, "s", **{**policy, "l": 4}) == {YOUNG, MIXED}
    assert brute.broken_distinct_l_alpha_diversity(rows, ZIPS, "s", **{**policy, "alpha": 1.5}) == {YOUNG}
    # Categories: 3 + 1, 2 + 2 and 1 + 3.
    measured = brute.recursive_cl_alpha_diversity(rows, ZIPS, "s", c=3, **{**policy, "l": 2})
    assert measured == {YOUNG: 3, OLD: 1, MIXED: 3}
    policy["l"] = 2
    assert brute.broken_recursive_cl_alpha_diversity(rows, ZIPS, "s", c=3, **policy) == {YOUNG, MIXED}


def test_entropy_2_2_diversity():
    rows = recoded(["HIV", "HIV", "Flu", "Flu"], ["Cancer", "Cancer", "Flu", "Indigestion"])
    policy = {"l": 2, "alpha": 2, "categories": CATEGORIES, "weights": UNIFORM}
    measured = brute.entropy_l_alpha_diversity(rows, ZIPS, "s", **policy)
    assert measured == pytest.approx({YOUNG: 2, OLD: 2, MIXED: 2})
    assert brute.broken_entropy_l_alpha_diversity(rows, ZIPS, "s", **policy) == set()
    # The paper's text also calls this table distinct (3,1)-diverse; its first class has two values.
    assert brute.broken_distinct_l_alpha_diversity(rows, ZIPS, "s", **{**policy, "l": 3, "alpha": 1}) == {YOUNG}


def test_local_recoding_of_four_zips():
    rows = table("zip s", "4351 HIV", "4351 Flu", "435* HIV", "435* Flu")
    policy = {"l": 2, "alpha": 1, "categories": [["HIV"], ["Flu"]], "weights": brute.category_weights(2)}
    assert brute.broken_distinct_l_alpha_diversity(rows, ["zip"], "s", **policy) == set()


def test_weights():
    four = [{"s": s} for s in ("Cancer", "Phthisis", "Asthma", "Flu")]

    def total(weights):
        policy = {"l": 1, "alpha": 0, "categories": CATEGORIES, "weights": weights}
        return brute.distinct_l_alpha_diversity(four, [], "s", **policy)[()]

    assert total(UNIFORM) == 2
    assert brute.category_weights(4, "sensitivity", beta=2) == [0, Fraction(36, 49), Fraction(45, 49), 1]
    # The paper's own weights for beta = 2 do not follow from its equation; they can be given.
    assert total([0, Fraction(9, 61), Fraction(45, 61), 1]) == Fraction(115, 61)


# Sattar et al. 2013: expected confidence


def test_expected_confidence():
    probability = Fraction("0.15") * Fraction("0.5") * Fraction("0.05")
    assert probability == Fraction("0.00375")
    assert round(brute.expected(probability, 100), 3) == 0.313
    assert round(brute.expected(probability, 1000), 3) == 0.977
    woman = {"age": "20-30", "sex": "female", "s": "diabetes"}
    public = {"age": {"20-30": 0.15}, "sex": {"female": 0.5}, "s": {"diabetes": 0.05}}
    excess = brute.expected_confidence(repeat(woman, 100), ["age", "sex"], "s", beta=0.9, public=public)
    assert excess == pytest.approx({("20-30", "female"): 0.9 - 0.313195}, abs=1e-5)
    assert brute.broken_expected_confidence(repeat(woman, 100), ["age", "sex"], "s", beta=0.9, public=public)
    assert not brute.broken_expected_confidence(repeat(woman, 100), ["age", "sex"], "s", beta=0.9)


def test_group_confidence():
    rows = [{"g": 0, "s": s} for s in "AAABBC"]
    confidence = [brute.confidence_bounding(rows, ["g"], "s", value=s, h=1)[(0,)] for s in "ABC"]
    assert confidence == [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]


def test_distortion_of_a_record():
    trees = {
        "age": {25: (25, "20-40", "0-40", "0-80", "*"), 50: (50, "40-60", "40-80", "0-80", "*")},
        "sex": {"male": ("male", "any"), "female": ("female", "any")},
    }
    pair = ({"age": 25, "sex": "male"}, {"age": "20-40", "sex": "any"})
    assert loss.precision([pair], ["age", "sex"], trees) == Fraction("0.625")


# Gkountouna 2011, table 4: (0.5, 2)-anonymity


def test_alpha_k_anonymity():
    rows = table(
        "job age zip s",
        *("* * 5522 HIV", "* * 5522 HIV"),
        *("* * 5475 Flu", "* * 5475 Cancer"),
        *("* * 5120 Flu", "* * 5120 Cancer"),
    )
    policy = {"alpha": 0.5, "k": 2}
    assert brute.alpha_k_anonymity(rows, ["job", "age"], "s", **policy) == {("*", "*"): Fraction(1, 3)}
    assert brute.broken_alpha_k_anonymity(rows, ["job", "age"], "s", **policy) == set()
    # With the zip code as a quasi-identifier the table as printed would not have it.
    qi = ["job", "age", "zip"]
    assert brute.broken_alpha_k_anonymity(rows, qi, "s", **policy) == {("*", "*", "5522")}
    assert brute.broken_alpha_k_anonymity(rows, qi, "s", **policy, values=["Flu"]) == set()
    assert brute.broken_alpha_k_anonymity(rows, qi, "s", alpha=1, k=3) == set(brute.classes(rows, qi))


# Four-anonymous patients, the last class homogeneous


def test_homogeneous_class():
    rows = table(
        "age zip nationality s",
        *("[20-30) 230** European Heart_Disease", "[20-30) 230** European Heart_Disease"),
        *("[20-30) 230** European Viral_Infection", "[20-30) 230** European Viral_Infection"),
        *("[40-50) 448** Asian AIDS", "[40-50) 448** Asian Heart_Disease"),
        *("[40-50) 448** Asian Viral_Infection", "[40-50) 448** Asian Viral_Infection"),
        *["[30-40) 331** European AIDS"] * 4,
    )
    qi = ["age", "zip", "nationality"]
    last = ("[30-40)", "331**", "European")
    assert set(brute.k_anonymity(rows, qi, k=4).values()) == {4}
    assert sorted(brute.distinct_l_diversity(rows, qi, "s", l=2).values()) == [1, 2, 3]
    assert brute.broken_distinct_l_diversity(rows, qi, "s", l=2) == {last}


# Recursive diversity, by hand


def values(*counted):
    return [{"g": 0, "s": s} for s, times in counted for _ in range(times)]


def test_recursive_diversity():
    rows = values(("a", 5), ("b", 3), ("c", 2), ("d", 1))
    assert brute.recursive_cl_diversity(rows, ["g"], "s", c=2, l=3) == {(0,): Fraction(5, 3)}
    assert brute.broken_recursive_cl_diversity(rows, ["g"], "s", c=2, l=3) == set()
    assert brute.broken_recursive_cl_diversity(rows, ["g"], "s", c=Fraction(5, 3), l=3) == {(0,)}
    assert brute.recursive_cl_diversity(rows, ["g"], "s", c=2, l=5) == {(0,): math.inf}
    assert brute.broken_recursive_cl_diversity(rows, ["g"], "s", c=1000, l=5) == {(0,)}


@pytest.mark.parametrize(
    ("dont_care", "l", "expected"),
    [
        ("", 3, Fraction(5, 3)),  # y = 1 <= 2: the plain model
        ("a", 3, Fraction(3, 3)),  # y = 2 <= 2: r_2 / (r_3 + r_4)
        ("ab", 3, Fraction(2, 4)),  # y = 3 > 2: r_3 / (r_2 + r_4)
        ("abc", 3, Fraction(1, 5)),  # y = 4 > 2: r_4 / (r_2 + r_3)
        ("a", 2, Fraction(3, 8)),  # y = 2 > 1: r_2 / (r_1 + r_3 + r_4)
        ("abcd", 3, 0),  # nothing to protect
        ("", 5, math.inf),
        ("a", 5, math.inf),
        ("abc", 5, math.inf),  # y = 4 <= 4: nothing from rank 5 on
    ],
)
def test_positive_disclosure(dont_care, l, expected):  # noqa: E741
    rows = values(("a", 5), ("b", 3), ("c", 2), ("d", 1))
    policy = {"l": l, "dont_care": dont_care}
    assert brute.positive_recursive_cl_diversity(rows, ["g"], "s", c=1, **policy) == {(0,): expected}
    assert bool(brute.broken_positive_recursive_cl_diversity(rows, ["g"], "s", c=1, **policy)) == (expected >= 1)


def test_positive_disclosure_ties_and_negative_disclosure():
    rows = values(("flu", 3), ("hiv", 3), ("cold", 2))
    # hiv is as frequent as flu and takes the first rank.
    policy = {"l": 2, "dont_care": ["flu"]}
    assert brute.positive_recursive_cl_diversity(rows, ["g"], "s", c=1, **policy) == {(0,): Fraction(3, 5)}
    both = {**policy, "c1": 1, "c2": 0.25, "protect": ["cold"]}
    assert brute.negative_positive_recursive_cl_diversity(rows, ["g"], "s", **both) == {(0,): Fraction(3, 5)}
    assert brute.broken_negative_positive_recursive_cl_diversity(rows, ["g"], "s", **both) == set()
    for stricter in ({"c2": 0.26}, {"c1": 0.6}, {"protect": ["cold", "cancer"]}):
        assert brute.broken_negative_positive_recursive_cl_diversity(rows, ["g"], "s", **{**both, **stricter})


def test_multi_attribute_diversity():
    rows = table("g s other", "1 a x", "1 b x", "1 a y")
    assert brute.multi_attribute_l_diversity(rows, ["g"], "s", l=2, others=["other"]) == {
        ("1", "x"): 2,
        ("1", "y"): 1,
    }
    assert brute.broken_multi_attribute_l_diversity(rows, ["g"], "s", l=2, others=["other"]) == {("1", "y")}


def test_l_plus_diversity():
    rows = values(("a", 3), ("b", 6), ("c", 1))
    assert brute.l_plus_diversity(rows, ["g"], "s", thresholds={"a": 0.3, "z": 0.5}) == {(0,): 0}
    assert brute.broken_l_plus_diversity(rows, ["g"], "s", thresholds={"a": 0.3, "z": 0.5}) == set()
    assert brute.broken_l_plus_diversity(rows, ["g"], "s", thresholds={"a": 0.29}) == {(0,)}


# Closeness


def transport(p, q, distance):
    """The least cost of turning p into q: cheapest augmenting paths in the residual graph (Bellman-Ford)."""
    supply, demand = dict(p), dict(q)
    flow = dict.fromkeys(product(p, q), Fraction(0))
    while any(supply.values()):
        cost = {("p", v): Fraction(0) for v, mass in supply.items() if mass > 0}
        step = {}
        for _ in range(len(p) + len(q)):
            for (a, b), mass in flow.items():
                here, there, d = ("p", a), ("q", b), distance(a, b)
                if here in cost and cost[here] + d < cost.get(there, math.inf):
                    cost[there], step[there] = cost[here] + d, here
                if mass > 0 and there in cost and cost[there] - d < cost.get(here, math.inf):
                    cost[here], step[here] = cost[there] - d, there
        end = min((("q", v) for v, mass in demand.items() if mass > 0), key=cost.__getitem__)
        path = [end]
        while path[-1] in step:
            path.append(step[path[-1]])
        arcs = [(there, here) for here, there in pairwise(path)]
        undone = [flow[there[1], here[1]] for here, there in arcs if here[0] == "q"]
        mass = min([supply[path[-1][1]], demand[end[1]], *undone])
        for here, there in arcs:
            if here[0] == "p":
                flow[here[1], there[1]] += mass
            else:
                flow[there[1], here[1]] -= mass
        supply[path[-1][1]] -= mass
        demand[end[1]] -= mass
    return sum(mass * distance(a, b) for (a, b), mass in flow.items())


ILLS = {
    "gastric ulcer": ("stomach", "digestive", "any"),
    "gastritis": ("stomach", "digestive", "any"),
    "colitis": ("colon", "digestive", "any"),
    "flu": ("infection", "respiratory", "any"),
    "pneumonia": ("infection", "respiratory", "any"),
    "bronchitis": ("other", "respiratory", "any"),
}


def apart(a, b):
    if a == b:
        return Fraction(0)
    common = next(i for i, pair in enumerate(zip(ILLS[a], ILLS[b], strict=True), start=1) if len(set(pair)) == 1)
    return Fraction(common, 3)


def some_distributions(names):
    """Some pairs of a part and the whole, as counts."""
    for seed in range(12):
        whole = {name: 1 + (seed * 7 + i * i * 5) % 6 for i, name in enumerate(names)}
        part = {name: (seed * 3 + i * 11) % (count + 1) for i, (name, count) in enumerate(whole.items())}
        if any(part.values()):
            yield tuple(
                {name: Fraction(c, sum(counted.values())) for name, c in counted.items()} for counted in (part, whole)
            )


def test_distances_are_optimal_transport():
    salaries = [3, 4, 5, 6, 9, 11]
    for p, q in some_distributions(salaries):
        assert brute.equal_distance(p, q) == transport(p, q, lambda a, b: Fraction(a != b))
        ranked = {salary: rank for rank, salary in enumerate(salaries)}
        # The lambda is used up within the iteration.
        steps = transport(p, q, lambda a, b: Fraction(abs(ranked[a] - ranked[b]), 5))  # noqa: B023
        assert brute.ordered_distance(p, q) == steps
    for p, q in some_distributions(list(ILLS)):
        assert brute.hierarchical_distance(p, q, ILLS) == transport(p, q, apart)


def test_ordered_closeness():
    # Li et al. 2007: nine salaries; {3,4,5} is 0.375 from all of them, {6,8,11} only 0.167.
    places = {3: "low", 4: "low", 5: "low", 6: "wide", 8: "wide", 11: "wide"}
    rows = [{"g": places.get(salary), "s": salary} for salary in range(3, 12)]
    measured = brute.ordered_t_closeness(rows, ["g"], "s", t=0.167)
    assert measured[("low",)] == Fraction(3, 8)
    assert measured[("wide",)] == Fraction(1, 6)
    assert brute.broken_ordered_t_closeness(rows, ["g"], "s", t=0.167) == {("low",), (None,)}
    assert measured[(None,)] == Fraction(17, 72)
    assert brute.ordered_t_closeness([{"g": 1, "s": 5}], ["g"], "s", t=0) == {(1,): 0}
    # None is the least value: None, 1, 2.
    rows = [{"g": "x", "s": None}, {"g": "y", "s": 1}, {"g": "y", "s": 2}]
    assert brute.ordered_t_closeness(rows, ["g"], "s", t=0) == {
        ("x",): Fraction(1, 2),
        ("y",): Fraction(1, 4),
    }


def test_hierarchical_closeness_of_a_value_outside_the_tree():
    rows = [{"g": "x", "s": None}, {"g": "y", "s": "flu"}]
    measured = brute.hierarchical_t_closeness(rows, ["g"], "s", t=0.4, taxonomy=ILLS)
    assert measured == {("x",): Fraction(1, 2), ("y",): Fraction(1, 2)}
    assert len(brute.broken_hierarchical_t_closeness(rows, ["g"], "s", t=0.4, taxonomy=ILLS)) == 2


def test_nt_closeness():
    rows = table("zip s", *["4351 a"] * 2, *["4352 b"] * 2, *["4360 b"] * 4)
    up = {"4351": ["435*", "****"], "4352": ["435*", "****"], "4360": ["436*", "****"]}
    policy = {"t": 0.5, "ancestors": {"zip": up}}
    assert set(brute.nt_closeness(rows, ["zip"], "s", n=2, **policy).values()) == {0}
    measured = brute.nt_closeness(rows, ["zip"], "s", n=4, **policy)
    # Four rows are in 435* (half a) and in 4360 itself; eight in ****.
    assert measured == {("4351",): Fraction(1, 2), ("4352",): Fraction(1, 4), ("4360",): 0}
    assert brute.broken_nt_closeness(rows, ["zip"], "s", n=4, **policy) == set()
    assert brute.broken_nt_closeness(rows, ["zip"], "s", n=5, **policy) == {("4351",)}
    assert set(brute.nt_closeness(rows, ["zip"], "s", n=9, **policy).values()) == {math.inf}
    assert len(brute.broken_nt_closeness(rows, ["zip"], "s", n=9, **policy)) == 3


def test_likeness_and_disclosure():
    rows = [{"g": g, "s": s} for g, s in ("xa", "xb", "ya", "ya", "ya", "yc", "zb", "zc")]
    # q: a 1/2, b 1/4, c 1/4.
    gains = brute.basic_beta_likeness(rows, ["g"], "s", beta=1)
    assert gains == {("x",): 1, ("y",): Fraction(1, 2), ("z",): 1}
    assert brute.broken_basic_beta_likeness(rows, ["g"], "s", beta=1) == set()
    assert brute.broken_basic_beta_likeness(rows, ["g"], "s", beta=0.9) == {("x",), ("z",)}
    assert brute.enhanced_beta_likeness(rows, ["g"], "s", beta=1) == gains
    assert brute.broken_enhanced_beta_likeness(rows, ["g"], "s", beta=1) == set()
    skewed = [{"g": g, "s": s} for g, s in ("xa", "xa", "xa", "yb")]
    # a: gain 1/3 over q = 3/4, but -ln q is 0.288; b: gain 3, -ln q is 1.386.
    assert brute.broken_enhanced_beta_likeness(skewed, ["g"], "s", beta=5) == {("x",), ("y",)}
    changes = brute.delta_disclosure(rows, ["g"], "s", delta=1)
    assert changes == {("x",): math.inf, ("y",): math.inf, ("z",): math.inf}
    half = [{"g": g, "s": s} for g, s in ("xa", "xb", "ya", "ya", "ya", "yb")]
    changes = brute.delta_disclosure(half, ["g"], "s", delta=0.41)
    assert changes == pytest.approx({("x",): math.log(3 / 2), ("y",): math.log(4 / 3)})
    assert brute.broken_delta_disclosure(half, ["g"], "s", delta=0.41) == set()
    assert brute.broken_delta_disclosure(half, ["g"], "s", delta=0.4) == {("x",)}


def test_personalized_privacy():
    tree = {"HIV": ("infectious", "any"), "SARS": ("infectious", "any"), "ulcer": ("stomach", "any")}
    rows = table("g s wish", "1 HIV infectious", "1 SARS -", "1 ulcer ulcer", "1 ulcer -", "2 HIV -")
    policy = {"guard": "wish", "taxonomy": tree}
    measured = brute.personalized_privacy(rows, ["g"], "s", p_breach=0.5, **policy)
    assert measured == {("1",): Fraction(1, 2), ("2",): 0}
    assert brute.broken_personalized_privacy(rows, ["g"], "s", p_breach=0.5, **policy) == set()
    assert brute.broken_personalized_privacy(rows, ["g"], "s", p_breach=0.4, **policy) == {("1",)}


@pytest.mark.full
def test_ff_anonymity():
    rows = table("job sex s", "Clerk M HIV", "Clerk F Flu", "Spy F HIV")
    secrets = {"s": ["HIV"], "job": ["Spy"]}
    measured = brute.ff_anonymity(rows, ["job", "sex", "s"], h=0.6, sensitive_values=secrets)
    clerk, man, woman = ("job", "Clerk"), ("sex", "M"), ("sex", "F")
    assert measured == {
        (frozenset(), ("s", "HIV")): Fraction(2, 3),
        (frozenset({clerk}), ("s", "HIV")): Fraction(1, 2),
        (frozenset({man}), ("s", "HIV")): 1,
        (frozenset({clerk, man}), ("s", "HIV")): 1,
        (frozenset({woman}), ("s", "HIV")): Fraction(1, 2),
        (frozenset(), ("job", "Spy")): Fraction(1, 3),
        (frozenset({woman}), ("job", "Spy")): Fraction(1, 2),
    }
    broken = brute.broken_ff_anonymity(rows, ["job", "sex", "s"], h=0.6, sensitive_values=secrets)
    assert broken == {key for key, p in measured.items() if p > Fraction(3, 5)}


def test_persons():
    rows = table("g s who", "1 a ann", "1 a ann", "1 b ann", "1 a bob", "1 c -", "- a -")
    one, none = ("1",), (None,)
    assert brute.k_anonymity(rows, ["g"], k=2, person="who") == {one: 2, none: 0}
    assert brute.distinct_l_diversity(rows, ["g"], "s", l=2, person="who") == {one: 2, none: 0}
    assert brute.alpha_k_anonymity(rows, ["g"], "s", alpha=1, k=1, person="who") == {one: 1, none: 0}
    assert brute.confidence_bounding(rows, ["g"], "s", value="b", h=1, person="who")[one] == Fraction(1, 2)
    # Two persons have a, one has b: as a distribution 2/3 and 1/3.
    diversity = brute.entropy_l_diversity(rows, ["g"], "s", l=1, person="who")
    assert diversity == pytest.approx({one: 3 / 2 ** (2 / 3), none: 1})
    assert brute.t_closeness(rows, ["g"], "s", t=0, person="who") == {one: 0, none: 0}
    assert brute.recursive_cl_diversity(rows, ["g"], "s", c=1, l=2, person="who") == {one: 2, none: math.inf}


def test_null_is_a_value():
    rows = [{"g": None, "s": None}, {"g": None, "s": 1}, {"g": 0, "s": None}]
    assert brute.k_anonymity(rows, ["g"], k=2) == {(None,): 2, (0,): 1}
    assert brute.distinct_l_diversity(rows, ["g"], "s", l=2) == {(None,): 2, (0,): 1}
    assert brute.xy_anonymity(rows, ["g"], "s", k=1) == {(None,): 1, (0,): 0}


# Losses, by hand


def test_losses_of_a_small_release():
    tree = {"job": JOBS, "sex": {"M": ("M", "*"), "F": ("F", "*")}}
    columns = ["job", "sex"]
    originals = table("job sex y", "Engineer M 1", "Lawyer M 0", "Lawyer M 0", "Dancer F 1", "Writer F 1")
    triples = [({**row}, {"job": JOBS[row["job"]][1], "sex": row["sex"]}, row["job"] != "Writer") for row in originals]
    pairs = loss.released(triples)
    assert loss.minimal_distortion(pairs, columns, tree) == 4 + (2 + 1)
    assert loss.iloss(pairs, columns, tree) == 4 * Fraction(1, 4) + Fraction(3, 4) + Fraction(1, 2)
    assert loss.ncp_by_column(pairs, columns, tree) == {"job": Fraction(7, 15), "sex": Fraction(1, 5)}
    assert loss.ncp(pairs, columns, tree) == Fraction(1, 3)
    assert loss.ncp_geometric(pairs, columns, tree) == pytest.approx(math.sqrt(22 / 15 * 6 / 5) - 1)
    assert loss.precision(pairs, columns, tree) == (Fraction(3, 5) + Fraction(1, 5)) / 2
    assert loss.height(pairs, columns, tree) == 1
    assert loss.discernibility(pairs, columns) == 9 + 1 + 5
    assert loss.discernibility_star(triples, columns) == 9 + 4
    assert loss.average_class_size(pairs, columns, k=2) == 1
    assert loss.aecs(pairs, columns) == Fraction(5, 3)
    assert loss.classification_metric(pairs, columns, "y") == Fraction(2, 5)
    # Professional: 3 rows, of them Engineer 1 and Lawyer 2; Artist: 2 rows. A single row has no entropy.
    bits = math.log2(3) + 2 * math.log2(3 / 2) + 2 * math.log2(2)
    assert loss.non_uniform_entropy(triples, columns) == pytest.approx(bits)
    # Kept: Engineer 1/4, Lawyer 1/2, Dancer 1/4; their classes spread 3/4 and 1/4 over two jobs each.
    nats = math.log((1 / 4) / (3 / 8)) / 4 + math.log((1 / 2) / (3 / 8)) / 2 + math.log((1 / 4) / (1 / 8)) / 4
    assert loss.kl_divergence(pairs, columns, tree) == pytest.approx(nats)
