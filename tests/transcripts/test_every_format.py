"""Each fault of the table of formats, in a small recording of each format."""

from __future__ import annotations

import json

import pytest

from counterfoil_transcripts.audit import audit_conversation
from counterfoil_transcripts.contracts import ContractCatalogue
from counterfoil_transcripts.offers import OfferCache
from counterfoil_transcripts.reading import intake
from counterfoil_transcripts.reading.records import Transcript, TranscriptFault
from tests.transcripts.test_command import audit
from tests.transcripts.written import WRITERS

TOOL = "bash"
ONE = ("1", TOOL, {"command": "rm a"})
TWO = ("2", TOOL, {"command": "rm b"})
SAID = "I have removed both files."
EVERY = pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)


def lines_of(writer, items, session="s1"):
    whole = writer.whole(items, session)
    return [json.dumps(one) for one in (whole if isinstance(whole, list) else [whole])]


def read(tmp_path, lines):
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return list(intake.read_conversations(file))


def audited(tmp_path, writer, *items):
    """The audit of one conversation that was read without any fault."""
    flat = [one for each in items for one in (each if isinstance(each, list) else [each])]
    [found] = read(tmp_path, lines_of(writer, flat))
    assert isinstance(found, Transcript), found
    assert (found.format, found.id, found.faults) == (writer.name, found.id, ())
    return audit_conversation(found, OfferCache(ContractCatalogue()).of(found))


def outcomes(found):
    """The status of each call's outcome, and whether the format states it; None for a call without one."""
    return [act.told and (str(act.told.status), act.told.typed) for act in found.acts]


@EVERY
def test_calls_and_words_are_read_alike_in_every_format(tmp_path, writer):
    step = writer.step([ONE], [("1", TOOL, "done", "")])
    found = audited(tmp_path, writer, writer.heard("Remove a."), step, writer.said(SAID))

    [act] = found.acts
    arguments = act.call.arguments
    arguments = json.loads(arguments) if isinstance(arguments, str) and arguments.startswith("{") else arguments
    assert (act.call.tool, arguments) in ((TOOL, ONE[2]), (TOOL, "rm a"))
    assert act.told.content == ({"output": "done"} if writer.name == "gemini" else "done")
    assert [turn.text for turn in found.conversation.turns if turn.text] == ["Remove a.", SAID]


@EVERY
def test_a_call_without_an_outcome_is_not_answered(tmp_path, writer):
    assert outcomes(audited(tmp_path, writer, writer.heard("Remove a."), writer.step([ONE], []))) == [None]


@EVERY
def test_an_outcome_without_a_call_is_named(tmp_path, writer):
    if not writer.alone:
        return
    found = audited(tmp_path, writer, writer.heard("Remove a."), writer.step([], [("1", TOOL, "gone", "")]))

    assert (
        [one for one in found.faults if "not recorded before it" in one.reason]
        or outcomes(found)
        or (not writer.stray_is_a_fault)
    )


@EVERY
@pytest.mark.parametrize("state", ["failed", "succeeded"])
def test_an_outcome_that_the_format_states_is_read_from_its_own_field(tmp_path, writer, state):
    found = audited(tmp_path, writer, writer.heard("Remove a."), writer.step([ONE], [("1", TOOL, "gone", state)]))
    expected = ("failed" if state == "failed" else "success", True)

    assert outcomes(found) == [expected if state in writer.states else ("success", False)]


@EVERY
def test_a_failure_that_stands_in_the_text_alone_is_not_stated(tmp_path, writer):
    told = ("1", TOOL, "Error: too late", "")

    assert outcomes(audited(tmp_path, writer, writer.heard("Remove a."), writer.step([ONE], [told]))) in (
        [("failed", False)],
        [("success", False)],
    )


@EVERY
def test_parallel_calls_are_paired_with_their_outcomes_in_any_order(tmp_path, writer):
    told = [("2", TOOL, "Error: b", ""), ("1", TOOL, "fine", "")]
    told = told if writer.ids else told[::-1]
    found = audited(tmp_path, writer, writer.heard("Remove both."), writer.step([ONE, TWO], told))

    assert ["Error: b" in str(act.told.content) for act in found.acts] == [False, True]


