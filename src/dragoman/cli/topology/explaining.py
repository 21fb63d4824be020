"""``dragoman topology explain``: each admin's score and why, each setting and where it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.channel.options import pairs
from dragoman.cli.output import Json, answer_no, emit_json, emit_table, hint, run, say
from dragoman.cli.topology.options import (
    Admins,
    Discoveries,
    Patience,
    Properties,
    Scope,
    TopicName,
    listed,
    topology_of,
)
from dragoman.core.defaults import default_broker
from dragoman.topology.explaining import Explanation
from dragoman.topology.explaining import explain as explanation_of
from dragoman.topology.topic import Role, topic_of


def explain(
    topic: TopicName,
    scope: Scope = None,
    type: Annotated[Role, typer.Option("--type", help="As a publisher or a subscriber.")] = Role.PUBLISHER,
    admin: Admins = None,
    discovery: Discoveries = None,
    property: Properties = None,
    folder: Annotated[
        list[Path] | None, typer.Option(help="A folder of property files; else ./pubsub. May be repeated.")
    ] = None,
    timeout: Patience = 10.0,
    as_json: bool = Json,
) -> None:
    """Show which admin a topic would get, and why. Exits 1 if none takes it.

    Example: dragoman topology explain prices --admin kafka://localhost:9092
    """
    wanted = topic_of(topic, scope)
    admins = listed(admin, "DRAGOMAN_ADMINS") or [default_broker()]

    async def work() -> Explanation:
        async with topology_of(discovery, timeout, admins=admins, folders=folder) as topology:
            return explanation_of(topology, wanted, type, dict(pairs(property)))

    found = run(work())
    if as_json:
        emit_json(found.plain())
    else:
        _show(found)
    if found.chosen is None:
        answer_no("" if as_json else "No admin takes this topic.")


def _show(found: Explanation) -> None:
    for each in found.verdicts:
        say(f"{each.admin}: {each.score} points{', chosen' if each.chosen else ''}")
        for reason in each.reasons:
            say(f"  {reason.points:+4d}  {reason.why}")
    chosen = found.chosen or (found.verdicts[0] if found.verdicts else None)
    if chosen is not None and chosen.settings:
        say(f"Settings with {chosen.admin}:")
        rows = [(name, each.value, each.origin) for name, each in sorted(chosen.settings.items())]
        emit_table(("property", "value", "origin"), rows)
    if found.others:
        say("In other programs:")
        others = [(each.role.value, each.admin, each.serializer, each.id) for each in found.others]
        emit_table(("type", "admin", "serializer", "endpoint"), others)
    for note in found.notes:
        hint(note)
