"""The common layer needs nothing but Python."""

from __future__ import annotations

import subprocess
import sys

IMPORT_ALL = """
import importlib, pkgutil, sys
before = set(sys.modules)
import dragoman.core
for module in pkgutil.walk_packages(dragoman.core.__path__, "dragoman.core."):
    importlib.import_module(module.name)
added = {name.partition(".")[0] for name in set(sys.modules) - before}
foreign = added - set(sys.stdlib_module_names) - {"dragoman"}
ours = {name for name in sys.modules if name.startswith("dragoman.") and not name.startswith("dragoman.core")}
print(sorted(foreign), sorted(ours))
"""


def test_core_imports_only_the_standard_library() -> None:
    found = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=True, timeout=60
    )
    foreign, ours = found.stdout.strip().split("] [")
    assert foreign == "["
    assert set(ours.strip("]'").split("', '")) <= {""}, "core imports other layers"
