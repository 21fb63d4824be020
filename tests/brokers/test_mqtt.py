"""What MQTT has beside what all brokers have: retained messages, wills, wildcards, logins, old versions."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from dragoman.adapters.mqtt import MqttBroker
from dragoman.core.broker import Sharing, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import (
    AccessRefused,
    BrokerUnavailable,
    ConfigurationError,
    EncodeError,
    Revoked,
    Unsupported,
)
from dragoman.core.message import Message
from tests.brokers.certificates import Certificates, make_certificates
from tests.brokers.mqtt_servers import PATIENCE, opened, received, serving, unique
from tests.services.mosquitto import Mosquitto


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def url(mosquitto_server: Mosquitto) -> str:
    return mosquitto_server.url


@pytest.fixture
def other(mosquitto_server: Mosquitto) -> Iterator[paho.Client]:
    """Another program's client."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.connect("127.0.0.1", mosquitto_server.port)
    client.loop_start()
    yield client
    client.disconnect()
    client.loop_stop()


async def test_an_exclusive_group_keeps_the_order_of_the_channel(url: str) -> None:
    async with opened(url) as broker:
        name = unique()
        await broker.create(Channel(name, partitions=1))
        receiver = await broker.subscribe(Subscription((name,), "group", sharing=Sharing.EXCLUSIVE))
        await broker.publish([Message(name, b"%d" % number) for number in range(300)])
        found = await received(receiver, 300)
        assert [message.payload for message in found] == [b"%d" % number for number in range(300)]


async def test_a_retained_message_reaches_groups_that_come_later(url: str) -> None:
    async with opened(url) as broker:
        name = unique()
        await broker.create(Channel(name, settings={"retain": "true"}))
        await broker.publish([Message(name, b"old", b"key"), Message(name, b"last", b"key")])
        late = await broker.subscribe(Subscription((name,), "late", sharing=Sharing.EXCLUSIVE))
        [message] = await received(late, 1)
        assert (message.payload, message.key) == (b"last", b"key")
        await broker.delete(name)
        await broker.create(Channel(name))
        again = await broker.subscribe(Subscription((name,), "again", sharing=Sharing.EXCLUSIVE))
        assert not await again.receive(1, 0.2)


async def test_the_will_of_a_client_that_dies_is_published(url: str) -> None:
    async with opened(url) as broker:
        name = unique("wills")
        await broker.create(Channel(name))
        receiver = await broker.subscribe(Subscription((name,), "group"))
        mortal = MqttBroker(f"{url}?will_channel={name}&will_payload=gone")
        await mortal.connect()
        assert mortal._control is not None and mortal._control._connection is not None
        mortal._control._connection.abort()
        [message] = await received(receiver, 1)
        assert message.payload == b"gone"
        await mortal.close()


async def test_a_client_that_closes_leaves_no_will(url: str) -> None:
    async with opened(url) as broker:
        name = unique("wills")
        await broker.create(Channel(name))
        receiver = await broker.subscribe(Subscription((name,), "group"))
        async with opened(f"{url}?will_channel={name}&will_payload=gone"):
            pass
        await broker.publish([Message(name, b"marker")])
        assert [message.payload for message in await received(receiver, 1)] == [b"marker"]


async def test_a_channel_may_stand_for_many_topics_of_other_programs(url: str, other: paho.Client) -> None:
    async with opened(url) as broker:
        name, root = unique("sensors"), unique("plant")
        await broker.create(Channel(name, settings={"topic": f"{root}/+/heat"}))
        receiver = await broker.subscribe(Subscription((name,), "group"))
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = [("unit", "kelvin")]
        for place in ("hall", "yard"):
            other.publish(f"{root}/{place}/heat", b"300", 1, properties=properties).wait_for_publish(PATIENCE)
        found = await received(receiver, 2)
        assert {message.header("mqtt-topic") for message in found} == {
            f"{root}/hall/heat".encode(),
            f"{root}/yard/heat".encode(),
        }
        assert {message.header("unit") for message in found} == {b"kelvin"}
        with pytest.raises(ConfigurationError):
            await broker.publish([Message(name, b"x")])


async def test_other_programs_see_key_and_headers_as_user_properties(url: str, other: paho.Client) -> None:
    came: list[paho.MQTTMessage] = []
    ready: list[object] = []
    other.on_message = lambda client, data, message: came.append(message)
    other.on_subscribe = lambda *arguments: ready.append(arguments)
    async with opened(url) as broker:
        name = unique()
        await broker.create(Channel(name))
        other.subscribe(f"{name}/#", 1)
        await until(lambda: bool(ready))
        await broker.publish([Message(name, b"body", b"key", (("colour", b"blue"),))])
        await until(lambda: bool(came))
    assert came[0].payload == b"body"
    assert came[0].properties is not None
    assert came[0].properties.UserProperty == [("colour", "blue"), ("dragoman-key", "key")]


