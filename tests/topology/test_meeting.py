"""Publishers and subscribers that use different admins: not counted, and told of."""

from __future__ import annotations

import pytest

from dragoman.core.clock import ManualClock
from dragoman.topology import Endpoint, Role, Topic, Topology
from dragoman.topology.meeting import PATIENCE
from tests.topology.world import LOOPBACK, Inbox, allowed, memory_url

SUBSCRIBER = Endpoint("elsewhere", 1, Role.SUBSCRIBER, Topic("prices"), "kafka")
PUBLISHER = Endpoint("elsewhere", 2, Role.PUBLISHER, Topic("prices"), "kafka", "avro")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "will not meet" in each.getMessage()]


async def test_a_publisher_does_not_count_subscribers_that_cannot_hear_it() -> None:
    async with Topology([memory_url()], registry=allowed()) as topology:
        request = topology.request("prices")
        await request.wait(30)
        topology.endpoints.add("test", SUBSCRIBER)
        assert request.subscribers == 0
        await topology.offer("prices", Inbox()).wait(30)
        await request.wait_for_subscribers(1, 30)
        assert request.subscribers == 1


async def test_those_who_stay_apart_are_told_of_once_on_both_sides(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(1_000_000.0)
    async with Topology([memory_url()], registry=allowed(), clock=clock) as topology:
        await topology.publisher("prices")
        await topology.offer("prices", Inbox()).wait(30)
        topology.endpoints.add("test", SUBSCRIBER)
        topology.endpoints.add("test", PUBLISHER)
        assert warnings(caplog) == [], "they may be moving to another admin"
        for _ in range(3):
            clock.advance(PATIENCE)
        assert sorted(warnings(caplog)) == [
            "A publisher of prices uses kafka, this program memory: they will not meet.",
            "A subscriber of prices uses kafka, this program memory: they will not meet.",
        ]


async def test_those_who_are_apart_for_a_moment_are_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(1_000_000.0)
    async with Topology([memory_url()], registry=allowed(), clock=clock) as topology:
        await topology.publisher("prices")
        topology.endpoints.add("test", SUBSCRIBER)
        topology.endpoints.remove("test", SUBSCRIBER)
        clock.advance(PATIENCE)
        assert warnings(caplog) == []


async def test_publisher_and_subscriber_of_one_program_are_told_of_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock(1_000_000.0)
    async with Topology([memory_url(), LOOPBACK], registry=allowed(), clock=clock) as topology:
        await topology.publisher("prices", properties={"qos": "sample"})
        await topology.offer("prices", Inbox(), properties={"qos": "control"}).wait(30)
        clock.advance(PATIENCE)
        assert len(warnings(caplog)) == 2
