"""Settings: from the environment, else from ``dragoman.toml``, else their defaults; each with its origin.

A section is a frozen dataclass whose fields are the settings. ``serve.port`` is in the file

    [serve]
    port = 8080

and in the environment ``DRAGOMAN_SERVE_PORT=8080``. The section without a name is the file's first level.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from dragoman.core.errors import ConfigurationError

FILE = "dragoman.toml"
FILE_VARIABLE = "DRAGOMAN_CONFIG"

T = TypeVar("T")

_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as it is in force. ``origin`` names the variable or the file, or is ``default``."""

    name: str
    value: Any
    origin: str
    default: Any
    help: str


@dataclass(frozen=True, slots=True)
class Section(Generic[T]):
    """The values, and where each came from."""

    values: T
    settings: tuple[Setting, ...]


def setting(default: Any, help: str, *, least: float | None = None) -> Any:
    """A field of a section. ``least`` is the least number it can be, if the section calls ``check_least``."""
    return dataclasses.field(default=default, metadata={"help": help, "least": least})


def check_least(section: Any) -> None:
    """Refuse numbers with which nothing would work. Raises ``ConfigurationError``."""
    for each in dataclasses.fields(section):
        value, least = getattr(section, each.name), each.metadata.get("least")
        if least is not None and value is not None and not value >= least:
            raise ConfigurationError(
                f"The setting {each.name} cannot be {value}.",
                code="configuration.option",
                next=f"It is {least} or more.",
            )


def settings_file() -> Path:
    """``DRAGOMAN_CONFIG``, or ``dragoman.toml`` in the working folder."""
    return Path(os.environ.get(FILE_VARIABLE) or FILE)


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return "DRAGOMAN_" + name.upper().replace(".", "_")


def read_section(kind: type[T], section: str = "") -> Section[T]:
    """Raises ``ConfigurationError``, with the place, for a setting that is unknown or of the wrong kind."""
    path = settings_file()
    stored = _stored(path)
    if section:
        stored = stored.get(section, {})
        if not isinstance(stored, Mapping):
            raise ConfigurationError(f"[{section}] is not a section.", next="Write it as a table.", file=path)
    kinds = get_type_hints(kind)
    found = []
    values: dict[str, Any] = {}
    for each in dataclasses.fields(kind):  # type: ignore[arg-type]
        name = f"{section}.{each.name}" if section else each.name
        given = os.environ.get(variable(name))
        if given:
            value, origin = _from_text(given, kinds[each.name], variable(name)), variable(name)
        elif each.name in stored:
            value, origin = _from_file(stored[each.name], kinds[each.name], name, path), str(path)
        else:
            value, origin = each.default, "default"
        values[each.name] = value
        found.append(Setting(name, value, origin, each.default, each.metadata.get("help", "")))
    _refuse_unknown(
        {name for name, value in stored.items() if section or not isinstance(value, dict)}, kind, path
    )
    return Section(kind(**values), tuple(found))


def refuse_unknown_sections(known: Mapping[str, type]) -> None:
    """For who knows all of them: a section that nobody reads is a mistake."""
    path = settings_file()
    for name, value in _stored(path).items():
        if isinstance(value, dict) and name not in known:
            listed = ", ".join(f"[{each}]" for each in sorted(known) if each)
            raise ConfigurationError(f"[{name}] is not a section.", next=f"Known: {listed}.", file=path)


def _stored(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        if os.environ.get(FILE_VARIABLE):
            raise ConfigurationError(
                "The file of settings is not there.", next=f"Correct {FILE_VARIABLE}.", file=path
            ) from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError("The file of settings cannot be read.", file=path) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"The file is not TOML: {error}.", file=path) from error


def _refuse_unknown(given: set[str], kind: type, path: Path) -> None:
    known = [each.name for each in dataclasses.fields(kind)]
    for name in sorted(given - set(known)):
        raise ConfigurationError(
            f"There is no setting {name!r}.",
            code="configuration.option",
            next=f"Known: {', '.join(known)}.",
            file=path,
        )


def _plain(kind: Any) -> Any:
    """The type without ``None``."""
    if get_origin(kind) is UnionType or type(kind) is UnionType:
        return next(each for each in get_args(kind) if each is not NoneType)
    return kind


def _from_file(value: Any, kind: Any, name: str, path: Path) -> Any:
    wanted = _plain(kind)
    if get_origin(wanted) is tuple:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
    elif wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    elif isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)):
        return value
    raise ConfigurationError(
        f"The setting {name} cannot be {value!r}.",
        code="configuration.option",
        next=f"It is {_described(wanted)}.",
        file=path,
    )


def _from_text(text: str, kind: Any, name: str) -> Any:
    wanted = _plain(kind)
    try:
        if get_origin(wanted) is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return _WORDS[text.lower()] if wanted is bool else wanted(text)
    except (KeyError, ValueError):
        raise ConfigurationError(
            f"{name} cannot be {text!r}.", code="configuration.option", next=f"It is {_described(wanted)}."
        ) from None


def _described(wanted: Any) -> str:
    if get_origin(wanted) is tuple:
        return "a list of texts"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[wanted]


def all_settings(sections: Mapping[str, type]) -> Iterator[Setting]:
    """Every setting of some sections, as it is in force."""
    refuse_unknown_sections(sections)
    for name, kind in sections.items():
        yield from read_section(kind, name).settings
