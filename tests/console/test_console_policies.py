"""Policies in the console: what may be changed and by whom; from a table to a release with a verdict by mouse."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from console_world import ANALYST, AUDITOR, OWNER, PASSWORDS, SECRET_MARK, Browser, Console, running_console
from test_console_browser import chromium, log_in, opened  # noqa: F401 - a fixture

from sqlanon.ddl.documents import read_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser as Chromium

AT = "/releases/patients/policy"


@pytest.fixture(scope="module")
def own_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One that these tests may change."""
    folder = tmp_path_factory.mktemp("policies")
    with running_console(folder) as found:
        yield found


def text_of(console: Console) -> str:
    return (console.folder / "patients.yml").read_text(encoding="utf-8")


def change(owner: Browser, text: str, what: str = "check") -> str:
    found = owner.send(AT, AT, text=text, what=what)
    assert found.status == 303
    return owner.get(found.where.partition("#")[0]).text


def test_a_policy_is_checked_by_line_and_its_difference_is_shown(console: Console) -> None:
    owner = console.browser(OWNER)
    text = text_of(console)
    wrong = change(owner, text.replace("k_anonymity", "k_anonimity"))
    assert re.search(r"patients.yml:\d+: unknown privacy model &#39;k_anonimity&#39;", wrong)
    assert "did you mean &#39;k_anonymity&#39;" in wrong
    right = change(owner, text.replace("k: 5", "k: 7"))
    assert "What is wrong" not in right
    assert '<span class="added">+  - k_anonymity: {k: 7}</span>' in right
    found = owner.send(AT, "/releases/patients/policy.diff", text=text.replace("k: 5", "k: 7"))
    assert found.text.startswith("--- patients.yml\n+++ patients.yml\n")
    assert "-  - k_anonymity: {k: 5}\n+  - k_anonymity: {k: 7}\n" in found.text
    assert text_of(console) == text


