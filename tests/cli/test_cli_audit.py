"""The command `audit`: exact answers that were given, put together."""

from __future__ import annotations

from pathlib import Path

import duckdb
from click.testing import CliRunner

from sqlanon.cli import main


def test_audit_finds_what_exact_answers_expose(tmp_path: Path) -> None:
    """Two people ask for totals that differ by one person: each passes the controls, and the audit finds both."""
    with duckdb.connect(str(tmp_path / "pay.duckdb")) as made:
        made.execute("CREATE TABLE staff AS SELECT i AS id, i % 3 AS team, 100 + i AS pay FROM range(30) t(i)")
    (tmp_path / "policy.yml").write_text(
        "gateway:\n"
        "  database: pay.duckdb\n"
        "  unit: {table: staff, key: id}\n"
        "  tables: {staff: {columns: {pay: {low: 0, high: 1000}}}}\n"
        "  rows: 1\n"
        "  budget: {statement: {epsilon: 1}, principal: {epsilon: 10}}\n"
        "  principals: {ann: {controls: true}, bob: {controls: true}}\n"
        "  controls: {query_set_size: 2, overlap: 1}\n"
        "  answer_time: 0\n",
        encoding="utf-8",
    )
    policy = str(tmp_path / "policy.yml")
    run = CliRunner().invoke
    assert run(main, ["budget", "init", policy]).exit_code == 0
    nothing = run(main, ["audit", policy])
    assert nothing.exit_code == 0 and "0 exact answers" in nothing.output and "no person is exposed" in nothing.output
    for who, least in (("ann", 20), ("bob", 21)):
        asked = run(main, ["query", policy, "--as", who, f"SELECT SUM(pay) FROM staff WHERE id >= {least}"])
        assert asked.exit_code == 0, asked.output + asked.stderr
        assert "exact, without noise" in asked.stderr
        assert str(sum(100 + i for i in range(least, 30))) in asked.output
    assert run(main, ["audit", policy, "--as", "ann"]).exit_code == 0
    found = run(main, ["audit", policy])
    assert found.exit_code == 1
    assert "1 person is exposed by the difference of the answers" in found.output
    unknown = run(main, ["audit", policy, "--as", "eve"])
    assert unknown.exit_code == 2 and "no principal 'eve'" in unknown.stderr
