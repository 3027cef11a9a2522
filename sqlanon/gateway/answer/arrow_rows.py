"""Rows as Arrow columns of the types that a client sees."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
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


def cast_batch(batch: pyarrow.RecordBatch, names: Sequence[str], types: Sequence[str]) -> pyarrow.RecordBatch:
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
        values = [row[place] for row in rows]
        try:
            if name.startswith("numeric"):
                columns.append(_numeric(values, name))
            else:
                columns.append(pyarrow.array(values, type=wanted[name.partition("(")[0]]))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
            raise ArithmeticError(name) from None
    return pyarrow.RecordBatch.from_arrays(columns, names=list(names))


def _numeric(values: Sequence[Any], name: str) -> pyarrow.Array:
    """Numbers of a declared size as decimals; of any size as text, which the wire writes as it stands.

    >>> _numeric([Decimal("1.5"), None], "numeric(10,2)").to_pylist()
    [Decimal('1.50'), None]
    >>> _numeric([2**70, 0.5, Decimal("1E+2"), None], "numeric").to_pylist()
    ['1180591620717411303424', '0.5', '100', None]
    """
    import pyarrow

    sizes = [int(size) for size in name.removeprefix("numeric").strip("()").split(",") if size]
    if sizes:
        return pyarrow.array(values, type=pyarrow.decimal128(sizes[0], (*sizes, 0)[1]))
    texts = [None if value is None else format(Decimal(str(value)), "f") for value in values]
    return pyarrow.array(texts, type=pyarrow.string())
