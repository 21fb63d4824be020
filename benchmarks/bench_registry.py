"""The registry under load: reads by id and by version, with and without credentials; writes; start.

A Starlette application that answers every request with the same bytes runs beside it: it does none of a
registry's work, and so shows what is left to gain. Other registries are measured too where one answers:

    python benchmarks/bench_registry.py [--seconds 4] [--peer http://host:8081]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import uvloop

from dragoman.registry import RegistryService
from dragoman.registry.access import Grant
from dragoman.registry.keys import REGISTRY, create_key
from dragoman.registry.model import Draft
from dragoman.registry.name import ContractName
from dragoman.registry.registration import Registration, register

CONNECTIONS = 100
SCHEMAS = 1000
MANY = 10_000

YARDSTICK = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
body = b"x" * 200
async def answer(request):
    return Response(body, media_type="application/json")
app = Starlette(routes=[Route("/{path:path}", answer)])
uvicorn.run(app, port=int(sys.argv[1]), http="httptools", log_level="error")
"""


class Rate(NamedTuple):
    per_second: float
    p99: float


def schema_text(number: int) -> str:
    fields = [
        {"name": "id", "type": "long"},
        {"name": f"field_{number}", "type": ["null", "string"], "default": None},
    ]
    return json.dumps({"type": "record", "name": f"Record{number}", "namespace": "bench", "fields": fields})


def fill(store: str, count: int) -> str:
    """Register schemas in one transaction; the credentials of a reader."""
    service = RegistryService.open(store)
    engine, context = service.engine, ContractName(".", "")

    def work(tx: object) -> None:
        for number in range(count):
            asked = Registration(ContractName(".", f"c{number}-value"), Draft("AVRO", schema_text(number)))
            register(tx, engine.parser, asked)  # type: ignore[arg-type]

    engine.write_now(work, context)
    key = engine.write_now(
        lambda tx: create_key(tx, "bench", (Grant.parse("read"),), author="bench"), REGISTRY
    )
    engine.close()
    return base64.b64encode(f"{key.id}:{key.secret}".encode()).decode()


