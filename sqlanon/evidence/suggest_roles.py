"""What a column is likely to be, from its name and from counts: a role and a hierarchy for a starter policy.

A guess errs on the safe side: what nothing is known about is a quasi-identifier, and says that it is a guess.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache
from itertools import combinations
from typing import Literal

from sqlanon.engines import ColumnInfo
from sqlanon.errors import PolicyError
from sqlanon.evidence.content_checks import CHECKS
from sqlanon.policy.checks import Role
from sqlanon.sqltree.labels import plain

Shape = Literal["text", "whole", "number", "date", "other"]

WHOLE = {
    "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
    "int2", "int4", "int8",
}  # fmt: skip
TEXTUAL = {"varchar", "text", "bpchar", "name", '"char"', "enum", "inet"}
COMPARABLE = {"boolean", "bool", "uuid", "time", "interval", "blob", "bytea"} | TEXTUAL

# Words of column names in English, German, French and Spanish, without accents. A star stands for more letters,
# an underscore joins words that follow each other.
IDENTIFYING = """
    ssn nino nhs mrn dni nif nir curp cpf bsn tin imei imsi passport* passeport* pasaporte* reisepass* ausweis*
    personalausweis* licen?e* fuhrerschein* email* e_mail* mail mailadresse courriel* correo* phone* telephone*
    telefon* telf mobile mobil handy* cellphone* movil fax firstname* lastname* surname* forename* fullname*
    maiden* birth_name family_name geburtsname* vorname* nachname* familienname* prenom* nom nombre* apellido*
    username* login nickname* street* strasse* hausnummer* hausnr rue calle domicilio* iban* kontonummer* creditcard*
    credit_card* kreditkarte* tarjeta* steuer* tax_id national_id social_security* sozialversicherung*
    versicherungsnummer* securite_sociale seguridad_social insurance_id insurance_n* policy_n* medical_record* plate
    kennzeichen* mac_address photo* picture* signature* fingerprint* biometric* note notes notiz* comment*
    kommentar* remark* bemerkung* free_text freetext* freitext* nome cognome sobrenome codice_fiscale indirizzo*
    achternaam voornaam adres telefoon* rodne_cislo pesel personnummer cpr* aadhaar imie nazwisko
"""
SENSITIVE = """
    disease* diagnos* icd condition* illness* symptom* disorder* krankheit* erkrankung* maladie* enfermedad* befund*
    treatment* behandlung* traitement* tratamiento* therap* terapia* medication* medicament* medikament* medicine*
    drug* prescription* surgery* procedure* allerg* hiv aids cancer* krebs* tumor* tumour* mental* psych* addict*
    alcohol* blood* cholesterol* glucose* bmi genetic* genom* dna lab_result* test_result* pregnan* schwanger*
    embaraz* grossesse* abort* disab* behinder* handicap* discapacidad* relig* konfession* confession* politi*
    partei* union gewerkschaft* syndicat* sindicato* sexual* salar* salaire* gehalt* wage wages lohn* income*
    einkommen* revenu ingreso* earning* sueldo* debt* schulden* dette* deuda* credit_scor* credit_rating* bonitat*
    bonitaet* schufa* balance* saldo* loan* darlehen* wealth* vermogen* vermoegen* crim* convict* offen?e* arrest*
    straf* vorstrafe* delit* prison* jail*
    health* hlth* gesundheit* sante salud saude salute gezondheid* zdrowie halsa sick* krank* ill illdays injur*
    malattia* doenca* ziekte* choroba* sjukdom* diagnoz* farmac* medicij* lek leki depress* suicid* smok* rauch* fum*
    drink* hivstatus vaccin* impf* fertil* survived survival died
    stipendio* salario* salaris* loon pensja zarobki lon inkomst* inkomen* reddito* renda rendimento* dochod*
    hhinc* hinc hincome avginc faminc netinc grossinc inc hhninc lwage* logwage* pay payment* schuld* dlug* debito* rent
    mortgage* benefit* welfare* sozialhilfe*
    vote* voting wahl* voto* stem stemt* party partito* partido* parti ideolog* leftright lib_con partij* partia
    faith* glaube* church* kirche* religie* fede fe moschee* religijn* wyznanie trosbekannelse
    *einkommen* brutto* netto* monatsgehalt jahresgehalt grundgehalt monatslohn stundenlohn *inkomen* manadslon* arslon*
    *diagnos* *krankheit* *erkrankung* medikation* blut* sanguin* grupo_sanguineo todesursache* cause_of_death
    pflegegrad pflegestufe systolic* diastolic* bp hba* viral_load lab_value* kredit* credit credit_amount* delinquen*
    defaulted loan_default bankrupt* insolven* net_worth claim claims claim_amount sexuell* orientierung* disciplin*
    diszi*
    orientation* lgbt* gay lesbian* homosex* affair* nbaffairs naffairs transgender* sessual* sessuale orientacion*
    reato* crimine* misdaad* przestep* brott* gang* victim*
