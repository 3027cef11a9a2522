"""Files of rows: the endings that sqlanon reads and writes, and how to convert the files of other programs."""

from __future__ import annotations

from pathlib import PurePath

ENDINGS = (".parquet", ".csv", ".tsv")
PACKED = (".gz", ".zst")  # a CSV file may be compressed, and is read as it is

_DUCKDB = "convert it, for example with DuckDB: COPY (FROM {reader}('{stem}{ending}')) TO '{stem}.parquet'"
_PANDAS = "convert it, for example with pandas: pandas.{reader}('{stem}{ending}').to_parquet('{stem}.parquet')"
# What other endings are, and how such a file becomes one that is read.
_OTHERS = {
    ".xlsx": ("an Excel file", "save it as CSV, or convert it with DuckDB: "
              "COPY (FROM read_xlsx('{stem}{ending}')) TO '{stem}.parquet'", ""),
    ".xls": ("an Excel file", "save it as CSV", ""),
    ".ods": ("a spreadsheet", "save it as CSV", ""),
    ".json": ("a JSON file", _DUCKDB, "read_json"),
    ".jsonl": ("a JSON file", _DUCKDB, "read_json"),
    ".ndjson": ("a JSON file", _DUCKDB, "read_json"),
    ".feather": ("a Feather file", _PANDAS, "read_feather"),
    ".arrow": ("an Arrow file", _PANDAS, "read_feather"),
    ".orc": ("an ORC file", _PANDAS, "read_orc"),
    ".sav": ("an SPSS file", _PANDAS, "read_spss"),
    ".dta": ("a Stata file", _PANDAS, "read_stata"),
    ".sas7bdat": ("a SAS file", _PANDAS, "read_sas"),
    ".zip": ("an archive", "unpack it first", ""),
}  # fmt: skip


def ending_of(path: str) -> str:
    """The ending that tells the format of a file, without that of a compression.

    >>> ending_of("data/visits.csv.gz"), ending_of("data/*.Parquet"), ending_of("data/")
    ('.csv', '.parquet', '')
    """
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    kept = [suffix for suffix in suffixes if suffix not in PACKED]
    return kept[-1] if kept else ""


def is_other_format(path: str) -> bool:
    """Whether the ending is that of a file of rows in a format that is not read.

    >>> is_other_format("book.xlsx"), is_other_format("warehouse.duckdb"), is_other_format("t.csv")
    (True, False, False)
    """
    return ending_of(path) in _OTHERS


def describe_other_format(path: str) -> tuple[str, str]:
    """What to say about a file whose format is not read: the message and the hint.

    >>> describe_other_format("a/visits.json")[0]
    "'a/visits.json' is a JSON file: sqlanon reads Parquet and CSV files"
    """
    ending = ending_of(path)
    if ending not in _OTHERS:
        return f"'{path}' is neither a Parquet nor a CSV file", f"the name ends in {', '.join(ENDINGS)}"
    what, hint, reader = _OTHERS[ending]
    stem = PurePath(path).name.removesuffix(PurePath(path).suffix)
    return (
        f"'{path}' is {what}: sqlanon reads Parquet and CSV files",
        hint.format(reader=reader, stem=stem, ending=PurePath(path).suffix),
    )
