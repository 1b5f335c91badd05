"""`counterfoil-tlog`: check a signed head, or the proof of an entry under one, by a policy file of one's own.

Prints the head, who cosigned it and when. The exit code is 0 when it holds under the policy, 1 when witnesses are
missing, 2 when it does not hold at all or a file cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from counterfoil_tlog import proof, witness_policy
from counterfoil_tlog.merkle import leaf_hash
from counterfoil_tlog.refusals import Refused
from counterfoil_tlog.witness_policy import CheckpointStatus


def main(argv: Sequence[str] | None = None) -> int:
    """The whole program."""
    wanted = _arguments().parse_args(argv)
    try:
        policy = witness_policy.read(wanted.policy.read_bytes())
        data = wanted.file.read_bytes()
        if wanted.entry is None:
            status = witness_policy.evaluate_checkpoint(policy, data)
        else:
            leaf = leaf_hash(wanted.entry.read_bytes())
            status = proof.check_proof(proof.parse(data), leaf=leaf, policy=policy)
    except (Refused, OSError) as problem:
        sys.stderr.write(f"counterfoil-tlog: {problem}\n")
        return 2
    sys.stdout.write(_describe(status))
    return 0 if status.satisfied else 1


def _describe(status: CheckpointStatus) -> str:
    lines = [f"origin  {status.head.origin}", f"size    {status.head.size}", f"root    {status.head.root.hex()}"]
    for name, seconds in status.cosigned.items():
        lines.append(f"cosigned by {name} at {datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}")
    if not status.satisfied:
        lines.append("The quorum of the policy is not met: other histories may have been shown to others.")
    return "".join(f"{line}\n" for line in lines)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="counterfoil-tlog", description=__doc__)
    parser.add_argument("--policy", type=Path, required=True, help="which logs and witnesses you trust (tlog-policy)")
    parser.add_argument("--entry", type=Path, help="the bytes of an entry; FILE is then its proof (tlog-proof)")
    parser.add_argument("file", type=Path, metavar="FILE", help="a signed checkpoint, or the proof of the entry")
    return parser


if __name__ == "__main__":
    sys.exit(main())
