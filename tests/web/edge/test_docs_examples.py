"""The examples of docs/api.md and docs/decide.md are run, in their order, and answer what the page says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.utils import timezone

from tests.support.api_tenant import PASSWORD, Clock, Workshop, workshop
from tests.support.callers import new_client
from tests.support.seals import seal_up

GUIDE = Path(__file__).parents[3] / "docs" / "api.md"
DECIDE = GUIDE.with_name("decide.md")
BLOCK = re.compile(r"```(?P<kind>\w+)(?: (?P<status>\d+))?\n(?P<text>.*?)```|(?P<note><!-- .*? -->)", re.DOTALL)
READ_BACK = "<!-- the worker reads the system back -->"
APPROVES = "<!-- a reviewer approves -->"
ANYTHING = "…"


@dataclass
class Reader:
    """Somebody who follows the guide to the letter."""

    shop: Workshop
    clock: Clock
    folder: Path
    known: dict[str, str] = field(default_factory=dict)

    def filled(self, text: str) -> str:
        return re.sub(r"\$([A-Z_]+)", lambda name: self.known[name.group(1)], text)

    def ask(self, block: str) -> Any:
        """Send one request as it is written down."""
        head, _, body = block.partition("\n\n")
        first, *lines = head.strip().split("\n")
        method, _, path = self.filled(first).partition(" ")
        if "$PROOF" in head:
            self.known["PROOF"] = self.proof(path, self.known["GRANT"])
        if "$EXECUTOR_PROOF" in head:
            self.known["EXECUTOR_PROOF"] = self.proof(path, self.known["EXECUTOR"])
        headers = dict(self.filled(line).split(": ", 1) for line in lines)
        client = self.sender(headers.pop("Cookie", ""))
        if method == "GET":
            return client.get(path, headers=headers)
        return client.post(path, self.filled(body), headers.pop("Content-Type"), headers=headers)

    def sender(self, cookie: str) -> Any:
        """Whose browser sends it: the reviewer's, unless the session is the operator's; a program's without one."""
        if not cookie:
            return self.shop.agent.client
        session = self.known["OPERATORS_SESSION"]
        return self.shop.operator.client if session in cookie else self.shop.reviewer.client

    def proof(self, path: str, token: str) -> str:
        return self.shop.key.proof(
            method="POST",
            url=f"http://testserver{path}",
            token=token,
            at=timezone.now().timestamp(),
        )

    def compare(self, said: Any, answered: Any, place: str = "") -> None:
        """The answer is as the guide says; a `$NAME` in the guide is learnt from it."""
        if isinstance(said, str) and said.startswith("$"):
            assert self.known.setdefault(said[1:], answered) == answered, place
        elif isinstance(said, dict) and ANYTHING in said:
            told = {name: part for name, part in said.items() if name != ANYTHING}
            self.compare(told, {name: answered[name] for name in told}, place)
        elif isinstance(said, dict):
            assert said.keys() == answered.keys(), place
            for name, part in said.items():
                self.compare(part, answered[name], f"{place}/{name}")
        elif isinstance(said, list):
            assert len(said) == len(answered), place
            for number, part in enumerate(said):
                self.compare(part, answered[number], f"{place}/{number}")
        elif said != ANYTHING:
            assert said == answered, place

    def approve(self) -> None:
        assert self.shop.vote(self.shop.approval_of(self.known["TASK"])).status_code == 201
        seal_up()

    def read_back(self) -> None:
        (self.folder / "policies" / "returns.md").unlink()
        self.clock.forward(seconds=5)
        self.shop.read_back(self.known["ACTION"], self.clock)


@pytest.fixture
def reader(db: None, clock: Clock, secrets_dir: Path, tmp_path: Path) -> Reader:
    folder = tmp_path / "documents"
    (folder / "policies").mkdir(parents=True)
    for name in ("returns.md", "privacy.md"):
        (folder / "policies" / name).write_text("Old.")
    credentials = secrets_dir / "systems" / "orchid"
    credentials.mkdir(parents=True)
    (credentials / "documents.json").write_text("{}")
    shop = workshop("orchid")
    keys = {"AGENT": shop.agent, "OPERATOR": shop.operator_key, "EXECUTOR": shop.executor}
    known = {name: caller.headers["Authorization"].removeprefix("Bearer ") for name, caller in keys.items()}
    known |= {"PASSWORD": PASSWORD, "PUBLIC_JWK": json.dumps(shop.key.public_jwk)}
    known["OPERATORS_SESSION"] = shop.operator.client.cookies["sessionid"].value
    return Reader(shop, clock, folder, known)


def blocks(guide: Path = GUIDE) -> Iterator[tuple[str, str, str]]:
    """(kind, status, text) of each example of a guide."""
    for found in BLOCK.finditer(guide.read_text()):
        yield found["kind"] or "note", found["status"] or "", found["text"] or found["note"]


def follow(reader: Reader, guide: Path = GUIDE) -> None:
    """Send every request and compare every answer."""
    answer: Any = None
    for kind, status, text in blocks(guide):
        # The guide says where such a folder lies on a server; ours lies elsewhere.
        text = text.replace("/srv/documents", str(reader.folder))
        if kind == "http":
            answer = reader.ask(text)
        elif kind == "json":
            assert answer.status_code == int(status), answer.content
            reader.compare(json.loads(text), answer.json())
        elif text == READ_BACK:
            reader.read_back()
        elif text == APPROVES:
            reader.approve()


def into_the_console(request: httpx.Request) -> httpx.Response:
    """The library's requests reach the views in the test's own transaction."""
    headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
    kind = headers.pop("content-type", "application/json")
    path = request.url.raw_path.decode()
    answer = new_client().generic(request.method, path, request.content, kind, headers=headers)
    return httpx.Response(answer.status_code, headers=dict(answer.items()), content=answer.content)


def test_the_requests_of_the_guide_get_the_documented_answers(reader: Reader):
    kinds = [kind for kind, _, _ in blocks()]
    assert kinds.count("http") == kinds.count("json") > 10
    follow(reader)


def test_the_decisions_of_the_guide_are_made_as_documented(reader: Reader):
    reader.shop.set_up(reader.folder)
    session = reader.shop.session()
    reader.known |= {"SESSION": session["session_id"], "PIN": session["pin"]["hash"]}
    follow(reader, DECIDE)


def test_the_programs_of_the_guide_work_as_documented(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any
):
    # An executor takes grants of the console that it called, and of no other.
    settings.COUNTERFOIL_PUBLIC_URL = "http://testserver"
    follow(reader)
    own = httpx.Client
    console = httpx.MockTransport(into_the_console)
    monkeypatch.setattr("counterfoil.connection.httpx.Client", lambda **options: own(transport=console, **options))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {
        "URL": "http://testserver",
        "AGENT_KEY": reader.known["AGENT"],
        "EXECUTOR_KEY": reader.known["EXECUTOR"],
        "FOLDER": reader.folder,
    }
    programs = [text for kind, _, text in blocks() if kind == "python"]
    outputs = [text for kind, _, text in blocks() if kind == "text"]
    for program, output in zip(programs, outputs, strict=True):
        said = StringIO()
        with redirect_stdout(said):
            exec(compile(program, "docs/api.md", "exec"), names)
        assert said.getvalue() == output
        waiting = reader.shop.reviewer.get("/approvals").json()["items"]
        for approval in waiting:
            shown = reader.shop.reviewer.get(f"/approvals/{approval['approval_id']}").json()
            assert reader.shop.vote(shown).status_code == 201
    assert not (reader.folder / "policies" / "privacy.md").exists()
