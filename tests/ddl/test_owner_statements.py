"""Statements of owners, run: what they write, publish, refuse and leave alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from ddl_world import CREATE, GATEWAY, LABELS, OPTIONS, ROWS, fill, rows, run, session

from sqlanon.cli import main
from sqlanon.ddl.documents import read_document
from sqlanon.ddl.read_statement import read_statement
from sqlanon.ddl.statements import CreateView
from sqlanon.errors import PolicyError, Refused, SqlanonError
from sqlanon.ledger import Ledger
from sqlanon.policy import load
from sqlanon.policy.files import load_gateway
from sqlanon.sqlfront.lexer import statements


def released(folder: Path, name: str = "research.patients") -> list[tuple[Any, ...]]:
    schema, _, table = name.rpartition(".")
    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as made:
        return made.sql(f'SELECT * FROM {schema or "main"}."{table}"').fetchall()


def exists(folder: Path, name: str = "patients", schema: str = "research") -> bool:
    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as made:
        found = made.execute(
            "SELECT count(*) FROM information_schema.tables WHERE table_schema = ? AND table_name = ?", [schema, name]
        ).fetchone()
    return found is not None and found[0] > 0


def classes(folder: Path) -> int:
    """The smallest class, counted without sqlanon."""
    found: dict[Any, int] = {}
    for age, zip_, *_ in released(folder):
        found[age, zip_] = found.get((age, zip_), 0) + 1
    return min(found.values())


# ---- a release and its life


def test_a_view_is_published_refreshed_and_dropped(tmp_path: Path) -> None:
    given = session(tmp_path)
    run(given, LABELS)
    (made,) = run(given, CREATE)
    assert made.tag == "CREATE MATERIALIZED VIEW" and "published 600 rows, 0 suppressed" in made.notices[0]
    assert classes(tmp_path) >= 5
    assert not any("Zzyzx" in str(row) for row in released(tmp_path))
    document = read_document(tmp_path / "kept" / "research.patients.sql.yml")
    assert document["columns"] == {
        "id": "identifier", "name": "identifier", "age": "quasi_identifier", "zip": "quasi_identifier",
        "disease": "sensitive",
    }  # fmt: skip
    assert document["models"] == [{"k_anonymity": {"k": 5}}, {"t_closeness": {"t": 0.6}}]
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as made_:
        made_.execute("UPDATE patients SET age = 77 WHERE id < 300")
    run(given, "REFRESH MATERIALIZED VIEW research.patients")
    assert rows(given, "SELECT version, status, holds, released FROM sqlanon.releases ORDER BY version") == [
        (1, "superseded", True, ROWS), (2, "current", True, ROWS),
    ]  # fmt: skip
    checks = rows(given, "SELECT model, required, holds FROM sqlanon.evidence WHERE version = 2 ORDER BY model")
    assert checks == [("k_anonymity", 5.0, True), ("t_closeness", 0.6, True)]
    assert [row[0] for row in rows(given, "SELECT outcome FROM sqlanon.runs")] == ["done", "done"]
    run(given, "DROP MATERIALIZED VIEW research.patients")
    assert not exists(tmp_path)
    assert not (tmp_path / "kept" / "research.patients.sql.yml").exists()
    assert len(list((tmp_path / "kept" / "history").iterdir())) == 1  # what the owner said is not lost
    (again,) = run(given, "DROP MATERIALIZED VIEW IF EXISTS research.patients")
    assert "does not exist, skipping" in again.notices[0]
    with pytest.raises(Refused, match="does not exist"):
        run(given, "DROP MATERIALIZED VIEW research.patients")


def test_explain_writes_nothing(tmp_path: Path) -> None:
    given = session(tmp_path)
    run(given, LABELS)
    before = sorted(tmp_path.rglob("*"))
    lines = [str(row[0]) for row in rows(given, f"EXPLAIN {CREATE}")]
    assert "  - {k_anonymity: {k: 5}}" in lines
    assert f"-- {ROWS} of {ROWS} rows, 0 suppressed (0.00%)" in lines
    assert lines[-1].startswith("-- plan ") and lines[-1].endswith("nothing was written")
    assert sorted(tmp_path.rglob("*")) == before
    assert not exists(tmp_path)


def test_without_labels_nothing_is_public(tmp_path: Path) -> None:
    given = session(tmp_path)
    with pytest.raises(PolicyError, match="'columns' is missing"):
        run(given, CREATE)
    run(given, LABELS)
    run(given, "SECURITY LABEL FOR sqlanon ON COLUMN patients.zip IS NULL")
    with pytest.raises(PolicyError, match="zip"):
        run(given, CREATE)
    assert not exists(tmp_path)
    assert sorted(path.name for path in (tmp_path / "kept").glob("*.yml")) == ["labels.sql.yml"]


@pytest.mark.full
def test_what_cannot_be_published_leaves_nothing(tmp_path: Path) -> None:
    """The statement did nothing: no policy, no view; and one that was there before stays as it was."""
    given = session(tmp_path)
    run(given, LABELS)
    impossible = CREATE.replace("sqlanon.k = 5", "sqlanon.k = 5000")
    with pytest.raises(SqlanonError):
        run(given, impossible)
    assert not exists(tmp_path) and not (tmp_path / "kept" / "research.patients.sql.yml").exists()
    run(given, CREATE)
    before = (tmp_path / "kept" / "research.patients.sql.yml").read_text(encoding="utf-8"), released(tmp_path)
    with pytest.raises(SqlanonError):
        run(given, impossible.replace("CREATE", "CREATE OR REPLACE"))
    assert ((tmp_path / "kept" / "research.patients.sql.yml").read_text(encoding="utf-8"), released(tmp_path)) == before
    with pytest.raises(Refused, match="already exists"):
        run(given, CREATE)
    (skipped,) = run(given, CREATE.replace("VIEW ", "VIEW IF NOT EXISTS "))
    assert "already exists, skipping" in skipped.notices[0]
    run(given, CREATE.replace("CREATE", "CREATE OR REPLACE").replace("k = 5", "k = 9"))
    assert classes(tmp_path) >= 9


def test_a_label_that_changed_stops_a_refresh(tmp_path: Path) -> None:
    given = session(tmp_path)
    run(given, LABELS.replace("'quasi_identifier';", "'insensitive';"))
    run(given, CREATE)
    run(given, "SECURITY LABEL FOR sqlanon ON COLUMN patients.zip IS 'quasi_identifier'")
    with pytest.raises(PolicyError, match=r"the labels of 'zip' changed"):
        run(given, "REFRESH MATERIALIZED VIEW research.patients")
    run(given, "SECURITY LABEL FOR sqlanon ON COLUMN patients.zip IS NULL")
    with pytest.raises(PolicyError, match=r"the labels of 'zip' changed"):
        run(given, "REFRESH MATERIALIZED VIEW research.patients")
    run(given, "SECURITY LABEL FOR sqlanon ON COLUMN patients.zip IS 'insensitive'")
    run(given, "REFRESH MATERIALIZED VIEW research.patients")


def test_no_data_and_settings_of_a_session(tmp_path: Path) -> None:
    given = session(tmp_path)
    run(given, LABELS)
    run(given, "SET sqlanon.k = 5; SET sqlanon.algorithm TO full_domain; SET sqlanon.t = 0.6")
    (made,) = run(given, "CREATE MATERIALIZED VIEW v AS TABLE patients WITH NO DATA")
    assert "REFRESH" in made.notices[0] and not exists(tmp_path, "v", "main")
    assert rows(given, "SELECT release, version FROM sqlanon.releases") == [("v", None)]
    run(given, "REFRESH MATERIALIZED VIEW v")
    assert exists(tmp_path, "v", "main")
    run(given, "RESET sqlanon.k; RESET sqlanon.t; RESET sqlanon.algorithm")
    with pytest.raises(PolicyError, match="'models' is missing"):
        run(given, "CREATE MATERIALIZED VIEW w AS SELECT * FROM patients")


def test_a_query_shows_columns_of_its_table_with_their_labels(tmp_path: Path) -> None:
    given = session(tmp_path)
    run(given, LABELS)
    run(given, "SECURITY LABEL FOR sqlanon ON COLUMN young.decade IS 'quasi_identifier'")
    run(
        given,
        f"CREATE MATERIALIZED VIEW young WITH ({OPTIONS}) AS "
        "SELECT ID, Zip, disease, 10 * (age / 10) AS decade FROM patients WHERE age < 40",
    )
    document = read_document(tmp_path / "kept" / "young.sql.yml")
    assert set(document["columns"]) == {"id", "zip", "disease", "decade"}
    with duckdb.connect(str(tmp_path / "shop.duckdb"), read_only=True) as made:
        wanted = made.execute("SELECT count(*) FROM patients WHERE age < 40").fetchone()
        names = {row[0] for row in made.execute("DESCRIBE young").fetchall()}
    assert wanted is not None and len(released(tmp_path, "young")) == wanted[0]
    assert names == {"zip", "disease", "decade"}


def test_hana_s_view_is_read(tmp_path: Path) -> None:
    """The example of SAP's documentation, with a table of ours."""
    given = session(tmp_path)
    tree = json.dumps({"embedded": [[f"z{place}", "west" if place < 3 else "east"] for place in range(5)]})
    text = f"""
    CREATE VIEW "PATIENTS_ANON" ("ID", "ZIP", "DISEASE") AS SELECT ID, ZIP, DISEASE FROM PATIENTS
    WITH ANONYMIZATION (ALGORITHM 'L-DIVERSITY' PARAMETERS '{{"data_change_strategy": "qualified", "k": 8, "l": 3,
    "loss": 0.1}}'
    COLUMN ID PARAMETERS '{{"is_sequence": true}}'
    COLUMN ZIP PARAMETERS '{{"is_quasi_identifier": true, "hierarchy": {tree}, "weight": 2}}'
    COLUMN DISEASE PARAMETERS '{{"is_sensitive": true}}')
    """
    run(given, text)
    document = read_document(tmp_path / "kept" / "PATIENTS_ANON.sql.yml")
    assert document["models"] == [{"k_anonymity": {"k": 8}}, {"distinct_l_diversity": {"l": 3}}]
    assert document["suppression_limit"] == 0.1
    assert document["columns"] == {
        "id": "identifier", "zip": {"role": "quasi_identifier", "weight": 2}, "disease": "sensitive"
    }  # fmt: skip
    assert document["hierarchies"]["zip"]["tree"]["tree"] == {
        "*": {"west": {"z0": {}, "z1": {}, "z2": {}}, "east": {"z3": {}, "z4": {}}}
    }
    assert not exists(tmp_path, "PATIENTS_ANON", "main")  # as in HANA, the data come with REFRESH
    run(given, 'REFRESH VIEW "PATIENTS_ANON" ANONYMIZATION')
    assert len(released(tmp_path, "PATIENTS_ANON")) == ROWS


