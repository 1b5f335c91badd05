"""The official SDK for TypeScript on both sides of the gateway: its client before it, its server behind it."""

from __future__ import annotations

import json
import os
import subprocess

import anyio
import pytest
from mcp_types import Tool

from counterfoil.mcp.upstream import connect_upstream
from tests.mcp.conftest import contract
from tests.peers.support import environment

pytestmark = pytest.mark.long
NODE = ("@modelcontextprotocol/sdk@1.32.2",)
TOOLS = """
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { z } = require("zod");
function made() {
  const server = new McpServer({ name: "notes", version: "1" });
  const text = { text: z.string() };
  server.registerTool("text_only", { description: "Text.", inputSchema: text },
    async ({ text }) => ({ content: [{ type: "text", text: "kept: " + text }] }));
  server.registerTool("both", { description: "Both.", inputSchema: text, outputSchema: { kept: z.string() } },
    async ({ text }) => ({ content: [{ type: "text", text: "kept: " + text }], structuredContent: { kept: text } }));
  server.registerTool("structured_only", { description: "One.", inputSchema: text, outputSchema: { kept: z.string() } },
    async ({ text }) => ({ structuredContent: { kept: text } }));
  server.registerTool("count", { description: "Count.", inputSchema: { n: z.number().int() } },
    async ({ n }) => ({ content: [{ type: "text", text: "n = " + n }] }));
  server.registerTool("fails", { description: "Fail.", inputSchema: text },
    async () => { throw new Error("disk full"); });
  server.registerTool("asks", { description: "Ask.", inputSchema: text }, async () => {
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const told = await server.server.elicitInput({ mode: "form", message: "Whose notes?", requestedSchema });
    return { content: [{ type: "text", text: "asked: " + JSON.stringify(told.content) }] };
  });
  server.registerTool("exits", { description: "End.", inputSchema: text }, async () => process.exit(3));
  return server;
}
"""
STDIO = """
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
made().connect(new StdioServerTransport());
"""
HTTP = """
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { randomUUID } = require("crypto");
const known = new Map();
require("http").createServer(async (request, response) => {
  if (request.url === "/forget") { known.clear(); return response.end("{}"); }
  const transport = known.get(request.headers["mcp-session-id"]);
  if (transport) return transport.handleRequest(request, response);
  if (request.headers["mcp-session-id"]) {
    response.writeHead(404, { "content-type": "application/json" });
    const error = { code: -32001, message: "Session not found" };
    return response.end(JSON.stringify({ jsonrpc: "2.0", error, id: null }));
  }
  const fresh = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID, onsessioninitialized: (id) => known.set(id, fresh) });
  await made().connect(fresh);
  fresh.handleRequest(request, response);
}).listen(Number(process.argv[1]), "127.0.0.1");
"""
CLIENT = """
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { ElicitRequestSchema } = require("@modelcontextprotocol/sdk/types.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
(async () => {
  const [command, args, env, calls] = JSON.parse(process.argv[1]);
  const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
  const asked = [];
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    asked.push(params.message);
    return { action: "accept", content: { name: "Ann" } };
  });
  await client.connect(new StdioClientTransport({ command, args, env: { ...process.env, ...env }, stderr: "ignore" }));
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  const results = [];
  for (const [name, given] of calls) {
    if (name === "forget") { await fetch(given); continue; }
    results.push(await client.callTool({ name, arguments: given }));
  }
  console.log(JSON.stringify({ tools, results, asked }));
  await client.close();
})();
"""
NOTE = {"text": "Milk"}
ROWS = {
    "text_only": (["kept: Milk"], None),
    "both": (["kept: Milk"], {"kept": "Milk"}),
    "structured_only": (['{"kept": "Milk"}'], {"kept": "Milk"}),
}


@pytest.fixture(scope="module")
def node():
    return {"NODE_PATH": str(environment.peer_node(NODE) / "node_modules")}


