"""Discovery by a real etcd, and what can happen to it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.core.errors import ConfigurationError
from dragoman.topology import Endpoint, Signer, Topology, Trust
from dragoman.topology.etcd.discovery import EtcdDiscovery
from dragoman.topology.etcd.gateway import decoded, encoded
from dragoman.topology.signing import new_key
from dragoman.topology.stamp import stamp_ms
from tests.services.etcd import Etcd
from tests.services.fixtures import missing, running
from tests.services.server import ServiceUnavailable
from tests.topology.etcds import SHORT, Cluster, GuardedEtcd, Line, Operator, TlsEtcd, etcd_url
from tests.topology.records import Price
from tests.topology.world import LOOPBACK, Inbox, allowed, memory_url, until

pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def etcd(service_folder: Path) -> Iterator[Etcd]:
    """One that these tests may kill."""
    yield from running(Etcd, service_folder / "topology")


@asynccontextmanager
async def program(url: str, admin: str = "", **more: object) -> AsyncIterator[Topology]:
    async with Topology([admin or memory_url()], [url], registry=allowed(), **more) as topology:  # type: ignore[arg-type]
        yield topology


def discovery(topology: Topology) -> EtcdDiscovery:
    found = topology.discoveries[0]
    assert isinstance(found, EtcdDiscovery)
    return found


async def knows(topology: Topology, *endpoints: Endpoint) -> None:
    wanted = {each.id for each in endpoints}
    await until(lambda: {each.id for each in topology.endpoints} == wanted)


async def published(topology: Topology, topic: str) -> Endpoint:
    await topology.publisher(topic)
    return topology.own_endpoints()[-1]


async def test_an_entry_has_the_key_and_the_properties_of_the_protocol(etcd: Etcd) -> None:
    async with program(etcd_url(etcd)) as one, program(etcd_url(etcd)) as other, Operator(etcd) as operator:
        endpoint = await published(one, "prices")
        await knows(other, endpoint)
        assert list(other.endpoints) == [endpoint], "all of it arrives"
        key = f"/pubsub/publisher/prices/{one.framework}-{endpoint.service}"
        answer = await operator.call("/v3/kv/range", {"key": encoded(key)})
        (entry,) = answer["kvs"]
        properties = json.loads(decoded(entry["value"]))
        assert properties["service.id"] == str(endpoint.service)
        assert properties["type"] == properties["pubsub.type"] == "publisher"
        assert properties["pubsub.topic"] == "prices"
        assert properties["pubsub.framework.uuid"] == one.framework
        assert properties["pubsub.admin.type"] == properties["pubsub.config"] == "memory"
        assert properties["serializer"] == properties["pubsub.serializer"] == "avro"
        assert properties["memory.topic"] == "prices.avro"
        assert int(entry["lease"]) > 0


async def test_programs_that_find_each_other_talk_and_part(etcd: Etcd) -> None:
    inbox, counts = Inbox(), []
    async with program(etcd_url(etcd), LOOPBACK) as receiving:
        offer = receiving.offer("prices", inbox)
        offer.on_peers(counts.append)
        async with program(etcd_url(etcd), LOOPBACK) as sending:
            request = sending.request("prices")
            publisher = await request.wait(60)
            await request.wait_for_subscribers(1, 60)
            await offer.wait_for_publishers(1, 60)
            await publisher.send(Price("a", 1.0))
            await inbox.has(1)
        await until(lambda: offer.publishers == 0)
        assert counts == [1, 0], "the subscriber was told of both"


async def test_etcd_killed_and_restarted_changes_nothing_for_those_who_talk(etcd: Etcd) -> None:
    inbox = Inbox()
    async with program(etcd_url(etcd), LOOPBACK) as receiving, program(etcd_url(etcd), LOOPBACK) as sending:
        offer = receiving.offer("prices", inbox)
        request = sending.request("prices")
        publisher = await request.wait(60)
        await offer.wait_for_publishers(1, 60)
        etcd.kill()
        await until(lambda: discovery(receiving).trouble and discovery(sending).trouble)
        assert offer.publishers == 1, "what is known is kept"
        await publisher.send(Price("during", 1.0))
        await inbox.has(1)
        etcd.restart()
        await until(lambda: not (discovery(receiving).trouble or discovery(sending).trouble))
        later = await published(sending, "news")
        await until(lambda: later.id in {each.id for each in receiving.endpoints})
        assert offer.publishers == 1
        await publisher.send(Price("after", 1.0))
        await inbox.has(2)


async def test_what_is_known_is_forgotten_when_etcd_is_away_for_too_long(etcd: Etcd) -> None:
    async with Line(etcd.port) as line:
        cut_off = etcd_url(etcd, "ttl=3&refresh=0.3&grace=1", line.port)
        async with program(cut_off) as one, program(etcd_url(etcd)) as other:
            endpoint = await published(other, "prices")
            await knows(one, endpoint)
            await line.cut()
            await knows(one)
            await line.mend()
            await knows(one, endpoint)


async def test_an_etcd_that_is_away_at_the_start_is_used_when_it_comes(etcd: Etcd) -> None:
    async with Line(etcd.port) as line, program(etcd_url(etcd)) as other:
        await line.cut()
        async with program(etcd_url(etcd, port=line.port)) as late:
            endpoint = await published(late, "prices")
            await until(lambda: "does not answer" in (discovery(late).trouble or ""))
            await line.mend()
            await knows(other, endpoint)


async def test_a_lost_lease_is_replaced_and_all_entries_are_written_again(etcd: Etcd) -> None:
    async with program(etcd_url(etcd)) as one, program(etcd_url(etcd)) as other, Operator(etcd) as operator:
        endpoints = [await published(one, topic) for topic in ("a", "b")]
        await knows(other, *endpoints)
        gone: list[str] = []
        other.endpoints._changed = lambda topic, role: gone.append(topic.name)
        await operator.call("/v3/lease/revoke", {"ID": discovery(one).keeper._lease})
        await until(lambda: {"a", "b"} <= set(gone))
        await knows(other, *endpoints)


async def test_the_refresher_survives_a_failure_of_the_network(etcd: Etcd) -> None:
    async with (
        Line(etcd.port) as line,
        program(etcd_url(etcd)) as other,
        program(etcd_url(etcd, port=line.port)) as one,
    ):
        endpoint = await published(one, "prices")
        await knows(other, endpoint)
        for _ in range(2):
            await line.cut()
            await until(lambda: discovery(one).keeper.trouble)
            await line.mend()
            await until(lambda: discovery(one).keeper.trouble is None)
        before = discovery(one).gateway.requests
        await until(lambda: discovery(one).gateway.requests > before + 3)
        await knows(other, endpoint)


async def test_an_entry_that_somebody_deletes_is_written_again(etcd: Etcd) -> None:
    async with program(etcd_url(etcd)) as one, program(etcd_url(etcd)) as other, Operator(etcd) as operator:
        endpoint = await published(one, "prices")
        await knows(other, endpoint)
        changes: list[str] = []
        other.endpoints._changed = lambda topic, role: changes.append(topic.name)
        await operator.delete(endpoint.key)
        await until(lambda: len(changes) >= 2)
        await knows(other, endpoint)


async def test_an_entry_that_somebody_overwrites_is_written_again(etcd: Etcd) -> None:
    host = signed()
    careful = EtcdDiscovery(etcd_url(etcd), trust=Trust({"host-a": host.public}))
    async with (
        Topology([], [careful], registry=allowed()) as watching,
        program(etcd_url(etcd), signer=host) as one,
        Operator(etcd) as operator,
    ):
        endpoint = await published(one, "prices")
        await knows(watching, endpoint)
        before = careful.refused
        await operator.put(endpoint.key, json.dumps({**endpoint.properties(), "memory.topic": "elsewhere"}))
        await until(lambda: careful.refused > before)
        await knows(watching, endpoint)


async def test_what_vanished_while_etcd_was_out_of_reach_is_noticed(etcd: Etcd) -> None:
    async with (
        Line(etcd.port) as line,
        program(etcd_url(etcd)) as other,
        program(etcd_url(etcd, port=line.port)) as one,
    ):
        staying, going = await published(other, "staying"), await published(other, "going")
        await knows(one, staying, going)
        watch = discovery(one).watch
        await line.cut()
        await until(lambda: watch._anew)
        await discovery(other).withdraw(going)
        coming = await published(other, "coming")
        await line.mend()
        await knows(one, staying, coming)
        assert watch.snapshots > 1, "all entries were compared"


async def test_a_watch_that_broke_off_is_resumed_at_its_revision(etcd: Etcd) -> None:
    async with (
        Line(etcd.port) as line,
        program(etcd_url(etcd)) as other,
        program(etcd_url(etcd, port=line.port)) as one,
    ):
        known: list[Endpoint] = []
        # A line that drops at just the wrong moment makes it compare all entries, which is right as well.
        for number in range(20):
            await until(lambda: discovery(one).trouble is None)
            line.drop()
            known.append(await published(other, f"topic-{number}"))
            await knows(one, *known)
            if discovery(one).watch.resumed:
                return
        pytest.fail("It was never resumed.")


async def test_a_watch_behind_what_etcd_has_forgotten_compares_all_entries(etcd: Etcd) -> None:
    async with (
        Line(etcd.port) as line,
        program(etcd_url(etcd)) as other,
        Operator(etcd) as operator,
        program(etcd_url(etcd, port=line.port)) as one,
    ):
        staying, going = await published(other, "staying"), await published(other, "going")
        await knows(one, staying, going)
        await until(lambda: discovery(one).trouble is None)
        await operator.compact()
        discovery(one).watch._last = 1
        line.drop()
        await discovery(other).withdraw(going)
        await knows(one, staying)
        await until(lambda: discovery(one).watch.snapshots > 1)


async def test_an_etcd_that_lost_its_memory_is_filled_again(service_folder: Path) -> None:
    server = Etcd(service_folder / "topology" / "wiped")
    server.start()
    try:
        async with program(etcd_url(server)) as one, program(etcd_url(server)) as other:
            endpoint, back = await published(one, "prices"), await published(other, "news")
            await knows(other, endpoint)
            await knows(one, back)
            server.kill()
            shutil.rmtree(server.data / "member")
            server.restart()
            await until(lambda: discovery(one).watch.snapshots > 1 < discovery(other).watch.snapshots)
            await knows(other, endpoint)
            await knows(one, back)
            late = await published(one, "late")
            await knows(other, endpoint, late)
    finally:
        server.stop()


def signed(name: str = "host-a") -> Signer:
    return Signer(name, new_key())


async def test_a_forged_entry_is_refused_and_a_signed_one_believed(etcd: Etcd) -> None:
    honest, forger = signed("honest"), signed("forger")
    careful = EtcdDiscovery(etcd_url(etcd), trust=Trust({"honest": honest.public}))
    async with (
        Topology([], [careful], registry=allowed()) as watching,
        program(etcd_url(etcd), signer=honest) as one,
        program(etcd_url(etcd), signer=forger) as two,
        program(etcd_url(etcd)) as unsigned,
        Operator(etcd) as operator,
    ):
        believed = await published(one, "prices")
        await published(two, "prices")
        await published(unsigned, "prices")
        await knows(watching, believed)
        await until(lambda: careful.refused >= 3)
        forged = believed.key.removesuffix(f"-{believed.service}") + "-77"
        for key, value in ((forged, json.dumps(believed.properties())), (f"{forged}0", "{" * 100_000)):
            refused = careful.refused
            await operator.put(key, value)
            await until(lambda before=refused: careful.refused > before)
            await operator.delete(key)
        await knows(watching, believed)


async def test_a_dead_program_is_not_kept_alive_by_who_keeps_its_lease_or_repeats_its_entry(
    etcd: Etcd,
) -> None:
    host = signed()
    # Who watches has less patience with a silent program than its lease has.
    careful = EtcdDiscovery(etcd_url(etcd, "ttl=2&refresh=0.3"), trust=Trust({"host-a": host.public}))
    async with Topology([], [careful], registry=allowed()) as watching, Operator(etcd) as operator:
        one = Topology([memory_url()], [etcd_url(etcd)], registry=allowed(), signer=host)
        await one.__aenter__()
        endpoint = await published(one, "prices")
        await knows(watching, endpoint)
        answer = await operator.call("/v3/kv/range", {"key": encoded(endpoint.key)})
        recorded = decoded(answer["kvs"][0]["value"])
        lease = answer["kvs"][0]["lease"]
        for task in discovery(one)._tasks:
            task.cancel()

        async def keep_alive() -> None:
            while True:
                await operator.call("/v3/lease/keepalive", {"ID": lease})
                await asyncio.sleep(0.3)

        stranger = asyncio.create_task(keep_alive())
        await knows(watching)
        assert "kvs" in await operator.call("/v3/kv/range", {"key": encoded(endpoint.key)})
        stranger.cancel()
        revision = await operator.delete(endpoint.key)
        await until(lambda: careful.watch._last >= revision)
        refused = careful.refused
        await operator.put(endpoint.key, recorded)
        await until(lambda: careful.refused > refused)
        await knows(watching)
        await operator.delete(endpoint.key)
        await one.close()


async def test_a_subscriber_that_comes_later_takes_no_datagrams_from_before(etcd: Etcd) -> None:
    """It learns from etcd how far the sender's own clock is, though the two clocks have nothing in common."""
    host = signed()
    trust = Trust({"host-a": host.public})
    sending = Topology([LOOPBACK], [etcd_url(etcd)], registry=allowed(), signer=host)
    async with sending:
        endpoint = await published(sending, "prices")
        careful = EtcdDiscovery(etcd_url(etcd), trust=trust)
        async with Topology([LOOPBACK], [careful], registry=allowed()) as receiving:
            await knows(receiving, endpoint)
            first = careful.latest_stamp(sending.framework)
            assert 0 < first <= stamp_ms()
            await until(lambda: careful.latest_stamp(sending.framework) > first)
            inbox = Inbox()
            offer = receiving.offer("prices", inbox)
            await offer.wait_for_publishers(1, 60)
            handler = receiving.slots[0].handler
            assert handler is not None and handler.receiver is not None
            [link] = handler.receiver._links.values()  # type: ignore[attr-defined]
            assert link.speaker.course._newest_ms >= first
            publisher = await sending.publisher("prices")
            await publisher.send(Price("new", 1.0))
            await inbox.has(1)
        distrustless = EtcdDiscovery(etcd_url(etcd))
        async with Topology([LOOPBACK], [distrustless], registry=allowed()) as receiving:
            await knows(receiving, endpoint)
            assert distrustless.latest_stamp(sending.framework) == 0, "anyone could have written it"


