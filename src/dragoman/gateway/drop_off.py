"""The drop-off point: requests from outside, checked, stamped, and forwarded inside.

HTTP and SEP both call ``DropOff.accept``. When it returns, the broker has the request; when it raises,
nothing was accepted.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable

import msgspec

from dragoman.core.errors import GatewayError, InvalidEnvelope, NotNow
from dragoman.gateway.audit import Audit, Ids
from dragoman.gateway.checking import check_names, issued_at
from dragoman.gateway.envelope.method import Method
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.envelope.wire import from_json
from dragoman.gateway.forwarding import Forward
from dragoman.gateway.options import GatewayOptions
from dragoman.gateway.policy import Lifetimes
from dragoman.gateway.quota import Quota
from dragoman.gateway.rates import RateLimit
from dragoman.gateway.security.credentials import Credentials, refusal
from dragoman.gateway.security.level import BASIC, Level
from dragoman.gateway.security.principal import Principal
from dragoman.gateway.security.seal import same
from dragoman.gateway.stamping import Admission, Stamper
from dragoman.gateway.store.port import Store, Ticket
from dragoman.registry.http.addresses import network_of

log = logging.getLogger("dragoman.gateway")

_GIVEN_UP = 3
"""After so many times the time for forwarding, a ticket without an outcome was left by somebody who died."""


class Receipt(msgspec.Struct, frozen=True, rename="camel"):
    """Where the response can be collected, and until when the request is tried."""

    collection_point: str
    client_id: str
    request_id: str
    entity: str | None
    security: str
    expires_at: float
    retain_seconds: float


_encode = msgspec.json.Encoder().encode
_read_receipt = msgspec.json.Decoder(Receipt).decode


class DropOff:
    def __init__(
        self,
        options: GatewayOptions,
        store: Store,
        credentials: Credentials,
        forward: Forward,
        audit: Audit,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._store = store
        self._credentials = credentials
        self._forward = forward
        self._audit = audit
        self._clock = clock
        self._stamped = Stamper(options)
        self._by_peer = RateLimit(options.peer_rate, clock)
        self._by_owner = RateLimit(options.owner_rate, clock)
        self._quota = Quota(store, options.waiting_quota, clock)
        self._settling: dict[str, tuple[asyncio.Future[None], Receipt]] = {}

    async def accept(self, text: bytes, *, peer: str = "") -> Receipt:
        """Forward the request in this JSON. Raises ``InvalidEnvelope``, ``Refused`` and ``NotNow``."""
        try:
            self._by_peer.spend(network_of(peer))
            envelope = from_json(text, self._options.limits)
        except GatewayError as error:
            self._audit.record("refused", error.code, peer)
            raise
        try:
            receipt, fresh = await self._accept(envelope)
        except GatewayError as error:
            self._audit.record("refused", error.code, peer, _ids(envelope))
            raise
        self._audit.record("accepted" if fresh else "repeated", "", peer, _ids(envelope))
        return receipt

    async def close(self) -> None:
        """Wait until all that was forwarded is noted as such."""
        if self._settling:
            await asyncio.wait([noting for noting, _ in self._settling.values()])

    async def _accept(self, envelope: Envelope) -> tuple[Receipt, bool]:
        now = self._clock()
        _check_request(envelope)
        check_names(envelope, self._options.limits)
        admission = await self._admit(envelope)
        principal = admission.principal
        remembered = self._check_time(envelope, principal, now)
        lifetimes = self._options.policy.lifetimes(admission.rule, envelope.originator.message_ttl)
        await self._quota.check(principal.owner)
        # As long as the response may wait: else another request could meet it at its place.
        remembered = max(remembered, now + lifetimes.expires_in + lifetimes.retain)
        ticket = _ticket(envelope, principal, now, remembered)
        claim = await self._store.claim(ticket, stale=now - _GIVEN_UP * self._options.forward_timeout)
        if not claim.mine:
            return self._repeated(ticket, claim.digest, claim.outcome), False
        try:
            stamped = self._stamped(envelope, admission, lifetimes, now)
            # This is the first time that it is forwarded.
            await self._forward(stamped, ticket.key, lifetimes.hops - 1, now + lifetimes.expires_in)
        except Exception:
            await self._give_back(ticket.key)
            raise
        receipt = self._receipt(envelope, admission.level, lifetimes, now)
        self._settle(ticket.key, receipt)
        return receipt, True

    async def _admit(self, envelope: Envelope) -> Admission:
        """All refusals are the same refusal."""
        principal = await self._credentials.identify(envelope.client.authorization)
        if principal.known:
            self._by_owner.spend(principal.owner)
        rule = self._options.policy.find(envelope.destination)
        asked = self._options.levels.find(envelope.originator.security)
        shown = envelope.originator.original_token
        if (
            rule is None
            or asked is None
            or not principal.may_be(envelope.client.client_id)
            or not principal.may_ask(envelope.destination.resource)
            or (shown and not same(shown, envelope.client.authorization))
        ):
            raise refusal()
        level = self._options.levels.highest(asked, self._options.levels.require(rule.level))
        if level is not BASIC and not principal.known:
            raise refusal()
        return Admission(principal, rule, level)

    def _check_time(self, envelope: Envelope, principal: Principal, now: float) -> float:
        """Until when the request must be remembered, so that it cannot be sent again after that."""
        options, issued = self._options, issued_at(envelope)
        if issued is not None:
            if not now - options.replay_window <= issued <= now + options.skew:
                raise InvalidEnvelope(
                    "destination.timestamp is too old, or in the future.",
                    code="gateway.envelope.stale",
                    next="Send the request anew; is your clock right?",
                )
            return issued + options.replay_window + options.skew
        if principal.expires is None or principal.expires > now + options.longest_memory:
            raise InvalidEnvelope(
                "destination.timestamp is needed.",
                code="gateway.envelope.timestamp",
                next="Only a token that ends soon can do without it.",
            )
        return principal.expires

    def _repeated(self, ticket: Ticket, digest: str, outcome: str) -> Receipt:
        if digest and not same(digest, ticket.digest):
            raise InvalidEnvelope(
                "Another request has this id.",
                code="gateway.envelope.conflict",
                next="Use a new requestId for each request.",
            )
        if ticket.key in self._settling:
            return self._settling[ticket.key][1]
        if not outcome:
            raise NotNow("This request is being accepted.", code="gateway.in-progress", next="Ask again.")
        return _read_receipt(outcome)

    def _receipt(self, envelope: Envelope, level: Level, lifetimes: Lifetimes, now: float) -> Receipt:
        return Receipt(
            collection_point=self._options.collection_point,
            client_id=envelope.client.client_id,
            request_id=envelope.client.request_id,
            entity=envelope.destination.entity,
            security=level.name,
            expires_at=now + lifetimes.expires_in,
            retain_seconds=lifetimes.retain,
        )

    def _settle(self, key: str, receipt: Receipt) -> None:
        """In the background: should we die before it is noted, a repetition forwards it once more."""
        noting = self._store.settle(key, _encode(receipt).decode())
        self._settling[key] = (noting, receipt)
        noting.add_done_callback(lambda noted: self._noted(key, noted))

    def _noted(self, key: str, noted: asyncio.Future[None]) -> None:
        del self._settling[key]
        if not noted.cancelled() and noted.exception() is not None:
            log.warning("A forwarded request could not be noted; if it is repeated, it is forwarded again.")

    async def _give_back(self, key: str) -> None:
        try:
            await self._store.release(key)
        except NotNow:
            log.warning("A ticket could not be given back; its request is accepted again in a while.")


def _check_request(envelope: Envelope) -> None:
    intent = envelope.destination.intent
    if intent is Method.RESPONSE:
        raise InvalidEnvelope(
            "Only requests are dropped off, not responses.", code="gateway.envelope.response"
        )
    if not intent.is_request:
        raise InvalidEnvelope(
            "The method is not supported.",
            code="gateway.envelope.method",
            next="Use select, update, insert, delete or process.",
        )


def _ticket(envelope: Envelope, principal: Principal, now: float, expires: float) -> Ticket:
    """By all that its response is held by, and no more: two tickets never share a place."""
    destination, client = envelope.destination, envelope.client
    # Names can be printed, so what stands between them cannot be in one.
    key = "\0".join((principal.owner, client.client_id, client.request_id, destination.entity or ""))
    # Not the time and not the token: a repetition may have newer ones.
    asked = (
        destination.resource,
        destination.intent,
        destination.version,
        envelope.originator.security,
        envelope.originator.message_ttl,
        envelope.data,
    )
    return Ticket(_hash(key.encode()), _hash(_encode(asked)), now, expires)


def _hash(value: bytes) -> str:
    return hashlib.blake2b(value, digest_size=20).hexdigest()


def _ids(envelope: Envelope) -> Ids:
    destination, client = envelope.destination, envelope.client
    return Ids(client.client_id, client.request_id, destination.entity, destination.resource)
