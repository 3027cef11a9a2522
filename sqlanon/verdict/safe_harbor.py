"""HIPAA: the 18 identifiers of Safe Harbor, 45 CFR 164.514(b)(2), and the evidence for an Expert Determination.

Each identifier is looked for by the names of the columns of the release, by their roles, and by the forms of their
values. Free text, bytes and nested values are not read: a release that has some is not assessed, since any of the
identifiers may be in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlanon.evidence.suggest_roles import (
    KEYS,
    KNOWN_OUTSIDE,
    NAMES,
    PERSONS,
    SENSITIVE,
    is_person_key,
    speaks_of,
    words,
)
from sqlanon.verdict.column_contents import DATED, FormCount, ReleasedColumn
from sqlanon.verdict.criteria import Criterion, Judgement, Regulation, met, never_assessed, not_assessed, not_met
from sqlanon.verdict.release_facts import ReleaseFacts

CITE = "45 CFR 164.514(b)(2)(i)"
# Areas of three digits with 20,000 people or fewer in the census of 2000: HHS, Guidance Regarding Methods for
# De-identification of Protected Health Information, 2012.
RESTRICTED_ZIP3 = (
    "036", "059", "063", "102", "203", "556", "692", "790", "821", "823", "830", "831", "878", "879", "884", "890",
    "893",
)  # fmt: skip
PERSON_NAMES = """
    firstname* first_name lastname* last_name surname* forename* fullname* full_name maiden* birth_name family_name
    geburtsname* vorname* nachname* familienname* prenom* nom apellido* nickname* username*
"""
PLACES = """
    address* adress* anschrift* direccion* street* strasse* hausnummer* rue calle domicilio* city* town* stadt ort
    wohnort* ville ciudad* municip* gemeinde* commune* county* district* bezirk* landkreis* precinct* parish* tract*
    block_group geocode* lat latitude* lon lng longitude* coordinate* gps