"""
KNOWN_OUTSIDE = """
    age alter edad birth* born dob yob geburt* naissance nacimiento sex sexe sexo gender geschlecht* genre genero
    race ethni* etni* nationalit* nacionalidad* citizenship* staatsang* country* land pays pais city* town* stadt
    ort wohnort* ville ciudad* municip* gemeinde* commune* zip* postal* postcode* plz postleitzahl* region*
    province* provinz* provincia* state bundesland* kanton* canton* county* district* bezirk* landkreis*
    departement* departamento* marital* civil_status familienstand* zivilstand* etat_civil estado_civil education*
    bildung* educacion* schul* school* abschluss* degree* occupation* beruf* profession* ocupacion* job* employer*
    employment* arbeitgeber* empleador* department* abteilung* language* sprache* langue* idioma* ip ip_address* lat
    latitude* lon lng longitude* height weight household* children family* immigra* migra* veteran* insur*
    krankenkasse* hospital* ward* clinic* admission* discharge* death*
    eta idade leeftijd wiek alder sesso geslacht plec kon female male woman women sexo_* married maried unmarried single
    divorced spouse kids kid child* bambini filhos kinderen dzieci educ educatn edlevel* ed istruzione opleiding*
    wyksztalcenie utbildning ethn black white hispan* asian* citta cidade stad miasto cap postnummer postcode*
    provincie wojewodztwo beroep zawod yrke professione profissao estado_civil stato_civile burgerlijke* bluecol
    gewicht* korpergrosse stadtteil* ortsteil* staatsburger* *sprache kinder* geboorte* fodsel* fødsel* caste tribe
    industry* residence* household_size hhsize yob birthyear naissance* nascita geboren* rank
"""
# These lose against a word above: a country_name is a country, an account_balance is a balance.
KEYS = "id ids key pk no nr num nbr number numero nummer *nummer uuid guid hash token"
_KEY_ENDING = "(id|key|nr|number|nummer|uuid|guid)$"
NAMES = "name names *name address* adress* anschrift* direccion* account* konto* compte* cuenta* card cards device*"
# How words for persons begin; alone, most of them are as well a flag, such as "insured".
PERSONS = """
    patient* paciente* person* user* utilisateur* usuario* customer* client* kunde* member* mitglied* employee*
    mitarbeiter* empleado* student* pupil* etudiant* estudiante* subject* participant* teilnehmer* proband*
    resident* citizen* voter* insured* versicherte* beneficiar* individual* donor*
