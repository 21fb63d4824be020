"""The small examples do what they say."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.examples.programs import EXAMPLES, Program


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its classes are looked up by the name of their module.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_the_plain_script_prints_three_quotes() -> None:
    async with Program(str(EXAMPLES / "plain_script" / "quotes.py")) as script:
        lines = [await script.line() for _ in range(3)]
        assert await asyncio.wait_for(script.wait(), 60) == 0
    assert lines == ["1000 at 3.4 %", "10000 at 2.9 %", "100000 at 2.9 %"]


def test_the_web_application_takes_orders_and_gives_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DRAGOMAN_BROKER", "DRAGOMAN_REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    app = loaded(EXAMPLES / "fastapi_app" / "app.py").app
    with TestClient(app) as browser:
        assert browser.post("/orders", json={"number": 7, "item": "tea"}).status_code == 202
        for _ in range(30):
            found: httpx.Response = browser.get("/orders/7")
            if found.status_code == 200:
                break  # It is handled in the background, so that may be a moment later.
        assert found.json() == {"number": 7, "item": "tea"}
        assert (tmp_path / ".dragoman").is_dir()
