"""The console in a real browser: nothing is blocked or wrong, nothing is too wide, and the keyboard is enough."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import TESTS
from console_world import ANALYST, AUDITOR, NAMED, OWNER, PASSWORDS, Console

from sqlanon.ledger import Ledger

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

READ = (
    "/", "/releases/patients/policy", "/releases/patients", "/releases/patients?version=2&compare=1", "/ask",
    "/budgets", "/runs", "/audit", "/users", "/guides?q=k", "/explain/k_anonymity",
)  # fmt: skip
PAGES = {
    "analyst": ("/", "/ask", "/budgets", "/audit", "/guides", "/guides/serving", "/explain/mondrian"),
    "auditor": READ,
    "owner": ("/new", "/releases/patients/explore", *READ),
}
ROLES = {OWNER: "owner", AUDITOR: "auditor", ANALYST: "analyst"}
TOO_WIDE = """() => [...document.querySelectorAll("main *, header *")]
  .filter(node => !node.closest(".scroll, pre, svg, .unseen, .skip"))
  .filter(node => node.getBoundingClientRect().right > innerWidth + 1)
  .map(node => node.tagName + "." + node.className)"""
UNNAMED = """() => [...document.querySelectorAll("input:not([type=hidden]), textarea, select, button, a")]
  .filter(node => !(node.textContent.trim() || node.labels?.length || node.getAttribute("aria-label")))
  .map(node => node.outerHTML)"""
CONTRAST = """() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = colour => {
    const curve = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const [r, g, b] = colour.slice(0, 3).map(v => curve(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = node => {
    for (; node; node = node.parentElement) {
      const found = parts(getComputedStyle(node).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("main *, header *")) {
    if (node.closest("svg") || node.matches(":disabled") || !node.checkVisibility()) continue;
    if (![...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim())) continue;
    const one = light(parts(getComputedStyle(node).color)), other = light(ground(node));
    const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
    const told = [node.tagName, node.className, ratio.toFixed(2), node.textContent.slice(0, 30)];
    if (ratio < 4.5) found.push(told.join(" "));
  }
  return found;
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("needs a browser (chromium), and there is none: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page of a browser, and whatever its console complained of."""

    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> Any:
        return self.page.goto(self.base + path)


@contextmanager
def opened(chromium: Browser, console: Console, **options: Any) -> Iterator[Opened]:
    context = chromium.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(120_000)
    made = Opened(page, f"http://localhost:{console.port}")
    outside: list[str] = []
    page.on("console", lambda said: made.complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: made.complaints.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(made.base) else outside.append(asked.url))
    page.on("dialog", lambda dialog: made.complaints.append(dialog.message))
    try:
        yield made
        assert outside == []
        assert made.complaints == []
    finally:
        context.close()


def log_in(found: Opened, name: str) -> None:
    found.go("/login")
    found.page.get_by_label("Name").fill(name)
    found.page.get_by_label("Password").fill(PASSWORDS[name])
    found.page.get_by_role("button", name="Log in").click()
    found.page.wait_for_url(found.base + "/")


@pytest.mark.parametrize("name", [OWNER, AUDITOR, ANALYST])
def test_every_page_is_shown_without_a_complaint(chromium: Browser, console: Console, name: str) -> None:
    with opened(chromium, console, viewport={"width": 1280, "height": 900}) as found:
        log_in(found, name)
        for path in PAGES[ROLES[name]]:
            answer = found.go(path)
            assert answer.status == 200, path
            assert len(answer.body()) < 200_000, path
            assert "owned" not in found.page.title()
            assert found.page.locator("main img, main iframe").count() == 0
            assert found.page.evaluate(UNNAMED) == [], path
            assert found.page.locator("h1").count() == 1, path
        shown = [link.inner_text() for link in found.page.locator("nav.pages a").all()]
        assert ("Users" in shown) == (name != ANALYST)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(360, "dark"), (1440, "light"), *(pytest.param(width, scheme, marks=pytest.mark.full) for width, scheme in
                                       ((360, "light"), (768, "light"), (768, "dark"), (1440, "dark")))],
)  # fmt: skip
def test_pages_fit_and_can_be_read(chromium: Browser, console: Console, width: int, scheme: Any) -> None:
    with opened(chromium, console, viewport={"width": width, "height": 800}, color_scheme=scheme) as found:
        log_in(found, OWNER)
        for path in PAGES["owner"]:
            found.go(path)
            assert found.page.evaluate(TOO_WIDE) == [], (path, width)
            assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
            assert found.page.evaluate(CONTRAST) == [], (path, scheme)


AXE = TESTS / "clients" / "node" / "node_modules" / "axe-core" / "axe.min.js"
AXE_RUN = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .map(found => found.id + ": " + found.nodes.map(node => node.html).join(" | "))"""


@pytest.mark.parametrize("name", [OWNER, pytest.param(ANALYST, marks=pytest.mark.full)])
def test_axe_finds_nothing(chromium: Browser, console: Console, name: str) -> None:
    """All rules of axe-core on every page. It is put in by the test: the pages themselves admit no script of others."""
    if not AXE.is_file():
        pytest.skip("needs the npm package axe-core: run npm ci in tests/clients/node")
    with opened(chromium, console, bypass_csp=True) as found:
        found.page.route("**/favicon.ico", lambda route: route.fulfill(status=204))  # the policy of pages forbids it
        log_in(found, name)
        for path in ("/login", *PAGES[ROLES[name]]):
            found.go(path)
            found.page.evaluate(AXE.read_text(encoding="utf-8"))
            assert found.page.evaluate(AXE_RUN) == [], path


def test_print_shows_the_evidence_and_no_buttons(chromium: Browser, console: Console) -> None:
    with opened(chromium, console) as found:
        log_in(found, OWNER)
        found.go("/releases/patients")
        found.page.emulate_media(media="print")
        assert not found.page.get_by_role("button", name="Log out").is_visible()
        assert not found.page.locator(".acts").is_visible()
        assert found.page.locator("#verdict").is_visible()


def test_a_question_is_asked_by_keyboard_alone(chromium: Browser, console: Console) -> None:
    """From the login to the answer: the price appears while the statement is typed."""
    with opened(chromium, console) as found:
        found.go("/login")
        keys = found.page.keyboard
        keys.type(ANALYST)  # the first field has the focus
        keys.press("Tab")
        keys.type(PASSWORDS[ANALYST])
        keys.press("Enter")
        found.page.wait_for_url(found.base + "/")
        keys.press("Tab")
        assert found.page.evaluate("document.activeElement.className") == "skip"
        for _ in range(3):
            keys.press("Tab")
        assert found.page.evaluate("document.activeElement.textContent") == "Ask"
        keys.press("Enter")
        found.page.wait_for_url(found.base + "/ask")
        while found.page.evaluate("document.activeElement.id") != "sql":
            keys.press("Tab")
        keys.type("SELECT town, count(*) AS persons FROM patients GROUP BY town")
        found.page.wait_for_selector(".price .first")
        assert re.fullmatch(r"Cost: epsilon [\d.]+", found.page.locator(".price .first").inner_text())
        assert "persons ±" in found.page.locator(".price").inner_text()
        with Ledger.open(console.folder / "clinic.ledger") as ledger:
            before = len(ledger.history(ANALYST))
        while found.page.evaluate("document.activeElement.value") != "ask":
            keys.press("Tab")
        keys.press("Enter")
        found.page.wait_for_selector("#answer table")
        assert found.page.locator("#answer figure > svg").is_visible()
        with Ledger.open(console.folder / "clinic.ledger") as ledger:
            assert len(ledger.history(ANALYST)) > before


def test_a_grant_is_given_by_mouse_and_needs_the_password(chromium: Browser, console: Console, tmp_path: Path) -> None:
    with opened(chromium, console) as found:
        log_in(found, OWNER)
        found.go("/budgets")
        section = found.page.locator("section", has=found.page.get_by_role("heading", name=NAMED))
        for password, said in (("wrong", "the password is wrong"), (PASSWORDS[OWNER], "Granted:")):
            section.get_by_text("Grant more").click()
            form = section.locator("form[action='/budgets/grant']")
            form.get_by_label("Epsilon").fill("0.25")
            form.get_by_label("Reason").fill("by mouse")
            form.get_by_label("Your password again").fill(password)
            form.get_by_role("button", name="Grant").click()
            found.page.wait_for_selector(".said")
            assert said in found.page.locator(".said").inner_text()
        assert "by mouse" in section.inner_text()


def test_a_page_elsewhere_cannot_send_a_form(chromium: Browser, console: Console, tmp_path: Path) -> None:
    """Another page on this machine is of the same site for a browser: the cookie goes along, and it is refused."""
    page = tmp_path / "evil.html"
    action = f"http://localhost:{console.port}/budgets/grant"
    page.write_text(
        f'<form method="post" action="{action}"><input name="principal" value="{ANALYST}">'
        '<input name="epsilon" value="9"><input name="token" value="x"><input name="reason" value="x"></form>'
        "<script>document.forms[0].submit()</script>"
    )
    with Ledger.open(console.folder / "clinic.ledger") as ledger:
        before = len(ledger.history())
    context = chromium.new_context()
    try:
        found = Opened(context.new_page(), f"http://localhost:{console.port}")
        log_in(found, OWNER)
        found.page.goto(page.as_uri())
        found.page.wait_for_url(action)
        assert "This was not done" in found.page.content() or "not logged in" in found.page.content()
        frame = tmp_path / "frame.html"
        frame.write_text(f'<iframe src="http://localhost:{console.port}/ask"></iframe>')
        found.page.goto(frame.as_uri())
        found.page.wait_for_timeout(500)
        assert not any("Your question" in each.content() for each in found.page.frames[1:])
    finally:
        context.close()
    with Ledger.open(console.folder / "clinic.ledger") as ledger:
        assert len(ledger.history()) == before
