"""check, risk, attack, compare and publish on rows: the same numbers as pandas, and as a policy with an engine."""

from __future__ import annotations

import xml.dom.minidom
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from test_anonymize import QI, patients, smallest_class

import sqlanon as sa
from sqlanon.errors import PolicyError, RequirementBroken, SourceError

COLUMNS = dict.fromkeys(QI, "quasi_identifier") | {"disease": "sensitive"}


def policy(k: int = 5, **more: Any) -> dict[str, Any]:
    return {"columns": dict(COLUMNS), "models": [{"k_anonymity": {"k": k}}], **more}


# ---- check


def test_a_check_counts_what_pandas_counts() -> None:
    source = patients()
    found = sa.check(source, quasi_identifiers=["zip", "sex"], sensitive="disease", k=5, l=2)
    sizes = source.groupby(["zip", "sex"]).size()
    values = source.groupby(["zip", "sex"])["disease"].nunique()
    by_model = {item.model: item for item in found.checks}
    assert (by_model["k_anonymity"].classes, by_model["k_anonymity"].broken_classes) == (len(sizes), (sizes < 5).sum())
    assert by_model["k_anonymity"].measured == sizes.min() and found.records == len(source)
    assert by_model["distinct_l_diversity"].broken_classes == (values < 2).sum()
    with pytest.raises(RequirementBroken, match="2 requirements are broken") as caught:
        found.raise_if_broken()
    assert f"{(sizes < 5).sum()} of {len(sizes)} classes broken" in str(caught.value)


def test_what_holds_raises_nothing() -> None:
    source = pd.DataFrame({"sex": ["f", "m"] * 5})
    assert sa.check(source, quasi_identifiers="sex", k=5).raise_if_broken().holds
    with pytest.raises(RequirementBroken, match="k_anonymity: 2 of 2 classes broken, the worst measures 5"):
        sa.check(source, quasi_identifiers="sex", k=6).raise_if_broken()


def test_no_rows_are_broken() -> None:
    empty = pd.DataFrame({"sex": pd.Series([], dtype="str")})
    with pytest.raises(RequirementBroken, match="there is no row to measure"):
        sa.check(empty, quasi_identifiers="sex", k=2).raise_if_broken()


def test_all_ways_to_ask_find_the_same(tmp_path: Path) -> None:
    source = patients(60)
    file = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(file)) as made:
        made.register("rows", source)
        made.execute("CREATE TABLE patients AS FROM rows")
    written = tmp_path / "policy.yml"
    written.write_text(
        "source: {database: clinic.duckdb, table: patients}\n"
        "columns: {age: quasi_identifier, zip: quasi_identifier, sex: quasi_identifier, disease: sensitive}\n"
        "models: [{k_anonymity: {k: 5}}]\n"
    )
    source.to_csv(tmp_path / "rows.csv", index=False)
    connection, loaded = duckdb.connect(str(file)), sa.load(written)
    with_source = policy() | {"source": {"table": "patients"}}
    keywords: dict[str, Any] = {"quasi_identifiers": QI, "k": 5}
    found = [
        sa.check(source, **keywords),
        sa.check(source, policy()),
        sa.check(source, policy=loaded),
        sa.check(tmp_path / "rows.csv", **keywords),
        sa.check("patients", connection=connection, **keywords),
        sa.check("patients", connection, **keywords),
        sa.check("SELECT * FROM patients", connection, **keywords),
        sa.check(loaded, sa.connect(connection)),
        sa.check(policy=loaded, engine=sa.connect(connection)),
        sa.check(loaded, connection),
        sa.check(with_source, connection),
    ]
    connection.close()
    found += [sa.check(loaded), sa.check(written), sa.check(str(written))]
    counted = {tuple((item.model, item.classes, item.broken_classes, item.measured) for item in each.checks)
               for each in found}  # fmt: skip
    assert len(counted) == 1 and {each.records for each in found} == {60}


def test_a_release_is_checked_beside_its_source() -> None:
    source = patients()
    release = sa.anonymize(source, quasi_identifiers=QI, sensitive="disease", k=5)
    assert sa.check(source, release=release).holds
    assert sa.check(source, release=release.to_pandas(), quasi_identifiers=QI, sensitive="disease", k=5).holds
    assert sa.check(release.to_pandas(), quasi_identifiers=QI, k=5).holds
    assert not sa.check(source, release=release.to_pandas().head(20), quasi_identifiers=QI, k=5).holds