@contextmanager
def served(*words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server process, ready, and where it is."""
    command = [sys.executable, "-m", "dragoman.cli", "registry", "serve", "--port", "0", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"http://[\d.]+:\d+", process.stderr.readline())
        assert found is not None
        wait_for(f"{found.group()}/ready")
        yield found.group(), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


@contextmanager
def yardstick() -> Iterator[str]:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", YARDSTICK, str(port)])
    try:
        wait_for(f"http://127.0.0.1:{port}/x")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise TimeoutError(url)


class Connection(asyncio.Protocol):
    """Sends one request after the other, as long as there are any, and notes how long each took."""

    def __init__(self, requests: Iterator[bytes], times: list[float]) -> None:
        self.requests, self.times = requests, times
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        request = next(self.requests, None)
        if request is None:
            self.done.set_result(None)
            return
        self.left = -1
        self.sent = time.perf_counter()
        self.transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self.left < 0:
            if not data.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(data[:300])
            head = data.index(b"\r\n\r\n") + 4
            at = data.lower().index(b"content-length: ") + 16
            self.left = int(data[at : data.index(b"\r", at)]) + head
        self.left -= len(data)
        if self.left <= 0:
            self.times.append(time.perf_counter() - self.sent)
            self.ask()


async def connect(
    url: str, requests: Iterator[bytes], times: list[float]
) -> tuple[asyncio.BaseTransport, Connection]:
    host, port = url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    return await loop.create_connection(lambda: Connection(requests, times), host, int(port))


async def load(url: str, paths: Sequence[str], seconds: float, header: str = "") -> Rate:
    extra = f"{header}\r\n" if header else ""
    requests = [f"GET {path} HTTP/1.1\r\nHost: x\r\n{extra}\r\n".encode() for path in paths]
    times: list[float] = []
    shared = itertools.cycle(requests)
    made = [await connect(url, shared, times) for _ in range(CONNECTIONS)]
    await asyncio.sleep(0.5)
    times.clear()
    started = time.perf_counter()
    await asyncio.sleep(seconds)
    taken, counted = time.perf_counter() - started, sorted(times)
    for transport, _ in made:
        transport.close()
    return Rate(len(counted) / taken, counted[int(len(counted) * 0.99)] * 1000)


def measure(url: str, paths: Sequence[str], seconds: float, header: str = "") -> Rate:
    return uvloop.run(load(url, paths, seconds, header))


def memory(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) / 1024 if found else 0.0


async def registrations(urls: Sequence[str], count: int, at_once: int = 64) -> float:
    """New versions a second, of new contracts, through all nodes at once."""
    started = time.perf_counter()
    made = []
    for place, url in enumerate(urls):
        requests = (_registration(number) for number in range(place, count, len(urls)))
        made += [await connect(url, requests, []) for _ in range(at_once // len(urls))]
    await asyncio.gather(*(connection.done for _, connection in made))
    taken = time.perf_counter() - started
    for transport, _ in made:
        transport.close()
    return count / taken


def _registration(number: int) -> bytes:
    body = json.dumps({"schema": schema_text(10**6 + number)}).encode()
    line = f"POST /subjects/new{number}-value/versions HTTP/1.1"
    return f"{line}\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def reads(folder: Path, seconds: float, peer: str | None) -> list[tuple[str, str]]:
    store = f"sqlite://{folder}/reads.db"
    credentials = fill(store, SCHEMAS)
    by_id = [f"/schemas/ids/{number + 1}" for number in range(SCHEMAS)]
    by_version = [f"/subjects/c{number}-value/versions/1" for number in range(SCHEMAS)]
    rows = []
    with yardstick() as url:
        bare = max((measure(url, ["/x"], seconds / 2) for _ in "12"), key=lambda rate: rate.per_second)
    rows.append(("Starlette alone, one constant answer", shown(bare)))
    header = f"Authorization: Basic {credentials}"
    with (
        served("--store", store) as (url, process),
        served("--store", store, "--credentials") as (guarded, _),
    ):
        for title, paths in (("GET by id", by_id), ("GET by version", by_version)):
            # In turns, since a machine with other work to do disturbs now and then.
            rounds = [
                (measure(url, paths, seconds / 2), measure(guarded, paths, seconds / 2, header)) for _ in "12"
            ]
            plain, basic = (
                max(found, key=lambda rate: rate.per_second) for found in zip(*rounds, strict=True)
            )
            rows.append(
                (title, f"{shown(plain)}, {plain.per_second / bare.per_second:.2f} of Starlette alone")
            )
            share = basic.per_second / plain.per_second
            rows.append((f"{title}, HTTP Basic", f"{shown(basic)}, {share:.2f} of without"))
        rows.append((f"memory with {SCHEMAS} schemas read", f"{memory(process.pid):.0f} MB"))
    if (os.cpu_count() or 1) > 1:
        with served("--store", store, "--workers", "2") as (url, _):
            rows.append(("GET by id, two workers", shown(measure(url, by_id, seconds))))
    if peer:
        found = measure(peer.rstrip("/"), ["/subjects"], seconds)
        rows.append((f"peer {peer}, GET /subjects", shown(found)))
    return rows


def writes(folder: Path) -> list[tuple[str, str]]:
    rows = []
    with served("--store", f"sqlite://{folder}/writes.db") as (url, _):
        rate = uvloop.run(registrations([url], 1000))
        rows.append(("registrations, SQLite, one node", f"{rate:,.0f}/s"))
    try:
        from tests.services.postgres import Postgres

        postgres = Postgres(folder / "postgres")
        postgres.start()
    except Exception as error:
        rows.append(("registrations, PostgreSQL, two nodes", f"not measured: {type(error).__name__}"))
        return rows
    try:
        with served("--store", postgres.url) as (one, _), served("--store", postgres.url) as (two, _):
            rate = uvloop.run(registrations([one, two], 1000))
            rows.append(("registrations, PostgreSQL, two nodes", f"{rate:,.0f}/s"))
    finally:
        postgres.stop()
    return rows


def start(folder: Path) -> list[tuple[str, str]]:
    store = f"sqlite://{folder}/many.db"
    fill(store, MANY)
    began = time.perf_counter()
    with served("--store", store) as (url, process):
        ready = time.perf_counter() - began
        measure(url, [f"/schemas/ids/{number + 1}" for number in range(MANY)], 3)
        used = memory(process.pid)
    return [
        (f"start to ready with {MANY} schemas", f"{ready:.2f} s"),
        (f"memory with {MANY} schemas read", f"{used:.0f} MB"),
    ]


def shown(rate: Rate) -> str:
    return f"{rate.per_second:,.0f}/s, p99 {rate.p99:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--peer", help="Another registry that runs already.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        rows = [*reads(folder, options.seconds, options.peer), *writes(folder), *start(folder)]
    print(f"{CONNECTIONS} connections, {os.cpu_count()} cores shared by server and load\n")
    print("| what | result |\n| --- | --- |")
    for title, result in rows:
        print(f"| {title} | {result} |")


if __name__ == "__main__":
    main()
