"""A running console with an owner, an auditor and an analyst, over a small clinic whose names are hostile markup."""

from __future__ import annotations

import html
import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import duckdb
from proxy_servers import ROOT, run_sqlanon

SCRIPT = "<script>document.title='owned'</script>"
IMAGE = "\"'><img src=x onerror=document.title='owned'>"
HOSTILE = f"{IMAGE}{SCRIPT}"
OWNER, AUDITOR, ANALYST = "olga", "aude", "anna"
NAMED = f"{SCRIPT}eve"  # a principal whose name is markup
PASSWORDS = {name: f"correct horse {name}" for name in (OWNER, AUDITOR, ANALYST)}
ROWS = 400
# Each browser has an address of its own: so many requests and wrong passwords a minute are allowed for one.
ADDRESSES = (f"127.0.{here}.{place}" for here in range(1, 255) for place in range(1, 255))
SECRET_MARK = "Zzyzx"  # in every row of persons, and to be on no page

GATEWAY = """
gateway:
  database: clinic.duckdb
  unit: {table: patients, key: id}
  tables:
    patients:
      columns:
        name: hidden
        age: {low: 0, high: 100}
        town: {keys: [north, south, HOSTILE]}
        HOSTILE: {low: 0, high: 10}
    wards: {public: true}
  rows: 1
  answer_time: 0
  budget:
    statement: {epsilon: 1, delta: 1e-7, default: 0.2}
    principal: {epsilon: 5, delta: 1e-5, period: month}
    total: {epsilon: 40, delta: 1e-3}
  principals:
    olga: {owner: true}
    aude: {auditor: true}
    anna: {tables: [patients, wards]}
    NAMED: {}
serve:
  workers: 1
  limits: {wrong_passwords: 5}
  policies: kept
"""
POLICY = """
source: {database: clinic.duckdb, table: patients}
columns:
  id: identifier
  name: identifier
  age: quasi_identifier
  town: quasi_identifier
  disease: sensitive
  HOSTILE: insensitive
hierarchies:
  age: {age: {}}
models:
  - k_anonymity: {k: 5}
  - distinct_l_diversity: {l: 2}
suppression_limit: 0.1
algorithm: full_domain
release: {view: patients_released, keep: 3}
"""


def quoted(text: str) -> str:
    """As a scalar of YAML."""
    return "'" + text.replace("'", "''") + "'"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def where(self) -> str:
        return self.headers.get("Location", "")

    def token(self, action: str) -> str:
        """The token of the form that is sent to an address."""
        found = re.search(
            rf'<form[^>]*action="{re.escape(action)}"[^>]*>.*?name="token" value="([^"]+)"', self.text, re.DOTALL
        )
        assert found is not None, f"there is no form for {action}"
        return html.unescape(found[1])


@dataclass
class Browser:
    """A client that keeps cookies, and says where a form comes from."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict)
    host: str = ""
    address: str = field(default_factory=lambda: next(ADDRESSES))

    @property
    def origin(self) -> str:
        return f"http://{self.host or f'localhost:{self.port}'}"

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        whence = (self.address, 0)
        with closing(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=60, source_address=whence)
        ) as connection:
            sent = {"Host": self.host or f"localhost:{self.port}"}
            if self.cookies:
                sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            if body is not None:
                sent["Content-Type"] = "application/x-www-form-urlencoded"
            sent |= {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            found = Answer(response.status, response.headers, response.read().decode("utf-8"))
        for line in found.headers.get_all("Set-Cookie") or ():
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value
        return found

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, fields: dict[str, Any], **headers: str) -> Answer:
        return self.ask("POST", path, urlencode(fields), **{"Origin": self.origin, **headers})

    def send(self, page: str, action: str, **fields: Any) -> Answer:
        """Open a page, and send one of its forms."""
        return self.post(action, {"token": self.get(page).token(action), **fields})

    def log_in(self, name: str, password: str | None = None) -> Answer:
        given = PASSWORDS[name] if password is None else password
        return self.send("/login", "/login", name=name, password=given)


@dataclass
class Console:
    port: int
    folder: Path
    pid: int
    log: Path
    known: dict[str, Browser] = field(default_factory=dict)

    def browser(self, name: str | None = None) -> Browser:
        """One that is logged in, the same for a name while its session lasts (a principal has so many, and other tests
        log in too); or a new one of nobody."""
        if name is None:
            return Browser(self.port)
        if name not in self.known or self.known[name].get("/").status != 200:
            self.known[name] = Browser(self.port)
            assert self.known[name].log_in(name).status == 303
        return self.known[name]


def write_clinic(folder: Path) -> None:
    with duckdb.connect(str(folder / "clinic.duckdb")) as made:
        column = '"' + HOSTILE.replace('"', '""') + '"'
        made.execute(
            "CREATE TABLE patients (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, town TEXT, disease TEXT, "
            f"{column} INTEGER)"
        )
        made.execute(
            "INSERT INTO patients SELECT i, ? || i, CAST(20 + i % 60 AS INTEGER), "
            "CASE i % 3 WHEN 0 THEN 'north' WHEN 1 THEN 'south' ELSE ? END, 'd' || (i % 4), CAST(i % 7 AS INTEGER) "
            "FROM range(?) AS t(i)",
            [SECRET_MARK, HOSTILE, ROWS],
        )  # fmt: skip
        made.execute(  # of nobody's policy yet
            "CREATE TABLE cases AS SELECT i AS case_id, CAST(18 + i % 50 AS INTEGER) AS age, "
            "CASE i % 3 WHEN 0 THEN 'f' ELSE 'm' END AS sex, 'd' || (i % 5) AS diagnosis FROM range(900) AS t(i)"
        )
        made.execute("CREATE TABLE wards AS SELECT i AS ward, 'ward ' || i AS title FROM range(30) AS t(i)")


def write_policies(folder: Path) -> tuple[Path, Path]:
    gateway, policy = folder / "clinic.yml", folder / "patients.yml"
    text = GATEWAY.replace("HOSTILE", quoted(HOSTILE)).replace("NAMED", quoted(NAMED))
    gateway.write_text(text, encoding="utf-8")
    policy.write_text(POLICY.replace("HOSTILE", quoted(HOSTILE)), encoding="utf-8")
    return gateway, policy


@contextmanager
def running_console(folder: Path, *options: str) -> Iterator[Console]:
    """`sqlanon console` in a process of its own, over a release with two versions."""
    write_clinic(folder)
    gateway, policy = write_policies(folder)
    run_sqlanon("budget", "init", str(gateway))
    for name, password in PASSWORDS.items():
        run_sqlanon("user", "add", str(gateway), name, "--stdin", given=password + "\n")
    run_sqlanon("user", "add", str(gateway), NAMED, "--stdin", given="correct horse eve\n")
    run_sqlanon("user", "token", str(gateway), ANALYST)
    run_sqlanon("refresh", str(policy))
    with duckdb.connect(str(folder / "clinic.duckdb")) as made:
        made.execute("UPDATE patients SET age = age + 1 WHERE id < 40")
    run_sqlanon("refresh", str(policy))
    log = folder / "log"
    command = [sys.executable, "-m", "sqlanon", "console", str(gateway), str(policy), "--port", "0", *options]
    with log.open("ab") as written:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        )  # fmt: skip
    try:
        yield Console(_port(process, log), folder, process.pid, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"https?://[^/:]+:(\d+)/", log.read_text(encoding="utf-8")):
            return int(found[1])
        time.sleep(0.1)
    raise RuntimeError(f"the console does not listen:\n{log.read_text(encoding='utf-8')}")