@pytest.mark.parametrize("ask", [sa.check, sa.risk, sa.attack])
def test_bad_rows_are_refused_everywhere(ask: Any) -> None:
    twice = pd.concat([patients(9), patients(9)], axis=1)
    keywords: dict[str, Any] = {"quasi_identifiers": "age"} | ({"k": 2} if ask is sa.check else {})
    with pytest.raises(SourceError, match="same name"):
        ask(twice, **keywords)
    with pytest.raises(PolicyError, match="'agee' is not in the source"):
        ask(patients(9), **(keywords | {"quasi_identifiers": "agee"}))
    with pytest.raises(PolicyError, match="nothing to read"):
        ask()
    with pytest.raises(PolicyError, match="did you mean 'columns'"):
        ask(patients(9), {"column": COLUMNS, "models": [{"k_anonymity": {"k": 2}}]})
    with pytest.raises(TypeError):
        sa.check(patients(9), quasi_identifer="age", k=2)  # type: ignore[call-arg]


# ---- risk and attacks


def test_risk_is_what_pandas_computes() -> None:
    source = patients()
    found = sa.risk(source, quasi_identifiers=["zip", "sex"])
    size = source.groupby(["zip", "sex"])["age"].transform("size")
    prosecutor = found.measures["prosecutor"]
    assert prosecutor["highest"] == pytest.approx((1 / size).max())
    assert prosecutor["average"] == pytest.approx((1 / size).mean())
    release = sa.anonymize(source, quasi_identifiers=QI, sensitive="disease", k=5)
    frame = release.to_pandas()
    after = frame.groupby(QI)["disease"].transform("size")
    measured = sa.risk(source, release=release).measures["prosecutor"]
    assert measured["average"] == pytest.approx((1 / after).mean()) and measured["highest"] <= 1 / 5


def test_attacks_on_a_release_of_rows() -> None:
    source = patients(100)
    release = sa.anonymize(source, quasi_identifiers=QI, sensitive="disease", k=5)
    names = ["homogeneity"]
    by_release = sa.attack(source, release, names=names)
    by_keywords = sa.attack(source, release.to_pandas(), quasi_identifiers=QI, sensitive="disease", names=names)
    (one,), (other,) = by_release.attacks, by_keywords.attacks
    assert one.after is not None and one.after == other.after and one.before == other.before
    # A person is broken whose class has one value: counted in pandas.
    alone = source.groupby(QI)["disease"].transform("nunique") == 1
    frame = release.to_pandas()
    still = frame.groupby(QI)["disease"].transform("nunique") == 1
    assert (one.before.broken, one.after.broken) == (alone.sum(), still.sum())


# ---- compare and publish


@pytest.mark.full
def test_compared_policies_are_a_list_that_can_be_drawn(tmp_path: Path) -> None:
    source = patients(100)
    found = sa.compare(source, {"weak": policy(2), "strong": policy(10)})
    assert [item.policy for item in found] == ["weak", "strong"] and all(item.holds for item in found)
    assert isinstance(found, list) and found[0].risk > found[1].risk and found[0].loss < found[1].loss  # type: ignore[operator]
    frame = found.to_pandas()
    assert list(frame["risk"]) == [item.risk for item in found] and "weak" in found._repr_html_()
    drawn = found.plot()
    file = drawn.save(tmp_path / "map.svg")
    marks = xml.dom.minidom.parse(str(file)).getElementsByTagName("circle")
    assert len([mark for mark in marks if mark.getAttribute("class").startswith("mark")]) == 2
    assert "<svg" in drawn._repr_html_() and "<svg" in found.report(tmp_path / "page.html").read_text("utf-8")
    assert [item.policy for item in sa.compare(source, [policy(2)])] == ["policy 1"]


@pytest.mark.full
def test_comparing_policies_with_an_engine_goes_on_as_before() -> None:
    connection = duckdb.connect()
    connection.register("patients", patients(30))
    asked = [sa.Policy.model_validate(policy(5, algorithm="mondrian") | {"source": {"table": "patients"}})]
    with_engine = sa.compare(asked, sa.connect(connection))
    by_keyword = sa.compare(policies=asked, engine=sa.connect(connection))
    assert with_engine[0].holds and by_keyword[0].loss == with_engine[0].loss
    with pytest.raises(PolicyError, match="no policy is given"):
        sa.compare([], sa.connect(connection))


def test_publishing_rows_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    asked = policy(4, algorithm="mondrian", release={"path": str(file)})
    done = sa.publish(patients(80), asked, workload=False)
    assert done.evidence is not None and done.evidence.holds
    assert smallest_class(pd.read_parquet(file), QI) >= 4
    with pytest.raises(PolicyError, match="names no release"):
        sa.publish(patients(80), policy(4))


def test_publishing_into_an_open_connection() -> None:
    connection = duckdb.connect()
    rows = patients(80)
    connection.execute("CREATE TABLE patients AS FROM rows")
    asked = policy(4, algorithm="mondrian", release={"table": "released"}, source={"table": "patients"})
    sa.publish(asked, connection, workload=False)
    assert smallest_class(connection.table("released").df(), QI) >= 4 and len(rows) == 80
