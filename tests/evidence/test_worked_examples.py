"""The worked examples of the papers that the models come from: their tables, and the numbers that they give."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from conftest import Database

from sqlanon.evidence.checks import check
from sqlanon.evidence.loss import loss
from sqlanon.evidence.results import CheckResult
from sqlanon.policy import Source, parse

Key = tuple[str | None, ...]


def fill(database: Database, name: str, columns: str, rows: str, types: Mapping[str, str] | None = None) -> None:
    """A table from text: one line a row, cells between bars, - for NULL; `x 3` at the end repeats a row."""
    names = [column.strip() for column in columns.split("|")]
    listed = []
    for line in filter(None, map(str.strip, rows.splitlines())):
        row, _, times = line.partition(" x ")
        cells = [None if cell.strip() == "-" else cell.strip() for cell in row.split("|")]
        listed += [dict(zip(names, cells, strict=True))] * int(times or 1)
    database.table(name, {column: (types or {}).get(column, "TEXT") for column in names}, listed)


def checked(database: Database, text: str, release: str | None = None) -> list[CheckResult]:
    source = Source(table=release) if release else None
    return list(check(parse(text), database.engine, release=source, limit=100).checks)


def broken(result: CheckResult) -> dict[Key, float]:
    return {tuple(violation.columns.values()): violation.measured for violation in result.violations}


# Fung et al. 2010: patients and an external table of the same people --------------------------------------------------

PATIENTS = """
    Engineer | Male   | 35 | Hepatitis
    Engineer | Male   | 38 | Hepatitis
    Lawyer   | Male   | 38 | HIV
    Writer   | Female | 30 | Flu
    Writer   | Female | 30 | HIV
    Dancer   | Female | 30 | HIV x 2
"""
EXTERNAL = """
    Alice  | Writer   | Female | 30
    Bob    | Engineer | Male   | 35
    Cathy  | Writer   | Female | 30
    Doug   | Lawyer   | Male   | 38
    Emily  | Dancer   | Female | 30
    Fred   | Engineer | Male   | 38
    Gladys | Dancer   | Female | 30
    Henry  | Lawyer   | Male   | 39
    Irene  | Dancer   | Female | 32
"""
RELEASED = """
    Professional | Male   | [35-40) | Hepatitis x 2
    Professional | Male   | [35-40) | HIV
    Artist       | Female | [30-35) | Flu
    Artist       | Female | [30-35) | HIV x 3
"""
PROFESSIONALS = ("Professional", "Male", "[35-40)")
ARTISTS = ("Artist", "Female", "[30-35)")
PATIENT_POLICY = """
source: {table: patients}
population: {table: external}
columns: {job: quasi_identifier, sex: quasi_identifier, age: quasi_identifier, disease: sensitive}
hierarchies:
  job:
    tree: {tree: {ANY: {Professional: [Engineer, Lawyer], Artist: [Dancer, Writer]}}}
  sex:
    tree: {tree: {ANY: [Male, Female]}}
  age:
    tree: {tree: {'[30-40)': {'[30-35)': [30, 31, 32, 33, 34], '[35-40)': [35, 36, 37, 38, 39]}}}
