"""Histories: what each process of a run did, and when, one file per member.

A file has one event per line, as a JSON array of the kind of event, the time in nanoseconds and what belongs
to it. The time is that of the monotonic clock, which all processes of a machine share. A line goes straight
to the system, so what is written stays whatever happens to the process. Only the last line may be torn.

    ["life", t, pid]                                a process begins; the next one begins at the next "life"
    ["ready", t]                                    it has joined its group, or is about to publish
    ["sending", t, producer, first, until]          the numbers [first, until) are about to be published
    ["confirmed", t, producer, first, until]        the broker has accepted them
    ["received", t, receiver, deliveries]           ``receive`` has returned these; see ``Delivery``
    ["begun", t, producer, number]                  a handler has begun
    ["handled", t, producer, number]                it has done its work
    ["aside", t, producer, number]                  a dead letter or an invalid message has been accepted
    ["acknowledging", t, call, receiver, places]    ``acknowledge`` is called for these partitions and offsets
    ["acknowledged", t, call]                       that call has returned
    ["refused", t, call, code]                      it has raised an error
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = list[Any]
Identity = tuple[int, int]
"""A message, by its producer and number."""
Delivery = tuple[int, int, int, int]
"""A partition, an offset, a producer, a number."""


class Writer:
    """Appends the events of one process to the file of its member."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        # The process before this one may have been killed in the middle of a line.
        os.write(self._file, b"\n")
        self.write("life", os.getpid())

    def write(self, kind: str, *more: object) -> None:
        event = (kind, time.monotonic_ns(), *more)
        os.write(self._file, json.dumps(event, separators=(",", ":")).encode() + b"\n")


class Reader:
    """Reads a file as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self.events: list[Event] = []

    def read(self) -> list[Event]:
        """The events since the last call. Lines that were torn are left out."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        found = list(_events(whole.splitlines()))
        self.events += found
        return found


def _events(lines: Iterable[bytes]) -> Iterable[Event]:
    for line in lines:
        # A torn line has no bracket at its end. No part of an event is an event.
        if line.startswith(b"[") and line.endswith(b"]"):
            try:
                yield json.loads(line)
            except ValueError:
                continue
