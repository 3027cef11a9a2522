"""Countries become the regions of the United Nations: PE -> South America -> Americas -> *.

    hierarchies:
      nationality:
        country:

A value is an ISO 3166-1 code of two or three capital letters ("PE", "PER"), or an English name: ISO's short
name or one in common use ("Türkiye", "Turkey"). Letter case counts.

The regions are those of the UN standard M49. Level 1 is M49's intermediate region where there is one
(Eastern Africa, Caribbean) and its subregion elsewhere; Guernsey and Jersey are in Northern Europe. Level 2
is the region. M49 has no entry for Taiwan, which is in Eastern Asia here, and no region for Antarctica,
which is one of its own. Names that two countries share are not listed: write "Korea (Republic of)" or
"South Korea", not "Korea".

It is a lookup: NULL and all other text, such as Kosovo (not in ISO 3166), are refused.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sqlanon.hierarchies import Hierarchy

ROOT = "*"


class Params(BaseModel):
    """It takes no parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@cache
def _rows() -> tuple[tuple[str, ...], ...]:
    """Each code and each name is a leaf; country.csv has the names of a country in one field, split by |."""
    lines = (files(__package__) / "country.csv").read_text(encoding="utf-8").splitlines()
    return tuple(
        (leaf, subregion, region, ROOT)
        for alpha2, alpha3, names, subregion, region in csv.reader(lines, delimiter=";")
        for leaf in (alpha2, alpha3, *names.split("|"))
    )


def build(params: Params, base: Path) -> Hierarchy:
    return Hierarchy(height=3, root=ROOT, rows=_rows())