models:
"""


@pytest.fixture
def patients(database: Database) -> Database:
    fill(database, "patients", "job | sex | age | disease", PATIENTS, {"age": "INTEGER"})
    fill(database, "external", "name | job | sex | age", EXTERNAL, {"age": "INTEGER"})
    fill(database, "released", "job | sex | age | disease", RELEASED)
    return database


def test_the_raw_patients_are_identified(patients: Database) -> None:
    (found,) = checked(patients, PATIENT_POLICY + "  - k_anonymity: {k: 3}")
    assert broken(found)[("Lawyer", "Male", "38")] == 1
    assert found.measured == 1 and not found.holds


@pytest.mark.parametrize(("k", "holds"), [(3, True), (4, False)])
def test_the_generalized_patients_are_3_anonymous(patients: Database, k: int, holds: bool) -> None:
    (found,) = checked(patients, PATIENT_POLICY + f"  - k_anonymity: {{k: {k}}}", "released")
    assert (found.classes, found.measured, found.holds) == (2, 3, holds)


def test_the_entropy_of_the_patients(patients: Database) -> None:
    models = "".join(f"  - entropy_l_diversity: {{l: {level}}}\n" for level in (1.75, 1.76, 2))
    holds, fails, both = checked(patients, PATIENT_POLICY + models, "released")
    assert holds.holds and not fails.holds
    assert broken(fails).keys() == {ARTISTS}
    assert broken(both) == {
        PROFESSIONALS: pytest.approx(1.89, abs=5e-3),
        ARTISTS: pytest.approx(1.75, abs=5e-3),
    }


def test_hiv_is_inferred_with_confidence_three_quarters(patients: Database) -> None:
    models = "  - confidence_bounding: {value: HIV, h: 0.1}\n  - confidence_bounding: {value: HIV, h: 0.75}"
    template, loose = checked(patients, PATIENT_POLICY + models, "released")
    assert broken(template) == {ARTISTS: pytest.approx(0.75), PROFESSIONALS: pytest.approx(1 / 3)}
    assert loose.holds and loose.measured == pytest.approx(0.75)


def test_presence_of_the_external_people(patients: Database) -> None:
    """The external table has the original values: it is generalized as the release was."""
    models = "  - delta_presence: {delta_min: 0, delta_max: 0.7}\n  - delta_presence: {delta_min: 0.75, delta_max: 0.8}"
    strict, exact = checked(patients, PATIENT_POLICY + models, "released")
    assert broken(strict) == {ARTISTS: pytest.approx(4 / 5), PROFESSIONALS: pytest.approx(3 / 4)}
    assert exact.holds


def test_presence_in_an_external_table_that_is_generalized_already(patients: Database) -> None:
    fill(patients, "external", "job | sex | age", "Professional|Male|[35-40) x 4\nArtist|Female|[30-35) x 5")
    text = """
    source: {table: released}
    population: {table: external}
    columns: {job: quasi_identifier, sex: quasi_identifier, age: quasi_identifier, disease: sensitive}
    models: [delta_presence: {delta_min: 0, delta_max: 0.7}, k_map: {k: 5}]
    """
    presence, crowd = checked(patients, text)
    assert broken(presence) == {ARTISTS: pytest.approx(4 / 5), PROFESSIONALS: pytest.approx(3 / 4)}
    assert broken(crowd) == {PROFESSIONALS: 4}


def test_what_the_generalized_patients_lost(patients: Database) -> None:
    policy = parse(PATIENT_POLICY + "  - k_anonymity: {k: 3}")
    found = loss(policy, patients.engine, Source(table="released"))
    assert found.levels == {"job": 1, "sex": 0, "age": 1}
    # Each job costs (2 - 1)/4, each age (5 - 1)/10, and one level in two attributes.
    assert found.metrics["iloss"] == pytest.approx(7 * (1 / 4 + 4 / 10))
    assert found.metrics["minimal_distortion"] == 7 * 2
    assert found.metrics["discernibility"] == 3**2 + 4**2
    assert found.metrics["c_avg"] == pytest.approx(7 / 2 / 3)


def test_iloss_of_one_artist(database: Database) -> None:
    database.table("original", {"job": "TEXT"}, [{"job": "Dancer"}])
    database.table("released", {"job": "TEXT"}, [{"job": "Artist"}])
    policy = parse("""
    source: {table: original}
    columns: {job: quasi_identifier}
    hierarchies: {job: {tree: {tree: {ANY: {Professional: [Engineer, Lawyer], Artist: [Dancer, Writer]}}}}}
    models: [k_anonymity: {k: 2}]
    """)
    found = loss(policy, database.engine, Source(table="released"))
    assert found.metrics["iloss"] == pytest.approx(0.25)
    assert found.metrics["ncp"] == pytest.approx(1 / 3)


def test_a_diverse_class_far_from_a_skewed_table(database: Database) -> None:
    fill(database, "t", "q | disease", "mixed|Flu x 5\nmixed|HIV x 5\nothers|Flu x 90")
    text = """
    source: {table: t}
    columns: {q: quasi_identifier, disease: sensitive}
    models: [distinct_l_diversity: {l: 2}, t_closeness: {t: 0.44}, t_closeness: {t: 0.45}]
    """
    diversity, far, near = checked(database, text)
    assert broken(diversity) == {("others",): 1}  # the mixed class is 2-diverse
    assert broken(far) == {("mixed",): pytest.approx(0.45)}
    assert near.holds


def test_close_values_pass_k_e_and_fail_epsilon_m(database: Database) -> None:
    salaries = [30, 30, 31, 31, 32, 33, 34, 35, 35, 80]
    rows = [{"q": "one class", "salary": salary} for salary in salaries]
    database.table("t", {"q": "TEXT", "salary": "INTEGER"}, rows)
    text = """
    source: {table: t}
    columns: {q: quasi_identifier, salary: sensitive}
    models:
      - k_e_anonymity: {k: 7, e: 50}
      - k_e_anonymity: {k: 8, e: 50}
      - k_e_anonymity: {k: 7, e: 51}
    """ + "".join(f"  - epsilon_m_anonymity: {{epsilon: 5, m: {m}}}\n    " for m in range(2, 11))
    holds, more_values, wider, *proximity = checked(database, text)
    assert holds.holds and holds.measured == 50
    assert not more_values.holds and not wider.holds
    assert len(proximity) == 9
    for result in proximity:
        assert not result.holds and result.measured == pytest.approx(0.9)


# Sun, Li and Wang 2011: a medical table, four categories of diseases --------------------------------------------------

ASIANS = """
    >40 | Asia | 130** | Hepatitis
    >40 | Asia | 130** | Phthisis
    >40 | Asia | 130** | Asthma
    >40 | Asia | 130** | Obesity
