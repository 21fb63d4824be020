"""Commands on contracts: list, show, register, diff, delete, history, bind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli.output import Json, answer_no, emit_json, emit_table, run, say
from dragoman.cli.registry.options import Name, NameAndVersion, RegistryUrl, Token, opened, split_version
from dragoman.core.contract import Compatibility, Contract, ContractVersion
from dragoman.core.errors import IncompatibleSchema


def list_contracts(
    prefix: Annotated[str, typer.Argument(help="How the names start.")] = "",
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """List contracts with their latest version, channel and strategy.

    Example: dragoman registry list loan-broker
    """

    async def work() -> list[Contract]:
        async with opened(registry, token) as found:
            return [await found.contract(name) for name in await found.contracts(prefix)]

    emit_table(
        ("contract", "version", "channel", "compatibility", "update"),
        [
            (each.name, each.version, each.channel, each.compatibility, each.update_order)
            for each in run(work())
        ],
        as_json=as_json,
        empty="There are no contracts.",
    )


def show(
    contract: NameAndVersion, registry: RegistryUrl = None, token: Token = None, as_json: bool = Json
) -> None:
    """Show a contract and one version's schema.

    Example: dragoman registry show orders-value@2
    """
    name, version = split_version(contract)

    async def work() -> tuple[Contract, ContractVersion, list[int]]:
        async with opened(registry, token) as found:
            chosen = await found.version(name, version)
            return await found.contract(name), chosen, list(await found.versions(name))

    found, chosen, versions = run(work())
    schema = chosen.schema
    if as_json:
        emit_json(
            {
                "name": found.name,
                "channel": found.channel,
                "compatibility": found.compatibility.value,
                "updateOrder": found.update_order.value,
                "versions": versions,
                "version": chosen.version,
                "id": schema.id,
                "type": schema.type,
                "schema": schema.text,
            }
        )
        return
    say(f"{found.name}, channel {found.channel}, {found.compatibility}, update order {found.update_order}")
    say(f"version {chosen.version} of {versions}, schema id {schema.id}, {schema.type}")
    for reference in schema.references:
        say(f"refers to {reference.name} = {reference.contract}@{reference.version}")
    say(_laid_out(schema.type, schema.text))


def _laid_out(type: str, text: str) -> str:
    if type not in ("AVRO", "JSON"):
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def register(
    contract: Name,
    file: Annotated[Path, typer.Argument(help="A schema: .avsc, .json, .proto or .thrift.")],
    normalize: Annotated[bool, typer.Option("--normalize", help="Order what has no order first.")] = False,
    reference: Annotated[list[str] | None, typer.Option(help="NAME=CONTRACT@VERSION")] = None,
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Register a schema file as the contract's next version, if it is a new one.

    Example: dragoman registry register orders-value orders.avsc
    """
    from dragoman.registry.files import parse_reference, read_file

    schema = read_file(file, contract, [parse_reference(text) for text in reference or ()]).schema

    async def work() -> ContractVersion:
        async with opened(registry, token) as found:
            return await found.register(contract, schema, normalize=normalize)

    try:
        made = run(work())
    except IncompatibleSchema as refused:
        if as_json:
            emit_json({"compatible": False, "reasons": [reason.message for reason in refused.reasons]})
        else:
            for reason in refused.reasons:
                say(f"{reason.rule}: {reason.message} ({reason.reader_path})")
        answer_no("" if as_json else f"{contract} does not take this schema.")
    if as_json:
        emit_json({"contract": contract, "version": made.version, "id": made.schema.id})
    else:
        say(f"{contract} version {made.version}, schema id {made.schema.id}.")


def diff(
    contract: Name,
    older: Annotated[int | None, typer.Argument(metavar="FROM", help="The older version.")] = None,
    newer: Annotated[int | None, typer.Argument(metavar="TO", help="The newer version; the latest.")] = None,
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Show what changed between two versions, and which strategies allow it.

    Example: dragoman registry diff orders-value 1 2
    """
    from dragoman.registry.administration import administer

    async def work() -> dict[str, Any]:
        async with opened(registry, token) as found:
            return await administer(found).compare(contract, older, newer)

    found = run(work())
    if as_json:
        emit_json(found)
        return
    say(f"{contract}: version {found['from']} to {found['to']}")
    rows = [(each["kind"], each["path"], each["before"], each["after"]) for each in found["changes"]]
    emit_table(("change", "field", "before", "after"), rows, empty="No field changed.")
    allowed = [name for name, verdict in found["verdicts"].items() if verdict["compatible"]]
    say(f"Allowed by {', '.join(allowed)}.")
    for reason in found["reasons"]:
        say(f"  {reason['rule']}: {reason['message']}")


def delete(
    contract: Name,
    version: Annotated[int | None, typer.Option("--version", help="Only this version.")] = None,
    permanent: Annotated[bool, typer.Option("--permanent", help="The second step: gone for good.")] = False,
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Hide a contract or a version; with --permanent, remove what is hidden.

    Example: dragoman registry delete orders-value --version 3
    """

    async def work() -> list[int]:
        async with opened(registry, token) as found:
            return list(await found.delete(contract, version, permanent=permanent))

    gone = run(work())
    if as_json:
        emit_json({"contract": contract, "versions": gone, "permanent": permanent})
    else:
        say(f"{'Removed' if permanent else 'Hid'} {contract}, versions {gone}.")


def history(
    contract: Annotated[str | None, typer.Argument(help="One contract; all, if not given.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many entries.")] = 50,
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Show who changed what, and when, newest first.

    Example: dragoman registry history orders-value --limit 10
    """
    from dragoman.registry.administration import administer

    async def work() -> list[dict[str, Any]]:
        async with opened(registry, token) as found:
            return list(await administer(found).history(contract, limit))

    found = run(work())
    if as_json:
        emit_json(found)
        return
    rows = [
        (each["at"], each["author"], each["action"], each["contract"], each["version"], _said(each["detail"]))
        for each in found
    ]
    emit_table(
        ("at", "author", "action", "contract", "version", "detail"), rows, empty="Nothing happened yet."
    )


def _said(detail: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in detail.items())


def bind(
    contract: Name,
    channel: Annotated[
        str | None, typer.Argument(help="A channel to bind; lists them, if not given.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Release the channel instead.")] = False,
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Bind channels to a contract: one contract may hold for many.

    Example: dragoman registry bind orders-value orders.archive
    """
    from dragoman.registry.administration import administer

    async def work() -> list[str]:
        async with opened(registry, token) as found:
            administration = administer(found)
            if channel is not None and remove:
                await administration.unbind(contract, channel)
            elif channel is not None:
                await administration.bind(contract, channel)
            return list(await administration.channels(contract))

    emit_table(
        ("channel",),
        [(each,) for each in run(work())],
        as_json=as_json,
        empty=f"{contract} is bound to the channel that its name implies.",
    )


def set_compatibility(
    contract: Name,
    strategy: Annotated[
        Compatibility, typer.Argument(case_sensitive=False, help="What the next versions must keep to.")
    ],
    registry: RegistryUrl = None,
    token: Token = None,
    as_json: bool = Json,
) -> None:
    """Set a contract's compatibility strategy, also before its first version.

    Example: dragoman registry compatibility orders-value FULL
    """

    async def work() -> None:
        async with opened(registry, token) as found:
            await found.set_compatibility(contract, strategy)

    run(work())
    if as_json:
        emit_json({"contract": contract, "compatibility": strategy.value})
    else:
        say(f"{contract} is {strategy}: update order {strategy.update_order}.")
