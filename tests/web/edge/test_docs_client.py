"""The programs of docs/client.md are run, in their order, on a console that is served, and print what the page says."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.db import connections

from console.asgi import application
from console.local import servers
from counterfoil.answers import Outcome
from tests.support.api_tenant import Clock, Workshop, workshop
from tests.web.edge.test_docs_examples import GUIDE, blocks

CLIENT = GUIDE.with_name("client.md")
SAID = "I have deleted the document imprint.md."
ARGUMENTS = {"path": "imprint.md", "reason": "It is out of date."}
APPROVED = "<!-- a reviewer approves -->"
READ_BACK = "<!-- the worker reads the system back -->"


@dataclass
class Follower:
    """Somebody who types the programs of the guide, and the people and the worker around them."""

    shop: Workshop
    clock: Clock
    names: dict[str, Any] = field(default_factory=dict)

    def run(self, program: str) -> str:
        said = StringIO()
        with redirect_stdout(said):
            exec(compile(program, "docs/client.md", "exec"), self.names)
        return said.getvalue()

    def note(self, text: str) -> None:
        if text == APPROVED:
            for approval in self.shop.reviewer.get("/approvals").json()["items"]:
                shown = self.shop.reviewer.get(f"/approvals/{approval['approval_id']}").json()
                assert self.shop.vote(shown).status_code == 201
        elif text == READ_BACK:
            outcome: Outcome = self.names["outcome"]
            assert outcome.action_id
            self.clock.forward(seconds=5)
            self.shop.read_back(outcome.action_id, self.clock)


@pytest.fixture
def follower(
    committed_db: Any,
    clock: Clock,
    secrets_dir: Path,
    tmp_path: Path,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Follower]:
    # The server's threads leave no connection behind when the database goes.
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    folder = tmp_path / "documents"
    folder.mkdir()
    for name in ("returns", "privacy", "terms", "imprint"):
        (folder / f"{name}.md").write_text("Old.")
    credentials = secrets_dir / "systems" / "orchid"
    credentials.mkdir(parents=True)
    (credentials / "documents.json").write_text("{}")
    shop = workshop("orchid")
    system = {"name": "documents", "pattern": "filesystems", "settings": {"root": str(folder)}}
    assert shop.operator_key.post("/systems", system).status_code == 201
    with served() as url:
        settings.COUNTERFOIL_PUBLIC_URL = url
        keys = {"AGENT": shop.agent, "OPERATOR": shop.operator_key, "EXECUTOR": shop.executor}
        names = {f"{name}_KEY": key.headers["Authorization"].removeprefix("Bearer ") for name, key in keys.items()}
        follower = Follower(shop, clock, {"URL": url, "FOLDER": folder, "SAID": SAID} | names | models())
        yield follower
        for name in ("agent", "operator", "executor"):
            follower.names[name].close()


@contextmanager
def served() -> Iterator[str]:
    """The product on a port of this machine, in a thread of this process."""
    port = servers.free_port()
    config = uvicorn.Config(
        application,
        **{"host": "127.0.0.1", "port": port, "lifespan": "off", "log_level": "error", "timeout_graceful_shutdown": 1},
    )
    server = uvicorn.Server(config)
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        await server.serve()
        # The thread that read for the streams holds a connection to a database that is about to go.
        await sync_to_async(connections.close_all)()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        loop.close()


def models() -> dict[str, Any]:
    """For each framework, a model that calls the tool once and then says that it is done."""
    import agents
    from agents.testing import ScriptedModel, assistant_message, function_call
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    class ChatModel(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

    agents.set_tracing_disabled(True)
    call: Any = {"name": "delete_document", "args": ARGUMENTS, "id": "c1", "type": "tool_call"}
    turns = iter([ToolCallPart("delete_document", ARGUMENTS, "c1"), TextPart(SAID)])
    steps = [[function_call("delete_document", ARGUMENTS, call_id="c1")], [assistant_message(SAID)]]
    return {
        "chat_model": ChatModel(messages=iter([AIMessage("", tool_calls=[call]), AIMessage(SAID)])),
        "openai_model": ScriptedModel(steps),
        "pydantic_model": FunctionModel(lambda messages, info: ModelResponse(parts=[next(turns)])),
    }


def test_the_programs_of_the_client_guide_print_the_documented_output(
    follower: Follower, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    said, ran = "", 0
    for kind, _, text in blocks(CLIENT):
        if kind == "text":
            assert said == text
            said = ""
        elif kind == "python":
            assert said == "", "a program printed what the guide does not show"
            said, ran = follower.run(text), ran + 1
        elif kind == "note":
            follower.note(text)
    assert said == ""
    assert ran > 10
    assert not (follower.names["FOLDER"] / "privacy.md").exists()
    assert json.loads((tmp_path / "executor.jwk").read_text())["kty"] == "OKP"
