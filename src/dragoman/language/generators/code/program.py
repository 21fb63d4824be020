"""The program of a generated package: it runs endpoints that obey the model."""

from __future__ import annotations

from dragoman.language.generators.code.controllers import handlers, module_name
from dragoman.language.generators.code.records import class_name
from dragoman.language.generators.code.text import docstring
from dragoman.language.model import Model

_BODY = """
async def run(model: str, names: list[str], broker: str | None, registry: str | None) -> None:
    async with AsyncExitStack() as stack:
        for name in names:
            client = Client(broker, registry, ENDPOINTS[name], model=model, as_=name)
            await stack.enter_async_context(client)
        print(f"At work: {', '.join(names)}. End with Ctrl-C.", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Run endpoints of the model; without names all of them.")
    parser.add_argument("model", help="the file of the model")
    parser.add_argument("endpoints", nargs="*", help=", ".join(ENDPOINTS))
    parser.add_argument("--broker", help="its URL; else the one in the model")
    parser.add_argument("--registry", help="its URL; else the embedded one")
    given = parser.parse_args()
    unknown = [name for name in given.endpoints if name not in ENDPOINTS]
    if unknown:
        parser.error(f"There is no endpoint {unknown[0]}. There are: {', '.join(ENDPOINTS)}.")
    try:
        asyncio.run(run(given.model, given.endpoints or [*ENDPOINTS], given.broker, given.registry))
    except KeyboardInterrupt:
        pass
    except DragomanError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
"""


def program_module(model: Model, source: str) -> str:
    """``python -m PACKAGE MODEL ENDPOINT``."""
    about = docstring(
        f"Runs endpoints of {model.api.name.text} that obey the model.\n\n"
        f"``python -m PACKAGE {source} {next(iter(model.endpoints))}``; written once, and then yours."
    )
    busy = [name for name in model.endpoints if handlers(model, name)]
    modules = sorted((module_name(name), class_name(name)) for name in busy)
    imports = "".join(f"from .{module} import {name}\n" for module, name in modules)
    entries = "".join(
        f'    "{name}": [{class_name(name) if name in busy else ""}],\n' for name in model.endpoints
    )
    return (
        f"{about}\n\nfrom __future__ import annotations\n\n"
        "import argparse\nimport asyncio\nimport sys\nfrom contextlib import AsyncExitStack\n\n"
        "from dragoman import Client, DragomanError\n\n"
        f"{imports}\nENDPOINTS: dict[str, list[type]] = {{\n{entries}}}\n"
        '"""The controllers of each endpoint; one that only sends has none."""\n\n'
        f"{_BODY}"
    )
