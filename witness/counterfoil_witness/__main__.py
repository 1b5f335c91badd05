"""`counterfoil-witness`: run a witness of transparency logs.

Run it on a machine that others control: compliance, a subsidiary or the auditor. It opens no database
but its own file and makes no outgoing connections.
"""

from __future__ import annotations

import argparse
import signal
import sqlite3
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from counterfoil_tlog.notes import COSIGNATURE, ED25519, BadVerifierKey, Verifier, is_name, read_vkey, vkey
from counterfoil_witness.memory import UnusableState, open_state
from counterfoil_witness.server import WitnessServer, WitnessService

PORT = 8470


class TrustedLogs:
    """The logs that a file lists, one verifier key a line; read again on SIGHUP, and kept when it is wrong then."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.keys = load_log_keys(file)

    def __call__(self) -> Sequence[Verifier]:
        return self.keys

    def again(self) -> None:
        try:
            self.keys = load_log_keys(self.file)
        except UnusableState as wrong:
            sys.stderr.write(f"witness: {wrong} The previous list stays in use.\n")


def load_log_keys(file: Path) -> tuple[Verifier, ...]:
    """The keys in a file of logs."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise UnusableState(f"{file} cannot be read: {problem}.") from None
    found = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            key = read_vkey(text)
        except BadVerifierKey:
            raise UnusableState(f"{file}, line {number}: not a log's verifier key.") from None
        if key.kind != ED25519:
            raise UnusableState(f"{file}, line {number}: this is a witness's key, not a log's.")
        found.append(key)
    return tuple(found)


def main(argv: Sequence[str] | None = None) -> int:
    """The whole process: until SIGTERM or SIGINT, with 0; 2 and one sentence when it cannot start."""
    asked = _arguments().parse_args(argv)
    try:
        if asked.name is not None and not is_name(asked.name):
            raise UnusableState(f"{asked.name!r} is not a valid witness name: it must not contain spaces or a plus.")
        memory, key = open_state(asked.folder, asked.name)
        public = vkey(memory.name, key.public_key(), COSIGNATURE)
        if asked.vkey or asked.heads:
            sys.stdout.write(f"{public}\n" if asked.vkey else b"\n".join(memory.notes()).decode())
            return 0
        if asked.logs is None:
            raise UnusableState("Name the logs to watch with --logs FILE: one verifier key a line.")
        logs = TrustedLogs(asked.logs)
        server = WitnessServer(
            asked.host, asked.port, WitnessService(name=memory.name, key=key, memory=memory, logs=logs)
        )
    except (UnusableState, OSError, sqlite3.Error) as refused:
        sys.stderr.write(f"witness: {refused}\n")
        return 2
    signal.signal(signal.SIGHUP, lambda *_: logs.again())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    sys.stdout.write(f"{public}\nlistening on {server.server_name}:{server.server_port}, {len(logs.keys)} log keys\n")
    sys.stdout.flush()
    with server:
        server.serve_forever(poll_interval=0.2)
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="counterfoil-witness", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder for its key and its signed heads")
    parser.add_argument("--name", help="name of the witness: an address without https:// (only at the first start)")
    parser.add_argument("--logs", type=Path, help="file of the logs to watch, one verifier key a line")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, help=f"port to listen on ({PORT}; 0 for any)")
    parser.add_argument("--heads", action="store_true", help="print the stored signed heads and exit")
    parser.add_argument("--vkey", action="store_true", help="print the witness's verifier key and exit")
    return parser


if __name__ == "__main__":
    sys.exit(main())
