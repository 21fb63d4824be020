"""Which schemas are the same one, however they are written, and which are not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.database import Database
from dragoman.core.errors import NotFound
from dragoman.core.loading import DATABASES, FORMATS, load, scheme_of
from dragoman.core.registry import Registry
from dragoman.core.schema import Reference, Schema
from dragoman.registry import connect
from dragoman.registry.http.server import Server
from dragoman.registry.limits import Limits
from dragoman.registry.name import parse_name
from dragoman.registry.parsing import Parser
from dragoman.registry.store import schemas, tables
from dragoman.registry.upgrading import upgrade

FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string"], "default": None, "doc": "Said by people."},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "line", "type": {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}},
]
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": FIELDS}


def with_field(index: int, **change: Any) -> dict[str, Any]:
    fields = [dict(each) for each in FIELDS]
    fields[index] |= change
    return {**ORDER, "fields": fields}


ENUM = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
LINE = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}

EQUAL = {
    "white space": json.dumps(ORDER, indent=2),
    "order of attributes": json.dumps(dict(reversed(ORDER.items()))),
    "order of a field's attributes": json.dumps(
        {**ORDER, "fields": [dict(reversed(each.items())) for each in FIELDS]}
    ),
    "full name": json.dumps({"type": "record", "name": "shop.Order", "fields": FIELDS}),
    "full name and another namespace": json.dumps({**ORDER, "name": "shop.Order", "namespace": "other"}),
    "a type in an object": json.dumps(with_field(0, type={"type": "long"})),
    "a branch in an object": json.dumps(with_field(1, type=[{"type": "null"}, {"type": "string"}])),
    "a type in two objects": json.dumps(with_field(0, type={"type": {"type": "long"}})),
    "an inherited namespace written out": json.dumps(with_field(2, type={**ENUM, "namespace": "shop"})),
    "an inherited namespace in the name": json.dumps(with_field(3, type={**LINE, "name": "shop.Line"})),
    "the usual order of a field": json.dumps(with_field(0, order="ascending")),
    "no aliases": json.dumps({**ORDER, "aliases": []}),
}
DIFFERENT = {
    "documentation": json.dumps({**ORDER, "doc": "An order."}),
    "documentation of a field": json.dumps(with_field(0, doc="The number.")),
    "other documentation of a field": json.dumps(with_field(1, doc="Said by machines.")),
    "an alias": json.dumps({**ORDER, "aliases": ["Purchase"]}),
    "an alias of a field": json.dumps(with_field(0, aliases=["number"])),
    "a default": json.dumps(with_field(0, default=0)),
    "a default of an enum": json.dumps(with_field(2, type={**ENUM, "default": "A"})),
    "the order of a field": json.dumps(with_field(0, order="ignore")),
    "a property": json.dumps({**ORDER, "owner": "sales"}),
    "a property of a field": json.dumps(with_field(0, unit="piece")),
    "a logical type": json.dumps(with_field(0, type={"type": "long", "logicalType": "timestamp-millis"})),
    "another namespace": json.dumps({**ORDER, "namespace": "store"}),
    "another namespace inside": json.dumps(with_field(2, type={**ENUM, "namespace": "store"})),
    "the order of fields": json.dumps({**ORDER, "fields": list(reversed(FIELDS))}),
    "the order of branches": json.dumps(with_field(1, type=["string", "null"], default="")),
}


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


def code_or(answer: httpx.Response, member: str) -> int:
    found = answer.json()
    return int(found[member] if answer.status_code == 200 else found["error_code"])


async def test_equal_avro_schemas_are_one_schema(registry: Registry) -> None:
    first = await registry.register("orders-value", Schema("AVRO", json.dumps(ORDER)))
    for name, text in EQUAL.items():
        schema = Schema("AVRO", text)
        for normalize in (False, True):
            assert await registry.find("orders-value", schema, normalize=normalize) == first, name
            assert await registry.register("orders-value", schema, normalize=normalize) == first, name
        other = await registry.register("copies-value", schema)
        assert (other.version, other.schema.id) == (1, first.schema.id), name
    assert list(await registry.versions("orders-value")) == [1]


@pytest.mark.parametrize("text", DIFFERENT.values(), ids=DIFFERENT)
def test_what_counts_makes_another_schema(api: httpx.Client, text: str) -> None:
    api.put("/config", json={"compatibility": "NONE"})
    api.post("/subjects/s/versions", json={"schema": json.dumps(ORDER)})
    for query in ("", "?normalize=true"):
        assert code_or(api.post(f"/subjects/s{query}", json={"schema": text}), "version") == 40403
    assert api.post("/subjects/s/versions", json={"schema": text}).json() == {"id": 2}
    assert api.get("/subjects/s/versions").json() == [1, 2]
    assert api.post("/subjects/s", json={"schema": text}).json()["version"] == 2


@st.composite
def rewritten(draw: st.DrawFn, schema: Any, namespace: str = "") -> Any:
    """The same Avro schema in other words."""
    if isinstance(schema, str):
        return draw(st.sampled_from([schema, {"type": schema}])) if schema in ("long", "int") else schema
    if isinstance(schema, list):
        return [draw(rewritten(each, namespace)) for each in schema]
    written = dict(schema)
    if "name" in written and written["type"] in ("record", "enum"):
        own = written.pop("namespace", namespace)
        simple = written["name"]
        full = {"name": f"{own}.{simple}"}
        apart = {"name": simple, "namespace": own}
        inherited = [{"name": simple}] if own == namespace else []
        written |= draw(st.sampled_from([full, apart, *inherited]))
        namespace = own
    if "fields" in written:
        written["fields"] = [
            {key: each[key] for key in draw(st.permutations(list(each)))}
            for each in (
                {**field, "type": draw(rewritten(field["type"], namespace))} for field in written["fields"]
            )
        ]
    return {key: written[key] for key in draw(st.permutations(list(written)))}


@given(rewritten(ORDER))
@settings(max_examples=60)
def test_no_way_of_writing_an_avro_schema_makes_a_new_one(written: Any) -> None:
    async def work() -> None:
        registry = connect("memory://")
        first = await registry.register("s", Schema("AVRO", json.dumps(ORDER)))
        assert await registry.find("s", Schema("AVRO", json.dumps(written))) == first
        assert await registry.register("s", Schema("AVRO", json.dumps(written))) == first
        await registry.close()

    asyncio.run(work())


def test_the_text_that_was_registered_is_shown(api: httpx.Client) -> None:
    written = EQUAL["full name"]
    api.post("/subjects/s/versions", json={"schema": written})
    found = api.post("/subjects/s", json={"schema": json.dumps(ORDER)}).json()
    assert found["schema"] == json.dumps(json.loads(written), separators=(",", ":"))


def test_equal_schemas_with_references_are_one_schema(api: httpx.Client) -> None:
    for name in ("Line", "Buyer"):
        line = {"type": "record", "name": name, "namespace": "shop", "fields": []}
        api.post(f"/subjects/{name}/versions", json={"schema": json.dumps(line)})
    fields = [{"name": "line", "type": "Line"}, {"name": "buyer", "type": "Buyer"}]
    using = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    full = {
        "name": "shop.Order",
        "fields": [{**each, "type": f"shop.{each['type']}"} for each in fields],
        "type": "record",
    }
    references = [
        {"name": "shop.Line", "subject": "Line", "version": 1},
        {"name": "shop.Buyer", "subject": "Buyer", "version": 1},
    ]
    first = {"schema": json.dumps(using), "references": references}
    made = api.post("/subjects/s/versions", json=first).json()
    again = {"schema": json.dumps(full), "references": references[::-1]}
    assert api.post("/subjects/s", json=again).json()["id"] == made["id"]
    assert api.post("/subjects/s/versions", json=again).json() == made


def test_among_equal_versions_the_one_with_the_same_text_is_found(api: httpx.Client) -> None:
    """Older programs stored equal schemas twice."""
    texts = [EQUAL[name] for name in ("order of attributes", "full name", "a type in an object")]
    api.put("/mode/s", json={"mode": "IMPORT"})
    for number, text in enumerate(texts, 1):
        entry = {"schema": text, "id": 10 * number, "version": number}
        assert api.post("/subjects/s/versions", json=entry).status_code == 200
    api.delete("/mode/s")
    for number, text in enumerate(texts, 1):
        found = api.post("/subjects/s", json={"schema": text}).json()
        assert (found["version"], found["id"]) == (number, 10 * number)
    assert api.post("/subjects/s", json={"schema": json.dumps(ORDER)}).json()["version"] == 3
    assert api.post("/subjects/new/versions", json={"schema": texts[1]}).json() == {"id": 20}


def opened(url: str) -> Database:
    database: Database = load(DATABASES, scheme_of(url))(url)
    return database


def of_shape(url: str, monkeypatch: pytest.MonkeyPatch, shape: int) -> Database:
    """An empty database as an older program made it."""
    database = opened(url)
    with database.transaction() as tx:
        for name in ("contexts", "schemas", "references", "contracts", "versions", "settings", "bindings"):
            tx.execute(f"DROP TABLE IF EXISTS registry_{name}")
        for name in ("history", "keys", "migrations", "high_ids"):
            tx.execute(f"DROP TABLE IF EXISTS registry_{name}")
    with monkeypatch.context() as patch:
        patch.setattr(tables, "STEPS", tables.STEPS[:shape])
        tables.migrate(database)
    return database


def written_by_an_older_program(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of the first shape with one Avro schema, one JSON schema and one that nobody can parse."""
    database = of_shape(url, monkeypatch, 1)
    compact = json.dumps(ORDER, separators=(",", ":"))
    rows = [
        (1, "6f3f0a6d-6ffb-3f6c-8f9d-f6e2b2c3c3a1", "AVRO", compact, None),
        (2, "0b1f0a6d-6ffb-3f6c-8f9d-f6e2b2c3c3a2", "JSON", '{"type":"object","title":"T"}', None),
        (3, "1c2f0a6d-6ffb-3f6c-8f9d-f6e2b2c3c3a3", "AVRO", "not a schema", None),
        (4, "2d3f0a6d-6ffb-3f6c-8f9d-f6e2b2c3c3a4", "AVRO", '"string"', '{"tags": {}, "sensitive": []}'),
    ]
    with database.transaction() as tx:
        tx.execute("INSERT INTO registry_contexts VALUES ('.', 5)")
        for id, guid, type, text, metadata in rows:
            tx.execute(
                "INSERT INTO registry_schemas (context, id, guid, type, body, refs, metadata, rule_set,"
                " fingerprint, created) VALUES ('.', ?, ?, ?, ?, '[]', ?, NULL, NULL, 0)",
                (id, guid, type, text, metadata),
            )
            tx.execute("INSERT INTO registry_versions VALUES ('.', ?, 1, ?, ?, 0, 'ada')", (f"s{id}", id, id))
    database.close()


