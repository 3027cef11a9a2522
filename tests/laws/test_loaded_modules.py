"""Laws of processes: the server and its catalog workers load only what they need, or each start takes seconds more."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from conftest import ROOT

SERVER = "import sqlanon.cli.serve, sqlanon.gateway.shown_tables, sqlanon.server.serve"
CATALOG = """
import sqlanon.server.worker
from sqlanon.pgcatalog.metadata import Metadata, RoleInfo
from sqlanon.server.work_messages import Ask, Opening
metadata = Metadata("shop", (), (RoleInfo("ann"),))
service = sqlanon.server.worker.open_service(Opening("catalog", None, 2**30, metadata=metadata), None, None)
assert service.run(Ask("SELECT relname FROM pg_catalog.pg_class", "ann")).described.columns[0].name == "relname"
"""
# What a policy that publishes is made of, and what answers statements about persons.
PUBLISHING = ["sqlanon.relations", "sqlanon.lattice", "sqlanon.release", "sqlanon.evidence", "sqlanon.algorithms"]
ANSWERING = ["sqlanon.gateway.gate", "sqlanon.gateway.answer", "sqlanon.gateway.controls", "sqlanon.engines", "opendp"]
PROCESSES = {
    "server": (
        SERVER,
        {
            *("numpy", "pyarrow", "duckdb", "sqlglot", "psycopg", "sqlanon.pgwire.rows", "sqlanon.pgcatalog.binder"),
            *("sqlanon.gateway.bind", "sqlanon.server.worker", *ANSWERING, *PUBLISHING),
        },
    ),
    "console": (
        f"{SERVER}, sqlanon.console.application, sqlanon.console.front_door",
        {
            "numpy",
            "pyarrow",
            "duckdb",
            "sqlglot",
            "psycopg",
            "sqlanon.pgwire.rows",
            *ANSWERING,
            "sqlanon.lattice",
            "sqlanon.algorithms",
            "sqlanon.schedule",
            "sqlanon.console.read_evidence",
        },
    ),
    "catalog worker": (
        CATALOG,
        {
            *("psycopg", "sqlanon.gateway.price", "sqlanon.gateway.bind.selects", "sqlanon.ledger"),
            *("sqlanon.mechanisms", "sqlanon.policy.parts", "sqlanon.server.query_worker", *ANSWERING, *PUBLISHING),
        },
    ),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_loads_only_what_it_needs(name: str) -> None:
    program, unwanted = PROCESSES[name]
    if name == "console":
        pytest.importorskip("starlette", reason="needs the package starlette: pip install 'sqlanon[console]'")
    assert all(find_spec(module) is not None for module in unwanted)  # a name that is gone would forbid nothing
    asked = f"{program}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not unwanted & set(json.loads(done.stdout))
