"""Privacy as SQL: checks, releases and private answers that run inside your database.

>>> import sqlanon
>>> sqlanon.explain("k_anonymity").params[0].name
'k'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from sqlanon.dataframes.anonymize_data import AnonymizedTable as AnonymizedTable
    from sqlanon.dataframes.anonymize_data import anonymize as anonymize
    from sqlanon.dataframes.answer_sql import PrivateAnswer as PrivateAnswer
    from sqlanon.dataframes.answer_sql import TableGateway as TableGateway
    from sqlanon.dataframes.answer_sql import gateway as gateway
    from sqlanon.dataframes.comparison_plot import ComparedPolicies as ComparedPolicies
    from sqlanon.dataframes.measure_data import attack as attack
    from sqlanon.dataframes.measure_data import check as check
    from sqlanon.dataframes.measure_data import compare as compare
    from sqlanon.dataframes.measure_data import publish as publish
    from sqlanon.dataframes.measure_data import risk as risk
    from sqlanon.engines import connect as connect
    from sqlanon.errors import SqlanonError as SqlanonError
    from sqlanon.evidence.attacks import Attacks as Attacks
    from sqlanon.evidence.checks import Evidence as Evidence
    from sqlanon.evidence.loss import Loss as Loss
    from sqlanon.evidence.loss import loss as loss
    from sqlanon.evidence.risk import Risk as Risk
    from sqlanon.evidence.utility import Utility as Utility
    from sqlanon.evidence.utility import utility as utility
    from sqlanon.families import explain as explain
    from sqlanon.gateway import Answer as Answer
    from sqlanon.gateway import open_gateway as open_gateway
    from sqlanon.policy import Policy as Policy
    from sqlanon.policy import Source as Source
    from sqlanon.policy import from_options as from_options
    from sqlanon.policy import load as load
    from sqlanon.policy import parse as parse
    from sqlanon.release import Published as Published
    from sqlanon.release.compare_policies import Compared as Compared

_HOMES = {
    "load_ipython_extension": "notebook_magics",  # for %load_ext sqlanon
    "AnonymizedTable": "dataframes.anonymize_data",
    "anonymize": "dataframes.anonymize_data",
    "PrivateAnswer": "dataframes.answer_sql",
    "TableGateway": "dataframes.answer_sql",
    "gateway": "dataframes.answer_sql",
    "ComparedPolicies": "dataframes.comparison_plot",
    "attack": "dataframes.measure_data",
    "check": "dataframes.measure_data",
    "compare": "dataframes.measure_data",
    "publish": "dataframes.measure_data",
    "risk": "dataframes.measure_data",
    "connect": "engines",
    "SqlanonError": "errors",
    "Attacks": "evidence.attacks",
    "Evidence": "evidence.checks",
    "Loss": "evidence.loss",
    "loss": "evidence.loss",
    "Risk": "evidence.risk",
    "Utility": "evidence.utility",
    "utility": "evidence.utility",
    "explain": "families",
    "Answer": "gateway",
    "open_gateway": "gateway",
    "Policy": "policy",
    "Source": "policy",
    "from_options": "policy",
    "load": "policy",
    "parse": "policy",
    "Published": "release",
    "Compared": "release.compare_policies",
}
__all__ = [
    "AnonymizedTable",
    "Answer",
    "Attacks",
    "Compared",
    "ComparedPolicies",
    "Evidence",
    "Loss",
    "Policy",
    "PrivateAnswer",
    "Published",
    "Risk",
    "Source",
    "SqlanonError",
    "TableGateway",
    "Utility",
    "__version__",
    "anonymize",
    "attack",
    "check",
    "compare",
    "connect",
    "explain",
    "from_options",
    "gateway",
    "load",
    "loss",
    "open_gateway",
    "parse",
    "publish",
    "risk",
    "utility",
]


def __dir__() -> list[str]:
    """The public names, also those that are not loaded yet, for completion in a notebook.

    >>> import sqlanon
    >>> "publish" in dir(sqlanon)
    True
    """
    return __all__


def __getattr__(name: str) -> Any:
    """Names are looked up when they are used, so that importing sqlanon stays fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sqlanon' has no attribute '{name}'")
    return getattr(import_module(f"sqlanon.{_HOMES[name]}"), name)
