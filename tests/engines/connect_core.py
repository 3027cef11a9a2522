"""Check and risk over Spark Connect, beside DuckDB: run as a program, since a process has one kind of Spark.

python tests/engines/connect_core.py FOLDER
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from conftest import Database

from sqlanon.engines import connect
from sqlanon.evidence.checks import check
from sqlanon.evidence.risk import risk


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")  # of pyspark, about pandas
    from pyspark.sql import SparkSession
    from spark_world import QUICK, SMALL, rule, same, small

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
    print(json.dumps(done))
    engine.close()
    server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
