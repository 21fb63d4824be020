"""Names of contracts, with the context they live in.

``:.billing:orders-value`` is the contract ``orders-value`` in the context ``.billing``; a plain name is in
the default context. Ids are numbered per context.
"""

from __future__ import annotations

from typing import NamedTuple

from dragoman.core.errors import ConfigurationError

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
MAX_LENGTH = 240
_RESERVED = frozenset({"__GLOBAL", "__EMPTY"})


class ContractName(NamedTuple):
    """Where a contract is found: ``contract`` is empty when the context itself is meant."""

    context: str
    contract: str

    def __str__(self) -> str:
        if self.context == DEFAULT_CONTEXT:
            return self.contract
        return f":{self.context}:{self.contract}"


def parse_name(text: str, context: str = DEFAULT_CONTEXT) -> ContractName:
    """Read a possibly qualified name; a plain one belongs to ``context``."""
    if "\0" in text:
        raise invalid_name(text)
    if not text.startswith(":"):
        return ContractName(context, text)
    qualifier, separator, contract = text[1:].partition(":")
    if not separator:
        raise invalid_name(text)
    return ContractName(context_name(qualifier), contract)


def contract_name(text: str, context: str = DEFAULT_CONTEXT) -> ContractName:
    """The name of one contract, fit to be stored."""
    name = parse_name(text, context)
    unprintable = any(ord(letter) < 32 or 0xD800 <= ord(letter) <= 0xDFFF for letter in text)
    blank = name.contract != name.contract.strip()
    # With a colon in front, the name would be written as the name of a contract in another context.
    foreign = name.contract.startswith(":")
    unusable = not name.contract or blank or foreign or name.contract in _RESERVED
    if unusable or unprintable or len(text) > MAX_LENGTH:
        raise invalid_name(text)
    return name


def context_name(text: str) -> str:
    """Contexts start with a dot, whether or not it is written."""
    if len(text) > MAX_LENGTH or any(ord(letter) < 32 or letter in ":/" for letter in text):
        raise invalid_name(text)
    return text if text.startswith(".") else f".{text}"


def invalid_name(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"{text!r} is not a contract name.",
        code="registry.invalid.name",
        next=f"Use 1 to {MAX_LENGTH} printable characters, no blanks around; ':.context:name' for a context.",
    )
