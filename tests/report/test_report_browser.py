"""The report as a browser shows it: nothing runs, nothing overlaps, nothing is wider than the screen."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_page import parse
from report_sample import sample

from sqlanon.report import render

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--disable-dev-shm-usage",
]  # fmt: skip
Browser = Callable[..., str]

# Runs in a copy of the report whose content-security policy was taken away.
MEASURE = """<script>
addEventListener("load", () => {
  const box = node => node.getBoundingClientRect();
  const problems = [];
  for (const plot of document.querySelectorAll("svg.plot")) {
    const name = plot.getAttribute("aria-label").slice(0, 40);
    const texts = [...plot.querySelectorAll("text")];
    for (const [place, text] of texts.entries()) {
      const one = box(text), inside = text.getBBox(), room = text.ownerSVGElement.width.baseVal;
      const across = text.ownerSVGElement === plot ? plot.viewBox.baseVal.width : room.value;
      if (inside.x < -1.5 || inside.x + inside.width > across + 1.5)
        problems.push(name + ": cut: " + text.textContent);
      if (parseFloat(getComputedStyle(text).fontSize) * box(plot).width / plot.viewBox.baseVal.width < 9)
        problems.push(name + ": too small: " + text.textContent);
      for (const later of texts.slice(place + 1)) {
        const other = box(later);
        const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (wide > 1 && high > 4) problems.push(name + ": overlap: " + text.textContent + " / " + later.textContent);
      }
    }
  }
  for (const node of document.querySelectorAll("main *"))
    if (!node.closest(".scroll, pre, svg, .unseen") && box(node).right > innerWidth + 1)
      problems.push("too wide: " + node.tagName + " " + node.className);
  for (const node of document.querySelectorAll(".scroll"))
    if (node.scrollWidth > node.clientWidth + 1) problems.push("scrolls: " + node.innerText.slice(0, 40));
  const told = {width: innerWidth, page: document.documentElement.scrollWidth, problems};
  parent.postMessage(told, "*");
});
</script>"""
FRAMES = """<!DOCTYPE html><meta charset="utf-8"><script>
addEventListener("message", event => {
  const told = document.createElement("pre");
  told.textContent = JSON.stringify(event.data);
  document.body.append(told);
});
</script><body><iframe src="measured.html" width="1280" height="900"></iframe>
<iframe src="measured.html" width="390" height="800"></iframe></body>"""


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"needs a browser ({', '.join(names)}), and there is none: apt-get install chromium")

    def run(page: Path, *options: str) -> str:
        command = [found, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *options, page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    return run


def _written(folder: Path, document: dict[str, Any]) -> Path:
    page = folder / "report.html"
    page.write_text(render(document), encoding="utf-8")
    return page


def test_a_browser_runs_nothing_that_a_label_says(browser: Browser, tmp_path: Path) -> None:
    hostile = (
        "</title></style></svg><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    )
    document = sample()
    document["release"]["name"] = document["source"] = hostile
    document["notes"] = document["not_protected"] = [hostile]
    document["distributions"] = {hostile: {"before": [[hostile, 3]], "after": [[hostile * 9, 3]]}}
    shown = browser(_written(tmp_path, document), "--dump-dom")
    page = parse(shown)
    assert page.every("title")[0].text.startswith("Release report: </title>")
    assert not page.every("script", "img")
    assert hostile in page.with_id("not-protected").text


def _long_labels(document: dict[str, Any]) -> None:
    document["distributions"]["diagnosis"]["before"] = [
        ["WWWWWWWWWWWWWWWWWWWWWWWWWWWW", 123_456_789], ["MANAGEMENT OF PROGRAMMES", 3],
        ["مستشفى الملك فيصل التخصصي ومركز الأبحاث", 7],
        ["内科内科内科内科内科内科内科内科", 5], ["", 1],
    ]  # fmt: skip
    document["class_sizes"]["after"].append({"from": 2**20, "to": 2**21 - 1, "classes": 1, "records": 1_500_000})
    document["class_sizes"]["after"].append({"from": 1024, "to": 2047, "classes": 1, "records": 99_999})
    for point in document["map"]:
        point["loss"] = 0.3  # all lines end at one place


@pytest.mark.parametrize("change", [lambda document: None, _long_labels], ids=["sample", "long labels"])
@pytest.mark.full
def test_nothing_overlaps_or_is_cut(browser: Browser, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = sample()
    change(document)
    text = render(document)
    policy = text[text.index('<meta http-equiv="Content-Security-Policy"') :].split(">")[0] + ">"
    measured = text.replace(policy, "").replace("</body>", MEASURE + "</body>")
    (tmp_path / "measured.html").write_text(measured, encoding="utf-8")
    frames = tmp_path / "frames.html"
    frames.write_text(FRAMES, encoding="utf-8")
    shown = browser(frames, "--dump-dom", "--virtual-time-budget=5000")
    told = [json.loads(part.split("</pre>")[0].replace("&amp;", "&")) for part in shown.split("<pre>")[1:]]
    assert sorted(frame["width"] for frame in told) == [390, 1280]
    for frame in told:
        assert frame["page"] <= frame["width"]
        assert frame["problems"] == []


def test_a_browser_draws_it(browser: Browser, tmp_path: Path) -> None:
    picture = tmp_path / "report.png"
    browser(_written(tmp_path, sample()), f"--screenshot={picture}", "--window-size=1280,2000")
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG") and struct.unpack(">II", data[16:24]) == (1280, 2000)
    assert len(data) > 50_000  # an empty page is a tenth of that
