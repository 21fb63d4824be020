"""Every error of the driver has its place in the table."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from dragoman.adapters.kafka.faults import BY_CODE, KINDS, faults, translated
from dragoman.core.errors import BrokerUnavailable, ChannelNotFound, DragomanError, Revoked


def codes() -> dict[str, int]:
    """All of librdkafka's error codes, as the driver names them."""
    return {
        name: value
        for name in dir(KafkaError)
        if name.lstrip("_").isupper() and isinstance(value := getattr(KafkaError, name), int)
    }


def test_no_error_of_the_driver_is_missed() -> None:
    assert len(codes()) > 150
    assert {name for name, code in codes().items() if code not in BY_CODE} == set()


def test_no_error_has_two_meanings() -> None:
    names = [name for some in KINDS.values() for name in some.split()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("UNKNOWN_TOPIC_OR_PART", ChannelNotFound),
        ("_ALL_BROKERS_DOWN", BrokerUnavailable),
        ("ILLEGAL_GENERATION", Revoked),
    ],
)
def test_an_error_says_what_kafka_said_and_where(name: str, kind: type[DragomanError]) -> None:
    error = translated(KafkaError(codes()[name], "the reason"), channel="orders")
    assert type(error) is kind
    assert name in str(error) and "the reason" in str(error) and "orders" in str(error)
    assert error.next


def test_what_the_driver_raises_comes_out_as_ours() -> None:
    with pytest.raises(BrokerUnavailable), faults():
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    with pytest.raises(BrokerUnavailable), faults():
        raise BufferError("Local: Queue full")
    with pytest.raises(BrokerUnavailable), faults():
        raise RuntimeError("Consumer closed")
