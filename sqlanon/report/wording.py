"""Numbers and names for people: short, but never rounded into a lie."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlanon.report.markup import visible

NOTHING = "–"
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LETTERS = "k|l|t|e|m|n|c|h|cl|nt|ff|xy|alpha|beta|delta|epsilon"
_KINDS = "anonymity|diversity|closeness|likeness|disclosure|presence|map|privacy"


def _odd(value: float | None) -> str | None:
    if value is None:
        return NOTHING
    if isinstance(value, int):
        return None
    return "not measurable" if math.isnan(value) else "infinite" if math.isinf(value) else None


def _scientific(value: float) -> str:
    """
    >>> _scientific(10**400), _scientific(-1.5e-7), _scientific(9.9999e-6)
    ('1 × 10⁴⁰⁰', '-1.5 × 10⁻⁷', '1 × 10⁻⁵')
    """
    shift = 0
    if isinstance(value, int):
        # An integer may be too large for a float, the quotient of two integers is not.
        shift = math.floor(math.log10(abs(value)))
        value = value / 10**shift
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{float(mantissa):g} × 10{str(int(exponent) + shift).translate(_SUPERSCRIPT)}"


def count(value: int | None) -> str:
    """
    >>> count(10000), count(None), count(10**18)
    ('10,000', '–', '1 × 10¹⁸')
    """
    if value is None:
        return NOTHING
    return f"{value:,}" if abs(value) < 10**15 else _scientific(value)


def plural(number: int, noun: str) -> str:
    """
    >>> plural(1, "row"), plural(2000, "row"), plural(2, "class")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{count(number)} {noun if number == 1 else noun + ('es' if noun.endswith('s') else 's')}"


def measure(value: float | None, digits: int = 4) -> str:
    """A measured value.

    >>> measure(5.0), measure(0.74732179), measure(123456.7), measure(3.2e20), measure(1e-9), measure(float("nan"))
    ('5', '0.7473', '123,457', '3.2 × 10²⁰', '1 × 10⁻⁹', 'not measurable')
    """
    if odd := _odd(value):
        return odd
    assert value is not None
    if value == 0 or (abs(value) < 10**15 and value == int(value)):
        return f"{int(value):,}"
    size = abs(value)
    if size >= 10**15 or size < 1e-4:
        return _scientific(value)
    if size >= 1000:
        return f"{value:,.0f}" if digits <= 4 else f"{value:,.{digits - 4}f}"
    return f"{value:.{digits}g}"


def distinguish(first: float | None, second: float | None) -> tuple[str, str]:
    """Two values with as many digits as it takes to see that they differ.

    >>> distinguish(4.99999, 5.0), distinguish(0.3, 0.2)
    (('4.99999', '5'), ('0.3', '0.2'))
    """
    texts = measure(first), measure(second)
    for digits in range(5, 16):
        if texts[0] != texts[1] or first == second:
            break
        texts = measure(first, digits), measure(second, digits)
    return texts


def share(value: float | None) -> str:
    """A share as a percentage; only an exact 0 or 1 is shown as such.

    >>> share(0.0124), share(0.2), share(0.99999), share(0.000001), share(0), share(1.0), share(3.4), share(None)
    ('1.24%', '20%', '>99.9%', '<0.01%', '0%', '100%', '340%', '–')
    """
    if odd := _odd(value):
        return odd
    assert value is not None
    if value > 1e6 or value < 0:
        return measure(value)
    if 0 < value < 0.0001:
        return "<0.01%"
    if 0.999 < value < 1:
        return ">99.9%"
    digits = 2 if value < 0.1 else 1 if value < 1 else 0
    shown = f"{value * 100:,.{digits}f}"
    return (shown.rstrip("0").rstrip(".") if digits else shown) + "%"


def odds(risk: float | None) -> str | None:
    """A probability as one chance in so many, rounded towards the higher risk.

    >>> odds(0.2), odds(1.0), odds(0.003), odds(0.0)
    ('1 in 5', 'certain', '1 in 333', None)
    """
    if risk is None or not 0 < risk <= 1:
        return None
    chances = 1 / risk
    # 1 / 0.2 may come out a hair below 5.
    whole = round(chances) if math.isclose(chances, round(chances), rel_tol=1e-9) else math.floor(chances)
    return "certain" if risk == 1 else f"1 in {whole:,}" if whole > 1 else None


def compact(value: float, digits: int = 3) -> str:
    """A number on an axis.

    >>> compact(1500), compact(0.25), compact(2e6), compact(40), compact(3e30)
    ('1.5k', '0.25', '2M', '40', '3 × 10³⁰')
    """
    if abs(value) >= 10**15:
        return _scientific(value)
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < 1000 * size:
            return f"{value / size:.{digits}g}{letter}"
    return f"{value:.{digits}g}"


def list_names(names: Sequence[str], most: int = 8) -> str:
    """
    >>> list_names(["age", "zip", "sex"]), list_names(["a", "b", "c"], most=2)
    ('age, zip and sex', 'a, b and 1 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _width(character: str) -> float:
    if unicodedata.combining(character):
        return 0
    if character in "MWm@%—…":
        return 1.5
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def columns_of(text: str) -> float:
    """How many columns a text takes: an ordinary character takes one, a Chinese one two.

    >>> columns_of("Sex"), columns_of("内科"), columns_of("MW")
    (3, 4, 3.0)
    """
    return sum(map(_width, text))


def shorten(text: str, width: float) -> str:
    """One line, of at most so many columns.

    >>> shorten("Gastroenterology and more", 10), shorten("内科内科内科", 7), shorten("a\\n b", 9)
    ('Gastroen…', '内科…', 'a b')
    """
    most = int(width * 20)  # a text may be huge: no more of it is looked at than could be shown
    line = " ".join(visible(text[:most]).split())
    if columns_of(line) <= width and len(text) <= most:
        return line
    kept, used = "", _width("…")
    for character in line:
        used += _width(character)
        if used > width:
            break
        kept += character
    return kept.rstrip() + "…"


def model_title(name: str) -> str:
    """
    >>> model_title("k_anonymity"), model_title("distinct_l_diversity"), model_title("alpha_k_anonymity")
    ('k-anonymity', 'distinct l-diversity', 'alpha k-anonymity')
    """
    return re.sub(rf"\b({_LETTERS}) ({_KINDS})\b", r"\1-\2", name.replace("_", " "))


def moment(text: str) -> str:
    """A time stamp of ISO 8601 for people, or the text itself.

    >>> moment("2026-11-16T05:00:00Z"), moment("yesterday")
    ('16 November 2026, 05:00 UTC', 'yesterday')
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return text
    if read.tzinfo is None:
        return f"{read.day} {read:%B %Y, %H:%M}"
    universal = read.astimezone(UTC)
    return f"{universal.day} {universal:%B %Y, %H:%M} UTC"


def first_sentence(text: str) -> str:
    """
    >>> first_sentence("Every class is large. More follows (e.g. here).")
    'Every class is large.'
    """
    found = re.match(r".+?[.:](?=\s+[A-Z(]|$)", text, re.DOTALL)
    return found[0].rstrip(":") if found else text
