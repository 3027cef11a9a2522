"""Numbers about the server in the text format of Prometheus.

A label takes one of the words that are declared for it, and nothing else: no name, text or value that came from a
client or from data can get in here.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlanon.errors import SqlanonError

DOORS = ("pg", "http", "console")
DECISIONS = ("answered", "refused", "failed", "cancelled")
# Classes of SQLSTATE, by their first two letters; all others are counted as XX.
CLASSES = ("00", "08", "0A", "22", "23", "25", "26", "28", "34", "42", "53", "54", "57", "58", "XX")
SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
Labels = Mapping[str, Sequence[str]]


class MetricError(SqlanonError):
    """A label has a word that is not declared for it."""


@dataclass
class ServerMetric:
    """A counter or gauge: one number for each combination of labels."""

    name: str
    help: str
    kind: str
    labels: Labels = field(default_factory=dict)
    values: dict[tuple[str, ...], float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, amount: float = 1.0, **labels: str) -> None:
        key = self._key(labels)
        if not amount >= 0 and self.kind == "counter":  # not a number is not more than before, either
            raise MetricError(f"the counter {self.name} only grows")
        with self.lock:
            self.values[key] = self.values.get(key, 0.0) + amount

    def set(self, value: float, **labels: str) -> None:
        key = self._key(labels)
        with self.lock:
            self.values[key] = value

    def _key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        if set(labels) != set(self.labels) or any(labels[name] not in words for name, words in self.labels.items()):
            raise MetricError(f"the labels of {self.name} are not those that are declared")
        return tuple(labels[name] for name in self.labels)

    def lines(self) -> list[str]:
        with self.lock:
            found = sorted(self.values.items())
        if not self.labels and not found:
            found = [((), 0.0)]
        return [f"{self.name}{_shown(dict(zip(self.labels, key, strict=True)))} {value:.15g}" for key, value in found]


@dataclass
class Histogram(ServerMetric):
    """How long things took, in buckets."""

    kind: str = "histogram"
    buckets: dict[tuple[str, ...], list[int]] = field(default_factory=dict)

    def observe(self, seconds: float, **labels: str) -> None:
        key = self._key(labels)
        with self.lock:
            counts = self.buckets.setdefault(key, [0] * (len(SECONDS) + 1))
            counts[bisect_left(SECONDS, seconds)] += 1
            self.values[key] = self.values.get(key, 0.0) + seconds

    def lines(self) -> list[str]:
        made = []
        with self.lock:
            found = sorted((key, list(counts), self.values[key]) for key, counts in self.buckets.items())
        for key, counts, total in found:
            labels = dict(zip(self.labels, key, strict=True))
            below = 0
            for edge, count in zip([*map(str, SECONDS), "+Inf"], counts, strict=True):
                below += count
                made.append(f"{self.name}_bucket{_shown(labels | {'le': edge})} {below}")
            made += [f"{self.name}_sum{_shown(labels)} {total:.15g}", f"{self.name}_count{_shown(labels)} {below}"]
        return made


class Metrics:
    """All numbers of one server."""

    def __init__(self) -> None:
        door: Labels = {"door": DOORS}
        self.statements = ServerMetric(
            "sqlanon_statements_total", "Statements by outcome.", "counter",
            {"door": DOORS, "decision": DECISIONS, "class": CLASSES},
        )  # fmt: skip
        self.seconds = Histogram("sqlanon_statement_seconds", "How long statements took.", labels=door)
        self.epsilon = ServerMetric("sqlanon_epsilon_spent_total", "Epsilon that statements have spent.", "counter")
        self.withheld = ServerMetric("sqlanon_groups_withheld_total", "Groups withheld from answers.", "counter")
        self.connections = ServerMetric("sqlanon_connections", "Clients that are connected.", "gauge", door)
        self.logins = ServerMetric(
            "sqlanon_logins_total",
            "Attempts to log in.",
            "counter",
            {"door": DOORS, "decision": ("answered", "refused")},
        )
        self.turned_away = ServerMetric("sqlanon_turned_away_total", "Clients beyond the limits.", "counter", door)
        self.audit_failures = ServerMetric(
            "sqlanon_audit_failures_total",
            "Answers that were withheld because the audit log could not be written.",
            "counter",
        )
        self.reloads = ServerMetric(
            "sqlanon_policy_reloads_total", "Policies that were reloaded.", "counter",
            {"decision": ("answered", "refused")},
        )  # fmt: skip
        self.healthy = ServerMetric("sqlanon_healthy", "1 while statements can be answered.", "gauge")

    def statement(
        self, door: str, decision: str, sqlstate: str, seconds: float, *, epsilon: float = 0.0, withheld: int = 0
    ) -> None:
        """Count a statement; nothing of the statement itself is asked for."""
        self.statements.add(1, **{"door": door, "decision": decision, "class": class_of(sqlstate)})
        self.seconds.observe(seconds, door=door)
        if epsilon:
            self.epsilon.add(epsilon)
        if withheld:
            self.withheld.add(withheld)

    def text(self) -> str:
        lines = []
        for metric in vars(self).values():
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
        return "\n".join(lines) + "\n"


def class_of(sqlstate: str) -> str:
    """
    >>> class_of("42P01"), class_of("secret"), class_of("")
    ('42', 'XX', 'XX')
    """
    found = sqlstate[:2] if re.fullmatch("[0-9A-Z]{5}", sqlstate) else ""
    return found if found in CLASSES else "XX"


def _shown(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}" if labels else ""
