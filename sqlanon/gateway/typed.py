"""Rows as Arrow columns of the types that a client is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow


def arrow_types() -> dict[str, Any]:
    """Of the types that the gateway computes with. All others are as the engine gives them."""
    import pyarrow

    return {
        "int8": pyarrow.int64(), "float8": pyarrow.float64(), "text": pyarrow.string(), "bool": pyarrow.bool_(),
        "date": pyarrow.date32(), "timestamp": pyarrow.timestamp("us"), "int2": pyarrow.int16(),
        "int4": pyarrow.int32(), "float4": pyarrow.float32(), "varchar": pyarrow.string(),
    }  # fmt: skip


def typed(batch: pyarrow.RecordBatch, names: Sequence[str], types: Sequence[str]) -> pyarrow.RecordBatch:
    """A batch of an engine with columns of these names and types; ArithmeticError where a number does not fit."""
    import pyarrow

    wanted = arrow_types()
    columns = []
    for place, name in enumerate(types):
        column = batch.column(place)
        target = wanted.get(name.partition("(")[0], column.type)
        if column.type != target:
            try:
                column = column.cast(target)
            except pyarrow.ArrowInvalid:
                raise ArithmeticError(name) from None
        columns.append(column)
    return pyarrow.RecordBatch.from_arrays(columns, names=list(names))


def batch_of(rows: Sequence[Sequence[Any]], names: Sequence[str], types: Sequence[str]) -> pyarrow.RecordBatch:
    """Python rows, such as those of an answer with noise, as a batch."""
    import pyarrow

    wanted = arrow_types()
    columns = []
    for place, name in enumerate(types):
        try:
            columns.append(pyarrow.array([row[place] for row in rows], type=wanted[name.partition("(")[0]]))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
            raise ArithmeticError(name) from None
    return pyarrow.RecordBatch.from_arrays(columns, names=list(names))
