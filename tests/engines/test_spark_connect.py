"""Check and risk over Spark Connect with a server on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_world import require_spark

require_spark()
pytest.importorskip("grpc", reason="Spark Connect needs grpcio: make spark")
TESTS = Path(__file__).parents[1]


@pytest.mark.full
def test_the_core_over_spark_connect(tmp_path: Path) -> None:
    paths = os.pathsep.join(str(TESTS / name) for name in (".", "oracles", "engines", "transformations"))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "connect_core.py"), str(tmp_path)],
        capture_output=True, text=True, timeout=900, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == ["check", "risk"]
