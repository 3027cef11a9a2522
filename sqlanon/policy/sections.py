"""The sections of a file beside its policy, or alone: a gateway, how it is served, and its marginals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import ConfigDict, Field

from sqlanon.policy import gateway, gateway_checks, marginals, serve
from sqlanon.policy.checks import Draft
from sqlanon.policy.gateway import Gateway
from sqlanon.policy.marginals import Marginals
from sqlanon.policy.parts import SHARED, Text
from sqlanon.policy.policy import Policy
from sqlanon.policy.serve import GatewayFile, Serve
from sqlanon.policy.statistics import Statistic
from sqlanon.policy.table_protection import Protect
from sqlanon.policy.validate_file import validate_file
from sqlanon.policy.yaml_lines import KeyPath, Origin, PolicyProblem


class PolicyFile(Policy):
    """What the owner of the data asks for."""

    model_config = SHARED | ConfigDict(title="Policy")
    # Left out of dumps: a release does not depend on it, and its database may hold a password.
    gateway: Gateway | None = Field(
        None, exclude=True, description="What the query gateway protects, how far, and who may ask."
    )
    serve: Serve | None = Field(None, exclude=True, description="Where the proxy listens, and what it may use.")
    marginals: Marginals | None = Field(
        None, exclude=True, description="Counts with differential privacy; in a file without a release."
    )
    statistics: dict[Text, Statistic] | None = Field(
        None, exclude=True, description="Tables of statistics, in place of columns and models."
    )
    protect: Protect | None = Field(None, exclude=True, description="How tables of statistics are protected.")


_File = TypeVar("_File", PolicyFile, GatewayFile)


def build(data: Any, origin: Origin, found: Iterable[PolicyProblem], model: type[_File]) -> _File:
    """A file with any of the sections as a model, whose parts know the file and each other."""
    keys_from = (lambda: PolicyFile) if issubclass(model, Policy) else None
    file = validate_file(data, origin, found, model, _problems, keys_from)
    file._origin = origin
    if file.gateway is not None:
        file.gateway._origin = origin
    if file.serve is not None:
        file.serve._origin, file.serve._gateway = origin, file.gateway
    if file.marginals is not None:
        file.marginals._origin, file.marginals._gateway = origin, file.gateway
        file.marginals._schedule = file.schedule
    return file


def _problems(draft: Draft) -> Iterator[PolicyProblem]:
    """What the sections say about each other."""
    for part in (gateway_checks, serve, marginals):
        yield from part.problems(draft)


def is_text(path: KeyPath) -> bool:
    """Where, in one of the sections, a number or boolean is meant as text."""
    of_section = {"gateway": gateway.is_text, "serve": serve.is_text, "marginals": marginals.is_text}
    return of_section[str(path[0])](path[1:])
