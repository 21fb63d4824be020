"""Several objects in one message: how a publisher collects them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any
from weakref import WeakKeyDictionary

from dragoman.core.errors import MultipartError


class Flag(IntFlag):
    """Where an object stands in its group. They combine: ``FIRST | LAST`` is a group of one."""

    FIRST = 1
    PART = 2
    LAST = 4


_ALL = int(Flag.FIRST | Flag.PART | Flag.LAST)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one group."""

    timeout: float = 30.0
    """Seconds from the first object to the last."""
    objects: int = 64
    bytes: int = 1024 * 1024


@dataclass(slots=True)
class Group:
    """Objects that wait for the last one. They are encoded when given, so later changes do not show."""

    opened: float
    objects: list[Any] = field(default_factory=list)
    frames: dict[type, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(map(len, self.frames.values()))


class Groups:
    """The open groups of one publisher: one for each task, so that tasks do not mix their objects."""

    def __init__(self, topic: str, limits: Limits, now: Callable[[], float]) -> None:
        self._topic = topic
        self.limits = limits
        self._now = now
        self._open: WeakKeyDictionary[asyncio.Task[Any], Group] = WeakKeyDictionary()

    def check(self, flags: int, cls: type) -> None:
        """Whether an object of this class may come now. What it refuses changes nothing.

        A group that took too long is given up here.
        """
        if not isinstance(flags, int) or not 0 < flags <= _ALL:
            raise self._error(
                f"{flags!r} is no combination of FIRST, PART and LAST.", "flags", "Use the values of Flag."
            )
        group = self._current
        if group is not None and self._now() - group.opened > self.limits.timeout:
            self.abort()
            raise self._error(
                f"The group was not complete after {self.limits.timeout:g} seconds and is given up.",
                "timeout",
                "Begin again with FIRST.",
            )
        if flags & Flag.FIRST:
            if group is not None:
                raise self._error(
                    "Two first objects in one group.", "two-first", "Send LAST before it, or call abort()."
                )
        elif group is None:
            raise self._error("The group has no first object.", "no-first", "Begin it with FIRST.")
        elif cls in group.frames:
            raise self._error(
                f"The group has an object of {cls.__qualname__} already.",
                "same-class",
                "Put several objects of one class into one record that holds a list.",
            )

    def add(self, flags: int, value: Any, frame: bytes) -> Group | None:
        """The group once it is complete. ``check`` comes first."""
        group = self._current or Group(self._now())
        limits = self.limits
        if len(group.frames) >= limits.objects or group.size + len(frame) > limits.bytes:
            raise self._error(
                "The group would be too large.",
                "too-large",
                f"Up to {limits.objects} objects and {limits.bytes} bytes: send less, or raise the limits.",
            )
        group.objects.append(value)
        group.frames[type(value)] = frame
        if flags & Flag.LAST:
            self.abort()
            return group
        self._open[_task()] = group
        return None

    def abort(self) -> bool:
        """Forget the objects of this task's group; whether there was one."""
        return self._open.pop(_task(), None) is not None

    @property
    def _current(self) -> Group | None:
        return self._open.get(_task())

    def _error(self, what: str, code: str, next: str) -> MultipartError:
        return MultipartError(what, code=f"topology.multipart.{code}", next=next, topic=self._topic)


def _task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise MultipartError("Groups belong to tasks.", next="Send from a coroutine.")
    return task
