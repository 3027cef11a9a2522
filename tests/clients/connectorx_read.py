"""connectorx: whole results as Arrow, over COPY in binary, rows as text, and parts that are read side by side."""

from __future__ import annotations

import json
import os
from urllib.parse import quote


def main() -> None:
    import connectorx

    user, password = (quote(os.environ[name], safe="") for name in ("PGUSER", "PGPASSWORD"))
    place = f"{os.environ['PGHOST']}:{os.environ['PGPORT']}/{os.environ['PGDATABASE']}"
    url = f"postgresql://{user}:{password}@{place}"
    people = "SELECT id, name, born, height, active, seen FROM people_released"
    columns = "SELECT i2, i4, i8, f4, f8, flag, txt, vc, d, t, ts, tz, u, raw, js FROM kinds WHERE id < 3"

    def read(sql: str, **options: object) -> list[dict[str, object]]:
        found = connectorx.read_sql(url, sql, return_type="arrow", **options)
        rows: list[dict[str, object]] = found.to_pylist()
        return rows

    same = {protocol: read(f"{columns} ORDER BY id", protocol=protocol) for protocol in ("binary", "csv", "cursor")}
    same["parts"] = sorted(read(people, partition_on="id", partition_num=3), key=lambda row: str(row["id"]))
    asked = ["SELECT city FROM cities WHERE city < 'B'", "SELECT city FROM cities WHERE city >= 'O'"]
    same["several"] = sorted(read(asked), key=str)  # type: ignore[arg-type]
    same["counted"] = read("SELECT city, count(*) AS n FROM people_released GROUP BY city ORDER BY city")
    noisy = read("SELECT ward, count(*) AS n FROM visits GROUP BY ward ORDER BY ward")
    shapes = [[row["ward"], type(row["n"]).__name__] for row in noisy]
    print(json.dumps({"same": same, "noisy": shapes}, default=str))


if __name__ == "__main__":
    main()
