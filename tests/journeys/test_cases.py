"""Every kind of work that the example sends, to its end: the path in the record, what was found, who must look, and
what may be told.

All of them are sent at once to one console with real systems behind it; each test then waits for its own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from console.local.installation import ROOT
from example.cases import BY_NAME
from example.stage import Sent
from tests.journeys.ground import ATTEMPT_S, Ground, moves
from tests.support.browser_users import words

REPORTS = json.loads(files("reviews.reporting.rules").joinpath("reporting.json").read_bytes())["by_state"]

STARTED = ("PROPOSED", "VALIDATED", "EXECUTING")
SEEN = (*STARTED, "PENDING")
DONE = (*SEEN, "COMMITTED", "RECONCILED_SUCCESS")
WRONG = (*SEEN, "COMMITTED", "RECONCILIATION_FAILED", "REVIEW_REQUIRED")
RELEASED = (*SEEN, "COMMITTED", "RECONCILIATION_FAILED", "COMPENSATING")
IN_PART = (*SEEN, "COMMITTED", "PARTIALLY_COMMITTED", "REVIEW_REQUIRED")
SILENT = (*STARTED, "UNKNOWN", "PENDING")

CONFIRMED = "Done, and confirmed in the system of record."
ABSENT = "Failed. The system of record shows that nothing happened."
REVERSED = (
    "It took effect, not as requested (quantity N0 instead of N), and was then reversed; the reversal is confirmed."
)
HELD = "Not settled. It waits for a person to review it."
OPEN = "Not settled. A person decides what follows: to reverse it, to finish it, or to leave it as it is."
UNTRIED = "Not executed. Nothing has been attempted."


@dataclass(frozen=True, kw_only=True)
class Row:
    """How one case ends. `found` is the discrepancy in the end and `seen` one on the way; `decided` is the row of the
    recovery table that decided; `left` is what the shop has to show for it: table to number of rows.
    """

    case: str
    path: tuple[str, ...]
    told: tuple[str, str]
    approved: bool = False
    code: str | None = None
    found: str | None = None
    seen: str | None = None
    decided: str | None = None
    review: bool = False
    incident: str | None = None
    left: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.case}, approved" if self.approved else self.case


def row(*marks: pytest.MarkDecorator, **values: object) -> object:
    made = Row(**values)  # type: ignore[arg-type]
    return pytest.param(made, id=made.name, marks=marks)


TABLE = [
    row(
        pytest.mark.req("R-RI-05"),
        case="clean_refund",
        approved=True,
        path=DONE,
        told=("COMPLETED", CONFIRMED),
        left={"refunds": 1},
    ),
    row(
        pytest.mark.req("R-AP-02"),
        case="document_delete",
        approved=True,
        path=DONE,
        told=("COMPLETED", CONFIRMED),
    ),
    row(case="letters", approved=True, path=DONE, told=("COMPLETED", CONFIRMED)),
    row(
        pytest.mark.req("R-DC-02", "R-RP-04", "R-RI-12"),
        case="no_effect",
        path=WRONG,
        told=("REVIEW_REQUIRED", HELD),
        found="NO_OP_FAILURE",
        decided="RT-04",
        review=True,
        left={"refunds": 0},
    ),
    row(
        case="no_effect",
        approved=True,
        path=WRONG,
        told=("REVIEW_REQUIRED", HELD),
        found="NO_OP_FAILURE",
        decided="RT-04",
        review=True,
        left={"refunds": 0},
    ),
    row(
        pytest.mark.req("R-DC-03", "R-RP-04"),
        case="wrong_amount",
        path=WRONG,
        told=("REVIEW_REQUIRED", HELD),
        found="VALUE_MISMATCH",
        decided="RT-04",
        review=True,
        left={"refunds": 1},
    ),
    row(
        pytest.mark.req("R-DC-06", "R-EX-18", "R-RP-12"),
        case="duplicate",
        path=WRONG,
        told=("REVIEW_REQUIRED", HELD),
        found="DUPLICATE_SIDE_EFFECT",
        decided="RT-12",
        review=True,
        incident="operations",
        left={"refunds": 2},
    ),
    row(
        pytest.mark.req("R-EX-07", "R-EX-11", "R-RP-07"),
        case="dies_after_write",
        path=(*SILENT, "COMMITTED", "RECONCILED_SUCCESS"),
        told=("COMPLETED", CONFIRMED),
        decided="RT-07",
        left={"refunds": 1},
    ),
    row(
        pytest.mark.req("R-EX-07", "R-EX-11", "R-RP-07", "R-RI-07"),
        case="dies_before_write",
        path=(*SILENT, "FAILED"),
        told=("FAILED", ABSENT),
        decided="RT-07",
        left={"refunds": 0},
    ),
    row(
        pytest.mark.req("R-DC-05", "R-RC-10"),
        case="one_of_two_effects",
        path=IN_PART,
        told=("REVIEW_REQUIRED", f"Done in part: refund took effect; notice did not take effect. {OPEN}"),
        found="PARTIAL_APPLICATION",
        decided="RT-09",
        review=True,
        left={"refunds": 1, "notices": 0},
    ),
    row(
        pytest.mark.req("R-DC-09", "R-EX-24", "R-RP-01"),
        case="late_consumer",
        path=DONE,
        told=("COMPLETED", CONFIRMED),
        seen="PROPAGATION_DELAY",
        decided="RT-01",
    ),
    row(
        pytest.mark.req("R-DC-04", "R-EX-17", "R-RP-11"),
        case="version_moved",
        path=(*SEEN, "FAILED"),
        told=("FAILED", ABSENT),
        found="STALE_STATE",
        decided="RT-11",
    ),
    row(
        pytest.mark.req("R-TC-17"),
        case="invented_value",
        path=("PROPOSED", "FAILED"),
        told=("NOT_EXECUTED", UNTRIED),
        code="ARGUMENT_HALLUCINATION",
    ),
    row(
        pytest.mark.req("R-TC-04"),
        case="renamed_parameter",
        path=("PROPOSED", "FAILED"),
        told=("NOT_EXECUTED", UNTRIED),
        code="SCHEMA_DRIFT",
    ),
    row(
        pytest.mark.req("R-AP-08"),
        case="approval_runs_out",
        path=("PROPOSED", "VALIDATED", "FAILED"),
        told=("NOT_EXECUTED", UNTRIED),
    ),
    row(
        pytest.mark.req("R-RP-21"),
        case="other_payload",
        path=("PROPOSED", "VALIDATED", "REVIEW_REQUIRED"),
        told=("REVIEW_REQUIRED", HELD),
        decided="RT-21",
        review=True,
        incident="security",
        left={"refunds": 0},
    ),
    row(
        pytest.mark.req("R-AP-05", "R-RP-21"),
        case="other_payload",
        approved=True,
        path=("PROPOSED", "VALIDATED", "REVIEW_REQUIRED"),
        told=("REVIEW_REQUIRED", HELD),
        decided="RT-21",
        review=True,
        incident="security",
        left={"refunds": 0},
    ),
    row(
        pytest.mark.req("R-RP-03", "R-RP-37", "R-RP-44", "R-RP-45"),
        case="wrong_quantity",
        path=(*RELEASED, "COMPENSATED"),
        told=("COMPENSATED", REVERSED),
        found="VALUE_MISMATCH",
        decided="RT-03",
        left={"reservations": 1},
    ),
    row(
        pytest.mark.req("R-HS-13", "R-RP-47"),
        case="release_lost",
        path=(*RELEASED, "COMPENSATION_FAILED", "REVIEW_REQUIRED"),
        told=("REVIEW_REQUIRED", HELD),
        found="VALUE_MISMATCH",
        decided="RT-50",
        review=True,
        left={"reservations": 1},
    ),
    row(
        case="run_taken_back",
        path=(*SEEN, "FAILED"),
        told=("FAILED", ABSENT),
        found="STALE_STATE",
        decided="RT-11",
        left={"reservations": 2},
    ),
    row(
        case="dead_letter",
        path=IN_PART,
        told=("REVIEW_REQUIRED", f"Done in part: publish took effect. {OPEN}"),
        found="PARTIAL_APPLICATION",
        decided="RT-09",
        review=True,
    ),
    row(
        case="document_not_deleted",
        approved=True,
        path=WRONG,
        told=("REVIEW_REQUIRED", HELD),
        found="NO_OP_FAILURE",
        decided="RT-04",
        review=True,
    ),
    *(
        row(case=name, path=DONE, told=("COMPLETED", CONFIRMED))
        for name in ("order_status", "order_event", "stock_reserved")
    ),
    *(row(case=name, path=DONE, told=("COMPLETED", CONFIRMED)) for name in ("document_write", "refund_with_notice")),
]
ROWS: list[Row] = [each.values[0] for each in TABLE]  # type: ignore[attr-defined]

REFUSED = [
    pytest.param("phantom_tool", "PHANTOM_TOOL", marks=pytest.mark.req("R-MC-01", "R-LE-19", "R-TG-10")),
    pytest.param("undisclosed_tool", "UNDISCLOSED_TOOL", marks=pytest.mark.req("R-TG-02", "R-TG-10")),
    pytest.param("drifted_goal", "ASK_DRIFT", marks=pytest.mark.req("R-PA-06")),
]
GATE_ONLY = [str(each.values[0]) for each in REFUSED]


SLOW = ("approval_runs_out", "late_consumer", "dies_before_write", "run_taken_back", "release_lost")


@dataclass(frozen=True)
class Played:
    """What was sent, by the name of its row."""

    ground: Ground
    sent: dict[str, Sent]

    def action(self, name: str) -> str:
        action_id = self.sent[name].action_id
        assert action_id is not None, self.sent[name]
        return action_id

    def order(self, name: str) -> str:
        """The order that it was about, whatever the target is called."""
        return str(self.sent[name].arguments["order_id"])


@pytest.fixture(scope="module")
def played(busy_ground: Ground) -> Played:
    """Everything is sent, and what is to be approved is approved; nothing is waited for."""
    # The slow ones first.
    rows = sorted(ROWS, key=lambda each: each.case not in SLOW)
    sent = {each.name: busy_ground.send(each.case, approved=each.approved) for each in rows}
    for name in GATE_ONLY:
        sent[name] = busy_ground.send(name)
    for each in rows:
        if each.approved:
            busy_ground.approve(str(sent[each.name].action_id))
    return Played(busy_ground, sent)


def test_every_case_of_the_example_has_a_row_in_the_table():
    assert {each.case for each in ROWS} | set(GATE_ONLY) == set(BY_NAME) - {"small_refund"}


@pytest.mark.req("R-SM-25", "R-RI-09", "R-RI-10")
@pytest.mark.parametrize("row", TABLE)
def test_a_case_ends_as_the_table_states(played, row):
    ground, action_id = played.ground, played.action(row.name)
    ground.wait_for(action_id, row.path[-1])
    history = ground.history(action_id)
    entry = history[-1]["entry"]
    assert tuple(move["to"] for move in moves(history)) == row.path
    assert played.sent[row.name].code == row.code
    assert entry["reconciliation"]["discrepancy_class"] == row.found
    assert {row.seen} <= {None, *_classes(history)}
    assert _decisions(history)[-1:] == ([row.decided] if row.decided else [])
    assert [each["state"] for each in ground.cases(action_id)] == ["OPEN"] * row.review
    assert _incidents(history) == ([row.incident] if row.incident else [])
    assert bool(entry.get("recovery", {}).get("incident_id")) == bool(row.incident)
    report = ground.agent.report(action_id)
    # The order's own quantity differs between runs; ten times as much is reserved.
    text = re.sub(r"quantity (\d+)0 instead of \1\b", "quantity N0 instead of N", report.text)
    assert (report.code, text) == row.told
    assert report.code in REPORTS[row.path[-1]]["allowed"]
    assert report.completed is (row.path[-1] == "RECONCILED_SUCCESS")
    assert {table: len(ground.rows(table, played.order(row.name))) for table in row.left} == row.left


def _classes(history):
    return [event["entry"]["reconciliation"]["discrepancy_class"] for event in history]


def _decisions(history):
    """The rows of the recovery table that decided, in order; not RT-19, which reads again what gave no answer."""
    found = []
    for event in history:
        decided = (event["entry"]["reconciliation"]["recovery_decision"] or "").partition(" ")[0]
        if decided not in ("", "RT-19", *found[-1:]):
            found.append(decided)
    return found


def _incidents(history):
    return [event["detail"]["kind"] for event in history if event["event"] == "incident_opened"]


@pytest.mark.parametrize(("case", "code"), REFUSED)
def test_a_refused_call_is_recorded_and_creates_no_action(played, case, code):
    ground, sent = played.ground, played.sent[case]
    assert (sent.accepted, sent.code, sent.action_id, sent.state) == (False, code, None, None)
    assert ground.operator.items("/actions", session=sent.session_id) == []
    session = ground.operator.get(f"/sessions/{sent.session_id}")
    assert (session["calls_accepted"], session["calls_refused"]) == (0, 1)
    page = ground.reviewer.http.get(f"/t/example/sessions/{sent.session_id}")
    assert code in page.text


@pytest.mark.req("R-RP-43", "R-RP-47")
def test_the_report_on_a_recovery_agrees_with_the_shops_state(played):
    ground = played.ground
    ground.wait_for(played.action("wrong_quantity"), "COMPENSATED")
    ground.wait_for(played.action("release_lost"), "REVIEW_REQUIRED")
    (released,) = ground.rows("reservations", played.order("wrong_quantity"))
    (kept,) = ground.rows("reservations", played.order("release_lost"))
    assert (released["status"], kept["status"]) == ("released", "held")
    (child,) = ground.operator.items("/actions", target=f"reservation/{kept['id']}")
    assert child["state"] == "REVIEW_REQUIRED"
    assert [each["state"] for each in ground.cases(child["action_id"])] == ["OPEN"]


@pytest.mark.req("R-RP-32", "R-RP-37", "R-RP-39", "R-RP-44")
def test_a_run_whose_last_step_fails_is_rolled_back_in_reverse_order(played):
    ground, sent = played.ground, played.sent["run_taken_back"]
    ground.until(lambda: _unwound(ground, sent) == "DONE", lambda: ground.agent.run(sent.session_id))
    run = ground.agent.run(sent.session_id)
    assert (run["complete"], [each["state"] for each in run["steps"]]) == (
        False,
        ["RECONCILED_SUCCESS", "RECONCILED_SUCCESS", "FAILED"],
    )
    assert [each["status"] for each in ground.rows("reservations", played.order("run_taken_back"))] == ["released"] * 2
    undone = [step["recovery"][0]["action_id"] for step in run["steps"][:2]]
    done = [_reconciled(ground, step["action_id"]) for step in run["steps"][:2]]
    back = [_reconciled(ground, action_id) for action_id in undone]
    assert (done[0] < done[1]) == (back[0] > back[1])
    for step in run["steps"][:2]:
        told = ground.agent.report(step["action_id"])
        assert (told.code, told.completed) == ("COMPENSATED", False)


def _unwound(ground, sent):
    return (ground.agent.run(sent.session_id)["unwinding"] or {}).get("state")


def _reconciled(ground, action_id):
    return next(_at(each) for each in ground.history(action_id) if each["state"] == "RECONCILED_SUCCESS")


@pytest.mark.req("R-AP-08")
def test_an_expired_approval_is_reported_as_expired(played):
    ground, action_id = played.ground, played.action("approval_runs_out")
    ground.wait_for(action_id, "FAILED")
    last = ground.history(action_id)[-1]
    assert (last["event"], last["detail"]["code"]) == ("approval_expired", "APPROVAL_EXPIRED")
    expired = ground.reviewer.items("/approvals", state="EXPIRED")
    assert [each["state"] for each in expired if each["action_id"] == action_id] == ["EXPIRED"]


@pytest.mark.req("R-EX-07")
def test_absence_counts_only_after_the_late_effect_horizon(played):
    ground, action_id = played.ground, played.action("dies_before_write")
    ground.wait_for(action_id, "FAILED")
    steps = {move["to"]: _at(move["event"]) for move in moves(ground.history(action_id))}
    # The attempt's lease and its timeout are as long, and the contract lets 2 s settle.
    assert steps["UNKNOWN"] - steps["EXECUTING"] >= timedelta(seconds=ATTEMPT_S)
    assert steps["FAILED"] - steps["EXECUTING"] >= timedelta(seconds=ATTEMPT_S + ATTEMPT_S + 2)


@pytest.mark.req("R-VD-11")
def test_an_effect_of_a_late_consumer_is_read_repeatedly(played):
    ground, action_id = played.ground, played.action("late_consumer")
    ground.wait_for(action_id, "RECONCILED_SUCCESS")
    steps = {move["to"]: _at(move["event"]) for move in moves(ground.history(action_id))}
    assert steps["COMMITTED"] - steps["PENDING"] >= timedelta(seconds=10)
    readbacks = [
        each for each in ground.operator.get(f"/actions/{action_id}")["evidence"] if each["kind"] == "readback"
    ]
    assert len(readbacks) >= 2


@pytest.mark.req("R-EX-15")
def test_a_frozen_target_refuses_further_calls(played):
    ground, sent = played.ground, played.sent["duplicate"]
    ground.wait_for(played.action("duplicate"), "REVIEW_REQUIRED")
    frozen = ground.operator.items("/freezes")
    assert [each["scope"] for each in frozen if each["value"] == sent.target] == ["target"]
    order_id = played.order("duplicate")
    more = {"order_id": order_id, "amount": 100, "currency": "EUR", "reason": "goodwill"}
    assert ground.again(replace(sent, arguments=more)).code == "TARGET_FROZEN"


@pytest.mark.req("R-EX-08")
@pytest.mark.parametrize("case", ["no_effect", "other_payload"])
def test_a_held_action_cannot_be_repeated(played, case):
    ground, sent = played.ground, played.sent[case]
    ground.wait_for(played.action(case), "REVIEW_REQUIRED")
    assert ground.again(sent).code == "DUPLICATE_BLOCKED"


def _at(event):
    return datetime.fromisoformat(event["at"])


# The ten minutes of README.md


def test_the_ten_minutes_of_the_readme_are_as_they_are_told(played: Played, tmp_path: Path):
    ground = played.ground
    steps, together = _ten_minutes()
    refund, deletion = (str(ground.send(name).action_id) for name in ("clean_refund", "document_delete"))
    letters = ground.send("letters").steps
    people = {each["username"]: each["role"] for each in ground.known["people"]}
    assert sorted(people.values()).count("reviewer") == sorted(people.values()).count("administrator") == 2

    approval = ground.approval_of(refund)["approval_id"]
    _check_words(steps[2], ground, "reviewer", "approvals", f"approvals/{approval}")
    assert deletion
    ground.approve(refund)
    ground.wait_for(refund, "RECONCILED_SUCCESS")
    _check_words(steps[3], ground, "reviewer", f"actions/{refund}")
    for name in ("no_effect", "wrong_amount", "duplicate"):
        (case,) = ground.cases(played.action(name))
        page = _page(ground, "operator", f"cases/{case['case_id']}")
        assert re.search(r"\bRT-(04|12)\b", page), name
    _check_words(steps[4], ground, "operator", "cases")
    ends = {
        "dies_after_write": "RECONCILED_SUCCESS",
        "dies_before_write": "FAILED",
        "late_consumer": "RECONCILED_SUCCESS",
        "version_moved": "FAILED",
        "wrong_quantity": "COMPENSATED",
        "release_lost": "REVIEW_REQUIRED",
    }
    assert {name: ground.wait_for(played.action(name), end) for name, end in ends.items()} == ends
    _check_words(steps[5], ground, "operator", "actions", f"actions/{played.action('run_taken_back')}")
    _check_words(steps[6], ground, "compliance", "ledger", "audit", "audit/exports")
    policy = ground.person("compliance").http.get("/t/example/ledger/verifier-policy")
    assert policy.is_success
    assert policy.text.startswith("# What example says its logs are signed with.")
    _verify_export(steps[6], ground, policy.content, tmp_path)

    _check_words(together[0], ground, "reviewer", "approvals")
    _vote_together(ground, letters)
    for action_id in letters:
        ground.wait_for(action_id, "RECONCILED_SUCCESS")
    _check_words(together[1], ground, "reviewer", "me")
    _check_words(together[2], ground, "reviewer", "search?q=standing")
    _check_words(together[3], ground, "administrator", "releases", "people")


def _verify_export(step: str, ground: Ground, policy: bytes, folder: Path) -> None:
    """Make an export on its page, download it, and verify it by the command of the step, without the console."""
    compliance, page = ground.person("compliance").http, "/t/example/audit/exports"
    compliance.post(f"{page}/start", data={"format": "jsonl", "payloads": "on"})

    def links() -> list[str]:
        return re.findall(rf'href="({page}/[0-9a-f-]{{36}}/bundle)"', compliance.get(page).text)

    ground.until(lambda: bool(links()), lambda: words(compliance.get(page).text))
    (folder / "BUNDLE").write_bytes(compliance.get(links()[0]).content)
    (folder / "FILE").write_bytes(policy)
    shutil.copyfile(ROOT / re.findall(r"copy `([^`]+)`", step)[0], folder / "verify_bundle.py")
    (command,) = re.findall(r"run `python ([^`]+)`", step)
    told = subprocess.run(
        [sys.executable, "-I", *command.split()], cwd=folder, env={}, capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout.splitlines()[-1:]) == (0, ["verified"]), told.stdout + told.stderr


def _ten_minutes() -> tuple[dict[int, str], list[str]]:
    """The numbered steps of the README's first ten minutes, and the points about several people behind them."""
    section = (ROOT / "README.md").read_text().split("## Your first ten minutes\n")[1].split("\n## ")[0]
    section = re.sub(r"\n +", " ", section)
    steps = {int(number): text for number, text in re.findall(r"^(\d)\. (.+)$", section, re.MULTILINE)}
    return steps, re.findall(r"^- (.+)$", section, re.MULTILINE)


