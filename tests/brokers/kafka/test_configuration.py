"""URLs become settings, or are refused with what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.adapters.kafka import KafkaBroker
from dragoman.adapters.kafka.configuration import read_settings, subscription_settings
from dragoman.adapters.kafka.subscribing import consumer_settings
from dragoman.core.broker import Sharing, Subscription
from dragoman.core.errors import BrokerUnavailable, ConfigurationError


def test_servers_and_options_are_read() -> None:
    settings = read_settings("kafka://one:9092,two:9093/?linger.ms=0&session.timeout.ms=9000&handover=1.5")
    assert settings.common["bootstrap.servers"] == "one:9092,two:9093"
    assert settings.producer == {"linger.ms": 0}
    assert settings.consumer == {"session.timeout.ms": 9000}
    assert settings.handover == 1.5


def test_a_user_means_an_encrypted_sign_in() -> None:
    settings = read_settings("kafka://al%20ice:p%40ss@host:9092").common
    assert settings["security.protocol"] == "SASL_SSL"
    assert settings["sasl.mechanism"] == "PLAIN"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("al ice", "p@ss")


def test_a_certificate_means_encryption(tmp_path: Path) -> None:
    certificate = tmp_path / "ca.pem"
    certificate.touch()
    settings = read_settings(f"kafka://host:9092?ssl.ca.location={certificate}")
    assert settings.common["security.protocol"] == "SSL"


@pytest.mark.parametrize(
    "url",
    [
        "kafka://",
        "kafka://host/path",
        "kafka://host?acks=1",
        "kafka://host?enable.auto.commit=true",
        "kafka://host?linger.ms=soon",
        "kafka://host?linger.ms=-1",
        "kafka://host?handover=0",
        "kafka://host?security.protocol=TLS",
        "kafka://host?ssl.ca.location=/not/there.pem",
        "kafka://host?security.protocol=SASL_SSL",
        "kafka://user:hidden@host?security.protocol=PLAINTEXT",
        "kafka://host?security.protocol=PLAINTEXT&enable.ssl.certificate.verification=false",
    ],
)
def test_what_cannot_be_used_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        KafkaBroker(url)
    assert refused.value.next
    assert "hidden" not in str(refused.value)


def test_an_unknown_option_is_told_with_those_that_are_known() -> None:
    with pytest.raises(ConfigurationError, match=r"linger\.ms"):
        KafkaBroker("kafka://host?linger=5")
    with pytest.raises(ConfigurationError, match=r"session\.timeout\.ms"):
        subscription_settings({"session.timeout": 5})
    with pytest.raises(ConfigurationError, match=r"classic, consumer"):
        subscription_settings({"group.protocol": "eager"})


@pytest.mark.parametrize("name", ["session.timeout.ms", "heartbeat.interval.ms"])
def test_what_the_server_decides_is_refused_instead_of_dropped(name: str) -> None:
    """KIP-848 leaves it to the server, and librdkafka takes it from nobody else."""
    with pytest.raises(ConfigurationError, match=f"{name} has no effect") as refused:
        KafkaBroker(f"kafka://user:hidden@host?group.protocol=consumer&{name}=6000")
    assert f"group.consumer.{name}" in refused.value.next and "hidden" not in str(refused.value)
    url, own = read_settings(f"kafka://host?{name}=6000"), {"group.protocol": "consumer"}
    with pytest.raises(ConfigurationError, match=f"{name} has no effect"):
        consumer_settings(url.for_consuming(), Subscription(("c",), "g", options=own))
    url, own = read_settings("kafka://host?group.protocol=consumer"), {name: "6000"}
    with pytest.raises(ConfigurationError, match=f"{name} has no effect"):
        consumer_settings(url.for_consuming(), Subscription(("c",), "g", options=own))


@pytest.mark.parametrize("name", ["partition.assignment.strategy", "group.protocol.type"])
def test_what_is_ours_to_choose_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown option"):
        KafkaBroker(f"kafka://host?group.protocol=consumer&{name}=x")
    with pytest.raises(ConfigurationError, match="no option"):
        subscription_settings({name: "x"})


def test_an_assignor_of_the_server_needs_the_servers_protocol() -> None:
    with pytest.raises(ConfigurationError, match=r"without group\.protocol=consumer"):
        KafkaBroker("kafka://host?group.remote.assignor=uniform")
    KafkaBroker("kafka://host?group.protocol=consumer&group.remote.assignor=uniform")


def test_a_subscription_that_one_member_has_alone_is_not_divided_by_the_server() -> None:
    url = read_settings("kafka://host?group.protocol=consumer&group.remote.assignor=uniform").for_consuming()
    alone = Subscription(("c",), "g", sharing=Sharing.EXCLUSIVE, options={"session.timeout.ms": "6000"})
    chosen = consumer_settings(url, alone, owned=True)
    assert (chosen["group.protocol"], chosen["session.timeout.ms"]) == ("classic", 6000)
    assert "group.remote.assignor" not in chosen
    alone = Subscription(("c",), "g", sharing=Sharing.EXCLUSIVE, options={"group.protocol": "consumer"})
    with pytest.raises(ConfigurationError, match="that is exclusive"):
        consumer_settings(url, alone, owned=True)


def test_reading_ahead_is_limited_in_bytes() -> None:
    settings = read_settings("kafka://host")
    assert settings.read_ahead_bytes == 64 << 20
    assert settings.for_consuming()["queued.max.messages.kbytes"] == 8 * 1024
    settings = read_settings("kafka://host?read_ahead_bytes=1")
    assert (settings.read_ahead_bytes, settings.for_consuming()["queued.max.messages.kbytes"]) == (1, 1)
    settings = read_settings(f"kafka://host?read_ahead_bytes={1 << 50}")
    assert settings.for_consuming()["queued.max.messages.kbytes"] == 2_097_151
    settings = read_settings("kafka://host?queued.max.messages.kbytes=77")
    assert settings.for_consuming()["queued.max.messages.kbytes"] == 77
    with pytest.raises(ConfigurationError, match="read_ahead_bytes cannot be '0'"):
        read_settings("kafka://host?read_ahead_bytes=0")


def test_settings_do_not_show_passwords() -> None:
    assert "hidden" not in repr(read_settings("kafka://user:hidden@host:9092"))


async def test_a_server_that_is_not_there_is_told() -> None:
    broker = KafkaBroker("kafka://127.0.0.1:1?socket.connection.setup.timeout.ms=1000")
    with pytest.raises(BrokerUnavailable):
        await broker.connect()
    with pytest.raises(BrokerUnavailable, match=r"connect\(\)"):
        await broker.channels()
