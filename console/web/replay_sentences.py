"""The results of replays in sentences: for the page, the API and `manage.py replay`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from console.web import labels
from reviews.replay.rules.replay import JUDGING, ActionReplay, Judgement, RunReplay

OF_ITS_TIME: Final = "the policies of its time"
PARTS: Final[dict[str, str]] = {
    "verdict.result": "the result",
    "verdict.decisive": "whether it settles the action",
    "verdict.reason": "the reason",
    "verdict.discrepancy": "the discrepancy",
    "verdict.secondary": "further discrepancies",
    "verdict.triggers": "the findings put to the recovery table",
    "verdict.effects": "the effects found",
    "verdict.predicates": "the predicates",
    "verdict.checks": "the checks",
    "verdict.consistency": "the consistency of the reading",
    "verdict.timed_out": "whether the time limit was reached",
    "decision.row": "the row of the recovery table",
    "decision.action": "the action of the row",
    "decision.path": "the following states",
    "decision.case": "whether a case is opened",
    "decision.incident": "whether an incident is opened",
    "decision.freeze": "whether the target is frozen",
    "decision.next_read": "whether it is read again",
    "decision.orders": "the recovery ordered",
    "decision.wanted": "the recovery that is proposed",
    "decision.held_because": "why it is held",
    "steps": "the steps",
}


def policy_names(versions: Mapping[str, str]) -> str:
    """The policies requested instead: "recovery policy 3"; by default those of its time."""
    named = [f"{kind} policy {versions[kind]}" for kind in JUDGING if kind in versions]
    return " and ".join(named) or OF_ITS_TIME


def run_sentence(replay: RunReplay, instead: Mapping[str, str]) -> str:
    """The result of replaying one run; `instead` are the requested versions, by kind."""
    run, names = f"run {replay.run.number}", policy_names(instead)
    if replay.recorded is None or replay.replayed is None:
        return f"{run.capitalize()} cannot be replayed. {replay.not_replayable}"
    if replay.same:
        return f"{run.capitalize()}, replayed under {names}: same result."
    was, now = replay.recorded, replay.replayed
    if not instead:
        return (
            f"{run.capitalize()}, replayed under {names}: different result. Recorded as {_end_label(was)},"
            f" now {_end_label(now)}. {_parts(replay)}"
        )
    if now.held and not was.held:
        why = now.decision.get("held_because") or now.verdict["reason"]
        return f"Under {names} {run} would have been held: {_end_with_stop(str(why))}"
    if was.held and not now.held:
        return f"Under {names} {run} would not have been held: it would have led to {_end_label(now)}."
    if now.ends_in == was.ends_in and now.recovery == was.recovery:
        return f"Under {names} {run} would have led to {_end_label(now)} as well. {_parts(replay)}"
    return f"Under {names} {run} would have led to {_end_label(now)}; it led to {_end_label(was)}."


def action_sentence(replay: ActionReplay, instead: Mapping[str, str]) -> str:
    """The result of replaying an action, over all of its runs."""
    names, total = policy_names(instead), len(replay.runs)
    if not total:
        return "This action has no verification run to replay."
    lost, changed = len(replay.not_replayable), len(replay.differing)
    rest = f" {lost} of {total} cannot be replayed." if lost else ""
    if changed:
        return f"Replayed under {names}: {changed} of {total} {_runs(total)} with a different result.{rest}"
    if lost == total:
        return f"No run can be replayed. {replay.not_replayable[0].not_replayable}"
    return f"Replayed under {names}: same result ({total - lost} of {total} {_runs(total)}).{rest}"


def _runs(count: int) -> str:
    return "run" if count == 1 else "runs"


def _end_label(one: Judgement) -> str:
    """The state in which a judgement ends, with the row that decided."""
    last = one.steps[-1] if one.steps else None
    entry = {"reconciliation": {"discrepancy_class": one.verdict.get("discrepancy")}}
    word = labels.step_label("action", str(last["kind"]) if last else "", one.ends_in, entry=entry)
    return f"“{word}”{f' by {one.recovery}' if one.recovery else ''}"


def _parts(replay: RunReplay) -> str:
    named = dict.fromkeys(PARTS.get(each.part, each.part.replace(".", ": ")) for each in replay.differences)
    return f"Different: {', '.join(named)}."


def _end_with_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
