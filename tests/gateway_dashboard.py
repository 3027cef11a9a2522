# ruff: noqa: E501
"""A dashboard as it was recorded: ten panels, each with three drill-downs, in the order in which they were clicked."""

from __future__ import annotations

B = "CASE WHEN age < 40 THEN 'young' ELSE 'old' END"
JOINED = "visits JOIN regions USING (region)"

PANELS: dict[str, list[str]] = {
    "visits by ward": [
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
        "SELECT COUNT(*) AS n FROM visits WHERE ward = 'W1'",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2",
        "SELECT ward, n * 100.0 / SUM(n) OVER () AS share FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t",
    ],
    "visits by ward and age": [
        f"SELECT ward, {B} AS band, COUNT(*) AS n FROM visits GROUP BY 1, 2",
        f"SELECT {B} AS band, COUNT(*) AS n FROM visits WHERE ward = 'W0' GROUP BY 1",
        f"SELECT {B} AS band, COUNT(*) AS n FROM visits WHERE ward = 'W2' GROUP BY 1",
        f"SELECT ward, COUNT(*) AS n FROM visits WHERE {B} = 'old' GROUP BY ward",
    ],
    "income by ward": [
        "SELECT ward, SUM(income) AS s FROM visits GROUP BY ward",
        "SELECT SUM(income) AS s FROM visits WHERE ward = 'W0'",
        "SELECT SUM(income) AS s FROM visits WHERE ward = 'W3'",
        "SELECT ward, SUM(income) AS s FROM visits GROUP BY ward HAVING SUM(income) > 100000",
    ],
    "mean age by ward": [
        "SELECT ward, AVG(age) AS a FROM visits GROUP BY ward",
        "SELECT AVG(age) AS a FROM visits WHERE ward = 'W1'",
        "SELECT AVG(age) AS a FROM visits WHERE ward = 'W2'",
        "SELECT ward, AVG(age) AS a FROM visits GROUP BY ward ORDER BY a DESC LIMIT 1",
    ],
    "persons by ward": [
        "SELECT ward, COUNT(DISTINCT user_id) AS p FROM visits GROUP BY ward",
        "SELECT COUNT(DISTINCT user_id) AS p FROM visits WHERE ward = 'W0'",
        "SELECT COUNT(DISTINCT user_id) AS p FROM visits WHERE ward = 'W1'",
        "SELECT ward FROM visits GROUP BY ward HAVING COUNT(DISTINCT user_id) > 20",
    ],
    "visits by country": [
        f"SELECT country, COUNT(*) AS n FROM {JOINED} GROUP BY country",
        f"SELECT COUNT(*) AS n FROM {JOINED} WHERE country = 'A'",
        f"SELECT COUNT(*) AS n FROM {JOINED} WHERE country = 'B'",
        f"SELECT country, COUNT(*) AS n FROM {JOINED} GROUP BY country ORDER BY 2 DESC",
    ],
    "orders by size": [
        "SELECT CASE WHEN amount < 300 THEN 'small' ELSE 'large' END AS size, COUNT(*) AS n FROM orders GROUP BY 1",
        "SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN amount < 300 THEN 'small' ELSE 'large' END = 'small'",
        "SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN amount < 300 THEN 'small' ELSE 'large' END = 'large'",
        "SELECT CASE WHEN amount < 300 THEN 'small' ELSE 'large' END AS size FROM orders GROUP BY 1 HAVING COUNT(*) > 50",
    ],
    "visits by turn": [
        "SELECT visits, COUNT(*) AS n FROM visits WHERE visits IN (1, 2, 3, 4, 5, 6) GROUP BY visits",
        "SELECT COUNT(*) AS n FROM visits WHERE visits = 1",
        "SELECT COUNT(*) AS n FROM visits WHERE visits = 2",
        "SELECT visits, COUNT(*) AS n FROM visits GROUP BY visits ORDER BY n DESC LIMIT 3",
    ],
    "regions": [
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region",
        "SELECT region, COUNT(*) AS n FROM visits WHERE region = 'R1' GROUP BY region",
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING COUNT(*) > 100",
        "SELECT region FROM visits GROUP BY region",
    ],
    "median age": [
        "SELECT ward, MEDIAN(age) AS m FROM visits GROUP BY ward",
        "SELECT MEDIAN(age) AS m FROM visits WHERE ward = 'W0'",
        "SELECT MEDIAN(age) AS m FROM visits WHERE ward = 'W1'",
        "SELECT ward, MEDIAN(age) AS m FROM visits GROUP BY ward ORDER BY m LIMIT 2",
    ],
}  # fmt: skip
DASHBOARD = [sql for panel in PANELS.values() for sql in panel]
CLICKS = [sql for turn in range(4) for sql in (panel[turn] for panel in PANELS.values())]
