"""How pipelines are doing, in the text that Prometheus reads."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.events import Progress

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LOCAL = "127.0.0.1"
HEAD_S = 10.0
"""How long a connection may take in all: it carries one request, and both are small."""
MOST_CONNECTIONS = 16
"""At once. The oldest is closed for one more."""


def metrics_text(pipelines: Iterable[Progress]) -> str:
    """Counters since each pipeline's first batch; rate and lag as they are now."""
    found = list(pipelines)
    rows = [(each.pipeline, "valid", each.valid) for each in found]
    rows += [(each.pipeline, "quarantined", each.quarantined) for each in found]
    messages = [f'{{pipeline="{_quoted(name)}",outcome="{outcome}"}} {n}' for name, outcome, n in rows]
    families = [
        _family("messages_total", "counter", "Messages that are in the tables or in quarantine.", messages),
        _of_each(found, "batches_total", "counter", "Batches that are in the tables.", "batch", 1),
        _of_each(found, "rows_per_second", "gauge", "Speed of the last batch.", "rows_per_second"),
        _of_each(found, "lag_messages", "gauge", "Messages that are in no batch yet.", "behind"),
    ]
    return "".join(families)


def _of_each(found: list[Progress], name: str, kind: str, text: str, field: str, more: int = 0) -> str:
    values = [(each.pipeline, getattr(each, field)) for each in found]
    samples = [
        f'{{pipeline="{_quoted(pipeline)}"}} {value + more}'
        for pipeline, value in values
        if value is not None
    ]
    return _family(name, kind, text, samples)


def _family(name: str, kind: str, text: str, samples: list[str]) -> str:
    full = f"dragoman_pipeline_{name}"
    return f"# HELP {full} {text}\n# TYPE {full} {kind}\n" + "".join(f"{full}{each}\n" for each in samples)


def _quoted(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class _Server(ThreadingHTTPServer):
    """A thread for each connection, but only for so many, and not for long."""

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], head_s: float
    ) -> None:
        self._head_s = head_s
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Timer] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        timer = threading.Timer(self._head_s, self._cut_off, [request])
        timer.daemon = True
        with self._lock:
            too_many = list(self._open)[: max(0, len(self._open) + 1 - MOST_CONNECTIONS)]
            self._open[request] = timer
        for each in too_many:
            self._cut_off(each)
        timer.start()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._forget(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        for each in list(self._open):
            self._cut_off(each)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves, or is cut off, is no error of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def _cut_off(self, request: socket.socket) -> None:
        """Its thread finds that there is nothing more to read, and closes it."""
        if self._forget(request):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def _forget(self, request: socket.socket) -> bool:
        with self._lock:
            timer = self._open.pop(request, None)
        if timer is not None:
            timer.cancel()
        return timer is not None


class Metrics:
    """The latest progress of each pipeline, for whoever asks."""

    def __init__(self) -> None:
        self._latest: dict[str, Progress] = {}

    def update(self, progress: Progress) -> None:
        self._latest = {**self._latest, progress.pipeline: progress}

    def text(self) -> str:
        return metrics_text(self._latest.values())

    @contextmanager
    def served(self, port: int, host: str = LOCAL, head_s: float = HEAD_S) -> Iterator[int]:
        """Answer ``GET /metrics`` while the context lasts; the port, which is a free one for 0."""
        try:
            server = _Server((host, port), self._handler(), head_s)
        except OSError as error:
            raise ConfigurationError(
                f"Metrics cannot be served: {error.strerror}.", next="Choose another port.", port=port
            ) from error
        thread = threading.Thread(target=server.serve_forever, name="dragoman-metrics", daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        metrics = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                body = metrics.text().encode()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """A line for each scrape says nothing."""

        return Handler
