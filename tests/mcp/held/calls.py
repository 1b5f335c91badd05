"""Requests about tasks, as a client sends them that handles its tasks itself."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types

EXTENSION = "io.modelcontextprotocol/tasks"
NOTE = {"text": "Milk"}


class TaskRequest(types.Request[dict[str, Any], str]):
    """A request about a task, as the extension has it."""

    name_param = "taskId"


class Answer(types.Result):
    model_config = types.Result.model_config | {"extra": "allow"}


async def ask(session, method, task_id, **more):
    answer = await session.send_request(TaskRequest(method=method, params={"taskId": task_id} | more), Answer)
    return answer.model_dump(by_alias=True)


async def begin(client, name="keep_note", arguments=NOTE):
    """Call a tool as a client that wants the task itself."""
    request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))
    return (await client.session.send_request(request, Answer)).model_dump(by_alias=True)


async def ended(client, task_id):
    with anyio.fail_after(120):
        while (task := await ask(client.session, "tasks/get", task_id))["status"] in ("working", "input_required"):
            await anyio.sleep(0.1)
    return task
