"""Attacks that the literature works out: their tables, and the persons whom they name."""

from __future__ import annotations

import brute_attacks as brute
import pytest
from conftest import Database
from test_worked_examples import ASIANS, EXTERNAL, PATIENT_POLICY, PATIENTS, RELEASED, TABLE_2, TABLE_5, fill

from sqlanon.evidence.attacks import Attack, Outcome, attack
from sqlanon.policy import Source, parse


def tried(
    database: Database, policy: str, name: str, release: str | None = None, external: str | None = None, **asked: object
) -> Attack:
    given = {
        key: Source(table=value) if "SELECT" not in value else Source(query=value)
        for key, value in (("release", release), ("external", external))
        if value is not None
    }
    (found,) = attack(parse(policy), database.engine, names=[name], **given, **asked).attacks  # type: ignore[arg-type]
    return found


# Fung et al. 2010, Table II ---------------------------------------------------------------------------------------


@pytest.fixture
def patients(database: Database) -> Database:
    fill(database, "patients", "job | sex | age | disease", PATIENTS, {"age": "INTEGER"})
    fill(database, "external", "name | job | sex | age", EXTERNAL, {"age": "INTEGER"})
    fill(database, "released", "job | sex | age | disease", RELEASED)
    return database


ASKED = PATIENT_POLICY + "  - k_anonymity: {k: 3}\n"


def one(name: str) -> str:
    return f"SELECT * FROM external WHERE name = '{name}'"


def test_doug_is_linked_to_his_record_and_hidden_by_the_release(patients: Database) -> None:
    """Doug, the lawyer of 38, has one record, which tells HIV; as a professional he is one of three."""
    found = tried(patients, ASKED, "linkage", "released", one("Doug"))
    assert (found.before, found.after) == (
        Outcome(1, 1, 1.0, 1.0),
        Outcome(1, 0, pytest.approx(1 / 3), pytest.approx(1 / 3)),
    )
    found = tried(patients, ASKED, "attribute_linkage", "released", one("Doug"))
    assert found.before == Outcome(1, 1, 1.0, 1.0)
    assert found.after == Outcome(1, 0, pytest.approx(2 / 3), pytest.approx(2 / 3))


def test_emily_has_hiv_though_her_record_is_not_found(patients: Database) -> None:
    """There are two dancers of 30, both with HIV; of the artists three in four have it."""
    identity = tried(patients, ASKED, "linkage", "released", one("Emily"))
    assert identity.before == Outcome(1, 0, 0.5, 0.5)
    found = tried(patients, ASKED, "attribute_linkage", "released", one("Emily"))
    assert found.before == Outcome(1, 1, 1.0, 1.0)
    assert found.after == Outcome(1, 0, 0.75, 0.75)


def test_all_listed_persons(patients: Database) -> None:
    """Bob, Doug and Fred are alone; Emily and Gladys share one disease. Henry and Irene are not patients."""
    found = tried(patients, ASKED, "linkage", "released", "external")
    assert (found.before.targets, found.before.broken) == (9, 3)
    assert found.after == Outcome(9, 0, 0.25, pytest.approx(2 / 9))  # four professionals, five artists
    found = tried(patients, ASKED, "attribute_linkage", "released", "external")
    assert (found.before.broken, found.after and found.after.broken) == (5, 0)


def test_presence_of_alice_and_bob(patients: Database) -> None:
    """Of the five artists four are patients, of the four professionals three."""
    found = tried(patients, ASKED, "membership", "released", "external")
    assert found.before == Outcome(9, 7, 1.0, pytest.approx(7 / 9))
    assert found.after == Outcome(9, 0, pytest.approx(4 / 5), pytest.approx((5 * 4 / 5 + 4 * 3 / 4) / 9))
    assert tried(patients, ASKED, "membership", "released", "external", certainty=0.8).after.broken == 5  # type: ignore[union-attr]


# Fung et al. 2010, Table V ----------------------------------------------------------------------------------------

