"""The units of deploy/systemd as this test suite runs them: read as systemd reads them, with other folders."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from string import Template

from console.local.installation import ROOT

UNITS = ROOT / "deploy" / "systemd"
WORD = "not-a-real-password"


@dataclass(frozen=True)
class Unit:
    """A service: what it runs, what its environment is, and how long it may take to end."""

    name: str
    argv: list[str]
    environment: dict[str, str]
    stop_s: float


def lines_of(file: Path) -> list[tuple[str, str]]:
    """The settings of a unit in order, with continued lines joined; a name may stand more than once."""
    text = file.read_text().replace("\\\n", " ")
    settings = [line for line in text.splitlines() if "=" in line and not line.startswith("#")]
    return [(name, value) for name, _, value in (line.partition("=") for line in settings)]


def moved(text: str, folder: Path) -> str:
    """The same with the paths of an installed Counterfoil below `folder`, and the programs in this checkout."""
    text = text.replace("/opt/counterfoil-witness/bin/", "/opt/counterfoil/.venv/bin/")
    return re.sub(
        "/(etc|var/lib|opt)/counterfoil",
        lambda found: str(ROOT) if found[1] == "opt" else f"{folder}{found[0]}",
        text,
    )


def variables(file: Path) -> dict[str, str]:
    """What a file of variables sets, as systemd, compose and kubectl read it."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def examples() -> dict[str, dict[str, str]]:
    """The examples of environment files in deploy/, by the name of the file that each is for."""
    return {file.name.removesuffix(".example"): variables(file) for file in (ROOT / "deploy").glob("*.env.example")}


def on_this_machine(value: str, *, postgres: int, broker: int, state: int = 0) -> str:
    """The same address with servers of this machine, and their password, in place of those of the examples."""
    value = value.replace("@state.example.org:5432", f"@127.0.0.1:{state}")
    value = re.sub(r"^(postgresql://\w+)(.*?)@[a-z]+\.example\.org:\d+", rf"\1\2@127.0.0.1:{postgres}", value)
    value = re.sub(r"^rediss://:CHANGE-ME@[a-z.]+:\d+", f"redis://:CHANGE-ME@127.0.0.1:{broker}", value)
    return value.replace("CHANGE-ME", WORD).replace("sslmode=verify-full", "sslmode=disable")


def known_settings() -> set[str]:
    """The names that the settings read from the environment."""
    return set(re.findall(r'"([A-Z]+(?:_[A-Z0-9]+)+)"', (ROOT / "console" / "settings.py").read_text()))


def without_addresses(line: list[str]) -> list[str]:
    """A command line without the program's path, and without the values that are each place's own."""
    kept = list(line[1:])
    for flag in ("--host", "--port", "--forwarded-allow-ips", "--folder", "--name", "--logs"):
        if flag in kept:
            del kept[kept.index(flag) + 1]
    return kept


def unit(name: str, folder: Path) -> Unit:
    """A service of deploy/systemd, with the environment files that it names."""
    settings = [(key, moved(value, folder)) for key, value in lines_of(UNITS / f"counterfoil-{name}.service")]
    environment: dict[str, str] = {}
    for key, value in settings:
        if key == "Environment":
            environment |= dict(part.split("=", 1) for part in shlex.split(value))
        elif key == "EnvironmentFile":
            environment |= variables(Path(value))
    found = dict(settings)
    command = Template(found["ExecStart"]).safe_substitute(environment)
    return Unit(name, shlex.split(command), environment, float(found.get("TimeoutStopSec", 90)))
