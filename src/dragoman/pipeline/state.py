"""What a pipeline remembers beside its tables: who runs it, and what each batch decided.

A batch's files are written down once, before the first table is committed. When the batch is tried again the
first decision stands, so a message never ends up in table and quarantine both, or in neither, because a
schema was registered between two tries.
"""

from __future__ import annotations

import fcntl
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman.core.disk import (
    OPERATING_SYSTEM,
    Disk,
    append_line,
    exists,
    make_folders,
    read_file,
    remove,
    sync_names,
    write_file,
)
from dragoman.core.errors import Conflict
from dragoman.pipeline.tables import DataFile

SETTINGS = "flow.json"


@dataclass(frozen=True, slots=True)
class Decision:
    """The files of one batch, and how many messages they hold."""

    batch: int
    read: int
    valid: tuple[DataFile, ...]
    quarantined: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.valid)

    @property
    def rejected(self) -> int:
        return sum(file.rows for file in self.quarantined)


@dataclass(frozen=True, slots=True)
class Pending:
    """Files on their way from the quarantine into the table."""

    application: str
    files: tuple[DataFile, ...]
    merge_by: tuple[str, ...] = ()


class State:
    """What one application keeps: decisions, events and checkpoint in ``folder``.

    ``home`` is beside the tables, wherever the rest is: there the lock, the settings and the keys that were
    removed are found by all.
    """

    def __init__(self, folder: Path, home: Path | None = None, disk: Disk = OPERATING_SYSTEM) -> None:
        self._disk = disk
        self.folder = folder
        self.home = home or folder
        self.checkpoint = folder / "checkpoint"
        self.events = folder / "events.jsonl"
        self._decisions = folder / "batches"
        self._pending = folder / "retry.json"
        self._deleted = self.home / "deleted.json"

    def decide(self, decision: Decision) -> Decision:
        """Write the decision down, unless there is one already: that one is given.

        It is on the disk then, with its name and those of its folders: once a table has a part of the batch,
        no other decision may be made, not even after a power failure.
        """
        make_folders(self._disk, self._decisions)
        target = self._decisions / f"{decision.batch:09}.json"
        partial = target.with_suffix(f".{os.getpid()}")
        # One that a crash has left may be the decision itself, under its first name: nothing writes into it.
        remove(self._disk, partial)
        write_file(self._disk, partial, json.dumps(asdict(decision)).encode(), sync=True)
        try:
            self._disk.link(partial, target)
        except FileExistsError:
            decision = _decision(json.loads(read_file(self._disk, target)))
        finally:
            self._disk.unlink(partial)
        for folder in (self._decisions, self.folder, self.folder.parent):
            sync_names(self._disk, folder)
        return decision

    def decisions(self) -> Iterator[Decision]:
        for file in sorted(self._decided()):
            with suppress(FileNotFoundError):
                yield _decision(json.loads(read_file(self._disk, file)))

    def _decided(self) -> list[Path]:
        try:
            names = self._disk.listdir(self._decisions)
        except FileNotFoundError:
            return []
        return [self._decisions / name for name in names if name.endswith(".json")]

    def forget_before(self, batch: int) -> None:
        """Spark tries no batch again that lies before the one it has begun."""
        for file in self._decided():
            if int(file.stem) < batch:
                remove(self._disk, file)

    def set_pending(self, pending: Pending | None) -> None:
        """Write down a move that has begun, or that it is done."""
        if pending is None:
            self._disk.unlink(self._pending)
            sync_names(self._disk, self.folder)
            return
        partial = self._pending.with_suffix(".new")
        write_file(self._disk, partial, json.dumps(asdict(pending)).encode(), sync=True)
        self._disk.replace(partial, self._pending)
        sync_names(self._disk, self.folder)

    def pending(self) -> Pending | None:
        if not exists(self._disk, self._pending):
            return None
        stored = json.loads(read_file(self._disk, self._pending))
        return Pending(stored["application"], _files(stored["files"]), tuple(stored["merge_by"]))

    def deleted(self) -> dict[bytes, tuple[int, int]]:
        """Keys that were removed while a message of theirs waited in quarantine, and where that was said."""
        if not exists(self._disk, self._deleted):
            return {}
        stored = json.loads(read_file(self._disk, self._deleted))
        return {b64decode(key): (partition, offset) for key, (partition, offset) in stored.items()}

    def set_deleted(self, keys: dict[bytes, tuple[int, int]]) -> None:
        make_folders(self._disk, self.home)
        partial = self._deleted.with_suffix(".new")
        stored = {b64encode(key).decode(): spot for key, spot in keys.items()}
        write_file(self._disk, partial, json.dumps(stored).encode(), sync=True)
        self._disk.replace(partial, self._deleted)

    def promised(self) -> Iterator[str]:
        """Data files that are in no table yet, but will be."""
        for decision in self.decisions():
            yield from (file.path for file in (*decision.valid, *decision.quarantined))
        pending = self.pending()
        yield from (file.path for file in pending.files) if pending is not None else ()

    def record(self, event: dict[str, Any]) -> None:
        """Append to the event log; one line, one write."""
        append_line(self._disk, self.events, json.dumps(event).encode())

    def remember(self, settings: dict[str, Any]) -> None:
        """What the pipeline was told, for those who look after its tables later."""
        self.home.mkdir(parents=True, exist_ok=True)
        elsewhere = {} if self.folder == self.home else {"state": str(self.folder)}
        partial = self.home / f"{SETTINGS}.new"
        partial.write_text(json.dumps({**settings, **elsewhere}, indent=2))
        partial.replace(self.home / SETTINGS)

    @staticmethod
    def remembered(home: Path) -> tuple[State, dict[str, Any]]:
        """The application that has its home here, and what it was told."""
        settings: dict[str, Any] = json.loads((home / SETTINGS).read_text())
        return State(Path(settings.pop("state", home)), home), settings

    def last_begun(self) -> int:
        """The last batch that Spark began with this checkpoint, -1 if there is none."""
        offsets = self.checkpoint / "offsets"
        names = [file.name for file in offsets.iterdir()] if offsets.exists() else []
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def last_decided(self) -> int:
        return max((decision.batch for decision in self.decisions()), default=-1)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only driver of this application on this machine's file system."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "driver.lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                lock.seek(0)
                raise Conflict(
                    "Another driver runs this pipeline.",
                    code="pipeline.running",
                    next="Stop it first, or give this one a name of its own with --name.",
                    process=lock.read().strip() or None,
                    pipeline=self.home.name,
                ) from error
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield


def _decision(stored: dict[str, Any]) -> Decision:
    return Decision(stored["batch"], stored["read"], _files(stored["valid"]), _files(stored["quarantined"]))


def _files(stored: list[dict[str, Any]]) -> tuple[DataFile, ...]:
    return tuple(
        DataFile(file["path"], file["rows"], file["size"], tuple((n, v) for n, v in file["partition"]))
        for file in stored
    )