async def test_user_and_password(service_folder: Path) -> None:
    server = GuardedEtcd(service_folder / "topology" / "guarded")
    server.start()
    try:
        async with Operator(server) as operator:
            for name, password in (("root", "r"), ("dragoman", "p:w@d")):
                await operator.call("/v3/auth/user/add", {"name": name, "password": password})
                await operator.call("/v3/auth/role/add", {"name": name})
                await operator.call("/v3/auth/user/grant", {"user": name, "role": name})
            access = {"permType": "READWRITE", "key": encoded("/pubsub/"), "range_end": encoded("/pubsub0")}
            await operator.call("/v3/auth/role/grant", {"name": "dragoman", "perm": access})
            await operator.call("/v3/auth/enable", {})
        url = f"etcd://dragoman:p%3Aw%40d@127.0.0.1:{server.port}?{SHORT}"
        async with program(url) as one, program(url) as other:
            await knows(other, await published(one, "prices"))
            assert "p%3Aw" not in discovery(one).url
            discovery(one).gateway._token = "expired.1"
            await knows(other, *[await published(one, "news"), *one.own_endpoints()])
        wrong = EtcdDiscovery(f"etcd://dragoman:wrong@127.0.0.1:{server.port}?{SHORT}")
        async with Topology([], [wrong], registry=allowed()):
            await until(lambda: "refuses" in (wrong.trouble or ""))
            assert "wrong" not in (wrong.trouble or "")
    finally:
        server.stop()