"""
UNCLEAR_PLACES = "region* province* provinz* provincia* canton* kanton* departement* departamento* area areas location*"


@dataclass(frozen=True)
class Identifier:
    """One of the 18: the words of column names and the forms of values by which it is found."""

    letter: str
    ident: str
    title: str
    words: str
    forms: tuple[str, ...] = ()
    share: float = 0.0  # of the values that must have a form; 0 where a single one is enough


IDENTIFIERS = (
    Identifier("D", "phone", "Telephone numbers",
               "phone* telephone* telefon* telf mobile mobil handy* cellphone* movil", ("phone",), 0.9),
    Identifier("E", "fax", "Fax numbers", "fax telefax*"),
    Identifier("F", "email", "Electronic mail addresses",
               "email* e_mail* mail mailadresse courriel* correo*", ("email",)),
    Identifier("G", "ssn", "Social security numbers",
               "ssn nino social_security* sozialversicherung* securite_sociale seguridad_social", ("ssn",)),
    Identifier("H", "medical_record", "Medical record numbers", "mrn medical_record* nhs krankenaktennummer*"),
    Identifier("I", "health_plan", "Health plan beneficiary numbers",
               "insurance_id insurance_n* policy_n* versicherungsnummer* beneficiary_id beneficiary_n* member_id"),
    Identifier("J", "account", "Account numbers",
               "account account_n* account_id iban* kontonummer* creditcard* credit_card* kreditkarte* tarjeta*",
               ("iban", "card")),
    Identifier("K", "license", "Certificate and license numbers",
               "licen?e* certificate_n* fuhrerschein* passport* passeport* pasaporte* reisepass* ausweis*"),
    Identifier("L", "vehicle", "Vehicle identifiers, serial and plate numbers",
               "plate license_plate vin kennzeichen* vehicle_id", ("vin",), 0.9),
    Identifier("M", "device", "Device identifiers and serial numbers",
               "imei imsi device_id device_n* serial_n* mac_address", ("mac",)),
    Identifier("N", "url", "Web addresses (URL)", "url urls website* homepage*", ("url",)),
    Identifier("O", "ip", "Internet protocol addresses", "ip ip_address* ipv4 ipv6", ("ip",)),
    Identifier("P", "biometric", "Biometric identifiers", "biometric* fingerprint* retina* iris_scan voice_print* dna"),
    Identifier("Q", "photo", "Full-face photographs", "photo* picture* portrait* image_of*"),
)  # fmt: skip


def unread_columns(facts: ReleaseFacts) -> str | None:
    """Which columns may hold anything, and were not read."""
    unread = [f"'{item.name}' ({item.kinds['free_text']})" for item in facts.shown if "free_text" in item.kinds]
    return f"free text was not read: {', '.join(unread)}" if unread else None


def _conclude(facts: ReleaseFacts, found: list[str], unclear: list[str] | None = None, seen: str = "") -> Judgement:
    """Not met by what was found; not assessed where something is unclear or was not read; met otherwise."""
    if not facts.shown:
        return not_assessed("the release shows no value")
    if found:
        return not_met("; ".join(found))
    if unclear:
        return not_assessed("; ".join(unclear))
    if unread := unread_columns(facts):
        return not_assessed(unread)
    return met(seen or f"none among {len(facts.columns)} columns, by name and values")


def _said(item: ReleasedColumn, kind: str) -> str:
    return f"'{item.name}' ({item.kinds[kind]})"


def _rows(number: int) -> str:
    return f"{number:,} row{'s' if number != 1 else ''}"


def _find(item: Identifier, facts: ReleaseFacts) -> tuple[list[str], list[str]]:
    """The columns that hold an identifier, and those of which some values look like one."""
    found, unclear = [], []
    for each in facts.shown:
        if speaks_of(each.name, item.words):
            found.append(f"'{each.name}' (by its name)")
            continue
        hits = each.rows_of(*item.forms)
        if hits and hits >= item.share * each.filled:
            found.append(f"'{each.name}' (by its values, {_rows(hits)})")
        elif hits:
            unclear.append(f"{_rows(hits)} of '{each.name}' look like it")
    return found, unclear


def find_direct_identifiers(facts: ReleaseFacts) -> list[str]:
    """All direct identifiers in the columns: by role, by name, by values."""
    found = [f"'{item.name}' (an identifier of the policy)" for item in facts.shown if item.role == "identifier"]
    found += [f"{item.title.lower()}: {each}" for item in IDENTIFIERS for each in _find(item, facts)[0]]
    found += [f"names: {each}" for each in _person_names(facts)[0]]
    return list(dict.fromkeys(found))


def _looks_for(item: Identifier) -> Callable[[ReleaseFacts], Judgement]:
    return lambda facts: _conclude(facts, *_find(item, facts))


def _person_names(facts: ReleaseFacts) -> tuple[list[str], list[str]]:
    """Columns of names of persons, and columns of which that is not clear: a drug has a name, too."""
    found, unclear = [], []
    for item in facts.shown:
        if item.kinds.keys() & {"age", "date", "zip"}:
            continue
        alone = [word for word in words(item.name) if not word.isdigit()] in (["name"], ["names"], ["nombre"])
        of_person = speaks_of(item.name, PERSONS) and speaks_of(item.name, "name names *name")
        if alone or of_person or speaks_of(item.name, PERSON_NAMES):
            found.append(f"'{item.name}' (by its name)")
        elif speaks_of(item.name, "name names *name") and not speaks_of(item.name, f"{SENSITIVE} {KNOWN_OUTSIDE}"):
            unclear.append(f"are the values of '{item.name}' names of persons?")
    return found, unclear


def _names(facts: ReleaseFacts) -> Judgement:
    found, unclear = _person_names(facts)
    return _conclude(facts, found, unclear)


def _geography(facts: ReleaseFacts) -> Judgement:
    """Nothing smaller than a state but the first three digits of a ZIP code."""
    found, unclear, seen = [], [], []
    for item in facts.shown:
        if "zip" in item.kinds:
            fine = item.zips.get("other", FormCount()).rows
            if fine:
                found.append(f"{_said(item, 'zip')}: {_rows(fine)} tell more than three digits")
            else:
                seen.append(f"{_said(item, 'zip')} tells three digits at most")
        elif speaks_of(item.name, PLACES) and "age" not in item.kinds and "date" not in item.kinds:
            found.append(f"'{item.name}' (by its name)")
        elif speaks_of(item.name, UNCLEAR_PLACES):
            unclear.append(f"is a value of '{item.name}' smaller than a state?")
    return _conclude(facts, found, unclear, "; ".join(seen))


def _zip3(facts: ReleaseFacts) -> Judgement:
    codes = [item for item in facts.shown if "zip" in item.kinds]
    found = [
        f"{_said(item, 'zip')}: {_rows(item.restricted)} with a restricted area" for item in codes if item.restricted
    ]
    finer = [item.name for item in codes if item.zips.get("other", FormCount()).rows]
    unclear = [f"values of '{name}' are no areas of three digits" for name in finer]
    seen = "; ".join(f"{_said(item, 'zip')}: no restricted area" for item in codes) or "no column is a ZIP code"
    return _conclude(facts, found, unclear, seen)


def _dates(facts: ReleaseFacts) -> Judgement:
    found, seen = [], []
    for item in facts.shown:
        if "date" not in item.kinds:
            if dated := item.rows_of(*DATED):
                found.append(f"'{item.name}': {_rows(dated)} look like dates")
            continue
        coarse = sum(item.dates.get(form, FormCount()).rows for form in ("year", "years"))
        if item.filled > coarse:
            found.append(f"{_said(item, 'date')}: {_rows(item.filled - coarse)} tell more than a year")
        else:
            seen.append(f"{_said(item, 'date')} tells years only")
    return _conclude(facts, found, seen="; ".join(seen) or "no column is a date, by type, hierarchy, name and values")


def _ages(facts: ReleaseFacts) -> Judgement:
    found, seen = [], []
    for item in facts.shown:
        if "birth_year" in item.kinds and item.oldest:
            found.append(
                f"{_said(item, 'birth_year')}: {_rows(item.oldest)} with a year of birth of 90 years ago or more"
            )
        if "age" not in item.kinds:
            continue
        beyond = item.ages.get("other", FormCount()).rows
        groups = sum(item.ages.get(form, FormCount()).distinct for form in ("open", "straddling"))
        if beyond:
            found.append(
                f"{_said(item, 'age')}: {_rows(beyond)} tell an age over 89, or a label that is not understood"
            )
        elif groups > 1:
            found.append(f"{_said(item, 'age')}: ages over 89 are in {groups} groups, not in one")
        else:
            seen.append(f"{_said(item, 'age')}: ages over 89 are one group, or not there")
    return _conclude(facts, found, seen="; ".join(seen) or "no column is an age or a year of birth")


def _other_codes(facts: ReleaseFacts) -> Judgement:
    """A code derived from information about the person is no exception: 164.514(c)(1)."""
    found = [f"'{name}': a keyed pseudonym is derived from PHI, 164.514(c)(1)" for name in facts.pseudonyms]
    unclear = []
    for item in facts.shown:
        if item.pseudonym or item.kinds.keys() & {"free_text", "zip", "age", "date"}:
            continue
        if item.role == "identifier":
            found.append(f"'{item.name}' (an identifier of the policy)")
        elif item.has("uuid", 0.5):
            found.append(f"'{item.name}' (UUIDs, by its values)")
        elif is_person_key(item.name) or (speaks_of(item.name, f"{KEYS} {NAMES}") and item.nearly_unique):
            found.append(f"'{item.name}' (by its name)")
        elif item.nearly_unique and item.shape != "number":
            unclear.append(f"nearly every row has its own value of '{item.name}': is it a code?")
    return _conclude(facts, found, unclear)


def _expert(facts: ReleaseFacts) -> Judgement:
    """Not assessed by a tool; what an expert would look at is listed."""
    listed = []
    if facts.chances is not None:
        average = "" if facts.chances.average is None else f", average {facts.chances.average:.4f}"
        listed.append(f"highest risk {facts.chances.highest:.4f}{average}")
    if facts.evidence is not None and facts.evidence.checks:
        listed.append(f"{len(facts.evidence.checks)} requirements checked on the release as written")
    if facts.attacks is not None:
        tried = facts.results_of(*{str(item.get("name")) for item in facts.attacks.get("attacks", ())})
        listed.append(f"{len([item for item in tried if item.why is None])} attacks carried out")
    said = f"; evidence for the expert: {', '.join(listed)}" if listed else "; no evidence was measured"
    return not_assessed(f"a person with statistical knowledge must determine and document it{said}")


def _criterion(letter: str, ident: str, title: str, test: str, threshold: str,
               judge: Callable[[ReleaseFacts], Judgement]) -> Criterion[ReleaseFacts]:  # fmt: skip
    return Criterion(f"safe_harbor.{ident}", f"({letter}) {title}", f"{CITE}({letter})", test, threshold, "law", judge)


SAFE_HARBOR = Regulation(
    ident="safe_harbor",
    title="HIPAA Safe Harbor",
    note="All 18 identifiers must be removed, and the entity must not know that what is left identifies anybody.",
    criteria=(
        _criterion("A", "names", "Names", "columns with names of persons", "0", _names),
        _criterion("B", "geography", "Places smaller than a state", "columns with places; digits of ZIP codes",
                   "no place; three digits at most", _geography),
        _criterion("B", "zip3", "ZIP areas with 20,000 people or fewer",
                   "rows with one of the 17 areas that HHS lists from the census of 2000; newer counts may list others",
                   "0: such an area is written 000", _zip3),
        _criterion("C", "dates", "Dates", "rows that tell more of a date than its year", "0", _dates),
        _criterion("C", "ages", "Ages over 89", "rows with an age over 89, or a year of birth that tells it",
                   "0: one group of 90 or older", _ages),
        *(
            _criterion(item.letter, item.ident, item.title, "columns, by name and values", "0", _looks_for(item))
            for item in IDENTIFIERS
        ),
        _criterion("R", "codes", "Any other unique number, characteristic or code",
                   "columns with keys, pseudonyms, UUIDs, or a value of its own in nearly every row", "0",
                   _other_codes),
        Criterion(
            "safe_harbor.actual_knowledge",
            "No actual knowledge",
            "45 CFR 164.514(b)(2)(ii)",
            "what the entity knows",
            "none",
            "law",
            never_assessed("what the covered entity knows is not in the data"),
        ),
    ),
)  # fmt: skip

EXPERT = Regulation(
    ident="expert_determination",
    title="HIPAA Expert Determination",
    note="",
    criteria=(
        Criterion(
            "expert_determination.very_small_risk",
            "The risk is very small",
            "45 CFR 164.514(b)(1)",
            "an expert's analysis, with its methods and results documented",
            "very small; no number in the law",
            "law",
            _expert,
        ),
    ),
)
