"""Rows from Arrow's columns: against a writer that goes row by row, and against the bytes of a real PostgreSQL."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import struct
import tracemalloc
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy_oracle import Oracle, oracle

from sqlanon.pgwire import rows, types
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.pgwire.copy_frames import copy_begin, copy_end
from sqlanon.pgwire.frontend import ProtocolError
from sqlanon.pgwire.rows import copy_rows, data_rows
from sqlanon.pgwire.types import PgType, encode

pa = pytest.importorskip("pyarrow", reason="needs the package pyarrow")


@pytest.fixture(scope="module")
def server(postgres_url: str) -> Iterator[Oracle]:
    with oracle(postgres_url) as made:
        yield made


def simple(table: list[list[Any]], kinds: list[PgType], formats: list[int]) -> list[bytes]:
    """One DataRow after the other, by struct alone."""
    messages = []
    for row in table:
        body = struct.pack(">h", len(row))
        for value, kind, form in zip(row, kinds, formats, strict=True):
            cell = encode(kind, form, value)
            body += struct.pack(">i", -1) if cell is None else struct.pack(">i", len(cell)) + cell
        messages.append(b"D" + struct.pack(">i", len(body) + 4) + body)
    return messages


def columns(kinds: list[PgType]) -> list[ResultColumn]:
    return [ResultColumn(f"c{at}", kind) for at, kind in enumerate(kinds)]


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
micros = st.integers(-62135596800000000, 253402300799999999)
utc = pa.timestamp("us", "UTC")
dates = st.integers(-719162, 2932896).map(lambda day: dt.date.fromordinal(day + 719163))
instants = micros.map(lambda micro: dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micro))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(
        lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
    )


# Each type with the Arrow types that an engine may hand over, and values.
KINDS: list[tuple[PgType, Any, st.SearchStrategy[Any]]] = [
    (types.BOOL, pa.bool_(), st.booleans()),
    (types.INT2, pa.int8(), st.integers(-128, 127)),
    (types.INT2, pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (types.INT4, pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (types.INT8, pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (types.INT8, pa.uint32(), st.integers(0, 2**32 - 1)),
    (types.OID, pa.int64(), st.integers(0, 2**32 - 1)),
    (types.XID8, pa.uint64(), st.integers(0, 2**64 - 1)),
    (types.FLOAT8, pa.float64(), st.floats(allow_nan=False) | st.integers(-1074, 1023).map(lambda at: 2.0**at)),
    (types.FLOAT8, pa.float64(), st.floats(-1e6, 1e6) | st.floats(-1e-3, 1e-3) | st.just(float("nan"))),
    (types.FLOAT8, pa.float64(), st.integers(-(10**25), 10**25).map(float)),
    (types.FLOAT4, pa.float32(), st.floats(width=32, allow_nan=False)),
    (types.FLOAT4, pa.float32(), st.floats(-1000, 1000, width=32) | st.integers(-149, 127).map(lambda at: 2.0**at)),
    (types.NUMERIC, pa.decimal128(38, 0), decimals(38, 0) | decimals(6, 0)),
    (types.NUMERIC, pa.decimal128(38, 2), decimals(38, 2) | decimals(5, 2)),
    (types.NUMERIC, pa.decimal128(18, 7), decimals(18, 7) | decimals(3, 7)),
    (types.NUMERIC, pa.decimal128(38, 38), decimals(38, 38) | decimals(1, 38)),
    (types.NUMERIC, pa.decimal128(20, -3), decimals(20, -3) | decimals(1, -3)),
    (types.NUMERIC, pa.decimal256(70, 10), decimals(70, 10)),
    (types.NUMERIC, pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (types.NUMERIC, pa.uint64(), st.integers(0, 2**64 - 1)),
    (types.TEXT, pa.string(), texts),
    (types.VARCHAR, pa.large_string(), texts),
    (types.TEXT, pa.string_view(), texts),
    (types.NAME, pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b", "", "é"])),
    (types.CHAR, pa.string(), st.sampled_from(["r", "v", ""])),
    (types.BYTEA, pa.binary(), st.binary(max_size=9)),
    (types.BYTEA, pa.large_binary(), st.binary(max_size=9)),
    (types.DATE, pa.date32(), dates),
    (types.TIME, pa.time64("us"), st.times()),
    (types.TIMESTAMP, pa.timestamp("us"), instants),
    (types.TIMESTAMP, pa.timestamp("s"), instants.map(lambda value: value.replace(microsecond=0))),
    (types.TIMESTAMPTZ, utc, instants.map(lambda value: value.replace(tzinfo=dt.UTC))),
    (types.UUID, pa.string(), st.uuids().map(str)),
    (types.UUID, pa.binary(16), st.binary(min_size=16, max_size=16)),
    (types.JSON, pa.string(), texts.map(json.dumps)),
    (types.JSONB, pa.string(), texts.map(json.dumps)),
    (types.REGCLASS, pa.int32(), st.integers(0, 3)),
    (types.INT2VECTOR, pa.list_(pa.int16()), st.lists(st.integers(-5, 5), max_size=3)),
    (types.INT4_ARRAY, pa.list_(pa.int32()), st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=4)),
    (types.TEXT_ARRAY, pa.list_(pa.string()), st.lists(st.none() | texts | st.just("NULL"), max_size=4)),
    (types.TEXT_ARRAY, pa.large_list(pa.string()), st.lists(st.text('{},"\\ null', max_size=4), max_size=4)),
    (types.FLOAT8_ARRAY, pa.list_(pa.float64()), st.lists(st.none() | st.floats(allow_nan=False), max_size=4)),
    (types.NUMERIC_ARRAY, pa.list_(pa.decimal128(20, 3)), st.lists(decimals(20, 3), max_size=4)),
    (types.TIMESTAMP_ARRAY, pa.list_(pa.timestamp("us")), st.lists(instants, max_size=4)),
    (types.BYTEA_ARRAY, pa.list_(pa.binary()), st.lists(st.binary(max_size=3), max_size=4)),
    (types.INT4_ARRAY, pa.list_(pa.int32(), 2), st.lists(st.integers(-9, 9), min_size=2, max_size=2)),
    (types.INT4_ARRAY, pa.list_(pa.list_(pa.int32())), st.lists(st.just([1, None]), max_size=2)),
    (types.TEXT, pa.null(), st.none()),
]
names = [f"{kind.name}-{arrow}" for kind, arrow, _ in KINDS]


@pytest.mark.parametrize(("kind", "arrow", "values"), KINDS, ids=names)
def test_a_column_is_written_as_row_by_row(kind: PgType, arrow: Any, values: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=examples(40))
    @given(st.lists(st.none() | values, max_size=12), st.integers(0, 3))
    def check(found: list[Any], skipped: int) -> None:
        # A slice has an offset into its parent's buffers, as engines hand them over.
        batch = pa.record_batch([pa.array(found, arrow)], names=["c"]).slice(skipped)
        table = [[each] for each in found[skipped:]]
        for form in (0, 1):
            made = data_rows(batch, columns([kind]), [form])
            want = simple(table, [kind], [form])
            assert made.data == b"".join(want)
            assert made.ends.tolist() == list(itertools.accumulate(map(len, want)))

    check()


@settings(max_examples=examples(60))
@given(st.data())
def test_any_columns_side_by_side(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(KINDS), max_size=5))
    count = data.draw(st.integers(0, 6))
    found = [data.draw(st.lists(st.none() | values, min_size=count, max_size=count)) for _, _, values in chosen]
    kinds = [kind for kind, _, _ in chosen]
    if not chosen:
        batch = pa.table({"c": pa.nulls(count)}).to_batches()
        batch = batch[0].select([]) if batch else pa.record_batch([pa.nulls(0)], names=["c"]).select([])
    else:
        arrays = [pa.array(each, arrow) for each, (_, arrow, _) in zip(found, chosen, strict=True)]
        batch = pa.record_batch(arrays, names=[f"c{at}" for at in range(len(chosen))])
    formats = data.draw(st.lists(st.sampled_from([0, 1]), min_size=len(chosen), max_size=len(chosen)))
    table = [list(row) for row in zip(*found, strict=True)] if chosen else [[]] * batch.num_rows
    made = data_rows(batch, columns(kinds), formats)
    assert made.data == b"".join(simple(table, kinds, formats))
    assert len(made.ends) == batch.num_rows


def test_long_batches_are_cut_into_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch(
        [pa.array(range(1000)), pa.array([str(at) * (at % 7) for at in range(1000)])], names=["a", "b"]
    )
    whole = data_rows(batch, columns([types.INT8, types.TEXT]))
    monkeypatch.setattr(rows, "SLICE", 7)
    cut = data_rows(batch, columns([types.INT8, types.TEXT]))
    assert cut.data == whole.data and (cut.ends == whole.ends).all()


def test_python_holds_little_more_than_the_result() -> None:
    batch = pa.record_batch([pa.array(range(300_000)), pa.array(["some text"] * 300_000)], names=["a", "b"])
    tracemalloc.start()
    made = data_rows(batch, columns([types.INT8, types.TEXT]), [1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * len(made.data)


# -- what Arrow and Python's calendar do not hold alike

FAR = {
    types.DATE: (pa.date32(), pa.int32(), [-2440588, -719163, 2932897, 2145042905, 2**31 - 1, -(2**31) + 1]),
    types.TIMESTAMP: (
        pa.timestamp("us"),
        pa.int64(),
        [-62135596800000001, 253402300800000000, -210866803200000000, 9214646400000000000, 2**63 - 1, -(2**63) + 1],
    ),
    types.TIMESTAMPTZ: (
        utc,
        pa.int64(),
        [-62135596800000001, 253402300800000000, -210866803200000000, 2**63 - 1, -(2**63) + 1, -1, 0],
    ),
}


@pytest.mark.parametrize("kind", list(FAR), ids=lambda kind: kind.name)
def test_far_days_are_written_as_postgresql_writes_them(server: Oracle, kind: PgType) -> None:
    arrow, numbers, values = FAR[kind]
    batch = pa.record_batch([pa.array(values, numbers).view(arrow)], names=["c"])
    text, binary = data_rows(batch, columns([kind]), [0]), data_rows(batch, columns([kind]), [1])
    for at in range(len(values)):
        start_text, start_binary = (int(made.ends[at - 1]) if at else 0 for made in (text, binary))
        cell = text.data[start_text + 11 : int(text.ends[at])]
        assert server.through(binary.data[start_binary + 11 : int(binary.ends[at])], kind.oid, 1, 0) == cell
        if (values[at] >= 2**31 - 1 and kind == types.DATE) or values[at] == 2**63 - 1:
            assert cell == b"infinity"


intervals = st.tuples(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63) // 1000 + 1, 2**63 // 1000 - 1).map(lambda micro: micro * 1000),
)


@settings(max_examples=examples(60))
@given(st.lists(st.none() | intervals, min_size=1, max_size=6))
def test_intervals_are_written_as_postgresql_writes_them(server: Oracle, values: list[Any]) -> None:
    batch = pa.record_batch([pa.array(values, pa.month_day_nano_interval())], names=["c"])
    for form in (0, 1):
        made = data_rows(batch, columns([types.INTERVAL]), [form])
        assert made.data == b"".join(simple([[value] for value in values], [types.INTERVAL], [form]))
    for value in values:
        if value is not None:
            binary = struct.pack(">qii", value[2] // 1000, value[1], value[0])
            assert server.through(binary, types.INTERVAL.oid, 1, 0) == encode(types.INTERVAL, 0, value)


def test_durations_and_text_of_other_types() -> None:
    seconds = pa.array([dt.timedelta(seconds=-1), None, dt.timedelta(days=3)], pa.duration("us"))
    batch = pa.record_batch([seconds, pa.array(["1 2", None, ""])], names=["a", "b"])
    kinds = [types.INTERVAL, types.INT2VECTOR]
    table = [[dt.timedelta(seconds=-1), [1, 2]], [None, None], [dt.timedelta(days=3), []]]
    for form in (0, 1):
        assert data_rows(batch, columns(kinds), [form]).data == b"".join(simple(table, kinds, [form] * 2))


def test_nanoseconds_are_cut_and_structs_are_json() -> None:
    stamps = pa.array([1_999, -1, None], pa.timestamp("ns"))
    structs = pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}])
    batch = pa.record_batch([stamps, structs], names=["a", "b"])
    made = data_rows(batch, columns([types.TIMESTAMP, types.JSON]))
    epoch = dt.datetime(1970, 1, 1)
    table = [
        [epoch + dt.timedelta(microseconds=1), '{"a": 1, "b": ["x"]}'],
        [epoch - dt.timedelta(microseconds=1), None],
        [None, '{"a": null, "b": []}'],
    ]
    assert made.data == b"".join(simple(table, [types.TIMESTAMP, types.JSON], [0, 0]))


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (types.INT2, pa.array([70000])),
        (types.INT4, pa.array([1.5])),
        (types.OID, pa.array([-1])),
        (types.DATE, pa.array(["secret"])),
        (types.INT4, pa.array(["secret"])),
        (types.INT4, pa.array([""])),
        (types.INT4_ARRAY, pa.array([[[1], [2, 3]]])),
        (types.REGCLASS, pa.array([-1])),
        (types.UUID, pa.array([b"x"])),
    ],
)
def test_what_does_not_fit_is_refused_without_the_value(kind: PgType, array: Any) -> None:
    batch = pa.record_batch([array], names=["c"])
    with pytest.raises(ProtocolError) as refused:
        data_rows(batch, columns([kind]), [1])
    assert "secret" not in str(refused.value) and "70000" not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__suppress_context__


def test_other_columns_than_described_are_an_error() -> None:
    batch = pa.record_batch([pa.array([1])], names=["c"])
    with pytest.raises(ValueError, match="columns"):
        data_rows(batch, [])
    with pytest.raises(ProtocolError):
        data_rows(batch, columns([types.INT4]), [0, 0])


# -- COPY

TABLE = {
    "n": (types.INT4, "int4", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "t": (types.TEXT, "text", pa.string(), texts | st.text("\\\t\n\r\v\b\f,;|\"'N.x", max_size=5) | st.just("\\.")),
    "f": (types.FLOAT8, "float8", pa.float64(), st.floats(allow_nan=False)),
    "d": (types.DATE, "date", pa.date32(), dates),
    "b": (types.BOOL, "bool", pa.bool_(), st.booleans()),
    "x": (types.BYTEA, "bytea", pa.binary(), st.binary(max_size=4)),
    "a": (types.TEXT_ARRAY, "text[]", pa.list_(pa.string()), st.lists(texts, max_size=3)),
}
OPTIONS: list[tuple[Any, dict[str, Any], str]] = [
    ("text", {}, "FORMAT text"),
    ("text", {"delimiter": "|", "null": "nil"}, "FORMAT text, DELIMITER '|', NULL 'nil'"),
    ("text", {"delimiter": ","}, "FORMAT text, DELIMITER ','"),
    ("csv", {}, "FORMAT csv"),
    ("csv", {"header": True}, "FORMAT csv, HEADER"),
    ("csv", {"delimiter": ";", "null": "\\N", "quote": "'"}, "FORMAT csv, DELIMITER ';', NULL '\\N', QUOTE ''''"),
    ("csv", {"escape": "\\"}, "FORMAT csv, ESCAPE '\\'"),
    ("csv", {"force_quote": ["t", "n"]}, "FORMAT csv, FORCE_QUOTE (t, n)"),
    ("csv", {"null": "t"}, "FORMAT csv, NULL 't'"),
    ("binary", {}, "FORMAT binary"),
]


def bodies(data: bytes) -> bytes:
    """The insides of CopyData messages."""
    found, at = b"", 0
    while at < len(data):
        assert data[at : at + 1] == b"d"
        (size,) = struct.unpack_from(">i", data, at + 1)
        found += data[at + 5 : at + 1 + size]
        at += 1 + size
    assert at == len(data)
    return found


@pytest.mark.parametrize(("form", "options", "sql"), OPTIONS, ids=[sql for _, _, sql in OPTIONS])
@pytest.mark.parametrize("chosen", ["ntfdbxa", "t"])
def test_copy_sends_postgresqls_bytes(
    server: Oracle, form: Any, options: dict[str, Any], sql: str, chosen: str
) -> None:
    if chosen == "t" and "force_quote" in options:
        options, sql = {"force_quote": ["t"]}, "FORMAT csv, FORCE_QUOTE (t)"
    kinds = [TABLE[name] for name in chosen]
    server.run("DROP TABLE IF EXISTS copied")
    server.run(f"CREATE TABLE copied ({', '.join(f'{name} {TABLE[name][1]}' for name in chosen)})")
    described = [ResultColumn(name, TABLE[name][0]) for name in chosen]
    marks = ", ".join(f"${at}" for at in range(1, len(chosen) + 1))

    @settings(max_examples=examples(25))
    @given(st.lists(st.tuples(*(st.none() | kind[3] for kind in kinds)), max_size=4))
    def check(table: list[tuple[Any, ...]]) -> None:
        server.run("TRUNCATE copied")
        for row in table:
            cells = [encode(kind[0], 1, value) for kind, value in zip(kinds, row, strict=True)]
            oids = [kind[0].oid for kind in kinds]
            server.ask(f"INSERT INTO copied VALUES ({marks}) RETURNING 1", cells, oids, [1] * len(cells))
        arrays = [pa.array([row[at] for row in table], kind[2]) for at, kind in enumerate(kinds)]
        batch = pa.record_batch(arrays, names=list(chosen))
        begin = {key: value for key, value in options.items() if key != "force_quote"}
        rest = {key: value for key, value in options.items() if key != "header"}
        made = copy_rows(batch, described, form, **rest)
        ours = copy_begin(described, form, **begin) + made.data + copy_end(form)
        assert bodies(ours) == server.copy(f"COPY copied TO STDOUT ({sql})")
        assert len(made.ends) == len(table) and (not table or made.ends[-1] == len(made.data))

    check()


def test_the_line_of_names_is_quoted_like_values(server: Oracle) -> None:
    server.run("DROP TABLE IF EXISTS named")
    server.run('CREATE TABLE named ("a,b" int, "c""d" int, "e\tf" int)')
    described = [ResultColumn(name, types.INT4) for name in ("a,b", 'c"d', "e\tf")]
    assert bodies(copy_begin(described, "csv", header=True)) == server.copy("COPY named TO STDOUT (FORMAT csv, HEADER)")


@pytest.mark.parametrize("options", [{"delimiter": ""}, {"delimiter": "ab"}, {"delimiter": "é"}, {"delimiter": "\n"}])
def test_delimiters_are_single_bytes(options: dict[str, str]) -> None:
    batch = pa.record_batch([pa.array([1])], names=["c"])
    with pytest.raises(ProtocolError):
        copy_rows(batch, columns([types.INT4]), "text", **options)  # type: ignore[arg-type]


def test_uuids_of_other_spellings() -> None:
    value = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    batch = pa.record_batch([pa.array([value.hex, str(value).upper(), None])], names=["c"])
    made = data_rows(batch, columns([types.UUID]), [1])
    assert made.data == b"".join(simple([[value], [value], [None]], [types.UUID], [1]))


@settings(max_examples=examples(100))
@given(
    st.lists(st.text(st.sampled_from('a,"\\\t\n\r;é.N\v'), max_size=5), min_size=1, max_size=3),
    st.sampled_from(["text", "csv"]),
    st.fixed_dictionaries(
        {},
        optional={
            "delimiter": st.sampled_from([",", ";", "\t"]), "null": st.sampled_from(["", "a", "\\N"]),
            "quote": st.just("'"), "escape": st.sampled_from(["\\", '"']),
        },
    ),
)  # fmt: skip
def test_names_are_written_like_values(names: list[str], form: Any, options: dict[str, str]) -> None:
    """The server writes the line of names by itself, and a worker writes columns of values: both by the same rules."""
    columns = [ResultColumn(name, types.TEXT) for name in names]
    batch = pa.record_batch([pa.array([name]) for name in names], names=[str(at) for at in range(len(names))])
    row = copy_rows(batch, columns, form, **options)  # type: ignore[arg-type]
    assert copy_begin(columns, form, header=True, **options) == row.data  # type: ignore[arg-type]
