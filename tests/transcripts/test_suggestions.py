"""Sayings suggested from recordings: words used where the answer showed one thing, and never where another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from counterfoil_transcripts.suggestions import suggest_sayings
from tests.transcripts.recordings import TOOLS, agent, asks, run, user

ROOT = Path(__file__).parents[2]
PAID, FREE = "The difference was charged to your card.", "There is nothing more to pay."


def talk(difference, said, number=1):
    change = asks("update_reservation", {"difference": difference}, reservation_id=f"R{number}", cabin="business")
    return [user("Change it."), *change, agent(said)]


def test_a_word_that_occurs_with_one_kind_of_answer_is_suggested_with_its_condition():
    told = [(20 + number, PAID) for number in range(5)] + [(-5, FREE)] * 4
    [found] = suggest_sayings(run(*talk(*each, number)) for number, each in enumerate(told))
    assert (found.tool, found.words) == ("update_reservation", ("charged",))
    assert found.when == "double(so.difference) > 0.0"
    assert (found.used, found.silent) == (5, 4)
    assert found.document() == {"words": ["charged"], "when": "double(so.difference) > 0.0"}


def test_a_word_with_a_counterexample_or_too_few_uses_is_not_suggested():
    told = [(20, PAID)] * 9 + [(-5, FREE)] * 9
    assert suggest_sayings(run(*talk(*each, n)) for n, each in enumerate([*told, (-5, PAID)])) == []
    assert suggest_sayings(run(*talk(*each, n)) for n, each in enumerate(told[5:])) == []


def test_words_from_too_few_conversations_or_targets_are_not_suggested():
    told = [(20, PAID)] * 5 + [(-5, FREE)] * 5
    assert suggest_sayings(run(*talk(*each, n)) for n, each in enumerate(told[1:])) == []
    assert suggest_sayings(run(*talk(*each, n % 2)) for n, each in enumerate(told)) == []
    assert suggest_sayings(run(*talk(*each, n % 3)) for n, each in enumerate(told)) != []


def test_the_last_member_of_a_list_may_be_the_condition_of_a_saying():
    def paid(kind, said, number):
        shown = {"payments": [{"kind": "payment"}, {"kind": kind}]}
        return run(user("Change it."), *asks("update_reservation", shown, reservation_id=f"R{number}"), agent(said))

    told = [("payment", f"It is changed. {PAID}")] * 5 + [("refund", FREE)] * 4
    [found] = suggest_sayings(paid(*each, number) for number, each in enumerate(told))
    assert (found.words, found.when) == (("charged",), 'so.payments[size(so.payments) - 1].kind == "payment"')


def test_words_that_chance_explains_are_not_suggested():
    told = [(20, PAID)] * 5 + [(20, FREE)] * 15 + [(-5, FREE)] * 3
    assert suggest_sayings(run(*talk(*each, number)) for number, each in enumerate(told)) == []


def test_offers_and_messages_after_several_changes_are_not_evidence():
    offer = "Your card will be charged, if you agree."
    assert suggest_sayings(run(*talk(*each)) for each in [(20, offer)] * 4 + [(-5, FREE)] * 4) == []
    double = [*talk(20, "")[:-1], *asks("issue_refund", {"id": "re"}, reservation_id="R1", amount=5), agent(PAID)]
    assert suggest_sayings([*(run(*double) for _ in range(4)), *(run(*talk(-5, FREE)) for _ in range(4))]) == []


def test_the_command_prints_suggestions_in_the_form_of_a_contract(tmp_path):
    told = [(20, PAID)] * 5 + [(-5, FREE)] * 3
    lines = (json.dumps({"messages": talk(*each, number)}) for number, each in enumerate(told))
    (tmp_path / "recording.jsonl").write_text("\n".join(lines))
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    command = [
        sys.executable,
        "-m",
        "counterfoil_transcripts",
        "suggest",
        "recording.jsonl",
        "--contracts",
        "tools.json",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    saying = {"words": ["charged"], "when": "double(so.difference) > 0.0"}
    assert json.loads(ran.stdout) == {"update_reservation": {"claims": {"sayings": [saying]}}}
    reason = "update_reservation: charged: 5 times where double(so.difference) > 0.0, never otherwise (3 calls)"
    assert reason in ran.stderr
    missing = subprocess.run([*command[:4], "nothing.jsonl"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "There is no file nothing.jsonl." in missing.stderr
