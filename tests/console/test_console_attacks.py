"""Attacks on the console: forged, replayed and cross-site forms, fixed sessions, markup in names, odd addresses."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from console_world import (
    ANALYST,
    AUDITOR,
    HOSTILE,
    IMAGE,
    NAMED,
    OWNER,
    PASSWORDS,
    SCRIPT,
    SECRET_MARK,
    Answer,
    Browser,
    Console,
)

from sqlanon.console.application import PAGES
from sqlanon.console.roles import ALL
from sqlanon.console.roles import OWNER as OWNERS
from sqlanon.console.visit import Page
from sqlanon.ledger import Ledger
from sqlanon.server.audit_chain import recent

PARTS = {"policy": "patients", "version": "1", "topic": "gateway", "name": "k_anonymity"}
GRANT = {"principal": ANALYST, "epsilon": "1", "reason": "because"}


def address(page: Page) -> str:
    return page.path.format(**PARTS)


def allowed(page: Page, role: str) -> bool:
    return page.open or role in page.roles


def grants(console: Console) -> int:
    with Ledger.open(console.folder / "clinic.ledger") as ledger:
        return sum(event.kind == "grant" for event in ledger.history())


def records(console: Console, action: str) -> list[dict[str, Any]]:
    return [item for item in recent(console.folder / "clinic.audit.jsonl", None, 1000) if item.get("kind") == action]


# ---- who may open what


def test_nobody_sees_a_page_before_the_login(console: Console) -> None:
    for page in PAGES:
        found = console.browser().ask(page.method, address(page), "" if page.method == "POST" else None)
        if page.open:
            continue
        assert (found.status, found.where) == (303, "/login") if page.method == "GET" else found.status == 403, (
            page.path
        )
        assert "patients" not in found.text


@pytest.mark.parametrize(("name", "role"), [(ANALYST, "analyst"), (AUDITOR, "auditor")])
def test_other_roles_are_refused_at_every_address_of_an_owner(console: Console, name: str, role: str) -> None:
    browser = console.browser(name)
    barred = [page for page in PAGES if not allowed(page, role)]
    assert len(barred) >= (8 if role == "analyst" else 5)
    for page in barred:
        if page.method == "GET":
            found = browser.get(address(page))
        else:  # with a token that fits, as if a page had given one
            found = browser.post(
                address(page), {"token": browser.get("/ask").token("/ask"), "password": PASSWORDS[name]}
            )
        assert found.status == 403, page.path
        assert "not for your role" in found.text
        assert "k_anonymity" not in found.text


def test_an_analyst_sees_only_their_own(console: Console) -> None:
    owner, analyst = console.browser(OWNER), console.browser(ANALYST)
    owner.send("/ask", "/ask", sql="SELECT count(*) AS of_the_owner FROM patients", epsilon="0.05", what="ask")
    shown = [analyst.get(path).text for path in ("/", "/budgets", "/audit", f"/audit?principal={OWNER}")]
    for text in shown:
        assert "of_the_owner" not in text
        assert f"<bdi>{OWNER}</bdi>" not in text
    assert "of_the_owner" in owner.get("/audit").text


# What measures, tries or shows, and changes nothing that others see.
HARMLESS = {
    "/releases/{policy}/measure", "/releases/{policy}/policy", "/releases/{policy}/policy.diff",
    "/releases/{policy}/explore",
}  # fmt: skip


def test_every_page_and_action_says_who_may_use_it() -> None:
    for page in PAGES:
        assert page.open or page.roles, page.path
        if page.method == "POST" and not page.open and page.roles == OWNERS and page.path not in HARMLESS:
            assert page.password, f"{page.path} cannot be taken back, and asks for no password"
        if page.method == "POST" and page.roles != ALL:
            assert page.action, f"{page.path} is not in the audit log"


# ---- forms


def test_a_form_needs_its_token(console: Console) -> None:
    owner, before = console.browser(OWNER), grants(console)
    fields = GRANT | {"password": PASSWORDS[OWNER]}
    foreign = console.browser(AUDITOR).get("/ask").token("/ask")
    other = owner.get("/budgets").token("/budgets/unlock")
    for token in ("", "x", "x.y", "..", foreign, other, "ü" * 40, "a" * 10_000):
        assert owner.post("/budgets/grant", fields | {"token": token}).status == 403
    assert owner.post("/budgets/grant", fields).status == 403
    assert grants(console) == before


def test_a_form_that_is_sent_twice_is_done_once(console: Console) -> None:
    owner, before = console.browser(OWNER), grants(console)
    fields = GRANT | {"password": PASSWORDS[OWNER], "token": owner.get("/budgets").token("/budgets/grant")}
    assert owner.post("/budgets/grant", fields).status == 303
    assert "Granted" in owner.get("/budgets").text
    again = owner.post("/budgets/grant", fields)
    assert again.status == 403
    assert "sent before" in again.text
    assert grants(console) == before + 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": ""}, {"Origin": "http://localhost"},
        {"Origin": "http://localhost:1"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
        {"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data; boundary=x"},
    ],
)  # fmt: skip
def test_a_form_from_elsewhere_is_refused(console: Console, headers: dict[str, str]) -> None:
    owner, before = console.browser(OWNER), grants(console)
    fields = GRANT | {"password": PASSWORDS[OWNER], "token": owner.get("/budgets").token("/budgets/grant")}
    assert owner.post("/budgets/grant", fields, **headers).status == 403
    assert grants(console) == before
    with_origin = owner.ask("POST", "/budgets/grant", "token=" + fields["token"])  # no Origin at all
    assert with_origin.status == 403


def test_what_cannot_be_taken_back_asks_for_the_password_again(console: Console) -> None:
    owner, before = console.browser(OWNER), grants(console)
    for password in ("", "wrong", PASSWORDS[AUDITOR], "x" * 5000):
        found = owner.send("/budgets", "/budgets/grant", **GRANT, password=password)
        assert (found.status, found.where) == (303, "/budgets")
        assert "the password is wrong" in owner.get("/budgets").text
    assert grants(console) == before
    owner.send("/budgets", "/budgets/grant", **GRANT, password=PASSWORDS[OWNER])
    assert grants(console) == before + 1
    assert [item["decision"] for item in records(console, "grant")][:2] == ["answered", "refused"]


def test_a_field_that_is_given_twice_is_refused(console: Console) -> None:
    owner = console.browser(OWNER)
    token = owner.get("/budgets").token("/budgets/grant")
    body = f"token={token}&principal={ANALYST}&principal={OWNER}&epsilon=1&reason=x"
    assert owner.ask("POST", "/budgets/grant", body, Origin=owner.origin).status == 403


def test_a_body_that_is_too_long_is_not_read(console: Console) -> None:
    stranger = console.browser()
    assert stranger.ask("POST", "/login", "name=" + "x" * 20_000, Origin=stranger.origin).status == 413


# ---- sessions


def test_a_session_that_a_browser_brings_along_is_not_taken(console: Console) -> None:
    fixed = console.browser()
    fixed.cookies["sqlanon_console"] = "chosen-by-the-attacker"
    assert fixed.log_in(ANALYST).status == 303
    assert fixed.cookies["sqlanon_console"] != "chosen-by-the-attacker"
    attacker = Browser(console.port, {"sqlanon_console": "chosen-by-the-attacker"})
    assert attacker.get("/").where == "/login"


def test_a_login_ends_the_session_that_was_open_in_the_same_browser(console: Console) -> None:
    browser = console.browser()
    browser.log_in(ANALYST)
    before = dict(browser.cookies)
    page = Browser(console.port)
    token = page.get("/login").token("/login")
    browser.cookies |= page.cookies
    browser.post("/login", {"token": token, "name": AUDITOR, "password": PASSWORDS[AUDITOR]})
    assert "auditor" in browser.get("/").text
    assert Browser(console.port, before).get("/").where == "/login"


def test_a_logout_ends_the_session(console: Console) -> None:
    browser = console.browser()
    browser.log_in(ANALYST)
    kept = Browser(console.port, dict(browser.cookies))
    assert kept.get("/").status == 200
    assert browser.send("/", "/logout").where == "/login"
    assert kept.get("/").where == "/login"


def test_two_cookies_of_the_same_name_are_none(console: Console) -> None:
    """A program on another port of this host can set a second one."""
    known = console.browser(ANALYST).cookies["sqlanon_console"]
    found = console.browser().get("/", Cookie=f"sqlanon_console={known}; sqlanon_console=other")
    assert found.where == "/login"


def test_the_login_form_needs_the_number_of_its_browser(console: Console) -> None:
    """Else a page elsewhere could log a browser in as the attacker, and see what is asked there."""
    stranger, other = console.browser(), console.browser()
    token = other.get("/login").token("/login")
    fields = {"token": token, "name": ANALYST, "password": PASSWORDS[ANALYST]}
    assert stranger.post("/login", fields).status == 403  # no number at all
    stranger.get("/login")
    assert stranger.post("/login", fields).status == 403  # that of another browser
    assert other.post("/login", fields, Origin="https://evil.example").status == 403
    assert other.cookies.get("sqlanon_console") is None


def test_cookies_are_kept_from_scripts_and_other_sites(console: Console) -> None:
    browser = console.browser()
    found = browser.log_in(ANALYST)
    cookies = found.headers.get_all("Set-Cookie") or []
    assert any(line.startswith("sqlanon_console=") for line in cookies)
    for line in cookies:
        assert "HttpOnly" in line
        assert "SameSite=strict" in line


def test_guessing_passwords_is_slowed_down_and_tells_no_names(console: Console) -> None:
    stranger = console.browser()
    told = [stranger.log_in(name, "wrong password").text for name in (NAMED, "nobody at all")]
    plain = [re.sub(r'value="[^"]*"', "", text) for text in told]
    assert plain[0] == plain[1]
    for _ in range(5):
        last = stranger.log_in(NAMED, "wrong password")
    assert "too many wrong passwords" in last.text
    assert "too many wrong passwords" in stranger.log_in(NAMED, "correct horse eve").text


# ---- markup in names


def _is_inert(found: Answer) -> None:
    assert SCRIPT not in found.text
    assert IMAGE not in found.text
    assert "<img" not in found.text
    assert all(
        re.fullmatch(r' src="/static/console-[0-9a-f]+\.js" defer', each)
        for each in re.findall(r"<script([^>]*)>", found.text)
    )
    assert not re.search(r"<[^>]*\s(style|on[a-z]+)\s*=\s*\"", found.text)


def test_names_and_labels_are_shown_as_text(console: Console) -> None:
    owner = console.browser(OWNER)
    shown = "".join(owner.get(address(page)).text for page in PAGES if page.method == "GET" and not page.action)
    assert shown.count("&lt;script&gt;") > 10  # they are there, as text
    for page in PAGES:
        if page.method == "GET" and page.path != "/static/{name}" and not page.action:
            found = owner.get(address(page))
            assert found.status in (200, 303), page.path
            _is_inert(found)


@pytest.mark.parametrize(
    "path",
    ["/guides?q={}", "/releases/patients?version={}", "/releases/{}", "/explain/{}", "/guides/{}",
     "/audit?principal={}", "/ask?answer={}", "/{}", "/static/{}"],
)  # fmt: skip
def test_what_an_address_says_is_shown_as_text(console: Console, path: str) -> None:
    from urllib.parse import quote

    _is_inert(console.browser(OWNER).get(path.format(quote(HOSTILE))))


def test_what_is_typed_comes_back_as_text(console: Console) -> None:
    owner = console.browser(OWNER)
    column = '"' + HOSTILE.replace('"', '""') + '"'
    for sql in (f"SELECT {HOSTILE}", f"SELECT town, sum({column}) AS {column} FROM patients GROUP BY town"):
        found = owner.send("/ask", "/ask", sql=sql, epsilon="0.5", what="ask")
        shown = owner.get(found.where)
        _is_inert(shown)
        assert "&lt;script&gt;" in shown.text
    for reason in (HOSTILE, "x" * 600):
        owner.send("/budgets", "/budgets/grant", principal=NAMED, epsilon="1", reason=reason, password=PASSWORDS[OWNER])
        _is_inert(owner.get("/budgets"))
    stranger = console.browser()
    _is_inert(stranger.send("/login", "/login", name=HOSTILE, password=HOSTILE))


def test_the_price_is_data_and_not_markup(console: Console) -> None:
    owner = console.browser(OWNER)
    token = re.search(r'data-token="([^"]+)"', owner.get("/ask").text)
    assert token is not None
    found = owner.post("/ask/explain", {"token": token[1], "sql": f"SELECT {HOSTILE} FROM patients"})
    assert found.headers["Content-Type"] == "application/json"
    assert "problem" in json.loads(found.text)


def test_a_csv_runs_no_formula(console: Console) -> None:
    owner = console.browser(OWNER)
    found = owner.send("/ask", "/ask", sql="SELECT '=1+1' AS a, title FROM wards LIMIT 2", what="ask")
    shown = owner.get(found.where).text
    link = re.search(r'href="(/ask/answer.csv\?answer=[0-9a-f]+)"', shown)
    assert link is not None, shown
    assert "'=1+1" in owner.get(link[1]).text
    assert console.browser(ANALYST).get(link[1]).status == 404  # an answer belongs to a session


# ---- other ways in


@pytest.mark.parametrize(
    "path",
    ["/static/../console.js", "/static/..%2f..%2fsite.py", "/static/%2e%2e/site.py", "/releases/..%2fpatients",
     "/releases/%2Fetc%2Fpasswd", "/releases/patients/..%2f..%2f/evidence.json", "/guides/..%2f..%2fSECURITY",
     "/guides/../../../etc/passwd", "/explain/..%2f..%2fetc", "//evil.example/", "/releases/patients.yml",
     "/releases/patients/1/../../clinic.users"],
)  # fmt: skip
def test_no_address_leads_out_of_what_is_shown(console: Console, path: str) -> None:
    found = console.browser(OWNER).get(path)
    assert found.status in (303, 404), path
    assert "SCRAM-SHA-256" not in found.text
    assert "root:" not in found.text
    assert not found.where.startswith("//")


@pytest.mark.parametrize("version", ["0", "-1", "1.5", "9" * 12, "1;", "%C2%B2", "%00"])
def test_a_version_is_a_number_that_exists(console: Console, version: str) -> None:
    assert console.browser(OWNER).get(f"/releases/patients/{version}/evidence.json").status == 404


def test_no_page_can_be_put_into_another(console: Console) -> None:
    for path in ("/login", "/", "/releases/patients", "/nothing", "/static/none"):
        headers = console.browser(OWNER).get(path).headers
        assert headers["X-Frame-Options"] == "DENY"
        policy = headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["Referrer-Policy"] == "same-origin"


def test_another_name_for_this_machine_is_refused(console: Console) -> None:
    """A page elsewhere may point its own name to 127.0.0.1."""
    evil = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:1/x", "[::2]", "localhost:")
    for host in (*evil, f"evil.example:{console.port}"):
        browser = Browser(console.port, dict(console.browser(OWNER).cookies), host)
        assert browser.get("/").status == 421


def test_many_requests_are_slowed_down(console: Console) -> None:
    browser = console.browser()
    browser.log_in(ANALYST)
    found = [browser.get("/static/none").status for _ in range(160)]
    assert 429 in found
    assert found[0] == 404


# ---- what is read, and what is written down


def test_no_row_is_on_any_page(console: Console) -> None:
    """Every name of a person holds a mark, which no page and no file of the console shows."""
    for name in (OWNER, AUDITOR, ANALYST):
        browser = console.browser(name)
        for page in PAGES:
            if page.method == "GET" and (page.open or name == OWNER or page.roles == ALL):
                assert SECRET_MARK not in browser.get(address(page)).text, page.path
    told = console.browser(OWNER).send("/ask", "/ask", sql="SELECT name FROM patients", what="ask")
    assert SECRET_MARK not in console.browser(OWNER).get(told.where).text


def test_the_process_that_talks_to_browsers_has_no_database_driver(console: Console) -> None:
    console.browser(OWNER).get("/releases/patients")
    with open(f"/proc/{console.pid}/maps", encoding="utf-8") as maps:
        loaded = maps.read()
    assert not re.search(r"duckdb|psycopg|numpy|pyarrow", loaded)
    opened = {line for line in loaded.splitlines() if "clinic.duckdb" in line}
    assert not opened


def test_actions_are_written_down_before_they_are_done(console: Console) -> None:
    auditor = console.browser(AUDITOR)
    auditor.get("/releases/patients/1/evidence.json")
    auditor.send("/audit", "/audit/verify")
    assert "Whole:" in auditor.get("/audit").text
    auditor.post("/budgets/grant", GRANT)
    downloads, checks = records(console, "download"), records(console, "verify_audit")
    assert (downloads[0]["principal"], downloads[0]["shape"]) == (AUDITOR, "patients version 1")
    assert checks[0]["door"] == "console"
    refused = records(console, "grant")[0]
    assert (refused["principal"], refused["decision"], refused["sqlstate"]) == (AUDITOR, "refused", "42501")
    logins = [item for item in recent(console.folder / "clinic.audit.jsonl", None, 1000) if item["event"] == "login"]
    assert {"answered", "refused"} <= {item["decision"] for item in logins if item["door"] == "console"}
    assert PASSWORDS[OWNER] not in (console.folder / "clinic.audit.jsonl").read_text(encoding="utf-8")
