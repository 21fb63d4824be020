"""A SEP client made from ``docs/sep.md`` alone: it shares no code with the implementation."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
import struct
import time
from typing import Any

from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

LABEL = b"SEP/1 "
PATIENCE = 60.0


def mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def derived(secret: bytes, name: bytes, context: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(mac(secret, LABEL + name + b"\0" + hashlib.sha256(context).digest() + b"\1"))


def nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")


class Session:
    """The client's side of one session."""

    def __init__(self, text: str, suite: int) -> None:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        server, kem = raw[:32], raw[32:]
        self.suite, self.id, self.key = suite, os.urandom(8), X25519PrivateKey.generate()
        self.public = self.key.public_key().public_bytes_raw()
        secret, self.ciphertext = b"", b""
        if suite == 2:
            secret, self.ciphertext = MLKEM768PublicKey.from_public_bytes(kem).encapsulate()
        shared = self.key.exchange(X25519PublicKey.from_public_bytes(server))
        self.first = mac(LABEL, shared + secret)
        context = self.id + self.public + self.ciphertext + server + kem
        self.early = derived(self.first, b"early", context)
        self.retry = derived(self.first, b"retry", context)

    def init(self, number: int, frames: bytes, cookie: bytes = b"") -> bytes:
        head = struct.pack(">B8sIB32s", 0x11, self.id, number, self.suite, self.public)
        head += self.ciphertext + bytes([len(cookie)]) + cookie
        inside = struct.pack(">BQ", 1, int(time.time() * 1000)) + frames
        inside = inside.ljust(1200 - len(head) - 16, b"\0")
        return head + self.early.encrypt(nonce(number), inside, head)

    def early_data(self, number: int, frames: bytes) -> bytes:
        head = struct.pack(">B8sI", 0x12, self.id, number)
        return head + self.early.encrypt(nonce(number), frames, head)

    def retried(self, datagram: bytes) -> tuple[int, bytes]:
        kind, session, random = struct.unpack_from(">B8s12s", datagram)
        assert (kind, session) == (0x13, self.id)
        inside = self.retry.decrypt(random, datagram[21:], datagram[:21])
        milliseconds, size = struct.unpack_from(">QB", inside)
        assert len(inside) == 9 + size
        return milliseconds, inside[9:]

    def accepted(self, datagram: bytes) -> bytes:
        kind, session, number, public = struct.unpack_from(">B8sI32s", datagram)
        assert (kind, session) == (0x14, self.id)
        secret = mac(self.first, self.key.exchange(X25519PublicKey.from_public_bytes(public)))
        context = self.id + self.public + public
        self.client, self.server = derived(secret, b"client", context), derived(secret, b"server", context)
        return self.server.decrypt(nonce(number), datagram[45:], datagram[:45])

    def data(self, number: int, frames: bytes) -> bytes:
        head = struct.pack(">B8sI", 0x15, self.id, number)
        return head + self.client.encrypt(nonce(number), frames, head)

    def opened(self, datagram: bytes) -> bytes:
        kind, session, number = struct.unpack_from(">B8sI", datagram)
        assert (kind, session) == (0x15, self.id)
        return self.server.decrypt(nonce(number), datagram[13:], datagram[:13])


def request(stream: int, operation: int, body: bytes) -> bytes:
    content = bytes([operation]) + body
    message = hashlib.sha256(content).digest() + content
    return part(stream, 0, 1, message)


def part(stream: int, index: int, count: int, data: bytes) -> bytes:
    return struct.pack(">BIHHH", 2, stream, index, count, len(data)) + data


def acknowledgement(stream: int, count: int, bitmap: bytes) -> bytes:
    return struct.pack(">BIHH", 3, stream, count, len(bitmap)) + bitmap


def reply(frames: bytes) -> tuple[int, int, bytes]:
    """Stream, status and body of a reply of one part, which is the first frame."""
    kind, stream, index, count, size = struct.unpack_from(">BIHHH", frames)
    assert (kind, index, count) == (2, 0, 1)
    message = frames[11 : 11 + size]
    assert message[:32] == hashlib.sha256(message[32:]).digest()
    return stream, int.from_bytes(message[32:34], "big"), message[34:]


class Wire(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.came: asyncio.Queue[bytes] = asyncio.Queue()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        assert len(data) <= 1200
        self.came.put_nowait(data)

    async def next(self, kind: int) -> bytes:
        """The next datagram of this kind: copies of earlier ones may come in between."""
        async with asyncio.timeout(PATIENCE):
            while (data := await self.came.get())[0] != kind:
                pass
        return data


async def wire_to(address: tuple[str, int], host: str = "127.0.0.1") -> Wire:
    loop = asyncio.get_running_loop()
    return (await loop.create_datagram_endpoint(Wire, local_addr=(host, 0), remote_addr=address))[1]
