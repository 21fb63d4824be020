"""The discovery port, and the view of all discoveries together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from dragoman.topology.endpoint import Endpoint
from dragoman.topology.topic import Role, Topic


class Watcher(Protocol):
    """Who is told. Called in the event loop; must not block."""

    def found(self, endpoint: Endpoint) -> None:
        """Also when one that is known has changed."""

    def lost(self, endpoint: Endpoint) -> None: ...


class Discovery(Protocol):
    """One way to know of the endpoints of other programs."""

    url: str
    """Without secrets."""

    async def start(self, framework: str, watcher: Watcher) -> None:
        """Called once. It raises nothing when its server is away: it goes on trying.

        Entries of ``framework`` are our own and not told.
        """

    async def synced(self) -> None:
        """Until all that others have announced so far is known."""

    def announce(self, endpoint: Endpoint) -> None:
        """From now on others shall know of it; done as soon as it can be."""

    async def withdraw(self, endpoint: Endpoint) -> None:
        """Returns once others can know that it is gone, or after a short while if nobody can be told."""

    def endpoints(self) -> Sequence[Endpoint]:
        """What it knows of others at present."""

    @property
    def trouble(self) -> str | None: ...

    async def close(self) -> None:
        """Takes back all that it announced. Says nothing more to its watcher."""


@runtime_checkable
class Stamped(Protocol):
    """A discovery that knows the stamps of other programs, because it has checked their signatures."""

    def latest_stamp(self, framework: str) -> int:
        """The newest ``stamp_ms`` that the program has signed, or 0."""


class Merged:
    """All endpoints, each once, though several discoveries may know it."""

    def __init__(self, changed: Callable[[Topic, Role], None]) -> None:
        self._changed = changed
        self._by_topic: dict[tuple[Topic, Role], dict[str, Endpoint]] = {}
        self._known_by: dict[tuple[Topic, Role, str], set[object]] = {}

    def watcher(self, source: object) -> Source:
        return Source(self, source)

    def add(self, source: object, endpoint: Endpoint) -> None:
        self._known_by.setdefault(_place(endpoint), set()).add(source)
        place = self._by_topic.setdefault((endpoint.topic, endpoint.role), {})
        if place.get(endpoint.id) != endpoint:
            place[endpoint.id] = endpoint
            self._changed(endpoint.topic, endpoint.role)

    def remove(self, source: object, endpoint: Endpoint) -> None:
        """Gone once no discovery knows it."""
        known = self._known_by.get(_place(endpoint))
        if known is None:
            return
        known.discard(source)
        if known:
            return
        del self._known_by[_place(endpoint)]
        place = self._by_topic.get((endpoint.topic, endpoint.role), {})
        if place.pop(endpoint.id, None) is not None:
            if not place:
                del self._by_topic[endpoint.topic, endpoint.role]
            self._changed(endpoint.topic, endpoint.role)

    def forget(self, source: object) -> None:
        """A discovery is taken away, and what only it knew goes with it."""
        for endpoint in list(self):
            if source in self._known_by.get(_place(endpoint), ()):
                self.remove(source, endpoint)

    def of(self, topic: Topic, role: Role) -> dict[str, Endpoint]:
        return self._by_topic.get((topic, role), {})

    def __iter__(self) -> Iterator[Endpoint]:
        for place in self._by_topic.values():
            yield from place.values()

    def __len__(self) -> int:
        return len(self._known_by)


def _place(endpoint: Endpoint) -> tuple[Topic, Role, str]:
    """Entries that people write may have one id for several topics."""
    return endpoint.topic, endpoint.role, endpoint.id


class Source:
    """What one discovery tells."""

    def __init__(self, merged: Merged, source: object) -> None:
        self._merged = merged
        self._source = source

    def found(self, endpoint: Endpoint) -> None:
        self._merged.add(self._source, endpoint)

    def lost(self, endpoint: Endpoint) -> None:
        self._merged.remove(self._source, endpoint)
