"""The gateway over rows in memory: exact where noise is far smaller than the numbers, charged first, and closed."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sqlanon as sa
from sqlanon.errors import BudgetExhausted, PolicyError, Refused, SourceError, SqlanonError

BY_CITY = "SELECT city, count(*) AS n, avg(amount) AS mean FROM df GROUP BY city"


def customers(rows: int = 4000) -> pd.DataFrame:
    draw = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "customer_id": np.arange(rows),
            "city": draw.choice(["Athens", "Berlin", "Lyon"], rows),
            "amount": draw.uniform(0, 200, rows),
        }
    )


def opened(data: Any = None, **more: Any) -> sa.TableGateway:
    asked: dict[str, Any] = {"unit": "customer_id", "bounds": {"amount": (0, 200)}, "epsilon": 5, "answer_time": 0.0}
    return sa.gateway(customers() if data is None else data, **(asked | more))


def test_answers_are_near_what_pandas_computes() -> None:
    source = customers()
    exact = source.groupby("city")["amount"].agg(["count", "mean"])
    with opened(source) as gate:
        answer = gate.sql(BY_CITY)
        frame = answer.to_pandas().set_index("city")
        assert set(frame.index) == set(exact.index)
        assert (frame["n"] - exact["count"]).abs().max() < 150 and (frame["mean"] - exact["mean"]).abs().max() < 20
        assert answer.epsilon == 0.5 and gate.left.spent.epsilon == 0.5
        assert "Athens" in answer._repr_html_() and "amount" not in repr(answer)
        assert gate.sql(BY_CITY).rows == answer.rows and gate.left.spent.epsilon == 0.5  # the same noise, once
        bars = gate.sql("SELECT count(*) AS n FROM df", intervals=True)
        assert bars.columns == ("n", "n_low", "n_high")


def test_the_budget_ends_and_goes_with_the_object() -> None:
    gate = opened(epsilon=1)
    for limit in range(10):
        gate.sql("SELECT count(*) FROM df WHERE amount < ?", [limit])
    with pytest.raises(BudgetExhausted):
        gate.sql("SELECT count(*) FROM df WHERE amount < 99")
    folder = Path(gate._gate.ledger.path).parent
    assert folder.exists()
    gate.close()
    assert not folder.exists()
    with pytest.raises(SqlanonError):
        gate.sql("SELECT count(*) FROM df")
    again = opened(epsilon=1)
    folder = Path(again._gate.ledger.path).parent
    del again
    gc.collect()
    assert not folder.exists()


def test_a_ledger_lasts(tmp_path: Path) -> None:
    file = tmp_path / "spent.ledger"
    with opened(epsilon=1, ledger=file) as gate:
        first = gate.sql(BY_CITY, epsilon=0.6)
    with opened(epsilon=1, ledger=file) as gate:
        assert gate.left.spent.epsilon == pytest.approx(0.6)
        assert gate.sql(BY_CITY, epsilon=0.6).rows == first.rows  # the same rows: kept, and free
        with pytest.raises(BudgetExhausted):
            gate.sql("SELECT count(*) FROM df", epsilon=0.6)
    other = customers().assign(amount=1.0)
    with opened(other, epsilon=1, ledger=file) as gate, pytest.raises(BudgetExhausted):
        gate.sql(BY_CITY, epsilon=0.6)  # other rows: no answer of before, and no new budget


def test_charged_before_the_rows_are_read() -> None:
    """A statement that fails on the rows has been paid for."""
    with opened(customers(50)) as gate:
        reserve, seen = gate._gate.ledger.reserve, []

        def noted(*args: Any, **asked: Any) -> Any:
            seen.append("charged")
            return reserve(*args, **asked)

        gate._gate.ledger.reserve = noted  # type: ignore[method-assign]
        query = gate._gate.engine.query
        gate._gate.engine.query = lambda tree: (seen.append("read"), query(tree))[1]  # type: ignore[method-assign]
        prepared = gate._gate.engine.prepared

        def watched(tree: Any) -> Any:
            ask = prepared(tree)
            return lambda numbers: (seen.append("read"), ask(numbers))[1]

        gate._gate.engine.prepared = watched  # type: ignore[method-assign]
        gate.sql("SELECT count(*) FROM df")
        assert seen[0] == "charged" and "read" in seen


def test_persons_with_several_rows() -> None:
    twice = pd.concat([customers(), customers()], ignore_index=True)
    with pytest.raises(PolicyError, match="have several rows"):
        opened(twice)
    with opened(twice, rows=2) as gate:
        ((rows, persons),) = gate.sql("SELECT count(*), count(DISTINCT customer_id) FROM df").rows
        assert abs(rows - 8000) < 300 and abs(persons - 4000) < 200
        for table in ("persons_of_sqlanon", "sqlite_master", "nowhere"):
            with pytest.raises(Refused, match="does not exist"):
                gate.sql(f"SELECT count(*) FROM {table}")
    with opened(twice, rows=1) as gate:  # half of the rows do not count
        ((rows,),) = gate.sql("SELECT count(*) FROM df").rows
        assert abs(rows - 4000) < 200


@pytest.mark.parametrize(
    "statement", ["SELECT * FROM df", "SELECT customer_id FROM df", "DROP TABLE df", "COPY df TO 'x'"]
)
def test_rows_do_not_leave(statement: str) -> None:
    with opened(customers(50)) as gate, pytest.raises(Refused):
        gate.sql(statement)


def test_an_error_is_asked_for_in_place_of_an_epsilon() -> None:
    with opened() as gate:
        found = gate.sql("SELECT count(*) FROM df", error=60)
        assert 0 < found.epsilon < 0.1
        assert gate.sql("SELECT count(*) FROM df", epsilon=found.epsilon).rows == found.rows
        with pytest.raises(Refused, match="together"):
            gate.sql("SELECT count(*) FROM df", epsilon=0.1, error=60)
        with pytest.raises(Refused, match="depends on the data"):
            gate.sql("SELECT avg(amount) FROM df", error=60)


def test_declared_keys_and_hidden_columns() -> None:
    with opened(keys={"city": ["Athens", "Paris"]}, hidden=["amount"], bounds={}) as gate:
        found = dict(gate.sql("SELECT city, count(*) FROM df GROUP BY city").rows)
        assert set(found) == {"Athens", "Paris"} and found["Paris"] < 100 < found["Athens"]
        with pytest.raises(Refused):
            gate.sql("SELECT sum(amount) FROM df")
        assert "Cost" in str(gate.explain("SELECT count(*) FROM df").rows)
        assert gate.left.spent.epsilon == 0.5


FORMS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "polars": lambda frame, folder: pytest.importorskip("polars").from_pandas(frame),
    "arrow": lambda frame, folder: pytest.importorskip("pyarrow").Table.from_pandas(frame),
    "index": lambda frame, folder: frame.set_index("customer_id"),
    "file": lambda frame, folder: (frame.to_parquet(folder / "rows.parquet"), folder / "rows.parquet")[1],
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms_of_rows(form: str, tmp_path: Path) -> None:
    with opened(FORMS[form](customers(), tmp_path), name="orders") as gate:
        ((rows,),) = gate.sql("SELECT count(*) FROM orders").rows
        assert abs(rows - 4000) < 200


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"unit": "custmer_id"}, "did you mean 'customer_id'"),
        ({"bounds": {"amount": 200}}, "the lowest and the highest"),
        ({"bounds": {"amount": (200, 0)}}, "not below high"),
        ({"bounds": {"amonut": (0, 1)}}, "amonut"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"rows": 0}, "rows"),
        ({"delta": 5}, "delta"),
        ({"per_statement": 50}, "default"),
    ],
)
def test_bad_arguments(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        opened(customers(20), **asked)


def test_bad_rows() -> None:
    with pytest.raises(PolicyError, match="is NULL in some rows"):
        opened(customers(20).assign(customer_id=[None, *range(19)]))
    with pytest.raises(SourceError, match="rows cannot be read from"):
        opened([1, 2])
    for missing in ("unit", "bounds", "epsilon"):
        given = {"unit": "customer_id", "bounds": {}, "epsilon": 1}
        del given[missing]
        with pytest.raises(TypeError, match=missing):
            sa.gateway(customers(20), **given)  # type: ignore[arg-type]


def test_the_package_of_the_gateway_is_the_function() -> None:
    """Whichever is loaded first."""
    import sqlanon.gateway.gate

    assert sqlanon.gateway.open_gateway is sa.open_gateway and callable(sa.gateway)
    assert "gateway" in dir(sa)
