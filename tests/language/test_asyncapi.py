"""AsyncAPI documents: accepted by the official parser, and meaning what the model means."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.client.connecting import open_broker
from dragoman.core.broker import Subscription
from dragoman.core.errors import ConfigurationError, NotFound
from dragoman.core.message import Message
from dragoman.language.generators import yaml as our_yaml
from dragoman.language.generators.asyncapi import SPECS, generate, render
from dragoman.language.generators.picture.system import system_svg
from dragoman.language.model import Model, load_model
from dragoman.language.parser import parse_strictly
from dragoman.language.path import path_names
from dragoman.language.running.plan import apply, plan
from dragoman.language.running.wanted import wanted
from dragoman.registry import connect
from tests.language.node import official
from tests.services.rabbitmq import Rabbitmq

MODELS = sorted((Path(__file__).parents[2] / "examples" / "models").glob("*.mdsl"))
LOAN_BROKER = next(path for path in MODELS if path.stem == "loan-broker")

EVERYTHING = """API description Everything version "1" overview "Has: all, # of it."
data type Null { "a": D<int>, "l": ( "x": D<string>, "y": D<bool> ), "u": D | "v": { P } }
data type Loop { "next": Loop?, "pair": [ { "a": D<raw> }; { "b": L<string> } ] }
data type Old version "1" ID<int> default is "7"
data type Alias Null+
data type Single "referenceId": ID<int>
channel A of type DATA_TYPE on path "a/${x}/${y}" with x: int, y: string, "Why: not"
  accepts and produces message Ma delivering headers Null payload P
  bindings for AMQP { "is": "routingKey", "queue": { "name": "q" }, "odd": 0, "expiration": 5 }
  bindings for MQTT { "qos": 0, "retain": false }
channel B on path "b" produces message Mb delivering payload Alias* bindings for "custom" { "z": [1, -2.5] }
channel C of type PUBLISH_SUBSCRIBE, GUARANTEED_DELIVERY delivery guarantee EXACTLY_ONCE on path "c"
  accepts message Mc expecting headers (D, MD<string>) payload (Old | Loop) where MESSAGE_EXPIRES in 3s
channel R request message Q on path "q/{id}" with id: long expecting payload { "id": ID<long> }
  where RETURN_ADDRESS is "$message.header#/to"
  reply message S on path "s" delivering payload Single
channel Jms of type POINT_TO_POINT on path "j" produces message Mj delivering payload D<string>
message broker B1 description "With: colons" exposes Everything
  at location "amqps://u:p@h:5671/v" via protocol AMQP
  policy P1 realized using BASIC_AUTHENTICATION policy P2 realized using JWT
  policy P3 realized using API_KEY in "$message.header#/k" policy P4 realized using HTTP_API_KEY in "query"
  policy P5 realized using X509 policy P6 realized using SYMMETRIC_ENCRYPTION
  policy P7 realized using ASYMMETRIC_ENCRYPTION policy P8 realized using SASL_PLAIN
  policy P9 realized using SASL_SCRAM_SHA_256 policy P10 realized using SASL_GSSAPI
  policy P11 realized using OAUTH_IMPLICIT
    with { "authorizationUrl": "https://a.example", "scopes": { "r": "Read" } }
  policy P12 realized using OAUTH_PASSWORD with { "tokenUrl": "https://t.example", "scopes": ["r"] }
  policy P13 realized using OAUTH_AUTHORIZATION_CODE policy P14 realized using OAUTH_CLIENT_CREDENTIALS
  policy P15 realized using OPEN_ID_CONNECT with { "openIdConnectUrl": "https://o.example" }
  policy P16 realized using "by hand" policy P17 realized using TBC
  policy P18 realized using SASL_SCRAM_SHA_512
message broker B2 exposes A, C, Jms at location "mqtt.example.com" via protocol MQTT
  bindings { "lastWill": { "topic": "t", "qos": 2, "retain": false, "message": "m" }, "odd": true },
  Jms at location "jms.example.com" via protocol JMS_ActiveMQ
