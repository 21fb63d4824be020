"""Reads from memory, before any framework: whole answers kept as bytes until their contract changes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.registry.access import Principal, Role
from dragoman.registry.http.metrics import Metrics
from dragoman.registry.name import ContractName

_MOST_BYTES = 48 * 1024 * 1024
_MOST_ENTRIES = 100_000
_ENTRY_COST = 600
"""What an entry costs beside its bytes, roughly."""

_OPENSCHEMA = b"application/vnd.openschema"
"""Who accepts this gets other answers at the same paths, which are not kept."""


class _Entry(NamedTuple):
    contract: ContractName | None
    start: Message
    body: Message


class HotAnswers:
    """Answers by path and query. Filled by the event loop, emptied from any thread."""

    def __init__(self) -> None:
        self.generation = 0
        """Grows with every change."""
        self._cleared = 0
        self._changed: dict[ContractName | None, int] = {}
        self._entries: dict[bytes, _Entry] = {}
        self._of_contract: dict[ContractName, set[bytes]] = {}
        self._bytes = 0
        self._guard = threading.Lock()

    def get(self, key: bytes) -> _Entry | None:
        return self._entries.get(key)

    def put(self, key: bytes, entry: _Entry, generation: int) -> None:
        """Keep an answer, unless what it speaks of changed since ``generation``, when it was asked for."""
        size = len(entry.body["body"]) + _ENTRY_COST
        with self._guard:
            changed = max(self._cleared, self._changed.get(entry.contract, 0))
            if changed > generation or key in self._entries:
                return
            if self._bytes + size > _MOST_BYTES or len(self._entries) >= _MOST_ENTRIES:
                self._clear()
            self._entries[key] = entry
            self._bytes += size
            if entry.contract is not None:
                self._of_contract.setdefault(entry.contract, set()).add(key)

    def forget(self, contract: ContractName) -> None:
        """A contract changed, or, if it has no name, anything may have."""
        with self._guard:
            self.generation += 1
            if not contract.contract or len(self._changed) >= _MOST_ENTRIES:
                self._clear()
                return
            self._changed[contract] = self.generation
            for key in self._of_contract.pop(contract, ()):
                entry = self._entries.pop(key, None)
                if entry is not None:
                    self._bytes -= len(entry.body["body"]) + _ENTRY_COST

    def _clear(self) -> None:
        self._cleared = self.generation
        self._changed.clear()
        self._entries.clear()
        self._of_contract.clear()
        self._bytes = 0


class HotPath:
    """Answers from memory where it can, and remembers what the application marks as worth keeping.

    A handler marks an answer by ``scope["dragoman.keep"] = True``, and names the contract that it speaks
    of in ``scope["dragoman.contract"]``, if there is one.
    """

    def __init__(self, app: ASGIApp, answers: HotAnswers, metrics: Metrics) -> None:
        self._app = app
        self._answers = answers
        self._metrics = metrics

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        for name, value in scope["headers"]:
            if name == b"accept" and _OPENSCHEMA in value:
                scope["dragoman.openschema"] = not scope["path"].startswith("/openschema/")
                return self._app(scope, receive, send)
        if scope["method"] != "GET":
            return self._app(scope, receive, send)
        query = scope["query_string"]
        key: bytes = scope["raw_path"] + b"?" + query if query else scope["raw_path"]
        entry = self._answers.get(key)
        if entry is not None:
            principal: Principal = scope["dragoman.principal"]
            if principal.may(Role.READ, entry.contract):
                self._metrics.hot += 1
                return _send(entry, send)
        return self._learn(key, scope, receive, send)

    async def _learn(self, key: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        generation = self._answers.generation
        start: Message = {}

        async def listen(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
            elif scope.get("dragoman.keep") and start.get("status") == 200 and not message.get("more_body"):
                entry = _Entry(scope.get("dragoman.contract"), start, message)
                self._answers.put(key, entry, generation)
            await send(message)

        await self._app(scope, receive, listen)


async def _send(entry: _Entry, send: Send) -> None:
    await send(entry.start)
    await send(entry.body)
