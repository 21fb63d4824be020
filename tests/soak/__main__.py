"""The full soak: ``python -m tests.soak [SCHEME ...] [--messages 200000]``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from dragoman.core.broker import Ordering
from dragoman.core.loading import BROKERS, load
from tests.soak.brokers import SCHEMES, SERVERS, embedded
from tests.soak.conductor import Conductor, Plan, Report


def soak(scheme: str, plan: Plan, folder: Path) -> Report:
    if scheme == "embedded":
        return Conductor(folder, embedded(folder), plan, None).run()
    server = SERVERS[scheme](folder / scheme)
    server.start()
    try:
        return Conductor(folder, server.url, plan, server).run()
    finally:
        server.stop()


def is_good(scheme: str, report: Report) -> bool:
    ordered = load(BROKERS, scheme).capabilities.ordering is Ordering.PARTITION
    return not report.lost and not (ordered and report.unordered)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill everything, lose nothing.")
    parser.add_argument("schemes", nargs="*", default=SCHEMES, metavar="scheme", help=", ".join(SCHEMES))
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--patience", type=float, default=900.0, help="seconds per broker")
    given = parser.parse_args()
    plan = Plan(given.messages, batch=given.batch, patience=given.patience)
    failed = 0
    for scheme in given.schemes:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            Path(folder).chmod(0o755)
            report = soak(scheme, plan, Path(folder))
        good = is_good(scheme, report)
        failed += not good
        print(f"{scheme}: {'good' if good else 'FAILED'}: {report}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
