"""Keys that are records: read by the schema id in their frame, as payloads are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.client.contracts import Contracts, Decode
from dragoman.client.keys import no_key, plain_reader
from dragoman.client.parameters import Parameter
from dragoman.core.errors import DecodeError, IncompatibleSchema
from dragoman.schema.framing import HEADER_SIZE, unframe
from dragoman.schema.records import is_record


class KeyReader:
    """Reads keys as one class. A schema not met before is learned first, since that may ask the registry."""

    def __init__(self, cls: type, optional: bool, contracts: Contracts) -> None:
        self._cls = cls
        self._optional = optional
        self._contracts = contracts
        self._decoders: dict[bytes, Decode] = {}

    async def learn(self, key: bytes | None) -> None:
        """Raises ``MessageError``, ``RegistryUnavailable``."""
        if key is None or key[:HEADER_SIZE] in self._decoders:
            return
        schema_id, _ = unframe(key)
        try:
            decode = await self._contracts.frame_decoder(schema_id, self._cls)
        except IncompatibleSchema as error:
            raise DecodeError(
                "The key is of a schema that the endpoint's class cannot read.",
                code="message.key",
                next="Compare the versions of the key's contract.",
                schema_id=schema_id,
            ) from error
        self._decoders[key[:HEADER_SIZE]] = decode

    def __call__(self, key: bytes | None) -> Any:
        if key is not None:
            return self._decoders[key[:HEADER_SIZE]](key)
        if self._optional:
            return None
        raise no_key()


def key_reader(parameter: Parameter, contracts: Contracts) -> Callable[[bytes | None], Any]:
    """How an endpoint's key parameter is read."""
    for each in parameter.types:
        if is_record(each):
            return KeyReader(each, parameter.optional, contracts)
    return plain_reader(parameter.types, parameter.optional)
