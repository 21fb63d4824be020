"""Drop-off and collection point by SEP: the same services, and the same answers, as by HTTP."""

from __future__ import annotations

from dragoman.core.errors import GatewayError
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.http.answers import NOTHING, Answer, accepted, collected, refused
from dragoman.gateway.sep.message import Operation, Reply
from dragoman.gateway.sep.server import Handler
from dragoman.gateway.sep.session import Address


def sep_point(gateway: Gateway) -> Handler:
    """What a SEP server does with requests for this gateway."""

    async def handle(operation: Operation, body: bytes, peer: Address) -> Reply:
        try:
            answer = await _answer(gateway, operation, body, peer[0])
        except GatewayError as failure:
            answer = refused(failure)
        return Reply(answer.status, answer.body)

    return handle


async def _answer(gateway: Gateway, operation: Operation, body: bytes, peer: str) -> Answer:
    if operation is Operation.DROP_OFF:
        return accepted(await gateway.drop_off.accept(body, peer=peer))
    found = await gateway.collection.collect(body, peer=peer)
    return NOTHING if found is None else collected(found)
