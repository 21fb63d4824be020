"""The envelope outside as JSON and inside as Avro, whatever is in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.client.contracts import format_of
from dragoman.core.errors import InvalidEnvelope
from dragoman.gateway.envelope import (
    Datum,
    Envelope,
    Method,
    check_data,
    collection,
    combined,
    datum,
    failure,
    from_json,
    nested,
    parts,
    replaced,
    request,
    response,
    to_json,
    walk,
)
from dragoman.gateway.limits import EnvelopeLimits
from tests.gateway.envelopes import envelopes

FROM_THE_DOCUMENT = """{
  "destination": {"resource": "service.person", "method": "SELECT", "entity": null, "version": "v1"},
  "client": {"clientId": "device-1", "requestId": "42", "sourceEndpoint": "app.home", "authorization": "t"},
  "originator": {"clientId": "device-1", "requestId": "42", "sourceEndpoint": "app.home",
                 "originalToken": "t", "security": "2", "messageTTL": 300},
  "data": [{"field": "person", "check": null, "value": [
    {"field": "title", "value": "Mr"},
    {"field": "address", "value": [{"field": "street", "value": "1 Some Street"}]}
  ]}]
}"""


@pytest.fixture(scope="module")
def avro():
    format = format_of("AVRO")
    return format.codec(format.parse(format.schema_of(Envelope)), cls=Envelope)


@given(envelopes)
def test_what_is_written_as_json_is_read_as_the_same_envelope_and_the_same_bytes(envelope) -> None:
    text = to_json(envelope)
    assert from_json(text) == envelope
    assert to_json(from_json(text)) == text


@given(envelopes)
def test_inside_as_avro_nothing_is_lost(avro, envelope) -> None:
    assert to_json(avro.decode(avro.encode(envelope))) == to_json(envelope)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_whatever_is_sent_is_an_envelope_or_an_error_that_says_so(text: bytes) -> None:
    try:
        from_json(text)
    except InvalidEnvelope as error:
        assert error.code.startswith("gateway.envelope.")


def test_the_shape_is_that_of_the_document() -> None:
    envelope = from_json(FROM_THE_DOCUMENT)
    assert envelope.destination.intent is Method.SELECT
    assert envelope.originator.message_ttl == 300
    assert [(depth, each.field) for depth, each in walk(envelope.data)] == [
        (1, "person"),
        (2, "title"),
        (2, "address"),
        (3, "street"),
    ]
    written = json.loads(to_json(envelope))
    assert list(written) == ["destination", "client", "originator", "data"]
    assert written["destination"]["timestamp"] is None


def test_the_older_name_of_the_destination_is_read() -> None:
    older = FROM_THE_DOCUMENT.replace('"destination"', '"endpoint"')
    assert from_json(older) == from_json(FROM_THE_DOCUMENT)


def test_both_names_of_the_destination_at_once_are_refused() -> None:
    both = FROM_THE_DOCUMENT.replace("{", '{"endpoint": {"resource": "a", "method": "select"},', 1)
    with pytest.raises(InvalidEnvelope, match="destination"):
        from_json(both)


@pytest.mark.parametrize(
    ("text", "intent"),
    [("select", Method.SELECT), ("Insert", Method.INSERT), ("RESPONSE", Method.RESPONSE)]
    + [(other, Method.UNSUPPORTED) for other in ("", "get", "unsupported", "sélect", "select ")],
)
def test_six_methods_are_known_in_any_case_of_letters(text: str, intent: Method) -> None:
    assert Method.of(text) is intent


@pytest.mark.parametrize(
    ("field", "wrong", "place"),
    [
        ('"resource": "service.person", ', "", "resource"),
        ('"value": "Mr"', '"value": 3', "data[0].value[0].value"),
        ('"messageTTL": 300', '"messageTTL": -1', "messageTTL"),
        ('"messageTTL": 300', '"messageTTL": "300"', "messageTTL"),
        ('"messageTTL": 300', '"messageTTL": 1e3000', "messageTTL"),
        ('"security": "2"', '"security": "2", "admin": true', "admin"),
        ('"data": [', '"data": null, "more": [', "data"),
    ],
)
def test_what_is_not_an_envelope_is_refused_with_the_place(field: str, wrong: str, place: str) -> None:
    assert field in FROM_THE_DOCUMENT
    with pytest.raises(InvalidEnvelope) as caught:
        from_json(FROM_THE_DOCUMENT.replace(field, wrong))
    assert caught.value.code == "gateway.envelope.shape"
    assert place in str(caught.value)


@pytest.mark.parametrize("levels", [33, 1_000, 40_000, 400_000])
def test_deep_nesting_is_an_error_and_never_a_crash(levels: int) -> None:
    opening, closing = '{"field":"f","value":[', "]}"
    text = FROM_THE_DOCUMENT.partition('"data"')[0] + '"data": [' + opening * levels + closing * levels + "]}"
    with pytest.raises(InvalidEnvelope) as caught:
        from_json(text, EnvelopeLimits(bytes=100 * 1024 * 1024))
    assert caught.value.code == "gateway.envelope.too-deep"


def test_unclosed_brackets_are_an_error_and_never_a_crash() -> None:
    for bracket in (b"[", b'{"data":[', b'{"data":[{"field":"f","value":['):
        with pytest.raises(InvalidEnvelope):
            from_json(bracket * 20_000, EnvelopeLimits(bytes=100 * 1024 * 1024))


def test_deep_data_made_in_the_program_is_an_error_too() -> None:
    deep = [datum("f", "v")]
    for _ in range(5_000):
        deep = [datum("f", deep)]
    with pytest.raises(InvalidEnvelope):
        check_data(deep)


def test_too_many_datums_and_too_many_bytes_are_refused() -> None:
    envelope = request("service.x", "select", data=[datum("f", "v")] * 11, client_id="c")
    text = to_json(envelope)
    with pytest.raises(InvalidEnvelope) as caught:
        from_json(text, EnvelopeLimits(datums=10))
    assert caught.value.code == "gateway.envelope.too-many"
    with pytest.raises(InvalidEnvelope) as caught:
        from_json(text, EnvelopeLimits(bytes=len(text) - 1))
    assert caught.value.code == "gateway.envelope.too-large"
    assert from_json(text, EnvelopeLimits(bytes=len(text), datums=11)) == envelope


def test_a_response_keeps_the_originator_and_answers_the_sender() -> None:
    asked = request("service.shares", "select", "movement", client_id="device", token="t", ttl=60)
    answer = response(asked, [datum("change", "1.5")], source="service.shares")
    assert answer.originator is asked.originator
    assert answer.destination.intent is Method.RESPONSE
    assert answer.destination.resource == "client"
    assert answer.destination.entity == "movement"
    assert answer.client.client_id == answer.client.source_endpoint == "service.shares"
    assert answer.client.request_id == asked.client.request_id
    assert answer.client.authorization == ""


def test_a_nested_request_combines_the_ids_and_keeps_the_originator() -> None:
    asked = request("service.shares", "select", client_id="device", request_id="7")
    inner = nested(asked, "service.prices", "select", "price", source="service.shares", number=2)
    assert parts(inner.client.request_id) == ("device", "7", "2")
    assert inner.originator is asked.originator
    deeper = nested(inner, "service.rates", "select", source="service.prices")
    assert parts(deeper.client.request_id) == ("service.shares", inner.client.request_id, "1")
    failed = failure(deeper, "Not Found", "No such rate.", source="service.rates")
    assert (failed.text("STATUS"), failed.text("message")) == ("Not Found", "No such rate.")


@given(st.lists(st.text("ab-~01", max_size=5), min_size=1, max_size=4))
def test_combined_ids_can_always_be_told_apart(ids: list[str]) -> None:
    assert parts(combined(*ids)) == tuple(ids)


def test_a_collection_asks_for_the_response_of_a_request() -> None:
    asked = request("service.shares", "select", "movement", client_id="device", token="t")
    ask = collection(asked)
    assert ask.destination.intent is Method.SELECT
    assert ask.originator == asked.originator
    assert collection(asked, done=True).destination.intent is Method.DELETE


def test_datums_are_found_and_replaced_by_name() -> None:
    data = [datum("a", "1"), datum("B", [datum("a", "2")]), datum("A", "3")]
    envelope = request("service.x", "update", data=data, client_id="c")
    assert envelope.text("A") == "1"
    assert envelope.text("b") is None
    assert replaced(data, datum("a", "4")) == [data[1], datum("a", "4")]
    assert isinstance(envelope.first("b"), Datum)


def test_a_request_to_nobody_or_without_a_method_cannot_be_made() -> None:
    for resource, method in (("", "select"), ("service.x", "get")):
        with pytest.raises(InvalidEnvelope):
            request(resource, method, client_id="c")
