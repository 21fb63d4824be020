"""A request and its answer by SEP, beside HTTPS with a new connection each, between two processes.

python benchmarks/bench_sep.py [--requests 3000]
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import ipaddress
import multiprocessing
import ssl
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dragoman.gateway.sep import Operation, Reply, SepClient, SepServer, ServerKey, Suite

BODY = b'{"destination": {"resource": "shares", "method": "select"}}' * 8
AT_ONCE = 16


def certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(plain + made.public_bytes(serialization.Encoding.PEM))
    return path


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        body = (await receive())["body"]
        await send(
            {
                "type": "http.response.start",
                "status": 202,
                "headers": [(b"content-length", b"%d" % len(body))],
            }
        )
        await send({"type": "http.response.body", "body": body})


def serve_https(path: str, ready: Any) -> None:
    async def run() -> None:
        config = uvicorn.Config(
            app,
            port=0,
            ssl_certfile=path,
            ssl_keyfile=path,
            log_level="error",
            lifespan="off",
            http="httptools",
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        ready.put(server.servers[0].sockets[0].getsockname())
        await task

    asyncio.run(run())


def serve_sep(path: str, ready: Any) -> None:
    async def answer(operation: Operation, body: bytes, peer: Any) -> Reply:
        return Reply(202, body)

    async def run() -> None:
        async with SepServer(answer, ServerKey.read(Path(path))) as server:
            ready.put(server.address)
            await asyncio.Event().wait()

    import uvloop

    uvloop.run(run())


async def by_https(address: tuple[str, int], context: ssl.SSLContext) -> None:
    reader, writer = await asyncio.open_connection(*address, ssl=context)
    head = b"POST /drop-off HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % len(BODY) + BODY)
    assert (await reader.read()).endswith(BODY)
    writer.close()
    await writer.wait_closed()


async def measured(work: Callable[[], Awaitable[Any]], count: int) -> tuple[float, float]:
    """Requests a second with some at once, and the median time of one alone in milliseconds."""
    alone = []
    for _ in range(max(20, count // 10)):
        start = time.perf_counter()
        await work()
        alone.append(time.perf_counter() - start)
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            await work()

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return count / (time.perf_counter() - start), statistics.median(alone) * 1000


async def compare(
    https: tuple[str, int], pem: Path, sep: dict[str, tuple[tuple[str, int], ServerKey]], count: int
) -> None:
    context = ssl.create_default_context(cafile=str(pem))
    rows = {"HTTPS, a new connection each": await measured(lambda: by_https(https, context), count // 4)}
    for name, (address, key) in sep.items():
        async with SepClient(*address, key.public) as client:
            rows[f"SEP, {name}"] = await measured(lambda c=client: c.request(Operation.DROP_OFF, BODY), count)  # type: ignore[misc]

        async def anew(address: tuple[str, int] = address, key: ServerKey = key) -> None:
            async with SepClient(*address, key.public) as client:
                await client.request(Operation.DROP_OFF, BODY)

        rows[f"SEP, {name}, a new session each"] = await measured(anew, count // 4)
    rate, median = rows["HTTPS, a new connection each"]
    print("| case | requests/s | median, ms | compared |")
    print("| --- | ---: | ---: | --- |")
    for name, (found, alone) in rows.items():
        print(
            f"| {name} | {found:,.0f} | {alone:.2f} "
            f"| {found / rate:.1f} times the requests, {alone / median:.0%} of the time |"
        )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--requests", type=int, default=3000)
    given = options.parse_args()
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pem = certificate(folder)
        processes = [context.Process(target=serve_https, args=(str(pem), ready), daemon=True)]
        processes[0].start()
        https = ready.get(timeout=60)[:2]
        sep = {}
        for suite in Suite:
            key = ServerKey.generate(suite)
            key.write(folder / suite.name)
            processes.append(
                context.Process(target=serve_sep, args=(str(folder / suite.name), ready), daemon=True)
            )
            processes[-1].start()
            sep[suite.name] = (tuple(ready.get(timeout=60)), key)
        import uvloop

        uvloop.run(compare(https, pem, sep, given.requests))
        for process in processes:
            process.terminate()


if __name__ == "__main__":
    main()
