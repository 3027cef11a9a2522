"""Every shape with every algorithm, model and command: it works, or it is refused with a reason and a hint.

No combination ends in a traceback, and none passes in silence: what cannot be done says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from sqlanon.cli import main
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.families import SHAPES, algorithm_traits, family, models_of_shape, module_names
from sqlanon.policy import parse

ROWS, ENTITY, SET, SEQUENCE = SHAPES
COLUMNS: dict[str, dict[str, Any]] = {
    ROWS: {"patient": "identifier", "day": "quasi_identifier", "ward": "quasi_identifier", "disease": "sensitive"},
    ENTITY: {"patient": "identifier", "day": "quasi_identifier", "ward": "quasi_identifier", "disease": "sensitive"},
    SET: {"patient": "identifier", "ward": "item"},
    SEQUENCE: {"patient": "identifier", "day": {"role": "time"}, "ward": "place"},
}
MODELS: dict[str, list[dict[str, Any]]] = {
    ROWS: [{"k_anonymity": {"k": 2}}],
    ENTITY: [{"k_anonymity": {"k": 2}}],
    SET: [{"km_anonymity": {"k": 2, "m": 2}}],
    SEQUENCE: [{"km_anonymity": {"k": 2, "m": 2}}],
}
ALGORITHMS = {ROWS: "mondrian", ENTITY: "entity_levels", SET: "item_suppression", SEQUENCE: "path_suppression"}
QUERIES = {SET: "SELECT patient, ward FROM visits", SEQUENCE: "SELECT patient, day, ward FROM visits"}


def data_of(shape: str, **more: Any) -> dict[str, Any]:
    source = {"query": QUERIES[shape]} if shape in QUERIES else {"table": "visits"}
    return {
        "source": {"database": "clinic.duckdb", **source},
        "person": "patient",
        "shape": shape,
        "columns": COLUMNS[shape],
        "models": MODELS[shape],
        "algorithm": ALGORITHMS[shape],
        "suppression_limit": 1,
        "release": {"table": "shown"},
        **({"linked_rows": "accept"} if shape == ROWS else {}),
        **more,
    }


def assert_reason(error: SqlanonError) -> None:
    assert error.message and "hint: " in str(error), str(error)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm", module_names("algorithms"))
def test_an_algorithm_knows_a_shape_or_is_refused(shape: str, algorithm: str) -> None:
    try:
        parse(json.dumps(data_of(shape, algorithm=algorithm)))
    except PolicyError as error:
        assert_reason(error)
        fits = shape in algorithm_traits(algorithm).shapes
        assert (f"{algorithm} does not protect 'shape: {shape}'" in str(error)) == (not fits), str(error)
        return
    assert shape in algorithm_traits(algorithm).shapes


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", family("models"))
def test_a_model_knows_a_shape_or_is_refused(shape: str, model: str) -> None:
    try:
        parse(json.dumps(data_of(shape, models=[{model: None}], algorithm=ALGORITHMS[shape])))
    except PolicyError as error:
        assert_reason(error)
        fits = model in models_of_shape(shape)
        assert (f"{model} is not defined for 'shape: {shape}'" in str(error)) == (not fits), str(error)
        return
    assert model in models_of_shape(shape)


@pytest.mark.parametrize("shape", [ENTITY, SET, SEQUENCE])
@pytest.mark.parametrize(
    "section",
    [
        {"history": {}},
        {"qids": [["day"]]},
        {"nulls": "unique"},
        {"suppressed_rows": "keep"},
        {"suppressed_cells": "any_value"},
        {"linked_rows": "accept"},
        {"population": {"table": "visits"}},
        {"transformations": [{"rounding": {"columns": ["day"], "base": 2}}]},
    ],
    ids=lambda section: next(iter(section)),
)
def test_a_section_that_means_nothing_is_refused(shape: str, section: dict[str, Any]) -> None:
    (key,) = section
    if (shape, key) == (ENTITY, "transformations"):
        parse(json.dumps(data_of(shape, **section)))
        return
    with pytest.raises(PolicyError) as caught:
        parse(json.dumps(data_of(shape, **section)))
    assert_reason(caught.value)
    assert f"'{key}' cannot be combined with 'shape: {shape}': " in str(caught.value)


# (command, shapes for which it must work); `publish` comes first, since others read its release.
COMMANDS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("check", "P", "--limit", "0"), SHAPES),
    (("publish", "P", "--dry-run", "--no-workload", "--no-advice"), SHAPES),
    (("plan", "P"), SHAPES),
    (("publish", "P", "--no-workload", "--no-advice"), SHAPES),
    (("refresh", "P"), SHAPES),
    (("releases", "list", "P"), SHAPES),
    (("releases", "show", "P", "1"), SHAPES),
    (("check", "P", "--release", "shown", "--limit", "0"), SHAPES),
    (("risk", "P"), SHAPES),
    (("risk", "P", "--release", "shown"), SHAPES),
    (("attack", "P"), SHAPES),
    (("report", "P", "-o", "R"), SHAPES),
    (("verdict", "P"), SHAPES),
    (("compare", "P", "P"), (ROWS,)),
    (("compile", "P", "--dialect", "duckdb"), (ROWS,)),
    (("releases", "rollback", "P", "1"), ()),
    (("query", "P", "SELECT COUNT(*) FROM visits"), ()),
    (("releases", "retire", "P"), SHAPES),
]


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_every_command_works_or_says_why_not(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("clinic.duckdb") as connection:
        connection.execute("CREATE TABLE visits (patient INTEGER, day INTEGER, ward TEXT, disease TEXT)")
        for person in range(1, 13):
            for day in (1, 2):
                ward = "eyes" if (person + day) % 2 else "skin"
                connection.execute("INSERT INTO visits VALUES (?, ?, ?, ?)", [person, day, ward, f"d{person % 3}"])
    Path("P").write_text(json.dumps(data_of(shape)))
    Path("policy.yml").write_text(json.dumps(data_of(shape)))
    for command, works in COMMANDS:
        words = ["policy.yml" if word == "P" else "report.html" if word == "R" else word for word in command]
        done = CliRunner().invoke(main, words)
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exc_info)
        assert "Traceback" not in done.output
        refused = "hint: " in done.output
        assert done.exit_code in ((1, 2) if refused else (0, 1)), (words, done.output)
        assert not (refused and shape in works), (words, done.output)


def test_the_schema_of_policies_knows_the_shapes() -> None:
    schema = CliRunner().invoke(main, ["schema"]).output
    known = json.loads(schema)
    text = json.dumps(known)
    assert all(f'"{name}"' in text for name in (*SHAPES, "item", "time", "place", "stay"))
    assert any(set(SHAPES) <= set(enum) for enum in enums(known))
    assert any({"item", "time", "place", "stay"} <= set(enum) for enum in enums(known))


def enums(part: Any) -> list[list[Any]]:
    if isinstance(part, dict):
        own = [part["enum"]] if isinstance(part.get("enum"), list) else []
        return own + [found for value in part.values() for found in enums(value)]
    return [found for value in part for found in enums(value)] if isinstance(part, list) else []


def test_a_gateway_has_no_shape(tmp_path: Path) -> None:
    """Its answers count persons, whatever their rows are: the unit says who they are."""
    (tmp_path / "gateway.yml").write_text("gateway: {database: clinic.duckdb}\nshape: sequence\n")
    done = CliRunner().invoke(main, ["query", str(tmp_path / "gateway.yml"), "SELECT 1"])
    assert done.exit_code == 2 and "shape" in done.output and "hint: " in done.output
