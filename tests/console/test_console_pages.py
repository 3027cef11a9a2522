"""What the pages of the console show and do, compared with the evidence, the ledger and the engine."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import time
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from console_world import ANALYST, NAMED, OWNER, PASSWORDS, Browser, Console, write_clinic, write_policies
from proxy_servers import ROOT, run_sqlanon

from sqlanon.cli import main
from sqlanon.console.guides import guides
from sqlanon.ledger import Ledger
from sqlanon.report.wording import measure

COUNTED = "SELECT town, count(*) AS n FROM patients GROUP BY town ORDER BY town"


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []

    def handle_data(self, data: str) -> None:
        self.made.append(data)


def words(text: str) -> str:
    reader = _Text()
    reader.feed(text)
    return " ".join(" ".join(reader.made).split())


def evidence(console: Console, version: int) -> dict[str, object]:
    text = run_sqlanon("releases", "show", str(console.folder / "patients.yml"), str(version))
    return dict(json.loads(text))


def current(console: Console) -> int:
    listed = json.loads(run_sqlanon("releases", "list", str(console.folder / "patients.yml"), "--json"))
    return next((item["version"] for item in listed if item["status"] == "current"), 0)


def act(owner: Browser, action: str, **fields: str) -> str:
    """What the page says after an action that asks for the password, once it is over."""
    found = owner.send("/releases/patients", f"/releases/patients/{action}", password=PASSWORDS[OWNER], **fields)
    assert (found.status, found.where) == (303, "/releases/patients")
    deadline = time.monotonic() + 300
    while "It takes a while" in (text := owner.get(found.where).text) or "Something is done" in text:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return words(text)


@pytest.mark.full  # publishes twice and attacks the release; the next test is a part of it
def test_the_life_of_a_release(console: Console) -> None:
    """Measured, rolled back, published anew, retired, and published again: by forms alone."""
    owner = console.browser(OWNER)
    assert current(console) == 2
    told = act(owner, "measure")
    assert "Attacks and verdicts were measured." in told
    assert "WP29" in told
    measured = console.folder / "patients.measured.json"
    assert measured.stat().st_mode & 0o077 == 0  # it may hold original values
    assert "Version 1 is shown again." in act(owner, "roll-back", version="1")
    assert current(console) == 1
    assert "WP29" not in words(owner.get("/releases/patients").text)  # that was measured on another version
    assert "The release was published anew." in act(owner, "refresh")
    assert current(console) == 3
    assert "has no version 77" in act(owner, "roll-back", version="77")
    assert "is retired" in act(owner, "retire")
    assert current(console) == 0
    assert "nothing is released now" in words(owner.get("/").text)
    act(owner, "refresh")
    assert current(console) == 4
    runs = words(owner.get("/runs").text)
    assert runs.count("done") >= 5
    for said in ("back to version 1", "retired"):
        assert said in runs


@pytest.mark.full
def test_an_earlier_version_is_shown_again(console: Console) -> None:
    owner = console.browser(OWNER)
    for version in ("1", "2"):
        if current(console) == int(version):
            continue
        kept = re.findall(r'<option value="(\d+)">', owner.get("/releases/patients").text)
        if version not in kept:
            continue  # after the life of the release above, these versions are gone
        assert f"Version {version} is shown again." in act(owner, "roll-back", version=version)
        assert current(console) == int(version)


def test_numbers_of_a_release_are_those_of_its_evidence(console: Console) -> None:
    owner = console.browser(OWNER)
    shown = words(owner.get("/releases/patients?version=2").text)
    document = evidence(console, 2)
    assert f"{document['released']:,} of {document['records']:,} rows" in shown
    checks = document["checks"]
    assert isinstance(checks, list)
    for check in checks:
        assert check["model"].split("_")[0] in shown
        assert measure(check["measured"]) in shown
    downloaded = owner.get("/releases/patients/2/evidence.json")
    assert json.loads(downloaded.text) == document
    assert 'filename="patients-2.json"' in downloaded.headers["Content-Disposition"]
    assert owner.get("/releases/patients/2/release.sql").text == document["sql"]


def test_the_difference_of_two_versions_is_that_of_the_command(console: Console) -> None:
    owner = console.browser(OWNER)
    text = owner.get("/releases/patients?version=2&compare=1").text
    lines = re.findall(r'<span class="(?:added|removed|place|same)">(.*)</span>', text)
    printed = run_sqlanon("releases", "diff", str(console.folder / "patients.yml"), "1", "2").splitlines()
    assert [html.unescape(line) for line in lines] == printed
    assert any(line.startswith("+") for line in printed)


def test_a_question_is_answered_charged_and_kept_for_its_session(console: Console) -> None:
    browser = console.browser()
    browser.log_in(ANALYST)
    with Ledger.open(console.folder / "clinic.ledger") as ledger:
        before = sum(event.epsilon for event in ledger.history(ANALYST) if event.kind == "charge")
    found = browser.send("/ask", "/ask", sql=COUNTED, epsilon="0.5", what="ask")
    text = browser.get(found.where).text
    assert "Epsilon 0.5 was spent" in words(text)
    with Ledger.open(console.folder / "clinic.ledger") as ledger:
        after = sum(event.epsilon for event in ledger.history(ANALYST) if event.kind == "charge")
    assert after - before == pytest.approx(0.5)
    link = re.search(r'href="(/ask/answer.csv\?answer=[0-9a-f]+)"', text)
    assert link is not None
    rows = list(csv.DictReader(io.StringIO(browser.get(link[1]).text)))
    assert len(rows) == 3
    for row in rows:
        low, n, high = (float(row[name]) for name in ("n_low", "n", "n_high"))
        assert low < n < high
        assert f"<bdi>{n:,.0f}</bdi>" in text
        assert f"{low:,.0f} to {high:,.0f}" in text
    assert "<svg" in text  # a chart with the error bars
    again = browser.send("/ask", "/ask", sql=COUNTED, epsilon="0.5", what="ask")
    assert "It was answered before: free." in words(browser.get(again.where).text)
    assert browser.get(found.where).status == 404  # only the last answer is kept


def test_the_price_is_told_first_and_is_free(console: Console) -> None:
    browser = console.browser(ANALYST)
    token = re.search(r'data-token="([^"]+)"', browser.get("/ask").text)
    assert token is not None
    with Ledger.open(console.folder / "clinic.ledger") as ledger:
        before = len(ledger.history())
    for epsilon, error in (("0.1", "30"), ("1", "3")):  # Laplace noise of 1/epsilon: 95 % within about 3/epsilon
        asked = {"token": token[1], "sql": "SELECT count(*) AS n FROM patients", "epsilon": epsilon}
        lines = json.loads(browser.post("/ask/explain", asked).text)["lines"]
        assert lines[0] == f"Cost: epsilon {epsilon}"
        assert lines[1].endswith(f"n ±{error}")
        assert "such question" in lines[2]
    with Ledger.open(console.folder / "clinic.ledger") as ledger:
        assert len(ledger.history()) == before
    found = browser.send("/ask", "/ask", sql="SELECT count(*) AS n FROM patients", epsilon="0.1", what="explain")
    assert "Cost: epsilon 0.1" in words(browser.get(found.where).text)


def test_a_dry_run_is_marked_as_made_up_and_free(console: Console) -> None:
    browser = console.browser(OWNER)
    with Ledger.open(console.folder / "clinic.ledger") as ledger:
        before = len(ledger.history())
    found = browser.send("/ask", "/ask", sql=COUNTED, epsilon="1", what="ask", dry_run="on")
    assert "These numbers are made up" in words(browser.get(found.where).text)
    with Ledger.open(console.folder / "clinic.ledger") as ledger:
        assert len(ledger.history()) == before


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"sql": " "}, "there is no statement"),
        ({"sql": "SELECT 1", "epsilon": "much"}, "epsilon must be a number"),
        ({"sql": "SELECT 1", "epsilon": "nan"}, "epsilon must be a number"),
        ({"sql": "SELECT 1", "epsilon": "-1"}, "epsilon must be a number"),
        ({"sql": "SELECT " + "1," * 9990 + "1111"}, "there is no statement"),
        ({"sql": "SELECT * FROM patients"}, "hint:"),
        ({"sql": "SELECT 1; SELECT 2"}, "one SELECT"),
        ({"sql": "SELECT count(*) FROM patients", "epsilon": "7"}, "hint:"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_reason(console: Console, fields: dict[str, str], said: str) -> None:
    browser = console.browser(OWNER)
    if len(fields["sql"]) > 10_000:
        fields, said = fields | {"sql": fields["sql"] * 2}, "at most 20,000 characters"
    found = browser.send("/ask", "/ask", what="ask", **fields)
    shown = words(browser.get(found.where).text)
    assert said in shown
    assert 'role="alert"' in browser.get("/ask").text or said in shown


def test_budgets_are_those_of_the_ledger(console: Console) -> None:
    owner = console.browser(OWNER)
    owner.send("/budgets", "/budgets/grant", principal=NAMED, epsilon="2", reason="a  study", password=PASSWORDS[OWNER])
    text = owner.get("/budgets").text
    found = {
        item["principal"]: item
        for item in json.loads(run_sqlanon("budget", "show", str(console.folder / "clinic.yml"), "--json"))
    }
    sections = {
        html.unescape(section[1]): words(section[0])
        for section in re.findall(r'(<section id="([^"]*)" aria-labelledby="title-.*?</section>)', text, re.DOTALL)
    }
    assert set(sections) == set(found)
    for name, item in found.items():
        assert f"Epsilon left {item['left']['epsilon']:.4g} of {item['limit']['epsilon']:.4g}" in sections[name]
        assert f"Spent in this period {item['spent']['epsilon']:.4g}" in sections[name]
    assert f"by {OWNER} : a study" in sections[NAMED]
    for wrong in ({"epsilon": "0"}, {"epsilon": "x"}, {"epsilon": "-1"}, {"epsilon": "inf"}, {"reason": " "}):
        fields = {"principal": NAMED, "epsilon": "1", "reason": "because", "password": PASSWORDS[OWNER]} | wrong
        before = found[NAMED]["limit"]["epsilon"]
        owner.send("/budgets", "/budgets/grant", **fields)
        assert 'class="said bad"' in owner.get("/budgets").text
        after = json.loads(run_sqlanon("budget", "show", str(console.folder / "clinic.yml"), "--json"))
        assert next(item for item in after if item["principal"] == NAMED)["limit"]["epsilon"] == before


def test_a_token_is_revoked(console: Console) -> None:
    owner = console.browser(OWNER)
    text = owner.get("/users").text
    token = re.search(r'name="id" value="([0-9a-f]{8})"', text)
    assert token is not None
    fields = {"name": ANALYST, "id": token[1], "password": PASSWORDS[OWNER]}
    owner.send("/users", "/users/revoke", **fields)
    assert f"Token {token[1]} of {ANALYST} is revoked." in words(owner.get("/users").text)
    listed = json.loads(run_sqlanon("user", "list", str(console.folder / "clinic.yml"), "--json"))
    assert next(item for item in listed if item["user"] == ANALYST)["tokens"] == []


def test_another_password_ends_the_sessions_of_the_old_one(console: Console) -> None:
    browser = console.browser()
    browser.log_in(NAMED, "correct horse eve")
    assert browser.get("/").status == 200
    policy = str(console.folder / "clinic.yml")
    run_sqlanon("user", "passwd", policy, NAMED, "--stdin", given="another horse eve\n")
    assert browser.get("/").where == "/login"
    run_sqlanon("user", "passwd", policy, NAMED, "--stdin", given="correct horse eve\n")
    assert browser.get("/").where == "/login"  # not even with the old one


def test_guides_and_manual_pages_are_found(console: Console) -> None:
    browser = console.browser(ANALYST)
    text = words(browser.get("/guides?q=alpha%20geometric%20noise").text)
    assert "found for" in text
    found = browser.get("/guides?q=k_anonymity").text
    assert found.index("/explain/k_anonymity") < found.index("/guides/")
    printed = run_sqlanon("explain", "k_anonymity")
    shown = words(browser.get("/explain/k_anonymity").text)
    for line in ("Every record shares its quasi-identifiers", "Sweeney 2002"):
        assert line in printed
        assert line in shown
    guide = browser.get("/guides/serving").text
    assert "<table>" in guide
    for link in re.findall(r'href="([^"]+)"', guide.partition("<main")[2]):
        assert link.startswith(("/guides", "#")), link
    assert "There is no such guide" in words(browser.get("/guides/nothing").text)


def test_every_guide_goes_with_the_package() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    carried = told["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for topic in guides():
        assert carried[f"examples/{topic}/README.md"] == f"sqlanon/guides/{topic}/README.md"


# ---- the static site


def test_a_site_is_exported_with_pages_that_stand_alone(tmp_path: Path) -> None:
    write_clinic(tmp_path)
    gateway, policy = write_policies(tmp_path)
    run_sqlanon("refresh", str(policy))
    site = tmp_path / "site"
    printed = run_sqlanon("console", str(gateway), str(policy), "--export", str(site))
    assert f"wrote {site / 'index.html'}: 1 releases, 1 versions" in printed
    index = (site / "index.html").read_text(encoding="utf-8")
    for link in re.findall(r'href="([^"]+)"', index):
        assert (site / link).is_file(), link
    document = json.loads((site / "patients/1/evidence.json").read_text(encoding="utf-8"))
    assert document == json.loads(run_sqlanon("releases", "show", str(policy), "1"))
    page = (site / "patients/1/index.html").read_text(encoding="utf-8")
    assert f"{document['released']:,} of {document['records']:,} rows" in words(page)
    for text in (index, page):
        assert "<script" not in text
        assert "default-src 'none'" in html.unescape(text)
    assert (site / "patients/1/release.sql").read_text(encoding="utf-8") == document["sql"]
    run_sqlanon("console", str(policy), "--export", str(site))  # anew, in place of its own
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    refused = CliRunner().invoke(main, ["console", str(policy), "--export", str(tmp_path / "mine")])
    assert refused.exit_code == 2
    assert "holds something else" in refused.output
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_console_needs_a_gateway_and_its_ledger(tmp_path: Path) -> None:
    write_clinic(tmp_path)
    gateway, policy = write_policies(tmp_path)
    for words_, said in (
        ([str(policy)], "no section 'gateway'"), ([str(gateway)], "ledger"), ([str(gateway), "none.yml"], "no policy"),
    ):  # fmt: skip
        done = CliRunner().invoke(main, ["console", *words_])
        assert done.exit_code == 2
        assert said in done.output


def test_a_release_that_is_new_is_published_with_the_mouse_alone(console: Console) -> None:
    """The view holds what the engine holds: the last published version."""
    with duckdb.connect(str(console.folder / "clinic.duckdb"), read_only=True) as made:
        rows = made.execute("SELECT count(*) FROM patients_released").fetchone()
    version = current(console)
    assert rows is not None
    assert rows[0] == evidence(console, version)["released"]
