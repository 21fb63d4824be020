"""How pipelines are doing, in the text that Prometheus reads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.events import Progress

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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


class Metrics:
    """The latest progress of each pipeline, for whoever asks."""

    def __init__(self) -> None:
        self._latest: dict[str, Progress] = {}

    def update(self, progress: Progress) -> None:
        self._latest = {**self._latest, progress.pipeline: progress}

    def text(self) -> str:
        return metrics_text(self._latest.values())

    @contextmanager
    def served(self, port: int, host: str = "") -> Iterator[int]:
        """Answer ``GET /metrics`` while the context lasts; the port, which is a free one for 0."""
        try:
            server = ThreadingHTTPServer((host, port), self._handler())
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
