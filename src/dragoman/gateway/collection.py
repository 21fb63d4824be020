"""The collection point: responses from inside are held until those who may have them confirm them.

Collecting deletes nothing. A response is leased to the collector, which is known by its collection id. The
collector gets the same bytes however often it asks. The method ``delete`` with the same id confirms the
response. It is forgotten then, or when its time is over.

HTTP and SEP both call ``Collection.collect``. Whether a response is refused or not there, the answer is the
same: none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from dragoman.core.errors import GatewayError, InvalidEnvelope, Refused
from dragoman.gateway.audit import Audit, Ids
from dragoman.gateway.checking import check_names
from dragoman.gateway.envelope.derivation import COLLECTOR
from dragoman.gateway.envelope.method import Method
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.envelope.wire import from_json, to_json
from dragoman.gateway.options import GatewayOptions
from dragoman.gateway.rates import RateLimit
from dragoman.gateway.security.credentials import Credentials
from dragoman.gateway.security.level import Asking
from dragoman.gateway.security.seal import Seal, Stamp
from dragoman.gateway.store.port import Collect, Held, Place, Store
from dragoman.gateway.waiting import Waiting
from dragoman.registry.http.addresses import network_of

SHOWN = "originalToken"
"""The datum in which the original token may be shown, instead of in the originator."""


class Collection:
    def __init__(
        self,
        options: GatewayOptions,
        store: Store,
        credentials: Credentials,
        audit: Audit,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._store = store
        self._credentials = credentials
        self._audit = audit
        self._clock = clock
        self._stamps = Seal(options.secret, *options.older_secrets, purpose="stamp")
        self._by_peer = RateLimit(options.peer_rate, clock)
        self.waiting = Waiting(store, options.most_waiting, clock)

    async def hold(self, response: Envelope) -> bool:
        """Keep a response from inside; ``False`` if there is one already.

        Raises ``Refused`` for what answers no request that a drop-off point of ours has stamped, ``NotNow``
        when the store is away.
        """
        stamp = self._checked(response)
        now = self._clock()
        outside = msgspec.structs.replace(
            response,
            client=msgspec.structs.replace(response.client, authorization=""),
            originator=msgspec.structs.replace(response.originator, original_token=""),
        )
        held = Held(
            stamp.owner,
            stamp.client,
            stamp.request,
            stamp.entity,
            stamp.level,
            stamp.token,
            Collect(stamp.collect),
            stamp.lease,
            now + stamp.retain,
            to_json(outside).decode(),
        )
        fresh = await self._store.hold(held, now)
        self._audit.record("held" if fresh else "held before", ids=_ids(held))
        if fresh:
            self.waiting.wake(held.place)
        return fresh

    def _checked(self, response: Envelope) -> Stamp:
        originator = response.originator
        stamp = self._stamps.read(originator.original_token, Stamp)
        named = (originator.client_id, originator.request_id, originator.source_endpoint)
        if (
            response.destination.intent is not Method.RESPONSE
            or response.destination.resource != self._options.collection_point
            or named != (stamp.client, stamp.request, stamp.source)
            # What an orchestrator asked of another one on the way has an id of its own.
            or response.client.request_id != stamp.request
        ):
            self._audit.record("poisoned", ids=Ids(stamp.client, stamp.request))
            raise Refused("This is no response to the request of its originator.", code="gateway.poisoned")
        return stamp

    async def collect(self, text: bytes, *, wait: float = 0.0, peer: str = "") -> bytes | None:
        """The response as JSON, or nothing: not yet, not any more, or not for whoever asks.

        The method ``select`` collects; ``delete`` confirms that the response has arrived. ``wait`` is how
        many seconds it may take. Raises ``InvalidEnvelope`` and ``NotNow``.
        """
        try:
            self._by_peer.spend(network_of(peer))
            envelope = from_json(text, self._options.limits)
            self._check(envelope)
        except GatewayError as error:
            self._audit.record("refused", error.code, peer)
            raise
        asking = await self._asking(envelope, peer)
        if asking is None:
            ids = Ids(envelope.client.client_id, envelope.client.request_id)
            self._audit.record("not collected", "gateway.refused", peer, ids)
            return None
        if envelope.destination.intent is Method.DELETE:
            await self._arrived(envelope, asking)
            return None
        return await self._collect(envelope, asking, min(wait, self._options.longest_wait))

    def _check(self, envelope: Envelope) -> None:
        check_names(envelope, self._options.limits)
        id = _collector(envelope)
        if len(id) > self._options.limits.name or not id.isprintable():
            raise InvalidEnvelope(
                f"The collection id needs 1 to {self._options.limits.name} characters that can be printed.",
                code="gateway.envelope.name",
                field=COLLECTOR,
            )
        if envelope.destination.intent not in (Method.SELECT, Method.DELETE):
            raise InvalidEnvelope(
                "A response is collected with select; delete says that it has arrived.",
                code="gateway.envelope.method",
            )
        if envelope.destination.resource != self._options.collection_point:
            raise InvalidEnvelope(
                "This is not addressed to the collection point.",
                code="gateway.envelope.destination",
                next=f"Its name is {self._options.collection_point}.",
            )

    async def _asking(self, envelope: Envelope, peer: str) -> Asking | None:
        client = envelope.client
        try:
            principal = await self._credentials.identify(client.authorization)
        except Refused:
            return None
        shown = envelope.originator.original_token or envelope.text(SHOWN) or ""
        return Asking(client.client_id, principal, self._stamps.fingerprint(shown), peer)

    async def _collect(self, envelope: Envelope, asking: Asking, wait: float) -> bytes | None:
        place = Place(envelope.client.client_id, envelope.client.request_id)
        collector, deadline = _collector(envelope), self._clock() + wait
        while True:
            now = self._clock()
            for held in self._admitted(await self._store.find(place, now, collector), envelope, asking):
                if await self._store.take(held, now, collector):
                    self._audit.record("collected", "", asking.peer, _ids(held))
                    return held.body.encode()
            left = deadline - self._clock()
            waited = left > 0 and await self.waiting.wait(place, left)
            # Meanwhile the key may have been revoked, or the token may have ended.
            renewed = await self._asking(envelope, asking.peer) if waited else None
            if renewed is None:
                self._audit.record("not collected", "", asking.peer, Ids(place.client, place.request))
                return None
            asking = renewed

    async def _arrived(self, envelope: Envelope, asking: Asking) -> None:
        place = Place(envelope.client.client_id, envelope.client.request_id)
        now = self._clock()
        known = (*await self._store.leased(place, now), *await self._store.find(place, now))
        for held in self._admitted(known, envelope, asking):
            if await self._store.done(held, _collector(envelope)):
                self._audit.record("arrived", "", asking.peer, _ids(held))

    def _admitted(self, found: Iterable[Held], envelope: Envelope, asking: Asking) -> list[Held]:
        """Those that may be had by who asks, at the level of the request or at the one they ask for now.

        Their own come first: at the basic level somebody else may have used the same ids.
        """
        entity, owner = envelope.destination.entity, asking.principal.owner
        admitted = [
            held
            for held in found
            if (not entity or entity == held.entity) and self._admits(held, envelope, asking)
        ]
        return sorted(admitted, key=lambda held: held.owner != owner)

    def _admits(self, held: Held, envelope: Envelope, asking: Asking) -> bool:
        levels = self._options.levels
        kept, asked = levels.find(held.level), levels.find(envelope.originator.security)
        # An own level that this gateway does not know, or no level at all: forbidden.
        return kept is not None and asked is not None and levels.highest(kept, asked).admits(asking, held)


def _collector(envelope: Envelope) -> str:
    """The collection id; empty for clients that send none."""
    return envelope.text(COLLECTOR) or ""


def _ids(held: Held) -> Ids:
    return Ids(held.client, held.request, held.entity)
