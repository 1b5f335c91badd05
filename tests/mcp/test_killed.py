"""The gateway is killed between the start of an action and the answer of the server, and another one is started.

Nothing is executed twice, nobody hears that it is done before it was read back, and it ends where the real system says:
once with the effect kept, once with it lost, once with an effect that comes after the gateway has gone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import anyio
import pytest
from anyio import to_thread
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from console.local.servers import free_port
from tests.conftest import Stack
from tests.mcp import vault
from tests.mcp.conftest import Bench, word
from tests.mcp.house import House, edit, opened

SILENT = ["PROPOSED", "VALIDATED", "EXECUTING", "UNKNOWN", "PENDING"]
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def house(template, run, tmp_path_factory) -> Iterator[House]:
    with opened(run, tmp_path_factory.mktemp("house")) as found:
        yield found


@pytest.fixture(scope="module")
def kept(house, tmp_path_factory) -> Bench:
    """A server that writes files and does not answer, behind a gateway."""
    folder = tmp_path_factory.mktemp("vault")
    bench = house.bench(folder / "gateway", "vault", [sys.executable, vault.__file__, str(folder / "gateway")])
    (bench.folder / "kept").mkdir()
    bench.become("")
    house.system("vault", bench.folder / "kept")
    assert house.program(bench, "contracts") == 0
    edit(
        bench,
        "vault.write_file",
        side_effect_class="EPHEMERAL_WRITE",
        reversibility="REVERSIBLE",
        verification={
            "pattern": "filesystems",
            "system": "vault",
            "lookup": {"effects": {"file": {"path": "sr.path", "expect": "present"}}},
            "predicates": ["sa.size == size(bytes(sr.content))"],
            "polling": {"first_after_s": 1, "backoff": 1.5, "max_interval_s": 4, "sla_s": 60},
            "settle_s": 1,
        },
    )
    assert house.program(bench, "register") == 0
    return bench.told(gateway={"timeout_s": 1, "settle_s": 0.5})


def _killed_in_a_call(stack: Stack, bench: Bench, path: str) -> None:
    """Call through a gateway that listens, and kill it as soon as the server has the call."""
    port, before = free_port(), len(bench.calls)
    bench.told(gateway={"listen": f"127.0.0.1:{port}"})
    started = bench.parameters()
    with bench.log.open("a") as log:
        process = subprocess.Popen([started.command, *started.args], env=started.env, stderr=log)
    try:
        with suppress(ExceptionGroup):
            anyio.run(_call_and_kill, stack, bench, path, process, port)
    finally:
        process.kill()
        assert process.wait(30) < 0
        del bench.settings["gateway"]["listen"]
    assert len(bench.calls) == before + 1


async def _call_and_kill(stack, bench, path, process, port):
    await _listens(process, port, bench)
    with anyio.fail_after(WITHIN_S):
        async with (
            Client(streamable_http_client(f"http://127.0.0.1:{port}/mcp")) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_kill, stack, bench, process, tasks.cancel_scope)
            answer = await client.call_tool("write_file", _file(path))
            raise AssertionError(f"answered before it was killed: {answer}")


async def _listens(process, port, bench):
    while True:
        assert process.poll() is None, bench.log.read_text()
        with suppress(OSError):
            await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            return
        await anyio.sleep(0.05)


async def _kill(stack, bench, process, calling):
    """As soon as the server has the call, and has done what it does at once."""
    before = len(bench.calls)
    while len(bench.calls) == before:
        await anyio.sleep(0.02)
    if (bench.folder / "mode").read_text() == "kept":
        while not (bench.folder / "written").exists():
            await anyio.sleep(0.02)
    # Nothing of the console goes on by itself, until the test lets it.
    for name in ("beat", "worker"):
        stack.kill(name)
    process.kill()
    calling.cancel()


def _file(path: str) -> dict[str, str]:
    return {"path": path, "content": "Quiet."}


def _only(house: House, path: str) -> str:
    """The one action for this file; the gateway's client never heard its id."""
    found = house.operator.items("/actions", tool="vault.write_file", limit="100")
    (action,) = [each["action_id"] for each in found if path in json.dumps(each)]
    return str(action)


def _path(house: House, action_id: str) -> list[str]:
    events = house.operator.items(f"/actions/{action_id}/history", limit="500")
    states = [each["state"] for each in sorted(events, key=lambda each: each["seq"])]
    return [state for place, state in enumerate(states) if place == 0 or states[place - 1] != state]


async def _read_back(client, action_id):
    """The answer once the outcome is known; until then nobody is told that it is done."""
    with anyio.fail_after(WITHIN_S):
        while True:
            result = await client.call_tool("counterfoil_status", {"action_id": action_id})
            if word(result)["state"] in ("RECONCILED_SUCCESS", "FAILED"):
                return result
            assert word(result)["report"]["completed"] is False
            await anyio.sleep(0.5)


@pytest.mark.parametrize(
    ("mode", "ends"),
    [
        ("kept", ["COMMITTED", "RECONCILED_SUCCESS"]),
        pytest.param("late", ["COMMITTED", "RECONCILED_SUCCESS"], marks=pytest.mark.long),
        ("lost", ["FAILED"]),
    ],
)
@pytest.mark.req("R-EX-07", "R-EX-11")
def test_a_gateway_killed_during_a_call_leaves_an_unknown_action_that_is_read_back(house, kept, mode, ends):
    path = f"{mode}.md"
    (kept.folder / "written").unlink(missing_ok=True)
    kept.become(mode)
    _killed_in_a_call(house.stack, kept, path)
    action_id = _only(house, path)
    calls = len(kept.calls)
    kept.become("")

    async def script(client):
        first = await client.call_tool("counterfoil_status", {"action_id": action_id})
        again = await client.call_tool("write_file", _file(path))
        await to_thread.run_sync(house.stack.start, "worker", "beat")
        return first, again, await _read_back(client, action_id)

    first, again, last = kept.talk_across(script)
    assert word(first)["status"] == "running", word(first)
    assert word(first)["report"]["completed"] is False
    # The same call while the first one is open is no second effect.
    assert again.is_error, word(again)
    assert word(again)["code"] == "DUPLICATE_BLOCKED"
    assert len(kept.calls) == calls
    assert _path(house, action_id) == SILENT + ends
    assert word(last)["report"]["completed"] is (mode != "lost")
    assert (kept.folder / "kept" / path).exists() is (mode != "lost")