JOBS = """
source: {table: t}
columns: {job: quasi_identifier, sex: quasi_identifier, disease: sensitive}
hierarchies:
  job: {tree: {tree: {ANY: {Professional: [Engineer, Lawyer]}}}}
models:
"""
RAW = "Engineer | Male | HIV x 2\nLawyer | Male | Flu x 5"
PUBLISHED = "Professional | Male | HIV x 2\nProfessional | Male | Flu x 5"
LISTED = """
    Andy | Engineer | Male
    Calvin | Lawyer | Male
    Bob | Engineer | Male
    Doug | Lawyer | Male
    Eddy | Lawyer | Male
    Fred | Lawyer | Male
    Gabriel | Lawyer | Male
"""


@pytest.fixture
def professionals(database: Database) -> Database:
    fill(database, "t", "job | sex | disease", RAW)
    fill(database, "r", "job | sex | disease", PUBLISHED)
    fill(database, "listed", "name | job | sex", LISTED)
    return database


@pytest.mark.parametrize(
    "model", ["confidence_bounding: {value: HIV, h: 0.6}", "alpha_k_anonymity: {alpha: 0.6, k: 2, guarded: [HIV]}"]
)
def test_minimality_re_identifies_andy_and_bob(professionals: Database, model: str) -> None:
    """Five lawyers cannot have broken 60 % with two cases of HIV: the two engineers have."""
    policy = JOBS + f"  - {model}\n"
    for external in ("listed", None):
        found = tried(professionals, policy, "minimality", "r", external)
        assert found.after is not None
        assert (found.after.targets, found.after.broken, found.after.confidence) == (7, 2, pytest.approx(1))
    without = tried(professionals, policy, "attribute_linkage", "r", "listed")
    assert without.after == Outcome(7, 0, pytest.approx(5 / 7), pytest.approx(5 / 7))


def test_minimality_needs_a_reason_to_generalize(professionals: Database) -> None:
    """With k = 3 the two engineers were too few in any case; with 30 % the lawyers may be the ones, too."""
    small = JOBS + "  - confidence_bounding: {value: HIV, h: 0.6}\n  - k_anonymity: {k: 3}\n"
    found = tried(professionals, small, "minimality", "r", "listed")
    assert found.after is not None and found.after.broken == 0
    assert found.after.confidence == pytest.approx(2 / 7)
    loose = JOBS + "  - confidence_bounding: {value: HIV, h: 0.3}\n"
    found = tried(professionals, loose, "minimality", "r", "listed")
    # Of 21 placements both are engineers in 1, both lawyers in 10 and one of each in 10, which breaks the bound too.
    assert found.after is not None and found.after.broken == 0
    assert found.after.confidence == pytest.approx((1 + 10 * 0.5) / 21)


@pytest.mark.full
@pytest.mark.parametrize("model", ["basic_beta_likeness: {beta: 9}", "k_anonymity: {k: 2}"])
def test_minimality_is_not_judged_where_it_is_not_understood(professionals: Database, model: str) -> None:
    found = attack(parse(JOBS + f"  - {model}\n"), professionals.engine, release=Source(table="r"))
    assert "minimality" in found.not_judged


@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "engineer", "lawyer"),
    [
        # Of 21 placements the engineers are alike in 11: both have HIV in one of them, both the flu in ten.
        ("distinct_l_diversity: {l: 2}", 10 / 11, 7 / 11),
        # Whatever the engineers have is too far from the table: all placements remain.
        ("t_closeness: {t: 0.2}", 5 / 7, 5 / 7),
        ("recursive_cl_diversity: {c: 2, l: 2}", None, None),
        ("entropy_l_diversity: {l: 1.9}", None, None),
    ],
)
def test_minimality_of_diversity(
    professionals: Database, model: str, engineer: float | None, lawyer: float | None
) -> None:
    """Whoever knows that two groups were joined since one was not diverse enough; against all placements."""
    found = tried(professionals, JOBS + f"  - {model}\n", "minimality", "r", "listed")
    wanted = brute.minimality_of_values([2, 5], ["HIV"] * 2 + ["Flu"] * 5, brute.BREACHES[model.partition(":")[0]])
    if engineer is not None:
        assert wanted == pytest.approx([engineer] * 2 + [lawyer] * 5)
    assert found.after is not None and found.after.targets == 7
    assert found.after.confidence == pytest.approx(max(wanted))
    assert found.after.average == pytest.approx(sum(wanted) / 7)


