"""The topology manager: brings publishers, subscribers, admins and discoveries together."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import uuid
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from dragoman.client.connecting import open_registry
from dragoman.core.clock import Clock, SystemClock
from dragoman.core.errors import ConfigurationError, DragomanError, TopologyConflict
from dragoman.core.registry import Registry
from dragoman.topology.admin import Admin, Wanted
from dragoman.topology.configuration import Configuration
from dragoman.topology.discovery import Discovery, Merged
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.files import Place
from dragoman.topology.interceptor import Interceptor
from dragoman.topology.metrics import Metrics
from dragoman.topology.opening import POSSIBLE_ADMINS, open_admin, open_discovery
from dragoman.topology.outlet import Outlet, Surroundings
from dragoman.topology.presence import Change, Offer, Presence, Request
from dragoman.topology.publisher import Publisher
from dragoman.topology.ranking import Candidate, rank
from dragoman.topology.reception import Reception
from dragoman.topology.serializer import Codecs, Serializer, standard
from dragoman.topology.settings import SERIALIZER, limits_of
from dragoman.topology.signing import Signer
from dragoman.topology.slot import Handler, Slot
from dragoman.topology.subscriber import Receive, Subscriber, receive_of, types_of
from dragoman.topology.timers import Timers
from dragoman.topology.topic import Role, Topic, topic_of

log = logging.getLogger("dragoman.topology")

REMOVAL_DELAY = 10.0
FIRST_RETRY = 0.5
LONGEST_RETRY = 15.0


class Topology:
    """One for each program; another one in the same process is as another program.

    ``admins`` and ``discoveries`` are URLs or objects; the order of admins decides between equal scores.
    ``configuration`` are folders of property files, or packages that have them; beside the program, if not
    given. ``signer`` makes this program's identity one that others can check.
    """

    def __init__(
        self,
        admins: Iterable[str | Admin] = (),
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
        self._timers = Timers(self._clock)
        url = registry if isinstance(registry, str) else ""
        codecs = Codecs(self._registry, standard() if serializers is None else serializers, url)
        self._shared = Surroundings(codecs, list(interceptors), self._clock)
        self._given_admins = list(admins)
        self._given_discoveries = list(discoveries)
        self._admins: list[Admin] = []
        self._discoveries: list[Discovery] = []
        self.configuration = Configuration(configuration, self._owners)
        self.endpoints = Merged(self._endpoints_changed)
        self._slots: dict[tuple[Topic, Role], Slot] = {}
        self._services = itertools.count()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def __aenter__(self) -> Self:
        for discovery in self._given_discoveries:
            await self.add_discovery(discovery)
        for admin in self._given_admins:
            await self.add_admin(admin)
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
        request = Request(slot.topic, dict(properties or {}), package, self._release)
        request._count_peers = lambda: len(self._known(slot.topic, Role.SUBSCRIBER))
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
        return await self.request(topic, scope=scope, properties=properties).wait(timeout)

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
        metrics = self.metrics.of(slot.topic)
        offer = Offer(slot.topic, dict(properties or {}), package, self._release, receive, allowed, metrics)
        offer._count_peers = lambda: 0 if slot.handler is None else len(slot.handler.linked)
        if slot.reception is not None:
            slot.reception.add(offer)
        self._join(slot, offer)
        return offer

    async def add_admin(self, admin: str | Admin) -> Admin:
        """Also while running: topics that fit it better move over, without a break."""
        made = open_admin(admin, frozenset(self._shared.codecs.names)) if isinstance(admin, str) else admin
        if made.type in self._admin_types():
            raise ConfigurationError(
                f"There is an admin {made.type!r} already.",
                code="topology.admin",
                next="Remove it first; one admin of a type is enough.",
            )
        self._admins.append(made)
        await made.start(self._reconcile_all)
        self._reconcile_all()
        return made

    async def remove_admin(self, type: str) -> None:
        """Its topics move to other admins first, where one takes them."""
        admin = next((each for each in self._admins if each.type == type), None)
        if admin is None:
            raise ConfigurationError(
                f"There is no admin {type!r}.",
                code="topology.admin",
                next=f"There are: {self._admin_types()}.",
            )
        self._admins.remove(admin)
        await asyncio.gather(*(self._reconcile(slot) for slot in list(self._slots.values())))
        await admin.close()

    async def add_discovery(self, discovery: str | Discovery) -> Discovery:
        made = open_discovery(discovery, self._signer) if isinstance(discovery, str) else discovery
        self._discoveries.append(made)
        await made.start(self.framework, self.endpoints.watcher(made))
        for slot in self._slots.values():
            if slot.handler is not None:
                made.announce(slot.handler.endpoint)
        return made

    async def remove_discovery(self, discovery: Discovery) -> None:
        self._discoveries.remove(discovery)
        await discovery.close()
        self.endpoints.forget(discovery)

    def set_defaults(self, admin: str, values: Mapping[str, str]) -> None:
        """Change an admin's defaults now. Topics whose settings change by it get a new transport first."""
        self.configuration.set_defaults(admin, values)
        self._reconcile_all()

    @property
    def admins(self) -> Sequence[Admin]:
        return tuple(self._admins)

    @property
    def discoveries(self) -> Sequence[Discovery]:
        return tuple(self._discoveries)

    @property
    def slots(self) -> Sequence[Slot]:
        return tuple(self._slots.values())

    def own_endpoints(self) -> list[Endpoint]:
        """What this program announces."""
        return [slot.handler.endpoint for slot in self._slots.values() if slot.handler is not None]

    def rank(self, slot: Slot) -> list[Candidate]:
        return rank(self._admins, self.configuration, slot)

    def explained_slot(
        self, topic: Topic, role: Role, given: Mapping[str, str], package: str | None = None
    ) -> Slot:
        """The slot in use, or one as it would be."""
        found = self._slots.get((topic, role))
        if found is not None and not given:
            return found
        return Slot(topic, role, given, package, self.configuration.said(topic, role, given, package))

    async def close(self) -> None:
        """Withdraw and close everything this program has."""
        self._closing = True
        for slot in list(self._slots.values()):
            slot.cancel_timers()
        await asyncio.gather(*(self._take_down(slot) for slot in list(self._slots.values())))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for discovery in self._discoveries:
            await discovery.close()
        for admin in self._admins:
            with contextlib.suppress(DragomanError):
                await admin.close()
        if self._owns_registry:
            await self._registry.close()

    def _slot(self, topic: Topic, role: Role, given: Mapping[str, str], package: str | None) -> Slot:
        """The topic's slot, made if need be; refused if it is in use with other properties."""
        said = self.configuration.said(topic, role, given, package)
        slot = self._slots.get((topic, role))
        if slot is None or (not slot.users and slot.said != said):
            fresh = Slot(topic, role, dict(given), package, said)
            if slot is not None:
                slot.given, slot.package, slot.said = fresh.given, package, said
                return slot
            if role is Role.SUBSCRIBER:
                fresh.reception = Reception(topic, self._shared, self.metrics.of(topic))
            self._slots[topic, role] = fresh
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
        self._spawn(self._reconcile(slot))

    def _release(self, user: Presence) -> None:
        """The last user is gone: what served it goes too, after a while."""
        slot = self._slots.get((user.topic, user.role))
        if slot is None or user not in slot.users:
            return
        slot.users.remove(user)
        if slot.reception is not None and isinstance(user, Offer):
            slot.reception.remove(user)
        if not slot.users and not self._closing:
            slot.removal = self._timers.after(self.removal_delay, lambda: self._spawn(self._remove(slot)))

    async def _remove(self, slot: Slot) -> None:
        async with slot.lock:
            if slot.users:
                return
            slot.cancel_timers()
            if self._slots.get((slot.topic, slot.role)) is slot:
                del self._slots[slot.topic, slot.role]
            await self._end(slot)

    def _reconcile_all(self) -> None:
        for slot in self._slots.values():
            self._spawn(self._reconcile(slot))

    async def _reconcile(self, slot: Slot) -> None:
        """Bring the slot to what its best admin can do. Doing it again changes nothing."""
        async with slot.lock:
            if self._closing or not slot.users:
                return
            if slot.retry is not None:
                slot.retry.cancel()
                slot.retry = None
            candidates = self.rank(slot)
            failed = False
            for candidate in candidates:
                if candidate.score.points <= 0:
                    break
                if slot.handler is not None and slot.handler.serves(candidate.admin, candidate.settings):
                    await self._resume(slot)
                    break
                try:
                    handler = await self._open(slot, candidate)
                except DragomanError as error:
                    failed = True
                    slot.why = f"{candidate.admin.type}: {error}"
                    log.warning(
                        "A transport could not be opened.", extra={"topic": slot.topic.key, **error.where}
                    )
                    continue
                await self._swap(slot, handler)
                break
            if not any(each.score.points > 0 for each in candidates) or (failed and slot.handler is None):
                await self._unserved(slot, candidates, failed)
            if failed:
                self._try_again(slot)
            else:
                slot.failures = 0

    def _try_again(self, slot: Slot) -> None:
        slot.failures += 1
        rest = min(LONGEST_RETRY, FIRST_RETRY * 2 ** min(slot.failures, 8))
        slot.retry = self._timers.after(rest, lambda: self._spawn(self._reconcile(slot)))

    async def _unserved(self, slot: Slot, candidates: Sequence[Candidate], failed: bool) -> None:
        """No admin takes the topic. One that is only in trouble keeps it until it is back."""
        if not failed:
            reasons = [f"{each.admin.type}: {each.score.reasons[0].why}" for each in candidates]
            slot.why = "; ".join(reasons) or "There is no admin."
        for user in slot.users:
            user._why = slot.why
        handler = slot.handler
        if handler is None:
            return
        if handler.admin in self._admins and handler.admin.trouble is not None:
            if not slot.suspended:
                slot.suspended = True
                slot.tell(Change.GONE)
            return
        slot.tell(Change.GONE)
        await self._end(slot)

    async def _resume(self, slot: Slot) -> None:
        if not await self._link(slot):
            self._try_again(slot)
        if slot.suspended:
            slot.suspended = False
            slot.tell(Change.APPEARED)

    async def _open(self, slot: Slot, candidate: Candidate) -> Handler:
        """Make it, connect it to the publishers that are known, and only then announce it."""
        admin, settings = candidate.admin, candidate.settings
        service = next(self._services)
        wanted = Wanted(slot.topic, slot.role, settings, f"{self.framework}-{service}", self.framework)
        if slot.reception is None:
            sender = await admin.sender(wanted)
            serializer = settings[SERIALIZER].value
            endpoint = Endpoint(
                self.framework, service, slot.role, slot.topic, admin.type, serializer, sender.properties
            )
            metrics = self.metrics.of(slot.topic)
            outlet = Outlet(
                slot.topic, endpoint.id, sender, serializer, limits_of(settings), self._shared, metrics
            )
            return Handler(admin, settings, endpoint, outlet=outlet)
        receiver = await admin.receiver(wanted, slot.reception)
        endpoint = Endpoint(
            self.framework, service, slot.role, slot.topic, admin.type, None, receiver.properties
        )
        return Handler(admin, settings, endpoint, receiver=receiver)

    async def _swap(self, slot: Slot, handler: Handler) -> None:
        """Make before break: the new one works before the old one goes."""
        old, slot.handler = slot.handler, handler
        slot.suspended = False
        await self._link(slot)
        await self._link_own_receiver(slot)
        for discovery in self._discoveries:
            discovery.announce(handler.endpoint)
        slot.tell(Change.APPEARED if old is None else Change.REPLACED)
        if old is not None:
            await self._retire(old)
        self._endpoints_changed(slot.topic, slot.role)

    async def _take_down(self, slot: Slot) -> None:
        async with slot.lock:
            slot.why = "The topology is closed."
            if slot.ready:
                slot.tell(Change.GONE)
            await self._end(slot)
            for user in list(slot.users):
                user.close()

    async def _end(self, slot: Slot) -> None:
        handler, slot.handler = slot.handler, None
        slot.suspended = False
        if handler is not None:
            await self._retire(handler)
            self._endpoints_changed(slot.topic, slot.role)

    async def _retire(self, handler: Handler) -> None:
        """Others hear that it goes before it closes."""
        await asyncio.gather(*(each.withdraw(handler.endpoint) for each in self._discoveries))
        try:
            await handler.close()
        except DragomanError as error:
            log.warning(
                "A transport did not close well.", extra={"topic": handler.endpoint.topic.key, **error.where}
            )

    def _endpoints_changed(self, topic: Topic, role: Role) -> None:
        slot = self._slots.get((topic, role.other))
        if slot is None or self._closing:
            return
        if role is Role.PUBLISHER:
            self._spawn(self._relink(slot))
        slot.tell_peers()

    async def _relink(self, slot: Slot) -> None:
        async with slot.lock:
            if not await self._link(slot):
                self._try_again(slot)

    async def _link_own_receiver(self, slot: Slot) -> None:
        """Subscribers of this program hear a new sender from its first message on."""
        receiving = self._slots.get((slot.topic, Role.SUBSCRIBER))
        if slot.role is Role.PUBLISHER and receiving is not None:
            await self._relink(receiving)

    async def _link(self, slot: Slot) -> bool:
        """Connect a receiver to just those publishers that are there and speak by its admin."""
        handler = slot.handler
        if handler is None or handler.receiver is None:
            return True
        known = self._known(slot.topic, Role.PUBLISHER)
        wanted = {id: each for id, each in known.items() if each.admin == handler.admin.type}
        for id, endpoint in list(handler.linked.items()):
            if wanted.get(id) != endpoint:
                del handler.linked[id]
                await self._attempt(handler.receiver.disconnect(endpoint), endpoint)
        for id, endpoint in wanted.items():
            if id not in handler.linked and await self._attempt(handler.receiver.connect(endpoint), endpoint):
                handler.linked[id] = endpoint
        slot.tell_peers()
        return len(handler.linked) == len(wanted)

    async def _attempt(self, work: Coroutine[Any, Any, None], endpoint: Endpoint) -> bool:
        try:
            await work
        except DragomanError as error:
            log.warning(
                "A publisher could not be connected.",
                extra={"topic": endpoint.topic.key, "endpoint": endpoint.id, "error_code": error.code},
            )
            return False
        return True

    def _known(self, topic: Topic, role: Role) -> dict[str, Endpoint]:
        """Endpoints of other programs and our own."""
        slot = self._slots.get((topic, role))
        own = slot.handler.endpoint if slot is not None and slot.handler is not None else None
        return {**self.endpoints.of(topic, role), **({own.id: own} if own is not None else {})}

    def _admin_types(self) -> frozenset[str]:
        return frozenset(each.type for each in self._admins)

    def _owners(self) -> frozenset[str]:
        """Whose own properties may be given: admins may still come."""
        return self._admin_types() | POSSIBLE_ADMINS

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closing:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("The topology could not do something.", exc_info=error)