@pytest.mark.parametrize(
    ("algorithm", "given", "said"),
    [
        ("DIFFERENTIAL_PRIVACY", '{"epsilon": 1}', "noise on single records is not answered"),
        ("K-ANONYMITY", '{"k": 5, "recoding": "x"}', "the parameter 'recoding' is not read"),
        ("K-ANONYMITY", "{}", "needs k"),
        ("L-DIVERSITY", '{"k": 5}', "needs l"),
        ("K-ANONYMITY", '{"k": 5, "l": 2}', "takes no l"),
        ("K-ANONYMITY", "not json", "are not JSON"),
        ("MAGIC", '{"k": 5}', "there is no algorithm 'MAGIC'"),
    ],
)
def test_what_is_not_understood_of_hana_is_refused(algorithm: str, given: str, said: str) -> None:
    text = f"CREATE VIEW v AS SELECT a FROM t WITH ANONYMIZATION (ALGORITHM '{algorithm}' PARAMETERS '{given}')"
    with pytest.raises(SqlanonError, match=said):
        read_statement(statements(text)[0])


# ---- what is refused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM read_csv('/etc/passwd')", "names its tables|not admitted"),
        ("CREATE MATERIALIZED VIEW v AS SELECT (SELECT max(name) FROM patients) AS a FROM patients", "not admitted"),
        ("CREATE MATERIALIZED VIEW v AS SELECT a FROM t UNION SELECT b FROM u", "one SELECT"),
        ("CREATE MATERIALIZED VIEW v AS SELECT pg_read_file('x') AS a FROM t", "not admitted"),
        ("CREATE MATERIALIZED VIEW v AS SELECT getenv('HOME') AS a FROM t", "not admitted"),
        ("CREATE MATERIALIZED VIEW v AS WITH x AS (DELETE FROM t) SELECT a FROM x", "not admitted|one SELECT|is not"),
        ("CREATE MATERIALIZED VIEW v AS SELECT a FROM t LIMIT 5", "LIMIT is not admitted"),
        ("CREATE MATERIALIZED VIEW v AS SELECT a FROM t TABLESAMPLE BERNOULLI (5)", "not admitted"),
        ("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t", "not admitted"),
        ("CREATE MATERIALIZED VIEW v AS SELECT a + 1 FROM t", "needs a name"),
        ("CREATE MATERIALIZED VIEW v AS SELECT $1 AS a FROM t", "admitted|parameter"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 AS a", "reads a table"),
        ("CREATE MATERIALIZED VIEW v AS DROP TABLE t", "one SELECT|cannot be read"),
        ("CREATE MATERIALIZED VIEW v WITH (k = 5) AS SELECT * FROM t", "there is no option 'k'"),
        ("CREATE MATERIALIZED VIEW v WITH (sqlanon.kk = 5) AS SELECT * FROM t", "there is no option sqlanon.kk"),
        ("CREATE MATERIALIZED VIEW v WITH (sqlanon.k = 5", "syntax error"),
        ("CREATE MATERIALIZED VIEW", "syntax error"),
        ("CREATE MATERIALIZED VIEW a.b.c.d AS SELECT * FROM t", "syntax error"),
        ("CREATE VIEW v AS SELECT * FROM t", "a view has no privacy models"),
        ("SECURITY LABEL FOR anon ON COLUMN t.a IS 'x'", "provider sqlanon"),
        ("SECURITY LABEL FOR sqlanon ON COLUMN a IS 'x'", "a column is named with its table"),
        ("SECURITY LABEL FOR sqlanon ON ROLE a IS 'x'", "labels are on columns and tables"),
        ("SECURITY LABEL FOR sqlanon ON COLUMN t.a IS 'quasi_identifer'", "did you mean 'quasi_identifier'"),
        ("SECURITY LABEL FOR sqlanon ON COLUMN t.a IS ''", "a label is empty"),
        ("SECURITY LABEL FOR sqlanon ON COLUMN t.a IS 'weight 2'", "needs a role"),
        ("SECURITY LABEL FOR sqlanon ON COLUMN t.a IS 'identifier; sensitive'", "says 'role' twice"),
        ("SECURITY LABEL FOR sqlanon ON COLUMN t.a IS 'quasi_identifier; hierarchy agee'", "no hierarchy 'agee'"),
        ("SECURITY LABEL FOR sqlanon ON COLUMN t.a IS 'between 0 and 200'", "the gateway has no table"),
        ("ALTER ROLE alice SET work_mem = 5", "there is no option 'work_mem'"),
        ("ALTER ROLE alice SET sqlanon.budget = '5 per month'", 'role "alice" does not exist'),
        ("ALTER DATABASE x SET sqlanon.rowz = 5", "did you mean 'rows'"),
        ("DROP ROLE alice", 'role "alice" does not exist'),
        ("ALTER ROLE ALL SET sqlanon.budget = 'much'", "a budget is an epsilon"),
        ("SELECT * FROM sqlanon.nothing", "does not exist here"),
        ("SELECT * FROM sqlanon.releases, patients", "does not exist here"),
        ("SELECT * FROM sqlanon.releases WHERE version IN (SELECT 1)", "not answered"),
        ("SELECT read_text('/etc/passwd') FROM sqlanon.releases", "not answered"),
        ("SELECT * FROM sqlanon.releases; DELETE FROM sqlanon.releases", "not answered"),
        ("SELECT nothing FROM sqlanon.releases", "nothing"),
        ("TRUNCATE patients", "not answered"),
        ("CREATE TABLE t (a INT)", "not answered"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_and_changes_nothing(tmp_path: Path, text: str, said: str) -> None:
    given = session(tmp_path)
    with pytest.raises(SqlanonError, match=said):
        run(given, text)
    assert not (tmp_path / "kept").exists() or not list((tmp_path / "kept").glob("*.yml"))


def test_a_policy_that_is_kept_in_a_file_is_read_only(tmp_path: Path) -> None:
    given = session(tmp_path)
    run(given, LABELS)
    text = "\n".join(
        ["source: {database: ../shop.duckdb, table: patients}",
         "columns: {id: identifier, name: identifier, age: quasi_identifier, zip: quasi_identifier,",
         "  disease: sensitive}",
         "hierarchies: {age: {age: {}}}", "models: [{k_anonymity: {k: 4}}]", "algorithm: full_domain",
         "release: {view: research.patients}"]
    )  # fmt: skip
    kept = tmp_path / "kept" / "by_hand.yml"
    kept.write_text(text, encoding="utf-8")
    for statement in (
        CREATE,
        CREATE.replace("CREATE", "CREATE OR REPLACE"),
        "DROP MATERIALIZED VIEW research.patients",
    ):
        with pytest.raises(Refused, match=r"kept in the file 'by_hand.yml'") as found:
            run(given, statement)
        assert found.value.sqlstate == "25006"
    run(given, "CREATE SCHEMA IF NOT EXISTS research")
    run(given, "REFRESH MATERIALIZED VIEW research.patients")  # publishing anew changes no policy
    assert kept.read_text(encoding="utf-8") == text
    assert rows(given, "SELECT policy, kept FROM sqlanon.releases") == [("by_hand.yml", "file")]


# ---- over a connection, no statement names a place


@pytest.mark.parametrize(
    "options",
    [
        "sqlanon.database = '/tmp/other.duckdb'", "sqlanon.path = '/etc/passwd'", "sqlanon.target = 'path'",
        "sqlanon.query = 'SELECT * FROM read_text(''/etc/passwd'')'", "sqlanon.serve = '{host: 0.0.0.0}'",
        "sqlanon.hierarchies = '{zip: {csv: {path: /etc/passwd}}}'", "sqlanon.population = '{path: /etc/passwd}'",
        "sqlanon.hierarchies = '{zip: {hrc: {path: /etc/passwd}}}'", "sqlanon.gateway = '{database: x, ledger: y}'",
        "sqlanon.population = '{query: SELECT 1}'", "sqlanon.population = '{table: /etc/passwd.csv}'",
        "sqlanon.joins = '[{table: /etc/passwd.csv, on: id}]'", "sqlanon.protect = '{}'",
    ],
)  # fmt: skip
def test_a_connection_names_no_file_and_no_database(tmp_path: Path, options: str) -> None:
    given = session(tmp_path, restricted=True)
    run(given, LABELS)
    for text in (f"CREATE MATERIALIZED VIEW v WITH (sqlanon.k = 5, {options}) AS SELECT * FROM patients",
                 f"CREATE MATERIALIZED VIEW v WITH (sqlanon.k = 5, {options})"):  # fmt: skip
        with pytest.raises(SqlanonError):
            run(given, text)
    assert [path.name for path in (tmp_path / "kept").glob("*.yml")] == ["labels.sql.yml"]


@pytest.mark.parametrize("name", ['"people.csv"', '"/etc/passwd"', "sqlanon_releases", "nothing", '"../people.csv"'])
def test_a_connection_reads_tables_that_are_there_alone(tmp_path: Path, name: str, monkeypatch: Any) -> None:
    """DuckDB takes the name of a table for that of a file, if there is no such table."""
    given = session(tmp_path, restricted=True)
    run(given, LABELS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("id,name,age,zip,disease\n" + "1,x,20,z,d\n" * 50)
    run(given, f"CREATE SCHEMA s; {LABELS.replace('patients.', f'{name}.')}")
    for text in (f"SELECT * FROM {name}", f"SELECT id, name, age, zip, disease FROM {name} WHERE age > 1"):
        for begin in ("CREATE", "EXPLAIN CREATE"):
            with pytest.raises(Refused, match="does not exist"):
                run(given, f"{begin} MATERIALIZED VIEW v WITH (sqlanon.k = 5) AS {text}")


def test_names_of_clients(tmp_path: Path) -> None:
    """The database and the schema public stand before names, as dbt writes them; another database is refused."""
    given = session(tmp_path, restricted=True, database_name="shop")
    run(given, LABELS.replace("COLUMN patients.", 'COLUMN "shop"."public".patients.'))
    run(given, CREATE.replace("research.patients", '"shop"."research"."patients"').replace("FROM ", "FROM public."))
    assert exists(tmp_path)
    with pytest.raises(Refused, match="cross-database"):
        run(given, "REFRESH MATERIALIZED VIEW other.research.patients")


# ---- the gateway


def test_a_gateway_is_made_by_labels_and_roles(tmp_path: Path) -> None:
    given = session(tmp_path)
    script = """
    SECURITY LABEL FOR sqlanon ON TABLE patients IS 'persons by id';
    SECURITY LABEL FOR sqlanon ON COLUMN patients.age IS 'quasi_identifier; between 0 and 120';
    SECURITY LABEL FOR sqlanon ON COLUMN patients.name IS 'hidden';
    SECURITY LABEL FOR sqlanon ON COLUMN patients.zip IS 'keys [z0, z1]';
    ALTER DATABASE shop SET sqlanon.rows = 1;
    ALTER DATABASE shop SET sqlanon.budget = '{statement: {epsilon: 1}, principal: {epsilon: 5, period: month}}';
    CREATE ROLE alice;
    ALTER ROLE alice SET sqlanon.budget = '3 per month';
    """
    run(given, script)
    found = load_gateway(tmp_path / "kept" / "gateway.sql.yml")
    assert found.unit.key == "id" and found.rows == 1
    columns = found.tables["patients"].columns
    assert (columns["age"].low, columns["age"].high) == (0, 120)
    assert columns["name"].hidden and columns["zip"].keys == ("z0", "z1")
    assert found.principals["alice"].epsilon == 3
    with pytest.raises(PolicyError, match="renewed each month"):
        run(given, "ALTER ROLE alice SET sqlanon.budget = '3 per week'")
    run(given, "ALTER ROLE ALL SET sqlanon.budget = '7 per week'; ALTER ROLE alice RESET sqlanon.budget")
    run(given, "ALTER ROLE alice SET sqlanon.owner = true; SECURITY LABEL FOR sqlanon ON COLUMN patients.name IS NULL")
    found = load_gateway(tmp_path / "kept" / "gateway.sql.yml")
    assert found.budget.principal.epsilon == 7 and found.budget.principal.period == "week"
    assert found.principals["alice"].epsilon is None and found.principals["alice"].owner
    assert "name" not in found.tables["patients"].columns
    with pytest.raises(PolicyError):  # what the checks of a policy refuse is not kept
        run(given, "SECURITY LABEL FOR sqlanon ON COLUMN patients.age IS 'between 9 and 3'")
    assert load_gateway(tmp_path / "kept" / "gateway.sql.yml").tables["patients"].columns["age"].high == 120
    run(given, "DROP ROLE alice; SECURITY LABEL FOR sqlanon ON COLUMN patients.zip IS 'sensitive'")
    assert "zip" not in load_gateway(tmp_path / "kept" / "gateway.sql.yml").tables["patients"].columns


def test_a_served_gateway_in_a_file_is_read_only(tmp_path: Path) -> None:
    fill(tmp_path)
    served = tmp_path / "shop.yml"
    served.write_text(GATEWAY, encoding="utf-8")
    given = session(tmp_path, gateway=served, restricted=True)
    for text in ("ALTER ROLE anna SET sqlanon.budget = '5 per month'", "CREATE ROLE eve",
                 "ALTER ROLE anna SET sqlanon.owner = true", "ALTER DATABASE shop SET sqlanon.rows = 9",
                 "SECURITY LABEL FOR sqlanon ON TABLE patients IS 'public'",
                 "SECURITY LABEL FOR sqlanon ON COLUMN patients.age IS 'between 0 and 1000'"):  # fmt: skip
        with pytest.raises(Refused, match=r"kept in the file 'shop\.yml'"):
            run(given, text)
    assert served.read_text(encoding="utf-8") == GATEWAY
    Ledger.create(tmp_path / "shop.ledger").close()
    assert rows(given, "SELECT principal, epsilon_left FROM sqlanon.budget ORDER BY principal") == [
        ("anna", 100.0), ("aude", 100.0), ("olga", 100.0)
    ]  # fmt: skip


def test_a_served_gateway_over_sql_keeps_its_places(tmp_path: Path) -> None:
    fill(tmp_path)
    served = tmp_path / "shop.sql.yml"
    served.write_text(GATEWAY, encoding="utf-8")
    given = session(tmp_path, gateway=served, restricted=True)
    run(given, "ALTER ROLE anna SET sqlanon.budget = '5 per month'")
    assert load_gateway(served).principals["anna"].epsilon == 5
    assert read_document(served)["serve"] == {"port": 0, "workers": 1, "policies": "kept", "administrators": ["olga"]}
    for text in ("ALTER DATABASE shop SET sqlanon.database = '/tmp/x.duckdb'",
                 "ALTER DATABASE shop SET sqlanon.ledger = '/tmp/x.ledger'", "DROP ROLE olga"):  # fmt: skip
        with pytest.raises(SqlanonError):
            run(given, text)
    assert load_gateway(served).database == "shop.duckdb" and "olga" in load_gateway(served).principals


# ---- the relations


def test_relations_are_asked_as_tables(tmp_path: Path) -> None:
    given = session(tmp_path)
    run(given, LABELS + CREATE)
    (found,) = run(
        given,
        "SELECT r.release, count(*) AS checks, min(e.margin) AS nearest FROM sqlanon.releases AS r "
        "JOIN sqlanon.evidence e ON e.release = r.release WHERE r.holds AND e.model LIKE 'k%' GROUP BY r.release "
        "ORDER BY 1 LIMIT 5",
    )
    assert found.columns[0] == ("release", "text") and found.columns[1] == ("checks", "bigint")
    assert found.rows[0][:2] == ("research.patients", 1)
    assert rows(given, "SELECT * FROM sqlanon.verdicts") == [] == rows(given, "SELECT * FROM sqlanon.budget")
    assert rows(given, "SELECT document FROM sqlanon.policies")[0][0].startswith("source:")


# ---- the command


def test_a_script_and_its_errors(tmp_path: Path) -> None:
    fill(tmp_path)
    script = tmp_path / "s.sql"
    script.write_text(LABELS + CREATE + ";\nSELECT release, holds FROM sqlanon.releases;\n", encoding="utf-8")
    words = ["sql", str(script), "--database", str(tmp_path / "shop.duckdb"), "--policies", str(tmp_path / "kept")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "published 600 rows" in done.output and "research.patients    yes" in done.output
    again = CliRunner().invoke(main, words)
    assert again.exit_code == 2 and "already exists" in again.output
    told = CliRunner().invoke(main, ["sql", "-", *words[2:], "--json"], input="SELECT 1 FROM sqlanon.x")
    assert json.loads(told.output)["error"]["sqlstate"] == "42P01"
    missing = CliRunner().invoke(main, ["sql", str(tmp_path / "none.sql")])
    assert missing.exit_code == 2 and "none.sql" in missing.output


def test_a_policy_is_printed_as_sql_and_read_back(tmp_path: Path) -> None:
    given = session(tmp_path)
    run(given, LABELS + CREATE)
    kept = tmp_path / "kept" / "research.patients.sql.yml"
    done = CliRunner().invoke(main, ["sql", "--dump", str(kept)])
    assert done.exit_code == 0
    assert (
        "SECURITY LABEL FOR sqlanon ON COLUMN patients.age IS 'quasi_identifier; hierarchy {age: {}}';" in done.output
    )
    *_, view = [read_statement(each) for each in statements(done.output)]
    assert isinstance(view, CreateView) and ("k", 5) in view.options
    assert load(kept).release is not None


def test_a_release_with_a_hostile_name_stays_in_its_folder(tmp_path: Path) -> None:
    given = session(tmp_path)
    run(given, LABELS)
    for name in ('"../../x"', '"a/b"', '"labels"', '"gateway"', f'"{"é" * 60}"', '"it\'s ; ""x"""'):
        text = CREATE.replace("research.patients", name) + " WITH NO DATA"
        run(given, text)
        (found,) = rows(given, "SELECT release FROM sqlanon.policies WHERE release LIKE '%' ORDER BY release LIMIT 1")
        run(given, f"DROP MATERIALIZED VIEW {name}")
        assert found
    assert {path.parent.name for path in tmp_path.rglob("*.yml")} == {"kept", "history"}
    assert (tmp_path / "kept" / "labels.sql.yml").is_file()