def test_minimality_of_ranges(database: Database) -> None:
    """(k,e)-anonymity: any four of the values span 30, so that the engineers are those who earn 50 and 51."""
    earned = "Engineer | 50\nEngineer | 51\nLawyer | 10\nLawyer | 40\nLawyer | 70\nLawyer | 90"
    fill(database, "t", "job | n", earned, {"n": "INTEGER"})
    database.run("CREATE TABLE r AS SELECT 'Professional' AS job, n FROM t")
    policy = JOBS.replace("sex: quasi_identifier, disease: sensitive", "n: sensitive")
    found = tried(database, policy + "  - k_e_anonymity: {k: 2, e: 10}\n", "minimality", "r")
    assert found.after == Outcome(6, 0, 0.5, pytest.approx((2 * 0.5 + 4 * 0.25) / 6))


# The survey's Table 5: six persons, as they are, and 2-diverse in three groups ------------------------------------

SIX = """
    Civil eng.      | 25 | 5522 | HIV
    Electrical eng. | 30 | 5521 | E-coli
    Lawyer          | 30 | 5475 | Flu
    Lawyer          | 40 | 5477 | Cancer
    Mathematician   | 25 | 5120 | Flu
    Physicist       | 25 | 5120 | Cancer
"""
GROUPS = """
    Engineer  | *  | 552* | HIV
    Engineer  | *  | 552* | E-coli
    Lawyer    | *  | 547* | Flu
    Lawyer    | *  | 547* | Cancer
    Scientist | 25 | 5120 | Flu
    Scientist | 25 | 5120 | Cancer
"""
SIX_POLICY = """
source: {table: t}
columns: {job: quasi_identifier, age: quasi_identifier, zip: quasi_identifier, disease: sensitive}
hierarchies:
  job:
    tree:
      tree: {"*": {Engineer: [Civil eng., Electrical eng.], Law: [Lawyer], Scientist: [Mathematician, Physicist]}}
  zip: {prefix: {length: 4}}
models: [distinct_l_diversity: {l: 2}]
"""


@pytest.mark.full
def test_six_persons_in_three_groups(database: Database) -> None:
    """Everybody is found in the original. In groups of two diseases nobody is, by who knows no more; but one value that
    a person has not got leaves the other one, which takes 3-diversity to withstand."""
    fill(database, "t", "job | age | zip | disease", SIX, {"age": "INTEGER"})
    fill(database, "r", "job | age | zip | disease", GROUPS)
    wanted = {
        "linkage": Outcome(6, 0, 0.5, 0.5),
        "homogeneity": Outcome(6, 0, 0.5, 0.5),
        "attribute_linkage": Outcome(6, 0, 0.5, 0.5),
        "background_knowledge": Outcome(6, 6, 1.0, 1.0),
    }
    for name, after in wanted.items():
        found = tried(database, SIX_POLICY, name, "r")
        assert found.before == Outcome(6, 6, 1.0, 1.0), name
        assert found.after == after, name
    assert tried(database, SIX_POLICY, "background_knowledge", "r", knowledge=0).after == Outcome(6, 0, 0.5, 0.5)


# Tables 2 and 5 of the (l, alpha)-diversity paper -----------------------------------------------------------------

MEDICAL = """
source: {table: t}
columns: {age: quasi_identifier, country: quasi_identifier, zip: quasi_identifier, disease: sensitive}
hierarchies:
  disease:
    tree:
      tree:
        ANY:
          Top Secret: [HIV, Cancer]
          Secret: [Phthisis, Hepatitis]
          Less Secret: [Obesity, Asthma]
          Non Secret: [Flu, Indigestion]
models: [k_anonymity: {k: 2}]
"""


