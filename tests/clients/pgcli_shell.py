"""pgcli: what it reads of the catalog to complete names, and statements as a person types them."""

from __future__ import annotations

import json
import os


def main() -> None:
    from pgcli.pgexecute import PGExecute
    from pgspecial.main import PGSpecial

    names = {"database": "PGDATABASE", "user": "PGUSER", "password": "PGPASSWORD", "host": "PGHOST", "port": "PGPORT"}
    shell = PGExecute(**{key: os.environ[name] for key, name in names.items()})
    shown = ("cities", "names", "visits")
    same = {
        "path": shell.search_path(),
        "schemata": [name for name in shell.schemata() if name in ("public", "pg_catalog")],
        "tables": sorted(name for _, name in shell.tables() if name in shown),
        "columns": sorted(list(row[:4]) for row in shell.table_columns() if row[1] in ("cities", "names")),
        "databases": [name for name in shell.databases() if name == os.environ["PGDATABASE"]],
        "keys": len([key for key in shell.foreignkeys() if key.parentschema == "public"]),
        "types": ["pg_catalog", "int4"] in [list(kind[:2]) for kind in shell.datatypes()],
        "user": shell.user,
    }
    list(shell.views()), list(shell.view_columns()), list(shell.functions()), list(shell.casing())
    special = PGSpecial()

    def typed(sql: str) -> list[object]:
        return [
            [None if rows is None else [list(map(str, row)) for row in rows], headers, status]
            for _, rows, headers, status, *_ in shell.run(sql, special)
        ]

    same["asked"] = typed("SELECT city, population FROM cities WHERE country IS NOT NULL ORDER BY city")
    same["series"] = typed("SELECT * FROM generate_series(1, 3)")
    same["described"] = [row[0] for row in typed("\\d cities")]
    wards = typed("SELECT ward, count(*) AS n FROM visits GROUP BY ward ORDER BY ward")
    print(json.dumps({"same": same, "noisy": wards[0][0]}, default=str))  # type: ignore[index]


if __name__ == "__main__":
    main()
