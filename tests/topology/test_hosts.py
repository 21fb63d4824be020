"""Programs on several hosts: killed, cut off, with wrong clocks. Each host is a network namespace."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.etcd import Etcd
from tests.services.fixtures import missing
from tests.services.server import ServiceUnavailable
from tests.topology.network import Host, Network, etcd_on, possible

OPTIONS = "ttl=2&refresh=0.4&grace=120"


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """Skipped wherever namespaces are impossible: no installation could change that."""
    reason = possible()
    if reason is not None:
        pytest.skip(reason)
    made = Network()
    try:
        for _ in range(3):
            made.add_host()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def etcd(network: Network, service_folder: Path) -> Iterator[str]:
    try:
        Etcd.executable()
    except ServiceUnavailable as unavailable:
        missing(str(unavailable))
    with etcd_on(network, service_folder / "hosts") as url:
        yield f"{url}?{OPTIONS}"


async def send_until_received(sender: Host, receiver: Host, symbol: str) -> None:
    """Multicast promises nothing, so what does not come is sent again."""
    for _ in range(20):
        await sender.do("send", symbol)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3):
                await receiver.event("received", symbol=symbol)
                return
    pytest.fail(f"{symbol} never came.")


async def test_a_killed_host_is_gone_everywhere_and_the_others_go_on(network: Network, etcd: str) -> None:
    async with Host(network, 1, etcd) as one, Host(network, 2, etcd) as two, Host(network, 3, etcd) as three:
        for subscriber in (one, two):
            await subscriber.do("offer", "prices")
        await one.do("request", "prices")
        await three.do("request", "prices")
        for subscriber in (one, two):
            await subscriber.count("publishers", 2)
        await three.count("subscribers", 2)
        await send_until_received(three, one, "from-three")
        await send_until_received(three, two, "from-three-again")
        await three.kill()
        for subscriber in (one, two):
            await subscriber.count("publishers", 1)
        await send_until_received(one, two, "from-one")
        await two.kill()
        await one.count("subscribers", 1)


async def test_a_host_that_was_cut_off_for_longer_than_its_time_to_live_is_found_again(
    network: Network, etcd: str
) -> None:
    async with Host(network, 1, etcd) as one, Host(network, 2, etcd) as two:
        await one.do("offer", "prices")
        await two.do("request", "prices")
        await one.count("publishers", 1)
        await two.count("subscribers", 1)
        network.cut(2)
        try:
            await one.count("publishers", 0)
        finally:
            network.mend(2)
        await one.count("publishers", 1)
        await send_until_received(two, one, "healed")


async def test_a_host_whose_clock_is_an_hour_ahead_takes_part_as_any_other(
    network: Network, etcd: str
) -> None:
    async with Host(network, 1, etcd) as one, Host(network, 2, etcd, ahead=3600.0) as two:
        await one.do("offer", "prices")
        await one.do("request", "news")
        await two.do("request", "prices")
        await two.do("offer", "news")
        await one.count("publishers", 1)
        await two.count("publishers", 1)
        await send_until_received(two, one, "from-the-future")
        await send_until_received(one, two, "from-the-past")
        await two.kill()
        await one.count("publishers", 0)