@pytest.mark.full
def test_a_dry_run_says_what_it_would_cost_and_writes_nothing(console: Console) -> None:
    owner = console.browser(OWNER)
    text = text_of(console)
    before = sorted(path.name for path in console.folder.iterdir())
    found = change(owner, text.replace("k: 5", "k: 20"), "try")
    assert "Nothing was written" in found and "of 400 rows would be shown" in found
    assert SECRET_MARK not in found
    assert sorted(path.name for path in console.folder.iterdir()) == before
    impossible = change(owner, text.replace("k: 5", "k: 5000"), "try")
    assert 'class="said bad"' in impossible and "would be shown" not in impossible


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("database: clinic.duckdb", "database: /tmp/other.duckdb"), ("table: patients", "path: /etc/passwd"),
        ("table: patients", "query: SELECT * FROM read_text('/etc/passwd')"),
        ("{age: {}}", "{csv: {path: /etc/passwd}}"), ("{age: {}}", "{hrc: {path: /etc/passwd}}"),
        ("release: {view: patients_released, keep: 3}", "release: {path: /tmp/out.csv}"),
        ("algorithm: full_domain", "algorithm: full_domain\npopulation: {path: /etc/passwd}"),
        ("algorithm: full_domain", "algorithm: full_domain\nserve: {users: /tmp/x}"),
        ("algorithm: full_domain", "algorithm: full_domain\ngateway: {database: /tmp/x.duckdb}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("what", ["check", "try"])
def test_a_policy_names_no_other_place(console: Console, old: str, new: str, what: str) -> None:
    """Neither is a file opened to try it."""
    owner = console.browser(OWNER)
    text = text_of(console)
    assert old in text
    found = change(owner, text.replace(old, new), what)
    assert "is not chosen over a connection" in found
    assert "/etc/passwd" not in found.partition("<textarea")[0]


def test_a_policy_in_a_file_is_not_written(console: Console) -> None:
    owner = console.browser(OWNER)
    text = text_of(console)
    token = owner.get(AT).token(AT)
    assert token
    # There is no such form on the page of a file: its token cannot be had.
    with pytest.raises(AssertionError):
        owner.get(AT).token("/releases/patients/adopt")
    found = owner.post("/releases/patients/adopt", {"token": token, "text": "x", "password": PASSWORDS[OWNER]})
    assert found.status == 403
    assert text_of(console) == text


def test_an_auditor_reads_and_an_analyst_does_not(console: Console) -> None:
    read = console.browser(AUDITOR).get(AT)
    assert read.status == 200 and "k_anonymity" in read.text and "<textarea" not in read.text
    for path in ("/new", "/releases/patients/explore"):
        assert console.browser(AUDITOR).get(path).status == 403
    for path in (AT, "/new", "/releases/patients/explore"):
        assert console.browser(ANALYST).get(path).status == 403


@pytest.mark.full
def test_explore_tries_other_numbers(console: Console) -> None:
    owner = console.browser(OWNER)
    text = text_of(console)
    fields = {"k": "25", "l": "3", "t": "", "suppression_limit": "0.2", "algorithm": "full_domain"}
    found = owner.send("/releases/patients/explore", "/releases/patients/explore", **fields)
    shown = owner.get(found.where.partition("#")[0]).text
    assert "would be shown" in shown and "k_anonymity: {k: 25}" in shown and "distinct_l_diversity: {l: 3}" in shown
    assert 'value="25"' in shown
    adopted = owner.get(AT).text  # the policy goes on with it
    assert "{k: 25}" in adopted
    wrong = owner.send("/releases/patients/explore", "/releases/patients/explore", **(fields | {"k": "many"}))
    assert "k must be a number" in owner.get(wrong.where).text
    assert text_of(console) == text


# ---- by mouse


@pytest.mark.full
def test_from_a_table_to_a_release_with_a_verdict_by_mouse(chromium: Chromium, own_console: Console) -> None:  # noqa: F811
    """Nothing but clicks, and the password where it is asked for."""
    with opened(chromium, own_console, viewport={"width": 1280, "height": 900}) as found:
        page = found.page
        log_in(found, OWNER)
        page.get_by_role("link", name="New release").click()
        page.get_by_label("Table").select_option("cases")
        page.get_by_label("Your password again").fill(PASSWORDS[OWNER])
        page.get_by_role("button", name="Draft a policy").click()
        page.wait_for_url("**/policy")
        assert "Drafted" in page.locator(".said").inner_text()
        page.get_by_role("button", name="Dry run").click()
        page.wait_for_selector("#tried")
        assert "of 900 rows would be shown" in page.locator("#tried").inner_text()
        page.get_by_role("link", name=re.compile("^Release ")).click()
        page.get_by_text("Publish", exact=True).first.click()
        form = page.locator("form[action$='/refresh']")
        form.get_by_label("Your password again").fill(PASSWORDS[OWNER])
        form.get_by_role("button", name="Publish").click()
        wait_for_said(page, "The release was published anew.")
        page.get_by_role("button", name="Measure attacks").click()
        wait_for_said(page, "Attacks and verdicts were measured.")
        assert page.locator("#verdict").is_visible()
        assert "WP29" in page.locator("main").inner_text()
        page.get_by_role("link", name="Explore").click()
        page.get_by_label(re.compile("^k, least")).fill("12")
        page.get_by_role("button", name="Try").click()
        page.wait_for_selector("#tried")
        page.get_by_role("link", name=re.compile("^Adopt")).click()
        page.get_by_text("Change the policy", exact=True).first.click()
        form = page.locator("form[action$='/adopt']")
        form.get_by_label("Your password again").fill(PASSWORDS[OWNER])
        form.get_by_role("button", name="Change the policy").click()
        wait_for_said(page, "The policy was changed.")
    (kept,) = (own_console.folder / "kept").glob("*.sql.yml")
    assert {"k_anonymity": {"k": 12}} in read_document(kept)["models"]
    assert len(list((own_console.folder / "kept" / "history").iterdir())) == 1
    with duckdb.connect(str(own_console.folder / "clinic.duckdb"), read_only=True) as made:
        rows = made.execute("SELECT count(*) FROM cases_released").fetchone()
    assert rows is not None and rows[0] > 800


def wait_for_said(page: Any, text: str) -> None:
    """What a page says of work that may go on after it was answered."""
    deadline = time.monotonic() + 300
    while True:
        page.wait_for_load_state()
        said = " ".join(each.inner_text() for each in page.locator(".said").all())
        if text in said:
            return
        assert "role=alert" not in said and time.monotonic() < deadline, said
        time.sleep(1)
        page.reload()
