"""`python -m benchmarks [names]`: first figures, as ratios within one run. docs/benchmarks.md says what each means."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
import traceback
from datetime import UTC, datetime

from benchmarks.figures import ROOT_PROCESS, TINY, table
from benchmarks.stand import apart, stand

NAMES = (
    "append",
    "ledger",
    "log",
    "propose",
    "gate",
    "approvals",
    "verification",
    "pages",
    "metrics",
    "transcripts",
    "guarding",
    "gateway",
    "http_gateway",
    "tenants",
)
PARTS = {"search": "pages:measure_searches"}
"""Parts of the above, which run only when they are named."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"some of {', '.join(NAMES)}, or search (part of pages)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each side is measured (3)")
    parser.add_argument("--tiny", action="store_true", help="go through everything once; the figures mean nothing")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - {*NAMES, *PARTS}:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    if chosen.tiny:
        os.environ[TINY] = "1"
    # Whoever ends it from outside ends its servers too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ[ROOT_PROCESS] = str(os.getpid())
    load = os.getloadavg()[0]
    failed = []
    with stand() as made:
        for name in chosen.names or NAMES:
            print(f"{name} …", flush=True)
            began = time.monotonic()
            made.database(name)
            try:
                function = f"benchmarks.{PARTS.get(name, f'{name}:measure')}"
                print(f"\n{table(apart(made, name, function, chosen.rounds))}\n")
            except (Exception, SystemExit):  # noqa: BLE001 - the others are still measured
                traceback.print_exc()
                failed.append(name)
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {chosen.rounds} rounds, {os.cpu_count()} processors, {platform.machine()},"
        f" Python {platform.python_version()}, load {load:.1f} at the beginning"
    )
    if failed:
        sys.exit(f"benchmarks: {', '.join(failed)} failed; what they said stands above")


if __name__ == "__main__":
    main()
