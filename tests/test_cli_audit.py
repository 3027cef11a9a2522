"""The command `audit`: exact answers that were given, put together."""

from __future__ import annotations

from pathlib import Path

import duckdb
from click.testing import CliRunner

from sqlanon.cli import main


def test_audit_finds_what_exact_answers_expose(tmp_path: Path) -> None:
    """Two totals that differ by one person pass the controls that were set, and the audit finds them."""
    with duckdb.connect(str(tmp_path / "pay.duckdb")) as made:
        made.execute("CREATE TABLE staff AS SELECT i AS id, i % 3 AS team, 100 + i AS pay FROM range(30) t(i)")
    (tmp_path / "policy.yml").write_text(
        "gateway:\n"
        "  database: pay.duckdb\n"
        "  unit: {table: staff, key: id}\n"
        "  tables: {staff: {columns: {pay: {low: 0, high: 1000}}}}\n"
        "  rows: 1\n"
        "  budget: {statement: {epsilon: 1}, principal: {epsilon: 10}}\n"
        "  principals: {ann: {controls: true}}\n"
        "  controls: {query_set_size: 2}\n"
        "  time_grid: 0\n",
        encoding="utf-8",
    )
    policy = str(tmp_path / "policy.yml")
    run = CliRunner().invoke
    assert run(main, ["budget", "init", policy]).exit_code == 0
    nothing = run(main, ["audit", policy])
    assert nothing.exit_code == 0 and "0 exact answers" in nothing.output and "no person is exposed" in nothing.output
    for least in (20, 21):
        asked = run(main, ["query", policy, f"SELECT SUM(pay) FROM staff WHERE id >= {least}"])
        assert asked.exit_code == 0, asked.output + asked.stderr
        assert "exact, without noise" in asked.stderr
        assert str(sum(100 + i for i in range(least, 30))) in asked.output
    found = run(main, ["audit", policy, "--as", "ann"])
    assert found.exit_code == 1
    assert "1 person is exposed by the difference of the answers" in found.output
    unknown = run(main, ["audit", policy, "--as", "bob"])
    assert unknown.exit_code == 2 and "no principal 'bob'" in unknown.stderr
