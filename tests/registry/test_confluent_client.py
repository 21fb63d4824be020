"""Confluent's own Python client and serializers, unchanged, against the live server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    MetadataTags,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.serde import RuleContext, RuleExecutor
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE, ORDER_WITH_TOTAL, avro

from dragoman.core.format import Format
from dragoman.core.loading import FORMATS, load
from dragoman.registry import connect
from dragoman.registry.http.server import Server
from dragoman.schema.framing import frame, unframe

ORDER_JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
        "additionalProperties": False,
    }
)


@pytest.fixture
def client(server: Server) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": server.url}) as connected:
        yield connected


def context(channel: str = "orders", headers: list[tuple[str, bytes]] | None = None) -> SerializationContext:
    return SerializationContext(channel, MessageField.VALUE, headers)


def test_the_client_does_all_its_calls(client: SchemaRegistryClient) -> None:
    schema = Schema(ORDER.text, "AVRO")
    assert client.register_schema("orders-value", schema) == 1
    full = client.register_schema_full_response("orders-value", Schema(ORDER_WITH_NOTE.text, "AVRO"))
    assert (full.schema_id, full.version, full.subject) == (2, 2, "orders-value")
    client.clear_caches()
    assert json.loads(client.get_schema(1).schema_str)["name"] == "Order"
    assert full.guid is not None
    assert client.get_schema_by_guid(full.guid).schema_str == client.get_schema(2).schema_str
    assert client.lookup_schema("orders-value", schema).version == 1
    assert client.get_subjects() == ["orders-value"]
    assert client.get_latest_version("orders-value").version == 2
    assert client.get_version("orders-value", 1).schema_id == 1
    assert client.get_versions("orders-value") == [1, 2]
    assert "AVRO" in client.get_schema_types()
    assert client.get_subjects_by_schema_id(1) == ["orders-value"]
    assert [each.version for each in client.get_schema_versions(1)] == [1]
    assert client.test_compatibility("orders-value", schema)
    assert not client.test_compatibility("orders-value", Schema(ORDER_WITH_TOTAL.text, "AVRO"))
    assert client.test_compatibility_all_versions("orders-value", schema)
    client.set_compatibility("orders-value", "FULL")
    assert client.get_compatibility("orders-value") == "FULL"
    client.set_config("orders-value", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    assert client.get_config("orders-value").compatibility_level == "NONE"
    client.delete_config("orders-value")
    assert client.get_global_mode() == "READWRITE"
    client.update_mode("orders-value", "READONLY")
    assert client.get_mode("orders-value") == "READONLY"
    client.delete_mode("orders-value")
    assert client.get_contexts() == ["."]
    assert client.delete_version("orders-value", 1) == 1
    assert client.delete_subject("orders-value") == [2]
    assert client.delete_subject("orders-value", permanent=True) == [1, 2]


def test_a_refusal_reaches_the_client_with_its_code(client: SchemaRegistryClient) -> None:
    client.register_schema("orders-value", Schema(ORDER.text, "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("orders-value", Schema(ORDER_WITH_TOTAL.text, "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)


def test_a_version_is_found_by_metadata(client: SchemaRegistryClient) -> None:
    marked = Metadata(None, MetadataProperties({"application.major.version": "1"}), None)
    client.register_schema("orders-value", Schema(ORDER.text, "AVRO", [], marked))
    found = client.get_latest_with_metadata("orders-value", {"application.major.version": "1"})
    assert found.version == 1


def avro_pair(client: SchemaRegistryClient, conf: dict[str, Any]) -> tuple[Any, Any, Any]:
    return AvroSerializer(client, ORDER.text, conf=conf), AvroDeserializer(client), {"id": 7_000_000_000_000}


def json_pair(client: SchemaRegistryClient, conf: dict[str, Any]) -> tuple[Any, Any, Any]:
    reader = JSONDeserializer(ORDER_JSON, schema_registry_client=client)
    return JSONSerializer(ORDER_JSON, client, conf=conf), reader, {"id": 7}


def order_class() -> Any:
    """A message class whose file imports another, as protoc would have made it."""
    customer = descriptor_pb2.FileDescriptorProto(name="customer.proto", package="shop", syntax="proto3")
    customer.message_type.add(name="Customer").field.add(name="name", number=1, type=9, label=1)
    order = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=["customer.proto"]
    )
    message = order.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="customer", number=2, type=11, label=1, type_name=".shop.Customer")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(customer)
    pool.Add(order)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def protobuf_pair(client: SchemaRegistryClient, conf: dict[str, Any]) -> tuple[Any, Any, Any]:
    kind = order_class()
    writer = ProtobufSerializer(kind, client, {"use.deprecated.format": False, **conf})
    reader = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
    return writer, reader, kind(id=7, customer={"name": "Ada"})


PAIRS = [avro_pair, json_pair, protobuf_pair]


@pytest.mark.parametrize("pair", PAIRS)
def test_messages_make_the_round_trip_with_automatic_registration(
    client: SchemaRegistryClient, pair: Callable[..., tuple[Any, Any, Any]]
) -> None:
    write, read, value = pair(client, {"auto.register.schemas": True})
    payload = write(value, context())
    schema_id, _ = unframe(payload)
    assert client.get_version("orders-value", 1).schema_id == schema_id
    client.clear_caches()  # it keeps a schema under its id, whatever form of it was asked for
    assert read(payload, context()) == value


@pytest.mark.parametrize("pair", PAIRS)
def test_messages_make_the_round_trip_with_the_latest_version(
    client: SchemaRegistryClient, pair: Callable[..., tuple[Any, Any, Any]]
) -> None:
    write, _, value = pair(client, {"auto.register.schemas": True})
    write(value, context())
    client.clear_caches()
    write, read, value = pair(client, {"auto.register.schemas": False, "use.latest.version": True})
    assert read(write(value, context()), context()) == value


@pytest.mark.parametrize("pair", PAIRS)
def test_messages_make_the_round_trip_with_the_guid_in_a_header(
    client: SchemaRegistryClient, pair: Callable[..., tuple[Any, Any, Any]]
) -> None:
    headers: list[tuple[str, bytes]] = []
    write, read, value = pair(
        client, {"auto.register.schemas": True, "schema.id.serializer": header_schema_id_serializer}
    )
    payload = write(value, context(headers=headers))
    assert [name for name, _ in headers] == ["__value_schema_id"]
    client.clear_caches()
    assert read(payload, context(headers=headers)) == value


def test_a_writer_that_does_not_register_finds_what_is_there(client: SchemaRegistryClient) -> None:
    write, _, value = avro_pair(client, {"auto.register.schemas": False})
    with pytest.raises(SchemaRegistryError):
        write(value, context())
    client.register_schema("orders-value", Schema(ORDER.text, "AVRO"))
    write, read, value = avro_pair(client, {"auto.register.schemas": False})
    assert read(write(value, context()), context()) == value


def test_avro_references_are_followed(client: SchemaRegistryClient) -> None:
    customer = avro(("name", "string"), name="Customer")
    client.register_schema("customer", Schema(customer.text, "AVRO"))
    order = avro(("id", "long"), ("customer", "shop.Customer"))
    linked = Schema(order.text, "AVRO", [SchemaReference("shop.Customer", "customer", 1)])
    write, read = AvroSerializer(client, linked), AvroDeserializer(client)
    value = {"id": 7, "customer": {"name": "Ada"}}
    assert read(write(value, context()), context()) == value


def test_json_references_are_followed(client: SchemaRegistryClient) -> None:
    customer = {"$id": "customer.json", "type": "object", "properties": {"name": {"type": "string"}}}
    client.register_schema("customer", Schema(json.dumps(customer), "JSON"))
    order = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "order.json",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "customer": {"$ref": "customer.json"}},
    }
    linked = Schema(json.dumps(order), "JSON", [SchemaReference("customer.json", "customer", 1)])
    write = JSONSerializer(linked, client)
    read = JSONDeserializer(linked, schema_registry_client=client)
    value = {"id": 7, "customer": {"name": "Ada"}}
    assert read(write(value, context()), context()) == value


def test_protobuf_imports_become_references(client: SchemaRegistryClient) -> None:
    write, _, value = protobuf_pair(client, {"auto.register.schemas": True})
    write(value, context())
    (reference,) = client.get_latest_version("orders-value").schema.references
    assert (reference.name, reference.version) == ("customer.proto", 1)


async def test_messages_cross_both_ways_with_our_codecs(server: Server, client: SchemaRegistryClient) -> None:
    write, read, value = avro_pair(client, {"auto.register.schemas": True})
    registry = connect(server.url)
    format: Format = load(FORMATS, "AVRO")()
    schema_id, payload = unframe(write(value, context()))
    codec = format.codec(format.parse((await registry.schema(schema_id)).text))
    assert codec.decode(payload) == value
    made = await registry.register("returns-value", ORDER)
    assert made.schema.id is not None
    assert read(frame(made.schema.id, codec.encode({"id": 8})), context("returns")) == {"id": 8}
    await registry.close()


@pytest.mark.parametrize("first", [False, True])
def test_clients_with_and_without_normalisation_share_one_version(server: Server, first: bool) -> None:
    for normalize in (first, not first, first):
        with SchemaRegistryClient({"url": server.url}) as client:
            conf = {"normalize.schemas": normalize}
            AvroSerializer(client, ORDER.text, conf=conf)({"id": 1}, context())
            JSONSerializer(ORDER_JSON, client, conf=conf)({"id": 1}, context("texts"))
    with SchemaRegistryClient({"url": server.url}) as client:
        conf = {"auto.register.schemas": False, "normalize.schemas": not first}
        assert AvroSerializer(client, ORDER.text, conf=conf)({"id": 1}, context())
        assert JSONSerializer(ORDER_JSON, client, conf=conf)({"id": 1}, context("texts"))
        assert client.get_versions("orders-value") == [1]
        assert client.get_versions("texts-value") == [1]


class Renaming(RuleExecutor):
    """What JSONata would do, without its interpreter."""

    def type(self) -> str:
        return "RENAMING"

    def transform(self, ctx: RuleContext, message: Any) -> Any:
        before, after = str(ctx.rule.expr).split(" ")
        message[after] = message.pop(before)
        return message


def test_a_message_of_an_older_version_is_migrated_by_rules(server: Server) -> None:
    """The client looks its writer's schema up with all that it knows of it, empty lists among that."""
    old, new = avro(("number", "long")), avro(("id", "long"))
    rule = Rule(
        "up",
        None,
        RuleKind.TRANSFORM,
        RuleMode.UPGRADE,
        "RENAMING",
        None,
        None,
        "number id",
        None,
        None,
        False,
    )
    with SchemaRegistryClient({"url": server.url}) as client:
        client.set_config("orders-value", ServerConfig(compatibility_group="major"))

        def schema(text: str, major: str, rules: list[Rule]) -> Schema:
            metadata = Metadata(MetadataTags({}), MetadataProperties({"major": major}), [])
            return Schema(text, "AVRO", [], metadata, RuleSet(rules, []))

        client.register_schema("orders-value", schema(old.text, "1", []))
        client.register_schema("orders-value", schema(new.text, "2", [rule]))
        conf = {"auto.register.schemas": False, "use.latest.with.metadata": {"major": "1"}}
        frame = AvroSerializer(client, None, conf=conf)({"number": 7}, context())
        rules = RuleRegistry()
        rules.register_executor(Renaming())
        conf = {"use.latest.with.metadata": {"major": "2"}}
        read = AvroDeserializer(client, None, conf=conf, rule_registry=rules)
        assert read(frame, context()) == {"id": 7}
        for version in (1, 2):
            known = client.get_version("orders-value", version)
            assert client.lookup_schema("orders-value", known.schema).version == version
