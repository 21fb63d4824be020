"""Builds the native codecs into the wheel where that can be done, and a pure wheel where it cannot.

Needed are Cython, a C compiler and Python's headers. ``DRAGOMAN_PURE=1`` does without.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "dragoman/formats/avro/native"


class Unbuilt(Exception):
    """Why there is no extension."""


class NativeHook(BuildHookInterface):
    """Called by hatchling once per wheel. An editable install gets the extension beside its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root, "src", PLACE)
        self._folder = Path(tempfile.mkdtemp(prefix="dragoman-native-"))
        try:
            built = build(source / "engine.pyx", self._folder)
        except Unbuilt as reason:
            self.app.display_warning(f"Dragoman is built without its native codecs: {reason}.")
            return
        if version == "editable":
            shutil.copy(built, source / built.name)
        else:
            build_data["force_include"][str(built)] = f"{PLACE}/{built.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def build(source: Path, folder: Path) -> Path:
    if os.environ.get("DRAGOMAN_PURE", "") not in ("", "0"):
        raise Unbuilt("DRAGOMAN_PURE is set")
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").exists():
        raise Unbuilt("Python's headers are not installed")
    link = _words("LDSHARED")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    compiler = _compiler()
    if not link or not suffix or compiler is None:
        raise Unbuilt("there is no C compiler")
    code, built = folder / "engine.c", folder / f"engine{suffix}"
    _run("Cython", sys.executable, "-m", "cython", "-3", source, "-o", code)
    # The first word of Python's linking command is the compiler that it was built with.
    words = [*compiler, *link[1:], *_words("CFLAGS"), "-O2", "-g0", *_words("CCSHARED"), f"-I{headers}"]
    _run("the C compiler", *words, code, "-o", built)
    return built


def _words(variable: str) -> list[str]:
    """One of Python's own settings for compiling."""
    return shlex.split(sysconfig.get_config_var(variable) or "")


def _compiler() -> list[str] | None:
    """The user's, else Python's own, else what goes by the usual name."""
    for words in (shlex.split(os.environ.get("CC", "")), _words("CC"), ["cc"]):
        if words and shutil.which(words[0]):
            return words
    return None


def _run(what: str, *command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Unbuilt(f"{what} said: {said[-1] if said else 'nothing'}")
