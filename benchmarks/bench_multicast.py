"""50,000 messages of 200 bytes a second by UDP multicast on loopback, and every lost one counted.

Ours and a plain asyncio datagram transport, each with a sender and a receiver in processes of their own.

    python benchmarks/bench_multicast.py [--seconds 5] [--rate 50000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from dragoman import record
from dragoman.topology import AllowList, Multipart, Topology

ADMIN = "multicast://239.255.43.0/24?interface=lo&heartbeat=0.2&port=15452"
PLAIN_GROUP = ("239.255.43.200", 15453)
TICK = 0.005


@record(namespace="bench")
class Reading:
    sensor: str
    number: int
    at: float


FILLER = "s" * 178
"""Makes the frame 200 bytes long."""


class Result(NamedTuple):
    name: str
    sent: int
    seconds: float
    received: int
    missing: int | None
    cpu: tuple[float, float]
    """Seconds of the sender and of the receiver."""

    def row(self) -> str:
        lost = self.sent - self.received
        told = "not known" if self.missing is None else f"{self.missing:,}"
        exact = "-" if self.missing is None else ("yes" if self.missing == lost else "NO")
        rate = self.sent / self.seconds
        counts = f"{rate:,.0f} | {self.sent:,} | {self.received:,} | {lost:,}"
        cost = " | ".join(f"{seconds / self.sent * 1e6:.1f} us" for seconds in self.cpu)
        return f"| {self.name} | {counts} | {told} | {exact} | {cost} |"


async def paced(count: int, rate: float, send) -> float:
    """Send so many, at this rate; the seconds it took."""
    started, sent = time.perf_counter(), 0
    while sent < count:
        due = min(count, int((time.perf_counter() - started + TICK) * rate))
        while sent < due:
            await send(sent)
            sent += 1
        await asyncio.sleep(max(0.0, sent / rate - (time.perf_counter() - started)))
    return time.perf_counter() - started


async def receive_ours(file: str) -> None:
    got = 0

    def receive(reading: Reading, multipart: Multipart) -> None:
        nonlocal got
        got += 1

    async with Topology([ADMIN], [f"file://{file}"], registry=AllowList([Reading])) as topology:
        offer = topology.offer("readings", receive, properties={"queue.size": "1000000"})
        await offer.wait(30)
        metrics = offer.metrics
        while not metrics.origins:
            await asyncio.sleep(0.01)
        print("ready", flush=True)
        started = time.process_time()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        previous = None
        while previous != (counts := (got, metrics.missing)):
            previous = counts
            await asyncio.sleep(0.5)
        cpu = time.process_time() - started
        print(json.dumps({"received": got, "missing": metrics.missing, "cpu": cpu}), flush=True)


async def send_ours(count: int, rate: float) -> Result:
    async with Topology([ADMIN], registry=AllowList([Reading])) as topology:
        publisher = await topology.publisher("readings")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "endpoints.json"
            file.write_text(json.dumps([each.properties() for each in topology.own_endpoints()]))
            child = start("ours", str(file))
            await asyncio.get_running_loop().run_in_executor(None, child.stdout.readline)

            async def send(number: int) -> None:
                await publisher.send(Reading(FILLER, number, 1.0))

            started = time.process_time()
            seconds = await paced(count, rate, send)
            cpu = time.process_time() - started
            await asyncio.sleep(1.0)
            told = await asyncio.get_running_loop().run_in_executor(None, finish, child)
    return Result("Dragoman topology", count, seconds, told["received"], told["missing"], (cpu, told["cpu"]))


async def receive_plain() -> None:
    class Counting(asyncio.DatagramProtocol):
        got = 0

        def datagram_received(self, data: bytes, address: object) -> None:
            self.got += 1

    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(PLAIN_GROUP)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership())
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_datagram_endpoint(Counting, sock=made)
    print("ready", flush=True)
    started = time.process_time()
    await loop.run_in_executor(None, sys.stdin.readline)
    await asyncio.sleep(0.5)
    print(json.dumps({"received": protocol.got, "cpu": time.process_time() - started}), flush=True)


async def send_plain(count: int, rate: float) -> Result:
    child = start("plain")
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, child.stdout.readline)
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, membership("0.0.0.0"))
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, sock=made)
    payload = b"x" * 200

    async def send(number: int) -> None:
        transport.sendto(payload, PLAIN_GROUP)

    started = time.process_time()
    seconds = await paced(count, rate, send)
    cpu = time.process_time() - started
    told = await loop.run_in_executor(None, finish, child)
    transport.close()
    return Result("plain asyncio datagrams", count, seconds, told["received"], None, (cpu, told["cpu"]))


def membership(address: str = PLAIN_GROUP[0]) -> bytes:
    return struct.pack("=4s4si", socket.inet_aton(address), b"\0" * 4, socket.if_nametoindex("lo"))


def start(kind: str, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, "--receive", kind, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(child: subprocess.Popen[str]) -> dict[str, int]:
    out, _ = child.communicate("end\n", timeout=120)
    return json.loads(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=50_000.0)
    parser.add_argument("--receive", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.receive:
        kind, *more = given.receive
        asyncio.run(receive_ours(*more) if kind == "ours" else receive_plain())
        return
    count = int(given.seconds * given.rate)
    print("| by | messages/s sent | sent | received | lost | loss told | exact | CPU to send | to receive |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |")
    for run in (send_ours, send_plain):
        print(asyncio.run(run(count, given.rate)).row(), flush=True)


if __name__ == "__main__":
    main()
