"""The figures once more, from what was exported alone, with the standard library and no line of the product.

    python -m tests.support.outside.recompute BUNDLE.zip     fifteen of the twenty-five, from the sealed events alone
    python -m tests.support.outside.recompute SOURCE.jsonl   all of them, from `manage.py export_metric_source`

Written from docs/metrics.md. M-05 and M-12 need readings and calls that changed nothing, M-16 what was told, M-19 the
order of policies, and M-20 to M-25 the calls at the gate; none of these is an event of an action in a bundle. What the
script counts is told by hour, tool, agent, class and version, so that whatever a page narrows to can be summed up.
"""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO

DECISIVE = {"SUCCESS", "PARTIAL", "MISMATCH", "DUPLICATE", "ABSENT"}
ENDS = {"RECONCILED_SUCCESS", "FAILED", "COMPENSATED", "ROLLED_BACK"}
BY_WORD = {"compensation_attested", "attested_absent"}
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
FURTHER_SHARES = {
    "M-05": ("too_early", "executed"),
    "M-12": ("absorbed", "repeated"),
    "M-16": ("told_falsely", "executed"),
    "M-20": ("accepted_calls", "calls"),
    "M-22": ("valid_calls", "calls"),
    "M-23": ("failed_calls", "calls"),
    "M-24": ("wrong_arguments", "calls"),
    "M-25": ("no_such_tool", "calls"),
}
DELAYS = ("M-03", "M-04")
# hour, tool, agent, class, version
Cell = tuple[str, str, str, str, str]


