"""The example of the stock market, as a person uses it in a browser, and as a program does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
from playwright.async_api import async_playwright

from dragoman.gateway.envelope import collection, failed, from_data, from_json, request, to_json
from tests.gateway.test_http import JSON
from tests.services.chromium import chromium_program

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def stock_market(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import stock_market.__main__ as example

    return example


async def asked(web: httpx.AsyncClient, share: str):
    from stock_market.records import MovementWanted

    wanted = request(
        "service.shares", "select", "movement", MovementWanted(share), client_id="test", security="1"
    )
    dropped = await web.post("/drop-off", content=to_json(wanted), headers=JSON)
    assert dropped.status_code == 202
    found = None
    async with asyncio.timeout(60):
        while found is None or found.status_code == 204:
            ask = to_json(collection(wanted))
            found = await web.post("/collection?wait=20", content=ask, headers=JSON)
    return from_json(found.content)


async def test_movements_are_computed_from_two_prices(stock_market) -> None:
    from stock_market.records import Movement

    async with (
        stock_market.running(slowness=0.0) as places,
        httpx.AsyncClient(base_url=places.gateway, timeout=60.0) as web,
    ):
        found = from_data((await asked(web, "ACME")).data, Movement)
        assert found.change == found.last.close - found.first.close
        assert found.percent == (100 * found.change / found.first.close).quantize(Decimal("0.01"))
        assert found.first.day < found.last.day
        assert failed(await asked(web, "NOWHERE")) == ("Not Found", "There is no price of NOWHERE.")
        refused = request("service.prices", "select", "price", client_id="test", security="1")
        assert (await web.post("/drop-off", content=to_json(refused), headers=JSON)).status_code == 403


async def test_the_page_drops_off_five_requests_and_shows_the_answers(stock_market, tmp_path: Path) -> None:
    program = chromium_program()
    async with stock_market.running(slowness=0.02) as places, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            timeout=180_000,
        )
        try:
            page = await browser.new_page(viewport={"width": 900, "height": 620})
            problems: list[str] = []
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
            page.set_default_timeout(120_000)
            await page.goto(places.page)
            await page.get_by_role("button", name="Ask").click()
            await page.wait_for_function(
                "document.querySelectorAll('#answers tr[data-state=answered]').length === 4"
                " && document.body.innerText.includes('There is no price of NOWHERE.')"
            )
            rows = await page.locator("#answers tr").all_inner_texts()
            picture = Path(os.environ.get("DRAGOMAN_SCREENSHOTS", tmp_path)) / "stock_market.png"
            await page.screenshot(path=picture)
        finally:
            await browser.close()
    assert [row.split()[0] for row in rows] == ["ACME", "BOREAS", "CERES", "EOS", "NOWHERE"]
    assert all("%" in row for row in rows[:4])
    assert picture.stat().st_size > 5_000
    assert problems == []


def test_the_example_starts_as_its_page_says() -> None:
    command = [sys.executable, "-m", "stock_market", "--port", "0", "--page-port", "0"]
    process = subprocess.Popen(command, cwd=EXAMPLES, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        page = line.split()[1].rstrip(";")
        assert "How did these shares move?" in httpx.get(page, timeout=60.0).text
    finally:
        process.terminate()
        process.communicate(timeout=60)
