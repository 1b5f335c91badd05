"""The tools, resources and prompts that the official conformance suite asks of a server, each as small as it may be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

BUS = InMemorySubscriptionBus()
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
SLOW_S = 6.0
NOTHING = {"type": "object", "properties": {}}
ANYTHING = {"type": "object"}
DIALECT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADER = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
}


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


def resource(uri: str, mime: str, words: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, mime_type=mime, text=words)
    )


PLAIN: dict[str, list[types.ContentBlock]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [
        resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        image(),
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "test_logging_tool": [text("Nothing to log.")],
    "test_streaming_elicitation": [text("Nothing to ask.")],
    "test_x_mcp_header": [text("Routed.")],
    "json_schema_2020_12_tool": [text("Described.")],
}


async def progress(ctx: Any, _: Any) -> types.CallToolResult:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(0.05)
    return types.CallToolResult(content=[text("Reported.")])


async def fail(_: Any, __: Any) -> types.CallToolResult:
    words = "This tool intentionally returns an error for testing"
    return types.CallToolResult(content=[text(words)], is_error=True)


async def change_tools(_: Any, __: Any) -> types.CallToolResult:
    await BUS.publish(ToolsListChanged())
    return types.CallToolResult(content=[text("Changed.")])


async def change_prompts(_: Any, __: Any) -> types.CallToolResult:
    await BUS.publish(PromptsListChanged())
    return types.CallToolResult(content=[text("Changed.")])


async def greet(_: Any, arguments: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[text(f"Hello, {arguments.get('name')}!")])


async def compute(_: Any, arguments: Any) -> types.CallToolResult:
    await anyio.sleep(arguments.get("seconds", 0))
    return types.CallToolResult(content=[text("Computed.")])


def elicitation(message: str, name: str, kind: str = "string") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(words: str) -> types.CreateMessageRequest:
    asked = types.SamplingMessage(role="user", content=text(words))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[asked], max_tokens=100))


QUESTIONS: dict[str, dict[str, types.InputRequest]] = {
    "test_input_required_result_elicitation": {"user_name": elicitation("What is your name?", "name")},
    "test_input_required_result_sampling": {"capital_question": sampling("What is the capital of France?")},
    "test_input_required_result_list_roots": {"client_roots": types.ListRootsRequest()},
    "test_input_required_result_request_state": {"confirm": elicitation("Please confirm", "ok", "boolean")},
    "test_input_required_result_tampered_state": {"confirm": elicitation("Please confirm", "ok", "boolean")},
    "test_input_required_result_multiple_inputs": {
        "user_name": elicitation("What is your name?", "name"),
        "greeting": sampling("Generate a greeting"),
        "client_roots": types.ListRootsRequest(),
    },
    "test_tool_with_task": {"user_name": elicitation("What is your name?", "name")},
    "confirm_delete": {"confirm": elicitation("Delete it?", "confirm", "boolean")},
    "multi_input": {
        "first": elicitation("The first?", "confirm", "boolean"),
        "second": elicitation("The second?", "confirm", "boolean"),
    },
}
STATE = "the state of the round"


def answered(params: Any, asked: dict[str, types.InputRequest]) -> types.InputRequiredResult | str:
    """The questions that the client has to answer, or its answers as text."""
    told = params.input_responses or {}
    if asked.keys() - told.keys():
        return types.InputRequiredResult(input_requests=asked, request_state=STATE)
    if params.request_state != STATE:
        raise MCPError(types.INVALID_PARAMS, "This is not the state of the round.")
    return json.dumps({key: each.model_dump(mode="json", exclude_none=True) for key, each in told.items()})


async def inquire(_: Any, params: Any) -> types.CallToolResult | types.InputRequiredResult:
    told = answered(params, QUESTIONS[params.name])
    if isinstance(told, types.InputRequiredResult):
        return told
    # Longer than the gateway lets its caller wait, so that the rest of the call is a task.
    await anyio.sleep(SLOW_S if params.name == "test_tool_with_task" else 0)
    return types.CallToolResult(content=[text(f"state-ok {told}")])


async def inquire_twice(_: Any, params: Any) -> types.CallToolResult | types.InputRequiredResult:
    if params.request_state == "second":
        return types.CallToolResult(content=[text("Both are known.")])
    if params.request_state == "first":
        asked = elicitation("Step 2: What is your favorite color?", "color")
        return types.InputRequiredResult(input_requests={"step2": asked}, request_state="second")
    asked = elicitation("Step 1: What is your name?", "name")
    return types.InputRequiredResult(input_requests={"step1": asked}, request_state="first")


async def inquire_as_declared(ctx: Any, _: Any) -> types.CallToolResult | types.InputRequiredResult:
    has = ctx.session.client_capabilities
    asked: dict[str, types.InputRequest] = {}
    if has is not None and has.sampling is not None:
        asked["capital"] = sampling("What is the capital of France?")
    if has is not None and has.elicitation is not None:
        asked["name"] = elicitation("What is your name?", "name")
    return types.InputRequiredResult(input_requests=asked, request_state=STATE)


async def need_sampling(ctx: Any, _: Any) -> types.CallToolResult:
    has = ctx.session.client_capabilities
    if has is None or has.sampling is None:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool asks a model.", data=data)
    return types.CallToolResult(content=[text("Asked.")])


async def refuse(_: Any, __: Any) -> types.CallToolResult:
    raise MCPError(-32603, "This job ends with an error of the protocol.")


ASKING: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(QUESTIONS, inquire),
    "test_input_required_result_multi_round": inquire_twice,
    "test_input_required_result_capabilities": inquire_as_declared,
}
TOOLS: dict[str, Callable[[Any, Any], Any]] = {
    "test_missing_capability": need_sampling,
    "test_tool_with_progress": progress,
    "test_error_handling": fail,
    "test_trigger_tool_change": change_tools,
    "test_trigger_prompt_change": change_prompts,
    "greet": greet,
    "slow_compute": compute,
    "failing_job": fail,
    "protocol_error_job": refuse,
}
SCHEMAS = {"json_schema_2020_12_tool": DIALECT, "test_x_mcp_header": HEADER}


def tools() -> list[types.Tool]:
    names = [*PLAIN, *TOOLS, *ASKING]
    schemas = SCHEMAS | dict.fromkeys(("greet", "slow_compute", "confirm_delete"), ANYTHING)
    return [types.Tool(name=name, description=f"{name}.", input_schema=schemas.get(name, NOTHING)) for name in names]


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=tools())


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
    if params.name in PLAIN:
        return types.CallToolResult(content=PLAIN[params.name])
    if params.name in ASKING:
        asked: types.CallToolResult | types.InputRequiredResult = await ASKING[params.name](ctx, params)
        return asked
    found: types.CallToolResult = await TOOLS[params.name](ctx, params.arguments or {})
    return found


async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
    known = [("test://static-text", "text/plain"), ("test://static-binary", "image/png")]
    found = [types.Resource(uri=uri, name=uri, description=f"{uri}.", mime_type=mime) for uri, mime in known]
    return types.ListResourcesResult(resources=found)


async def list_templates(_: Any, __: Any) -> types.ListResourceTemplatesResult:
    found = types.ResourceTemplate(name="data", uri_template="test://template/{id}/data", mime_type="application/json")
    return types.ListResourceTemplatesResult(resource_templates=[found])


async def read_resource(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri == "test://static-text":
        words = "This is the content of the static text resource."
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text=words)]
        )
    if uri == "test://static-binary":
        return types.ReadResourceResult(contents=[types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)])
    if uri.startswith("test://template/"):
        words = f'{{"id":"{uri.split("/")[3]}","templateTest":true,"data":"Data for ID: {uri.split("/")[3]}"}}'
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="application/json", text=words)]
        )
    raise MCPError(types.INVALID_PARAMS, "Resource not found", data={"uri": uri})


def prompts() -> dict[str, list[str]]:
    return {
        "test_simple_prompt": [],
        "test_prompt_with_arguments": ["arg1", "arg2"],
        "test_prompt_with_embedded_resource": ["resourceUri"],
        "test_prompt_with_image": [],
        "test_input_required_result_prompt": [],
    }


async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
    found = [
        types.Prompt(
            name=name,
            description=f"{name}.",
            arguments=[types.PromptArgument(name=each, required=True) for each in names],
        )
        for name, names in prompts().items()
    ]
    return types.ListPromptsResult(prompts=found)


async def get_prompt(_: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    if params.name == "test_input_required_result_prompt":
        told = answered(params, {"user_context": elicitation("What context should the prompt use?", "context")})
        if isinstance(told, types.InputRequiredResult):
            return told
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text(told))])
    given = params.arguments or {}
    contents: dict[str, list[types.ContentBlock]] = {
        "test_simple_prompt": [text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
        ],
        "test_prompt_with_embedded_resource": [
            resource(given.get("resourceUri", "test://none"), "text/plain", "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [image(), text("Please analyze the image above.")],
    }
    messages = [types.PromptMessage(role="user", content=each) for each in contents[params.name]]
    return types.GetPromptResult(messages=messages)


async def complete(_: Any, __: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=["paris", "park", "party"]))


def server() -> Server[Any]:
    return Server(
        "everything",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_subscriptions_listen=ListenHandler(BUS),
    )


async def main() -> None:
    made = server()
    async with stdio_server() as (read, write):
        await made.run(read, write, made.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
