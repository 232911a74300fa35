// A client on the TypeScript SDK: node sdk.mjs MODULES CALLS SERVER ARG...
//
// MODULES is where the SDK is installed, CALLS a JSON array of params of tools/call.
// Prints, as one JSON object, what the SDK has made of the handshake, the list of tools
// and each call: its result, or the error that it threw. The SDK knows the output
// schemas from the list and checks each result against its tool's.
import { createRequire } from "node:module";

const [modules, calls, command, ...args] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

const client = new Client({ name: "typescript-sdk", version: "0" });
const told = [];
client.onerror = (e) => told.push(String(e));
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const seen = { server: client.getServerVersion(), tools: (await client.listTools()).tools, calls: [] };
for (const call of JSON.parse(calls)) {
  try {
    seen.calls.push({ result: await client.callTool(call) });
  } catch (e) {
    seen.calls.push({ error: String(e) });
  }
}
await client.close();
console.log(JSON.stringify({ ...seen, told }));
