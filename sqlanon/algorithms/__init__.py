"""Algorithms: how the best anonymization is found. Each is one module, found by its file name.

Its docstring is the manual page, `Params` is what a policy may say, `run(problem, params)` finds a solution.
A name with an underscore in front is no algorithm.
"""

from __future__ import annotations

from types import ModuleType

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import load_module, module_names


def names() -> tuple[str, ...]:
    return module_names("algorithms")


def algorithm(name: str) -> ModuleType:
    """The module of an algorithm.

    >>> algorithm("exhaustive").__doc__.splitlines()[0]
    'Every node of the lattice is measured: the plain truth, for small lattices and for tests.'
    """
    if name not in names():
        raise PolicyError(
            f"unknown algorithm '{name}'", hint=did_you_mean(name, names()) or f"there are {', '.join(names())}"
        )
    return load_module("algorithms", name)
