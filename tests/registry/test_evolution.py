"""Channels of contracts, history, versions side by side, export and import, operation."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE, ORDER_WITH_TOTAL, avro

from dragoman.core.contract import Compatibility
from dragoman.core.errors import ConfigurationError, Conflict, NotFound
from dragoman.core.schema import Reference, Schema
from dragoman.registry import RegistryService, connect
from dragoman.registry.administration import administer
from dragoman.registry.bundle import Bundle, collect, contexts_in, from_json, restore, to_json
from dragoman.registry.directory import read_directory, write_directory
from dragoman.registry.fields import fields_of
from dragoman.registry.http.server import Server, ServerOptions
from dragoman.registry.limits import Limits
from dragoman.registry.name import ContractName


def post(server: Server, name: str, schema: str, **more: object) -> None:
    answer = httpx.post(f"{server.url}/contracts/{name}", json={"schema": schema, **more})
    assert answer.status_code == 200, answer.text


def test_many_channels_are_bound_to_a_contract(server: Server) -> None:
    post(server, "shared-order", ORDER.text)
    contract = f"{server.url}/contracts/shared-order"
    assert httpx.get(contract).json()["channel"] == "shared-order"
    for channel in ("orders.eu", "orders.us", "orders.eu"):
        assert httpx.put(f"{contract}/channels/{channel}").status_code == 200
    assert httpx.get(f"{contract}/channels").json() == ["orders.eu", "orders.us"]
    shown = httpx.get(contract).json()
    assert (shown["channel"], shown["channels"]) == ("orders.eu", ["orders.eu", "orders.us"])
    assert httpx.get(f"{server.url}/channels/orders.us/contracts").json() == ["shared-order"]
    assert httpx.delete(f"{contract}/channels/orders.eu").json() == {"success": True}
    assert httpx.delete(f"{contract}/channels/orders.eu").status_code == 404
    assert httpx.get(contract).json()["channel"] == "orders.us"
    assert httpx.put(f"{server.url}/contracts/nothing/channels/x").status_code == 404
    assert httpx.put(f"{contract}/channels/a%20b").status_code == 422


def test_a_bound_channel_leads_confluents_serializers_to_its_contract(server: Server) -> None:
    post(server, "shared-order", ORDER.text)
    httpx.put(f"{server.url}/contracts/shared-order/channels/orders")
    with SchemaRegistryClient({"url": server.url}) as client:
        AvroSerializer(client, ORDER.text)({"id": 1}, SerializationContext("orders", MessageField.VALUE))
    assert httpx.get(f"{server.url}/subjects").json() == ["shared-order"]


def test_the_history_tells_who_did_what_and_when(server: Server) -> None:
    post(server, "orders-value", ORDER.text)
    httpx.post(f"{server.url}/contracts/orders-value/compatibility", json={"compatibility": "NONE"})
    httpx.delete(f"{server.url}/contracts/orders-value/versions/1")
    history = httpx.get(f"{server.url}/contracts/orders-value/history").json()
    assert [each["action"] for each in history] == ["hide", "configure", "register"]
    assert {each["author"] for each in history} == {"anonymous"}
    assert history[0]["version"] == 1
    assert history[0]["at"] >= history[-1]["at"]
    assert httpx.get(f"{server.url}/contracts/nothing/history").status_code == 404


def test_versions_are_compared_field_by_field_with_a_verdict_per_strategy(server: Server) -> None:
    httpx.post(f"{server.url}/contracts/orders-value/compatibility", json={"compatibility": "NONE"})
    post(server, "orders-value", ORDER.text)
    post(server, "orders-value", avro(("id", "string"), ("total", "double")).text)
    compared = httpx.get(f"{server.url}/contracts/orders-value/compare").json()
    assert (compared["from"], compared["to"]) == (1, 2)
    assert compared["changes"] == [
        {"path": "id", "kind": "changed", "before": "long", "after": "string"},
        {"path": "total", "kind": "added", "before": None, "after": "double"},
    ]
    assert not compared["verdicts"]["BACKWARD"]["compatible"]
    assert compared["verdicts"]["NONE"]["compatible"]
    assert "TYPE_MISMATCH" in {reason["rule"] for reason in compared["reasons"]}
    same = httpx.get(f"{server.url}/contracts/orders-value/compare?from=1&to=1").json()
    assert same["changes"] == []
    assert all(verdict["compatible"] for verdict in same["verdicts"].values())
    assert httpx.get(f"{server.url}/contracts/orders-value/compare?from=7").status_code == 404


def test_transitive_strategies_are_judged_over_all_earlier_versions(server: Server) -> None:
    httpx.post(f"{server.url}/contracts/orders-value/compatibility", json={"compatibility": "NONE"})
    for schema in (
        avro(("id", "long")),
        avro(("id", "long"), ("kind", "string", "a")),
        avro(("id", "long"), ("kind", "string")),
    ):
        post(server, "orders-value", schema.text)
    verdicts = httpx.get(f"{server.url}/contracts/orders-value/compare?from=2&to=3").json()["verdicts"]
    assert verdicts["BACKWARD"]["compatible"]
    assert verdicts["BACKWARD_TRANSITIVE"] == {"compatible": False, "version": 1}


@pytest.mark.parametrize(
    ("type", "text", "expected"),
    [
        (
            "AVRO",
            '{"type":"record","name":"A","fields":[{"name":"b","type":{"type":"array","items":'
            '{"type":"record","name":"B","fields":[{"name":"c","type":["null","string"],"default":null}]}}}]}',
            {"b": "array", "b[].c": "null | string = null"},
        ),
        (
            "JSON",
            '{"type":"object","required":["a"],"properties":{"a":{"type":"object","properties":'
            '{"b":{"type":"string"}}},"c":{"type":"array","items":{"type":"integer","minimum":1}}}}',
            {
                "a": "object",
                "a.b?": "string",
                "c?": "array",
                "c?[]": '{"minimum": 1, "type": "integer"}',
            },
        ),
        (
            "PROTOBUF",
            'syntax = "proto3";\nmessage A {\n  string b = 1;\n  message C {\n    int32 d = 2;\n  }\n}\n',
            {
                'syntax = "proto3";': 'syntax = "proto3"',
                "A": "message",
                "A.b": "string b = 1",
                "A.C": "message",
                "A.C.d": "int32 d = 2",
            },
        ),
        (
            "THRIFT",
            "struct A {\n  1: required string b,\n  2: optional i32 c = 3\n}\n",
            {"A": "struct", "A.b": "1: required string b", "A.c": "2: optional i32 c = 3"},
        ),
    ],
)
def test_fields_are_named_by_their_paths(type: str, text: str, expected: dict[str, str]) -> None:
    assert fields_of(type, text) == expected


async def filled() -> RegistryService:
    service = RegistryService.open("sqlite://:memory:")
    await service.register("customer", avro(("name", "string"), name="Customer"))
    await service.register("orders-value", ORDER)
    await service.register("orders-value", ORDER_WITH_NOTE)
    await service.delete("orders-value", 1)
    await service.register(":.sales:a/b .. c", ORDER_WITH_TOTAL)
    await service.register("gone", ORDER)
    await service.delete("gone")
    await service.delete("gone", permanent=True)
    await service.bind(ContractName(".", "customer"), "people")
    return service


async def bundle_of(service: RegistryService) -> Bundle:
    return await service.engine.read(collect)


async def bring(service: RegistryService, bundle: Bundle) -> dict[str, int]:
    touched = [ContractName(context, "") for context in contexts_in(bundle)]
    parser = service.engine.parser
    return dict(await service.engine.write(lambda tx: restore(tx, parser, bundle, author="x"), *touched))


async def test_an_export_into_files_comes_back_whole(tmp_path: Path) -> None:
    source, target = await filled(), RegistryService.open("sqlite://:memory:")
    bundle = await bundle_of(source)
    write_directory(bundle, tmp_path / "export")
    assert await bring(target, read_directory(tmp_path / "export")) == {"added": 4, "known": 0}
    assert to_json(await bundle_of(target)) == to_json(bundle)
    assert await bring(target, from_json(to_json(bundle))) == {"added": 0, "known": 4}
    assert (await target.register("gone", ORDER)).version == 2
    assert (await target.version("orders-value")).version == 2
    await source.close()
    await target.close()


async def test_an_export_is_the_same_each_time_and_replaces_an_earlier_one(tmp_path: Path) -> None:
    source = await filled()
    folder = tmp_path / "export"
    write_directory(await bundle_of(source), folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write_directory(await bundle_of(source), folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert json.loads((folder / "contracts" / "orders-value" / "2.avsc").read_text())["name"] == "Order"
    await source.close()


async def test_an_export_never_overwrites_what_it_did_not_write(tmp_path: Path) -> None:
    source = await filled()
    (tmp_path / "letter.txt").write_text("precious")
    with pytest.raises(ConfigurationError):
        write_directory(await bundle_of(source), tmp_path)
    await source.close()


async def test_an_import_that_contradicts_changes_nothing() -> None:
    source, target = await filled(), RegistryService.open("sqlite://:memory:")
    await target.register("orders-value", ORDER_WITH_TOTAL)
    before = to_json(await bundle_of(target))
    with pytest.raises(Conflict):
        await bring(target, await bundle_of(source))
    assert to_json(await bundle_of(target)) == before
    await source.close()
    await target.close()


async def test_a_backup_of_a_live_registry_is_a_registry(tmp_path: Path) -> None:
    source = RegistryService.open(f"sqlite://{tmp_path}/live.db")
    await source.register("orders-value", ORDER)
    source.engine.database.backup(str(tmp_path / "copy.db"))  # type: ignore[attr-defined]
    copy = RegistryService.open(f"sqlite://{tmp_path}/copy.db")
    assert to_json(await bundle_of(copy)) == to_json(await bundle_of(source))
    await source.close()
    await copy.close()


def test_export_and_import_work_over_http(server: Server) -> None:
    post(server, "orders-value", ORDER.text)
    exported = httpx.get(f"{server.url}/export").content
    done = httpx.post(f"{server.url}/import", content=exported)
    assert done.json() == {"added": 0, "known": 1}
    assert httpx.post(f"{server.url}/import", content=b"{}").status_code == 422


async def test_an_export_larger_than_any_request_comes_back_over_http() -> None:
    source = await filled()
    bundle = await administer(source).export()
    limits = Limits(body=len(to_json(bundle)) // 2)
    with Server(ServerOptions(store="sqlite://:memory:", port=0, limits=limits)) as server:
        target = connect(server.url)
        assert await administer(target).restore(bundle) == {"added": 4, "known": 0}
        assert to_json(await administer(target).export()) == to_json(bundle)
        await target.close()
    await source.close()


def test_metrics_count_requests_and_hot_reads(server: Server) -> None:
    post(server, "orders-value", ORDER.text)
    for _ in range(3):
        httpx.get(f"{server.url}/schemas/1")
    text = httpx.get(f"{server.url}/metrics").text
    assert 'dragoman_registry_requests_total{method="POST",status="200"} 1' in text
    assert "dragoman_registry_hot_reads_total 2" in text
    assert "dragoman_registry_schemas 1" in text


def test_the_page_and_the_document_need_nothing_from_elsewhere(server: Server) -> None:
    page = httpx.get(f"{server.url}/docs").text
    assert "/contracts/{name}" in page
    assert "http://" not in page
    assert "https://" not in page
    document = httpx.get(f"{server.url}/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert "/subjects/{subject}/versions" in document["paths"]


def test_openschema_is_mounted_and_told_apart_by_media_type(server: Server) -> None:
    base = f"{server.url}/openschema/v1"
    described = {"tenant": "acme", "description": "Orders.", "compatibility": "FULL", "format": "avro"}
    made = httpx.post(f"{base}/subjects/orders", json={**described, "schema": ORDER.text}).json()
    assert (made["tenant"], made["compatibility"], made["schema"]["id"]) == ("acme", "FULL", "1")
    assert httpx.get(f"{base}/subjects").json() == {"name": ["orders"]}
    body = {"schemaDefinition": ORDER_WITH_NOTE.text, "serialization": "avro"}
    assert httpx.post(f"{base}/subjects/orders/versions", json=body).json() == {"id": "2"}
    assert httpx.get(f"{base}/subjects/orders/versions").json() == {"version": [1, 2]}
    one = httpx.get(f"{base}/subjects/orders/versions/1/schema").json()
    assert (one["id"], one["version"], one["serialization"]) == ("1", 1, "avro")
    assert httpx.get(f"{base}/schemas/2").json()["version"] == 2
    assert httpx.get(f"{base}/schemas/2/subject").json() == [{"subject": "orders", "version": 2}]
    check = f"{base}/compatibility/subjects/orders/versions/latest"
    verdict = httpx.post(check, json={"schemaDefinition": ORDER_WITH_TOTAL.text})
    assert verdict.json() == {"isCompatible": False}
    assert httpx.put(f"{base}/config/orders", json={"compatibility": "NONE"}).json() == {
        "compatibility": "NONE"
    }
    assert httpx.get(f"{base}/config/orders").json() == {"compatibility": "NONE"}
    missing = httpx.get(f"{base}/subjects/nothing")
    assert (missing.status_code, set(missing.json())) == (404, {"errorCode", "errorMessage"})
    assert missing.json()["errorCode"] == 40401
    for _ in range(2):
        media = {"Accept": "application/vnd.openschema.v1+json"}
        assert httpx.get(f"{server.url}/subjects", headers=media).json() == {"name": ["orders"]}
        assert httpx.get(f"{server.url}/subjects").json() == ["orders"]
    assert httpx.delete(f"{base}/subjects/orders/versions/1").json() == 1
    assert httpx.delete(f"{base}/subjects/orders").json() == [2]


@pytest.mark.parametrize(
    "refused", [ORDER_WITH_TOTAL.text, "no schema"], ids=["incompatible", "no schema at all"]
)
def test_an_openschema_subject_whose_schema_is_refused_stays_as_it_was(server: Server, refused: str) -> None:
    subject = f"{server.url}/openschema/v1/subjects/orders"
    httpx.post(subject, json={"compatibility": "FULL", "description": "Orders.", "schema": ORDER.text})
    before = httpx.get(subject).json(), httpx.get(f"{server.url}/history").json()
    described = {"compatibility": "BACKWARD", "description": "Changed."}
    assert httpx.post(subject, json={**described, "schema": refused}).status_code in (409, 422)
    assert (httpx.get(subject).json(), httpx.get(f"{server.url}/history").json()) == before
    judged_anew = {"compatibility": "NONE", "schema": ORDER_WITH_TOTAL.text}
    assert httpx.post(subject, json=judged_anew).json()["schema"]["version"] == 2


async def test_an_import_brings_what_is_referred_to_before_what_refers_to_it() -> None:
    source, target = (RegistryService.open("sqlite://:memory:") for _ in range(2))
    await source.register("z-customer", avro(("name", "string"), name="Customer"))
    order = avro(("id", "long"), ("customer", "shop.Customer"))
    reference = Reference("shop.Customer", "z-customer", 1)
    made = await source.register("a-orders", Schema("AVRO", order.text, (reference,)))
    await bring(target, await bundle_of(source))
    assert await target.version("a-orders") == made
    assert made.schema.fingerprint is not None
    await source.close()
    await target.close()


async def test_an_import_is_in_the_history_with_all_that_it_changed() -> None:
    source, target = await filled(), RegistryService.open("sqlite://:memory:")
    await source.set_compatibility("orders-value", Compatibility.FULL)
    await bring(target, await bundle_of(source))
    actions = [each["action"] for each in await administer(target).history(None, 100)]
    assert (actions.count("import"), actions.count("bind"), actions.count("configure")) == (4, 1, 1)
    await source.close()
    await target.close()


@pytest.mark.parametrize(
    "settings", [{"alias": 7}, {"alias": ":no-end"}, {"normalize": "yes"}, {"default_metadata": {"tags": 7}}]
)
async def test_settings_that_nobody_could_use_are_not_imported(settings: dict[str, object]) -> None:
    target = RegistryService.open("sqlite://:memory:")
    bundle = from_json(json.dumps({"format": 1, "scopes": [{"name": "a", "settings": settings}]}).encode())
    with pytest.raises(ConfigurationError):
        await bring(target, bundle)
    await target.close()


def test_a_contract_that_is_gone_leaves_its_channels(server: Server) -> None:
    post(server, "shared-order", ORDER.text)
    contract = f"{server.url}/contracts/shared-order"
    httpx.put(f"{contract}/channels/orders")
    httpx.delete(contract)
    httpx.delete(f"{contract}?permanent=true")
    assert httpx.get(f"{server.url}/channels/orders/contracts").json() == []
    post(server, "shared-order", ORDER.text)
    assert httpx.get(contract).json()["channel"] == "shared-order"


@pytest.mark.parametrize("over", ["http", "database"])
async def test_administrators_get_the_same_refusals_in_process_and_over_http(
    server: Server, over: str
) -> None:
    registry = connect(server.url if over == "http" else "memory://")
    await registry.register("orders-value", ORDER)
    administration = administer(registry)
    with pytest.raises(ConfigurationError, match="not a channel name"):
        await administration.bind("orders-value", "a b")
    with pytest.raises(NotFound) as unbound:
        await administration.unbind("orders-value", "elsewhere")
    assert unbound.value.code == "registry.not-found.binding"
    with pytest.raises(NotFound):
        await administration.history("nothing", 10)
    with pytest.raises(ConfigurationError) as lifeless:
        await administration.create_key("ada", ["read"], -1.0)
    assert lifeless.value.code == "registry.invalid.lifetime"
    await registry.close()


@pytest.mark.parametrize("line", ["x" * 200_000 + ";", "1: " + "x" * 200_000 + " y", "a=1[" * 50_000])
def test_fields_of_very_long_lines_are_found_at_once(line: str) -> None:
    assert "A" in fields_of("PROTOBUF", f"message A {{\n  {line}\n}}\n")


def test_a_schema_of_many_levels_can_be_compared_and_shown(server: Server) -> None:
    deep = '{"type":"array","items":' * 1500 + '"long"' + "}" * 1500
    post(server, "deep-value", deep)
    compared = httpx.get(f"{server.url}/contracts/deep-value/compare?from=1&to=1").json()
    assert compared["verdicts"]["FULL"]["compatible"]
    shown = httpx.get(f"{server.url}/schemas/ids/1?format=resolved").json()
    assert shown["schema"] == deep
    httpx.put(f"{server.url}/config", json={"validateFields": True})
    reserving = {"schema": deep, "metadata": {"properties": {"confluent:reserved": "a"}}}
    answer = httpx.post(f"{server.url}/subjects/other-value/versions", json=reserving)
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42201)
