"""Verdicts by regulation: for each criterion a release that meets it, one that breaks it, one that leaves it open."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Database

from sqlanon.cli import main
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.policy import Policy, Source, parse
from sqlanon.policy.files import parse_gateway
from sqlanon.release import publish
from sqlanon.release.gather_verdict import gather_facts
from sqlanon.release.stored_evidence import load_evidence
from sqlanon.verdict import OF_GATEWAY, OF_RELEASE, GatewayFacts, judge_gateway, judge_release
from sqlanon.verdict.criteria import CriterionVerdict, RegulationVerdict
from sqlanon.verdict.release_facts import ReleaseFacts
from sqlanon.verdict.safe_harbor import IDENTIFIERS, RESTRICTED_ZIP3

MET, BROKEN, OPEN = "met", "not met", "not assessed"
SAFE = [f"safe_harbor.{item.ident}" for item in IDENTIFIERS]
OF_CHANCES = (
    "wp29.singling_out",
    "gdpr.public",
    "gdpr.partners",
    "gdpr.internal",
    "ema_0070.public_strict",
    "ema_0070.public_conventional",
    "ema_0070.controlled",
    "nist_800_188.quasi_identifiers",
    "statistical_office.contributors",
)
OF_ATTACKS = (
    "wp29.linkability_register",
    "wp29.inference_certain",
    "wp29.inference_likely",
    "nist_800_188.study",
)
OF_CONTENTS = (
    *SAFE,
    "safe_harbor.names",
    "safe_harbor.geography",
    "safe_harbor.zip3",
    "safe_harbor.dates",
    "safe_harbor.ages",
    "safe_harbor.codes",
    "nist_800_188.identifiers",
    "iso_27559.data",
)
# What no tool can measure.
NEVER = (
    "gdpr.all_means",
    "safe_harbor.actual_knowledge",
    "expert_determination.very_small_risk",
    "iso_27559.context",
    "iso_27559.governance",
    "nist_800_188.board",
)
EVIDENT = ("iso_27559.identifiability", "iso_27559.techniques")
ROWS_ACROSS = ("wp29.linkability_rows", "wp29.linkability_releases", "gdpr.pseudonyms")
COMPARED = ("statistical_office.dominance", "statistical_office.group_disclosure")
# By scenario, what is expected of each criterion.
EXPECTED: dict[str, dict[str, str]] = {
    "published": dict.fromkeys((*OF_CHANCES, *OF_ATTACKS, *OF_CONTENTS, *EVIDENT, *ROWS_ACROSS, *COMPARED), MET),
    "careless": dict.fromkeys((*OF_CHANCES, *OF_ATTACKS, *OF_CONTENTS, *COMPARED), BROKEN)
    | {"wp29.linkability_rows": BROKEN, "gdpr.pseudonyms": BROKEN},
    "unknown": dict.fromkeys((*OF_CHANCES, *OF_ATTACKS, *OF_CONTENTS, *EVIDENT, *ROWS_ACROSS, *COMPARED), OPEN),
    "damaged": dict.fromkeys(EVIDENT, BROKEN) | {"wp29.linkability_releases": BROKEN},
}


def states(found: tuple[RegulationVerdict, ...]) -> dict[str, CriterionVerdict]:
    return {each.ident: each for item in found for each in item.criteria}


def assert_expected(scenario: str, found: Mapping[str, CriterionVerdict]) -> None:
    wanted = EXPECTED[scenario]
    wrong = {name: (found[name].state, found[name].measured) for name in wanted if found[name].state != wanted[name]}
    assert wrong == {}
    assert {found[name].state for name in NEVER} == {OPEN}
    for item in found.values():
        assert item.measured and item.test and item.threshold and item.cite, item.ident
        assert "is anonymous" not in item.measured


def test_each_criterion_is_met_broken_and_not_assessed_somewhere() -> None:
    every = {each.ident for item in OF_RELEASE for each in item.criteria}
    shown = {
        state: {name for case in EXPECTED.values() for name in case if case[name] == state}
        for state in (MET, BROKEN, OPEN)
    }
    assert shown == dict.fromkeys((MET, BROKEN, OPEN), every - set(NEVER))


# ---- a release that meets what can be met

PEOPLE = {
    "person": "TEXT",
    "age": "INTEGER",
    "zip": "TEXT",
    "sex": "TEXT",
    "admitted": "DATE",
    "disease": "TEXT",
    "cost": "INTEGER",
}
ROLES = {
    "person": "identifier",
    "age": "quasi_identifier",
    "zip": "quasi_identifier",
    "sex": "quasi_identifier",
    "admitted": "quasi_identifier",
    "disease": "sensitive",
    "cost": "insensitive",
}
DISEASES = ("flu", "cold", "asthma", "cancer")


def people() -> list[dict[str, Any]]:
    """96 persons: in each class all diseases equally often, in an order that nothing else tells."""
    return [
        {
            "person": f"p{place}",
            "age": 30 + place % 5 if place < 48 else 91 + place % 4,
            "zip": f"902{place % 10}{place // 10}",
            "sex": "fm"[(place // 24) % 2],
            "admitted": f"2025-{1 + place % 12:02d}-{1 + place % 28:02d}",
            "disease": DISEASES[(place * 7 + place // 4) % 4],
            "cost": 100 + place % 9,
        }
        for place in range(96)
    ]


def good_policy(**more: Any) -> Policy:
    written = {
        "source": {"table": "people"},
        "person": "person",
        "columns": ROLES,
        "hierarchies": {
            "age": {"age": {}},
            "zip": {"prefix": {"length": 5}},
            "admitted": {"dates": {"levels": ["year"]}},
        },
        "models": [{"k_anonymity": {"k": 12}}, {"distinct_l_diversity": {"l": 3}}],
        "algorithm": {"fixed_levels": {"levels": {"age": 1, "zip": 2, "sex": 0, "admitted": 1}}},
        "release": {"table": "people_released"},
    }
    return parse(json.dumps(written | more))


@pytest.fixture
def published(database: Database) -> Iterator[tuple[Policy, Database]]:
    database.table("people", PEOPLE, people())
    policy = good_policy()
    publish(policy, database.engine)
    yield policy, database


@pytest.mark.full_on_postgres
def test_a_published_release_meets_what_can_be_met(published: tuple[Policy, Database]) -> None:
    policy, database = published
    found = states(judge_release(gather_facts(policy, database.engine)))
    assert_expected("published", found)
    assert found["wp29.singling_out"].measured == "0 rows alone in their class; the smallest class has 24"
    assert found["ema_0070.controlled"].measured == f"average risk {4 / 96:.4f}"
    assert "'zip' (by its name) tells three digits at most" in found["safe_harbor.geography"].measured
    assert "'admitted' (by its type in the source) tells years only" in found["safe_harbor.dates"].measured
    assert "generalization" in found["iso_27559.techniques"].measured


@pytest.mark.full
def test_evidence_that_was_broken_and_another_release_count(published: tuple[Policy, Database]) -> None:
    """A stored check that failed, a release without any technique, and a history that does not hold."""
    policy, database = published
    document = load_evidence(policy, database.engine)
    document["checks"][0] |= {"holds": False, "broken_classes": 1}
    for item in document["attributes"]:
        item |= {"level": 0, "levels": []}
    document |= {"suppressed": 0, "history": {"models": []}}
    evidence = ReleaseEvidence.from_json(document)
    facts = gather_facts(policy, database.engine, evidence=evidence, attacked=False)
    shown = replace(facts, policy=unremoved(history={"hold_back": 0.01}), others=("another",))
    found = states(judge_release(shown))
    assert_expected("damaged", found)
    assert found["wp29.linkability_register"].measured == "attacks were not tried"
    without = states(judge_release(replace(facts, others=("another",))))
    assert without["wp29.linkability_releases"].state == OPEN


def unremoved(**more: Any) -> Policy:
    """The policy of the same release without an identifier that was removed."""
    return good_policy(columns={name: role for name, role in ROLES.items() if name != "person"}, **more)


# ---- a release in which everything is wrong

CARELESS = {
    "mr_name": "TEXT",
    "name": "TEXT",
    "zip": "TEXT",
    "zip_home": "TEXT",
    "age": "INTEGER",
    "born": "TEXT",
    "sex": "TEXT",
    "contact": "TEXT",
    "fax": "TEXT",
    "reached": "TEXT",
    "code": "TEXT",
    "mrn": "TEXT",
    "insurance_id": "TEXT",
    "paid_from": "TEXT",
    "passport": "TEXT",
    "car": "TEXT",
    "pump": "TEXT",
    "page": "TEXT",
    "host": "TEXT",
    "fingerprint": "TEXT",
    "photo": "TEXT",
    "pseudo": "TEXT",
    "disease": "TEXT",
    "cost": "INTEGER",
}


def careless() -> list[dict[str, Any]]:
    return [
        {
            "mr_name": f"Somebody {place}",
            "name": f"Body {place}",
            "zip": f"90{place % 3}10",
            "zip_home": "036**" if place == 0 else "902**",
            "age": 95 if place == 1 else 30 + place,
            "born": f"19{30 + place}-03-01",
            "sex": "fm"[place % 2],
            "contact": f"+49 30 12345{place:02d}",
            "fax": f"030/{place}",
            "reached": f"a{place}@example.org",
            "code": f"123-45-67{place:02d}",
            "mrn": str(place),
            "insurance_id": str(place),
            "paid_from": "DE89370400440532013000",
            "passport": str(place),
            "car": f"1HGCM82633A0043{place:02d}",
            "pump": f"00:1a:2b:3c:4d:{place:02d}",
            "page": "https://example.org/",
            "host": "192.168.0.1" if place % 2 else "2001:db8::1",
            "fingerprint": str(place),
            "photo": str(place),
            "pseudo": f"hash{place}",
            "disease": "flu",
            "cost": 10_000 if place == 0 else place,
        }
        for place in range(24)
    ]


def careless_policy() -> Policy:
    roles: dict[str, Any] = dict.fromkeys(CARELESS, "insensitive")
    roles |= {"age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive", "mrn": "identifier"}
    roles["pseudo"] = {"role": "identifier", "pseudonym": True}
    written = {
        "source": {"table": "s"},
        "columns": roles,
        "models": [{"k_anonymity": {"k": 2}}],
        "release": {"table": "r"},
    }
    return parse(json.dumps(written))


@pytest.mark.full
def test_a_careless_release_meets_nothing(database: Database) -> None:
    database.table("s", CARELESS, careless())
    database.table("r", CARELESS, careless())
    facts = gather_facts(careless_policy(), database.engine, release=Source(table="r"))
    found = states(judge_release(facts))
    assert_expected("careless", found)
    assert found["safe_harbor.zip3"].measured == "'zip_home' (by its name): 1 row with a restricted area"
    assert "'age' (by its name): 1 row tell" in found["safe_harbor.ages"].measured
    assert "7 rows with a year of birth" in found["safe_harbor.ages"].measured  # 1930 to 1936, in 2026
    assert "164.514(c)(1)" in found["safe_harbor.codes"].measured
    assert found["safe_harbor.email"].measured == "'reached' (by its values, 24 rows)"
    # Nothing of a row is told.
    assert not any(value in item.measured for item in found.values() for value in ("example.org", "123-45", "Body"))


# ---- a release of which nothing is known


def test_what_is_not_known_is_not_assessed(database: Database) -> None:
    """Ages with noise, free text, a code without a role, no sensitive column, no person, no attack, no evidence."""
    kinds = {"age": "DOUBLE PRECISION", "zip": "TEXT", "note": "TEXT", "extra": "TEXT"}
    rows = [
        {"age": 30.5 + place, "zip": "90210", "note": f"came on day {place} by train", "extra": f"x{place}"}
        for place in range(30)
    ]
    database.table("s", {name: kind for name, kind in kinds.items() if name != "extra"}, rows)
    database.table("r", kinds, [row | {"zip": None} for row in rows])
    written = {
        "source": {"table": "s"},
        "columns": {"age": "quasi_identifier", "zip": "quasi_identifier", "note": "insensitive"},
        "models": [{"k_anonymity": {"k": 2}}],
        "transformations": [{"additive_noise": {"columns": ["age"], "alpha": 0.1}}],
        "release": {"table": "r"},
    }
    policy = parse(json.dumps(written))
    facts = gather_facts(policy, database.engine, release=Source(table="r"), attacked=False)
    found = states(judge_release(facts))
    wanted = EXPECTED["unknown"]
    # An age of 59.5 and a column without a role are wrong by themselves.
    early = {"safe_harbor.ages", "iso_27559.data"}
    wrong = {name: found[name].measured for name in wanted if found[name].state != wanted[name] and name not in early}
    assert wrong == {}
    assert "values of age were changed at random" in found["wp29.singling_out"].measured
    assert found["safe_harbor.names"].measured == "free text was not read: 'note' (by its name)"
    assert "'extra'" not in found["safe_harbor.names"].measured


def test_free_text_and_bytes_leave_ages_and_data_open(database: Database) -> None:
    blob = "BLOB" if database.engine.dialect == "duckdb" else "BYTEA"
    database.table("s", {"sex": "TEXT", "scan": blob}, [{"sex": "f", "scan": b"x"}])
    database.table("r", {"sex": "TEXT", "scan": blob}, [{"sex": "f", "scan": b"x"}])
    policy = parse(
        json.dumps(
            {
                "source": {"table": "s"},
                "columns": {"sex": "quasi_identifier", "scan": "insensitive"},
                "models": [{"k_anonymity": {"k": 2}}],
                "release": {"table": "r"},
            }
        )
    )
    found = states(judge_release(gather_facts(policy, database.engine, release=Source(table="r"), attacked=False)))
    for name in ("safe_harbor.ages", "iso_27559.data", "safe_harbor.photo"):
        assert (found[name].state, found[name].measured) == (
            OPEN,
            "free text was not read: 'scan' (its type is not read)",
        )


def test_facts_that_are_missing_are_never_a_pass() -> None:
    """Without any fact, every criterion is not assessed."""
    found = states(judge_release(ReleaseFacts(good_policy(), ())))
    assert {item.state for item in found.values()} == {OPEN}


# ---- persons with several rows


def test_rows_of_one_person_are_no_crowd(database: Database) -> None:
    """Twelve rows of three persons: the release does not show whose they are, and no check counted persons."""
    rows = [{"person": f"p{place // 4}", "sex": "f", "disease": DISEASES[place % 4]} for place in range(12)]
    database.table("s", {"person": "TEXT", "sex": "TEXT", "disease": "TEXT"}, rows)
    database.table("r", {"sex": "TEXT", "disease": "TEXT"}, rows)
    policy = parse(
        json.dumps(
            {
                "source": {"table": "s"},
                "person": "person",
                "columns": {"person": "identifier", "sex": "quasi_identifier", "disease": "sensitive"},
                "models": [{"k_anonymity": {"k": 2}}],
                "release": {"table": "r"},
            }
        )
    )
    found = states(judge_release(gather_facts(policy, database.engine, release=Source(table="r"), attacked=False)))
    assert found["ema_0070.public_conventional"].state == OPEN
    assert "persons have several rows" in found["wp29.singling_out"].measured


# ---- groups


@pytest.mark.full
def test_groups_are_judged_by_their_attacks_and_columns_alone(database: Database) -> None:
    """Anatomy shows quasi-identifiers as they are, in two tables: there are no classes to count, and both are read."""
    database.table("people", PEOPLE, people())
    policy = good_policy(models=[{"distinct_l_diversity": {"l": 3}}], algorithm={"anatomy": {"l": 3}}, hierarchies={})
    publish(policy, database.engine, secret="a secret of more than 16 letters")
    found = states(judge_release(gather_facts(policy, database.engine)))
    assert {found[name].state for name in OF_CHANCES} == {OPEN}
    assert found["iso_27559.data"].state == OPEN
    assert found["wp29.inference_certain"].state == MET
    assert found["wp29.linkability_register"].state == BROKEN
    assert "'age' (by its name): 48 rows tell an age over 89" in found["safe_harbor.ages"].measured


# ---- the readings of 0.09


@pytest.mark.parametrize(("size", "strict", "conventional"), [(10, BROKEN, BROKEN), (11, BROKEN, MET), (12, MET, MET)])
def test_eleven_is_above_009_and_accepted(duck: Database, size: int, strict: str, conventional: str) -> None:
    rows = [{"sex": "f", "disease": "flu"}] * size
    duck.table("s", {"sex": "TEXT", "disease": "TEXT"}, rows)
    duck.table("r", {"sex": "TEXT", "disease": "TEXT"}, rows)
    policy = parse("{source: {table: s}, columns: {sex: quasi_identifier, disease: sensitive}, release: {table: r}, "
                   "models: [k_anonymity: {k: 2}]}")  # fmt: skip
    found = states(judge_release(gather_facts(policy, duck.engine, release=Source(table="r"), attacked=False)))
    assert found["ema_0070.public_strict"].state == strict
    assert found["ema_0070.public_conventional"].state == conventional
    assert f"1/{size} = {1 / size:.4f}" in found["ema_0070.public_conventional"].measured
    # A class of one disease tells it.
    assert found["statistical_office.group_disclosure"].state == BROKEN


# ---- gateways

GATEWAY = """
gateway:
  database: nowhere.duckdb
  unit: {{table: users, key: id}}
  tables: {{users: {{}}}}
  rows: 1
  {more}
  budget:
    statement: {{epsilon: 1, delta: 1e-7}}
    principal: {{epsilon: {epsilon}, delta: {delta}{period}}}
    {total}
