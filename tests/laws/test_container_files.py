"""The container of the guide about operations: read, not built."""

from __future__ import annotations

import json
import tomllib

import yaml
from conftest import ROOT

FOLDER = ROOT / "examples" / "operations"
KNOWN = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def test_the_dockerfile_runs_as_a_user_and_installs_extras_that_exist() -> None:
    lines = [
        line for line in (FOLDER / "Dockerfile").read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")
    ]
    words = [line.split(" ", 1) for line in lines]
    assert {word for word, _ in words} <= KNOWN and words[0][0] == "FROM"
    assert ":latest" not in words[0][1] and ":" in words[0][1]
    order = [word for word, _ in words]
    assert order.index("USER") < order.index("ENTRYPOINT")
    for word, rest in words:
        if word in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)
    (extras,) = [rest.partition("[")[2].partition("]")[0].split(",") for word, rest in words if "/src[" in rest]
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras) <= set(known)


def test_the_compose_file_gives_no_rights() -> None:
    (service,) = yaml.safe_load((FOLDER / "compose.yml").read_text(encoding="utf-8"))["services"].values()
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == FOLDER / "Dockerfile"
    assert service["environment"]["SQLANON_KEY"].startswith("${SQLANON_KEY:?")  # never in the file