"""
TABLE_2 = """
    (27-28) | America | 142** | HIV x 2
    (25-26) | America | 142** | Cancer x 2
    (33-35) | America | 142** | Flu
    (33-35) | America | 142** | Indigestion
    (36-37) | America | 142** | Flu x 2
"""
TABLE_5 = """
    <30 | America | 142** | HIV x 2
    <30 | America | 142** | Cancer x 2
    3*  | America | 142** | Flu x 3
    3*  | America | 142** | Indigestion
"""
TABLE_6 = """
    <40 | America | 142** | HIV x 2
    <40 | America | 142** | Cancer
    <40 | America | 142** | Flu
    <40 | America | 14*** | Cancer
    <40 | America | 14*** | Flu x 2
    <40 | America | 14*** | Indigestion
"""
TABLE_7 = """
    <40 | America | 142** | HIV x 2
    <40 | America | 142** | Flu x 2
    <40 | America | 14*** | Cancer x 2
    <40 | America | 14*** | Flu
    <40 | America | 14*** | Indigestion
"""
CATEGORIES = "categories: [[HIV, Cancer], [Phthisis, Hepatitis], [Obesity, Asthma], [Flu, Indigestion]]"
MEDICAL_POLICY = """
source: {table: t}
columns: {age: quasi_identifier, country: quasi_identifier, zip: quasi_identifier, disease: sensitive}
models:
"""


def medical(database: Database, rows: str, *models: str) -> list[CheckResult]:
    fill(database, "t", "age | country | zip | disease", rows)
    return checked(database, MEDICAL_POLICY + "".join(f"  - {model}\n" for model in models))


def test_2_anonymity_discloses_cancer(database: Database) -> None:
    models = "k_anonymity: {k: 2}", "distinct_l_diversity: {l: 2}", "confidence_bounding: {value: Cancer, h: 0.5}"
    anonymity, diversity, cancer = medical(database, ASIANS + TABLE_2, *models)
    assert anonymity.holds and (anonymity.classes, anonymity.measured) == (5, 2)
    assert diversity.measured == 1
    assert {age for age, *_ in broken(diversity)} == {"(27-28)", "(25-26)", "(36-37)"}
    assert broken(cancer) == {("(25-26)", "America", "142**"): 1}


def test_2_diversity_is_open_to_similarity(database: Database) -> None:
    models = "distinct_l_diversity: {l: 2}", f"distinct_l_alpha_diversity: {{l: 2, alpha: 1, {CATEGORIES}}}"
    diversity, similarity = medical(database, ASIANS + TABLE_5, *models)
    assert diversity.holds and diversity.measured == 2
    assert broken(similarity) == {("<30", "America", "142**"): 0}


def test_distinct_3_1_diversity(database: Database) -> None:
    models = [f"distinct_l_alpha_diversity: {{l: 3, alpha: {alpha}, {CATEGORIES}}}" for alpha in (1, 1.01)]
    holds, heavier = medical(database, ASIANS + TABLE_6, *models)
    assert holds.holds and holds.measured == pytest.approx(1)
    assert broken(heavier) == {("<40", "America", "142**"): pytest.approx(1)}


def test_entropy_2_2_diversity(database: Database) -> None:
    bounds = ("l: 2, alpha: 2", "l: 3, alpha: 2", "l: 2, alpha: 2.1")
    models = [f"entropy_l_alpha_diversity: {{{bound}, {CATEGORIES}}}" for bound in bounds]
    holds, more, heavier = medical(database, ASIANS + TABLE_7, *models)
    assert holds.holds and holds.measured == pytest.approx(2)
    assert (more.broken_classes, heavier.broken_classes) == (3, 3)  # two categories, total weight 2 in each class


@pytest.mark.parametrize(
    ("weighting", "total"),
    [
        ("", 2),
        (f"weights: [0, {9 / 61}, {45 / 61}, 1]", 115 / 61),  # as the paper prints them
        ("weighting: sensitivity, beta: 2", (36 + 45 + 49) / 49),  # as its equation gives them
    ],
)
def test_total_weight_of_four_diseases(database: Database, weighting: str, total: float) -> None:
    rows = "".join(f"-|-|-|{disease}\n" for disease in ("Cancer", "Phthisis", "Asthma", "Flu"))
    given = ", ".join(filter(None, ("l: 2", "alpha: 1", CATEGORIES, weighting)))
    (found,) = medical(database, rows, f"distinct_l_alpha_diversity: {{{given}}}")
    assert found.measured == pytest.approx(total, abs=1e-12)


# Sattar et al. 2013: expected and observed confidence -----------------------------------------------------------------


@pytest.mark.parametrize(("n", "expected"), [(100, 0.313), (1000, 0.977)])
def test_expected_confidence_grows_with_the_table(database: Database, n: int, expected: float) -> None:
    fill(database, "t", "age | sex | disease", f"20-30|female|diabetes x 2\n30-40|male|flu x {n - 2}")
    text = """
    source: {table: t}
    columns: {age: quasi_identifier, sex: quasi_identifier, disease: sensitive}
    models:
      - expected_confidence:
          public:
            age: {20-30: 0.15, 30-40: 0.85}
            sex: {female: 0.5, male: 0.5}
            disease: {diabetes: 0.05, flu: 0.95}
    """
    (found,) = checked(database, text)
    # The diabetes in a class of its own is inferred with certainty: 1 is what was observed, and the worst class.
    assert 1 - broken(found)[("20-30", "female")] == pytest.approx(expected, abs=5e-4)
    assert found.measured == pytest.approx((1 - 0.15 * 0.5 * 0.05) ** n, abs=1e-12)


def test_a_conditional_probability_takes_the_place_of_the_general_one(database: Database) -> None:
    fill(
        database,
        "t",
        "age | sex | disease",
        "40-60|female|diabetes x 2\n20-30|female|diabetes x 2\n20-30|male|flu x 96",
    )
    text = """
    source: {table: t}
    columns: {age: quasi_identifier, sex: quasi_identifier, disease: sensitive}
    models:
      - expected_confidence:
          public: {age: {40-60: 0.15, 20-30: 0.15}, sex: {female: 0.5, male: 0.5}, disease: {diabetes: 0.05, flu: 0.95}}
          conditional: [{when: {age: 40-60, sex: female}, value: diabetes, probability: 0.2}]
    """
    (found,) = checked(database, text)
    assert broken(found)[("40-60", "female")] == pytest.approx((1 - 0.15 * 0.5 * 0.2) ** 100)
    assert broken(found)[("20-30", "female")] == pytest.approx((1 - 0.15 * 0.5 * 0.05) ** 100)


def test_group_confidences(database: Database) -> None:
    fill(database, "t", "q | s", "g|A x 3\ng|B x 2\ng|C")
    # What is public knowledge is expected with near certainty; the best of the rest is what is observed too much.
    publics = ("{B: 0.5, C: 0.5}", "{A: 1}", "{A: 0.5, B: 0.5}")
    text = "source: {table: t}\ncolumns: {q: quasi_identifier, s: sensitive}\nmodels:\n"
    text += "".join(f"  - confidence_bounding: {{value: {value}, h: 0.1}}\n" for value in "ABC")
    text += "".join(f"  - expected_confidence: {{beta: 1, public: {{q: {{g: 1}}, s: {s}}}}}\n" for s in publics)
    found = [result.measured for result in checked(database, text)]
    assert found == pytest.approx([1 / 2, 1 / 3, 1 / 6] * 2)


# Gkountouna: a survey's examples of (alpha,k)-anonymity and of several relations --------------------------------------

SUPPRESSED = """
    * | * | 5522 | HIV x 2
    * | * | 5475 | Flu
    * | * | 5475 | Cancer
    * | * | 5120 | Flu
    * | * | 5120 | Cancer
