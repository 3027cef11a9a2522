"""The console as part of `sqlanon serve`, over TLS: pages and programs share a port, and each keeps its own rules."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from console_world import ANALYST, OWNER, PASSWORDS, write_clinic, write_policies
from proxy_login import certificate
from proxy_servers import ROOT, free_port, run_sqlanon

from sqlanon.cli import main

pytestmark = pytest.mark.full  # starts a server of its own; what pages show and refuse is tested without TLS


@dataclass
class Served:
    port: int
    policy: Path
    trusted: ssl.SSLContext
    token: str

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, list[str], str]:
        with closing(http.client.HTTPSConnection("localhost", self.port, context=self.trusted, timeout=60)) as found:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            found.request(method, path, body, sent)
            response = found.getresponse()
            return response.status, response.headers.get_all("Set-Cookie") or [], response.read().decode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    write_clinic(folder)
    policy, _ = write_policies(folder)
    made, _ = certificate(folder)
    port = free_port()
    more = (
        f"  port: 0\n  tls: {{certificate: server.crt, key: server.key}}\n  http: {{port: {port}}}\n  console: true\n"
    )
    policy.write_text(policy.read_text(encoding="utf-8").rstrip("\n") + "\n" + more, encoding="utf-8")
    run_sqlanon("budget", "init", str(policy))
    for name in (OWNER, ANALYST):
        run_sqlanon("user", "add", str(policy), name, "--stdin", given=PASSWORDS[name] + "\n")
    token = run_sqlanon("user", "token", str(policy), ANALYST).splitlines()[0]
    log = folder / "log"
    with log.open("ab") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlanon", "serve", str(policy)], stdin=subprocess.DEVNULL, stdout=written,
            stderr=written, env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while "the web console: https://localhost" not in log.read_text(encoding="utf-8"):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text(encoding="utf-8")
            time.sleep(0.1)
        yield Served(port, policy, ssl.create_default_context(cafile=str(made)), token)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_over_tls_the_cookie_is_kept_to_this_host(served: Served) -> None:
    status, cookies, text = served.ask("GET", "/login")
    assert status == 200
    assert "Without TLS" not in text
    token = re.search(r'name="token" value="([^"]+)"', text)
    assert token is not None
    number = cookies[0].partition(";")[0]
    assert number.startswith("__Host-sqlanon_login=")
    body = urlencode({"token": token[1], "name": OWNER, "password": PASSWORDS[OWNER]})
    kind, origin = "application/x-www-form-urlencoded", f"https://localhost:{served.port}"
    plain = served.ask("POST", "/login", body, Cookie=number, Content_Type=kind, Origin=origin.replace("https", "http"))
    assert plain[0] == 403
    status, cookies, _ = served.ask("POST", "/login", body, Cookie=number, Content_Type=kind, Origin=origin)
    assert status == 303
    session = next(line for line in cookies if line.startswith("__Host-sqlanon="))
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= {part.strip() for part in session.split(";")}
    assert "Domain" not in session
    assert served.ask("GET", "/", Cookie=session.partition(";")[0])[0] == 200


def test_programs_have_their_paths_as_before(served: Served) -> None:
    bearer = {"Authorization": f"Bearer {served.token}"}
    status, _, text = served.ask("GET", "/v1/budget", **bearer)
    assert (status, json.loads(text)["principal"]) == (200, ANALYST)
    body = json.dumps({"sql": "SELECT count(*) AS n FROM wards"})
    status, _, text = served.ask("POST", "/v1/query", body, Content_Type="application/json", **bearer)
    assert (status, json.loads(text)["rows"]) == (200, [[30]])
    assert served.ask("GET", "/", **bearer)[0] == 303  # a token is none for pages
    assert served.ask("GET", "/v1/budget")[0] == 401
    assert json.loads(served.ask("GET", "/healthz")[2]) == {"status": "ok"}


def test_a_second_console_of_the_policy_says_what_to_do(served: Served) -> None:
    done = CliRunner().invoke(main, ["console", str(served.policy), "--port", "0"])
    assert done.exit_code == 2
    assert "console: true" in done.output
