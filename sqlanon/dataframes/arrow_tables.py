"""Rows as Arrow: from pandas, Polars, DuckDB and whatever else speaks Arrow, and back with the types that they had.

What cannot be told apart later is refused here: columns of one name, values of several types in one column, types for
which there is no SQL. Messages name columns and types; those of pandas and Arrow quote values, and are not shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sqlanon.errors import SourceError

if TYPE_CHECKING:
    import pyarrow

# What to write instead of a type that is not read.
CONVERSIONS = {
    "duration": "as a number, for example df[{name!r}].dt.total_seconds()",
    "halffloat": "as df[{name!r}].astype('float32')",
    "list": "as one column a value, or as text",
    "large_list": "as one column a value, or as text",
    "struct": "as one column a field",
    "extension<pandas.period": "as dates, for example df[{name!r}].dt.to_timestamp()",
    "extension<pandas.interval": "as text, for example df[{name!r}].astype(str)",
    "extension<arrow.uuid": "as text",
}


def load_pyarrow() -> Any:
    """The package pyarrow, or what to do without it."""
    try:
        import pyarrow
    except ImportError:
        raise SourceError(
            "DataFrames need the package pyarrow", hint="pip install 'sqlanon[dataframes]'; or give a file"
        ) from None
    return pyarrow


def is_pandas(data: object) -> bool:
    """Whether this is a DataFrame of pandas; told without loading pandas for what is none."""
    return type(data).__module__.partition(".")[0] == "pandas" and type(data).__name__ == "DataFrame"


def is_tabular(data: object) -> bool:
    """Whether this holds rows itself, so that it can be read as Arrow."""
    if type(data).__module__.startswith("pyspark."):  # speaks Arrow too, and its rows stay where they are
        return False
    polars = type(data).__module__.partition(".")[0] == "polars" and type(data).__name__ == "LazyFrame"
    return is_pandas(data) or polars or hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def arrow_of(data: Any, index: Collection[str] = ()) -> pyarrow.Table:
    """The rows as an Arrow table, with the types that statements can read.

    The index of a pandas DataFrame is left out, but for levels of it that are named in `index`.
    """
    pyarrow = load_pyarrow()
    if is_pandas(data):
        rows = _of_pandas(data, index)
    else:
        if hasattr(data, "collect") and not hasattr(data, "__arrow_c_stream__"):  # LazyFrame of Polars
            data = data.collect()
        try:
            one = hasattr(data, "__arrow_c_array__") and not hasattr(data, "__arrow_c_stream__")
            rows = pyarrow.Table.from_batches([pyarrow.record_batch(data)]) if one else pyarrow.table(data)
        except Exception as error:  # of the library that made it, whose text may quote values
            raise SourceError(
                f"the rows of this {type(data).__name__} cannot be read as Arrow ({type(error).__name__})",
                hint="does a column hold objects of Python? convert it to text or numbers",
            ) from None
    require_names(rows.column_names)
    return _with_readable_types(rows)


def require_names(names: Iterable[object]) -> None:
    """Columns have names that are text, and that tell them apart in SQL, where capitals do not count."""
    given = list(names)
    if not given:
        raise SourceError("the table has no column", hint="there is nothing to read")
    odd = [name for name in given if not isinstance(name, str) or not name]
    if odd:
        kinds = "tuples, as of a MultiIndex" if isinstance(odd[0], tuple) else f"of type {type(odd[0]).__name__}"
        kinds = "empty" if odd[0] == "" else kinds
        raise SourceError(
            f"names of columns are text, and {len(odd)} of them are {kinds}",
            hint="rename them, for example: df.columns = [str(name) for name in df.columns]",
        )
    counted = Counter(str(name).lower() for name in given)
    if twice := [str(name) for name in given if counted[str(name).lower()] > 1]:
        raise SourceError(
            f"columns have the same name: {', '.join(map(repr, twice[:10]))}",
            hint="capitals do not count in SQL; rename or drop one of them",
        )


def _of_pandas(data: Any, index: Collection[str]) -> pyarrow.Table:
    pyarrow = load_pyarrow()
    require_names(data.columns)
    wanted = [name for name in data.index.names if name is not None and name in index and name not in data.columns]
    if wanted:
        data = data.reset_index(level=wanted)
        require_names(data.columns)
    try:
        return pyarrow.Table.from_pandas(data, preserve_index=False).replace_schema_metadata(None)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        pass
    for name in data.columns:
        try:
            pyarrow.Array.from_pandas(data[name])
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
            raise SourceError(
                f"column '{name}' holds values of several types, or of one that is not read ({data[name].dtype})",
                hint=f"convert it, for example: df[{name!r}] = df[{name!r}].astype(str)",
            ) from None
    raise SourceError("the DataFrame cannot be read as Arrow", hint="convert its columns of objects to text or numbers")


def _with_readable_types(rows: pyarrow.Table) -> pyarrow.Table:
    pyarrow = load_pyarrow()
    for place, item in enumerate(rows.schema):
        kind = item.type.value_type if pyarrow.types.is_dictionary(item.type) else item.type
        if pyarrow.types.is_null(kind):  # no value, and so no type either: SQL has none for it
            text = pyarrow.nulls(len(rows), pyarrow.string())
            rows = rows.set_column(place, pyarrow.field(item.name, pyarrow.string()), text)
        elif not _is_readable(kind):
            found = next((said for start, said in CONVERSIONS.items() if str(kind).startswith(start)), "as text")
            raise SourceError(
                f"column '{item.name}' is of type {kind}, which is not read",
                hint=f"give it {found.format(name=item.name)}; or leave the column out",
            )
    return rows


def _is_readable(kind: pyarrow.DataType) -> bool:
    types = load_pyarrow().types
    checks = (
        types.is_integer, types.is_float32, types.is_float64, types.is_decimal128, types.is_boolean, types.is_string,
        types.is_large_string, types.is_string_view, types.is_date, types.is_timestamp, types.is_time,
        types.is_binary, types.is_large_binary,
    )  # fmt: skip
    return any(check(kind) for check in checks)


def with_source_types(released: pyarrow.Table, source: pyarrow.Table, names: Iterable[str]) -> pyarrow.Table:
    """A release whose columns, where they show values as they are, have the types of the source again: SQL has one
    type for texts and one time zone, and no categories."""
    pyarrow = load_pyarrow()
    for name in names:
        place, wanted = released.schema.get_field_index(name), source.schema.field(name).type
        column = released.column(place)
        if column.type == wanted:
            continue
        if pyarrow.types.is_dictionary(wanted):
            column = _with_categories(column, source.column(name))
        else:
            try:
                column = column.cast(wanted)
            except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):  # it stays as the database has it
                continue
        released = released.set_column(place, name, column)
    return released


def _with_categories(column: pyarrow.ChunkedArray, source: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Values as categories again, in the order of the source: only those that the release shows. A category without a
    row would tell of a row that was suppressed."""
    pyarrow = load_pyarrow()
    from pyarrow import compute

    kind = source.type
    chunks = source.unify_dictionaries().chunks
    known = chunks[0].dictionary if chunks else pyarrow.array([], kind.value_type)
    plain = pyarrow.string() if pyarrow.types.is_string_view(known.type) else known.type  # which Arrow compares
    known = known.cast(plain)
    values = column.combine_chunks().cast(known.type)
    kept = known.filter(compute.is_in(known, value_set=values.unique()))
    places = compute.index_in(values, value_set=kept).cast(pyarrow.int32())
    made = pyarrow.DictionaryArray.from_arrays(places, kept.cast(kind.value_type), ordered=kind.ordered)
    return pyarrow.chunked_array([made])


def pandas_types(data: Any, names: Collection[str]) -> dict[str, Any]:
    """The types of columns for which pandas has its own and Arrow does not say so, such as Int64. Not of categories,
    whose type holds the values of the source."""
    if not is_pandas(data):
        return {}
    own = ("Int", "UInt", "Float", "boolean", "string")
    return {
        name: kind
        for name, kind in data.dtypes.items()
        if name in names and hasattr(kind, "__from_arrow__") and str(kind).startswith(own)
    }


def pandas_of(rows: pyarrow.Table, types: Mapping[str, Any]) -> Any:
    """A DataFrame of pandas, with its own types where they were there before."""
    try:
        import pandas  # noqa: F401 - Arrow loads it, and says less if it is missing
    except ImportError:
        raise SourceError("this needs the package pandas", hint="pip install pandas; or take .to_arrow()") from None
    frame = rows.to_pandas()
    for name, kind in types.items():
        frame[name] = kind.__from_arrow__(rows.column(name))
    return frame


def polars_of(rows: pyarrow.Table) -> Any:
    """A DataFrame of Polars."""
    try:
        import polars
    except ImportError:
        raise SourceError("this needs the package polars", hint="pip install polars; or take .to_arrow()") from None
    return polars.from_arrow(rows)
