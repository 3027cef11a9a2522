"""What the columns of a release hold, counted in the engine: forms of values, and kinds of columns with their reasons.

A form is a regular expression in what DuckDB and PostgreSQL share. Values are grouped first, so that a form is looked
for once a value; only counts leave the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlanon.engines import ColumnInfo, Engine
from sqlanon.evidence.suggest_roles import AGES, POSTAL_CODES, base_type, shape_of, speaks_of
from sqlanon.policy import Policy, Source
from sqlanon.policy.checks import Role
from sqlanon.relations.source import SUPPRESSED, relation
from sqlanon.sqltree.tree import alias, bigint, case, column, count_all, literal, nest_query, select, sum_bigint, text

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_UNTIL_89 = "([0-9]|[1-8][0-9])([.]0+)?"
_UNTIL_90 = "([0-9]|[1-8][0-9]|90)([.]0+)?"
_MONTHS = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mär|Mai|Okt|Dez)[a-zä]*"
# A value counts for the first form that it has. Narrow forms come before wide ones: a date is no phone number.
FORMS = {
    "email": "^[^@ ]+@[^@ ]+[.][A-Za-z]{2,}$",
    "url": "^([a-zA-Z][a-zA-Z0-9+.-]*://|www[.])[^ ]+$",
    "uuid": "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    "mac": "^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$",
    "time": "^[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?$",
    "ip": f"^({_OCTET}([.]{_OCTET}){{3}}|[0-9a-fA-F]{{0,4}}(:[0-9a-fA-F]{{0,4}}){{2,7}})(/[0-9]+)?$",
    "ssn": "^[0-9]{3}-[0-9]{2}-[0-9]{4}$",
    "iban": "^[A-Z]{2}[0-9]{2}( ?[A-Z0-9]){11,30}$",
    "card": "^([0-9]{4}([ -][0-9]{4}){3}|[0-9]{15,16})$",
    "vin": "^[A-HJ-NPR-Z0-9]{17}$",
    "day": "^([0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}([T ].*)?|[0-9]{1,2}[./-][0-9]{1,2}[./-]([0-9]{2}|[0-9]{4}))$",
    "month": "^[0-9]{4}-((0[1-9]|1[0-2])|Q[1-4]|W[0-9]{2})$",
    "month_name": f"^([0-9]{{1,2}}[. -]+)?{_MONTHS}[., -]+[0-9., -]*[0-9]{{2}}$",
    "postal": "^([0-9]{5}(-[0-9]{4})?|[0-9]{4}[*]|[0-9]{3}[*]{2}|[0-9]{2}[*]{3}|[0-9][*]{4})$",
    "year": "^([0-9]{4}|[0-9]{3}0s)$",
    "number": "^[+-]?[0-9]+([.,][0-9]+)?$",
    "phone": "^([+(]|00?[1-9]|[0-9]{2,4}[ /-])[0-9 ()./-]{5,18}$",
    "range": "^([[(]|[<>]|≥|≤).*$",
    "sentence": "^[^ ]+( +[^ ]+){3,}.*$",
}
DATED = ("day", "month", "month_name")
ZIP_FORMS = {
    "coarser": "^[0-9]{0,2}[*xX]+$",
    "zip3": "^[0-9]{3}[*xX]{0,2}$",
    "lost_zeros": "^[0-9]{1,2}$",
}
AGE_FORMS = {
    "until_89": f"^{_UNTIL_89}$",
    "open": f"^((>=|≥) ?{_UNTIL_90}|> ?{_UNTIL_89}|{_UNTIL_90} ?[+])$",
    "range_until_89": f"^([[(].*, ?({_UNTIL_90}[)]|{_UNTIL_89}[]])|[0-9.]+ ?[-–] ?{_UNTIL_89}|< ?{_UNTIL_90})$",
    "no_age": "^not a number$",
    "straddling": f"^[[(]{_UNTIL_90}, ?[0-9.]+[])]$",
}
DATE_FORMS = {
    "year": "^[+-]?([0-9]{1,4}|[0-9]+0s)$",
    "years": "^([[(][0-9]{4}, ?[0-9]{4}[])]|[0-9]{4} ?(-|–) ?[0-9]{4}|not a date)$",
}
DATE_WORDS = "date dates dob datum fecha timestamp geburtsdatum* geburtstag* *datum"
BIRTH_YEAR_WORDS = "yob birthyear* birth_year year_of_birth geburtsjahr* birth_years"
BIRTH_WORDS = "birth* born dob geburt* naissance nacimiento"
FREE_TEXT_WORDS = (
    "note notes notiz* comment* kommentar* remark* bemerkung* free_text freetext* freitext* narrative* memo"
)
READABLE = {"boolean", "bool", "uuid", "time", "interval"}
MOST = 0.9  # of the values have a form: that is what the column holds
SOME = 0.5
LONG = 100  # characters: no code or category is that long
UNIQUE = 0.95
FEW_ROWS = 20  # in which any column may happen to have no value twice


@dataclass(frozen=True)
class FormCount:
    rows: int = 0
    distinct: int = 0


@dataclass(frozen=True)
class ReleasedColumn:
    """A column of the release as written: what was counted in it, and what it is taken for, with the reason."""

    name: str
    role: Role | None  # None where the policy does not name it
    shape: str
    readable: bool  # whether its values can be compared with forms at all
    pseudonym: bool = False
    filled: int = 0  # rows that are neither NULL nor suppressed
    distinct: int = 0
    longest: int = 0
    forms: Mapping[str, FormCount] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)  # zip, age, date, birth_year, free_text: why
    zips: Mapping[str, FormCount] = field(default_factory=dict)
    ages: Mapping[str, FormCount] = field(default_factory=dict)
    dates: Mapping[str, FormCount] = field(default_factory=dict)
    restricted: int = 0  # rows with one of the restricted areas of three digits
    oldest: int = 0  # rows with a year of birth that tells an age over 89

    def rows_of(self, *names: str) -> int:
        return sum(self.forms.get(name, FormCount()).rows for name in names)

    def has(self, name: str, share: float = MOST) -> bool:
        return self.filled > 0 and self.rows_of(name) >= share * self.filled

    @property
    def nearly_unique(self) -> bool:
        return self.filled >= FEW_ROWS and self.distinct >= UNIQUE * self.filled


def read_columns(
    policy: Policy, engine: Engine, sources: Sequence[Source], *, restricted: Sequence[str], last_birth_year: int
) -> tuple[ReleasedColumn, ...]:
    """The columns of all tables of a release. `restricted` are the areas of three digits that may not be told;
    `last_birth_year` is the last year of birth of a person who is over 89 at the time of the release."""
    original = _source_types(policy, engine)
    found: list[ReleasedColumn] = []
    for source in sources:
        rows = relation(engine.resolve(source), engine.dialect)
        for item in engine.columns(rows):
            made = _read(policy, engine, rows, item)
            kinds = _kinds(policy, made, item, original.get(item.name))
            found.append(_look_closer(engine, rows, made, kinds, restricted, last_birth_year))
    return tuple(found)


def _source_types(policy: Policy, engine: Engine) -> dict[str, ColumnInfo]:
    rows = relation(engine.resolve(policy.source), engine.dialect)
    return {item.name: item for item in engine.columns(rows)}


def _read(policy: Policy, engine: Engine, rows: exp.Select, item: ColumnInfo) -> ReleasedColumn:
    declared = policy.columns.get(item.name)
    shape = shape_of(item)
    made = ReleasedColumn(
        name=item.name,
        role=declared.role if declared is not None else None,
        shape=shape,
        readable=shape != "other" or base_type(item.type) in READABLE,
        pseudonym=declared is not None and declared.pseudonym,
    )
    if not made.readable:
        # Bytes and nested values are not read; that there are some is all that counts.
        there = column(item.name).is_(exp.Null()).not_()
        filled = int(engine.query(select(count_all(), source=nest_query(rows.copy(), "released"), where=there))[0][0])
        return replace(made, filled=filled)
    counted, longest = count_forms(engine, rows, item.name, FORMS)
    return replace(
        made,
        filled=sum(each.rows for each in counted.values()),
        distinct=sum(each.distinct for each in counted.values()),
        longest=longest,
        forms=counted,
    )


def count_forms(
    engine: Engine, rows: exp.Select, name: str, forms: Mapping[str, str]
) -> tuple[dict[str, FormCount], int]:
    """How many rows and how many different values of a column have each form, and the length of the longest value.

    NULL and suppressed values are left out; what has no form counts as 'other'.
    """
    value = exp.column("value")
    listed = rows.select(alias(text(column(name)), "value"), append=False)
    grouped = select("value", alias(count_all(), "records"), source=nest_query(listed, "listed"), groups=["value"])
    branches = [
        (exp.RegexpLike(this=value.copy(), expression=literal(pattern)), literal(form))
        for form, pattern in forms.items()
    ]
    form = alias(case(*branches, default=literal("other")), "form")
    shown = exp.and_(value.copy().is_(exp.Null()).not_(), value.copy().neq(literal(SUPPRESSED)))
    length = alias(bigint(exp.Length(this=value.copy())), "length")
    told = select(form, "records", length, source=nest_query(grouped, "grouped"), where=shown)
    tree = select(
        "form",
        sum_bigint(exp.column("records")),
        count_all(),
        exp.Max(this=exp.column("length")),
        source=nest_query(told, "told"),
        groups=["form"],
    )
    found = engine.query(tree)
    counted = {str(each): FormCount(int(records), int(values)) for each, records, values, _ in found}
    return counted, max((int(row[3]) for row in found), default=0)


def _kinds(policy: Policy, made: ReleasedColumn, item: ColumnInfo, original: ColumnInfo | None) -> dict[str, str]:
    """What a column is taken for, and why: by its type, its hierarchy, its name, its values."""
    hierarchy = policy.hierarchies[made.name].kind if made.name in policy.hierarchies else None
    coded = made.shape in ("text", "whole")
    kinds: dict[str, str] = {}
    if hierarchy == "zip3" or (coded and speaks_of(made.name, POSTAL_CODES)):
        kinds["zip"] = "by its hierarchy" if hierarchy == "zip3" else "by its name"
    elif made.shape == "text" and made.has("postal"):
        kinds["zip"] = "by its values"
    if hierarchy == "age" or speaks_of(made.name, AGES):
        kinds["age"] = "by its hierarchy" if hierarchy == "age" else "by its name"
    if item.temporal:
        kinds["date"] = "by its type"
    elif original is not None and original.temporal:
        kinds["date"] = "by its type in the source"
    elif hierarchy == "dates":
        kinds["date"] = "by its hierarchy"
    elif made.rows_of(*DATED) >= SOME * made.filled > 0:
        kinds["date"] = "by its values"
    elif speaks_of(made.name, DATE_WORDS) and made.filled:
        kinds["date"] = "by its name"
    dated = "date" in kinds and speaks_of(made.name, BIRTH_WORDS)
    if dated or speaks_of(made.name, BIRTH_YEAR_WORDS):
        kinds["birth_year"] = "by its name"
    if made.filled and not made.readable:
        kinds["free_text"] = "its type is not read"
    elif made.shape == "text" and speaks_of(made.name, FREE_TEXT_WORDS) and made.filled:
        kinds["free_text"] = "by its name"
    elif made.shape == "text" and _reads_like_prose(made):
        kinds["free_text"] = "by its values"
    return kinds


def _reads_like_prose(made: ReleasedColumn) -> bool:
    """Several words that hardly ever repeat, or very long values. A list of diagnoses has long names, which repeat."""
    if made.longest >= LONG:
        return True
    varied = made.distinct >= SOME * made.filled or made.filled < FEW_ROWS
    return made.has("sentence", SOME) and varied


def _look_closer(
    engine: Engine,
    rows: exp.Select,
    made: ReleasedColumn,
    kinds: Mapping[str, str],
    restricted: Sequence[str],
    last_birth_year: int,
) -> ReleasedColumn:
    found = replace(made, kinds=kinds)
    if not made.readable:
        return found
    if "zip" in kinds:
        zips, _ = count_forms(engine, rows, made.name, ZIP_FORMS)
        # Leading zeros may be lost: 36 is the area 036. A code with a star after two digits is another, coarser one.
        bare = [area.lstrip("0") for area in restricted if area.startswith("0")]
        form = {"restricted": f"^(({'|'.join(restricted)})[*xX]{{0,2}}|{'|'.join(bare)})$"}
        hits = count_forms(engine, rows, made.name, form)[0].get("restricted", FormCount()).rows
        found = replace(found, zips=zips, restricted=hits)
    if "age" in kinds:
        found = replace(found, ages=count_forms(engine, rows, made.name, AGE_FORMS)[0])
    if "date" in kinds or "birth_year" in kinds:
        found = replace(found, dates=count_forms(engine, rows, made.name, DATE_FORMS)[0])
    if "birth_year" in kinds:
        found = replace(found, oldest=_rows_born_until(engine, rows, made.name, last_birth_year))
    return found


def _rows_born_until(engine: Engine, rows: exp.Select, name: str, last: int) -> int:
    """Rows whose value begins with a year up to the last one; digits of the same number sort like numbers."""
    value = exp.column("value")
    listed = rows.select(alias(text(column(name)), "value"), append=False)
    ranged = exp.RegexpLike(this=value.copy(), expression=literal("^[[(][0-9]{4}"))
    year = exp.Substring(this=value.copy(), start=case((ranged, literal(2)), default=literal(1)), length=literal(4))
    begins = exp.RegexpLike(this=value.copy(), expression=literal("^[[(]?[0-9]{4}"))
    early = exp.and_(begins, exp.LTE(this=year, expression=literal(f"{last:04d}")))
    return int(engine.query(select(count_all(), source=nest_query(listed, "listed"), where=early))[0][0])
