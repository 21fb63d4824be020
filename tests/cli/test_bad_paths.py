"""Each command with a path that cannot be used says what, where and what next, and shows no stack."""

from __future__ import annotations

import errno
import gc
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli import application, main, output
from dragoman.core.errors import ConfigurationError, DragomanError
from dragoman.core.loading import BROKERS, DATABASES, load, path_of
from dragoman.registry import connect

SCHEMA = '{"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}'
MODEL = (Path(__file__).parents[2] / "examples" / "models" / "loan-broker.mdsl").read_text()

KINDS = {
    "a text file": "file",
    "a file of bytes": "bytes",
    "a folder": "folder",
    "nothing": "no/such/thing",
    "below a file": "file/below",
    "a link to itself": "loop",
    "a link to nothing": "dangling",
    "a name that is too long": "x" * 300,
    "no place for files": "/proc/none/x",
}

FREE = {"a folder", "nothing"}
"""A broker takes a folder, and makes one."""
NEW = {"nothing"}
"""A database is made where there is none."""
WRITTEN = {"a text file", "a file of bytes", "a folder", "nothing"}
"""What is written may replace a file, or be put into a folder."""

COMMANDS: dict[str, set[str]] = {
    "registry list --registry sqlite://{}": NEW,
    "registry register a {}": set(),
    "registry check {}": {"a folder"},
    "registry serve --port 0 --store sqlite://{}": NEW,
    "registry serve --port 0 --certificate {} --key {}": set(),
    "registry code a-value -o {}": WRITTEN,
    "registry export {}": FREE,
    "registry import {}": set(),
    "registry backup {}": set(),
    "registry migrate --registry sqlite://{}": NEW,
    "registry keys list --registry sqlite://{}": NEW,
    "channel list --broker embedded://{}": FREE,
    "channel create a --broker embedded://{}": FREE,
    "channel publish a --file {}": set(),
    "channel publish a 1 --registry sqlite://{}": set(),
    "channel bridge embedded://{}/a memory://b/a --idle 0.1": set(),
    "gateway serve --port 0 --public s --config {}": set(),
    "gateway serve --port 0 --public s --store sqlite://{}": NEW,
    "gateway serve --port 0 --public s --secret-file {}": {"a text file", *NEW},
    "gateway serve --port 0 --public s --inside-secret-file {}": {"a text file"},
    "gateway serve --port 0 --public s --sep-key {}": set(),
    "gateway serve --port 0 --public s --certificate {} --key {}": set(),
    "gateway serve --port 0 --public s --broker embedded://{}": FREE,
    "gateway serve --port 0 --public s --registry sqlite://{}": NEW,
    "gateway check --config {}": set(),
    "gateway sep-key {}": NEW,
    "gateway keys list --store sqlite://{}": NEW,
    "gateway keys create a --resource s --days 3 --store sqlite://{}": NEW,
    "model lint {}": set(),
    "model format {}": set(),
    "model diagram {}": set(),
    "model asyncapi ok.mdsl -o {}": WRITTEN,
    "model diagram ok.mdsl -o {}": WRITTEN,
    "model schema ok.mdsl -o {}": WRITTEN,
    "model code ok.mdsl {}": WRITTEN,
    "model plan ok.mdsl --discovery file://{}": set(),
    "model apply ok.mdsl --registry sqlite://{}": NEW,
    "topology list --discovery file://{}": set(),
    "topology explain prices --folder {} --admin kafka://127.0.0.1:1": {"a folder"},
    "topology key alice {}": NEW,
    "saga list --database sqlite://{}": set(),
    "doctor --broker embedded://{}": FREE,
    "doctor --registry sqlite://{}": NEW,
}
"""With the kinds of paths that they take. Those are left out: servers would go on running."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # A server tunes its process and its logs.
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *counts: None)
    monkeypatch.setattr("dragoman.registry.http.logs.set_up", lambda form, level: None)
    (tmp_path / "file").write_text("not what is wanted\n" * 50)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00\x01" * 300)
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("no/such/place")
    (tmp_path / "a.avsc").write_text(SCHEMA)
    (tmp_path / "ok.mdsl").write_text(MODEL)
    return tmp_path


def told(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[DragomanError]]:
    """The exit code of a command, and the errors that it explained."""
    errors: list[DragomanError] = []

    def explain(error: DragomanError, *, as_json: bool = False) -> None:
        errors.append(error)

    monkeypatch.setattr(output, "explain", explain)
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0), errors


@pytest.mark.parametrize(
    ("command", "kind"),
    [(command, kind) for command, taken in COMMANDS.items() for kind in KINDS if kind not in taken],
)
def test_a_path_that_cannot_be_used_is_told(
    command: str, kind: str, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if "registry code" in command:
        told(["registry", "register", "a-value", "a.avsc"], monkeypatch)
    code, errors = told(command.format(*[KINDS[kind]] * 2).split(), monkeypatch)
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err
    if command.startswith("doctor"):
        assert code == 1, "it lists what is wrong"
        return
    assert code == 2
    if not errors:
        usage = "Usage:" in said.err
        assert usage or f"{KINDS[kind]}:1:" in said.out + said.err, "by the parser, or with a line"
        return
    [error] = errors
    assert error.code
    assert error.what
    assert error.next, f"{error.code} does not say what to do: {error}"


def test_every_group_of_commands_is_here() -> None:
    from dragoman.cli import NOUNS

    tried = {command.split()[0] for command in COMMANDS}
    assert {*NOUNS} - tried == {"pipeline", "config"}, "pipelines need Spark; settings have no paths here"
    assert application([])


@pytest.mark.parametrize("words", ["registry serve --port", "gateway serve --public s --port"])
def test_a_port_in_use_is_told(words: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, [error] = told([*words.split(), str(taken.getsockname()[1])], monkeypatch)
    assert code == 2
    assert "Address already in use" in error.what
    assert error.next


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
from dragoman.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    "words",
    [
        "registry list",
        "registry register a-value a.avsc",
        "registry backup new.backup",
        "channel create a",
        "gateway keys create a --resource s --days 3",
        "gateway serve --port 0 --public s",
        "registry serve --port 0",
        "model asyncapi ok.mdsl -o new.yaml",
        "model code ok.mdsl new",
    ],
)
def test_a_disk_with_no_room_is_told(words: str, place: Path) -> None:
    """No file may grow: what a full disk does, too. Compiled modules, which others read, are not written."""
    command = [sys.executable, "-c", FULL, *words.split()]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    [said] = [line for line in ended.stderr.splitlines() if line.startswith("error ")]
    assert "Try again" not in ended.stderr, "the reason is shown"
    assert len(ended.stderr[ended.stderr.index(said) :].splitlines()) >= 2, "and what to do"


def test_output_that_cannot_be_written_is_told(place: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "dragoman.cli", "doctor", "--json"]
        ended = subprocess.run(
            command, cwd=place, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert os.strerror(errno.ENOSPC) in ended.stderr


@pytest.mark.parametrize("url", ["embedded://data", "kafka://localhost:9092", "memory.db"])
def test_a_broker_is_not_taken_for_a_registry(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        connect(url)
    if "://" in url:
        assert "that of a broker" in caught.value.what
        assert "sqlite://FOLDER/registry.db" in caught.value.next
    assert "dragoman.databases" not in str(caught.value)


@pytest.mark.parametrize(
    ("group", "name", "said"),
    [
        (DATABASES, "embedded", "There is no database of the kind 'embedded'. That is a broker."),
        (BROKERS, "sqlite", "There is no broker of the kind 'sqlite'. That is a database."),
        (BROKERS, "pulsar", "There is no broker of the kind 'pulsar'."),
    ],
)
def test_a_url_of_another_kind_says_which(group: str, name: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(group, name)
    assert caught.value.what == said
    assert "dragoman." not in str(caught.value)
    assert caught.value.next.startswith("Use one of these: ")


def test_a_path_with_a_null_byte_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="null byte"):
        path_of("sqlite://a%00b")
