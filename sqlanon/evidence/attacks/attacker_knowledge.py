"""What an attacker is supposed to know, checked once at the door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import family


@dataclass(frozen=True)
class AttackParams:
    certainty: float | None = None  # None leaves each attack its own
    knowledge: int = 1
    gain: float = 0.2
    ratio: float = 0.0
    level: int = 1
    epsilon: float | None = None
    rounds: int = 5

    def params(self) -> dict[str, Any]:
        """The parameters of attacks that are set."""
        return {item.name: value for item in fields(self) if (value := getattr(self, item.name)) is not None}


def read_params(given: Mapping[str, Any]) -> AttackParams:
    known = [item.name for item in fields(AttackParams)]
    for name, value in given.items():
        if name not in known:
            raise PolicyError(f"attacks have no parameter '{name}'", hint=did_you_mean(name, known))
        for item in family("attacks").values():
            param = item.param(name)
            if value is not None and param is not None and (problem := param.problem(value)):
                raise PolicyError(problem, hint=param.meaning)
    return AttackParams(**{name: value for name, value in given.items() if value is not None})
