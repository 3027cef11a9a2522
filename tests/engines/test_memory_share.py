"""Memory that nobody limits: a quarter of the machine, and less where a lower limit is there already."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sqlanon.engines import connect, memory_share
from sqlanon.engines.duckdb import DuckDB
from sqlanon.engines.memory_share import bytes_of, memory_of_machine, share_of_memory


def limit_of(engine: object) -> int:
    assert isinstance(engine, DuckDB)
    return bytes_of(engine._connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])


def test_a_quarter_of_the_machine() -> None:
    with closing(connect()) as engine:
        assert limit_of(engine) == pytest.approx(share_of_memory(), rel=0.02)
    assert share_of_memory() == max(memory_of_machine() // 4, 1 << 30)


def test_a_limit_that_is_given_counts_and_a_lower_one_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "a.duckdb")
    with closing(connect(path, read_only=False, memory_limit="300MB")) as first:
        assert limit_of(first) == pytest.approx(300e6, rel=0.02)
        with closing(connect(path, read_only=False)) as second:
            assert limit_of(second) == pytest.approx(300e6, rel=0.02)


def test_a_container_is_a_small_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "memory.max"
    monkeypatch.setattr(memory_share, "GROUPS", (str(tmp_path / "none"), str(told)))
    told.write_text("8000000000\n")
    assert memory_of_machine() == min(8_000_000_000, memory_of_machine())
    assert share_of_memory() <= 2_000_000_000
    told.write_text("max\n")
    assert share_of_memory() == max(memory_of_machine() // 4, 1 << 30)


def test_amounts_that_cannot_be_read_limit_nothing() -> None:
    assert bytes_of("much") > 1 << 60 and bytes_of("3 bushels") > 1 << 60
