"""JSON and nested columns as trees: a view unnests them, and hangs below its table as a child table does."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import brute_entities as oracle
import pytest
from conftest import Database
from test_publish_entities import dicts, released

from sqlanon.evidence.attacks import attack
from sqlanon.evidence.checks import check
from sqlanon.policy import Policy, Source, parse
from sqlanon.release import publish

# A document for each person: visits, each with its drugs.
DOCUMENTS = {
    1: [{"ward": "east", "drugs": ["a", "b"]}, {"ward": "west", "drugs": []}],
    2: [{"ward": "east", "drugs": ["b", "a"]}, {"ward": "west", "drugs": []}],
    3: [{"ward": "east", "drugs": ["a"]}, {"ward": "west", "drugs": ["b"]}],  # the same rows, hung elsewhere
    4: [{"ward": "east", "drugs": ["a"]}, {"ward": "west", "drugs": ["b"]}],
    5: [],
    6: [],
    7: [{"ward": "morgue", "drugs": []}],  # alone
}
EACH = (
    "SELECT id, UNNEST(json_extract(doc, '$[*]')) AS j, "
    "UNNEST(range(CAST(json_array_length(doc) AS BIGINT))) AS i FROM pt"
)
VIEWS = {
    "duckdb": (
        "CREATE VIEW visits AS SELECT id AS pid, id * 100 + i AS v, json_extract_string(j, '$.ward') AS ward "
        f"FROM ({EACH})",
        "CREATE VIEW drugs AS SELECT v AS vid, drug FROM (SELECT id * 100 + i AS v, "
        "UNNEST(json_extract_string(j, '$.drugs[*]')) AS drug "
        f"FROM ({EACH}))",
    ),
    "postgres": (
        "CREATE VIEW visits AS SELECT id AS pid, id * 100 + i AS v, j ->> 'ward' AS ward "
        "FROM pt, jsonb_array_elements(CAST(doc AS jsonb)) WITH ORDINALITY AS d(j, i)",
        "CREATE VIEW drugs AS SELECT id * 100 + i AS vid, drug FROM pt, "
        "jsonb_array_elements(CAST(doc AS jsonb)) WITH ORDINALITY AS d(j, i), "
        "jsonb_array_elements_text(j -> 'drugs') AS e(drug)",
    ),
}


@pytest.fixture
def nested(database: Database) -> Any:
    drop = [f"DROP VIEW IF EXISTS {name}" for name in ("drugs", "visits")]
    drop += [
        f"DROP TABLE IF EXISTS {name}" for name in ("r_visits", "r_drugs", "r", "drugs", "visits", "sqlanon_releases")
    ]
    for statement in drop:
        try:
            database.run(statement)
        except Exception as error:  # a table of that name, from another test
            assert "is of type" in str(error) or "is not a view" in str(error), error
    rows = [{"id": person, "age": "30", "doc": json.dumps(own)} for person, own in DOCUMENTS.items()]
    database.table("pt", {"id": "BIGINT", "age": "TEXT", "doc": "TEXT"}, rows)
    for view in VIEWS[database.engine.dialect]:
        database.run(view)
    yield database
    for statement in drop[:2]:
        database.run(statement)


def asked(**more: Any) -> Policy:
    written = {
        "source": {
            "query": "SELECT id, age FROM pt",
            "joins": [{"table": "visits", "on": {"id": "pid"}}, {"table": "drugs", "on": {"v": "vid"}}],
        },
        "person": "id",
        "shape": "entity",
        "columns": dict.fromkeys(["id", "pid", "v", "vid"], "identifier")
        | dict.fromkeys(["age", "ward", "drug"], "quasi_identifier"),
        "models": [{"k_anonymity": {"k": 2}}],
        "suppression_limit": 0.5,
        "release": {"table": "r"},
        **more,
    }
    return parse(json.dumps(written))


def test_trees_in_documents_are_told_apart(nested: Database) -> None:
    """1 and 2 are alike whatever the order; 3 and 4 have the same rows as these, hung elsewhere; 7 is alone."""
    (found,) = check(asked(), nested.engine).checks
    assert (found.classes, found.broken_classes, found.broken_records) == (4, 1, 1)
    whole = attack(asked(), nested.engine, names=["linked_rows"]).attacks[0].before
    assert (whole.targets, whole.broken) == (7, 1)


@pytest.mark.full_on_postgres
def test_a_release_of_documents_is_made_of_tables(nested: Database) -> None:
    publish(asked(), nested.engine, workload=False)
    assert check(asked(), nested.engine, release=Source(table="r")).holds
    shown = [dicts(released(nested, name)) for name in ("r", "r_visits", "r_drugs")]
    below = ((shown[1], ["ward"], [((shown[2], ["drug"], []), "v", "vid")]), "id", "pid")
    crowd = Counter(oracle.tree_signatures(shown[0], "id", ["age"], [below]).values())
    assert min(crowd.values()) >= 2 and sum(crowd.values()) == 6
