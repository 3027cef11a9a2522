"""A tree that is written out: Dancer -> Artist -> Any job.

    hierarchies:
      job:
        tree:
          tree:
            Any job:
              Professional: [Engineer, Lawyer]
              Artist: [Dancer, Writer]
              Retired:

A mapping holds groups, a list holds values; a name with nothing below it is a value too. The single name at
the top is the root. A value that lies less deep than others stays itself until its group's level is
reached: Retired -> Retired -> Any job.

It is a lookup: NULL and a value that is not in the tree are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sqlanon.hierarchies import Hierarchy
from sqlanon.hierarchies._values import as_text, not_nested

Rows = tuple[tuple[str, ...], ...]


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tree: dict[Any, Any] = Field(description="The root; below it mappings of groups and lists of values.")

    @field_validator("tree")
    @classmethod
    def _is_a_tree(cls, tree: dict[Any, Any]) -> dict[Any, Any]:
        if len(tree) != 1:
            raise ValueError(f"there are {len(tree)} names at the top; put all below one, such as 'Any'")
        paths = list(_paths(tree, ()))
        if any(len(path) == 1 for path in paths):
            raise ValueError(f"there is no value below '{paths[0][0]}'; list the values there")
        if doubles := [leaf for leaf, times in Counter(path[0] for path in paths).items() if times > 1]:
            raise ValueError(f"the value '{doubles[0]}' is there twice; keep one")
        if twice := not_nested(_rows(tree)):
            raise ValueError(f"the name '{twice}' stands for two groups; give each group its own name")
        return tree


def _paths(node: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Each value with the groups above it, the root last."""
    if isinstance(node, dict):
        for name, below in node.items():
            path = (as_text(name), *above)
            if below is None or below == [] or below == {}:
                yield path
            else:
                yield from _paths(below, path)
    elif isinstance(node, list):
        for item in node:
            yield from _paths(item, above)
    else:
        yield (as_text(node), *above)


def _rows(tree: dict[Any, Any]) -> Rows:
    """All paths, made as long as the longest.

    >>> _rows({"all": {"a": ["x", "y"], "b": None}})
    (('x', 'a', 'all'), ('y', 'a', 'all'), ('b', 'b', 'all'))
    """
    paths = list(_paths(tree, ()))
    depth = max(len(path) for path in paths)
    return tuple((path[0],) * (depth - len(path)) + path for path in paths)


def build(params: Params, base: Path) -> Hierarchy:
    rows = _rows(params.tree)
    return Hierarchy(height=len(rows[0]) - 1, root=rows[0][-1], rows=rows)