def _register(bench, desk):
    async def ask():
        async with connect_upstream(bench.read().server, notified=_nothing) as upstream:
            return (await upstream.tools()).tools

    tools: list[Tool] = anyio.run(ask)
    desk.tools = [contract(tool, side_effect_class="READ_ONLY") for tool in tools]
    return [tool.name for tool in tools]


async def _nothing(_):
    return None


def _talk(bench, node, *calls):
    started = bench.parameters()
    told = json.dumps([started.command, started.args, started.env, calls])
    answer = subprocess.run(
        ["node", "-e", CLIENT, told],
        capture_output=True,
        text=True,
        timeout=90,
        env=node | {"PATH": os.environ["PATH"]},
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def _is_told(result, name):
    texts, structured = ROWS[name]
    assert [block["text"] for block in result["content"]][:-1] == texts
    assert result["content"][-1]["text"].startswith("Counterfoil: It is COMPLETED.")
    assert result.get("structuredContent") == structured
    assert result["_meta"]["io.counterfoil/call"]["report"]["completed"] is True


def test_a_client_of_the_typescript_sdk_receives_the_answers_of_such_a_server(bench, desk, node):
    bench.told(server={"command": ["env", f"NODE_PATH={node['NODE_PATH']}", "node", "-e", TOOLS + STDIO]})
    names = _register(bench, desk)
    calls = [[name, NOTE] for name in ROWS]
    told = _talk(bench, node, *calls, ["count", {"n": 1000}], ["fails", NOTE], ["exits", NOTE])
    assert told["tools"] == [*sorted(names), "counterfoil_status", "counterfoil_lines", "counterfoil_verify"]
    for result, name in zip(told["results"], ROWS, strict=False):
        _is_told(result, name)
    counted, failed, ended = told["results"][-3:]
    assert counted["content"][0]["text"] == "n = 1000"
    assert failed["isError"]
    assert "disk full" in failed["content"][0]["text"]
    assert ended["isError"]
    assert ended["_meta"]["io.counterfoil/call"]["error"]["code"] == "SERVER_LOST"


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_question_of_such_a_server_reaches_such_a_client(bench, desk, node, tmp_path, transport):
    bench.told(gateway={"questions": True})
    if transport == "stdio":
        bench.told(server={"command": ["env", f"NODE_PATH={node['NODE_PATH']}", "node", "-e", TOOLS + STDIO]})
        _register(bench, desk)
        told = _talk(bench, node, ["asks", NOTE])
    else:
        port = environment.free_port()
        argv = ["node", "-e", TOOLS + HTTP, str(port)]
        with environment.running(argv, tmp_path / "server.log", ready=environment.listens(port), environment=node):
            del bench.settings["server"]["command"]
            bench.told(server={"url": f"http://127.0.0.1:{port}/mcp"})
            _register(bench, desk)
            told = _talk(bench, node, ["asks", NOTE])
    assert told["asked"] == [
        "The server notes asks this. An answer goes to that server and approves nothing.\nWhose notes?"
    ]
    assert told["results"][0]["content"][0]["text"] == 'asked: {"name":"Ann"}'


def test_a_call_to_a_typescript_server_that_forgot_its_session_is_sent_again(bench, desk, node, tmp_path):
    port = environment.free_port()
    url = f"http://127.0.0.1:{port}"
    argv = ["node", "-e", TOOLS + HTTP, str(port)]
    with environment.running(argv, tmp_path / "server.log", ready=environment.listens(port), environment=node):
        del bench.settings["server"]["command"]
        bench.told(server={"url": f"{url}/mcp"})
        _register(bench, desk)
        told = _talk(bench, node, ["both", NOTE], ["forget", f"{url}/forget"], ["both", NOTE], ["text_only", NOTE])
    for result, name in zip(told["results"], ("both", "both", "text_only"), strict=True):
        _is_told(result, name)
