"""``dragoman gateway check``: what a configuration lets through, before it does."""

from __future__ import annotations

from pathlib import Path

from dragoman.cli.gateway.options import Config, Public, configured
from dragoman.cli.output import Json, emit_table


def check(config: Config = None, public: Public = None, as_json: bool = Json) -> None:
    """Show which destinations can be reached from outside, and on what terms.

    Example: dragoman gateway check --config gateway.toml
    """
    from dragoman.gateway.configuration import options_from

    folder = None if config is None else Path(config).parent
    options = options_from(configured(config, public), b"-" * 32, folder)
    rows = [
        (
            rule.resource,
            rule.entity or "every other",
            ", ".join(sorted(rule.methods)),
            "every" if rule.versions is None else ", ".join(sorted(rule.versions)),
            options.levels.require(rule.level).name,
            rule.collect.value,
            f"{rule.retain:g}",
            f"{rule.expires:g}",
            rule.hops,
        )
        for rule in options.policy.rules
    ]
    columns = ("resource", "entity", "methods", "versions", "level", "collect", "retain", "expires", "hops")
    emit_table(columns, rows, as_json=as_json, empty="Nothing can be reached from outside.")
