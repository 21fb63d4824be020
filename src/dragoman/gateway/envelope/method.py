"""What a message wants done."""

from __future__ import annotations

from enum import StrEnum


class Method(StrEnum):
    """Six methods. ``UNSUPPORTED`` stands for every other text."""

    SELECT = "select"
    UPDATE = "update"
    INSERT = "insert"
    DELETE = "delete"
    PROCESS = "process"
    RESPONSE = "response"
    UNSUPPORTED = "unsupported"

    @classmethod
    def of(cls, text: str) -> Method:
        """In any case of letters."""
        return _BY_TEXT.get(text.lower(), cls.UNSUPPORTED)

    @property
    def is_request(self) -> bool:
        return self in _REQUESTS


_REQUESTS = frozenset(Method) - {Method.RESPONSE, Method.UNSUPPORTED}
_BY_TEXT = {each.value: each for each in Method if each is not Method.UNSUPPORTED}
