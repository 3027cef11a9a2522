"""psql on a real PostgreSQL and on the proxy: what it prints, and its commands that begin with a backslash."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from proxy_servers import Server, _binaries
from proxy_world import NAMES, PEOPLE


def _psql() -> str | None:
    if found := shutil.which("psql"):
        return found
    try:
        beside = _binaries()[0] / "psql"
    except Exception:
        return None
    return str(beside) if beside.exists() else None


PSQL = _psql()
pytestmark = pytest.mark.skipif(PSQL is None, reason="needs psql (package postgresql-client)")


def psql(server: Server, script: str, *flags: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [PSQL or "psql", "-X", "-v", "ON_ERROR_STOP=1", *flags], input=script, capture_output=True, timeout=60,
        env=server.environment(), encoding="utf-8",
    )  # fmt: skip
    if check:
        assert done.returncode == 0, done.stderr
    return done


def test_a_table(server: Server) -> None:
    done = psql(server, "SELECT id, name, born FROM people_released WHERE id IN (9, 10) ORDER BY id;")
    assert done.stdout == (
        " id |   name    |    born    \n"
        "----+-----------+------------\n"
        "  9 | person 9  | 1950-03-05\n"
        " 10 | person 10 | \n"
        "(2 rows)\n\n"
    )
    assert done.stderr == ""


def test_strings_of_statements(server: Server) -> None:
    done = psql(server, "", "-At", "-c", "SELECT 1; SELECT 'two;'; SELECT $$it's three$$")
    assert done.stdout.splitlines() == ["1", "two;", "it's three"]
    several = psql(server, "SELECT 'Ünïcödé ☃' \\; SELECT E'\\\\';\nSELECT 3;\n", "-At")
    assert several.stdout.splitlines() == ["Ünïcödé ☃", "\\", "3"]


def test_names_are_kept(server: Server) -> None:
    done = psql(server, "SELECT name FROM names ORDER BY no;", "-At", "-R", "|")
    assert done.stdout.rstrip("\n") == "|".join(NAMES)


def test_an_error(server: Server) -> None:
    done = psql(server, "SELECT 'ü', nme FROM people_released;", check=False)
    assert done.returncode == 3
    lines = done.stderr.splitlines()
    assert lines[0].endswith('ERROR:  column "nme" does not exist')
    assert lines[1:3] == ["LINE 1: SELECT 'ü', nme FROM people_released;", "                    ^"]
    done = psql(server, "\\set VERBOSITY verbose\nSELECT nme FROM people_released;", check=False)
    assert "ERROR:  42703: " in done.stderr


def test_the_prompt_follows_the_transaction(server: Server) -> None:
    script = "\\set ON_ERROR_STOP 0\nBEGIN;\nSELECT nothing;\nSELECT 1;\nCOMMIT;\nSELECT 'after';\n"
    done = psql(server, script, "-At")
    assert done.stdout.splitlines() == ["BEGIN", "ROLLBACK", "after"]
    assert "current transaction is aborted" in done.stderr


# ---- what is there

LISTED = ("cities", "people_released", "visits", "persons", "names", "kinds")


def test_tables(server: Server) -> None:
    printed = psql(server, "\\dt").stdout
    assert all(re.search(rf"^ public \| {name} +\| table \| ", printed, re.M) for name in LISTED), printed
    every = psql(server, "\\d").stdout
    assert all(f" {name} " in every for name in (*LISTED, "greek_cities", "Odd Näme"))
    some = psql(server, "\\dt public.c*").stdout
    assert "cities" in some and "visits" not in some
    assert psql(server, "\\dt cities").stdout.count("cities") == 1
    nothing = psql(server, "\\dt nothing*")
    assert "Did not find any relation" in nothing.stdout + nothing.stderr
    assert "cities" in psql(server, "\\dt+").stdout


@pytest.mark.full
def test_a_table_in_detail(server: Server) -> None:
    printed = psql(server, "\\d people_released").stdout
    assert 'Table "public.people_released"' in printed
    for line in (
        " id     | integer                     |           | not null | ",
        " name   | text                        |           | not null | ",
        " income | numeric(10,2)               |           |          | ",
        " seen   | timestamp without time zone |           |          | ",
        f" code   | {'text' if server.proxy else 'character varying(12)':27} |           |          | ",
    ):
        assert line in printed, printed  # DuckDB keeps no length of a VARCHAR
    assert '"people_released_pkey" PRIMARY KEY' in printed
    assert "FOREIGN KEY (city) REFERENCES cities(city)" in printed, printed
    assert "Odd Näme" in psql(server, '\\d "Odd Näme"').stdout
    assert "id" in psql(server, "\\d+ people_released").stdout
    missing = psql(server, "\\d nothing", check=False)
    assert "Did not find any relation" in missing.stdout + missing.stderr


@pytest.mark.parametrize(
    "command", ["\\d people_released", "\\d+ people_released", "\\d cities", "\\d+ cities", "\\d names"]
)
def test_a_table_is_shown_the_same(real_server: Server, proxy_server: Server, command: str) -> None:
    """Keys, and the tables that refer to this one; but DuckDB keeps no length of a VARCHAR."""
    expected = psql(real_server, command).stdout.replace("character varying(12)", "text".ljust(21))
    assert psql(proxy_server, command).stdout == expected


@pytest.mark.full
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("\\dn", "public"),
        ("\\dn+", "public"),
        ("\\du", "analyst"),
        ("\\l", "warehouse"),
        ("\\l+", "warehouse"),
        ("\\list", "UTF8"),
        ("\\dv", "greek_cities|Did not find|List of relations|^$"),
        ("\\dv+", ""),
        ("\\di", ""),
        ("\\dm", ""),
        ("\\ds", ""),
        ("\\df", "List of functions"),
        ("\\dp", "cities"),
        ("\\z cities", "cities"),
        ("\\dT", "List of data types"),
        ("\\dx", ""),
        ("\\dd", ""),
        ("\\db", ""),
        ("\\dS pg_class", "pg_class"),
        ("\\d pg_class", "relname"),
        ("\\dC", ""),
        ("\\do", ""),
        ("\\da", ""),
        ("\\dL", ""),
        ("\\dD", ""),
        ("\\dconfig TimeZone", "UTC"),
        ("\\drds", ""),
        ("\\ddp", ""),
        ("\\des", ""),
        ("\\conninfo", "warehouse"),
        ("\\encoding", "UTF8"),
        ("\\sf nothing", "no such"),
        ("\\dg", "analyst"),
        ("\\dtvms", "cities"),
        ("\\dtS", "pg_class"),
    ],
)
def test_the_other_lists(server: Server, command: str, shown: str) -> None:
    """Each runs without an error of the server."""
    if "\\sf" in command:
        done = psql(server, command, check=False)
        assert "does not exist" in done.stderr
        return
    done = psql(server, command)
    assert "ERROR" not in done.stderr
    assert re.search(shown, done.stdout + done.stderr, re.M), done.stdout + done.stderr


def test_gdesc(server: Server) -> None:
    before = server.charges()
    done = psql(server, 'SELECT id, income, name AS "Näme", seen FROM people_released \\gdesc\n', "-At")
    assert done.stdout.splitlines() == [
        "id|integer", "income|numeric(10,2)", "Näme|text", "seen|timestamp without time zone",
    ]  # fmt: skip
    done = psql(server, "SELECT ward, count(*) AS n FROM visits GROUP BY ward \\gdesc\n", "-At")
    assert done.stdout.splitlines() == ["ward|text", "n|bigint"]
    assert server.charges() == before


def test_gset_gexec_and_crosstab(server: Server) -> None:
    done = psql(server, "SELECT count(*) AS people FROM people_released \\gset\n\\echo :people\n", "-At")
    assert done.stdout == f"{PEOPLE}\n"
    done = psql(server, "SELECT 'SELECT ''' || city || '''' FROM cities WHERE city = 'Ōsaka' \\gexec\n", "-At")
    assert done.stdout == "Ōsaka\n"
    crossed = "SELECT city, country, population FROM cities WHERE city < 'C' ORDER BY 1 \\crosstabview\n"
    assert psql(server, crossed, "-At").stdout.splitlines() == ["Athens|643452|", "Berlin||3677472"]


def test_fetch_count_reads_through_a_cursor(server: Server) -> None:
    done = psql(server, "\\set FETCH_COUNT 70\nSELECT id FROM people_released ORDER BY id;\n", "-At")
    assert done.stdout.split() == [str(number) for number in range(1, PEOPLE + 1)]
    before = server.charges()
    done = psql(server, "\\set FETCH_COUNT 1\nSELECT ward, count(*) FROM visits WHERE cost < 77.5 GROUP BY 1;\n", "-At")
    assert len(done.stdout.splitlines()) == 4
    assert server.charges() == before + server.proxy


def test_copy_to_a_file_of_the_client(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    done = psql(server, f"\\copy (SELECT city, country FROM cities ORDER BY city) TO '{target}' CSV HEADER\n")
    assert done.stdout == "COPY 5\n"
    assert target.read_text(encoding="utf-8").splitlines()[:3] == ["city,country", "Athens,Greece", "Berlin,Germany"]
    done = psql(server, "COPY (SELECT 1, NULL, 'ü') TO STDOUT;\n")
    assert done.stdout == "1\t\\N\tü\n"
    refused = psql(server, "\\copy cities FROM STDIN\nx\ty\t1\n\\.\n", check=False)
    assert refused.returncode == 3 and "ERROR" in refused.stderr


def test_a_wrong_password(server: Server) -> None:
    for wrong in ({"PGPASSWORD": "wrong"}, {"PGUSER": "nobody"}):
        done = subprocess.run(
            [PSQL or "psql", "-X", "-w", "-c", "SELECT 1"], capture_output=True, text=True, timeout=60,
            env=server.environment() | wrong,
        )  # fmt: skip
        assert done.returncode == 2 and "password authentication failed for user" in done.stderr
    done = psql(server, "", "-w", "-d", "elsewhere", check=False)
    assert done.returncode == 2 and 'database "elsewhere" does not exist' in done.stderr


def test_control_c(server: Server) -> None:
    """psql sends a cancel, and prints what came of it; reading a script it ends then."""
    process = subprocess.Popen(
        [PSQL or "psql", "-X", "-At"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=server.environment(),
    )  # fmt: skip
    try:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("SELECT 'ready';\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        process.stdin.write(f"{server.slow};\n")
        process.stdin.flush()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert "ERROR:  canceling statement due to user request" in err


def test_budget(server: Server) -> None:
    if not server.proxy:
        pytest.skip("PostgreSQL has no budgets")
    done = psql(server, "SELECT count(*) FROM visits WHERE cost > 61.5;\nSHOW sqlanon.budget;\n")
    assert "NOTICE:  " in done.stderr and "epsilon" in done.stderr