"""


def test_half_2_anonymity_by_suppression(database: Database) -> None:
    fill(database, "t", "job | age | zip | disease", SUPPRESSED)
    text = """
    source: {table: t}
    columns: {job: quasi_identifier, age: quasi_identifier, zip: quasi_identifier, disease: sensitive}
    models:
      - alpha_k_anonymity: {alpha: 0.5, k: 2, qid: [job, age]}
      - alpha_k_anonymity: {alpha: 0.5, k: 2}
      - k_anonymity: {k: 2}
    """
    known, with_zip, anonymity = checked(database, text)
    assert known.holds and known.measured == pytest.approx(1 / 3)
    assert broken(with_zip) == {("*", "*", "5522"): 1}  # as soon as the zip code is known too
    assert anonymity.holds


def test_2_anonymity_leaves_a_homogeneous_class(database: Database) -> None:
    rows = "Lawyer|*|5522|HIV x 2\nLawyer|30|5475|Flu\nLawyer|30|5475|Cancer\n*|25|5120|Flu\n*|25|5120|Cancer"
    fill(database, "t", "job | age | zip | disease", rows)
    text = """
    source: {table: t}
    columns: {job: quasi_identifier, age: quasi_identifier, zip: quasi_identifier, disease: sensitive}
    models: [k_anonymity: {k: 2}, alpha_k_anonymity: {alpha: 0.5, k: 2}]
    """
    anonymity, confidence = checked(database, text)
    assert anonymity.holds and (anonymity.classes, anonymity.measured) == (3, 2)
    assert broken(confidence) == {("Lawyer", "*", "5522"): 1}


STUDENTS = "S1 | 95.5\nS2 | 82.7\nS3 | 65.8\nS4 | 100.0"
COURSES = """
    Sc1 | S1 | Math\nSc2 | S1 | Physics\nSc3 | S1 | History
    Sc4 | S2 | C.Sc.\nSc5 | S2 | Physics\nSc6 | S2 | Religion
    Sc7 | S3 | History\nSc8 | S3 | Religion\nSc9 | S3 | Physics
    Sc10 | S4 | History\nSc11 | S4 | Religion
