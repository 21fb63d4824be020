"""Every snippet of README and the documentation does what it says."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.snippets import Snippet, snippets

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = {"python", "sh"}


def runnable(page: Path) -> bool:
    return any(not snippet.shown_only and snippet.language in RUN for snippet in snippets(page))


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


class Session:
    """One reader who follows one page, in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = ModuleType("__page__")
        sys.modules[self.module.__name__] = self.module
        self.runner = asyncio.Runner()
        self.background: list[subprocess.Popen[bytes]] = []

    def run(self, snippet: Snippet) -> None:
        if "file" in snippet.attributes:
            target = self.folder / snippet.attributes["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(snippet.body)
        if snippet.language == "python":
            self._python(snippet)
        elif snippet.language == "sh":
            self._shell(snippet)

    def _python(self, snippet: Snippet) -> None:
        source = "\n" * (snippet.line) + snippet.body
        code = compile(source, snippet.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, self.module.__dict__)
        if inspect.iscoroutine(result):
            self.runner.run(result)

    def _shell(self, snippet: Snippet) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        command = ["bash", "-euo", "pipefail", "-c", snippet.body]
        environment = {**os.environ, "PATH": path}
        if "background" in snippet.attributes:
            process = subprocess.Popen(command, env=environment, cwd=self.folder, start_new_session=True)
            self.background.append(process)
            wait_for(snippet.attributes["ready"], process)
            return
        done = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, timeout=300)
        expected = int(snippet.attributes.get("exit", "0"))
        output = (done.stdout + done.stderr).decode(errors="replace")
        assert done.returncode == expected, f"{snippet.place} exited {done.returncode}:\n{output}"

    def close(self) -> None:
        for process in self.background:
            os.killpg(process.pid, signal.SIGTERM)
        for process in self.background:
            process.wait(30)
        self.runner.close()
        del sys.modules[self.module.__name__]


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"nothing answers at {address}")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    following = Session(tmp_path)
    yield following
    following.close()


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists() and runnable(page)], ids=page_name)
def test_page_runs_from_top_to_bottom(page: Path, session: Session) -> None:
    for snippet in snippets(page):
        if not snippet.shown_only:
            session.run(snippet)
