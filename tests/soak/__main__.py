"""Disturb the brokers, and tell what became of the messages.

    python -m tests.soak [SCHEME ...] [--run NAME ...] [--messages 200000] [--page FILE] [--keep FOLDER]

Without ``--run`` it is the soak: members are killed all the time, and the server twice.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.services.server import Server, ServiceUnavailable
from tests.soak.brokers import SCHEMES, SERVERS
from tests.soak.page import Row, with_results
from tests.soak.runs import RUNS, SOAK, conduct, is_good, suits

MESSAGES = {SOAK: 200_000}
MESSAGES_DEFAULT = 6_000


def main() -> int:
    given = _parser().parse_args()
    runs = RUNS if given.run == ["all"] else given.run
    rows = []
    for scheme in given.schemes:
        with _folder() as folder, _serving(scheme, folder) as server:
            for run in runs:
                if suits(run, scheme):
                    row = _row(run, scheme, folder / run, given, server)
                    if row is not None:
                        rows.append(row)
    if given.page is not None:
        given.page.write_text(with_results(given.page.read_text(), rows, _command(given)))
    return 0 if all(row.is_good for row in rows) else 1


def _command(given: argparse.Namespace) -> str:
    """What makes the same runs again."""
    schemes = [] if given.schemes == SCHEMES else given.schemes
    messages = [] if given.messages is None else ["--messages", str(given.messages)]
    return " ".join(["python -m tests.soak", *schemes, "--run", *given.run, *messages])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description="Disturb everything, lose nothing."
    )
    parser.add_argument("schemes", nargs="*", default=SCHEMES, metavar="scheme", help=", ".join(SCHEMES))
    parser.add_argument(
        "--run", nargs="+", default=[SOAK], metavar="NAME", help=f"all, or some of {', '.join((SOAK, *RUNS))}"
    )
    parser.add_argument("--messages", type=int)
    parser.add_argument("--page", type=Path, help="the page of guarantees to write the results to")
    parser.add_argument(
        "--keep", type=Path, help="keep the histories of runs that were not good in this folder"
    )
    return parser


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A short path that servers with users of their own may pass."""
    with tempfile.TemporaryDirectory(prefix="soak-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@contextlib.contextmanager
def _serving(scheme: str, folder: Path) -> Iterator[Server | None]:
    if scheme not in SERVERS:
        yield None
        return
    server = SERVERS[scheme](folder / scheme)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _row(run: str, scheme: str, folder: Path, given: argparse.Namespace, server: Server | None) -> Row | None:
    folder.mkdir()
    messages = given.messages or MESSAGES.get(run, MESSAGES_DEFAULT)
    try:
        report = conduct(run, scheme, folder, messages, server)
    except ServiceUnavailable as error:
        print(f"{scheme}, {run}: left out: {error}", flush=True)
        return None
    good = is_good(run, scheme, report)
    print(f"{scheme}, {run}: {'good' if good else 'FAILED'}: {report}", flush=True)
    if given.keep is not None:
        shutil.copytree(folder, given.keep / f"{scheme}-{run}", dirs_exist_ok=True)
    return Row(scheme, run, report, good)


if __name__ == "__main__":
    raise SystemExit(main())