class Tally:
    """Counts, and the two delays in milliseconds."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.delays: dict[str, list[int]] = {name: [] for name in DELAYS}

    def add(self, other: Tally) -> None:
        self.counts.update(other.counts)
        for name in DELAYS:
            self.delays[name].extend(other.delays[name])

    def shares(self) -> dict[str, tuple[int, int]]:
        """The part and the whole of each share; of M-21, which is a count, that and nothing."""
        named = SHARES | FURTHER_SHARES | {"M-21": ("undisclosed", "")}
        return {metric: (self.counts[part], self.counts[whole]) for metric, (part, whole) in named.items()}


def recompute(bundle: str | Path | BinaryIO) -> dict[str, Any]:
    """From a bundle: each share as (part, whole), and the two delays as sorted milliseconds."""
    actions: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    with zipfile.ZipFile(bundle) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith("events/"):
                with archive.open(name) as lines:
                    for line in lines:
                        _read(json.loads(line), actions)
    whole = Tally()
    for events in actions.values():
        events.sort(key=lambda each: each["seq"])
        readings = [each["detail"]["listed"] | {"at": each["at"]} for each in events if each["detail"].get("listed")]
        _count(whole, events, readings, is_read=events[0]["opened"]["side_effect_class"] == "READ_ONLY")
    shares = {metric: whole.shares()[metric] for metric in SHARES}
    return shares | {metric: sorted(found) for metric, found in whole.delays.items()}


def recount(lines: Iterable[bytes | str]) -> tuple[dict[Cell, Tally], list[str]]:
    """From the lines of a source: every tally by cell, and the versions of the verification policy, oldest first."""
    told = map(json.loads, lines)
    head = next(told)
    if (head["format"], head["version"]) != ("counterfoil-metric-source", 1):
        raise ValueError("these are not the lines that this counts")
    versions = {each["digest"]: each["version"] for each in head["verification_policies"]}
    cells: defaultdict[Cell, Tally] = defaultdict(Tally)
    failed: set[str] = set()
    for line in told:
        if "call" in line:
            _count_call(cells, line, head["tools"], failed)
            continue
        events = line["events"]
        if not events:
            continue
        is_started = any(each["kind"] == "execution_started" for each in events)
        if is_started and events[-1]["to"] == "FAILED":
            failed.add(line["action"])
        moment = next((each["at"] for each in events if each["kind"] == "execution_started"), events[0]["at"])
        named = [each["verification"] for each in events if each["verification"]]
        version = versions.get(named[-1], "") if named else ""
        cell = (moment[:13], line["tool"], line["agent"], line["class"], version)
        _count(cells[cell], events, line["readings"], is_read=line["class"] == "READ_ONLY")
    return dict(cells), list(versions.values())


def regression(tallies: dict[str, Tally], versions: list[str]) -> float | None:
    """M-19: the larger rise of M-02 and M-06 to the newest version that judged something, from the one before it."""
    judged = [tallies[each] for each in dict.fromkeys(versions) if each in tallies and tallies[each].counts["executed"]]
    rises = [None]
    for old, new in pairwise(judged):
        found = [
            after[part] / after[whole] - before[part] / before[whole]
            for part, whole in (SHARES["M-02"], SHARES["M-06"])
            for before, after in [(old.counts, new.counts)]
            if before[whole] and after[whole]
        ]
        rises.append(max(found, default=None))
    return rises[-1]


def summed(cells: dict[Cell, Tally], *, place: int | None = None) -> dict[str, Tally]:
    """Tallies by one part of the cell (0 is the hour, 4 the version), or all under an empty name."""
    found: defaultdict[str, Tally] = defaultdict(Tally)
    for cell, tally in cells.items():
        found["" if place is None else cell[place]].add(tally)
    return dict(found)


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
            "entry": any(promise["purpose"] == "entry" for promise in envelope["commitments"]),
            "opened": opened.get("entry") or {},
            "detail": opened.get("detail") or {},
        }
    )


def _count(tally: Tally, events: list[dict[str, Any]], readings: list[dict[str, Any]], *, is_read: bool) -> None:
    counts = tally.counts
    counts["proposed"] += 1
    befores = [None, *(each["hash"] for each in events)]
    counts["whole"] += all(
        each["seq"] == number and each["prev"] == before and each["entry"]
        for number, (each, before) in enumerate(zip(events, befores, strict=False), 1)
    )
    starts = [each for each in events if each["kind"] == "execution_started"]
    if not starts or is_read:
        return
    states, last = {each["to"] for each in events}, events[-1]
    moves = [each for each in events if each["from"] != each["to"]]
    contradicted = _is_contradicted(events)
    decisive = [each for each in readings if each["result"] in DECISIVE]
    classes = {each["discrepancy"] for each in readings}
    into = {state: [each["kind"] for each in moves if each["to"] == state] for state in states}
    waited = bool(states & {"PENDING", "ACCEPTED"})
    further = len(starts) - 1
    counts["repeated"] += further
    counts["absorbed"] += 0 if "DUPLICATE_SIDE_EFFECT" in classes else further
    for name, holds in {
        "executed": True,
        "verified": last["to"] == "RECONCILED_SUCCESS"
        and moves[-1]["kind"] not in ("attested_present", "accepted_as_it_is")
        and not contradicted
        and not _is_taken_back(events),
        "disproved": contradicted
        or any(not kind.startswith("attested") for kind in into.get("RECONCILIATION_FAILED", ())),
        "read_back": bool(decisive) or contradicted,
        "different": contradicted or any(each["discrepancy"] for each in decisive),
        "too_early": _was_too_early(readings),
        "stale": "STALE_STATE" in classes,
        "partial": "PARTIALLY_COMMITTED" in states,
        "pending": waited,
        "late": waited and "VERIFICATION_TIMEOUT" in states,
        "unknown": "UNKNOWN" in states,
        "double": "DUPLICATE_SIDE_EFFECT" in classes,
        "compensating": "COMPENSATING" in states,
        "compensated": "COMPENSATING" in states
        and bool(into.get("COMPENSATED"))
        and into["COMPENSATED"][-1] not in BY_WORD,
        "uncompensated": "COMPENSATION_FAILED" in states,
        "told_falsely": any(
            each["kind"] == "false_success_filed" or (each.get("told_completed") and each["to"] != "RECONCILED_SUCCESS")
            for each in events
        ),
        "reviewed": "REVIEW_REQUIRED" in states,
    }.items():
        counts[name] += bool(holds)
    answers = [each for each in events if each["kind"] in ("observed", "lease_ended")]
    if answers and decisive:
        tally.delays["M-03"].append(max(min(_ms(answers[0], each) for each in decisive), 0))
    if last["to"] in ENDS and (took := _ms(starts[0], moves[-1])) >= 0:
        tally.delays["M-04"].append(took)


def _count_call(
    cells: defaultdict[Cell, Tally], call: dict[str, Any], tools: list[dict[str, str]], failed: set[str]
) -> None:
    if call["code"] == "TARGET_FROZEN":
        return
    hour, category = call["at"][:13], call["category"]
    tool = "" if category == "phantom" else call["tool"]
    known = [each["class"] for each in tools if each["tool"] == tool and each["registered_at"][:13] <= hour]
    is_failed = call["accepted"] and call["action"] in failed
    is_blocked = call["code"] == "DUPLICATE_BLOCKED"
    cells[hour, tool, call["agent"], known[0] if known else "", ""].counts.update(
        {
            "calls": 1,
            "accepted_calls": int(call["accepted"]),
            "failed_calls": int(is_failed),
            "valid_calls": int(call["accepted"] and not is_failed),
            "undisclosed": int(call["code"] in ("PHANTOM_TOOL", "UNDISCLOSED_TOOL")),
            "wrong_arguments": int(category == "argument_hallucination"),
            "no_such_tool": int(category == "phantom"),
            "repeated": int(is_blocked),
            "absorbed": int(is_blocked),
        }
    )


def _is_contradicted(events: list[dict[str, Any]]) -> bool:
    said = [each["kind"] for each in events if each["kind"] in ("contradicted", "contradiction_withdrawn")]
    return bool(said) and said[-1] == "contradicted"


def _is_taken_back(events: list[dict[str, Any]]) -> bool:
    """Whether its effect was reversed after it had succeeded: it keeps its state."""
    return any(
        each["kind"] in ("compensated", "compensation_attested") and each["from"] == each["to"] == "RECONCILED_SUCCESS"
        for each in events
    )


def _was_too_early(readings: list[dict[str, Any]]) -> bool:
    """A reading of a source that decides nothing, without success, before one that succeeded."""
    successes = [number for number, each in enumerate(readings) if each["result"] == "SUCCESS"]
    before = readings[: successes[-1]] if successes else []
    return any(
        each["result"] != "SUCCESS" and each.get("consistency") and each["consistency"] not in ("PRIMARY", "STRONG")
        for each in before
    )


def _ms(start: dict[str, Any], end: dict[str, Any]) -> int:
    took = datetime.fromisoformat(end["at"]) - datetime.fromisoformat(start["at"])
    return int(took.total_seconds() * 1_000_000 + 0.5) // 1000 if took.total_seconds() >= 0 else -1


def rounded(milliseconds: int) -> int:
    """Two significant digits, half up: what a delay is shown as."""
    unit = int("1" + "0" * max(len(str(milliseconds)) - 2, 0))
    return int((milliseconds + unit // 2) // unit) * unit


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as plain:
        yield from gzip.GzipFile(fileobj=plain) if file.suffix == ".gz" else plain


def main(file: Path) -> None:
    """A bundle's shares and delays; of a source M-19, and then a line for every cell."""
    if file.suffix == ".zip":
        sys.stdout.write(f"{json.dumps(recompute(file), indent=2)}\n")
        return
    cells, versions = recount(_lines(file))
    newest = regression(summed(cells, place=4), versions)
    told = ({"cell": cell, "shares": each.shares(), "delays": each.delays} for cell, each in sorted(cells.items()))
    for line in chain([{"M-19": newest}], told):
        sys.stdout.write(f"{json.dumps(line)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
