"""From what was said in many places to the settings of one topic with one admin.

The request counts over the admin's file, that over the general file, that over the admin's defaults, those
over the library's.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources.abc import Traversable

from dragoman.core.errors import ConfigurationError
from dragoman.topology.files import Place, beside_the_program, folders, lines_for
from dragoman.topology.settings import LIBRARY, LIBRARY_ORIGIN, SCOPE, TOPIC, Setting, Settings, checked
from dragoman.topology.topic import Role, Topic

REQUEST = "request"


class Configuration:
    """Files and defaults. ``owners`` tells the types of all admins there are."""

    def __init__(self, places: Sequence[Place] | None, owners: Callable[[], frozenset[str]]) -> None:
        self._places = beside_the_program() if places is None else folders(places)
        self._owners = owners
        self._defaults: dict[str, dict[str, str]] = {}

    def set_defaults(self, admin: str, values: Mapping[str, str]) -> None:
        """Names begin with ``pub:`` or ``sub:``; without it a value is for both. All are checked first."""
        known = self._owners()
        if admin not in known:
            close = difflib.get_close_matches(admin, known, 1)
            raise ConfigurationError(
                f"There is no admin {admin!r}.",
                code="topology.admin",
                next=f"Did you mean {close[0]!r}?" if close else f"There can be: {', '.join(sorted(known))}.",
            )
        for name, value in values.items():
            bare = name.removeprefix("pub:").removeprefix("sub:")
            checked(bare, value, f"defaults of {admin}", known)
        self._defaults[admin] = dict(values)

    def defaults(self, admin: str) -> Mapping[str, str]:
        return dict(self._defaults.get(admin, {}))

    def said(
        self, topic: Topic, role: Role, given: Mapping[str, str], package: str | None = None, admin: str = ""
    ) -> dict[str, Setting]:
        """What was said for this topic: by the request and in files. Raises ``ConfigurationError``."""
        owners = self._owners() | ({admin} if admin else set())
        found: dict[str, Setting] = {TOPIC: Setting(topic.name, REQUEST)}
        if topic.scope is not None:
            found[SCOPE] = Setting(topic.scope, REQUEST)
        for name, value, origin in lines_for(topic, role, admin, self._where(package)):
            self._put(found, name, value, origin, owners)
        for name, value in given.items():
            self._put(found, name, value, REQUEST, owners)
        return found

    def _put(
        self, found: dict[str, Setting], name: str, value: str, origin: str, owners: frozenset[str]
    ) -> None:
        name, setting = checked(name, value, origin, owners)
        if name in (TOPIC, SCOPE) and (name not in found or found[name].value != value):
            raise ConfigurationError(
                f"The property {name} contradicts the topic that was asked for.",
                code="topology.property",
                next="Leave it out.",
                origin=origin,
            )
        found[name] = setting

    def _where(self, package: str | None) -> list[Traversable]:
        return [*folders((package,) if package else ()), *self._places]

    def resolve(self, said: Mapping[str, Setting], role: Role, admin: str) -> Settings:
        """What counts: what was said, and defaults for the rest."""
        found = {name: Setting(value, LIBRARY_ORIGIN, explicit=False) for name, value in LIBRARY.items()}
        defaults = self._defaults.get(admin, {})
        for prefix in ("", f"{role.short}:"):
            for name, value in defaults.items():
                bare = name.removeprefix(prefix) if prefix and name.startswith(prefix) else name
                if ":" not in bare and (prefix == "") == (bare == name):
                    canonical, setting = checked(
                        bare, value, f"defaults of {admin}", self._owners() | {admin}
                    )
                    found[canonical] = Setting(setting.value, setting.origin, explicit=False)
        return {**found, **said}