message endpoint E of type SELECTIVE_CONSUMER uses from B2: A where consumed if "$message.payload#/a" == "x"
"""


def load(text: str) -> Model:
    return Model(parse_strictly(text))


def test_the_official_parser_accepts_every_document(tmp_path: Path) -> None:
    models = {path.stem: load_model(path) for path in MODELS} | {"everything": load(EVERYTHING)}
    wanted: list[tuple[str, str, str | None]] = [
        *((name, spec, None) for name in ("loan-broker", "everything") for spec in SPECS),
        *((path.stem, spec, None) for path in MODELS for spec in ("2.6.0", "3.0.0")),
        *(("loan-broker", "3.0.0", endpoint) for endpoint in ("LoanBroker", "Bank1")),
        ("loan-broker", "2.6.0", "LoanBroker"),
        ("everything", "3.0.0", "E"),
    ]
    documents: dict[Path, dict[str, Any]] = {}
    for name, spec, endpoint in wanted:
        file = tmp_path / f"{name}-{spec}-{endpoint or 'api'}.yaml"
        documents[file] = generate(models[name], spec, endpoint)
        file.write_text(render(documents[file]))
    for file, result in official(list(documents)).items():
        assert result["errors"] == [], file.name
        _same_operations(documents[file], result["operations"])


def _same_operations(document: dict[str, Any], operations: list[dict[str, Any]]) -> None:
    """The official parser reads the directions that the document was meant to have."""
    if document["asyncapi"].startswith("2."):
        names = {"publish": "receive", "subscribe": "send"}
        meant = {
            item[word]["operationId"]: action
            for item in document["channels"].values()
            for word, action in names.items()
            if word in item
        }
    else:
        meant = {id: operation["action"] for id, operation in document.get("operations", {}).items()}
    actions = {"publish": "receive", "subscribe": "send"}
    read = {each["id"]: actions.get(each["action"], each["action"]) for each in operations}
    assert read == meant


@pytest.fixture(scope="module")
def loans() -> Model:
    return load_model(LOAN_BROKER)


def test_the_api_sends_what_it_produces_and_receives_what_it_accepts(loans: Model) -> None:
    three = generate(loans, "3.0.0")["operations"]
    assert three["sendNewLoanRequested"]["action"] == "send"
    assert three["receiveLoanRequest"]["action"] == "receive"
    two = generate(loans, "2.6.0")["channels"]
    assert "subscribe" in two["banks.{bankId}.loans"] and "publish" not in two["banks.{bankId}.loans"]
    assert "publish" in two["loan-broker.request"]
    assert "subscribe" in two["loan-broker.reply"]


def test_a_request_and_its_reply_are_one_operation(loans: Model) -> None:
    operations = generate(loans, "3.0.0")["operations"]
    assert operations["receiveLoanRequest"]["reply"] == {
        "channel": {"$ref": "#/channels/LoanReply"},
        "messages": [{"$ref": "#/channels/LoanReply/messages/LoanReply"}],
    }
    assert "sendLoanReply" not in operations


def test_an_endpoint_sees_its_own_side(loans: Model) -> None:
    customer = generate(loans, "3.0.0", "Customer")
    assert {id: each["action"] for id, each in customer["operations"].items()} == {"sendLoanRequest": "send"}
    broker = generate(loans, "3.0.0", "LoanBroker")
    assert {id: each["action"] for id, each in broker["operations"].items()} == {
        "sendCreditScoreRequest": "send",
        "sendLoanProposalRequest": "send",
        "receiveLoanRequest": "receive",
    }
    assert set(customer["channels"]) == {"LoanRequest", "LoanReply"}
    assert "CreditBureauReplyDto" not in customer["components"]["schemas"]


def test_both_messages_of_a_conversation_are_correlated(loans: Model) -> None:
    messages = generate(loans, "3.0.0")["components"]["messages"]
    for name in ("LoanRequest", "LoanReply"):
        assert messages[name]["correlationId"] == {"location": "$message.payload#/requestId"}


def test_selection_durability_and_types_are_kept_as_extensions(loans: Model) -> None:
    bank = generate(loans, "3.0.0", "Bank1")["operations"]["receiveLoanProposalRequest"]
    assert bank["x-eip-conditions"] == [
        {"left": "$message.payload#/creditScore", "operator": ">", "right": 80}
    ]
    assert "Consumed if $message.payload#/creditScore > 80." in bank["description"]
    statistics = generate(loans, "3.0.0", "LoanStatistics")["operations"]["receiveNewLoanRequested"]
    assert statistics["x-eip-durable"] is True
    api = generate(loans, "3.0.0")
    assert api["channels"]["LoanRequest"]["x-eip-channel-types"] == ["GUARANTEED_DELIVERY", "POINT_TO_POINT"]
    assert api["components"]["messages"]["LoanRequest"]["x-eip-message-type"] == "DOCUMENT_MESSAGE"
    assert api["x-eip-endpoints"]["Customer"]["sends"] == ["LoanRequest"]


def test_schemas_have_cardinalities_tuples_and_alternatives() -> None:
    schemas = generate(load(EVERYTHING))["components"]["schemas"]
    assert schemas["Null"]["required"] == ["a", "l"]
    assert schemas["Null"]["oneOf"] == [{"required": ["u"]}, {"required": ["v"]}]
    assert schemas["Null"]["properties"]["l"]["properties"]["y"] == {"type": "boolean"}
    assert schemas["Alias"] == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Null"},
        "minItems": 1,
    }
    assert schemas["Loop"]["properties"]["next"] == {"$ref": "#/components/schemas/Loop"}
    pair = schemas["Loop"]["properties"]["pair"]
    assert (pair["minItems"], pair["maxItems"], len(pair["items"])) == (2, 2, 2)
    assert schemas["Old"]["default"] == 7
    assert schemas["Single"]["required"] == ["referenceId"]


def test_parameters_lose_their_dollar_and_keep_their_type() -> None:
    three = generate(load(EVERYTHING))["channels"]["A"]
    assert three["address"] == "a.{x}.{y}"
    assert three["parameters"]["x"] == {"description": "(integer)", "x-eip-type": "int"}
    two = generate(load(EVERYTHING), "2.0.0")["channels"]["a.{x}.{y}"]
    assert two["parameters"]["y"] == {"description": "Why: not", "schema": {"type": "string"}}


def test_bindings_stand_where_their_specification_wants_them() -> None:
    document = generate(load(EVERYTHING))
    amqp = document["channels"]["A"]["bindings"]["amqp"]
    assert amqp == {
        "is": "routingKey",
        "x-odd": 0,
        "exchange": {"name": "", "type": "topic"},
        "x-queue": {"name": "q"},
    }
    operation = document["operations"]["sendMa"]["bindings"]
    assert operation["amqp"]["expiration"] == 5
    assert operation["mqtt"] == {"qos": 0, "retain": False}
    assert document["operations"]["receiveMc"]["bindings"]["mqtt"] == {"qos": 2, "messageExpiryInterval": 3}
    assert document["servers"]["B2"]["bindings"]["mqtt"]["x-odd"] is True
    assert document["channels"]["Jms"]["bindings"]["jms"] == {"destinationType": "queue"}


def test_a_return_address_makes_the_reply_channel_dynamic() -> None:
    document = generate(load(EVERYTHING))
    assert document["operations"]["receiveQ"]["reply"]["address"] == {"location": "$message.header#/to"}
    assert document["channels"]["S"]["address"] is None
    assert document["channels"]["S"]["x-eip-path"] == "s"


def test_servers_have_host_path_protocol_and_security() -> None:
    document = generate(load(EVERYTHING))
    server = document["servers"]["B1"]
    assert (server["host"], server["pathname"], server["protocol"]) == ("h:5671", "/v", "amqps")
    assert {"$ref": "#/components/securitySchemes/P9"} in server["security"]
    schemes = document["components"]["securitySchemes"]
    assert schemes["P9"]["type"] == "scramSha256"
    assert schemes["P11"]["flows"]["implicit"]["availableScopes"] == {"r": "Read"}
    assert document["channels"]["B"]["servers"] == [{"$ref": "#/servers/B1"}]
    assert list(document["servers"]) == ["B1", "B2", "B22"]


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("amqps://u:p@h:5671/v@w", "amqps://h:5671/v@w"),
        ("u:p@h:1883", "h:1883"),
        ("kafka://u:s@p@a:1,b:2", "kafka://a:1,b:2"),
        ("amqp://h?note=a@b", "amqp://h?note=a@b"),
    ],
)
def test_passwords_of_locations_are_in_no_document_and_no_picture(location: str, shown: str) -> None:
    text = EVERYTHING.replace("amqps://u:p@h:5671/v", location)
    assert generate(load(text), "2.6.0")["servers"]["B1"]["url"] == shown
    assert "u:" not in generate(load(text))["servers"]["B1"]["host"]
    assert f"AMQP at {shown}<" in system_svg(load(text))


@pytest.mark.parametrize(
    ("said", "scopes"),
    [
        ('{ "r": "Read" }', {"r": "Read"}),
        ('["read", "write"]', {"read": "read", "write": "write"}),
        ('"read"', {"read": "read"}),
        ("5", {"5": "5"}),
    ],
)
def test_scopes_are_an_object_a_list_or_one_name(said: str, scopes: dict[str, str]) -> None:
    model = load(f"""API description A
