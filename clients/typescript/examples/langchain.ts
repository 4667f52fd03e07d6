// LangChain tools behind the gate: one of the server's, and a function of this process.
//
//     BYLEAVE_URL=... BYLEAVE_TOKEN=... node langchain.js
//
// A list of calls replaces the model, so that this runs without one.

import { Client, guard } from "byleave";
import { guarded, tools } from "byleave/langchain";

const client = new Client();
const shout = guard(client, {
  name: "shout",
  description: "Says it louder.",
  parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"], additionalProperties: false },
  declaration: { class: "readonly", sensitive: false },
  execute: ({ text }: { text: string }) => text.toUpperCase(),
});

const known = new Map([...(await tools(client, ["read_file"])), guarded(shout)].map((tool) => [tool.name, tool]));
const calls = [
  { name: "read_file", args: { path: "README.md" } },
  { name: "read_file", args: { path: ".env" } },
  { name: "shout", args: { text: "hello" } },
];
for (const [at, call] of calls.entries()) {
  const reply = await known.get(call.name)?.invoke({ ...call, id: `${at}`, type: "tool_call" });
  console.log(`${call.name} -> ${String(reply.content)}`);
}
console.log("model: done");
