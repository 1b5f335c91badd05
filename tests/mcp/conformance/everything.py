"""The tools, resources and prompts that the official conformance suite asks of a server, each as small as it may be."""

from __future__ import annotations

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


async def refuse(_: Any, __: Any) -> types.CallToolResult:
    raise MCPError(-32603, "This job ends with an error of the protocol.")


TOOLS: dict[str, Callable[[Any, Any], Any]] = {
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
    names = [*PLAIN, *TOOLS]
    schemas = SCHEMAS | dict.fromkeys(("greet", "slow_compute"), ANYTHING)
    return [types.Tool(name=name, description=f"{name}.", input_schema=schemas.get(name, NOTHING)) for name in names]


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=tools())


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name in PLAIN:
        return types.CallToolResult(content=PLAIN[params.name])
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


async def get_prompt(_: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
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
