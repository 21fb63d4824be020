"""TLS to RabbitMQ, with a password or with the client's certificate."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.adapters.rabbitmq import RabbitmqBroker
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import AccessRefused, BrokerError
from dragoman.core.message import Message
from tests.brokers.certificates import Certificates, make_certificates
from tests.services.fixtures import running
from tests.services.ports import free_port
from tests.services.rabbitmq import Rabbitmq


class SecureRabbitmq(Rabbitmq):
    """It also listens with TLS, and takes a certificate's common name for a user."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.tls_port = free_port()
        folder = data.with_suffix(".certificates")
        folder.mkdir()
        self.certificates: Certificates = make_certificates(folder)

    def prepare(self) -> None:
        super().prepare()
        settings = {
            "listeners.ssl.default": f"127.0.0.1:{self.tls_port}",
            "ssl_options.cacertfile": self.certificates.ca,
            "ssl_options.certfile": self.certificates.server,
            "ssl_options.keyfile": self.certificates.server_key,
            "ssl_options.verify": "verify_peer",
            "ssl_options.fail_if_no_peer_cert": "false",
            "ssl_cert_login_from": "common_name",
            "auth_mechanisms.1": "PLAIN",
            "auth_mechanisms.2": "EXTERNAL",
        }
        with self._settings.open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        self.data.with_suffix(".plugins").write_text("[rabbitmq_auth_mechanism_ssl].\n")

    def admit(self, user: str) -> None:
        self.evaluate(
            f'rabbit_auth_backend_internal:add_user(<<"{user}">>, <<"unused">>, <<"test">>),'
            f'rabbit_auth_backend_internal:set_permissions(<<"{user}">>, <<"/">>,'
            '<<".*">>, <<".*">>, <<".*">>, <<"test">>).\n'
        )

    def secured(self, credentials: str, **options: object) -> RabbitmqBroker:
        known = {"tls": "true", "ca_file": self.certificates.ca, "timeout": 20, **options}
        query = "&".join(f"{name}={value}" for name, value in known.items() if value is not None)
        return RabbitmqBroker(f"rabbitmq://{credentials}localhost:{self.tls_port}/?{query}")


@pytest.fixture(scope="module")
def server() -> Iterator[SecureRabbitmq]:
    with tempfile.TemporaryDirectory(prefix="dragoman-rabbitmq-") as folder:
        yield from running(SecureRabbitmq, Path(folder))


async def carry(broker: RabbitmqBroker, channel: str) -> bytes | None:
    await broker.connect()
    await broker.create(Channel(channel, 1))
    await broker.publish([Message(channel, b"safe")])
    receiver = await broker.subscribe(Subscription((channel,), "group"))
    [message] = await receiver.receive(1, 30.0)
    await broker.close()
    return message.payload


async def test_messages_go_over_tls(server: SecureRabbitmq) -> None:
    assert await carry(server.secured("guest:guest@"), "over-tls") == b"safe"


async def test_a_certificate_says_who_we_are(server: SecureRabbitmq) -> None:
    files = {"cert_file": server.certificates.client, "key_file": server.certificates.client_key}
    with pytest.raises(AccessRefused):
        await server.secured("", auth="external", **files).connect()
    server.admit("client")
    assert await carry(server.secured("", auth="external", **files), "by-certificate") == b"safe"


async def test_a_server_that_nobody_vouches_for_is_not_trusted(server: SecureRabbitmq) -> None:
    with pytest.raises(BrokerError):
        await server.secured("guest:guest@", ca_file=None).connect()
