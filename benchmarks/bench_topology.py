"""A thousand topics on three hosts: memory, how soon a new subscriber is connected, and the load on etcd.

Each host is a process that publishes and subscribes all topics by multicast, with a local etcd. Beside ours,
what the same entries would cost etcd if each were refreshed by itself, as the systems before did.

    PYTHONPATH=. python benchmarks/bench_topology.py [--topics 1000] [--hosts 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.services.etcd import Etcd

from dragoman import record
from dragoman.topology import AllowList, Multipart, Topology

ADMIN = "multicast://239.255.44.0/24?interface=lo&port=15454&heartbeat=10"
STEADY = 10.0
SAMPLES = 20
REFRESH = 5.0


@record(namespace="bench")
class Reading:
    number: int


def receive(reading: Reading, multipart: Multipart) -> None: ...


async def host(etcd: str, topics: int, hosts: int) -> None:
    """Does what its standard input says, line by line."""
    async with Topology([ADMIN], [etcd], registry=AllowList([Reading])) as topology:
        offers = [topology.offer(f"topic-{number}", receive) for number in range(topics)]
        for number in range(topics):
            topology.request(f"topic-{number}")
        for offer in offers:
            await offer.wait_for_publishers(hosts, 120)
        tell(memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        gateway = topology.discoveries[0].gateway
        while line := (await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)).split():
            match line:
                case ["steady"]:
                    before = gateway.requests
                    await asyncio.sleep(STEADY)
                    tell(requests=gateway.requests - before)
                case ["publish", topic]:
                    await topology.request(topic).wait(30)
                    tell()
                case ["subscribe", topic]:
                    started = time.perf_counter()
                    await topology.offer(topic, receive).wait_for_publishers(1, 30)
                    tell(seconds=time.perf_counter() - started)
                case ["found", topic]:
                    request = topology.request(topic)
                    tell()
                    await request.wait_for_subscribers(1, 60)
                    tell(at=time.time())
                case ["offer", topic]:
                    at = time.time()
                    topology.offer(topic, receive)
                    tell(at=at)


def tell(**what: float) -> None:
    print(json.dumps(what), flush=True)


class Child:
    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--host", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, line: str) -> None:
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def heard(self) -> dict[str, float]:
        return json.loads(self._process.stdout.readline())

    def ask(self, line: str) -> dict[str, float]:
        self.say(line)
        return self.heard()

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)


def measure(topics: int, hosts: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = Etcd(Path(folder) / "etcd")
        server.start()
        started = time.perf_counter()
        children = [Child(f"etcd://127.0.0.1:{server.port}", str(topics), str(hosts)) for _ in range(hosts)]
        try:
            memory = [child.heard()["memory"] for child in children]
            report(children, memory, time.perf_counter() - started, topics)
        finally:
            for child in children:
                child.end()
            server.stop()


def report(children: list[Child], memory: list[float], settled: float, topics: int) -> None:
    for child in children:
        child.say("steady")
    requests = sum(child.heard()["requests"] for child in children) / STEADY
    connected, seen = [], []
    for number in range(SAMPLES):
        children[0].ask(f"publish new-{number}")
        time.sleep(0.1)
        connected.append(children[1].ask(f"subscribe new-{number}")["seconds"])
        children[0].ask(f"found later-{number}")
        offered = children[1].ask(f"offer later-{number}")["at"]
        seen.append(children[0].heard()["at"] - offered)
    entries = 2 * topics * len(children)
    print("| what | ours | asked for |")
    print("| --- | ---: | ---: |")
    print(f"| entries in etcd | {entries:,} | |")
    print(f"| all hosts know and have connected everything | {settled:.1f} s | |")
    print(f"| memory of a host, most | {max(memory):.0f} MB | < 150 MB |")
    print(
        f"| new subscriber connected, median of {SAMPLES} | {ms(statistics.median(connected))} | < 300 ms |"
    )
    print(f"| new subscriber connected, slowest | {ms(max(connected))} | < 300 ms |")
    print(f"| new subscriber known to a publisher elsewhere, median | {ms(statistics.median(seen))} | |")
    print(f"| new subscriber known to a publisher elsewhere, slowest | {ms(max(seen))} | < 300 ms |")
    print(f"| requests to etcd, steady | {requests:.1f}/s | < 300/s |")
    print(f"| the same if each entry were refreshed every {REFRESH:g} s | {entries / REFRESH:,.0f}/s | |")


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--host", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.host:
        etcd, topics, hosts = given.host
        asyncio.run(host(etcd, int(topics), int(hosts)))
    else:
        measure(given.topics, given.hosts)


if __name__ == "__main__":
    main()
