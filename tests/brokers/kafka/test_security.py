"""Signing in and encryption, against real listeners."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode
from uuid import uuid4

import pytest

from dragoman.adapters.kafka import KafkaBroker
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import AccessRefused, BrokerError, BrokerUnavailable
from dragoman.core.message import Message
from tests.brokers.kafka.secured import PASSWORD, SecuredKafka
from tests.services.fixtures import running


@pytest.fixture(scope="module")
def server(service_folder: Path) -> Iterator[SecuredKafka]:
    yield from running(SecuredKafka, service_folder)


async def round_trip(url: str) -> None:
    broker = KafkaBroker(url)
    channel = f"secured-{uuid4().hex}"
    try:
        await broker.connect()
        await broker.create(Channel(channel, 1))
        await broker.publish([Message(channel, b"hello")])
        receiver = await broker.subscribe(Subscription((channel,), channel))
        found = await receiver.receive(1, 60.0)
        assert [message.payload for message in found] == [b"hello"]
        await receiver.acknowledge(found)
        assert [lag.behind for lag in await broker.lag(channel, channel)] == [0]
    finally:
        await broker.close()


def with_options(place: str, **options: object) -> str:
    return f"kafka://{place}?{urlencode({name.replace('_', '.'): value for name, value in options.items()})}"


def alice(port: int, password: str = PASSWORD) -> str:
    return f"alice:{quote(password)}@127.0.0.1:{port}"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_user_signs_in_by_password(server: SecuredKafka, mechanism: str) -> None:
    await round_trip(
        with_options(alice(server.sasl_port), security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism)
    )


async def test_a_user_signs_in_by_token(server: SecuredKafka) -> None:
    await round_trip(
        with_options(
            f"127.0.0.1:{server.sasl_port}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_config="principal=alice",
            enable_sasl_oauthbearer_unsecure_jwt="true",
        )
    )


async def test_a_certificate_signs_in(server: SecuredKafka) -> None:
    await round_trip(
        with_options(
            f"127.0.0.1:{server.tls_port}",
            ssl_ca_location=server.ca,
            ssl_certificate_location=server.client.certificate,
            ssl_key_location=server.client.key,
        )
    )


async def test_a_password_travels_encrypted_unless_told_otherwise(server: SecuredKafka) -> None:
    await round_trip(
        with_options(alice(server.both_port), sasl_mechanism="SCRAM-SHA-256", ssl_ca_location=server.ca)
    )


async def test_a_wrong_password_is_told_without_being_shown(server: SecuredKafka) -> None:
    wrong = "guessed-wrong"
    broker = KafkaBroker(
        with_options(
            alice(server.sasl_port, wrong), security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN"
        )
    )
    with pytest.raises(AccessRefused) as refused:
        await broker.connect()
    assert wrong not in f"{refused.value}{refused.value.where}{broker!r}"
    await broker.close()


async def test_a_server_that_nobody_vouches_for_is_not_trusted(server: SecuredKafka) -> None:
    broker = KafkaBroker(
        with_options(
            alice(server.both_port), sasl_mechanism="SCRAM-SHA-256", socket_connection_setup_timeout_ms=1000
        )
    )
    with pytest.raises(BrokerError) as refused:
        await broker.connect()
    assert isinstance(refused.value, AccessRefused | BrokerUnavailable)
    await broker.close()
