"""Bringing slots to what they should be: served by the best admin, linked, announced, replaced, ended."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Coroutine
from typing import Any

from dragoman.core.backoff import Backoff
from dragoman.core.ending import end
from dragoman.core.errors import DragomanError
from dragoman.topology.admin import Admin, Wanted
from dragoman.topology.configuration import Configuration
from dragoman.topology.discovery import Discovery, Merged, Stamped
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.meeting import Meetings
from dragoman.topology.metrics import Metrics
from dragoman.topology.outlet import Outlet, Surroundings
from dragoman.topology.presence import Change
from dragoman.topology.ranking import Candidate, rank
from dragoman.topology.settings import SERIALIZER, limits_of
from dragoman.topology.slot import Handler, Slot
from dragoman.topology.stamp import stamp_ms
from dragoman.topology.timers import Timers
from dragoman.topology.topic import Role, Topic

log = logging.getLogger("dragoman.topology")

RETRY = Backoff(1.0, 15.0)


class Wiring:
    """Each slot is worked on by one task at a time; different slots do not wait for each other."""

    def __init__(
        self,
        framework: str,
        shared: Surroundings,
        metrics: Metrics,
        timers: Timers,
        configuration: Configuration,
    ) -> None:
        self.admins: list[Admin] = []
        self.discoveries: list[Discovery] = []
        self.slots: dict[tuple[Topic, Role], Slot] = {}
        self.endpoints = Merged(self.endpoints_changed)
        self.closing = False
        self._framework = framework
        self._shared = shared
        self._metrics = metrics
        self._timers = timers
        self._configuration = configuration
        self.meetings = Meetings(timers, self.known)
        self._services = itertools.count()
        self._tasks: set[asyncio.Task[Any]] = set()

    def rank(self, slot: Slot) -> list[Candidate]:
        return rank(self.admins, self._configuration, slot)

    def known(self, topic: Topic, role: Role) -> dict[str, Endpoint]:
        """Endpoints of other programs and our own."""
        slot = self.slots.get((topic, role))
        own = slot.handler.endpoint if slot is not None and slot.handler is not None else None
        return {**self.endpoints.of(topic, role), **({own.id: own} if own is not None else {})}

    def remove_later(self, slot: Slot, delay: float) -> None:
        slot.removal = self._timers.after(delay, lambda: self.spawn(self._remove(slot)))

    async def _remove(self, slot: Slot) -> None:
        async with slot.lock:
            if slot.users:
                return
            slot.cancel_timers()
            if self.slots.get((slot.topic, slot.role)) is slot:
                del self.slots[slot.topic, slot.role]
            await self._end(slot)

    def reconcile_all(self) -> None:
        for slot in self.slots.values():
            self.spawn(self.reconcile(slot))

    async def reconcile(self, slot: Slot) -> None:
        """Bring the slot to what its best admin can do. Doing it again changes nothing."""
        async with slot.lock:
            if self.closing or not slot.users:
                return
            if slot.retry is not None:
                slot.retry.cancel()
                slot.retry = None
            served, failed = await self._serve(slot)
            if not served:
                await self._unserved(slot, failed)
            if failed:
                self._try_again(slot)
            else:
                slot.failures = 0

    async def _serve(self, slot: Slot) -> tuple[bool, bool]:
        """Whether the slot is served now, and whether something failed that should be tried again."""
        failed = False
        for candidate in self.rank(slot):
            if candidate.score.points <= 0:
                break
            if slot.handler is not None and slot.handler.serves(candidate.admin, candidate.settings):
                linked = await self._resume(slot)
                return True, failed or not linked
            try:
                handler = await self._open(slot, candidate)
            except Exception as error:
                failed = True
                slot.why = f"{candidate.admin.type}: {error}"
                log.warning(
                    "A transport could not be opened: %s",
                    slot.why,
                    exc_info=None if isinstance(error, DragomanError) else error,
                    extra={"topic": slot.topic.key},
                )
            else:
                linked = await self._swap(slot, handler)
                return True, failed or not linked
        return False, failed

    def _try_again(self, slot: Slot) -> None:
        if slot.retry is not None:
            slot.retry.cancel()
        slot.failures += 1
        slot.retry = self._timers.after(RETRY.wait_s(slot.failures), lambda: self.spawn(self.reconcile(slot)))

    async def _unserved(self, slot: Slot, failed: bool) -> None:
        """No admin takes the topic. One that is only in trouble keeps it until it is back."""
        if not failed:
            reasons = [f"{each.admin.type}: {each.score.reasons[0].why}" for each in self.rank(slot)]
            slot.why = "; ".join(reasons) or "There is no admin."
        for user in slot.users:
            user.why = slot.why
        handler = slot.handler
        if handler is None:
            return
        there = handler.admin in self.admins
        if there and handler.admin.trouble is not None:
            if not slot.suspended:
                slot.suspended = True
                slot.tell(Change.GONE)
        elif not (there and failed):
            # One that works as before is kept when only its replacement could not be opened.
            slot.tell(Change.GONE)
            await self._end(slot)

    async def _resume(self, slot: Slot) -> bool:
        """Whether it is linked to all that it should be."""
        linked = await self._link(slot)
        if slot.suspended:
            slot.suspended = False
            slot.tell(Change.APPEARED)
        return linked

    async def _open(self, slot: Slot, candidate: Candidate) -> Handler:
        """Make it, connect it to the publishers that are known, and only then announce it."""
        admin, settings = candidate.admin, candidate.settings
        service = next(self._services)
        id = f"{self._framework}-{service}"
        wanted = Wanted(slot.topic, slot.role, settings, id, self._framework, self._latest_stamp)
        if slot.reception is None:
            sender = await admin.sender(wanted)
            serializer = settings[SERIALIZER].value
            endpoint = Endpoint(
                self._framework, service, slot.role, slot.topic, admin.type, serializer, sender.properties
            )
            metrics = self._metrics.of(slot.topic)
            outlet = Outlet(
                slot.topic, endpoint.id, sender, serializer, limits_of(settings), self._shared, metrics
            )
            return Handler(admin, settings, endpoint, outlet=outlet)
        receiver = await admin.receiver(wanted, slot.reception)
        endpoint = Endpoint(
            self._framework, service, slot.role, slot.topic, admin.type, None, receiver.properties
        )
        return Handler(admin, settings, endpoint, receiver=receiver)

    def _latest_stamp(self, framework: str) -> int:
        if framework == self._framework:
            return stamp_ms()
        known = (each.latest_stamp(framework) for each in self.discoveries if isinstance(each, Stamped))
        return max(known, default=0)

    async def _swap(self, slot: Slot, handler: Handler) -> bool:
        """Make before break: the new one works before the old one goes. Whether it is linked to all."""
        old, slot.handler = slot.handler, handler
        slot.suspended = False
        linked = await self._link(slot)
        await self._link_own_receiver(slot)
        for discovery in self.discoveries:
            discovery.announce(handler.endpoint)
        slot.tell(Change.APPEARED if old is None else Change.REPLACED)
        slot.tell_peers()
        self.meetings.look(slot)
        if old is not None:
            await self._retire(old)
        self.endpoints_changed(slot.topic, slot.role)
        return linked

    async def take_down(self, slot: Slot) -> None:
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
            slot.tell_peers()
            await self._retire(handler)
            self.endpoints_changed(slot.topic, slot.role)

    async def _retire(self, handler: Handler) -> None:
        """Others hear that it goes before it closes."""
        await asyncio.gather(*(each.withdraw(handler.endpoint) for each in self.discoveries))
        try:
            await handler.close()
        except DragomanError as error:
            log.warning(
                "A transport did not close well.", extra={"topic": handler.endpoint.topic.key, **error.where}
            )

    def endpoints_changed(self, topic: Topic, role: Role) -> None:
        slot = self.slots.get((topic, role.other))
        if slot is None or self.closing:
            return
        if role is Role.PUBLISHER:
            self.spawn(self._relink(slot))
        slot.tell_peers()
        self.meetings.look(slot)

    async def _relink(self, slot: Slot) -> None:
        async with slot.lock:
            if not await self._link(slot):
                self._try_again(slot)

    async def _link_own_receiver(self, slot: Slot) -> None:
        """Subscribers of this program hear a new sender from its first message on."""
        receiving = self.slots.get((slot.topic, Role.SUBSCRIBER))
        if slot.role is Role.PUBLISHER and receiving is not None and not receiving.lock.locked():
            await self._relink(receiving)

    async def _link(self, slot: Slot) -> bool:
        """Connect a receiver to just those publishers that are there and speak by its admin."""
        handler = slot.handler
        if handler is None or handler.receiver is None:
            return True
        known = self.known(slot.topic, Role.PUBLISHER)
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
                "A publisher could not be connected: %s",
                error,
                extra={"topic": endpoint.topic.key, "endpoint": endpoint.id, "error_code": error.code},
            )
            return False
        return True

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self.closing:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("The topology could not do something.", exc_info=error)

    async def close(self) -> None:
        """Withdraw and close all that serves a slot."""
        self.closing = True
        for slot in list(self.slots.values()):
            slot.cancel_timers()
        await asyncio.gather(*(self.take_down(slot) for slot in list(self.slots.values())))
        await end(*self._tasks)