"""
BOOKS = """
    Sc1 | Discrete\nSc2 | Calculus\nSc2 | Dynamics\nSc3 | Rel. Hist.\nSc4 | Discrete\nSc5 | Dynamics
    Sc6 | Christianity\nSc7 | Romans\nSc8 | Christianity\nSc9 | Calculus\nSc10 | Prehistory
"""
RELEASED_COURSES = """
    Sc1 | S1 | Science\nSc2 | S1 | Physics\nSc3 | S1 | Social
    Sc4 | S2 | Science\nSc5 | S2 | Physics\nSc6 | S2 | Social
    Sc7 | S3 | History\nSc8 | S3 | Religion
    Sc10 | S4 | History\nSc11 | S4 | Religion
"""
RELEASED_BOOKS = """
    Sc1 | Discrete\nSc2 | Dynamics\nSc3 | Rel. Book\nSc4 | Discrete\nSc5 | Dynamics\nSc6 | Rel. Book
    Sc7 | Hist Book\nSc10 | Hist Book
"""
STUDENT_POLICY = """
source: {table: students, joins: [{table: courses, on: sid}, {table: books, on: scid}]}
person: sid
columns: {course: quasi_identifier, book: quasi_identifier, gpa: sensitive}
models: [multirelational_k_anonymity: {k: 2}]
"""


@pytest.mark.parametrize(
    ("courses", "books", "least", "classes"), [(COURSES, BOOKS, 1, 4), (RELEASED_COURSES, RELEASED_BOOKS, 2, 2)]
)
def test_students_with_courses_and_books(
    database: Database, courses: str, books: str, least: int, classes: int
) -> None:
    fill(database, "students", "sid | gpa", STUDENTS, {"gpa": "DOUBLE PRECISION"})
    fill(database, "courses", "scid | sid | course", courses)
    fill(database, "books", "scid | book", books)
    (found,) = checked(database, STUDENT_POLICY)
    assert (found.measured, found.classes, found.holds) == (least, classes, least == 2)


def test_many_rows_of_one_owner_are_not_a_crowd(database: Database) -> None:
    fill(database, "students", "sid | gpa", STUDENTS, {"gpa": "DOUBLE PRECISION"})
    fill(database, "courses", "scid | sid | course", "1|S1|Art\n2|S1|Art\n3|S1|Art\n4|S2|Law\n5|S3|Law")
    text = """
    source: {table: students, joins: [{table: courses, on: sid}]}
    person: sid
    columns: {course: quasi_identifier, gpa: sensitive}
    models: [multirelational_k_anonymity: {k: 2}]
    """
    (owners,) = checked(database, text)
    # Nobody else takes art, or nothing at all; two take law.
    assert (owners.classes, owners.broken_classes, owners.broken_records, owners.measured) == (3, 2, 2, 1)
    (rows,) = checked(database, text.replace("person: sid", "").replace("multirelational_k_anonymity", "k_anonymity"))
    assert broken(rows) == {(None,): 1}


# Domingo-Ferrer, Sánchez and Hajian: a chapter on database privacy ---------------------------------------------------


def test_a_4_anonymous_table_with_a_homogeneous_class(database: Database) -> None:
    rows = """
    [20-30) | 230** | European | Heart Disease x 2
    [20-30) | 230** | European | Viral Infection x 2
    [40-50) | 448** | Asian | AIDS
    [40-50) | 448** | Asian | Heart Disease
    [40-50) | 448** | Asian | Viral Infection x 2
    [30-40) | 331** | European | AIDS x 4
    """
    fill(database, "t", "age | zip | nationality | condition", rows)
    text = """
    source: {table: t}
    columns: {age: quasi_identifier, zip: quasi_identifier, nationality: quasi_identifier, condition: sensitive}
    models: [k_anonymity: {k: 4}, distinct_l_diversity: {l: 2}, entropy_l_diversity: {l: 2.9}]
    """
    anonymity, diversity, entropy = checked(database, text)
    assert anonymity.holds and (anonymity.classes, anonymity.measured) == (3, 4)
    assert broken(diversity) == {("[30-40)", "331**", "European"): 1}
    assert list(broken(entropy).values()) == pytest.approx([1, 2, math.exp(0.5 * math.log(2) + 0.5 * math.log(4))])
