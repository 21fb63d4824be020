"""Customers outside: each drops off a wish, and collects the answer. ``customers URL KEY COUNT LEDGER``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx

from dragoman.cli.demo.orchestrator import RESOURCE, Wish
from dragoman.gateway.envelope import Envelope, collection, failed, from_json, request, to_json

AT_ONCE = 150
GREEDY, HASTY = 17, 51
"""Of each hundred, one wants a loan of nothing, and one does not wait."""
_WAIT = 20
_TRIES = 12
_JSON = {"content-type": "application/json"}


def wish(number: int) -> Wish:
    amount = 0.0 if number % 100 == GREEDY else 1_000.0 + number
    seconds = 0.0 if number % 100 == HASTY else None
    return Wish(4000 + number, amount, 12 + number % 48, number, seconds)


class Customers:
    def __init__(self, url: str, key: str, ledger: Path) -> None:
        self._key = key
        self._ledger = ledger.open("a")
        limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
        self._http = httpx.AsyncClient(base_url=url, limits=limits, timeout=_WAIT + 30.0)

    async def all(self, count: int) -> None:
        left = iter(range(1, count + 1))

        async def some() -> None:
            for number in left:
                await self._one(number)

        async with self._http:
            await asyncio.gather(*(some() for _ in range(AT_ONCE)))

    async def _one(self, number: int) -> None:
        name = f"customer-{number}"
        asked = request(RESOURCE, "process", "loan", wish(number), client_id=name, token=self._key)
        await self._post("/drop-off", asked, 202)
        found = await self._post(f"/collection?wait={_WAIT}", collection(asked, token=self._key), 200)
        answer = from_json(found)
        problem = failed(answer)
        self._ledger.write(f"{number} {'quoted' if problem is None else problem.status}\n")
        self._ledger.flush()
        await self._post("/collection", collection(asked, token=self._key, done=True), 204)

    async def _post(self, path: str, envelope: Envelope, wanted: int) -> bytes:
        """Until the gateway has what is wanted. Who is told to come again does so."""
        for _ in range(_TRIES):
            answer = await self._http.post(path, content=to_json(envelope), headers=_JSON)
            if answer.status_code == wanted:
                return answer.content
            if answer.status_code not in (204, 429, 503):
                break
            await asyncio.sleep(float(answer.headers.get("retry-after", 0)))
        raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")


async def main(url: str, key: str, count: str, ledger: str) -> None:
    await Customers(url, key, Path(ledger)).all(int(count))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
