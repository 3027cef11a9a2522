"""Mechanisms: random answers, each born together with what it costs.

The unit of privacy is a person: neighbours are two databases where one of them lacks one person with all rows. The
caller bounds what a person contributes and says so as a sensitivity. A mechanism turns exact integers into noisy ones,
and its cost is what OpenDP's privacy map says of the very measurement that draws the noise. All sampling is OpenDP's.

OpenDP is imported when the first mechanism is built, not before.
"""

from __future__ import annotations

from sqlanon.mechanisms._cost import Cost, Mechanism
from sqlanon.mechanisms.choice import Choice, choose_best
from sqlanon.mechanisms.gaussian import gaussian
from sqlanon.mechanisms.keys import KeySelection, select_keys
from sqlanon.mechanisms.laplace import laplace
from sqlanon.mechanisms.quantile import quantile_scores, quantile_sensitivity

__all__ = [
    "Choice",
    "Cost",
    "KeySelection",
    "Mechanism",
    "choose_best",
    "gaussian",
    "laplace",
    "quantile_scores",
    "quantile_sensitivity",
    "select_keys",
]
