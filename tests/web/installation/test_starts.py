"""The start page of each role, carried out: its words lead from page to page, its commands and calls are looked up."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from django.core.management import CommandError, get_commands, load_command_class
from django.urls import reverse

from console.guides.guides import FOLDER
from tests.support.browser_users import Visitor, visitor, words
from tests.support.scenes import PASSWORD
from tests.support.seals import seal_up

ROOT = FOLDER.parent
ROLES = {
    "reviewer": ("reviewer",),
    "operator": ("operator",),
    "compliance": ("compliance",),
    "administrator": ("administrator",),
    "integrator": ("administrator",),
    "servers": ("operator",),
}
ITEMS = {"request": "approvals", "case": "cases", "action": "actions"}
MOST_WORDS = 400


def start_page(name: str) -> str:
    return (FOLDER / f"start-{name}.md").read_text()


def steps(text: str) -> list[str]:
    """The numbered steps of a page."""
    return [re.sub(r"\n +", " ", each) for each in re.findall(r"^\d+\. (.+(?:\n +.+)*)", text, re.MULTILINE)]


class Walk:
    """Somebody who reads a page of the console and goes on by the words of a guide."""

    def __init__(self, person: Visitor) -> None:
        self.person = person
        self.go(f"/t/{person.slug}/")

    def go(self, address: str) -> None:
        answer = self.person.client.get(address, follow=True)
        if answer.request["PATH_INFO"] == reverse("account_reauthenticate"):
            asked = f"{answer.request['PATH_INFO']}?{answer.request['QUERY_STRING']}"
            answer = self.person.client.post(asked, {"password": PASSWORD}, follow=True)
        assert answer.status_code == 200, address
        self.address, self.page = answer.request["PATH_INFO"], answer.content.decode()

    def follow(self, word: str) -> bool:
        """Go where a link of this word leads; otherwise the word must stand on the page. False if it does not."""
        links = re.findall(r'<a\b[^>]*href="([^"]+)"[^>]*>(.*?)</a>', self.page, re.DOTALL)
        for href, inner in links:
            shown = words(re.sub(r'<span class="(?:badge|count)[^>]*>.*?</span>', "", inner)).strip()
            if re.fullmatch(rf"{re.escape(word)}(?: \d+ \w+)?", shown):
                if not re.search(r"\.(?:txt|csv|json|jsonl|pdf)$|verifier-policy", href):
                    self.go(urljoin(self.address, href.replace("&amp;", "&")))
                return True
        return word.casefold() in words(self.page).casefold()

    def open_first(self, kind: str) -> bool:
        found = re.search(rf'href="([^"]*/{ITEMS[kind]}/[0-9a-f-]{{36}})[^"]*"', self.page)
        if found:
            self.go(urlsplit(urljoin(self.address, found[1])).path)
        return found is not None


@pytest.mark.parametrize("name", ROLES)
def test_the_words_of_a_start_lead_from_page_to_page(stage: Any, name: str):
    stage.done()
    stage.case()
    stage.propose()
    seal_up()
    walk, missing = Walk(visitor(stage, *ROLES[name])), []
    for step in steps(start_page(name)):
        for word, kind in re.findall(r"\*\*(.+?)\*\*|(?<!\*)\*the first (\w+)\*(?!\*)", step):
            if not (walk.open_first(kind) if kind else walk.follow(word)):
                missing.append((word or kind, walk.address))
    assert missing == []


@pytest.mark.parametrize("name", ROLES)
def test_a_start_is_short_and_leads_to_steps_for_its_role(name: str):
    text = start_page(name)
    assert len(text.split()) <= MOST_WORDS
    assert 5 <= len(steps(text)) <= 9
    assert f"(docs/start-{name}.md)" in (ROOT / "README.md").read_text()


def test_help_and_the_list_of_guides_say_where_to_start(stage: Any):
    person = visitor(stage, "reviewer")
    for path in ("help", "docs/"):
        section = person.page(path).split("Where to start")[1].split("</nav>")[0]
        assert re.findall(rf"/t/{stage.slug}/docs/([a-z-]+)", section) == [
            *(f"start-{name}" for name in sorted(ROLES)),
            "how-to",
        ]


@pytest.mark.parametrize("name", ["integrator", "servers"])
def test_every_command_call_and_variable_of_a_start_is_there(name: str, client: Any):
    quoted = re.findall(r"`([^`]+)`", start_page(name))
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    settings = (ROOT / "docs" / "deploy.md").read_text() + (ROOT / "console" / "settings.py").read_text()
    missing = [each for each in quoted if not _is_there(each, paths, settings)]
    assert missing == []
    assert len(quoted) >= 8


def _is_there(quoted: str, paths: Any, settings: str) -> bool:
    first, *rest = quoted.split()
    if first in ("GET", "POST"):
        return first.lower() in paths.get(rest[0], {})
    if first == "make":
        return bool(re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE))
    if first == "manage.py":
        return _parses(*rest)
    if first == "python":
        return (ROOT / rest[1].replace(".", "/")).with_suffix(".py").exists()
    if first.startswith("counterfoil-"):
        program = Path(sys.executable).with_name(first)
        return program.exists() and not subprocess.run([program, *rest, "--help"], capture_output=True).returncode
    return first in settings if first.isupper() else (ROOT / first).exists()


def _parses(command: str, *words: str) -> bool:
    """Whether `manage.py` has the command and it takes these words."""
    if command not in get_commands():
        return False
    parser = load_command_class(get_commands()[command], command).create_parser("manage.py", command)
    try:
        parser.parse_args(words)
    except (CommandError, SystemExit):
        return False
    return True
