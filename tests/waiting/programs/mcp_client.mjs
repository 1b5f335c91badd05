// A client of the TypeScript SDK of MCP that speaks no tasks: it keeps the handle of its call.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, sdk] = process.argv.slice(-2);
const load = (name) => import(pathToFileURL(createRequire(path.join(sdk, "x.js")).resolve(name)));
const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const told = JSON.parse(fs.readFileSync(path.join(folder, "told.json")));
const file = path.join(folder, "kept.json");
const pause = () => new Promise((done) => setTimeout(done, 2000));

function write(name, document) {
  fs.writeFileSync(path.join(folder, name + ".new"), JSON.stringify(document));
  fs.renameSync(path.join(folder, name + ".new"), path.join(folder, name));
}

async function turn() {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "auto" } });
  await client.connect(new StreamableHTTPClientTransport(new URL(told.gateway)));
  try {
    let handle = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file)).handle : undefined;
    if (!handle) {
      const result = await client.callTool({ name: told.tool, arguments: told.arguments });
      handle = result._meta["io.counterfoil/call"].action_id;
      write("kept.json", { handle });
    }
    for (;;) {
      const result = await client.callTool({ name: "counterfoil_status", arguments: { action_id: handle } });
      const word = result._meta["io.counterfoil/call"];
      if (["COMPLETED", "FAILED", "NOT_EXECUTED"].includes(word.report?.code) && word.status !== "waiting")
        return [word, result.content.map((block) => block.text).join(" ")];
      await pause();
    }
  } finally {
    await client.close();
  }
}

for (;;) {
  try {
    const [word, text] = await turn();
    write("heard.json", { decision: word.approval?.decision ?? "", text: `${word.approval?.reason} ${text}`, done: word.report.completed });
    process.exit(0);
  } catch (fault) {
    console.log(String(fault).slice(0, 200));
    await pause();
  }
}
