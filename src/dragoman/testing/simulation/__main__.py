"""``python -m dragoman.testing.simulation``: run seeds, replay one, shrink what fails."""

from __future__ import annotations

import argparse
import sys
import time

from dragoman.testing.simulation.scenario import shrink, try_seed
from dragoman.testing.simulation.worlds import WORLDS


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dragoman.testing.simulation", description=__doc__)
    parser.add_argument(
        "worlds", nargs="*", metavar="WORLD", help=f"one of {', '.join(WORLDS)}; default: all"
    )
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds of each world (1000)")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.worlds if name not in WORLDS]
    if unknown:
        parser.error(f"no world is named {unknown[0]!r}; there are {', '.join(WORLDS)}")
    seeds = range(given.first, given.first + given.seeds) if given.seed is None else [given.seed]
    for name in given.worlds or WORLDS:
        world, started = WORLDS[name](), time.perf_counter()
        for seed in seeds:
            failure = try_seed(world, seed)
            if failure is not None:
                print(failure)  # noqa: T201
                print(f"\nShrunk:\n{shrink(world, failure)}")  # noqa: T201
                return 1
        print(f"{name}: {len(seeds)} seeds in {time.perf_counter() - started:.1f} s, no failure")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
