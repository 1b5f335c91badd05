"""Another clock for the processes of a drill: wrong by a fixed difference, or moved forward while they run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("wrong_clock.c")


class NoCompiler(Exception):
    """The clock cannot be compiled here; the message says why."""


def compile_clock(folder: Path) -> Path:
    """The library that processes preload, compiled into a folder."""
    library = folder / "wrong_clock.so"
    if shutil.which("cc") is None:
        raise NoCompiler("cc is not installed (Debian's package gcc)")
    made = subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], capture_output=True, text=True)
    if made.returncode != 0:
        raise NoCompiler(f"cc cannot compile {SOURCE.name}: {made.stderr.strip()[-300:]}")
    return library


class MovableClock:
    """One clock for all processes that have its `environment`; it is put forward while they run."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self._ahead_s = 0.0
        library = compile_clock(folder)
        self._write()
        # PostgreSQL runs as another user.
        self._file.chmod(0o644)
        library.chmod(0o755)
        self.environment = {"LD_PRELOAD": str(library), "WRONG_CLOCK_FILE": str(self._file)}

    def forward(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self._ahead_s += seconds
        self._write()

    def _write(self) -> None:
        # In place: the processes have the file mapped.
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(round(self._ahead_s * 1000).to_bytes(8, "little", signed=True))
