"""The gateway under load: drop-off to forwarded, collection, and many responses that wait.

Server and load share the machine. A Starlette application that reads each request and answers it with the
same bytes runs beside it: it checks, keeps and forwards nothing, and so shows what is left to gain.

    python benchmarks/bench_gateway.py [--seconds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import jwt
import uvloop

from dragoman.gateway.envelope import collection, datum, request, response, to_json
from dragoman.gateway.store.opening import open_store
from dragoman.gateway.store.port import Collect, Held

CONNECTIONS = 100
WAITING = 50_000
PACE = 5_000

JWT_KEY = "a key that is only used for this benchmark, and is long enough for it"
CONFIG = """
[jwt]
key-file = "jwt.key"
algorithm = "HS256"
audience = "bench"

[[public]]
resource = "service.shares"
"""

YARDSTICK = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
body = b"x" * 200
async def answer(request):
    await request.body()
    return Response(body, 202, media_type="application/json")
app = Starlette(routes=[Route("/{path:path}", answer, methods=["POST", "GET"])])
uvicorn.run(app, port=int(sys.argv[1]), http="httptools", log_level="error")
"""


class Rate(NamedTuple):
    per_second: float
    median: float
    p99: float
    cpu: float
    """Microseconds of the server's processor time for each request: the same on a busy machine."""


