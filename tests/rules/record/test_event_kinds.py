"""The register of events is whole: what the program appends, what people are shown, and who is told."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from approvals.record_register import RECORD_TABLES as APPROVALS_TABLES
from console.notifications.messages import TITLES
from console.notifications.rules import Occasion
from console.record_register import RECORD_TABLES as CONSOLE_TABLES
from console.web import labels
from console.web.event_labels import RENDERERS, LabelledEvent, event_sentence
from ledger.record.rules.event_kinds import (
    ACTOR_KINDS,
    EVENT_KINDS,
    NOTICE_SUBJECTS,
    UnregisteredEvent,
    check_registered,
)
from ledger.record.rules.lifecycle import MACHINES, NOTICED, SETTLING
from ledger.record_register import RECORD_TABLES as LEDGER_TABLES
from reviews.record_register import RECORD_TABLES as REVIEWS_TABLES

ROOT = Path(__file__).resolve().parents[3]
# What reads events, and does not make them, does not show that a kind is still written.
READERS = ("/queries", "console/web/", "/views", "/context", "/routes", "/schemas", "record_register", "event_kinds.py")


@cache
def writers() -> dict[Path, ast.Module]:
    """The product's modules that may make events, parsed."""
    files = [
        file for package in ("ledger", "approvals", "reviews", "console") for file in (ROOT / package).rglob("*.py")
    ]
    return {
        file: ast.parse(file.read_text())
        for file in files
        if "migrations" not in file.parts and not any(part in str(file.relative_to(ROOT)) for part in READERS)
    }


def event_expressions() -> Iterator[tuple[str, ast.expr]]:
    """Where an event is made, and the expression of its kind."""
    for file, tree in writers().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "NewEvent":
                (kind,) = (each.value for each in node.keywords if each.arg == "kind")
                yield f"{file.relative_to(ROOT)}:{node.lineno}", kind


def texts(node: ast.AST) -> set[str]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def outcomes_of(kind: ast.expr) -> list[ast.expr]:
    """Each expression that may be the value of this one."""
    return [*outcomes_of(kind.body), *outcomes_of(kind.orelse)] if isinstance(kind, ast.IfExp) else [kind]


@pytest.mark.whole
def test_every_event_kind_in_the_code_is_in_the_register():
    named = [(place, each) for place, kind in event_expressions() for each in outcomes_of(kind)]
    literal = [(place, each.value) for place, each in named if isinstance(each, ast.Constant)]
    assert len(literal) > 100
    assert [(place, kind) for place, kind in literal if kind not in EVENT_KINDS] == []


@pytest.mark.whole
def test_no_event_kind_is_composed_at_run_time():
    """One that is looked up or handed on can be found by its name; one that is spelled at run time cannot."""
    spelled = (ast.JoinedStr, ast.BinOp)
    bad = [
        f"{place}: {ast.unparse(kind)}"
        for place, kind in event_expressions()
        for each in ast.walk(kind)
        if isinstance(each, spelled) or (isinstance(each, ast.Attribute) and each.attr in ("lower", "format", "join"))
    ]
    assert bad == []


@pytest.mark.whole
def test_every_kind_in_the_register_is_still_used():
    made = set().union(*(texts(tree) for tree in writers().values()))
    assert [kind for kind in EVENT_KINDS if kind not in made] == []


def test_a_kind_appears_in_the_register_once():
    tree = ast.parse((ROOT / "ledger/record/rules/event_kinds.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "EventKind"]
    assert len(calls) == len(EVENT_KINDS)


def test_each_kind_has_a_meaning_its_subjects_and_its_actors():
    for known in EVENT_KINDS.values():
        assert re.fullmatch(r"[A-Z][^\n]+\.", known.meaning), known
        assert known.subjects, known
        assert set(known.subjects) <= set(MACHINES), known
        assert known.by, known
        assert set(known.by) <= set(ACTOR_KINDS), known


def test_each_kind_has_a_label_a_sentence_and_an_icon():
    entry = {"requested_operation": {}, "tool_contract": {}, "verification": {"verified_state_pointer": "there"}}
    icons = (ROOT / "console/static/console/sprite.svg").read_text()
    for known in EVENT_KINDS.values():
        assert labels.event_label(known.kind) == known.words != "", known
        said = event_sentence(
            LabelledEvent(kind=known.kind, who="Somebody", detail={"reason": "It was so."}, entry=entry)
        )
        assert said.endswith((".", ".”")), said
        assert "_" not in said, said
        assert f'id="{known.icon}"' in icons, known


def test_each_kind_notifies_only_about_its_own_subjects_and_known_occasions():
    for known in EVENT_KINDS.values():
        assert set(known.notices) <= set(known.subjects), known
        assert {Occasion(each) for each in known.notices.values()} <= set(TITLES), known


def test_every_occasion_except_a_lasting_unknown_comes_from_an_event():
    named = {Occasion(each) for known in EVENT_KINDS.values() for each in known.notices.values()}
    assert set(Occasion) - named == {Occasion.UNKNOWN}
    assert set(NOTICE_SUBJECTS) <= set(MACHINES)


def test_every_kind_used_by_a_projection_exists():
    folded = [
        (table.model, kind)
        for tables in (LEDGER_TABLES, APPROVALS_TABLES, REVIEWS_TABLES, CONSOLE_TABLES)
        for table in tables
        for kind in table.events
    ]
    assert [each for each in folded if each[1] not in EVENT_KINDS] == []
    assert {*RENDERERS, *NOTICED, *SETTLING} <= set(EVENT_KINDS)


@pytest.mark.parametrize(
    ("kind", "subject"), [("noted", "action"), ("proposed", "session"), ("case_claimed", "action"), ("proposed", "")]
)
def test_an_unknown_kind_or_one_of_another_subject_raises_an_error(kind: str, subject: str):
    with pytest.raises(UnregisteredEvent, match=repr(kind)):
        check_registered(kind, subject)


def test_a_known_kind_on_its_subjects_is_accepted():
    for known in EVENT_KINDS.values():
        for subject in known.subjects:
            check_registered(known.kind, subject)


def test_an_event_kind_of_an_older_version_still_has_a_label():
    assert labels.event_label("case_noted") == "Case noted"
