"""Confluent's own serializer and deserializer understand our payloads and schemas, and we theirs."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf import message_factory

from dragoman.formats.protobuf import ProtobufFormat, ProtobufSchema
from dragoman.schema.framing import frame, unframe

protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
registry = pytest.importorskip("confluent_kafka.schema_registry")
serialization = pytest.importorskip("confluent_kafka.serialization")

FORMAT = ProtobufFormat()
CONFIGURATION = {
    "use.deprecated.format": False,
    "subject.name.strategy": registry.topic_subject_name_strategy,
}
ITEM = 'syntax = "proto3"; package shop; message Item { string sku = 1; }'
ORDER = """syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "item.proto"; import "confluent/meta.proto";
message Other { int32 x = 1; }
message Order {
  int64 id = 1 [(confluent.field_meta).tags = "PII"];
  google.protobuf.Timestamp placed = 2;
  repeated Item items = 3;
  map<string, int32> counts = 4;
  message Note { string text = 1; }
  Note note = 5;
}"""


class Schemas:
    """What the serializers ask of a registry client, kept in memory and parsed by our format."""

    def __init__(self) -> None:
        self.subjects: dict[str, Any] = {}
        self.parsed: dict[str, ProtobufSchema] = {}

    def config(self) -> dict[str, Any]:
        return {}

    def register_schema(self, subject: str, schema: Any, **_: Any) -> int:
        references = {each.name: self.parsed[each.subject] for each in schema.references or ()}
        self.parsed[subject] = FORMAT.parse(schema.schema_str, references)
        self.subjects.setdefault(subject, (len(self.subjects) + 1, schema))
        return int(self.subjects[subject][0])

    def registered(self, subject: str) -> Any:
        id, schema = self.subjects[subject]
        text = self.parsed[subject].serialized()
        served = registry.Schema(text, "PROTOBUF", schema.references)
        return registry.RegisteredSchema(schema_id=id, guid=None, schema=served, subject=subject, version=1)

    def register_schema_full_response(self, subject: str, schema: Any, **_: Any) -> Any:
        self.register_schema(subject, schema)
        return self.registered(subject)

    def lookup_schema(self, subject: str, *_: Any, **__: Any) -> Any:
        return self.registered(subject)

    def get_version(self, subject: str, *_: Any, **__: Any) -> Any:
        return self.registered(subject)

    def get_schema(self, schema_id: int, *_: Any, **__: Any) -> Any:
        subject = next(name for name, (id, _) in self.subjects.items() if id == schema_id)
        return self.registered(subject).schema


def test_messages_cross_both_ways_with_imports_and_a_message_that_is_not_the_first() -> None:
    item = FORMAT.parse(ITEM)
    schema = FORMAT.parse(ORDER, {"item.proto": item})
    cls = message_factory.GetMessageClass(schema.messages[(1,)])
    client = Schemas()
    context = serialization.SerializationContext("orders", serialization.MessageField.VALUE)
    serializer = protobuf.ProtobufSerializer(cls, client, CONFIGURATION)
    message = cls(id=7, items=[{"sku": "a"}], counts={"x": 1}, note={"text": "hello"})
    message.placed.seconds = 1_700_000_000

    data = serializer(message, context)
    id, payload = unframe(data)
    registered = client.parsed["orders-value"]
    assert client.subjects["orders-value"][0] == id
    assert registered.fingerprint == schema.fingerprint
    assert payload[:2] == b"\x02\x02"
    codec = FORMAT.codec(registered)
    value = codec.decode(payload)
    assert (value["id"], value["items"], value["note"]) == (7, [{"sku": "a"}], {"text": "hello"})

    from dragoman.schema.records import record

    @record
    class Order:
        id: int
        counts: dict[str, int]

    ours = FORMAT.codec(registered, cls=Order).encode(Order(9, {"y": 2}))
    deserializer = protobuf.ProtobufDeserializer(cls, CONFIGURATION, client)
    back = deserializer(frame(id, ours), context)
    assert (back.id, dict(back.counts)) == (9, {"y": 2})


def test_schemas_come_as_text_and_as_descriptors_and_are_the_same() -> None:
    text = (
        'syntax = "proto3"; '
        "message A { map<string, int32> m = 1; optional int32 o = 2; enum E { X = 0; } E e = 3; }"
    )
    schema = FORMAT.parse(text)
    raw = base64.b64decode(schema.serialized())
    assert FORMAT.parse(base64.b64encode(raw).decode()) == schema
    assert FORMAT.parse(schema.serialized()).fingerprint == schema.fingerprint