"""
PERSONS_ALONE = (
    "individual patient patients paciente person persona personne user usuario customer client cliente kunde pid uid"
)
AMBIGUOUS = "pid uid"  # a person, or a party
AGES = "age alter edad"
POSTAL_CODES = "zip* postal* postcode* plz postleitzahl*"
COUNTRIES = "country* land pays pais nation* nacionalidad* staatsang* citizenship*"

# Regular expressions in what DuckDB and PostgreSQL share. A value counts for the first one that it matches.
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
PATTERNS = {
    "email": "^[^@ ]+@[^@ ]+[.][A-Za-z]{2,}$",
    "uuid": "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    "iban": "^[A-Z]{2}[0-9]{2}( ?[A-Z0-9]){11,30}$",
    "ssn": "^[0-8][0-9]{2}-[0-9]{2}-[0-9]{4}$",
    "codice_fiscale": "^[A-Z]{6}[0-9]{2}[A-EHLMPRST][0-9]{2}[A-Z][0-9]{3}[A-Z]$",
    "coordinates": "^-?[0-9]{1,2}[.][0-9]{2,},? *;? *-?[0-9]{1,3}[.][0-9]{2,}$",
    "ipv6": "^([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}$|^[0-9a-fA-F:]{0,35}::[0-9a-fA-F:]{0,35}$",
    "ipv4": f"^{_OCTET}([.]{_OCTET}){{3}}(/32)?$",
    "date": "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([T ].*)?$",
    "day_first_date": "^[0-9]{1,2}[./-][0-9]{1,2}[./-]([0-9]{2}|[0-9]{4})$",
    "postal": "^[0-9]{5}(-[0-9]{4})?$",
    "postal_letters": "^([A-Z]{1,2}[0-9][A-Z0-9]? ?[0-9][A-Z]{2}|[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9]|[0-9]{4} ?[A-Z]{2})$",
    "phone": "^([+(]|00?[1-9]|[0-9]{2,4}[ /-])[0-9 ()./-]{5,18}$",
}
CALLED = {
    "email": "e-mail addresses",
    "uuid": "UUIDs",
    "iban": "IBANs",
    "ssn": "US social security numbers",
    "codice_fiscale": "Italian tax codes",
    "coordinates": "coordinates",
    "ipv6": "IPv6 addresses",
    "ipv4": "IPv4 addresses",
    "date": "dates",
    "day_first_date": "dates",
    "postal": "postal codes",
    "postal_letters": "postal codes",
    "phone": "phone numbers",
}
SOME = 0.5  # of the values are e-mail addresses: the column must go
MOST = 0.9  # of the values look alike: that is what the column holds
UNIQUE = 0.95
COMMON = 0.8  # of the rows have one value: a flag that few persons have
FEW_ROWS = 20  # in which any column may happen to have no value twice
LARGE = 500_000  # rows; from here on fewer pairs are counted, since each is a GROUP BY of the whole table
FLAG = 2  # values at most: there is nothing to group
LARGEST_EDGE = Decimal(10) ** 10  # of bands that outliers lie beyond
MANY = 30  # decimals: a measurement that nobody outside knows
FREE_TEXT = 5  # words of a value on average, or so many times as many characters
FEW_KEYS = 20  # values at most: of a table that is referred to, not of persons
IDENTIFYING_PATTERNS = ("email", "iban", "ssn", "codice_fiscale")


@dataclass(frozen=True)
class ColumnFacts:
    """What was counted in a column. `least` and `most` choose widths of bands, and are never shown."""

    name: str
    shape: Shape
    rows: int = 0
    nulls: int = 0
    distinct: int = 0
    unique: int = 0  # rows whose value no other row has
    patterns: Mapping[str, int] = field(default_factory=dict)  # rows that match
    longest: int = 0
    least: Decimal | None = None
    most: Decimal | None = None
    comparable: bool = True
    unlisted: int | None = None  # values that are no country; None if nobody looked
    decimals: int = 0  # rows whose number is not whole
    spaces: int = 0  # in all values
    characters: int = 0
    commonest: int = 0  # rows with the most frequent value
    checksums: Mapping[str, int] = field(default_factory=dict)  # of `sampled` values
    sampled: int = 0
    low: Decimal | None = None  # one row of twenty lies below
    high: Decimal | None = None  # one row of twenty lies above

    @property
    def constant(self) -> bool:
        return self.rows > 1 and self.distinct + (self.nulls > 0) <= 1

    @property
    def repeats(self) -> bool:
        return 1 < self.distinct < self.rows - self.nulls

    @property
    def checked(self) -> str | None:
        """The numbers that the values are by their checksum; of few values too many are right by chance."""
        enough = [name for name, right in self.checksums.items() if right >= MOST * self.sampled >= MOST * FEW_ROWS]
        return enough[0] if enough else None

    @property
    def skewed(self) -> bool:
        """Whether nearly all rows have one value, so that few groups can have two."""
        return not self.nulls and self.commonest > COMMON * self.rows

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole, whatever their type."""
        return self.shape == "whole" or (self.shape == "number" and not self.decimals)

    @property
    def measured(self) -> bool:
        return self.shape == "number" and self.decimals > 0 and self.distinct >= MANY

    @property
    def prose(self) -> bool:
        """Whether values are sentences rather than names of something."""
        many = self.distinct >= FEW_ROWS and self.distinct >= 0.3 * (self.rows - self.nulls)
        long = self.spaces >= (FREE_TEXT - 1) * self.distinct or self.characters >= 12 * FREE_TEXT * self.distinct
        return self.shape == "text" and many and long

    def looks_like(self, pattern: str, share: float = MOST) -> bool:
        filled = self.rows - self.nulls
        return filled > 0 and self.patterns.get(pattern, 0) >= share * filled


