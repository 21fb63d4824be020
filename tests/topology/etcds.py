"""etcd as the tests need it: with TLS, in a cluster, behind a line that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dragoman.topology.etcd.gateway import Access, Gateway, encoded
from tests.services.etcd import Etcd
from tests.services.ports import free_port

SHORT = "ttl=10&refresh=0.5&grace=60"


def etcd_url(server: Etcd, options: str = SHORT, port: int | None = None) -> str:
    return f"etcd://127.0.0.1:{port or server.port}?{options}"


class Operator:
    """Somebody with access to etcd, friend or foe."""

    def __init__(self, server: Etcd) -> None:
        self._gateway = Gateway(Access((f"127.0.0.1:{server.port}",)), timeout=30.0)

    async def __aenter__(self) -> Operator:
        return self

    async def __aexit__(self, *gone: object) -> None:
        await self._gateway.close()

    async def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self._gateway.call(path, body)

    async def put(self, key: str, value: str) -> None:
        await self.call("/v3/kv/put", {"key": encoded(key), "value": encoded(value)})

    async def delete(self, key: str) -> int:
        """Gives the revision."""
        answer = await self.call("/v3/kv/deleterange", {"key": encoded(key)})
        return int(answer["header"]["revision"])

    async def compact(self) -> None:
        answer = await self.call("/v3/kv/range", {"key": encoded("x")})
        revision = answer["header"]["revision"]
        await self.call("/v3/kv/compaction", {"revision": revision, "physical": True})


class Line:
    """A way to a server that can be cut and mended."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.StreamWriter] = set()
        self.port = free_port()

    async def __aenter__(self) -> Line:
        await self.mend()
        return self

    async def __aexit__(self, *gone: object) -> None:
        await self.cut()

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
        self.drop()
        self._server = None

    def drop(self) -> None:
        """End all connections; new ones are welcome."""
        for writer in list(self._busy):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()
            return
        self._busy.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        except OSError:
            writer.transport.abort()
        finally:
            self._busy.discard(writer)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


class TlsEtcd(Etcd):
    """With certificates of its own authority, which clients must have too."""

    def prepare(self) -> None:
        self.certificate, self.key = self.data / "server.pem", self.data / "server.key"
        make_certificate(self.certificate, self.key)

    def command(self) -> Sequence[str]:
        url = f"https://127.0.0.1:{self.port}"
        return (
            self.executable(),
            f"--data-dir={self.data}/member",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls=http://127.0.0.1:{free_port()}",
            f"--cert-file={self.certificate}",
            f"--key-file={self.key}",
            f"--trusted-ca-file={self.certificate}",
            "--client-cert-auth",
        )

    def answers(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.load_cert_chain(self.certificate, self.key)
        url = f"https://127.0.0.1:{self.port}/health"
        with urllib.request.urlopen(url, timeout=30, context=context) as reply:
            return reply.status == 200


class GuardedEtcd(Etcd):
    """Checks passwords, in less time than it should."""

    def command(self) -> Sequence[str]:
        return (*super().command(), "--bcrypt-cost=4")


def make_certificate(target: Path, key_file: Path) -> None:
    """Key and self-signed certificate for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dragoman")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key_file.write_bytes(private)
    target.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


class Cluster:
    """Three members."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ports = [(free_port(), free_port()) for _ in range(3)]
        self.members: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"etcd://{','.join(f'127.0.0.1:{port}' for port, _ in self.ports)}?{SHORT}"

    def start(self) -> None:
        peers = ",".join(f"m{number}=http://127.0.0.1:{peer}" for number, (_, peer) in enumerate(self.ports))
        self._folder.mkdir(parents=True, exist_ok=True)
        for number, (client, peer) in enumerate(self.ports):
            log = (self._folder / f"m{number}.log").open("wb")
            self.members.append(
                subprocess.Popen(
                    [
                        Etcd.executable(),
                        f"--name=m{number}",
                        f"--data-dir={self._folder}/m{number}",
                        f"--listen-client-urls=http://127.0.0.1:{client}",
                        f"--advertise-client-urls=http://127.0.0.1:{client}",
                        f"--listen-peer-urls=http://127.0.0.1:{peer}",
                        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                        f"--initial-cluster={peers}",
                        "--initial-cluster-state=new",
                    ],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
            log.close()
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + 90
        for port, _ in self.ports:
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as reply:
                        if reply.status == 200:
                            break
                except OSError:
                    assert time.monotonic() < deadline, "the cluster does not come up"
                time.sleep(0.05)

    def kill(self, number: int) -> None:
        self.members[number].kill()
        self.members[number].wait()

    def stop(self) -> None:
        for member in self.members:
            member.kill()
        for member in self.members:
            member.wait()
