"""Inside a node: what is parsed is kept within limits, and closing leaves nobody waiting."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.registry.schemas import avro

from dragoman.core.errors import RegistryUnavailable
from dragoman.registry import RegistryService, parsing
from dragoman.registry.http.server import Server, ServerOptions


def test_parsed_schemas_are_kept_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = RegistryService.open("sqlite://:memory:").engine
    texts = [avro((f"field{number}", "long")).text for number in range(3)]

    def parse(text: str) -> object:
        return engine.read_now(lambda tx: engine.parser.parse(tx, "AVRO", text)).schema

    first = parse(texts[0])
    assert parse(texts[0]) is first
    monkeypatch.setattr(parsing, "_MOST_CHARACTERS", 2 * len(texts[0]))
    parse(texts[1])
    assert parse(texts[0]) is first
    last = parse(texts[2])
    assert parse(texts[2]) is last
    assert parse(texts[0]) is first
    parse(texts[1])
    assert parse(texts[2]) is not last
    engine.close()


@pytest.mark.parametrize("attempt", range(20))
def test_a_write_while_the_registry_closes_is_done_or_refused(attempt: int) -> None:
    engine = RegistryService.open("sqlite://:memory:").engine
    start = threading.Barrier(5)

    def write() -> bool:
        start.wait(30)
        try:
            engine.write_now(lambda tx: tx.execute("SELECT 1"))
        except RegistryUnavailable:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        writing = [threads.submit(write) for _ in range(4)]
        start.wait(30)
        engine.close()
        assert all(each.result(30) in (True, False) for each in writing)


def test_a_server_that_never_ran_can_be_closed() -> None:
    Server(ServerOptions(store="sqlite://:memory:", port=0)).close()
