"""The sentence with which a page answers its question, before its list."""

from __future__ import annotations

import re

from console.quality.views import quickest_sentence
from tests.support.browser_users import visitor, words
from tests.web.readback.test_pages_systems import asked


def test_actions_say_how_many_of_the_last_day_wait_for_a_person(stage):
    reader = visitor(stage, "reviewer")
    assert "No action was proposed in the last 24 hours." in words(reader.page("actions"))
    stage.approval(stage.propose())
    assert "1 of 1 action of the last 24 hours waits for a person." in words(reader.page("actions"))
    stage.case(count=2)
    stage.approval(stage.propose())
    said = words(reader.page("actions"))
    assert "3 of 3 actions of the last 24 hours wait for a person." in said


def test_filtered_actions_say_nothing_about_all_of_them(stage):
    stage.approval(stage.propose())
    assert "of the last 24 hours" not in words(visitor(stage, "reviewer").page("actions", tool="issue_refund"))


def test_systems_say_which_of_them_does_not_answer(stage):
    reader = visitor(stage, "reviewer")
    said = words(reader.page("systems"))
    assert "None of 1 system has been read; no reading fails. No action waits to be verified." in said
    asked(stage)
    assert "Every system answers." in words(reader.page("systems"))
    asked(stage, 5, unanswered="Connection refused")
    assert "shop does not answer." in words(reader.page("systems"))


def test_calls_say_how_many_were_blocked(stage):
    reader = visitor(stage, "reviewer")
    assert "No call was made in the last 7 days." in words(reader.page("calls"))
    stage.approval(stage.propose())
    assert "None of 1 call of the last 7 days was blocked." in words(reader.page("calls"))


def test_quality_names_who_was_most_often_faster_than_reading_and_nobody_without_figures():
    def found(*rows, privacy="person"):
        return {"privacy": privacy, "reports": [{"by": "rule", "rows": []}, {"by": "tool", "rows": list(rows)}]}

    slow, quick = {"name": "send_mail", "quick": 0.0}, {"name": "refund", "quick": 0.25}
    most = "Most often faster than reading in the last 30 days: refund, 25% of its votes."
    assert quickest_sentence(found(slow, quick)) == most
    assert quickest_sentence(found(slow)) == "No vote that is shown of the last 30 days was faster than reading."
    unknown = quickest_sentence(found({"name": "refund", "quick": None}))
    assert unknown.startswith("No figure of the last 30 days can be shown")
    assert quickest_sentence(found(privacy="off")) == "The approval policy keeps no figures of reviewers."


def test_holds_say_what_waits_for_a_second_person(stage):
    said = words(visitor(stage, "compliance").page("audit/holds"))
    assert "No erasure waits for a second person; no legal hold is in force." in said


def test_the_guides_are_counted(stage):
    page = visitor(stage, "reviewer").page("docs/")
    count = len(set(re.findall(r'href="/t/orchid/docs/([a-z-]+)"', page.split("<main")[1].split("</main>")[0])))
    assert f"{count} guides. Each page of the console names its own at the foot." in words(page)
