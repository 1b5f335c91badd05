"""What the example's programs are told through their environment."""

from __future__ import annotations

import os
from pathlib import Path

AGENT_ID = "shop-assistant"
EXECUTOR_ID = "example-executor"


class Missing(SystemExit):
    """A program was not told something that it needs."""


def setting(name: str) -> str:
    """The value of an environment variable, or the end of the process with one clear sentence."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise Missing(f"{name} is not set; `python -m example --help` lists what the example needs.")
    return value


def folder(name: str) -> Path:
    """The folder that an environment variable names, made if it is not there."""
    path = Path(setting(name)).absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path