"""


def gateway_states(persons: int | None = 1000, **given: Any) -> dict[str, CriterionVerdict]:
    asked = {"more": "", "epsilon": 5, "delta": 1e-5, "period": "", "total": ""} | given
    return states(judge_gateway(GatewayFacts(parse_gateway(GATEWAY.format(**asked)), persons)))


TRUSTED = "\n  principals: {ann: {}, bob: {controls: true}}"
CONTROLS = "controls: {query_set_size: 10, overlap: 0, dominance: {n: 1, k: 0.5}}" + TRUSTED
WEAK = "controls: {query_set_size: 9, overlap: 0}" + TRUSTED
GATEWAYS = {
    ("nist_800_226.lifetime", MET): gateway_states,
    ("nist_800_226.lifetime", BROKEN): lambda: gateway_states(period=", period: month"),
    ("nist_800_226.epsilon", MET): lambda: gateway_states(
        period=", period: month", total="total: {epsilon: 20, delta: 1e-4}"
    ),
    ("nist_800_226.epsilon", BROKEN): lambda: gateway_states(epsilon=21),
    ("nist_800_226.delta", MET): lambda: gateway_states(delta=9e-4),
    ("nist_800_226.delta", BROKEN): lambda: gateway_states(delta=1e-3),
    ("nist_800_226.delta", OPEN): lambda: gateway_states(None),
    ("nist_800_226.exact_answers", MET): gateway_states,
    ("nist_800_226.exact_answers", BROKEN): lambda: gateway_states(more=CONTROLS),
    ("statistical_office_answers.contributors", MET): lambda: gateway_states(more=CONTROLS),
    ("statistical_office_answers.contributors", BROKEN): lambda: gateway_states(more=WEAK),
    ("statistical_office_answers.contributors", OPEN): gateway_states,
    ("statistical_office_answers.dominance", MET): lambda: gateway_states(more=CONTROLS),
    ("statistical_office_answers.dominance", BROKEN): lambda: gateway_states(more=WEAK),
}


@pytest.mark.parametrize(("name", "state"), GATEWAYS)
def test_criteria_of_gateways(name: str, state: str) -> None:
    assert GATEWAYS[name, state]()[name].state == state


def test_a_policy_without_a_gateway_is_not_assessed_by_rules_of_gateways() -> None:
    found = states(judge_gateway(GatewayFacts(None)))
    assert {item.state for item in found.values()} == {OPEN}
    every = {each.ident for item in OF_GATEWAY for each in item.criteria}
    assert (
        {name for name, state in GATEWAYS if state == MET}
        == {name for name, state in GATEWAYS if state == BROKEN}
        == every
    )


def test_several_principals_add_up() -> None:
    """Two principals with 15 each spend 30 together."""
    found = gateway_states(epsilon=15, more="principals: {ann: {}, bob: {}}")
    assert found["nist_800_226.lifetime"].measured == "epsilon 30 for all principals together, for ever"
    assert found["nist_800_226.epsilon"].state == BROKEN


# ---- the command


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import duckdb

    monkeypatch.chdir(tmp_path)
    connection = duckdb.connect("town.duckdb")
    connection.execute("CREATE TABLE people AS SELECT 'f' AS sex, '902**' AS zip, 'flu' AS disease FROM range(12)")
    connection.execute("CREATE TABLE named AS SELECT *, 'x' AS firstname FROM people")
    connection.close()
    (tmp_path / "policy.yml").write_text(
        "source: {database: town.duckdb, table: people}\n"
        "columns: {sex: quasi_identifier, zip: quasi_identifier, disease: sensitive}\n"
        "models: [k_anonymity: {k: 2}]\n"
        "release: {table: released}\n"
    )
    return tmp_path


def run(*words: str) -> Any:
    return CliRunner().invoke(main, ["verdict", *words])


def test_command_judges_the_release(town: Path) -> None:
    missing = run("policy.yml")
    assert missing.exit_code == 2 and "released" in missing.output
    assert CliRunner().invoke(main, ["publish", "policy.yml", "--no-workload"]).exit_code == 0
    done = run("policy.yml")
    assert done.exit_code == 0, done.output
    assert "HIPAA Safe Harbor (safe_harbor): 20 met, 1 not assessed" in done.output
    assert "threshold (law): 0; 45 CFR 164.514(b)(2)(i)(A)" in done.output
    assert "not assessed  Linkability within the release" in done.output


def test_command_prints_json_and_fails_for_a_regulation_that_is_asked_for(town: Path) -> None:
    done = run("policy.yml", "--release", "named", "--no-attacks", "--json", "--regulation", "safe_harbor")
    assert done.exit_code == 1, done.output
    (found,) = json.loads(done.output)["regulations"]
    assert found["counts"] == {"met": 19, "not met": 1, "not assessed": 1}
    names = found["criteria"][0]
    assert (names["state"], names["origin"], names["measured"]) == ("not met", "law", "'firstname' (by its name)")
    assert run("policy.yml", "--release", "named", "--no-attacks").exit_code == 0


def test_command_refuses_what_it_does_not_know(town: Path) -> None:
    unknown = run("policy.yml", "--regulation", "safe_harbour")
    assert unknown.exit_code == 2 and "did you mean 'safe_harbor'?" in unknown.output
    other = run("town.duckdb")
    assert other.exit_code == 2 and "no policy file" in other.output
    (town / "gateway.yml").write_text(GATEWAY.format(more="", epsilon=5, delta=1e-6, period="", total=""))
    assert "met           Privacy loss is bounded" in run("gateway.yml").output
    assert run("gateway.yml", "--release", "named").exit_code == 2


def test_restricted_areas_are_seventeen() -> None:
    assert len(set(RESTRICTED_ZIP3)) == 17 and all(len(area) == 3 and area.isdigit() for area in RESTRICTED_ZIP3)
