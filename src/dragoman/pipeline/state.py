"""What a pipeline remembers beside its tables: who runs it, and what each batch decided.

A batch's files are written down once, before the first table is committed. When the batch is tried again the
first decision stands, so a message never ends up in table and quarantine both, or in neither, because a
schema was registered between two tries.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman.core.errors import Conflict
from dragoman.pipeline.tables import DataFile


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


class State:
    """The folder of one application: decisions, events, checkpoint, lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.events = folder / "events.jsonl"
        self._decisions = folder / "batches"

    def decide(self, decision: Decision) -> Decision:
        """Write the decision down, unless there is one already: that one is given."""
        self._decisions.mkdir(parents=True, exist_ok=True)
        target = self._decisions / f"{decision.batch:09}.json"
        partial = target.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(decision)))
        with partial.open() as written:
            os.fsync(written.fileno())
        try:
            os.link(partial, target)
        except FileExistsError:
            return _decision(json.loads(target.read_text()))
        finally:
            partial.unlink()
        return decision

    def decisions(self) -> Iterator[Decision]:
        for file in sorted(self._decisions.glob("*.json")):
            yield _decision(json.loads(file.read_text()))

    def forget_before(self, batch: int) -> None:
        """Spark tries no batch again that lies before the one it has begun."""
        for file in self._decisions.glob("*.json"):
            if int(file.stem) < batch:
                file.unlink(missing_ok=True)

    def record(self, event: dict[str, Any]) -> None:
        """Append to the event log; one line, one write."""
        with self.events.open("a") as log:
            log.write(json.dumps(event) + "\n")

    def remember(self, settings: dict[str, Any]) -> None:
        """What the pipeline was told, for those who look after its tables later."""
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / "flow.json.new"
        partial.write_text(json.dumps(settings, indent=2))
        partial.replace(self.folder / "flow.json")

    def remembered(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "flow.json").read_text())
        return found

    def started(self) -> bool:
        """Whether Spark has begun a batch with this checkpoint."""
        offsets = self.checkpoint / "offsets"
        return offsets.exists() and any(offsets.iterdir())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only driver of this application on this machine's file system."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "driver.lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                lock.seek(0)
                raise Conflict(
                    "Another driver runs this pipeline.",
                    code="pipeline.running",
                    next="Stop it first, or give this one a name of its own with --name.",
                    process=lock.read().strip() or None,
                    pipeline=self.folder.name,
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
