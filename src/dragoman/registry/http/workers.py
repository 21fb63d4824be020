"""Several server processes on one port, over one store. One that dies is replaced."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import TypeVar

from dragoman.core.errors import DragomanError
from dragoman.registry.http.logs import LogForm, set_up

Options = TypeVar("Options")

log = logging.getLogger("dragoman.registry")

_TICK = 0.5
_PATIENCE = 15
"""Seconds that a worker gets to finish its requests."""


def run_workers(
    serve: Callable[[Options, socket.socket], None],
    options: Options,
    bound: socket.socket,
    workers: int,
    form: LogForm,
    level: str,
) -> None:
    """Call ``serve``, a function of a module, in each worker, until a signal asks to stop."""
    asked: list[int] = []
    context = multiprocessing.get_context("spawn")

    def start() -> BaseProcess:
        arguments = (serve, options, bound, form, level)
        process = context.Process(target=_work, args=arguments, name="dragoman-worker")
        process.start()
        return process

    with _signals_to(asked):
        running = [start() for _ in range(workers)]
        # No event: its lock, which a signal's handler would need, may be held at that moment.
        while not asked:
            time.sleep(_TICK)
            for number, process in enumerate(running):
                # A signal to all may have ended it, which has come here by then, too.
                if not process.is_alive() and not asked:
                    log.error("a worker died and is replaced", extra={"exit_code": process.exitcode})
                    running[number] = start()
        for process in running:
            process.terminate()
        for process in running:
            process.join(_PATIENCE)
            if process.is_alive():
                log.error("a worker does not stop and is killed", extra={"pid": process.pid})
                process.kill()


def _work(
    serve: Callable[[Options, socket.socket], None],
    options: Options,
    bound: socket.socket,
    form: LogForm,
    level: str,
) -> None:
    set_up(form, level)
    try:
        serve(options, bound)
    except DragomanError as error:
        log.error("a worker cannot serve", extra={"error_code": error.code, "reason": str(error)})
        sys.exit(2)


@contextmanager
def _signals_to(asked: list[int]) -> Iterator[None]:
    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
