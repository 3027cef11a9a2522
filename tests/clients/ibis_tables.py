"""ibis: tables as expressions. Prints what it found as JSON."""

from __future__ import annotations

import json
import os


def main() -> None:
    import ibis

    names = {"host": "PGHOST", "user": "PGUSER", "password": "PGPASSWORD", "database": "PGDATABASE"}
    given = {key: os.environ[name] for key, name in names.items()}
    db = ibis.postgres.connect(port=int(os.environ["PGPORT"]), **given)
    people, cities, visits = (db.table(name) for name in ("people_released", "cities", "visits"))
    grouped = people.group_by("city").aggregate(n=people.count(), top=people.height.max()).order_by("city")
    joined = people.join(cities, "city").filter(people.id < 4).select("id", "country").order_by("id")
    same = {
        "tables": sorted(name for name in db.list_tables() if name in ("cities", "names", "visits")),
        "schema": {name: str(kind) for name, kind in people.schema().items() if name != "code"},
        "count": int(people.count().execute()),
        "rows": cities.order_by("city").execute().to_json(),
        "filtered": people.filter(people.born.notnull(), ~people.name.like("person 9%")).count().execute(),
        "in": people.filter(people.id.isin([3, 4])).order_by("id").name.execute().to_list(),
        "grouped": grouped.execute().to_json(),
        "joined": joined.execute().to_json(),
        "sum": int(cities.population.sum().execute()),
        "text": people.order_by("id").limit(2).select(shout=people.name.upper()).execute().to_json(),
    }
    wards = visits.group_by("ward").aggregate(n=visits.count(), mean=visits.cost.mean()).order_by("ward").execute()
    noisy = [[row.ward, str(wards.dtypes["n"]), str(wards.dtypes["mean"])] for row in wards.itertuples()]
    db.disconnect()
    print(json.dumps({"same": same, "noisy": noisy}, default=str))


if __name__ == "__main__":
    main()
