"""The benchmark runs and measures every model; its full form with limits is `make bench`."""

from __future__ import annotations

import sys

import pytest
from conftest import TESTS

sys.path.insert(0, str(TESTS / "bench"))
import anatomy
import checks
import dataframes
import gateway
import methods
import mondrian
import paths
import proxy
import risk
import search
from proxy_servers import Missing


@pytest.mark.full
def test_benchmark_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    checks.run(20_000, times=1)
    printed = capsys.readouterr().out
    for name in checks.MODELS:
        assert name in printed


@pytest.mark.full
def test_partition_benchmark_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    mondrian.run(5_000)
    printed = capsys.readouterr().out
    for name in mondrian.MODELS:
        assert name in printed


@pytest.mark.full
def test_dataframes_benchmark_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    dataframes.run(2_000, times=1)
    assert "pandas to pandas" in capsys.readouterr().out


def test_methods_benchmark_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    methods.run(2_000, times=1)
    printed = capsys.readouterr().out
    for name in methods.METHODS:
        assert name in printed


def test_paths_benchmark_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    paths.run(200, times=1)
    printed = capsys.readouterr().out
    assert "lkc_privacy" in printed and "peak memory" in printed


@pytest.mark.full
def test_search_benchmark_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    search.large(5_000, times=1)
    search.small(times=1)
    printed = capsys.readouterr().out
    assert "search, end to end" in printed and "rewrite" in printed and "suppression 100%" in printed


@pytest.mark.full
def test_gateway_benchmark_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    gateway.run(20_000, runs=2, times=1, memory=True)
    printed = capsys.readouterr().out
    assert "SmartNoise" in printed and "peak memory" in printed
    for name in gateway.QUERIES:
        assert name in printed


@pytest.mark.full
def test_proxy_benchmark_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        proxy.run(seconds=0.3, times=1)
    except Missing as missing:
        pytest.skip(str(missing))
    printed = capsys.readouterr().out
    for name in (*proxy.STATEMENTS, *proxy.READERS):
        assert name in printed


@pytest.mark.full
def test_risk_benchmark_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    risk.run(5_000, times=1)
    risk.special(500, times=1)
    printed = capsys.readouterr().out
    assert "511 sets" in printed
    for name in risk.ASKED:
        assert name in printed


def test_anatomy_benchmark_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    anatomy.run(2_000, times=1)
    printed = capsys.readouterr().out
    for name in anatomy.METHODS:
        assert name in printed
