"""A second server on a slow disk: a shim in front of its C library adds one millisecond to each fsync and fdatasync.

The embedded servers write to whatever disk there is, often one that is far faster than network storage. All else is as
on the first server; the shim is compiled with `cc`, and without one there is no figure.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.stand import Stand, prepare
from console.local import processes, servers
from console.local.keys import ensure_keys

SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
    usleep(1000);
    return real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    usleep(1000);
    return real(file);
}
"""


@contextmanager
def slow_disk(stand: Stand) -> Iterator[Stand | None]:
    """The same stand with a slow server in the place of its own; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        yield None
        return
    folder = servers.private_folder(stand.folder / "slow", stand.postgres.account)
    ensure_keys(folder / "secrets")
    slow = replace(stand.postgres, folder=folder / "postgres", port=servers.free_port())
    slow.initialise()
    program = slow.program()
    shim = _compiled(compiler, folder)
    child = processes.spawn(replace(program, environment=dict(program.environment) | {"LD_PRELOAD": str(shim)}))
    processes.record_processes(stand.folder / "slow.running", [child])
    try:
        slow.wait(child)
        made = Stand(folder=folder, postgres=slow, valkey=stand.valkey)
        prepare(made)
        yield made
    finally:
        processes.stop_children([child])


def _compiled(compiler: str, folder: Path) -> Path:
    source, shim = folder / "slow.c", folder / "slow.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(shim), str(source), "-ldl"], check=True)
    shim.chmod(0o755)
    return shim
