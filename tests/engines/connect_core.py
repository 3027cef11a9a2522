"""Check, risk and publish over Spark Connect, beside DuckDB: run as a program, since a process has one kind of Spark.

python tests/engines/connect_core.py FOLDER
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")  # of pyspark, about pandas

from conftest import Database  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from spark_world import QUICK, SMALL, rule, same, small  # noqa: E402

import sqlanon  # noqa: E402
from sqlanon.engines import connect  # noqa: E402
from sqlanon.evidence.checks import check  # noqa: E402
from sqlanon.evidence.risk import risk  # noqa: E402
from sqlanon.release import publish  # noqa: E402

KEY = "a secret that is longer than sixteen characters"


def main(folder: Path) -> None:
    builder = SparkSession.builder.remote("local[2]")
    for key, value in {**QUICK, "spark.sql.warehouse.dir": str(folder / "warehouse")}.items():
        builder = builder.config(key, value)
    server = builder.getOrCreate()
    duck = Database(connect())
    duck.table("t", SMALL, small())
    path = folder / "t.parquet"
    duck.run(f"COPY t TO '{path}' (FORMAT PARQUET)")
    engine: Any = connect("sc://localhost:15002", read_only=False)
    engine.session.conf.set("spark.sql.shuffle.partitions", "2")
    engine.session.read.parquet(str(path)).write.saveAsTable("t")
    done = []
    same(check(rule(), engine), check(rule(), duck.engine))
    done.append("check")
    same(risk(rule(), engine), risk(rule(), duck.engine))
    done.append("risk")
    for name in ("full_domain", "mondrian"):
        asked = rule(models=[{"k_anonymity": {"k": 3}}], algorithm=name, person="who")
        there, here = (publish(asked, each, workload=False, secret=KEY) for each in (engine, duck.engine))
        assert there.plan == here.plan
        found = sorted(map(repr, engine.run("SELECT * FROM r")))
        assert found == sorted(map(repr, duck.fetch("SELECT * FROM r")))
        done.append(name)
    frame = engine.session.table("t")
    given: Any = {"quasi_identifiers": ["age", "zip code"], "sensitive": ["s"], "k": 3, "identifiers": ["who"]}
    given |= {"insensitive": ["x", "d", "n"]}
    release = sqlanon.anonymize(frame, **given)
    beside = sqlanon.anonymize(str(path), **given)
    assert sorted(map(repr, release.to_arrow().to_pylist())) == sorted(map(repr, beside.to_arrow().to_pylist()))
    done.append("anonymize")
    print(json.dumps(done))
    engine.close()
    server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