async def test_what_an_older_program_wrote_is_found(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written_by_an_older_program(store, monkeypatch)
    registry = connect(store)
    for name in ("order of attributes", "full name", "a type in an object"):
        schema = Schema("AVRO", EQUAL[name])
        assert (await registry.find("s1", schema)).schema.id == 1
        assert (await registry.register("s1", schema)).version == 1
        assert (await registry.register(f"new {name}", schema)).schema.id == 1
    swapped = Schema("JSON", '{"title": "T", "type": "object"}')
    assert (await registry.find("s2", swapped, normalize=True)).schema.id == 2
    assert (await registry.version("s3", 1)).schema.text == "not a schema"
    assert (await registry.find("s4", Schema("AVRO", '{"type": "string"}'))).schema.id == 4
    assert (await registry.register("s5", Schema("AVRO", '"bytes"'))).schema.id == 5
    with pytest.raises(NotFound):
        await registry.find("s1", Schema("AVRO", DIFFERENT["an alias"]))
    await registry.close()


A = {"type": "record", "name": "A", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
WIDER_A = {**A, "fields": [*A["fields"], {"name": "y", "type": "int", "default": 0}]}
USES_A = {"type": "record", "name": "B", "namespace": "n", "fields": [{"name": "a", "type": "n.A"}]}


def with_latest_references(url: str, monkeypatch: pytest.MonkeyPatch, shape: int) -> None:
    """As programs wrote it that stored "latest" itself, with and without identities."""
    database = of_shape(url, monkeypatch, shape)
    rows = [
        (1, "a", 1, json.dumps(A), []),
        (2, "a", 2, json.dumps(WIDER_A), []),
        (3, "b", 1, json.dumps(USES_A), [("n.A", "a", -1)]),
        # A reference with a number, one that leads nowhere, and a schema that cannot be parsed.
        (4, "c", 1, json.dumps({**USES_A, "name": "C"}), [("n.A", "a", 1)]),
        (5, "d", 1, json.dumps({**USES_A, "name": "D"}), [("n.A", "nowhere", -1)]),
        (6, "e", 1, "not a schema", [("n.A", "a", -1)]),
    ]
    with database.transaction() as tx:
        tx.execute("INSERT INTO registry_contexts VALUES ('.', 7)")
        for id, name, version, text, references in rows:
            guid = f"6f3f0a6d-6ffb-3f6c-8f9d-f6e2b2c3c3a{id}"
            tx.execute(
                "INSERT INTO registry_schemas (context, id, guid, type, body, refs, metadata, rule_set,"
                " fingerprint, created) VALUES ('.', ?, ?, 'AVRO', ?, ?, NULL, NULL, NULL, 0)",
                (id, guid, text, json.dumps(references)),
            )
            if shape > 1:
                tx.execute("UPDATE registry_schemas SET form = 'old', identity = 'old' WHERE id = ?", (id,))
            for _, target, number in references:
                tx.execute("INSERT INTO registry_references VALUES ('.', ?, '.', ?, ?)", (id, target, number))
            tx.execute(
                "INSERT INTO registry_versions VALUES ('.', ?, ?, ?, ?, 0, 'ada')", (name, version, id, id)
            )
    database.close()


@pytest.mark.parametrize("shape", [1, 2])
async def test_references_to_the_latest_version_get_its_number_once(
    store: str, monkeypatch: pytest.MonkeyPatch, shape: int
) -> None:
    with_latest_references(store, monkeypatch, shape)
    registry = connect(store)
    latest, second = (Schema("AVRO", json.dumps(USES_A), (Reference("n.A", "a", at),)) for at in (-1, 2))
    for schema in (latest, second):
        assert (await registry.find("b", schema)).schema.id == 3
        assert (await registry.register("b", schema)).schema.id == 3
        assert (await registry.register("other", schema)).schema.id == 3
    assert list(await registry.versions("b")) == [1]
    await registry.register("a", Schema("AVRO", json.dumps({**A, "doc": "Third."})))
    await registry.close()

    registry = connect(store)  # A second start changes nothing.
    expected = {"b": ("a", 2), "c": ("a", 1), "d": ("nowhere", -1), "e": ("a", 2)}
    for name, (target, number) in expected.items():
        stored = (await registry.version(name, 1)).schema
        assert stored.references == (Reference("n.A", target, number),), name
    assert (await registry.find("b", second)).schema.id == 3
    with pytest.raises(NotFound):
        await registry.find("b", latest)
    await registry.close()

    database = opened(store)
    with database.transaction(write=False) as tx:
        found = tx.execute(
            "SELECT schema_id, target_version FROM registry_references WHERE schema_id < 7 ORDER BY schema_id"
        )
        assert [tuple(row) for row in found] == [(3, 2), (4, 1), (5, -1), (6, 2)]
        assert schemas.referencing(tx, parse_name("a"), 2) == [3, 6]
        kept = tx.execute("SELECT guid FROM registry_schemas WHERE id = 3")
        assert kept[0][0] == "6f3f0a6d-6ffb-3f6c-8f9d-f6e2b2c3c3a3"
    database.close()


def test_a_number_that_another_node_has_stored_stays(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_latest_references(store, monkeypatch, 1)
    database = opened(store)
    tables.migrate(database)
    with database.transaction(write=False) as tx:
        late = next(each for each in schemas.unidentified(tx, 10) if each.id == 3)
    upgrade(database, Parser(Limits()))
    with database.transaction() as tx:
        reference = (Reference("n.A", "a", 1),)
        schemas.identify(tx, replace(late, references=reference, form="late", identity="late"))
    with database.transaction(write=False) as tx:
        stored = schemas.by_id(tx, ".", 3)
        assert stored is not None and stored.identity != "late"
        assert stored.references == (Reference("n.A", "a", 2),)
        assert schemas.referencing(tx, parse_name("a"), 1) == [4]
    database.close()


def test_nodes_that_start_together_bring_old_data_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite://{tmp_path}/registry.db"
    written_by_an_older_program(url, monkeypatch)
    databases = [opened(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        shapes = list(threads.map(lambda each: upgrade(each, Parser(Limits())), databases))
    assert {after for _, after in shapes} == {len(tables.STEPS)}
    with databases[0].transaction(write=False) as tx:
        assert tx.execute("SELECT COUNT(*) FROM registry_schemas WHERE identity IS NULL")[0][0] == 0
        assert tx.execute("SELECT COUNT(*) FROM registry_schemas")[0][0] == 4
    for each in databases:
        each.close()


UNORDERED = {
    "AVRO": (json.dumps(ORDER), EQUAL["order of attributes"]),
    "JSON": (
        '{"type": "object", "required": ["b", "a"], "properties": {"b": {"type": "string"}, "a": {}}}',
        '{"properties": {"a": {}, "b": {"type": "string"}}, "required": ["a", "b"], "type": "object"}',
    ),
    "PROTOBUF": (
        'syntax = "proto3"; message M { string b = 2; int64 a = 1; }',
        'syntax = "proto3"; message M { int64 a = 1; string b = 2; }',
    ),
    "THRIFT": (
        "struct S { 2: optional string b, 1: optional i64 a }",
        "struct S { 1: optional i64 a, 2: optional string b }",
    ),
}
"""For each type a text, and its normal form or one with the same."""


@pytest.mark.parametrize("type", UNORDERED)
def test_normalising_finds_what_was_registered_without_it(api: httpx.Client, type: str) -> None:
    for number, text in enumerate(UNORDERED[type]):
        body = {"schema": text, "schemaType": type}
        made = api.post(f"/subjects/s{number}/versions", json=body).json()
        for other in UNORDERED[type]:
            asked = {"schema": other, "schemaType": type}
            found = api.post(f"/subjects/s{number}?normalize=true", json=asked).json()
            assert (found.get("version"), found.get("id")) == (1, made["id"])
            again = api.post(f"/subjects/s{number}/versions?normalize=true", json=asked)
            assert again.json() == made
        assert api.get(f"/subjects/s{number}/versions").json() == [1]


@pytest.mark.parametrize("type", UNORDERED)
def test_what_was_normalised_is_found_without_it(api: httpx.Client, type: str) -> None:
    for number, text in enumerate(UNORDERED[type]):
        body = {"schema": text, "schemaType": type}
        made = api.post(f"/subjects/s{number}/versions?normalize=true", json=body).json()
        for other in UNORDERED[type]:
            asked = {"schema": other, "schemaType": type}
            assert api.post(f"/subjects/s{number}", json=asked).json()["version"] == 1
            assert api.post(f"/subjects/s{number}/versions", json=asked).json() == made
        assert api.get(f"/subjects/s{number}/versions").json() == [1]


@pytest.mark.parametrize("type", UNORDERED)
def test_a_contract_that_begins_to_normalise_makes_no_new_versions(api: httpx.Client, type: str) -> None:
    first = {"schema": UNORDERED[type][0], "schemaType": type}
    made = api.post("/subjects/s/versions", json=first).json()
    api.put("/config/s", json={"normalize": True})
    for text in UNORDERED[type]:
        assert api.post("/subjects/s/versions", json={"schema": text, "schemaType": type}).json() == made
        assert api.post("/subjects/s", json={"schema": text, "schemaType": type}).json()["version"] == 1


@pytest.mark.parametrize("type", ["JSON", "PROTOBUF", "THRIFT"])
def test_without_normalising_the_order_of_other_texts_counts(api: httpx.Client, type: str) -> None:
    """As in Confluent's registry."""
    one, other = ({"schema": text, "schemaType": type} for text in UNORDERED[type])
    assert api.post("/subjects/s/versions", json=one).json() == {"id": 1}
    assert code_or(api.post("/subjects/s", json=other), "version") == 40403
    assert api.post("/subjects/s/versions", json=other).json() == {"id": 2}
    for text, version in ((one, 1), (other, 2)):
        assert api.post("/subjects/s", json=text).json()["version"] == version


@pytest.mark.parametrize("type", UNORDERED)
def test_a_normal_form_is_its_own_normal_form(type: str) -> None:
    format = load(FORMATS, type)()
    for text in UNORDERED[type]:
        normal = format.parse(text).normalised(2)
        assert format.parse(normal).normalised(2) == normal
    assert len({format.parse(text).normalised(2) for text in UNORDERED[type]}) == 1


METADATA = {
    "tags": {"**.name": ["PII", "SECRET"]},
    "properties": {"owner": "sales"},
    "sensitive": ["owner", "other"],
}
RULE = {
    "name": "mask",
    "kind": "TRANSFORM",
    "mode": "WRITE",
    "type": "CEL",
    "tags": ["PII", "A"],
    "expr": "x",
}
RULES = {"domainRules": [RULE], "migrationRules": [{**RULE, "mode": "UPGRADE"}]}
NOTHING = [None, [], {}, ""]


def said_again(rule: dict[str, Any]) -> dict[str, Any]:
    empty = {"doc": None, "params": {}, "onSuccess": None, "onFailure": "", "disabled": False}
    return {**empty, **rule, "tags": rule["tags"][::-1]}


SAME_METADATA = [
    {**METADATA, "sensitive": METADATA["sensitive"][::-1]},
    {**METADATA, "tags": {"**.name": ["SECRET", "PII", "PII"]}},
    dict(reversed(METADATA.items())),
    {**METADATA, "later": None},
]
SAME_RULES = [
    {**RULES, "encodingRules": []},
    {**RULES, "encodingRules": None, "enableAt": None},
    {part: [said_again(each) for each in rules] for part, rules in RULES.items()},
]


@pytest.mark.parametrize("metadata", [METADATA, *SAME_METADATA])
@pytest.mark.parametrize("rules", [RULES, *SAME_RULES])
def test_empty_members_of_metadata_and_rules_say_nothing(
    api: httpx.Client, metadata: dict[str, Any], rules: dict[str, Any]
) -> None:
    schema = {"schema": '"string"', "metadata": METADATA, "ruleSet": RULES}
    made = api.post("/subjects/s/versions", json=schema).json()
    same = {"schema": '"string"', "metadata": metadata, "ruleSet": rules}
    assert api.post("/subjects/s", json=same).json().get("version") == 1
    assert api.post("/subjects/s/versions", json=same).json() == made
    assert api.post("/subjects/other/versions", json=same).json() == made
    assert api.post("/subjects/third/versions", json=same).json() == made
    assert api.get("/subjects/s/versions").json() == [1]


EMPTY = [
    {"metadata": {"tags": {}, "properties": {}, "sensitive": []}},
    {
        "metadata": {"sensitive": [], "properties": None},
        "ruleSet": {"migrationRules": [], "domainRules": None},
    },
    {"metadata": {}, "ruleSet": {}},
    {"metadata": None, "ruleSet": {"encodingRules": []}},
    {},
]


@pytest.mark.parametrize("first", EMPTY)
def test_what_has_only_empty_members_is_not_there(api: httpx.Client, first: dict[str, Any]) -> None:
    made = api.post("/subjects/s/versions", json={"schema": '"string"', **first}).json()
    for more in EMPTY:
        schema = {"schema": '"string"', **more}
        assert api.post("/subjects/s", json=schema).json().get("version") == 1
        assert api.post("/subjects/s/versions", json=schema).json() == made
    shown = api.get("/subjects/s/versions/1").json()
    assert "metadata" not in shown and "ruleSet" not in shown


def test_what_metadata_and_rules_say_counts(api: httpx.Client) -> None:
    variants: list[dict[str, Any]] = [
        {"metadata": METADATA, "ruleSet": RULES},
        {"metadata": {**METADATA, "sensitive": ["owner"]}, "ruleSet": RULES},
        {"metadata": {**METADATA, "properties": {"owner": "sales", "empty": ""}}, "ruleSet": RULES},
        {"metadata": METADATA, "ruleSet": {"domainRules": RULES["domainRules"]}},
        {"metadata": METADATA, "ruleSet": {**RULES, "domainRules": [{**RULE, "disabled": True}]}},
        {"metadata": METADATA, "ruleSet": {**RULES, "domainRules": [RULE, {**RULE, "name": "more"}]}},
        {"metadata": METADATA, "ruleSet": {**RULES, "domainRules": [{**RULE, "name": "more"}, RULE]}},
    ]
    for number, variant in enumerate(variants, 1):
        schema = {"schema": '"string"', **variant}
        assert code_or(api.post("/subjects/s", json=schema), "version") in (40401, 40403)
        assert api.post("/subjects/s/versions", json=schema).json() == {"id": number}
    assert api.get("/subjects/s/versions").json() == list(range(1, len(variants) + 1))


def test_saying_that_there_is_no_metadata_takes_the_previous_away(api: httpx.Client) -> None:
    for number, metadata in enumerate(({"properties": {"a": "1"}}, {"tags": {}}), 1):
        body = {"schema": '"string"', "metadata": metadata}
        assert api.post("/subjects/s/versions", json=body).json() == {"id": number}
    assert api.post("/subjects/s/versions", json={"schema": '"string"'}).json() == {"id": 2}