def _check_words(step: str, ground: Ground, role: str, *paths: str) -> None:
    """Every word that a step quotes or emphasises stands on one of these pages, or is the role that is signed in."""
    shown = " ".join(_page(ground, role, path) for path in paths)
    quoted = [
        next(filter(None, groups)) for groups in re.findall(r'\*\*(.+?)\*\*|(?<!\*)\*([^*]+)\*(?!\*)|"([^"]+)"', step)
    ]
    named = {each for each in quoted if not each.endswith(".")} - {role, "success"}
    assert named, step
    missing = [each for each in named if not re.search(re.escape(each).replace("…", r"\S.*?"), shown, re.IGNORECASE)]
    assert missing == [], (role, paths, shown)


def _page(ground: Ground, role: str, path: str) -> str:
    answer = ground.person(role).http.get(f"/t/example/{path}", follow_redirects=True)
    assert answer.status_code == 200, (path, answer.text)
    return words(answer.text)


def _vote_together(ground: Ground, action_ids: tuple[str, ...]) -> None:
    """The reviewer approves several requests by the form for several, as its page was filled in."""
    wanted = [("item", str(ground.approval_of(each)["approval_id"])) for each in action_ids]
    page = ground.reviewer.http.get("/t/example/approvals/batch", params=wanted)
    fields = re.findall(r'<input type="(?:hidden|checkbox)" name="([a-z_-]+[0-9a-f-]*)" value="([^"]*)"', page.text)
    form = [*fields, ("verdict", "approve"), ("reason", "All say the same."), ("password", ground.password("reviewer"))]
    form += [(name, "on") for name in re.findall(r'name="(without_reading-[^"]+)"', page.text)]
    answer = ground.reviewer.http.post("/t/example/approvals/batch", data=_lists(form))
    assert answer.status_code == 200, words(answer.text)


def _lists(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found