def test_2_anonymity_discloses_cancer_for_rick_and_rudy(database: Database) -> None:
    fill(database, "t", "age | country | zip | disease", ASIANS + TABLE_2)
    found = tried(database, MEDICAL, "homogeneity")
    assert (found.before.targets, found.before.broken) == (12, 6)  # HIV, Cancer and Flu, two persons each


def test_2_diversity_discloses_a_top_secret(database: Database) -> None:
    fill(database, "t", "age | country | zip | disease", ASIANS + TABLE_5)
    assert tried(database, MEDICAL, "homogeneity").before.broken == 0
    found = tried(database, MEDICAL, "similarity")
    # Four with a top secret, and four with none; the Asians are of two kinds.
    assert (found.before.targets, found.before.broken) == (12, 8)


def test_a_diverse_class_tells_much_where_the_table_is_skewed(database: Database) -> None:
    """95 % have the flu; a class of half and half is 2-diverse, and makes HIV ten times as likely."""
    fill(database, "t", "zip | disease", "1 | HIV x 5\n1 | Flu x 5\n2 | Flu x 90")
    policy = "source: {table: t}\ncolumns: {zip: quasi_identifier, disease: sensitive}\nmodels: [k_anonymity: {k: 2}]"
    assert tried(database, policy, "skewness", gain=0.45).before.broken == 0
    found = tried(database, policy, "skewness", gain=0.44)
    assert (found.before.targets, found.before.broken) == (100, 10)


# Fung et al. 2010, Table VI: two views of the same patients -------------------------------------------------------

VIEWS = """
    30 | Lawyer      | c1 | US     | Cancer x 2
    40 | Carpenter   | c2 | France | HIV
    40 | Electrician | c3 | UK     | Cancer
    50 | Engineer    | c4 | France | HIV
    50 | Clerk       | c4 | US     | HIV
"""
VIEWS_POLICY = """
source: {table: t}
columns:
  age: quasi_identifier
  job: insensitive
  class: insensitive
  birthplace: quasi_identifier
  disease: sensitive
models: [k_anonymity: {k: 2}]
"""


def test_joined_views_single_out_40_and_france(database: Database) -> None:
    """Each view has two records for an age, or a birthplace, at least; joined by the job all but two are alone."""
    fill(database, "t", "age | job | class | birthplace | disease", VIEWS, {"age": "INTEGER"})
    views = {
        "release": Source(query="SELECT age, job, class FROM t"),
        "other": Source(query="SELECT job, birthplace, disease FROM t"),
    }
    found = attack(parse(VIEWS_POLICY), database.engine, **views)
    (joined,) = [item for item in found.attacks if item.name == "joined_views"]
    assert joined.before == joined.after == Outcome(6, 4, 1.0, pytest.approx(5 / 6))
    alone = next(item for item in found.attacks if item.name == "linkage").after
    assert alone == Outcome(6, 0, 0.5, 0.5)
    assert found.not_judged["intersection"] == "the releases do not both show it"


def test_views_that_generalize_the_job_are_lossy(database: Database) -> None:
    """Of one job for all, each record of a view may be any of the other."""
    fill(database, "t", "age | job | class | birthplace | disease", VIEWS, {"age": "INTEGER"})
    policy = VIEWS_POLICY.replace("job: insensitive", "job: quasi_identifier")
    views = {
        "release": Source(query="SELECT age, '*' AS job, class FROM t"),
        "other": Source(query="SELECT job, birthplace, disease FROM t"),
    }
    (found,) = attack(parse(policy), database.engine, names=["joined_views"], **views).attacks
    assert found.after is not None and found.before.broken == 4
    wanted = {
        (age, job, place)
        for age in (30, 40, 50)
        for job, place in (
            ("Lawyer", "US"),
            ("Carpenter", "France"),
            ("Electrician", "UK"),
            ("Engineer", "France"),
            ("Clerk", "US"),
        )
    }
    assert found.after.targets == sum(2 if job == "Lawyer" else 1 for _, job, _ in wanted)
