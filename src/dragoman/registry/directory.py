"""An export as a directory of small files, fit for Git: the same registry gives the same bytes.

registry.json                        settings and modes
contracts/orders-value/contract.json ids, versions, channels
contracts/orders-value/1.avsc        one file for each version's schema
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from dragoman.core.errors import ConfigurationError
from dragoman.registry.bundle import Bundle, ContractEntry, from_value

SUFFIXES = {"AVRO": ".avsc", "JSON": ".json", "PROTOBUF": ".proto", "THRIFT": ".thrift"}
_LONGEST = 150


def write_directory(bundle: Bundle, target: Path) -> int:
    """Write an export, replacing an earlier one in the same place; the number of files."""
    _check_target(target)
    target.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target / "contracts", ignore_errors=True)
    written = sum(_write_contract(each, target / "contracts") for each in bundle.contracts)
    scopes = msgspec.to_builtins(bundle.scopes)
    head = {"format": bundle.format, "contexts": bundle.contexts, "scopes": scopes}
    if bundle.high_ids:
        head["high_ids"] = bundle.high_ids
    _write_json(target / "registry.json", head)
    return written + 1


def _check_target(target: Path) -> None:
    if target.is_dir() and any(target.iterdir()) and not (target / "registry.json").is_file():
        raise ConfigurationError(
            f"{target} has other files in it.", next="Export into an empty directory, or an earlier export."
        )


def _write_contract(contract: ContractEntry, folder: Path) -> int:
    place = folder / file_name(contract.name)
    place.mkdir(parents=True, exist_ok=True)
    value: dict[str, Any] = msgspec.to_builtins(contract)
    for version in value.get("versions", ()):
        text = version.pop("schema")
        version["file"] = f"{version['version']}{SUFFIXES.get(version['type'], '.txt')}"
        (place / version["file"]).write_text(_pretty(version["type"], text), encoding="utf-8", newline="\n")
        if _pretty(version["type"], text) != text:
            version["compact"] = True
    _write_json(place / "contract.json", value)
    return len(value.get("versions", ())) + 1


def _pretty(type: str, text: str) -> str:
    """Compact JSON is laid out for reading, if it can be made compact again to the letter."""
    if type not in ("AVRO", "JSON"):
        return text
    try:
        value = json.loads(text)
        laid_out = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        return laid_out if _compact(laid_out) == text else text
    except (ValueError, RecursionError):
        return text


def _compact(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)


def read_directory(source: Path) -> Bundle:
    head = _read_json(source / "registry.json")
    contracts = [_read_contract(path) for path in sorted(source.glob("contracts/*/contract.json"))]
    return from_value({**head, "contracts": contracts})


def _read_contract(path: Path) -> dict[str, Any]:
    value = _read_json(path)
    for version in value.get("versions", ()):
        name = str(version.pop("file", ""))
        if not name or Path(name).name != name:
            raise ConfigurationError(f"{name!r} is not a file of this contract.", path=str(path))
        try:
            text = path.with_name(name).read_text(encoding="utf-8")
            version["schema"] = _compact(text) if version.pop("compact", False) else text
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"The schema cannot be read: {error}.", path=str(path)) from error
    return value


def file_name(name: str) -> str:
    """A contract's name as one that every file system takes."""
    quoted = quote(name, safe="")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if len(quoted) <= _LONGEST:
        return quoted
    return f"{quoted[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error}.", next="Is this the directory of an export?"
        ) from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path} is not part of an export.")
    return value
