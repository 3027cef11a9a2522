"""Whatever is written, the answer is a policy or a PolicyError, with lines and in plain words."""

from __future__ import annotations

import re
from typing import Any

import yaml
from conftest import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_policy import GOOD, SMALL

from sqlanon import policy
from sqlanon.errors import PolicyError
from sqlanon.policy import Policy, Source

FORBIDDEN = re.compile(r"pydantic|Traceback|<class|object at 0x|https?://errors|_type\b|NoneType|\bdict\b|\bstr\b")


def is_answered(text: str) -> None:
    try:
        policy.parse(text)
    except PolicyError as error:
        lines = str(error).splitlines()
        said = [line for line in lines if not line.startswith("  hint: ")]
        many = re.fullmatch(r"(\d+) problems in policy\.yml", said[-1])
        problems = said[:-1] if many else said
        assert all(re.match(r"policy\.yml:[1-9]\d*:", line) for line in problems), error
        assert len(problems) == (int(many[1]) if many else 1)
        found = FORBIDDEN.search("\n".join(problems))
        assert found is None or found[0] in text, error


YAML_ISH = st.text(st.sampled_from("ab15:-,.[]{}&*!|>%@`'\"#?~<= \t\n\\u\u2028é"), max_size=60)
NAMES = """role weight on census attribute qid k l t age zip disease name sensitive quasi_identifier
    identifier k_anonymity xy_anonymity distinct_l_diversity intervals widths csv prefix tree
    dates levels value << {"""
WORDS = st.sampled_from([*Policy.model_fields, *Source.model_fields, *NAMES.split()])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=5) | st.dates()
DATA = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | SCALARS, inner, max_size=4)
)


@settings(deadline=None, max_examples=examples(150))
@given(YAML_ISH)
@example('"\\UFFFFFFFF"')
@example("%YAML 9" + "9" * 5000 + ".1\n---\na: b")
@example("? [a]\n: b")
@example("[" * 5000)
@example("- " * 5000)
@example("a: " + "1" * 5000)
@example("a: !!int x")
@example("!<tag:yaml.org,2002:str> a: b")
@example("a: \ud800")
def test_any_text_is_answered(text: str) -> None:
    is_answered(text)


@settings(deadline=None, max_examples=examples(150))
@given(YAML_ISH, st.integers(0, len(GOOD)), st.integers(0, 12))
def test_any_damage_to_a_good_policy_is_answered(noise: str, start: int, lost: int) -> None:
    is_answered(GOOD[:start] + noise + GOOD[start + lost :])


@settings(deadline=None, max_examples=examples(150))
@given(st.dictionaries(st.sampled_from([*Policy.model_fields]), DATA), st.booleans())
def test_any_data_is_answered(data: dict[str, Any], complete: bool) -> None:
    whole = {**yaml.safe_load(SMALL), **data} if complete else data
    is_answered(yaml.safe_dump(whole, allow_unicode=True))


@settings(deadline=None, max_examples=examples(150))
@given(DATA, DATA, DATA)
def test_any_parameter_is_answered(one: Any, two: Any, three: Any) -> None:
    data = yaml.safe_load(SMALL)
    data["models"] = [
        {"xy_anonymity": {"x": one, "y": two, "k": three}},
        {"k_anonymity": {"k": 2, "qid": one}},
    ]
    data["hierarchies"] = {"age": {"intervals": {"widths": two, "min": three}}, "disease": {"tree": one}}
    data["columns"]["zip"] = {"role": three, "weight": one}
    is_answered(yaml.safe_dump(data, allow_unicode=True))
