"""Tell the names of databases apart: files from URLs."""

from __future__ import annotations


def is_spark_url(name: str) -> bool:
    """Whether a name of a database is one of Spark: local, a cluster, or a server of Spark Connect.

    >>> [is_spark_url(name) for name in ("spark:local", "spark://host:7077", "sc://host", "spark.duckdb")]
    [True, True, True, False]
    """
    return name.partition("?")[0] == "spark:local" or name.startswith(("spark://", "sc://"))


def is_url(name: str) -> bool:
    """Whether a name of a database stands for itself, and not for a file.

    >>> [is_url(name) for name in ("postgresql://host/db", "spark:local", "clinic.duckdb")]
    [True, True, False]
    """
    return "://" in name or is_spark_url(name)