class Connection(asyncio.Protocol):
    """Sends one request after the other, and notes how long each took and how it was answered."""

    def __init__(
        self, requests: Iterator[bytes], times: list[float], answers: dict[bytes, int], interval: float
    ) -> None:
        self.requests, self.times, self.answers, self.interval = requests, times, answers, interval
        self.loop = asyncio.get_running_loop()
        self.due = self.loop.time() + random.uniform(0, interval)
        self.done = self.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.ask()

    def connection_lost(self, error: Exception | None) -> None:
        if self.interval:
            self.timer.cancel()

    def ask(self) -> None:
        request = next(self.requests, None)
        if request is None:
            if not self.done.done():
                self.done.set_result(None)
            return
        self.left = -1
        if not self.interval:
            self.due = self.loop.time()
            self.transport.write(request)  # type: ignore[attr-defined]
            return
        # At its time, and counted from then: who is late is not excused by having been busy.
        self.due += self.interval
        self.timer = self.loop.call_at(self.due, self.transport.write, request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self.left < 0:
            status = data[9:12]
            self.answers[status] = self.answers.get(status, 0) + 1
            self.left = data.index(b"\r\n\r\n") + 4
            if status != b"204":
                at = data.lower().index(b"content-length: ") + 16
                self.left += int(data[at : data.index(b"\r", at)])
        self.left -= len(data)
        if self.left <= 0:
            self.times.append(self.loop.time() - self.due)
            self.ask()


async def load(
    place: tuple[str, int],
    requests: Iterator[bytes],
    seconds: float,
    expected: bytes,
    rate: float | None = None,
) -> Rate:
    """As fast as it goes, or so many a second."""
    interval = CONNECTIONS / rate if rate else 0.0
    url, pid = place
    host, port = url.removeprefix("http://").split(":")
    times: list[float] = []
    answers: dict[bytes, int] = {}
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: Connection(requests, times, answers, interval), host, int(port))
        for _ in range(CONNECTIONS)
    ]
    await asyncio.sleep(0.3)
    times.clear()
    started, before = time.perf_counter(), processor_time(pid)
    await asyncio.wait([each.done for _, each in made], timeout=seconds)
    taken, counted = time.perf_counter() - started, sorted(times)
    spent = processor_time(pid) - before
    for transport, _ in made:
        transport.close()
    if set(answers) != {expected}:
        raise RuntimeError(f"Not all were answered with {expected!r}: {answers}")
    return Rate(
        len(counted) / taken,
        counted[len(counted) // 2] * 1000,
        counted[int(len(counted) * 0.99)] * 1000,
        spent / len(counted) * 1e6,
    )


def posts(path: str, template: bytes, mark: bytes, first: int = 0) -> Iterator[bytes]:
    """Requests that differ in one number."""
    number = first
    while True:
        body = template.replace(mark, b"%012d" % number)
        yield (
            b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (path.encode(), len(body), body)
        )
        number += 1


@contextmanager
def process(*command: str) -> Iterator[tuple[str, int]]:
    child = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        found = re.search(r"http://[\d.]+:\d+", child.stderr.readline())
        assert found is not None
        wait_for(f"{found.group()}/ready")
        yield found.group(), child.pid
    finally:
        child.send_signal(signal.SIGTERM)
        child.communicate()


@contextmanager
def served(folder: Path, store: str) -> Iterator[tuple[str, int]]:
    (folder / "jwt.key").write_text(JWT_KEY)
    (folder / "gateway.toml").write_text(CONFIG)
    command = ("-m", "dragoman.cli", "gateway", "serve", "--port", "0", "--config", f"{folder}/gateway.toml")
    places = ("--store", store, "--broker", "memory://", "--registry", "memory://")
    with process(*command, *places, "--secret-file", f"{folder}/secret") as found:
        yield found


@contextmanager
def yardstick() -> Iterator[tuple[str, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    child = subprocess.Popen([sys.executable, "-c", YARDSTICK, str(port)])
    try:
        wait_for(f"http://127.0.0.1:{port}/x")
        yield f"http://127.0.0.1:{port}", child.pid
    finally:
        child.terminate()
        child.wait()


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise TimeoutError(url)


def processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) / 1024 if found else 0.0


async def prepare(store: str, responses: int) -> None:
    """Responses that wait to be collected."""
    opened = open_store(store)
    await opened.open()
    asked = request("service.shares", "select", "movement", client_id="bench", request_id="#" * 12)
    data = [datum(name, "1.2345") for name in ("share", "open", "close", "change", "currency")]
    body = to_json(response(asked, data, source="service.shares", to="service.collection")).decode()
    now = time.time()

    def held(number: int) -> Held:
        id = f"{number:012d}"
        text = body.replace("#" * 12, id)
        return Held("bench", "bench", id, "movement", "authorized", "", Collect.ONCE, 30.0, now + 600, text)

    for start in range(0, responses, 5000):
        await asyncio.gather(
            *(opened.hold(held(start + n), now) for n in range(min(5000, responses - start)))
        )
    await opened.close()


def measure(folder: Path, seconds: float) -> list[tuple[str, str]]:
    token = jwt.encode({"sub": "bench", "aud": "bench", "exp": time.time() + 900}, JWT_KEY, "HS256")
    mark = b"#" * 12
    asked = request(
        "service.shares", "select", "movement", client_id="bench", request_id=mark.decode(), token=token
    )
    with yardstick() as place:
        bare = uvloop.run(load(place, posts("/x", to_json(asked), mark), seconds / 2, b"202"))
    rows = [("Starlette alone, one constant answer", shown(bare))]

    def beside(rate: Rate) -> str:
        return f"{shown(rate)}, {rate.per_second / bare.per_second:.2f} of Starlette alone"

    for title, store in (
        ("store in memory", "sqlite://:memory:"),
        ("store on disk, each commit synced", f"sqlite://{folder}/drop.db"),
    ):
        with served(folder, store) as place:
            requests = posts("/drop-off", to_json(asked), mark)
            found = uvloop.run(load(place, requests, seconds, b"202"))
            rows.append((f"drop-off to forwarded, {title}", beside(found)))
            paced = uvloop.run(load(place, requests, seconds, b"202", PACE))
            rows.append((f"the same at {PACE:,} a second", shown(paced)))
    store = f"sqlite://{folder}/collect.db"
    asyncio.run(prepare(store, WAITING))
    ask = to_json(collection(asked))
    with served(folder, store) as place:
        rows.append((f"memory with {WAITING:,} waiting responses", f"{memory(place[1]):.0f} MB"))
        found = uvloop.run(load(place, posts("/collection", ask, mark), min(seconds, 4), b"200"))
        rows.append(("collection, store on disk, each commit synced", beside(found)))
        nothing = uvloop.run(load(place, posts("/collection", ask, mark, 10**9), seconds / 2, b"204"))
        rows.append(("collection, nothing there yet", shown(nothing)))
        rows.append(("memory afterwards", f"{memory(place[1]):.0f} MB"))
    return rows


def shown(rate: Rate) -> str:
    return (
        f"{rate.per_second:,.0f}/s, median {rate.median:.1f} ms, p99 {rate.p99:.1f} ms,"
        f" {rate.cpu:.0f} µs of processor time each"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = measure(Path(name), options.seconds)
    print(f"{CONNECTIONS} connections, {os.cpu_count()} cores shared by server and load\n")
    print("| what | result |\n| --- | --- |")
    for title, result in rows:
        print(f"| {title} | {result} |")


if __name__ == "__main__":
    main()
