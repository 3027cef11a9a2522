"""The rows of pg_catalog, a function for each relation that has any; all others are empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlanon.pgcatalog.identifiers import index_definition
from sqlanon.pgcatalog.kinds import FACTS
from sqlanon.pgcatalog.principal_view import DATABASE_OID, OWNER_OID, SYSTEM, Entry, View, arrays, facts_of

Row = dict[str, Any]
Rows = Iterator[Row]

ARRAY_FUNCTIONS = ((750, "array_in"), (751, "array_out"), (2400, "array_recv"), (2401, "array_send"))
RECORD_FUNCTIONS = ((2290, "record_in"), (2291, "record_out"), (2402, "record_recv"), (2403, "record_send"))
METHODS = {"heap": 2, "btree": 403, "hash": 405, "gist": 783, "gin": 2742, "spgist": 4000, "brin": 3580}
HANDLERS = {3: "heap_tableam_handler", 330: "bthandler", 331: "hashhandler", 332: "gisthandler", 333: "ginhandler",
            334: "spghandler", 335: "brinhandler"}  # fmt: skip
RANGES = {3904: (23, 4451), 3906: (1700, 4532), 3908: (1114, 4533), 3910: (1184, 4534), 3912: (1082, 4535),
          3926: (20, 4536)}  # fmt: skip
# The default operator class of a B-tree over columns of a type.
OPERATOR_CLASSES = {
    "int4": 1978, "int8": 3124, "int2": 1979, "text": 3126, "varchar": 3126, "bpchar": 426, "date": 3122, "uuid": 2968,
    "timestamp": 3128, "timestamptz": 3127, "numeric": 3125, "bool": 424, "float8": 3123, "float4": 1970,
}  # fmt: skip


def _class(view: View, oid: int, name: str, schema: str, **other: Any) -> Row:
    row = {
        "oid": oid, "relname": name, "relnamespace": view.schemas[schema], "reltype": 0, "reloftype": 0,
        "relowner": OWNER_OID, "relam": 0, "relfilenode": oid, "reltablespace": 0, "relpages": 0, "reltuples": -1.0,
        "relallvisible": 0, "reltoastrelid": 0, "relhasindex": False, "relisshared": False, "relpersistence": "p",
        "relkind": "r", "relnatts": 0, "relchecks": 0, "relhasrules": False, "relhastriggers": False,
        "relhassubclass": False, "relrowsecurity": False, "relforcerowsecurity": False, "relispopulated": True,
        "relreplident": "d", "relispartition": False, "relrewrite": 0, "relfrozenxid": 0, "relminmxid": 0,
    }  # fmt: skip
    return row | other


def pg_class(view: View) -> Rows:
    for entry in view.entries:
        own = entry.schema not in SYSTEM
        grants = [f"{view.principal}=r/{view.metadata.owner}"] if own else [f"=r/{view.metadata.owner}"]
        yield _class(
            view, entry.oid, entry.name, entry.schema, relkind=entry.kind, relnatts=len(entry.columns),
            reltype=entry.row_type, relam=2 if entry.kind == "r" else 0,
            relhasindex=entry.oid in view.indexed, relacl=grants, relhasrules=entry.kind == "v",
            relfilenode=entry.oid if entry.kind == "r" else 0,
            relreplident="d" if own and entry.kind == "r" else "n",
            relhastriggers=entry.oid in view.linked,
        )  # fmt: skip
    for oid, key in view.indexes.items():
        yield _class(
            view, oid, key.name, key.schema, relkind="i", relnatts=len(key.columns), relam=METHODS["btree"],
            relreplident="n", reltuples=0.0, relpages=1,
        )  # fmt: skip


def _attribute(relation: int, name: str, number: int, entry: Entry, **other: Any) -> Row:
    column = entry.columns[other.pop("source") - 1]
    facts = facts_of(column.type)
    array = column.type.element is not None and column.type.name.startswith("_")
    row = {
        "attrelid": relation, "attname": name, "atttypid": column.type.oid, "attstattarget": -1,
        "attlen": column.type.size, "attnum": number, "attndims": 1 if array else 0, "attcacheoff": -1,
        "atttypmod": column.typmod, "attbyval": facts.byval and not array,
        "attalign": ("d" if facts.align == "d" else "i") if array else facts.align,
        "attstorage": "x" if array else facts.storage, "attcompression": "", "attnotnull": column.not_null,
        "atthasdef": False, "atthasmissing": False, "attidentity": "", "attgenerated": "", "attisdropped": False,
        "attislocal": True, "attinhcount": 0, "attcollation": facts.collation,
    }  # fmt: skip
    return row | other


def pg_attribute(view: View) -> Rows:
    for entry, number, column in view.columns():
        yield _attribute(entry.oid, column.name, number, entry, source=number)
    for oid, key in view.indexes.items():
        for place, (name, number) in enumerate(zip(key.columns, key.numbers, strict=True), start=1):
            yield _attribute(oid, name, place, key.entry, source=number, attnotnull=False)


def pg_namespace(view: View) -> Rows:
    for name, oid in view.schemas.items():
        grant = f"=U/{view.metadata.owner}"
        yield {"oid": oid, "nspname": name, "nspowner": OWNER_OID, "nspacl": [grant]}


def _type(oid: int, name: str, functions: tuple[tuple[int, str], ...], **other: Any) -> Row:
    row = {
        "oid": oid, "typname": name, "typnamespace": 11, "typowner": OWNER_OID, "typlen": -1, "typbyval": False,
        "typtype": "b", "typispreferred": False, "typisdefined": True, "typdelim": ",", "typrelid": 0,
        "typsubscript": 0, "typelem": 0, "typarray": 0, "typmodin": 0, "typmodout": 0, "typanalyze": 0,
        "typalign": "i", "typstorage": "x", "typnotnull": False, "typbasetype": 0, "typtypmod": -1, "typndims": 0,
        "typcollation": 0, "typinput": functions[0][0], "typoutput": functions[1][0], "typreceive": functions[2][0],
        "typsend": functions[3][0],
    }  # fmt: skip
    return row | other


def pg_type(view: View) -> Rows:
    for facts in FACTS:
        yield _type(
            facts.type.oid, facts.type.name, facts.functions, typlen=facts.type.size, typbyval=facts.byval,
            typtype=facts.kind, typcategory=facts.category, typispreferred=facts.preferred, typelem=facts.element,
            typarray=facts.type.array_oid, typalign=facts.align, typstorage=facts.storage,
            typcollation=facts.collation, typdelim=";" if facts.type.name == "box" else ",",
        )  # fmt: skip
    for facts, array in arrays():
        pseudo = facts.type.name == "record"
        yield _type(
            array.oid, array.name, ARRAY_FUNCTIONS, typcategory="P" if pseudo else "A", typelem=facts.type.oid,
            typtype="p" if pseudo else "b", typalign="d" if facts.align == "d" else "i", typsubscript=6179,
            typanalyze=3816, typcollation=facts.collation, typdelim=";" if facts.type.name == "box" else ",",
        )  # fmt: skip
    for entry in view.tables:
        schema = view.schemas[entry.schema]
        yield _type(
            entry.row_type, entry.name, RECORD_FUNCTIONS, typnamespace=schema, typtype="c", typcategory="C",
            typrelid=entry.oid, typarray=entry.array_type, typalign="d",
        )  # fmt: skip
        yield _type(
            entry.array_type, f"_{entry.name}", ARRAY_FUNCTIONS, typnamespace=schema, typcategory="A",
            typelem=entry.row_type, typalign="d", typsubscript=6179, typanalyze=3816,
        )  # fmt: skip


def functions() -> dict[int, str]:
    """The functions that the catalog names: those that read and write types."""
    found = {6179: "array_subscript_handler", 3816: "array_typanalyze"} | HANDLERS
    found |= dict(ARRAY_FUNCTIONS)
    for facts in FACTS:
        found |= {oid: name for oid, name in facts.functions if oid}
    return found


def pg_proc(view: View) -> Rows:
    for oid, name in functions().items():
        yield {
            "oid": oid, "proname": name, "pronamespace": 11, "proowner": OWNER_OID, "prolang": 12, "procost": 1.0,
            "prorows": 0.0, "provariadic": 0, "prosupport": 0, "prokind": "f", "prosecdef": False,
            "proleakproof": False, "proisstrict": True, "proretset": False, "provolatile": "i", "proparallel": "s",
            "pronargs": 1, "pronargdefaults": 0, "prorettype": 2281, "proargtypes": [2275], "prosrc": name,
        }  # fmt: skip


def pg_database(view: View) -> Rows:
    yield {
        "oid": DATABASE_OID, "datname": view.metadata.database, "datdba": OWNER_OID, "encoding": 6,
        "datlocprovider": "c", "datistemplate": False, "datallowconn": True, "datconnlimit": -1, "datfrozenxid": 716,
        "datminmxid": 1, "dattablespace": 1663, "datcollate": "C.UTF-8", "datctype": "C.UTF-8",
    }  # fmt: skip


def pg_roles(view: View) -> Rows:
    login = {role.name: role.can_login for role in view.metadata.roles}
    for name, oid in view.roles.items():
        yield {
            "rolname": name, "rolsuper": False, "rolinherit": True, "rolcreaterole": False, "rolcreatedb": False,
            "rolcanlogin": login.get(name, oid != OWNER_OID), "rolreplication": False, "rolconnlimit": -1,
            "rolpassword": "********", "rolbypassrls": False, "oid": oid,
        }  # fmt: skip


def pg_user(view: View) -> Rows:
    for row in pg_roles(view):
        if row["rolcanlogin"]:
            yield {
                "usename": row["rolname"], "usesysid": row["oid"], "usecreatedb": False, "usesuper": False,
                "userepl": False, "usebypassrls": False, "passwd": "********",
            }  # fmt: skip


def pg_index(view: View) -> Rows:
    for oid, key in view.indexes.items():
        kinds = [key.entry.columns[number - 1].type for number in key.numbers]
        width = len(key.columns)
        yield {
            "indexrelid": oid, "indrelid": key.entry.oid, "indnatts": width, "indnkeyatts": width,
            "indisunique": True, "indnullsnotdistinct": False, "indisprimary": key.kind == "p",
            "indisexclusion": False,
            "indimmediate": True, "indisclustered": False, "indisvalid": True, "indcheckxmin": False,
            "indisready": True, "indislive": True, "indisreplident": False, "indkey": key.numbers,
            "indcollation": [facts_of(kind).collation for kind in kinds],
            "indclass": [OPERATOR_CLASSES.get(kind.name, 0) for kind in kinds], "indoption": [0] * width,
        }  # fmt: skip


def pg_constraint(view: View) -> Rows:
    for key in view.keys:
        foreign = key.target is not None
        row = {
            "oid": key.oid, "conname": key.name, "connamespace": view.schemas[key.schema],
            "contype": key.kind, "condeferrable": False, "condeferred": False, "convalidated": True,
            "conrelid": key.entry.oid, "contypid": 0, "conindid": key.index, "conparentid": 0,
            "confrelid": key.target.oid if key.target is not None else 0, "confupdtype": "a" if foreign else " ",
            "confdeltype": "a" if foreign else " ", "confmatchtype": "s" if foreign else " ", "conislocal": True,
            "coninhcount": 0, "connoinherit": True, "conkey": key.numbers,
        }  # fmt: skip
        yield row | ({"confkey": key.referred_numbers} if foreign else {})


def pg_description(view: View) -> Rows:
    for entry in view.tables:
        if entry.comment is not None:
            yield {"objoid": entry.oid, "classoid": 1259, "objsubid": 0, "description": entry.comment}
        for number, column in enumerate(entry.columns, start=1):
            if column.comment is not None:
                yield {"objoid": entry.oid, "classoid": 1259, "objsubid": number, "description": column.comment}
    yield {"objoid": 2200, "classoid": 2615, "objsubid": 0, "description": "standard public schema"}


def pg_am(view: View) -> Rows:
    for (name, oid), handler in zip(METHODS.items(), HANDLERS, strict=True):
        yield {"oid": oid, "amname": name, "amhandler": handler, "amtype": "t" if oid == 2 else "i"}


def pg_collation(view: View) -> Rows:
    for oid, name, provider in ((100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")):
        said = None if provider == "d" else name
        yield {
            "oid": oid, "collname": name, "collnamespace": 11, "collowner": OWNER_OID, "collprovider": provider,
            "collisdeterministic": True, "collencoding": -1, "collcollate": said, "collctype": said,
        }  # fmt: skip


def pg_range(view: View) -> Rows:
    for oid, (element, several) in RANGES.items():
        yield {
            "rngtypid": oid, "rngsubtype": element, "rngmultitypid": several, "rngcollation": 0, "rngsubopc": 0,
            "rngcanonical": 0, "rngsubdiff": 0,
        }  # fmt: skip


def pg_tablespace(view: View) -> Rows:
    for oid, name in ((1663, "pg_default"), (1664, "pg_global")):
        yield {"oid": oid, "spcname": name, "spcowner": OWNER_OID}


def pg_language(view: View) -> Rows:
    for oid, name, check in ((12, "internal", 2246), (13, "c", 2247), (14, "sql", 2248)):
        yield {
            "oid": oid, "lanname": name, "lanowner": OWNER_OID, "lanispl": False, "lanpltrusted": name == "sql",
            "lanplcallfoid": 0, "laninline": 0, "lanvalidator": check,
        }  # fmt: skip


def pg_tables(view: View) -> Rows:
    for entry in view.entries:
        if entry.kind == "r":
            yield {
                "schemaname": entry.schema, "tablename": entry.name, "tableowner": view.metadata.owner,
                "hasindexes": entry.oid in view.indexed, "hasrules": False,
                "hastriggers": entry.oid in view.linked, "rowsecurity": False,
            }  # fmt: skip


def pg_views(view: View) -> Rows:
    for entry in view.entries:
        if entry.kind == "v":
            yield {"schemaname": entry.schema, "viewname": entry.name, "viewowner": view.metadata.owner}


def pg_matviews(view: View) -> Rows:
    for entry in view.entries:
        if entry.kind == "m":
            yield {
                "schemaname": entry.schema, "matviewname": entry.name, "matviewowner": view.metadata.owner,
                "hasindexes": False, "ispopulated": True,
            }  # fmt: skip


def pg_indexes(view: View) -> Rows:
    for key in view.indexes.values():
        yield {
            "schemaname": key.schema, "tablename": key.entry.name, "indexname": key.name,
            "indexdef": index_definition(key),
        }  # fmt: skip


CONTENTS: dict[str, Callable[[View], Rows]] = {
    f"pg_catalog.{made.__name__}": made
    for made in (
        pg_class, pg_attribute, pg_namespace, pg_type, pg_proc, pg_database, pg_roles, pg_user, pg_index, pg_constraint,
        pg_description, pg_am, pg_collation, pg_range, pg_tablespace, pg_language, pg_tables, pg_views, pg_matviews,
        pg_indexes,
    )
}  # fmt: skip
