"""Files that hold a gateway, how it is served, or its marginals: alone, or beside a policy to publish."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlanon.policy import gateway, statistics, yaml_lines
from sqlanon.policy.gateway import Gateway
from sqlanon.policy.marginals import Marginals
from sqlanon.policy.policy import Policy
from sqlanon.policy.read_policy import is_date, is_text
from sqlanon.policy.sections import PolicyFile, build
from sqlanon.policy.serve import GatewayFile, Serve
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.policy.yaml_lines import Origin, YamlDocument


def load_gateway(path: str | Path) -> Gateway:
    """Read and check the gateway of a policy file, and all else that the file holds."""
    file = Path(path)
    return parse_gateway(yaml_lines.text_of(file), file.name, file.parent)


def parse_gateway(text: str, name: str = "policy.yml", base: Path = Path(".")) -> Gateway:
    """Check the text of a file that holds a gateway, alone or with a policy to publish."""
    return parse_serve(text, name, base).gateway


def load_serve(path: str | Path) -> Serve:
    """Read and check what the proxy serves, and all else that the file holds; a file may leave the section out."""
    file = Path(path)
    return parse_serve(yaml_lines.text_of(file), file.name, file.parent)


def parse_serve(text: str, name: str = "policy.yml", base: Path = Path(".")) -> Serve:
    """The section `serve` of a file with a gateway, or its defaults; `.gateway` is what it serves."""
    found = _with_gateway(_read(text), name, base)
    served = found.serve
    if served is None:
        served = Serve()
        served._origin, served._gateway = found._origin, found.gateway
    return served


def load_marginals(path: str | Path) -> Marginals | None:
    """Read and check the marginals of a policy file, and all else that the file holds; None if there are none."""
    file = Path(path)
    document = _read(yaml_lines.text_of(file))
    if not isinstance(document.data, Mapping) or "marginals" not in document.data:
        return None
    return _with_gateway(document, file.name, file.parent).marginals


def load_statistics(path: str | Path) -> StatisticsPolicy | None:
    """Read and check a policy for tables of statistics; None if the file is of another kind."""
    file = Path(path)
    return parse_statistics(yaml_lines.text_of(file), file.name, file.parent)


def parse_statistics(text: str, name: str = "policy.yml", base: Path = Path(".")) -> StatisticsPolicy | None:
    """Check the text of a policy for tables of statistics; None if it is of another kind."""
    document = _read(text)
    if not isinstance(document.data, Mapping) or "statistics" not in document.data:
        return None

    return statistics.build(document.data, Origin(name, base, document.lines), document.problems)


def has_section(path: str | Path, name: str) -> bool:
    """Whether a file has a key at its top, such as `gateway` or `source`."""
    document = _read(yaml_lines.text_of(Path(path)))
    return isinstance(document.data, Mapping) and name in document.data


def has_schedule(path: str | Path) -> bool:
    """Whether a file holds something to refresh; it may hold a gateway alone."""
    document = _read(yaml_lines.text_of(Path(path)))
    return isinstance(document.data, Mapping) and "schedule" in document.data


def _read(text: str) -> YamlDocument:
    return yaml_lines.read_yaml(text, is_text, is_date)


def _with_gateway(document: YamlDocument, name: str, base: Path) -> PolicyFile | GatewayFile:
    """A file that holds a gateway, alone or with a policy to publish."""
    origin = Origin(name, base, document.lines)
    if not isinstance(document.data, Mapping) or "gateway" not in document.data:
        raise yaml_lines.report(document.problems or [gateway.missing_section(document.data)], origin)
    publishes = any(key not in GatewayFile.model_fields and key in Policy.model_fields for key in document.data)
    if publishes:
        return build(document.data, origin, document.problems, PolicyFile)
    return build(document.data, origin, document.problems, GatewayFile)


__all__ = [
    "PolicyFile", "has_schedule", "has_section", "load_gateway", "load_marginals", "load_serve", "load_statistics",
    "parse_gateway", "parse_serve", "parse_statistics",
]  # fmt: skip