@dataclass(frozen=True)
class Suggestion:
    role: Role
    reason: str
    sure: bool = True


def base_type(kind: str) -> str:
    """The name of a type, without its length or its values.

    >>> base_type("ENUM('a', 'b')"), base_type("numeric(10,2)")
    ('enum', 'numeric')
    """
    return kind.split("(")[0].strip().lower()


def shape_of(item: ColumnInfo) -> Shape:
    kind = base_type(item.type)
    if item.numeric:
        return "whole" if kind in WHOLE or re.search(r",\s*0\)$", item.type) else "number"
    if item.temporal:
        return "date"
    # psycopg shows types of the user's own, which are mostly enums, by their number.
    return "text" if kind in TEXTUAL or kind.isdigit() else "other"


def words(name: str) -> list[str]:
    """The words of a name, in lower case and without accents.

    >>> words("dateOfBirth"), words("Straße 2"), words("ICD10_CODE"), words("prénom")
    (['date', 'of', 'birth'], ['strasse', '2'], ['icd', '10', 'code'], ['prenom'])
    """
    bare = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    humps = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", bare)
    return re.findall(r"[^\W\d_]+|\d+", humps.casefold())


@cache
def _expression(listed: str) -> re.Pattern[str]:
    patterns = [word.replace("*", "[^_]*").replace("?", "[^_]") for word in listed.split()]
    return re.compile(f"_(?:{'|'.join(patterns)})_")


def speaks_of(name: str, listed: str) -> bool:
    """Whether a name holds one of the words.

    >>> speaks_of("home_zip_code", POSTAL_CODES), speaks_of("package", AGES), speaks_of("CreditScore", SENSITIVE)
    (True, False, True)
    """
    return _expression(listed).search(f"_{'_'.join(words(name))}_") is not None


def is_person_key(name: str) -> bool:
    """Whether a column is the key of a person, and nothing else about a person.

    >>> [is_person_key(name) for name in ("patient_id", "userid", "Kundennummer", "patient")]
    [True, True, True, True]
    >>> [is_person_key(name) for name in ("visit_id", "client_segment", "insured", "patient_age")]
    [False, False, False, False]
    """
    parts = [part for part in words(name) if not part.isdigit()]
    persons = [part for part in parts if speaks_of(part, PERSONS)]
    keys = [part for part in parts if speaks_of(part, KEYS) or (part in persons and re.search(_KEY_ENDING, part))]
    if not keys:
        return len(parts) == 1 and speaks_of(name, PERSONS_ALONE)
    return bool(persons) and all(part in persons or part in keys for part in parts)


