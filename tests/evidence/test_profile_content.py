"""What a draft learns from values: checksums, free text, measurements, persons with several rows, derived columns."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlanon.evidence.content_checks import CHECKS, passes
from sqlanon.evidence.profile_table import profile
from sqlanon.evidence.suggest_roles import RoleDraft, RolesGiven
from sqlanon.sqltree.tree import rows_relation

TEXT = exp.DataType.build("text")


# The same checksums, as their definitions say: whole numbers of any size, character by character.
def iban(text: str) -> bool:
    digits = "".join(str(int(c, 36)) for c in text[4:] + text[:4])
    return int(digits) % 97 == 1


def luhn(text: str) -> bool:
    doubled = [int(c) * (1 + place % 2) for place, c in enumerate(reversed(text))]
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0


def cpf(text: str) -> bool:
    for known in (9, 10):
        rest = sum(int(c) * (known + 1 - place) for place, c in enumerate(text[:known])) % 11
        if int(text[known]) != (0 if rest < 2 else 11 - rest):
            return False
    return True


ORACLES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "iban": ("[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", iban),
    "card": ("[0-9]{13,19}", luhn),
    "dni": ("[0-9]{8}[A-Z]", lambda text: "TRWAGMYFPDXBNJZSQVHLCKE"[int(text[:8]) % 23] == text[8]),
    "cpf": ("[0-9]{11}", cpf),
    "nir": ("[12][0-9]{14}", lambda text: 97 - int(text[:13]) % 97 == int(text[13:])),
    "bsn": ("[0-9]{9}", lambda t: (sum(int(c) * (9 - i) for i, c in enumerate(t[:8])) - int(t[8])) % 11 == 0),
    "nhs": ("[0-9]{10}", lambda t: (11 - sum(int(c) * (10 - i) for i, c in enumerate(t[:9])) % 11) % 11 == int(t[9])),
    "pesel": (
        "[0-9]{11}",
        lambda t: -sum(int(c) * (1, 3, 7, 9)[i % 4] for i, c in enumerate(t[:10])) % 10 == int(t[10]),
    ),
    "personnummer": ("([0-9]{2})?[0-9]{2}(0[1-9]|1[0-2])([0-2][0-9]|3[01])[0-9]{4}", lambda t: luhn(t[-10:])),
}


def test_every_checksum_has_an_oracle() -> None:
    assert set(ORACLES) == set(CHECKS)


@pytest.mark.full
@pytest.mark.parametrize("name", CHECKS)
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_checksums_are_those_of_their_definition(database: Database, name: str, data: st.DataObject) -> None:
    pattern, right = ORACLES[name]
    texts = data.draw(st.lists(st.from_regex(pattern, fullmatch=True), min_size=1, max_size=40))
    # Digits by chance are mostly wrong: the last ones are tried until they are right.
    for text in list(texts):
        ends = [text[:2] + f"{end:02}" + text[4:] for end in range(2, 99)] if name == "iban" else []
        ends += [text[:-2] + f"{end:02}" for end in range(100)] + [text[:-1] + c for c in "TRWAGMYFPDXBNJZSQVHLCKE"]
        ends = [end for end in ends if name == "dni" or end.isdigit() or name == "iban"]
        ends = [end for end in ends if name != "dni" or end[-1].isalpha()]
        texts += [end for end in ends if right(end)][:1]
    junk = ["", "x", "12-", "é" * 12, "0" * 40]
    rows = rows_relation([(text,) for text in [*texts, *junk]], ["v"], [TEXT])
    tree = exp.select("v", passes(name, exp.column("v")).as_("told")).from_(rows.subquery(alias="t"))
    told = dict(database.engine.query(tree))
    assert {text: bool(told[text]) for text in texts} == {text: right(text) for text in texts}
    assert not any(told[text] for text in junk)
    assert any(told.values())


def drafted(database: Database, columns: dict[str, tuple[str, Sequence[Any]]], **given: Any) -> RoleDraft:
    names = list(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*(values for _, values in columns.values()), strict=True)]
    database.table("t", {name: kind for name, (kind, _) in columns.items()}, rows)
    return profile(database.engine, exp.select("*").from_(exp.to_identifier("t")), "t", RolesGiven(**given))


def roles(draft: RoleDraft) -> dict[str, str]:
    return {name: item.role for name, item in draft.roles.items()}


draw = random.Random(7)
VALID = {
    "iban": [f"DE{98 - int(f'{i:018}131400') % 97:02}{i:018}" for i in range(10**17, 10**17 + 40)],
    "card": [t for t in (str(4 * 10**15 + i) for i in range(600)) if luhn(t)][:40],
    "pesel": [t for t in (f"{44051400000 + i}" for i in range(600)) if ORACLES["pesel"][1](t)][:40],
    "ssn": [f"{123 + i}-45-{6789 + i}" for i in range(40)],
    "codice": [f"RSSMRA{i + 40}A01H501{chr(65 + i % 26)}" for i in range(40)],
    "prose": [f"patient {i} came in with a cough and went home again" for i in range(40)],
    "where": [f"52.{5200 + i}, 13.{4050 + i}" for i in range(40)],
    "uk": [f"SW{i % 9 + 1}A {i % 7}AA" for i in range(40)],
    "ipv6": [f"2001:db8::{i % 9:x}" for i in range(40)],
}


@pytest.mark.full
@pytest.mark.full_on_postgres
def test_roles_by_content(database: Database) -> None:
    draft = drafted(database, {f"x{place}": ("TEXT", values) for place, values in enumerate(VALID.values())})
    found = {kind: draft.roles[f"x{place}"] for place, kind in enumerate(VALID)}
    assert {kind for kind, item in found.items() if item.role == "identifier"} == {
        "iban", "card", "pesel", "ssn", "codice", "prose",
    }  # fmt: skip
    assert "IBANs, with a valid checksum" in found["iban"].reason
    assert "card numbers, with a valid checksum" in found["card"].reason
    assert "Polish identity numbers" in found["pesel"].reason
    assert "free text" in found["prose"].reason
    assert "coordinates" in found["where"].reason and "postal codes" in found["uk"].reason
    assert "IPv6" in found["ipv6"].reason


def test_numbers_that_look_like_cards_by_chance_are_not(database: Database) -> None:
    numbers = [4 * 10**15 + 7 * i for i in range(40)]
    draft = drafted(database, {"x": ("BIGINT", numbers), "age": ("INTEGER", [i % 9 for i in range(40)])})
    assert "card" not in draft.roles["x"].reason


def test_a_measurement_is_no_quasi_identifier(database: Database) -> None:
    size = 200
    draft = drafted(
        database,
        {
            "w7": ("DOUBLE PRECISION", [draw.gauss(5, 1) for _ in range(size)]),
            "w8": ("DOUBLE PRECISION", [float(draw.randrange(60)) for _ in range(size)]),
            "height": ("DOUBLE PRECISION", [draw.gauss(170, 9) for _ in range(size)]),
        },
    )
    assert roles(draft) == {"w7": "sensitive", "w8": "quasi_identifier", "height": "quasi_identifier"}
    assert "measurement" in draft.roles["w7"].reason


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("id", [i // 3 for i in range(120)]),
        ("nr", [i // 3 for i in range(120)]),
        ("x", [f"p{i // 3}@example.org" for i in range(120)]),
        ("x", [str(uuid.UUID(int=i // 3)) for i in range(120)]),
        ("patient", [f"p{i // 30}" for i in range(120)]),
    ],
)
def test_an_identifier_that_repeats_is_a_person(database: Database, name: str, values: list[Any]) -> None:
    columns = {name: ("TEXT", list(map(str, values))), "age": ("INTEGER", [i // 3 % 30 for i in range(120)])}
    assert drafted(database, columns).person == name


@pytest.mark.parametrize(("name", "distinct"), [("PID", 7), ("shop_id", 4), ("age", 40)])
def test_what_refers_to_few_things_is_no_person(database: Database, name: str, distinct: int) -> None:
    columns = {
        name: ("INTEGER", [i % distinct for i in range(200)]),
        "sex": ("TEXT", ["fm"[i % 2] for i in range(200)]),
    }
    assert drafted(database, columns).person is None


def test_columns_that_follow_from_others(database: Database) -> None:
    ages = [draw.randrange(20, 60) for _ in range(400)]
    draft = drafted(
        database,
        {
            "age": ("INTEGER", ages),
            "age_group": ("TEXT", [f"{age // 10}0s" for age in ages]),
            "level": ("INTEGER", levels := [draw.randrange(1, 5) for _ in ages]),
            **{f"level{i}": ("INTEGER", [int(level == i) for level in levels]) for i in range(1, 5)},
            "logged": ("DOUBLE PRECISION", [age * 1.5 for age in ages]),
            "free": ("INTEGER", [draw.randrange(5) for _ in ages]),
        },
    )
    assert {name for name, role in roles(draft).items() if role == "quasi_identifier"} == {"age", "level", "free"}
    assert draft.derived == {"age_group": "age", "logged": "age"} | {f"level{i}": "level" for i in range(1, 5)}
    # What was said is not touched.
    kept = drafted(
        database,
        {"age": ("INTEGER", ages), "age_group": ("TEXT", [f"{age // 10}0s" for age in ages])},
        roles={"age_group": "quasi_identifier"},
    )
    assert roles(kept)["age_group"] == "quasi_identifier"


def test_one_category_in_several_columns(database: Database) -> None:
    chosen = [draw.randrange(4) for _ in range(200)]
    draft = drafted(
        database,
        {
            "first": ("INTEGER", [draw.randrange(2) for _ in chosen]),
            **{name: ("INTEGER", [int(value == i) for value in chosen]) for i, name in enumerate("abcd")},
            "last": ("INTEGER", [draw.randrange(2) for _ in chosen]),
        },
    )
    assert {name for name, role in roles(draft).items() if role == "identifier"} == {"d"}
    assert "one category in 4 columns" in draft.roles["a"].reason


def test_columns_that_link_rows_of_a_person(database: Database) -> None:
    """A steady value that is nearly a person's own would make `publish` refuse the draft."""
    persons = [i // 3 for i in range(180)]
    draft = drafted(
        database,
        {
            "patient_id": ("INTEGER", persons),
            "age": ("INTEGER", [20 + i % 9 for i in range(180)]),
            "w": ("DOUBLE PRECISION", [person + 0.25 for person in persons]),
            "salary": ("INTEGER", [1000 + person for person in persons]),
        },
    )
    assert draft.person == "patient_id"
    assert roles(draft)["w"] == "quasi_identifier" and "links" in draft.roles["w"].reason
    assert roles(draft)["salary"] == "identifier" and "links" in draft.roles["salary"].reason


def test_a_sensitive_column_that_cannot_be_protected_is_left_out(database: Database) -> None:
    columns = {"age": ("INTEGER", list(range(60))), "hiv": ("TEXT", ["yes" if i % 3 else None for i in range(60)])}
    assert roles(drafted(database, columns))["hiv"] == "identifier"


@pytest.mark.parametrize(
    "names",
    [
        "Gehalt Einkommen Religion Parteizugehörigkeit Krankheit Vorstrafe",
        "salaire revenu maladie santé syndicat handicap",
        "salario ingresos enfermedad salud religión embarazada",
        "stipendio reddito malattia salute partito reato",
        "inkomen ziekte gezondheid salaris partij",
        "health hlthp vote party religious affairs hhninc income lwage smoke",
    ],
)
def test_sensitive_names_in_several_languages(duck: Database, names: str) -> None:
    draft = drafted(duck, {name: ("TEXT", [f"v{i % 4}" for i in range(30)]) for name in names.split()})
    assert {name for name, item in draft.roles.items() if item.role == "sensitive"} >= set(names.split()) - {
        name for name, item in draft.roles.items() if "stand-in" in item.reason
    }
