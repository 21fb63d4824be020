"""Functions made for one schema: their source is written, compiled once, and then runs many times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.core.errors import EncodeError, IncompatibleSchema


class Compilation:
    """Collects functions and the objects they use. Names in sources come from here or are quoted."""

    def __init__(self, filename: str = "<dragoman codec>") -> None:
        self.filename = filename
        self.scope: dict[str, Any] = {}
        self._sources: list[str] = []
        self._names: dict[int, str] = {}

    def bind(self, value: object, hint: str = "v") -> str:
        """A name under which the functions see this object."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"_{hint}{len(self.scope)}"
            self.scope[name] = value
        return name

    def add(self, source: str) -> None:
        self._sources.append(source)

    def compile(self, name: str) -> Callable[..., Any]:
        """The function of this name, with all that were added before."""
        exec(compile("\n".join(self._sources), self.filename, "exec"), self.scope)  # noqa: S102
        self._sources.clear()
        made: Callable[..., Any] = self.scope[name]
        return made


def unable(reason: IncompatibleSchema) -> Callable[[Any], bytes]:
    """For a class that can read a schema and cannot write it: the encoder says so when somebody tries."""

    def encode(value: Any) -> bytes:
        raise EncodeError(
            f"{type(value).__name__} cannot be written with this schema: {reason.what}",
            code="message.encode.class",
            next=reason.next,
            field=reason.where.get("field"),
        )

    encode.reason = reason  # type: ignore[attr-defined]
    return encode


def why_unable(encode: Callable[[Any], bytes]) -> IncompatibleSchema | None:
    """Why an encoder writes nothing at all; ``None`` if it is a real one."""
    found: IncompatibleSchema | None = getattr(encode, "reason", None)
    return found