def suggest(facts: ColumnFacts) -> Suggestion:
    """The role of a column; the first of these that applies."""
    name = facts.name
    if not facts.comparable:
        return Suggestion("identifier", "the database cannot compare values of this type")
    if facts.checked is not None:
        return Suggestion("identifier", f"values are {CHECKS[facts.checked].called}")
    for pattern in IDENTIFYING_PATTERNS:
        if facts.looks_like(pattern, SOME):
            return Suggestion("identifier", f"values look like {CALLED[pattern]}")
    if facts.prose:
        return Suggestion("identifier", "free text: nobody can tell what it says about whom")
    named = speaks_of(name, PERSONS) and speaks_of(name, NAMES)
    if named or is_person_key(name) or speaks_of(name, IDENTIFYING):
        return Suggestion("identifier", "by name")
    if facts.constant:
        return Suggestion("insensitive", "always NULL" if facts.distinct == 0 else "the same in every row")
    apart = facts.rows >= FEW_ROWS and facts.distinct >= UNIQUE * (facts.rows - facts.nulls) > 0
    if speaks_of(name, KEYS) and apart:
        return Suggestion("identifier", "by name; nearly every row has its own value")
    if speaks_of(name, SENSITIVE):
        return Suggestion("sensitive", "by name")
    if speaks_of(name, KNOWN_OUTSIDE):
        return Suggestion("quasi_identifier", "by name")
    if speaks_of(name, f"{KEYS} {NAMES}"):
        return Suggestion("identifier", "by name")
    if facts.shape == "date":
        return Suggestion("quasi_identifier", "a date")
    for pattern in PATTERNS:
        if facts.looks_like(pattern):
            role: Role = "identifier" if pattern in ("uuid", "phone", *IDENTIFYING_PATTERNS) else "quasi_identifier"
            return Suggestion(role, f"values look like {CALLED[pattern]}")
    if facts.measured:
        return Suggestion("sensitive", "a measurement: nobody outside knows its decimals", sure=False)
    if apart:
        return Suggestion("identifier", "nearly every row has its own value")
    return Suggestion("quasi_identifier", "unsure: a guess on the safe side", sure=False)


def person_key(columns: Sequence[ColumnFacts], roles: Mapping[str, Suggestion]) -> ColumnFacts | None:
    """The key of persons with several rows each; of several keys, that with the most persons.

    A column that is named as the key of persons wins over other identifiers that repeat. Where such a key differs from
    row to row, two rows with one telephone number are two persons.
    """
    # A check refuses rows that belong to nobody, so a key with NULLs is no key.
    keys = [facts for facts in repeated_keys(columns, roles) if not facts.nulls]
    if unique_person_key(columns) is not None:
        keys = [facts for facts in keys if is_person_key(facts.name)]
    return max(keys, key=lambda facts: (is_person_key(facts.name), facts.distinct), default=None)


def unique_person_key(columns: Sequence[ColumnFacts]) -> ColumnFacts | None:
    """A column that is named as the key of persons, and has another value in each row."""
    named = (facts for facts in columns if is_person_key(facts.name) and not speaks_of(facts.name, AMBIGUOUS))
    return next((facts for facts in named if 0 < facts.distinct == facts.rows), None)


def repeated_keys(columns: Sequence[ColumnFacts], roles: Mapping[str, Suggestion]) -> list[ColumnFacts]:
    """Identifiers with several rows for a value: rows are visits, years or orders of somebody."""
    named = {facts.name for facts in columns if is_person_key(facts.name) and not speaks_of(facts.name, AMBIGUOUS)}
    return [
        facts
        for facts in columns
        if facts.comparable
        and facts.repeats
        and roles[facts.name].role == "identifier"
        and (facts.name in named or (facts.distinct >= FEW_KEYS and _is_key(facts)))
    ]


def _is_key(facts: ColumnFacts) -> bool:
    """Whether values are of the kind that tells persons apart: keys, and what belongs to one person."""
    content = facts.checked is not None or any(map(facts.looks_like, (*IDENTIFYING_PATTERNS, "uuid", "phone")))
    return content or speaks_of(facts.name, f"{KEYS} {AMBIGUOUS}")


def hierarchy(facts: ColumnFacts) -> tuple[str, str] | None:
    """The kind that fits a quasi-identifier, with its parameters as YAML, and what it does; None if none fits."""
    if facts.rows == facts.nulls or facts.constant:
        return None
    if facts.shape == "date":
        return "dates: {levels: [month, year, decade]}", "months, years, decades"
    if facts.looks_like("ipv4"):
        return "ip: {prefixes: [24, 16, 8]}", "networks of 24, 16 and 8 bits"
    if facts.looks_like("date") and facts.longest == 10:
        return "prefix: {length: 10, step: 3, keep: 4}", "months, then years"
    coded = facts.shape == "text" or (facts.shape == "whole" and (facts.least or 0) >= 0)
    if coded and 2 <= facts.longest <= 10 and (speaks_of(facts.name, POSTAL_CODES) or facts.looks_like("postal")):
        return f"prefix: {{length: {facts.longest}}}", "each level hides one more character"
    if facts.unlisted == 0:
        return "country: {}", "regions of the United Nations"
    return _bands(facts)


