"""The figures of actions from an exported bundle alone: `python -m tests.support.outside.recompute BUNDLE.zip`.

Written from docs/metrics.md with the standard library, so that it shares no line with what it checks. Fifteen of the
twenty-five can be had from a bundle: M-05 and M-12 need readings and calls that changed nothing, M-16 what was told,
M-19 the order of policies, and M-20 to M-25 the calls at the gate; none of these is an event of an action.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections import defaultdict
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

DECISIVE = {"SUCCESS", "PARTIAL", "MISMATCH", "DUPLICATE", "ABSENT"}
ENDS = {"RECONCILED_SUCCESS", "FAILED", "COMPENSATED", "ROLLED_BACK"}
SHARES = {
    "M-01": ("verified", "executed"),
    "M-02": ("disproved", "executed"),
    "M-06": ("different", "read_back"),
    "M-07": ("stale", "executed"),
    "M-08": ("partial", "executed"),
    "M-09": ("late", "pending"),
    "M-10": ("unknown", "executed"),
    "M-11": ("double", "executed"),
    "M-13": ("compensating", "executed"),
    "M-14": ("compensated", "compensating"),
    "M-15": ("uncompensated", "compensating"),
    "M-17": ("reviewed", "executed"),
    "M-18": ("whole", "proposed"),
}


def recompute(bundle: str | Path | BinaryIO) -> dict[str, Any]:
    """Each share as (part, whole), and the two delays as sorted milliseconds."""
    actions: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    with zipfile.ZipFile(bundle) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith("events/"):
                with archive.open(name) as lines:
                    for line in lines:
                        _read(json.loads(line), actions)
    counts: defaultdict[str, int] = defaultdict(int)
    delays: dict[str, list[int]] = {"M-03": [], "M-04": []}
    for events in actions.values():
        _count(sorted(events, key=lambda each: each["seq"]), counts, delays)
    shares = {metric: (counts[part], counts[whole]) for metric, (part, whole) in SHARES.items()}
    return shares | {metric: sorted(found) for metric, found in delays.items()}


def _read(line: dict[str, Any], actions: defaultdict[str, list[dict[str, Any]]]) -> None:
    envelope = json.loads(line["envelope"])
    if envelope["subject"]["kind"] != "action":
        return
    opened = {
        promise["purpose"]: json.loads(found["text"])
        for promise, found in zip(envelope["commitments"], line["open"], strict=True)
        if "text" in found
    }
    actions[envelope["subject"]["id"]].append(
        envelope
        | {
            "hash": sha256(b"\x00" + line["envelope"].encode()).hexdigest(),
            "committed": any(promise["purpose"] == "entry" for promise in envelope["commitments"]),
            "entry": opened.get("entry") or {},
            "detail": opened.get("detail") or {},
        }
    )


def _count(events: list[dict[str, Any]], counts: defaultdict[str, int], delays: dict[str, list[int]]) -> None:
    counts["proposed"] += 1
    befores = [None, *(each["hash"] for each in events)]
    counts["whole"] += all(
        each["seq"] == number and each["prev"] == before and each["committed"]
        for number, (each, before) in enumerate(zip(events, befores, strict=False), 1)
    )
    starts = [each for each in events if each["kind"] == "execution_started"]
    if not starts or events[0]["entry"]["side_effect_class"] == "READ_ONLY":
        return
    states, last = {each["to"] for each in events}, events[-1]
    moves = [each for each in events if each["from"] != each["to"]]
    contradicted = _is_contradicted(events)
    readings = [(each, each["detail"]["listed"]) for each in events if each["detail"].get("listed")]
    decisive = [(each, said) for each, said in readings if said["result"] in DECISIVE]
    classes = {said["discrepancy"] for _, said in readings}
    into = {state: [each["kind"] for each in moves if each["to"] == state] for state in states}
    waited = bool(states & {"PENDING", "ACCEPTED"})
    for name, holds in {
        "executed": True,
        "verified": last["to"] == "RECONCILED_SUCCESS" and moves[-1]["kind"] != "attested_present" and not contradicted,
        "disproved": contradicted
        or any(not kind.startswith("attested") for kind in into.get("RECONCILIATION_FAILED", ())),
        "read_back": bool(decisive) or contradicted,
        "different": contradicted or any(said["discrepancy"] for _, said in decisive),
        "stale": "STALE_STATE" in classes,
        "partial": "PARTIALLY_COMMITTED" in states,
        "pending": waited,
        "late": waited and "VERIFICATION_TIMEOUT" in states,
        "unknown": "UNKNOWN" in states,
        "double": "DUPLICATE_SIDE_EFFECT" in classes,
        "compensating": "COMPENSATING" in states,
        "compensated": "COMPENSATING" in states
        and bool(into.get("COMPENSATED"))
        and into["COMPENSATED"][-1] not in ("compensation_attested", "attested_absent"),
        "uncompensated": "COMPENSATION_FAILED" in states,
        "reviewed": "REVIEW_REQUIRED" in states,
    }.items():
        counts[name] += bool(holds)
    answers = [each for each in events if each["kind"] in ("observed", "lease_ended")]
    if answers and decisive:
        delays["M-03"].append(max(_ms(answers[0], decisive[0][0]), 0))
    if last["to"] in ENDS and (took := _ms(starts[0], moves[-1])) >= 0:
        delays["M-04"].append(took)


def _is_contradicted(events: list[dict[str, Any]]) -> bool:
    said = [each["kind"] for each in events if each["kind"] in ("contradicted", "contradiction_withdrawn")]
    return bool(said) and said[-1] == "contradicted"


def _ms(start: dict[str, Any], end: dict[str, Any]) -> int:
    took = datetime.fromisoformat(end["at"]) - datetime.fromisoformat(start["at"])
    return int(took.total_seconds() * 1_000_000 + 0.5) // 1000 if took.total_seconds() >= 0 else -1


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(recompute(sys.argv[1]), indent=2)}\n")
