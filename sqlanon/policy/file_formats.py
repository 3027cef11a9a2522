"""Files of rows: the endings that sqlanon reads and writes, and how to convert the files of other programs."""

from __future__ import annotations

from pathlib import PurePath

ENDINGS = (".parquet", ".csv", ".tsv")  # that are written
FEATHER = (".feather", ".arrow")  # of Arrow, which reads them; DuckDB does not
SOURCES = (*ENDINGS, ".json", ".jsonl", ".ndjson", ".xlsx", *FEATHER)  # that are read
PACKED = (".gz", ".zst")  # a CSV or JSON file may be compressed, and is read as it is

_PANDAS = "convert it, for example with pandas: pandas.{reader}('{stem}{ending}').to_parquet('{stem}.parquet')"
# What other endings are, and how such a file becomes one that is read.
_OTHERS = {
    ".xls": ("an old Excel file", "save it as .xlsx or as CSV", ""),
    ".ods": ("a spreadsheet", "save it as CSV", ""),
    ".orc": ("an ORC file", _PANDAS, "read_orc"),
    ".sav": ("an SPSS file", _PANDAS, "read_spss"),
    ".dta": ("a Stata file", _PANDAS, "read_stata"),
    ".sas7bdat": ("a SAS file", _PANDAS, "read_sas"),
    ".rds": ("an R file", "save it from R: arrow::write_parquet(readRDS('{stem}{ending}'), '{stem}.parquet')", ""),
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

    >>> is_other_format("book.ods"), is_other_format("warehouse.duckdb"), is_other_format("t.csv")
    (True, False, False)
    """
    return ending_of(path) in _OTHERS


def describe_other_format(path: str) -> tuple[str, str]:
    """What to say about a file whose format is not read: the message and the hint.

    >>> describe_other_format("a/visits.dta")[0]
    "'a/visits.dta' is a Stata file: sqlanon reads Parquet, CSV, JSON, Excel and Feather files"
    """
    ending = ending_of(path)
    if ending not in _OTHERS:
        return f"'{path}' is no file of rows that is read", f"the name ends in {', '.join(SOURCES)}"
    what, hint, reader = _OTHERS[ending]
    stem = PurePath(path).name.removesuffix(PurePath(path).suffix)
    return (
        f"'{path}' is {what}: sqlanon reads Parquet, CSV, JSON, Excel and Feather files",
        hint.format(reader=reader, stem=stem, ending=PurePath(path).suffix),
    )
