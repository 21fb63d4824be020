"""Follow one page from top to bottom: ``python -m tests.docs.follow PAGE``, in an empty folder."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

from dragoman.cli import application
from tests.docs.snippets import Snippet, snippets

PATIENCE = 120.0


class Session:
    """One reader who follows one page, in an empty folder."""

    def __init__(self) -> None:
        self.folder = Path.cwd()
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
        lines = snippet.body.strip().splitlines()
        if all(line.startswith("dragoman pipeline ") for line in lines):
            for line in lines:
                self._pipeline(line, snippet)
        else:
            self._bash(snippet)

    def _pipeline(self, line: str, snippet: Snippet) -> None:
        """In this process, so that the page's Spark serves all its commands."""
        try:
            application(words := shlex.split(line)[1:])(words, prog_name="dragoman")
        except SystemExit as ended:
            assert ended.code in (0, None), f"{snippet.place} exited {ended.code}: {line}"

    def _bash(self, snippet: Snippet) -> None:
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
            process.wait(PATIENCE)
        self.runner.close()
        del sys.modules[self.module.__name__]


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"nothing answers at {address}")


def main(page: Path) -> None:
    session = Session()
    try:
        for snippet in snippets(page):
            if not snippet.shown_only:
                print(f"-- {snippet.place} {snippet.language}", flush=True)
                session.run(snippet)
    finally:
        session.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