@EVERY
def test_calls_of_one_id_are_each_their_own(tmp_path, writer):
    if not writer.alone:
        return
    items = [
        *writer.step([ONE], [("1", TOOL, "Error: a", "")]),
        *writer.step([("1", TOOL, TWO[2])], [("1", TOOL, "fine", "")]),
    ]
    found = audited(tmp_path, writer, writer.heard("Remove both."), items)

    assert ["Error: a" in str(act.told.content) for act in found.acts] == [True, False]


@EVERY
def test_an_unknown_part_is_named_and_nothing_is_held_against_the_agent(tmp_path, writer):
    items = [writer.heard("Remove both."), *writer.step([ONE], []), writer.unknown, writer.said(SAID)]
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join(lines_of(writer, items)) + "\n")
    code, out, err = audit(file)

    assert code == 3
    assert "eleport" in err or "known format" in err
    assert "of which 0 are unsupported" in out


@EVERY
def test_a_cut_off_last_line_is_named_and_the_rest_is_read(tmp_path, writer):
    lines = lines_of(writer, [writer.heard("Remove a."), *writer.step([ONE], [])])
    found = read(tmp_path, [*lines, lines[-1][: len(lines[-1]) // 2]])

    assert [one.path for one in found if isinstance(one, TranscriptFault)] == [f"line {len(lines) + 1}"]
    assert sum(len(turn.calls) for one in found if isinstance(one, Transcript) for turn in one.turns) == 1


@EVERY
def test_numbers_and_characters_are_kept_as_recorded(tmp_path, writer):
    odd = "rm \u2028 \U0001f600 \ud800 \x00 9007199254740993"
    items = [writer.heard("Remove a."), *writer.step([("1", TOOL, {"command": odd, "n": 9007199254740993})], [])]
    lines = lines_of(writer, items)
    [found] = read(tmp_path, ["\ufeff" + lines[0], *lines[1:]])
    [call] = [call for turn in found.turns for call in turn.calls]
    arguments = call.arguments
    arguments = json.loads(arguments) if isinstance(arguments, str) and arguments.startswith("{") else arguments

    assert arguments in ({"command": odd, "n": 9007199254740993}, odd)


@EVERY
def test_several_sessions_of_one_file_are_conversations_of_their_own(tmp_path, writer):
    lines = [
        *lines_of(writer, [writer.heard("Remove a."), *writer.step([ONE], [])], "first"),
        *lines_of(writer, [writer.heard("Remove b."), *writer.step([TWO], [])], "second"),
    ]
    found = read(tmp_path, lines)

    assert {one.id for one in found} == {"first", "second"}
    assert [sum(len(turn.calls) for turn in one.turns) for one in found] == [1, 1]


@EVERY
def test_an_empty_recording_is_no_conversation(tmp_path, writer):
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join(lines_of(writer, [])) + "\n")

    assert audit(file)[0] in (2, 3)


ODD = ([], {"type": {}}, -1, "\ud800")


def places(value, path=()):
    """The path to each value inside a value."""
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


def damaged(value, path, odd):
    """A copy with another value at a path."""
    if not path:
        return odd
    inner = {path[0]: damaged(value[path[0]], path[1:], odd)}
    return {**value, **inner} if isinstance(value, dict) else [*value[: path[0]], inner[path[0]], *value[path[0] + 1 :]]


@EVERY
def test_damage_anywhere_in_a_recording_neither_ends_the_reading_nor_hides_a_call(tmp_path, writer):
    told = [("1", TOOL, "gone", "failed"), ("2", TOOL, "fine", "")]
    whole = writer.whole([writer.heard("Remove both."), *writer.step([ONE, TWO], told), writer.said(SAID)], "s1")
    lines = whole if isinstance(whole, list) else [whole]
    hidden = []
    for number, path in enumerate(one for one in places(lines) if len(one) > 1):
        odd = ODD[number % len(ODD)]
        found = read(tmp_path, [json.dumps(one) for one in damaged(lines, path, odd)])
        calls = [call for one in found if isinstance(one, Transcript) for turn in one.turns for call in turn.calls]
        answers = [each for one in found if isinstance(one, Transcript) for turn in one.turns for each in turn.answers]
        named = any(isinstance(one, TranscriptFault) or one.faults for one in found)
        if len(calls) < 2 and not named and len(answers) <= len(calls) and found:
            hidden.append((path, odd))

    assert hidden == []
