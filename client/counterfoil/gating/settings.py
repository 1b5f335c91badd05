"""Settings shared by both gateways: the console with its keys, and how a settings file is read.

The environment goes before the file. An unknown name in the file is refused: a misspelt limit would be no limit.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

_Part = TypeVar("_Part")
_SECRETS = {"agent_key": "COUNTERFOIL_AGENT_KEY", "executor_key": "COUNTERFOIL_EXECUTOR_KEY"}


class BadSettings(Exception):
    """The gateway was not told what it needs; the message names what is missing or wrong."""


@dataclass(frozen=True)
class ConsoleSettings:
    """The console and the gateway's place in it; keys come from the environment or from files of mode 0600."""

    url: str = "http://localhost:8080"
    agent_id: str = ""
    agent_key: str = field(default="", repr=False)
    executor_key: str = field(default="", repr=False)
    agent_key_file: str = ""
    executor_key_file: str = ""
    executor_id: str = ""
    issuer: str = ""


def read_document(path: Path | None) -> dict[str, Any]:
    """The tables of a settings file."""
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text())
    except OSError as fault:
        raise BadSettings(f"{path} cannot be read: {fault.strerror}.") from fault
    except tomllib.TOMLDecodeError as fault:
        raise BadSettings(f"{path} is not TOML: {fault}.") from fault


def read_part(kind: type[_Part], given: Any, where: str) -> _Part:
    """One table of a settings file as a dataclass; `BadSettings` for an unknown name or a wrong type."""
    if not isinstance(given, dict):
        raise BadSettings(f"[{where}] is a table.")
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise BadSettings(f"Unknown name in [{where}]: {', '.join(unknown)}.")
    if isinstance(given.get("command"), list):
        given = given | {"command": tuple(given["command"])}
    for name, value in given.items():
        _check_type(value, getattr(kind(), name), f"{where}.{name}")
    return kind(**given)


def _check_type(value: Any, example: Any, where: str) -> None:
    if isinstance(example, bool) or isinstance(value, bool):
        fits = isinstance(value, bool) and isinstance(example, bool)
    elif isinstance(example, float):
        fits = isinstance(value, int | float)
    elif isinstance(example, tuple):
        fits = isinstance(value, tuple) and all(isinstance(one, str) for one in value)
    elif isinstance(example, dict):
        fits = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    else:
        fits = isinstance(value, type(example))
    if not fits:
        raise BadSettings(f"{where} has the wrong type.")


def add_keys(console: ConsoleSettings, environment: Mapping[str, str]) -> ConsoleSettings:
    """The settings with the keys that the environment or their files hold."""
    for name, variable in _SECRETS.items():
        file = getattr(console, f"{name}_file")
        if environment.get(variable):
            console = replace(console, **{name: environment[variable].strip()})
        elif file:
            console = replace(console, **{name: read_secret(Path(file).expanduser())})
    return console


def read_secret(path: Path) -> str:
    """Read a secret from a file that this program's own user alone can read."""
    try:
        about = path.stat()
        if about.st_uid != os.geteuid():
            raise BadSettings(f"{path} belongs to another user than the one that reads it.")
        if about.st_mode & 0o077:
            raise BadSettings(f"{path} can be read by others; set its mode to 0600.")
        return path.read_text().strip()
    except UnicodeDecodeError:
        raise BadSettings(f"{path} is no text.") from None
    except OSError as fault:
        raise BadSettings(f"{path} cannot be read: {fault.strerror}.") from fault