def _bands(facts: ColumnFacts) -> tuple[str, str] | None:
    if facts.least is None or facts.most is None or facts.distinct <= FLAG:
        return None
    if speaks_of(facts.name, AGES) and facts.least >= 0 and facts.most <= 130:
        return "age: {}", "bands of 5, 10 and 20 years; 90 and over are one group"
    span = facts.most - facts.least
    if facts.whole and span < 5:
        phase = f", origin: {plain(facts.least % 2)}" if facts.least % 2 else ""
        return f"intervals: {{widths: [2]{phase}}}", "pairs of neighbours"
    typical = span
    if facts.low is not None and facts.high is not None and facts.high > facts.low:
        typical = facts.high - facts.low
    chosen = widths(typical, whole=facts.whole)
    shown = ", ".join(plain(width) for width in chosen)
    ends = _outliers(facts, chosen[-1])
    said = "wider and wider bands" + ("; what lies beyond nine of ten rows is one band" if ends else "")
    return f"intervals: {{widths: [{shown}]{ends}}}", said


def _outliers(facts: ColumnFacts, widest: Decimal) -> str:
    """The edges beyond which hardly any row lies, as parameters of `intervals`: edges of the widest bands."""
    if facts.low is None or facts.high is None or facts.least is None or facts.most is None:
        return ""
    if max(abs(facts.least), abs(facts.most)) >= LARGEST_EDGE or widest.as_tuple().exponent < -3:  # type: ignore[operator]
        return ""
    low = (facts.low / widest).to_integral_value(ROUND_FLOOR) * widest
    high = (facts.high / widest).to_integral_value(ROUND_FLOOR) * widest + widest
    below = f", min: {plain(low)}" if facts.least < low - widest else ""
    above = f", max: {plain(high)}" if facts.most >= high + widest else ""
    return below + above


def widths(span: Decimal, *, whole: bool) -> tuple[Decimal, Decimal, Decimal]:
    """Three widths of bands for numbers that lie so far apart: some 20 narrow bands, then 10, then 5.

    >>> [plain(width) for width in widths(Decimal(94), whole=True)]
    ['5', '10', '20']
    >>> [plain(width) for width in widths(Decimal("0.3"), whole=False)]
    ['0.02', '0.04', '0.08']
    """
    # The limits are those of the kind `intervals`: 9 decimals, 15 digits.
    wanted = min(max(span / 20, Decimal("1e-9")), Decimal("1e14"))
    power = Decimal(1).scaleb(wanted.adjusted())
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= wanted)
    if whole:
        step = max(step.to_integral_value(ROUND_CEILING), Decimal(2))
    return step, step * 2, step * 4


@dataclass(frozen=True)
class RolesGiven:
    """What is known about columns beforehand, and not to be guessed."""

    roles: Mapping[str, Role] = field(default_factory=dict)
    person: str | None = None
    guess_person: bool = True


def assign_roles(columns: Sequence[ColumnFacts], given: RolesGiven) -> tuple[dict[str, Suggestion], ColumnFacts | None]:
    """The roles of all columns, and the key of persons with several rows."""
    roles = {facts.name: suggest(facts) for facts in columns}
    for facts in columns:
        if roles[facts.name].role == "sensitive" and facts.rows and facts.distinct <= 1 < facts.rows:
            # Nobody differs from others in it, so that no diversity can be asked for.
            roles[facts.name] = Suggestion("identifier", "sensitive, with one value beside NULL: cannot be protected")
    person = person_key(columns, roles) if given.guess_person else None
    if given.person is not None:
        person = next(facts for facts in columns if facts.name == given.person)
        roles[person.name] = Suggestion("identifier", "the person, as you said")
    return roles | {name: Suggestion(role, "as you said") for name, role in given.roles.items()}, person


