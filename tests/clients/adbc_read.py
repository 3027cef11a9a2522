"""ADBC's driver for PostgreSQL: Arrow over COPY in binary, parameters, and the objects of the catalog."""

from __future__ import annotations

import json
import os


def main() -> None:
    from adbc_driver_postgresql import dbapi

    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
    given = " ".join(f"{key}={os.environ[name]}" for key, name in names.items())
    with dbapi.connect(given) as connection, connection.cursor() as cursor:

        def read(sql: str, parameters: tuple[object, ...] | None = None) -> list[dict[str, object]]:
            cursor.execute(sql, parameters)
            rows: list[dict[str, object]] = cursor.fetch_arrow_table().to_pylist()
            return rows

        same = {
            "kinds": read("SELECT i2, i4, i8, f4, f8, flag, txt, d, t, ts, tz, iv, raw, ia, ta FROM kinds ORDER BY id"),
            "numeric": read("SELECT num, income FROM kinds JOIN people_released USING (id) ORDER BY id"),
            "people": len(read("SELECT * FROM people_released")),
            "list": read("SELECT city FROM cities WHERE city IN ($1,$2) ORDER BY 1", ("Athens", "Berlin")),
            "number": read("SELECT name FROM people_released WHERE id = $1", (7,)),
            "counted": read("SELECT city, count(*)::int AS n FROM people_released GROUP BY city ORDER BY city"),
            "schema": str(connection.adbc_get_table_schema("cities")),
        }
        objects = connection.adbc_get_objects(depth="tables", db_schema_filter="public").read_all().to_pylist()
        tables = [
            table["table_name"]
            for catalog in objects
            for schema in catalog["catalog_db_schemas"] or ()
            for table in schema["db_schema_tables"] or ()
        ]
        same["tables"] = sorted(name for name in tables if name in ("cities", "names", "visits"))
        noisy = read("SELECT ward, count(*) AS n FROM visits GROUP BY ward ORDER BY ward")
    print(json.dumps({"same": same, "noisy": [[row["ward"], type(row["n"]).__name__] for row in noisy]}, default=str))


if __name__ == "__main__":
    main()
