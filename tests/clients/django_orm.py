"""Django: models, aggregates, and what inspectdb reads of the catalog. Prints what it found as JSON."""

from __future__ import annotations

import io
import json
import os


def main() -> None:
    import django
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection, models
    from django.db.models import Avg, Count, Max, Q, Sum
    from django.db.models.functions import Length, Upper

    keys = {"HOST": "PGHOST", "PORT": "PGPORT", "USER": "PGUSER", "PASSWORD": "PGPASSWORD", "NAME": "PGDATABASE"}
    database = {"ENGINE": "django.db.backends.postgresql", **{key: os.environ[name] for key, name in keys.items()}}
    settings.configure(DATABASES={"default": database}, USE_TZ=True, TIME_ZONE="Europe/Athens")
    django.setup()

    class City(models.Model):
        city = models.TextField(primary_key=True)
        country = models.TextField(null=True)
        population = models.BigIntegerField(null=True)

        class Meta:
            app_label, managed, db_table = "suite", False, "cities"

    class Person(models.Model):
        id = models.IntegerField(primary_key=True)
        name = models.TextField()
        city = models.ForeignKey(City, models.DO_NOTHING, db_column="city")
        born = models.DateField(null=True)
        income = models.DecimalField(max_digits=10, decimal_places=2)
        active = models.BooleanField()

        class Meta:
            app_label, managed, db_table = "suite", False, "people_released"

    class Visit(models.Model):
        visit = models.IntegerField(primary_key=True)
        ward = models.TextField()
        cost = models.FloatField()

        class Meta:
            app_label, managed, db_table = "suite", False, "visits"

    people = Person.objects.order_by("id")
    same = {
        "all": list(City.objects.order_by("city").values_list()),
        "one": Person.objects.values_list().get(pk=7),
        "in": list(people.filter(id__in=[3, 4, 5]).exclude(active=True).values_list("id", flat=True)),
        "not null": people.filter(born__isnull=False).exclude(name__startswith="person 9").count(),
        "joined": list(people.select_related("city").filter(city__country="Greece").values_list("city__country")[:2]),
        "grouped": list(Person.objects.values("city").annotate(n=Count("id"), top=Max("income")).order_by("city")),
        "sums": list(City.objects.aggregate(n=Sum("population"), most=Max("population")).values()),
        "texts": list(people.annotate(up=Upper("name"), size=Length("name")).values_list("up", "size")[:2]),
        "either": people.filter(Q(id__lt=3) | Q(city="Athens", id__gt=990)).count(),
        "exists": people.filter(id=1).exists(),
        "nothing": list(people.none()),
        "pages": [person.name for person in people.iterator(chunk_size=300)][-1],
    }
    with connection.cursor() as cursor:
        introspection = connection.introspection
        listed = introspection.get_table_list(cursor)
        same["tables"] = sorted(table.name for table in listed if table.name in ("cities", "names", "visits"))
        described = introspection.get_table_description(cursor, "people_released")
        same["described"] = [[column.name, column.null_ok] for column in described]
        constraints = introspection.get_constraints(cursor, "cities").values()
        same["constraints"] = sorted([each["columns"], each["primary_key"], each["unique"]] for each in constraints)
        cursor.execute("SELECT city FROM cities WHERE city IN (%s,%s) ORDER BY 1", ["Athens", "Berlin"])
        same["raw"] = cursor.fetchall()
    written = io.StringIO()
    call_command("inspectdb", "cities", stdout=written)
    same["inspectdb"] = [line for line in written.getvalue().splitlines() if " = models." in line]
    wards = Visit.objects.values("ward").annotate(n=Count("visit"), mean=Avg("cost")).order_by("ward")
    noisy = [[row["ward"], type(row["n"]).__name__, type(row["mean"]).__name__] for row in wards]
    print(json.dumps({"same": same, "noisy": noisy}, default=str))


if __name__ == "__main__":
    main()
