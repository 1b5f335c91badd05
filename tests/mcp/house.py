"""A real console with its processes, its operator and its reviewer, for a gateway to stand before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx
import pytest

from console.local.processes import wait_until
from counterfoil.mcp import command
from ledger.key_files import write_private
from tests.conftest import Run, Stack, copy_secrets, new_database, new_stack
from tests.journeys.ground import Caller, sign_in
from tests.mcp.conftest import Bench, word
from tests.support.outside.forking import forks

AGENT = "clerk"
TENANT = "attic"


class House:
    """A console with its processes, and what its operator and its reviewer do."""

    def __init__(self, stack: Stack, known: dict[str, Any], folder: Path) -> None:
        self.stack = stack
        self.known = known
        self.tenant = str(known["tenant"]["slug"])
        self.root = folder / "files"
        self.operator = self.caller()
        self.operator.http.headers["Authorization"] = f"Bearer {known['keys']['oper']}"
        person = next(each for each in known["people"] if each["role"] == "reviewer")
        self.password = person["password"]
        self.reviewer = sign_in(self.caller().http, person["username"], self.password)

    def caller(self) -> Caller:
        return Caller(httpx.Client(base_url=self.stack.url, timeout=30))

    def close(self) -> None:
        self.operator.http.close()
        self.reviewer.http.close()

    def system(self, name: str, root: Path) -> None:
        # What the console reads a system with is a file beside its keys; a folder of its own needs no secret.
        write_private(self.credentials / f"{name}.json", json.dumps({"root": str(root)}))
        body = {"name": name, "pattern": "filesystems", "settings": {"root": str(root)}}
        assert self.operator.post("/systems", body).status_code == 201

    @property
    def credentials(self) -> Path:
        """The folder of what the console reads this tenant's systems with."""
        place = Path(self.stack.environment["COUNTERFOIL_SECRETS_DIR"]) / "systems" / self.tenant
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        return place

    def bench(self, folder: Path, server: str, words: list[str], *, cwd: Path | None = None) -> Bench:
        """A gateway before a server of this name, with an executor of its own."""
        folder.mkdir()
        made = Bench(folder, self.stack.url)
        made.keys = {
            "COUNTERFOIL_AGENT_KEY": self.known["keys"]["agent"],
            "COUNTERFOIL_EXECUTOR_KEY": self.known["keys"]["exec"],
            "COUNTERFOIL_OPERATOR_KEY": self.known["keys"]["oper"],
        }
        told: dict[str, Any] = {"name": server, "command": words}
        made.told(server=told | ({"cwd": str(cwd)} if cwd else {}), gateway={"settle_s": 8.0})
        return made.told(console={"agent_id": f"{AGENT}-{server}"})

    def program(self, bench: Bench, *words: str) -> int:
        """Run one of the gateway's other programs in this process; what it exits with."""
        bench.read()
        told = ["--config", str(bench.folder / "gateway.toml"), "--contracts", str(bench.folder / "contracts")]
        with pytest.MonkeyPatch.context() as patched:
            for name, value in bench.keys.items():
                patched.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                command.main([*words, *told])
        assert isinstance(ended.value.code, int), ended.value.code
        return ended.value.code

    def approve(self) -> None:
        self.decide("approve", "The branch is wanted.")

    def decide(self, verdict: str, reason: str, *, about: str = "") -> None:
        """Decide about the one request that waits, or the one in which these words stand, once there is one.

        People are asked after the system was read, so a request may come a moment after the gateway holds it.
        """

        def waiting() -> list[dict[str, Any]]:
            listed = self.reviewer.items("/approvals", state="REQUESTED")
            shown = [self.reviewer.get(f"/approvals/{each['approval_id']}") for each in listed]
            return [each for each in shown if about in json.dumps(each)]

        assert wait_until(waiting, within_s=60)
        (shown,) = waiting()
        body = {
            "verdict": verdict,
            "payload_hash": shown["covers"]["payload_hash"],
            "rendering_digest": shown["covers"]["rendering_digest"],
            "without_reading": shown["target_unread"],
            "reason": reason,
            "password": self.password,
        }
        path = f"/approvals/{shown['approval_id']}/votes"
        answer = self.reviewer.post(path, body, **{"Idempotency-Key": uuid4().hex})
        assert answer.status_code == 201, answer.text

    def state(self, action_id: str) -> str:
        return str(self.operator.get(f"/actions/{action_id}")["state"])


@contextmanager
def opened(run: Run, folder: Path) -> Iterator[House]:
    with console(run, folder) as stack, founded(stack, folder, TENANT) as house:
        yield house


@contextmanager
def console(run: Run, folder: Path) -> Iterator[Stack]:
    """A console with its processes, and no tenant yet."""
    with new_database(run) as database:
        # Other workers of the run have a tenant of the same name, with credentials of the same names.
        database.environment["COUNTERFOIL_SECRETS_DIR"] = str(copy_secrets(run, folder / "secrets"))
        with new_stack(run, folder, database) as stack:
            stack.start("web", "worker", "beat")
            yield stack


@contextmanager
def founded(stack: Stack, folder: Path, tenant: str) -> Iterator[House]:
    """A new tenant of a console."""
    words = ["bootstrap", "--tenant", tenant, "--messages", "pass", "--also", "compliance", "--json"]
    answer = forks().run(["manage.py", *words], stack.environment)
    assert answer.returncode == 0, answer.stderr
    house = House(stack, json.loads(answer.stdout), folder)
    try:
        yield house
    finally:
        house.close()


def edit(bench: Bench, name: str, **changes: Any) -> None:
    """What a person does with a draft."""
    path = bench.folder / "contracts" / f"{name}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


async def settled(client, result):
    """The answer once the console has a verdict; until then nobody is told that it is done."""
    with anyio.fail_after(60):
        while word(result).get("report", {}).get("code") not in ("COMPLETED", "FAILED", "FINAL_STATE_UNKNOWN"):
            assert not word(result).get("report", {}).get("completed")
            result = await client.call_tool("counterfoil_status", {"action_id": word(result)["action_id"]})
    return result