def require_quasi_identifier(
    columns: Sequence[ColumnFacts], roles: dict[str, Suggestion], person: ColumnFacts | None, given: RolesGiven
) -> tuple[dict[str, Suggestion], ColumnFacts | None]:
    """A policy needs one: the column that tells least stands in, so that the draft can be checked."""
    if any(suggestion.role == "quasi_identifier" for suggestion in roles.values()):
        return roles, person
    free = [facts for facts in columns if facts.name not in given.roles]
    if not free:
        raise PolicyError("no column is a quasi-identifier", hint="say which an attacker may know: --qi age,zip")
    chosen = min(free, key=lambda facts: (not facts.comparable, facts is person, facts.distinct))
    reason = "a stand-in: no column looks like a quasi-identifier, and a policy needs one"
    return {**roles, chosen.name: Suggestion("quasi_identifier", reason)}, None if chosen is person else person


@dataclass(frozen=True)
class RoleDraft:
    """The columns with their roles, and how many rows stand alone by some of them."""

    columns: Sequence[ColumnFacts]
    roles: Mapping[str, Suggestion]
    person: str | None
    candidates: Sequence[str]
    unnamed: int = 0
    alone: Mapping[str, int] = field(default_factory=dict)  # by one column
    partner: Mapping[str, tuple[int, str]] = field(default_factory=dict)  # by a column and the one that adds most
    together: int = 0  # by all candidates
    derived: Mapping[str, str] = field(default_factory=dict)  # columns that follow from another one, with that one

    @property
    def rows(self) -> int:
        return self.columns[0].rows

    @property
    def persons(self) -> tuple[int, str]:
        """How many there are to hide among, and what they are."""
        if self.person is None:
            return self.rows, "row"
        return next(facts.distinct for facts in self.columns if facts.name == self.person), "person"

    @classmethod
    def of(
        cls, columns: Sequence[ColumnFacts], unnamed: int, roles: Mapping[str, Suggestion], person: ColumnFacts | None
    ) -> RoleDraft:
        # What is known from elsewhere comes first, then what tells most rows apart.
        able = [facts for facts in columns if roles[facts.name].role == "quasi_identifier" and facts.comparable]
        able.sort(key=lambda facts: (not roles[facts.name].sure, -facts.distinct))
        candidates = [facts.name for facts in able[: 8 if columns[0].rows <= LARGE else 5]]
        return cls(columns, roles, person.name if person else None, candidates, unnamed)

    def sets(self) -> list[tuple[str, ...]]:
        """The columns by which rows are to be counted that stand alone; the last are all candidates."""
        if not self.rows:
            return []
        chosen = [facts for facts in self.columns if facts.name in self.candidates]
        # A column that is unique by itself says nothing more in a pair.
        open_ = [facts for facts in chosen if facts.unique < UNIQUE * self.rows]
        pairs = [(a.name, b.name) for a, b in combinations(open_, 2) if self._may_single_out(a, b)]
        return [*((name,) for name in self.candidates if self.person), *pairs, tuple(self.candidates)]

    def _may_single_out(self, a: ColumnFacts, b: ColumnFacts) -> bool:
        # Two columns cannot single out more rows than they have pairs of values.
        return self.person is not None or (a.distinct + 1) * (b.distinct + 1) >= 0.005 * self.rows

    def combined(self, sets: Sequence[tuple[str, ...]], counts: Sequence[int]) -> RoleDraft:
        """This draft with the rows that stand alone by each of the sets."""
        alone = {facts.name: facts.unique for facts in self.columns}
        partner: dict[str, tuple[int, str]] = {}
        alone |= {names[0]: count for names, count in zip(sets, counts, strict=True) if len(names) == 1}
        for names, count in zip(sets[:-1], counts[:-1], strict=True):
            # What one of the two does by itself is not the merit of the pair.
            if len(names) == 2 and count > max(alone[name] for name in names):
                for own, other in (names, names[::-1]):
                    partner[own] = max(partner.get(own, (0, "")), (count, other))
        return replace(self, alone=alone, partner=partner, together=counts[-1])
