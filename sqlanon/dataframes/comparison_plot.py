"""Compared policies as a list that can be drawn, tabulated and shown in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlanon.dataframes.arrow_tables import load_pyarrow, pandas_of
from sqlanon.errors import PolicyError, number
from sqlanon.policy import Policy
from sqlanon.release.compare_policies import Compared, describe_comparison
from sqlanon.report.comparison import render_comparison
from sqlanon.report.markup import Html, element, together
from sqlanon.report.plots.scatter import Point, scatter

# The plot by itself: in a page of somebody else, its rules must reach nothing but the plot.
STYLE = """
.sqlanon-plot text { font: 12px system-ui, sans-serif; fill: currentColor; }
.sqlanon-plot .faint { opacity: 0.75; }
.sqlanon-plot .grid { stroke: currentColor; opacity: 0.15; }
.sqlanon-plot .axis { stroke: currentColor; opacity: 0.6; }
.sqlanon-plot .series { fill: none; stroke: #14589a; stroke-width: 1.5; }
.sqlanon-plot .mark.s1 { fill: #14589a; }
.sqlanon-plot .mark.s3 { fill: #b45309; }
.sqlanon-plot .ring { fill: none; stroke: #14589a; }
"""
COLUMNS = ("policy", "holds", "risk", "loss", "score", "best", "released", "algorithm", "refused")


@dataclass(frozen=True)
class ComparisonPlot:
    """The map of risk and loss, as SVG; a notebook shows it."""

    svg: str

    def save(self, path: str | Path) -> Path:
        """Write the plot as an SVG file."""
        file = Path(path)
        named = self.svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        file.write_text(named, encoding="utf-8")
        return file

    def _repr_html_(self) -> str:
        return self.svg


class ComparedPolicies(list[Compared]):
    """What was measured of each policy, in the order in which they were given."""

    policies: Sequence[Policy] = ()

    @classmethod
    def of(cls, found: Sequence[Compared], policies: Sequence[Policy]) -> ComparedPolicies:
        made = cls(found)
        made.policies = tuple(policies)
        return made

    def plot(self) -> ComparisonPlot:
        """Draw risk against loss: the best lie at the lower left, and a line joins those that none beats."""
        points = [
            Point(place, item.policy, item.risk, item.loss, item.best)
            for place, item in enumerate(self, start=1)
            if item.risk is not None and item.loss is not None
        ]
        if not points:
            raise PolicyError("no policy has a release: there is nothing to draw", hint="look at .refused of each")
        drawn = str(scatter(points)).replace('class="plot"', 'class="plot sqlanon-plot"', 1)
        head, sign, rest = drawn.partition(">")
        return ComparisonPlot(f"{head}{sign}{element('style', Html(STYLE))}{rest}")

    def report(self, path: str | Path) -> Path:
        """Write all that was measured as an HTML page."""
        file = Path(path)
        file.write_text(render_comparison(describe_comparison(self, self.policies)), encoding="utf-8")
        return file

    def to_arrow(self) -> Any:
        """One row a policy."""
        rows = [{name: getattr(item, name) for name in COLUMNS} for item in self]
        return load_pyarrow().Table.from_pylist(rows)

    def to_pandas(self) -> Any:
        """One row a policy."""
        return pandas_of(self.to_arrow(), {})

    def _repr_html_(self) -> str:
        head = element("tr", *(element("th", name) for name in ("", *COLUMNS)))
        rows = [
            element("tr", element("td", place), *(element("td", _cell(getattr(item, name))) for name in COLUMNS))
            for place, item in enumerate(self, start=1)
        ]
        return together(element("table", element("thead", head), element("tbody", *rows)))


def _cell(value: object) -> str:
    if value is None:
        return ""
    return number(value) if isinstance(value, float) else str(value)
