"""The topology manager: brings publishers, subscribers, admins and discoveries together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from dragoman.client.connecting import open_registry
from dragoman.core.clock import Clock, SystemClock
from dragoman.core.defaults import default_broker
from dragoman.core.errors import ConfigurationError, DragomanError, TopologyConflict
from dragoman.core.loading import redacted
from dragoman.core.registry import Registry
from dragoman.topology.admin import Admin
from dragoman.topology.configuration import Configuration
from dragoman.topology.discovery import Discovery, Merged
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.files import Place
from dragoman.topology.interceptor import Interceptor
from dragoman.topology.metrics import Metrics
from dragoman.topology.opening import POSSIBLE_ADMINS, open_admin, open_discovery
from dragoman.topology.outlet import Surroundings
from dragoman.topology.presence import Offer, Presence, Request
from dragoman.topology.publisher import Publisher
from dragoman.topology.ranking import Candidate
from dragoman.topology.reception import Reception
from dragoman.topology.serializer import Codecs, Serializer, standard
from dragoman.topology.signing import Signer
from dragoman.topology.slot import Slot
from dragoman.topology.subscriber import Receive, Subscriber, receive_of, types_of
from dragoman.topology.timers import Timers
from dragoman.topology.topic import Role, Topic, topic_of
from dragoman.topology.wiring import Wiring

log = logging.getLogger("dragoman.topology")

REMOVAL_DELAY = 10.0


T = TypeVar("T")


class Topology:
    """One for each program; another one in the same process is as another program.

    ``admins`` and ``discoveries`` are URLs or objects; the order of admins decides between equal scores.
    Without admins there is one, the broker that clients have by default.
    ``configuration`` are folders of property files, or packages that have them; beside the program, if not
    given. ``signer`` makes this program's identity one that others can check.
    """

    def __init__(
        self,
        admins: Iterable[str | Admin] | None = None,
        discoveries: Iterable[str | Discovery] = (),
        registry: str | Registry | None = None,
        *,
        configuration: Sequence[Place] | None = None,
        serializers: Iterable[Serializer] | None = None,
        interceptors: Iterable[Interceptor] = (),
        signer: Signer | None = None,
        removal_delay: float = REMOVAL_DELAY,
        clock: Clock | None = None,
    ) -> None:
        self.framework = str(uuid.uuid4()) if signer is None else signer.framework
        self.metrics = Metrics()
        self.removal_delay = removal_delay
        self._signer = signer
        self._registry, self._owns_registry = open_registry(registry)
        self._clock = clock or SystemClock()
        url = registry if isinstance(registry, str) else ""
        codecs = Codecs(self._registry, standard() if serializers is None else serializers, url)
        self._shared = Surroundings(codecs, list(interceptors), self._clock)
        self._given_admins = [default_broker()] if admins is None else _several("admins", admins)
        self._given_discoveries = _several("discoveries", discoveries)
        self.configuration = Configuration(configuration, self._owners)
        self._wiring = Wiring(
            self.framework, self._shared, self.metrics, Timers(self._clock), self.configuration
        )
        self._closed = False

    async def __aenter__(self) -> Self:
        try:
            for discovery in self._given_discoveries:
                await self.add_discovery(discovery)
            for admin in self._given_admins:
                await self.add_admin(admin)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def request(
        self,
        topic: str,
        *,
        scope: str | None = None,
        properties: Mapping[str, str] | None = None,
        package: str | None = None,
    ) -> Request:
        """Ask for a publisher. It may come now, later, or never: the request tells.

        Raises ``ConfigurationError``, and ``TopologyConflict`` if the topic is in use with other properties.
        """
        slot = self._slot(topic_of(topic, scope), Role.PUBLISHER, properties or {}, package)
        request = Request(slot.topic, self._release, lambda: self._wiring.meetings.peers(slot))
        self._join(slot, request)
        return request

    async def publisher(
        self,
        topic: str,
        *,
        scope: str | None = None,
        properties: Mapping[str, str] | None = None,
        timeout: float | None = 30.0,
    ) -> Publisher:
        """A publisher for as long as the topology lives, once there is a transport for it."""
        request = self.request(topic, scope=scope, properties=properties)
        try:
            return await request.wait(timeout)
        except BaseException:
            request.close()
            raise

    def offer(
        self,
        topic: str,
        subscriber: Subscriber | Receive,
        *,
        scope: str | None = None,
        types: Sequence[type] | None = None,
        properties: Mapping[str, str] | None = None,
        package: str | None = None,
    ) -> Offer:
        """Offer a subscriber. Messages come from the moment ``wait`` returns.

        ``types`` are the record classes that it takes; else those that its first parameter is annotated with;
        without either, messages come as plain values. Raises what ``request`` raises.
        """
        receive = receive_of(subscriber)
        allowed = types_of(receive, types)
        for name in self._shared.codecs.names:
            self._shared.codecs.names_of(name, allowed)
        slot = self._slot(topic_of(topic, scope), Role.SUBSCRIBER, properties or {}, package)
        offer = Offer(
            slot.topic,
            self._release,
            lambda: 0 if slot.handler is None else len(slot.handler.linked),
            receive,
            allowed,
            self.metrics.of(slot.topic),
        )
        if slot.reception is not None:
            slot.reception.add(offer)
        self._join(slot, offer)
        return offer

    async def add_admin(self, admin: str | Admin) -> Admin:
        """Also while running: topics that fit it better move over, without a break."""
        made = admin if not isinstance(admin, str) else self._opened(admin)
        if made.type in self._admin_types():
            raise ConfigurationError(
                f"There is an admin {made.type!r} already.",
                code="topology.admin",
                next="Remove it first; one admin of a type is enough.",
            )
        self._wiring.admins.append(made)
        try:
            await made.start(self._wiring.reconcile_all)
        except BaseException:
            self._wiring.admins.remove(made)
            await made.close()
            raise
        self._wiring.reconcile_all()
        return made

    def _opened(self, url: str) -> Admin:
        names = frozenset(self._shared.codecs.names)
        return open_admin(url, names, signed=self._signer is not None)

    async def remove_admin(self, type: str) -> None:
        """Its topics move to other admins first, where one takes them."""
        admin = next((each for each in self._wiring.admins if each.type == type), None)
        if admin is None:
            raise ConfigurationError(
                f"There is no admin {type!r}.",
                code="topology.admin",
                next=f"There are: {', '.join(sorted(self._admin_types())) or 'none'}.",
            )
        self._wiring.admins.remove(admin)
        await asyncio.gather(*(self._wiring.reconcile(slot) for slot in list(self._wiring.slots.values())))
        await admin.close()

    async def add_discovery(self, discovery: str | Discovery) -> Discovery:
        made = open_discovery(discovery, self._signer) if isinstance(discovery, str) else discovery
        self._wiring.discoveries.append(made)
        try:
            await made.start(self.framework, self.endpoints.watcher(made))
        except BaseException:
            await self.remove_discovery(made)
            raise
        for slot in self._wiring.slots.values():
            if slot.handler is not None:
                made.announce(slot.handler.endpoint)
        return made

    async def remove_discovery(self, discovery: Discovery) -> None:
        if discovery not in self._wiring.discoveries:
            raise ConfigurationError(
                "This discovery is not in use here.",
                code="topology.discovery",
                next="Pass what add_discovery returned, or one of topology.discoveries.",
            )
        self._wiring.discoveries.remove(discovery)
        await discovery.close()
        self.endpoints.forget(discovery)

    def set_defaults(self, admin: str, values: Mapping[str, str]) -> None:
        """Change an admin's defaults now. Topics whose settings change by it get a new transport first."""
        self.configuration.set_defaults(admin, values)
        self._wiring.reconcile_all()

    @property
    def admins(self) -> Sequence[Admin]:
        return tuple(self._wiring.admins)

    @property
    def discoveries(self) -> Sequence[Discovery]:
        return tuple(self._wiring.discoveries)

    @property
    def slots(self) -> Sequence[Slot]:
        return tuple(self._wiring.slots.values())

    def own_endpoints(self) -> list[Endpoint]:
        """What this program announces."""
        return [slot.handler.endpoint for slot in self._wiring.slots.values() if slot.handler is not None]

    @property
    def endpoints(self) -> Merged:
        """Those of other programs, as all discoveries together know them."""
        return self._wiring.endpoints

    def rank(self, slot: Slot) -> list[Candidate]:
        """All admins for a topic, the best first."""
        return self._wiring.rank(slot)

    def explained_slot(
        self, topic: Topic, role: Role, given: Mapping[str, str], package: str | None = None
    ) -> Slot:
        """The slot in use, or one as it would be."""
        found = self._wiring.slots.get((topic, role))
        if found is not None and not given:
            return found
        return Slot(topic, role, given, package, self.configuration.said(topic, role, given, package))

    async def close(self) -> None:
        """Withdraw and close everything this program has."""
        if self._closed:
            return
        self._closed = True
        await self._wiring.close()
        for discovery in self._wiring.discoveries:
            await discovery.close()
        for admin in self._wiring.admins:
            with contextlib.suppress(DragomanError):
                await admin.close()
        if self._owns_registry:
            await self._registry.close()

    def _slot(self, topic: Topic, role: Role, given: Mapping[str, str], package: str | None) -> Slot:
        """The topic's slot, made if need be; refused if it is in use with other properties."""
        if self._closed:
            raise ConfigurationError(
                "The topology is closed.", code="topology.closed", next="Make a new one.", topic=topic.key
            )
        said = self.configuration.said(topic, role, given, package)
        slot = self._wiring.slots.get((topic, role))
        if slot is None or (not slot.users and slot.said != said):
            fresh = Slot(topic, role, dict(given), package, said)
            if slot is not None:
                slot.given, slot.package, slot.said = fresh.given, package, said
                return slot
            if role is Role.SUBSCRIBER:
                fresh.reception = Reception(topic, self._shared, self.metrics.of(topic))
            self._wiring.slots[topic, role] = fresh
            return fresh
        for name, setting in said.items():
            current = slot.said.get(name)
            if current is None or current.value != setting.value:
                raise TopologyConflict(
                    f"{topic} is in use with another configuration: {name} is "
                    f"{'not set' if current is None else repr(current.value)}, not {setting.value!r}.",
                    next="A topic has one configuration in a program: make both alike.",
                    topic=topic.key,
                    role=role.value,
                )
        return slot

    def _join(self, slot: Slot, user: Presence) -> None:
        slot.join(user)
        self._wiring.spawn(self._wiring.reconcile(slot))

    def _release(self, user: Presence) -> None:
        """The last user is gone: what served it goes too, after a while."""
        slot = self._wiring.slots.get((user.topic, user.role))
        if slot is None or user not in slot.users:
            return
        slot.users.remove(user)
        if isinstance(user, Request):
            user.use(None, "Its request is closed.")
        if slot.reception is not None and isinstance(user, Offer):
            slot.reception.remove(user)
        if not slot.users and not self._wiring.closing:
            self._wiring.remove_later(slot, self.removal_delay)

    def _admin_types(self) -> frozenset[str]:
        return frozenset(each.type for each in self._wiring.admins)

    def _owners(self) -> frozenset[str]:
        """Whose own properties may be given: admins may still come."""
        return self._admin_types() | POSSIBLE_ADMINS


def _several(name: str, given: Iterable[T]) -> list[T]:
    if isinstance(given, str):
        raise ConfigurationError(
            f"{name} is a single text.",
            code="topology.arguments",
            next=f"Give a list: {name}=[{redacted(given)!r}]",
        )
    return list(given)