async def test_tls_with_certificates_of_both_sides(service_folder: Path) -> None:
    server = TlsEtcd(service_folder / "topology" / "tls")
    server.start()
    try:
        files = f"ca={server.certificate}&cert={server.certificate}&key={server.key}"
        url = f"etcds://127.0.0.1:{server.port}?{SHORT}&{files}"
        async with program(url) as one, program(url) as other:
            await knows(other, await published(one, "prices"))
        distrustful = EtcdDiscovery(f"etcds://127.0.0.1:{server.port}?{SHORT}")
        async with Topology([], [distrustful], registry=allowed()):
            await until(lambda: "CERTIFICATE_VERIFY_FAILED" in (distrustful.trouble or ""))
    finally:
        server.stop()


async def test_one_of_three_members_killed(service_folder: Path) -> None:
    try:
        Etcd.executable()
    except ServiceUnavailable as unavailable:
        missing(str(unavailable))
    cluster = Cluster(service_folder / "topology" / "cluster")
    cluster.start()
    try:
        async with program(cluster.url) as one, program(cluster.url) as other:
            before = await published(one, "before")
            await knows(other, before)
            cluster.kill(0)
            after = await published(one, "after")
            await knows(other, before, after)
            back = await published(other, "back")
            await knows(one, back)
    finally:
        cluster.stop()


@pytest.mark.parametrize(
    "url",
    [
        "etcd://",
        "etcd://host:2379?ttl=5&refresh=5",
        "etcd://host:2379?ttl=0",
        "etcd://host:2379?tll=5",
        "etcds://host:2379?ca=/nowhere",
        "consul://host",
    ],
)
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        _open(url)


def _open(url: str) -> object:
    from dragoman.topology.opening import open_discovery

    opening: Callable[[str], object] = open_discovery
    return opening(url)