async def test_both_versions_understand_each_other_where_the_channel_has_envelopes(url: str) -> None:
    async with opened(f"{url}?version=3.1.1") as old, opened(url) as new:
        name = unique()
        await old.create(Channel(name))
        assert (await new.describe(name)).settings["content"] == "envelope"
        receivers = [await each.subscribe(Subscription((name,), str(each))) for each in (old, new)]
        sent = [
            Message(name, b"a", b"\xff", (("n", b"\0"), ("n", b"m")), timestamp=5),
            Message(name, None, b"k"),
        ]
        await old.publish(sent[:1])
        await new.publish(sent[1:])
        for receiver in receivers:
            found = {message.payload: message for message in await received(receiver, 2)}
            assert (found[b"a"].key, found[b"a"].headers) == (b"\xff", (("n", b"\0"), ("n", b"m")))
            assert found[b"a"].timestamp == 5
            assert found[None].key == b"k"


async def test_mqtt_311_refuses_headers_where_nothing_could_carry_them(url: str) -> None:
    async with opened(f"{url}?version=3.1.1") as old, opened(url) as new:
        name = unique()
        await new.create(Channel(name))
        receiver = await new.subscribe(Subscription((name,), "group"))
        for message in (
            Message(name, b"x", b"key"),
            Message(name, b"x", headers=(("n", b"v"),)),
            Message(name, None),
        ):
            with pytest.raises(Unsupported, match="envelope"):
                await old.publish([message])
        await old.publish([Message(name, b"bare")])
        assert [message.payload for message in await received(receiver, 1)] == [b"bare"]


async def test_a_message_without_an_envelope_comes_as_it_is(url: str, other: paho.Client) -> None:
    async with opened(f"{url}?version=3.1.1") as broker:
        name = unique()
        await broker.create(Channel(name))
        receiver = await broker.subscribe(Subscription((name,), "group"))
        other.publish(name, b"no envelope", 1).wait_for_publish(PATIENCE)
        assert [message.payload for message in await received(receiver, 1)] == [b"no envelope"]


@pytest.mark.parametrize("qos", [1, 2])
async def test_no_more_come_than_the_receive_maximum_until_they_are_acknowledged(url: str, qos: int) -> None:
    async with opened(f"{url}?receive_maximum=5&qos={qos}") as broker:
        name = unique()
        await broker.create(Channel(name))
        receiver = await broker.subscribe(Subscription((name,), "group"))
        await broker.publish([Message(name, b"%d" % number) for number in range(12)])
        first = await received(receiver, 5)
        assert not await receiver.receive(10, 0.2)
        await receiver.acknowledge(first[1:2])
        assert [message.payload for message in await received(receiver, 2)] == [b"5", b"6"]


@pytest.mark.parametrize("qos", [1, 2])
async def test_after_a_lost_connection_old_acknowledgements_count_for_nothing(
    mosquitto_server: Mosquitto, qos: int
) -> None:
    with mosquitto_server.proxy() as proxy:
        async with opened(f"{proxy.url}?qos={qos}") as broker:
            name = unique()
            await broker.create(Channel(name))
            receiver = await broker.subscribe(Subscription((name,), "group"))
            await broker.publish([Message(name, b"%d" % number) for number in range(6)])
            before = await received(receiver, 6)
            await receiver.acknowledge(before[:1])
            proxy.drop()
            await until(lambda: receiver.lost(before[5]))
            with pytest.raises(Revoked):
                await receiver.acknowledge(before[5:])
            # The numbers of the packets are the same as before; the old ones must not acknowledge the new.
            seen: set[bytes | None] = set()
            while not seen >= {b"%d" % number for number in range(1, 6)}:
                seen.update(message.payload for message in await received(receiver, 1))


async def test_messages_older_than_the_retention_are_dropped(url: str) -> None:
    async with opened(url) as broker:
        name = unique()
        await broker.create(Channel(name, retention=1.0))
        receiver = await broker.subscribe(Subscription((name,), "group"))
        await receiver.close()
        await broker.publish([Message(name, b"old")])
        await asyncio.sleep(2.5)
        await broker.alter(Channel(name, retention=None))
        await broker.publish([Message(name, b"new")])
        receiver = await broker.subscribe(Subscription((name,), "group"))
        assert [message.payload for message in await received(receiver, 1)] == [b"new"]


async def test_a_group_may_change_its_way_of_sharing_and_loses_nothing(url: str) -> None:
    async with opened(url) as broker:
        name = unique()
        await broker.create(Channel(name))
        members = [await broker.subscribe(Subscription((name,), "group")) for _ in range(3)]
        for member in members:
            await member.close()
        await broker.publish([Message(name, b"%d" % number) for number in range(9)])
        only = await broker.subscribe(Subscription((name,), "group", sharing=Sharing.EXCLUSIVE))
        found = await received(only, 9)
        assert {message.payload for message in found} == {b"%d" % number for number in range(9)}
        await broker.publish([Message(name, b"once")])
        assert [message.payload for message in await received(only, 1)] == [b"once"]
        assert not await only.receive(1, 0.2)


