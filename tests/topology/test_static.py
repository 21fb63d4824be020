"""Discovery by a file that somebody writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.core.errors import ConfigurationError
from dragoman.topology import Topology
from tests.topology.records import Price
from tests.topology.world import LOOPBACK, Inbox, allowed, linked, until

PUBLISHER = {
    "service.id": "1",
    "type": "publisher",
    "pubsub.topic": "prices",
    "pubsub.admin.type": "multicast",
    "serializer": "avro",
}


def write(path: Path, entries: object) -> None:
    """In one step, as a careful program does it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(entries))
    fresh.replace(path)


async def test_a_topology_without_any_server_works(tmp_path: Path) -> None:
    """Multicast, a list of types and a file: whoever speaks on the group that the file names is heard."""
    file, inbox, registry = tmp_path / "endpoints.json", Inbox(), allowed()
    async with Topology([LOOPBACK], registry=registry) as sending:
        publisher = await sending.publisher("prices")
        group = sending.own_endpoints()[0].more
        entry = PUBLISHER | {name: group[name] for name in ("multicast.group", "multicast.port")}
        write(file, [entry])
        async with Topology([LOOPBACK], [f"file://{file}"], registry=registry) as receiving:
            await receiving.offer("prices", inbox).wait(30)
            await linked(receiving)
            await publisher.send(Price("a", 1.0))
            await inbox.has(1)


async def test_any_number_of_senders_may_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.topology.admins.multicast.receiver.MOST_STRANGERS", 2)
    file, inbox, registry, topic = tmp_path / "endpoints.json", Inbox(), allowed(), "come-and-go"
    async with Topology([LOOPBACK], registry=registry) as any_program:
        await any_program.publisher(topic)
        group = any_program.own_endpoints()[0].more
    entry = PUBLISHER | {name: group[name] for name in ("multicast.group", "multicast.port")}
    write(file, [entry | {"pubsub.topic": topic}])
    async with Topology([LOOPBACK], [f"file://{file}"], registry=registry) as receiving:
        await receiving.offer(topic, inbox).wait(30)
        await linked(receiving)
        for number in range(5):
            async with Topology([LOOPBACK], registry=registry) as sending:
                await (await sending.publisher(topic)).send(Price("a", float(number)))
                await inbox.has(number + 1)
    assert [price.bid for price in inbox.got] == [0.0, 1.0, 2.0, 3.0, 4.0]


async def test_changes_of_the_file_are_followed_and_mistakes_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.json"
    write(file, [PUBLISHER])
    async with Topology([], [f"file://{file}?poll=0.05"], registry=allowed()) as topology:
        assert [each.id for each in topology.endpoints] == ["static-1"]
        write(file, [PUBLISHER, PUBLISHER | {"service.id": "2", "pubsub.scope": "fx"}])
        await until(lambda: len(topology.endpoints) == 2)
        file.write_text("[{")
        await until(lambda: topology.discoveries[0].trouble)
        assert len(topology.endpoints) == 2
        write(file, [])
        await until(lambda: len(topology.endpoints) == 0)
        await until(lambda: topology.discoveries[0].trouble is None)


@pytest.mark.parametrize("entries", [{}, [1], [{"type": "publisher"}], [PUBLISHER | {"service.id": "x"}]])
async def test_a_wrong_file_is_refused_at_the_start(tmp_path: Path, entries: object) -> None:
    file = tmp_path / "endpoints.json"
    write(file, entries)
    topology = Topology([], [f"file://{file}"], registry=allowed())
    with pytest.raises(ConfigurationError, match=r"endpoints\.json"):
        await topology.__aenter__()
    await topology.close()


async def test_a_discovery_can_be_added_and_removed_while_running(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.json"
    write(file, [PUBLISHER])
    async with Topology([], registry=allowed()) as topology:
        first = await topology.add_discovery(f"file://{file}")
        second = await topology.add_discovery(f"file://{file}?poll=5")
        assert len(topology.endpoints) == 1, "known twice, there once"
        await topology.remove_discovery(first)
        assert len(topology.endpoints) == 1
        await topology.remove_discovery(second)
        assert len(topology.endpoints) == 0


async def test_entries_of_several_topics_may_share_a_number(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.json"
    other = PUBLISHER | {"pubsub.topic": "news"}
    write(file, [PUBLISHER, other])
    async with Topology([], [f"file://{file}?poll=0.01"], registry=allowed()) as topology:
        assert sorted(each.topic.name for each in topology.endpoints) == ["news", "prices"]
        write(file, [PUBLISHER])
        await until(lambda: [each.topic.name for each in topology.endpoints] == ["prices"])
        write(file, [])
        await until(lambda: list(topology.endpoints) == [])


async def test_the_same_entry_twice_is_refused_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.json"
    write(file, [PUBLISHER, PUBLISHER])
    with pytest.raises(ConfigurationError, match="entry 2"):
        async with Topology([], [f"file://{file}"], registry=allowed()):
            pass
