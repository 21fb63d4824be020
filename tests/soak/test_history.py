"""A history has what was written, whatever happened to its writer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.message import Message
from dragoman.schema.framing import frame
from tests.soak.history import Reader, Writer
from tests.soak.recording import identity_of
from tests.soak.worker import Tick

ROOT = Path(__file__).parents[2]


def test_what_is_written_is_read_as_it_grows(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "history")
    assert reader.read() == []
    writer = Writer(tmp_path / "history")
    writer.write("ready")
    [life, ready] = reader.read()
    assert (life[0], life[2], ready[0]) == ("life", os.getpid(), "ready")
    assert reader.read() == []
    writer.write("handled", 3, 14)
    assert [event[2:] for event in reader.read()] == [[3, 14]]
    assert len(reader.events) == 3


def test_a_torn_line_is_left_out_and_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'["handled",1,0,1]\n["handled",2,0')
    reader = Reader(path)
    assert [event[3] for event in reader.read()] == [1]
    Writer(path).write("handled", 0, 5)
    assert [(event[0], event[-1]) for event in reader.read()] == [("life", os.getpid()), ("handled", 5)]


@given(cut=st.integers(0, 60))
def test_no_part_of_an_event_is_taken_for_an_event(tmp_path_factory, cut: int) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("torn") / "history"
    whole = b'["received",12,0,[[0,1,2,3],[0,4,5,6]]]\n'
    path.write_bytes(whole + whole[: min(cut, len(whole) - 2)] + b"\n")
    assert Reader(path).read() == [["received", 12, 0, [[0, 1, 2, 3], [0, 4, 5, 6]]]]


def test_what_a_killed_process_has_written_is_there(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from tests.soak.history import Writer\n"
        "writer = Writer(Path(sys.argv[1]))\n"
        "writer.write('handled', 0, 0)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    path = tmp_path / "history"
    subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT)
    assert [event[0] for event in Reader(path).read()] == ["life", "handled"]


@given(producer=st.integers(0, 2**31), number=st.integers(0, 2**31))
def test_a_message_tells_which_one_it_is(producer: int, number: int) -> None:
    import io

    import fastavro

    schema = {
        "type": "record",
        "name": Tick.__name__,
        "fields": [{"name": "producer", "type": "long"}, {"name": "number", "type": "long"}],
    }
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, {"producer": producer, "number": number})
    assert identity_of(Message("channel", frame(1, buffer.getvalue()))) == (producer, number)