async def test_what_mqtt_cannot_do_is_refused(url: str) -> None:
    async with opened(url) as broker:
        name = unique()
        await broker.create(Channel(name))
        with pytest.raises(Unsupported):
            await broker.publish([Message(name, b"x")], delay=1.0)
        with pytest.raises(ConfigurationError):
            await broker.publish([Message(name, b"x", partition=4)])
        with pytest.raises(Unsupported):
            await broker.lag(name)
        with pytest.raises(Unsupported):
            broker.log()
        for settings in ({"no-such": "1"}, {"retain": "perhaps"}, {"content": "xml"}, {"topic": "$SYS/x"}):
            with pytest.raises(ConfigurationError):
                await broker.create(Channel(unique(), settings=settings))
        for changed in ({"topic": "elsewhere"}, {"content": "envelope"}):
            with pytest.raises(ConfigurationError):
                await broker.alter(Channel(name, settings=changed))


@pytest.mark.parametrize(
    "wrong",
    [
        "qos=0",
        "version=4",
        "confirm=maybe",
        "autosave_interval=0",
        "receive_maximum=70000",
        "keep_alive=0",
        "prefix=a/%23",
        "ca=/no/such/file",
        "session_expiry=4294967295",
        "unknown=1",
    ],
)
def test_a_wrong_option_is_refused_at_once(wrong: str) -> None:
    with pytest.raises(ConfigurationError):
        MqttBroker(f"mqtt://localhost?{wrong}")


def test_a_url_has_no_path_and_certificates_need_tls(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("not a certificate")
    for wrong in (
        "mqtt://localhost/path",
        f"mqtt://localhost?ca={file}",
        f"mqtt://localhost?tls=true&ca={file}",
    ):
        with pytest.raises(ConfigurationError):
            MqttBroker(wrong)


async def test_nobody_at_the_port_is_told(tmp_path: Path) -> None:
    server = Mosquitto(tmp_path / "never-started")
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1"):
        await MqttBroker(server.url).connect()
    with pytest.raises(BrokerUnavailable, match=r"no\.\.host"):
        await MqttBroker("mqtt://no..host").connect()


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path)


async def works(broker: MqttBroker) -> None:
    await broker.connect()
    name = unique()
    await broker.create(Channel(name))
    receiver = await broker.subscribe(Subscription((name,), "group"))
    await broker.publish([Message(name, b"hello")])
    assert [message.payload for message in await received(receiver, 1)] == [b"hello"]
    await broker.close()


async def test_what_comes_before_a_message_at_fault_is_sent_and_answered(tmp_path: Path) -> None:
    """Otherwise it would take room from all that follows, for ever."""
    async with (
        serving(tmp_path, max_inflight_messages="5", max_packet_size="2000") as server,
        opened(server.url) as broker,
    ):
        name = unique()
        await broker.create(Channel(name, partitions=1))
        receiver = await broker.subscribe(Subscription((name,), "group"))
        for number in range(10):
            with pytest.raises(EncodeError, match="the server takes 2,000"):
                await broker.publish([Message(name, b"%d" % number), Message(name, bytes(2000))])
        await broker.publish([Message(name, b"10")])
        found: list[Message] = []
        for _ in range(11):
            found += await received(receiver, 1)
            await receiver.acknowledge(found[-1:])
        assert [message.payload for message in found] == [b"%d" % number for number in range(11)]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_user_and_password_are_checked(tmp_path: Path, version: str) -> None:
    passwords = tmp_path / "passwords"
    passwords.touch()
    subprocess.run(["mosquitto_passwd", "-b", str(passwords), "ann", "se:cret"], check=True)
    async with serving(tmp_path, allow_anonymous="false", password_file=str(passwords)) as server:
        for who in ("", "ann:wrong@", "bob:se:cret@"):
            with pytest.raises(AccessRefused):
                await MqttBroker(f"mqtt://{who}127.0.0.1:{server.port}?version={version}").connect()
        await works(MqttBroker(f"mqtt://ann:se%3Acret@127.0.0.1:{server.port}?version={version}"))


async def test_server_and_client_show_their_certificates(tmp_path: Path, certificates: Certificates) -> None:
    settings = {
        "cafile": str(certificates.ca),
        "certfile": str(certificates.server),
        "keyfile": str(certificates.server_key),
        "require_certificate": "true",
    }
    async with serving(tmp_path, **settings) as server:
        place = f"mqtt://127.0.0.1:{server.port}?tls=true"
        trusted = f"{place}&ca={certificates.ca}"
        with pytest.raises((AccessRefused, BrokerUnavailable)):
            await MqttBroker(trusted).connect()
        with pytest.raises(AccessRefused):
            await MqttBroker(place).connect()
        await works(
            MqttBroker(f"{trusted}&certificate={certificates.client}&private_key={certificates.client_key}")
        )