channel C on path "c" produces message M delivering payload D<int>
message broker B exposes A at location "kafka://[odd" via protocol Kafka
  policy P realized using OAUTH_PASSWORD with {{ "scopes": {said} }}
""")
    new, old = generate(model, "3.0.0"), generate(model, "2.6.0")
    assert new["components"]["securitySchemes"]["P"]["flows"]["password"]["availableScopes"] == scopes
    assert old["servers"]["B"]["security"] == [{"P": list(scopes)}]
    assert new["servers"]["B"]["host"] == old["servers"]["B"]["url"] == "kafka://[odd"


def test_json_and_yaml_say_the_same(loans: Model) -> None:
    for spec in SPECS:
        document = generate(loans, spec)
        assert json.loads(render(document, "json")) == document
        assert yaml.safe_load(render(document)) == document


words = st.text(st.characters(codec="utf-8"), max_size=12)
traps = st.sampled_from(
    ["yes", "Null", "1", "a: b", "- x", "# c", "1e3", "0x1", "=", "\x85", "two\nlines", "~"]
)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | words | traps,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | traps, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=200)
@given(values)
def test_yaml_is_read_back_as_it_was_meant(value: Any) -> None:
    assert yaml.safe_load(our_yaml.dump(value)) == value


def test_wrong_wishes_get_an_answer(loans: Model) -> None:
    with pytest.raises(ConfigurationError, match=r"Choose: 2\.0\.0"):
        generate(loans, "1.0.0")
    with pytest.raises(NotFound, match="Customer"):
        generate(loans, "3.0.0", "Nobody")


def test_the_type_system_of_a_payload_is_its_content_type() -> None:
    text = (
        'API description A data type T { "a": D<int> } '
        'channel C on path "c" produces message M delivering payload T structured as AVRO_SCHEMA '
        "where MESSAGE_EXPIRES in 1s "
        'channel D on path "d" produces message N delivering payload T '
    )
    for version in ("2.0.0", "2.6.0", "3.0.0", "3.1.0"):
        messages = generate(Model(parse_strictly(text)), version)["components"]["messages"]
        assert messages["M"]["contentType"] == "application/avro"
        assert "contentType" not in messages["N"]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_addresses_are_the_channels_that_apply_makes(path: Path) -> None:
    model = load_model(path)
    names = [name for c in model.channels.values() for m in c.messages for name in path_names(m.path)]
    made = {each.channel.name for each in wanted(model, {name: ["7"] for name in names})}
    three = {each["address"] or each["x-eip-path"] for each in generate(model)["channels"].values()}
    two = set(generate(model, "2.6.0")["channels"])
    assert {re.sub(r"\{[^{}]*\}", "7", address) for address in three} == made
    assert {re.sub(r"\{[^{}]*\}", "7", address) for address in two} == made


DEPLOYED = """API description Shop
data type Order { "id": ID<int> }
channel Orders TYPES on path "SHOP/orders" accepts message Placed expecting payload Order BINDINGS
message broker Main exposes Shop at location "PROTOCOL://127.0.0.1:1" via protocol PROTOCOL
message endpoint Web uses from Main: Orders
message endpoint Store provides from Main: Orders
"""


def deployed(protocol: str, types: str = "", bindings: str = "") -> Model:
    shop = f"shop-{uuid4().hex[:8]}"
    text = DEPLOYED.replace("PROTOCOL", protocol).replace("TYPES", types and f"of type {types}")
    return load(text.replace("SHOP", shop).replace("BINDINGS", bindings))


@pytest.mark.parametrize(
    "types", ["", "POINT_TO_POINT", "PUBLISH_SUBSCRIBE", "PUBLISH_SUBSCRIBE, GUARANTEED_DELIVERY"]
)
async def test_a_stock_client_meets_the_exchange_of_the_document(
    rabbitmq_server: Rabbitmq, types: str
) -> None:
    model, registry, broker = (
        deployed("AMQP", types),
        connect("memory://"),
        open_broker(rabbitmq_server.url)[0],
    )
    await broker.connect()
    try:
        await apply(await plan(model, registry, broker), registry, broker)
    finally:
        await broker.close()
        await registry.close()
    said = generate(model)["channels"]["Orders"]
    exchange = said["bindings"]["amqp"]["exchange"]
    assert exchange["name"] == said["address"]
    connection = await aio_pika.connect(rabbitmq_server.url.replace("rabbitmq://", "amqp://"))
    async with connection:
        channel = await connection.channel()
        # The server refuses if the exchange is not there, is of another type, or is not durable.
        await channel.declare_exchange(exchange["name"], exchange["type"], durable=exchange["durable"])
        with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed):
            await channel.declare_exchange(exchange["name"], "fanout", durable=exchange["durable"])


@pytest.mark.parametrize("bindings", ["", 'bindings for Kafka { "partitions": 2 }'])
async def test_a_stock_client_reaches_the_channel_by_the_keys_of_the_document(
    rabbitmq_server: Rabbitmq, bindings: str
) -> None:
    model, registry = deployed("AMQP", bindings=bindings), connect("memory://")
    broker = open_broker(rabbitmq_server.url)[0]
    await broker.connect()
    await apply(await plan(model, registry, broker), registry, broker)
    said = json.loads(json.dumps(generate(model)))["channels"]["Orders"]["bindings"]["amqp"]
    keys = said["x-routingKeys"]
    receiver = await broker.subscribe(Subscription((said["exchange"]["name"],), "group"))
    connection = await aio_pika.connect(rabbitmq_server.url.replace("rabbitmq://", "amqp://"))
    async with connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        exchange = await channel.get_exchange(said["exchange"]["name"])
        queue = await channel.declare_queue(exclusive=True)
        for key in keys:
            await queue.bind(exchange, key)
            # Raises if no queue has this key.
            await exchange.publish(aio_pika.Message(key.encode()), routing_key=key, mandatory=True)
        found: list[Message] = []
        async with asyncio.timeout(60):
            while len(found) < len(keys):
                found += await receiver.receive(10, 1.0)
        assert sorted((str(each.partition), each.payload) for each in found) == [
            (key, key.encode()) for key in keys
        ]
        # And a stranger with a queue of its own sees what is published in every partition.
        partitions = (await broker.describe(said["exchange"]["name"])).partitions
        await broker.publish(
            [Message(said["exchange"]["name"], b"ours", partition=number) for number in range(partitions)]
        )
        seen: list[bytes] = []
        async with asyncio.timeout(60), queue.iterator(no_ack=True) as messages:
            async for message in messages:
                seen.append(message.body)
                if seen.count(b"ours") == partitions:
                    break
    assert len(keys) == partitions
    await broker.close()
    await registry.close()


def test_a_topic_has_a_legal_name_its_frame_and_its_group() -> None:
    document = generate(deployed("Kafka", "POINT_TO_POINT"))
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,249}", document["channels"]["Orders"]["address"])
    frame = {"schemaIdLocation": "payload", "schemaIdPayloadEncoding": "confluent"}
    assert document["components"]["messages"]["Placed"]["bindings"]["kafka"] == frame
    group = document["operations"]["receivePlaced"]["bindings"]["kafka"]["groupId"]
    assert group == {"type": "string", "enum": ["Orders"]}
    assert document["defaultContentType"] == "application/avro"
    assert "bindings" not in generate(deployed("Kafka"))["operations"]["receivePlaced"]
