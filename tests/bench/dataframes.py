"""What a release of a DataFrame costs, pandas in and pandas out, as a ratio to the same publish of Parquet files.

    python tests/bench/dataframes.py [ROWS …]      (default 1,000,000; `make bench`)

Prints a table and exits with 1 if the ratio is over its limit.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
import pandas as pd
from checks import best

import sqlanon

LIMIT = 1.5
ROLES = dict.fromkeys(("age", "zip", "sex"), "quasi_identifier") | {"disease": "sensitive", "amount": "insensitive"}


def frame_of(rows: int) -> pd.DataFrame:
    draw = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": draw.integers(18, 90, rows),
            "zip": draw.integers(10000, 10100, rows).astype(str),
            "sex": draw.choice(["f", "m"], rows),
            "disease": draw.choice(["flu", "cold", "asthma", "none"], rows),
            "amount": draw.uniform(0, 1, rows),
        }
    )


def run(rows: int, times: int = 3) -> bool:
    """Print the ratio for this many rows; True if it is within its limit."""
    frame = frame_of(rows)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source.parquet"), Path(folder, "released.parquet")
        frame.to_parquet(source)
        policy: dict[str, Any] = {"columns": ROLES, "models": [{"k_anonymity": {"k": 10}}], "algorithm": "mondrian"}
        of_files = policy | {"source": {"path": str(source)}, "release": {"path": str(target)}}
        files, frames = best(
            lambda: sqlanon.publish(of_files, workload=False),
            lambda: sqlanon.anonymize(frame, policy).to_pandas(),
            times=times,
        )
    ratio = frames / files
    print(f"\n{rows:,} rows: mondrian, k=10, 3 quasi-identifiers")
    print(f"{'Parquet to Parquet':24}{files:10.2f} s\n{'pandas to pandas':24}{frames:10.2f} s")
    print(f"{'ratio':24}{ratio:10.2f}, limit {LIMIT}")
    return ratio <= LIMIT


if __name__ == "__main__":
    held = [run(int(rows)) for rows in sys.argv[1:] or ("1000000",)]
    sys.exit(0 if all(held) else 1)
