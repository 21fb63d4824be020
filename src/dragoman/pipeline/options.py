"""What a reader of channels can be told, checked before anything is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import redacted
from dragoman.pipeline import arrow
from dragoman.pipeline.offsets import Bound, parse_bound

Mode = Literal["quarantine", "fail", "raw"]
_CHOICES: dict[str, tuple[str, ...]] = {
    "mode": ("quarantine", "fail", "raw"),
    "unions": ("struct", "variant", "json"),
    "recursion": ("refuse", "variant", "json"),
    "nanos": ("long", "timestamp"),
    "whole": ("variant", "json"),
    "expired": ("quarantine", "keep"),
}


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """Where contracts are kept, and who asks. Travels to workers."""

    url: str
    username: str = ""
    password: str = ""
    token: str = ""
    ca: str = ""

    def __repr__(self) -> str:
        return f"RegistryAccess({redacted(self.url)!r})"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of the source ``dragoman``. The names are those of ``option(...)``, in snake case."""

    channel: str
    broker: str
    registry: RegistryAccess
    contract: str = ""
    version: str = "latest"
    starting_offsets: Bound = "earliest"
    ending_offsets: Bound | None = None
    partitions: tuple[int, ...] = ()
    max_rows_per_trigger: int | None = None
    min_partitions: int = 1
    batch_rows: int = 32_768
    mode: str = "quarantine"
    include_meta: bool = True
    fail_on_data_loss: bool = True
    wait_seconds: float | None = None
    expired: str = "quarantine"
    unions: str = "struct"
    recursion: str = "refuse"
    nanos: str = "long"
    whole: str = "variant"

    @property
    def mapping(self) -> arrow.Mapping:
        chosen: Any = {name: getattr(self, name) for name in ("unions", "recursion", "nanos", "whole")}
        return arrow.Mapping(**chosen)


REGISTRY = {
    "registry": "url",
    "registryUsername": "username",
    "registryPassword": "password",
    "registryToken": "token",
    "registryCa": "ca",
}
_CREDENTIALS = frozenset({"username", "password", "token"})
_NUMBERS = ("max_rows_per_trigger", "min_partitions", "batch_rows")
_FLAGS = ("include_meta", "fail_on_data_loss")


def allowed() -> list[str]:
    """The names of all options, as they are written."""
    own = [_camel(each.name) for each in fields(SourceOptions) if each.name != "registry"]
    return sorted([*own, *REGISTRY])


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Raises ``ConfigurationError`` for an unknown name or an impossible value, with what is allowed."""
    left = {name.lower(): (name, str(value)) for name, value in given.items()}
    path = left.pop("path", None)
    if path is not None:
        left.setdefault("channel", path)
    names = {name.lower(): name for name in allowed()}
    unknown = sorted(name for key, (name, _) in left.items() if key not in names)
    if unknown:
        raise ConfigurationError(
            f"The source dragoman has no option {', '.join(unknown)}.",
            code="configuration.option",
            next=f"Options are: {', '.join(allowed())}.",
        )
    values = {names[key]: value for key, (_, value) in left.items()}
    if not values.get("channel"):
        raise ConfigurationError(
            "The source needs a channel.",
            next="Set option('channel', 'name'), or several with commas, or 'a.*'.",
        )
    registry = take_registry(values)
    values["broker"] = located(values.get("broker") or default_broker())
    parsed = {snake(name): _value(snake(name), value) for name, value in values.items()}
    return SourceOptions(registry=registry, **parsed)


def take_registry(values: dict[str, str]) -> RegistryAccess:
    """Take the registry's options out of the others; names count in any case."""
    names = {name.lower(): field for name, field in REGISTRY.items()}
    found = {names[name.lower()]: values.pop(name) for name in list(values) if name.lower() in names}
    found["url"] = located(found.get("url") or default_registry())
    return RegistryAccess(**found)


def registry_options(access: RegistryAccess) -> dict[str, str]:
    """The options that ``take_registry`` reads it from; what is not set is left out."""
    return {name: value for name, field in REGISTRY.items() if (value := getattr(access, field))}


def without_credentials(options: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The options that may be written down. Who asks the registry, and by what right, is said at each run."""
    secret = {name.lower() for name, field in REGISTRY.items() if field in _CREDENTIALS}
    return tuple((name, value) for name, value in options if name.lower() not in secret)


def located(url: str) -> str:
    """A URL of a file or folder here, made absolute: workers may run elsewhere in the file system."""
    scheme, separator, rest = url.partition("://")
    path, question, query = rest.partition("?")
    if not separator or not path or path.startswith("/") or not Path(path).exists():
        return url
    return f"{scheme}://{Path(path).absolute()}{question}{query}"


def _value(name: str, value: str) -> Any:
    if name in _CHOICES:
        return _one_of(name, value.lower(), _CHOICES[name])
    if name in _NUMBERS:
        return _number(name, value)
    if name in _FLAGS:
        return _one_of(name, value.lower(), ("true", "false")) == "true"
    if name in ("starting_offsets", "ending_offsets"):
        return parse_bound(_camel(name), value)
    if name == "version":
        return _version(value)
    if name == "partitions":
        return _partitions(value)
    if name == "wait_seconds":
        return _seconds(value)
    return value


def _refusal(name: str, value: str, allowed: str) -> ConfigurationError:
    return ConfigurationError(
        f"{_camel(name)} cannot be {value!r}.", code="configuration.option", next=f"Allowed: {allowed}."
    )


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise _refusal(name, value, ", ".join(choices))
    return value


def _number(name: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise _refusal(name, value, "a whole number from 1 on")
    return int(value)


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise _refusal("wait_seconds", value, "a number of seconds")
    return seconds


def _version(value: str) -> str:
    if value not in ("latest", "writer") and not (value.isdecimal() and int(value) > 0):
        raise _refusal("version", value, "latest, writer, or a version's number")
    return value


def _partitions(value: str) -> tuple[int, ...]:
    """``0,2-4`` is 0, 2, 3 and 4."""
    chosen: set[int] = set()
    for part in value.split(","):
        first, dash, last = part.strip().partition("-")
        whole = first.isdecimal() and (last.isdecimal() if dash else True)
        if not whole or int(last or first) < int(first):
            raise _refusal("partitions", value, "numbers and ranges, such as 0,2-4")
        chosen.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(chosen))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def snake(name: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name)
