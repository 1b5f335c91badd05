"""The settings of the example's programs in their environment."""

from __future__ import annotations

import os
from pathlib import Path

AGENT_ID = "shop-assistant"
EXECUTOR_ID = "example-executor"


class Missing(SystemExit):
    """A program was not told something that it needs, or not so that it can be used."""


def setting(name: str) -> str:
    """The value of an environment variable, or the end of the process with one clear sentence."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise Missing(f"{name} is not set; `python -m example --help` lists what the example needs.")
    return value


def seconds(name: str, usual: int) -> int:
    """A time from the environment, at least one second; the default if it is not set."""
    value = os.environ.get(name, "").strip() or str(usual)
    if not value.isdecimal() or int(value) < 1:
        raise Missing(f"{name} must be a whole number of seconds, not {value!r}.")
    return int(value)


def folder(name: str) -> Path:
    """The folder that an environment variable names, made if it is not there."""
    path = Path(setting(name)).absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path
