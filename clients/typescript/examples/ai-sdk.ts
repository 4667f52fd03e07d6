// Tools of the Vercel AI SDK behind the gate: one of the server's, and a function of this process.
//
//     BYLEAVE_URL=... BYLEAVE_TOKEN=... node ai-sdk.js
//
// The model is a fake with scripted replies, so that this runs without a real one.

import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { Client, guard } from "byleave";
import { guarded, tools } from "byleave/ai";

const client = new Client();
const shout = guard(client, {
  name: "shout",
  description: "Says it louder.",
  parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"], additionalProperties: false },
  declaration: { class: "readonly", sensitive: false },
  execute: ({ text }: { text: string }) => text.toUpperCase(),
});

const calls = [
  ["read_file", { path: "README.md" }],
  ["read_file", { path: ".env" }],
  ["shout", { text: "hello" }],
] as const;
let turn = 0;
const usage = {
  inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 0, text: 0, reasoning: 0 },
};
const fake = new MockLanguageModelV3({
  doGenerate: async () => {
    const call = calls[turn++];
    if (!call) {
      return { content: [{ type: "text", text: "done" }], finishReason: { unified: "stop", raw: undefined }, usage, warnings: [] };
    }
    const [toolName, input] = call;
    const content = { type: "tool-call" as const, toolCallId: `call-${turn}`, toolName, input: JSON.stringify(input) };
    return { content: [content], finishReason: { unified: "tool-calls", raw: undefined }, usage, warnings: [] };
  },
});

const result = await generateText({
  model: fake,
  tools: { ...(await tools(client, ["read_file"])), shout: guarded(shout) },
  stopWhen: stepCountIs(10),
  prompt: "read what you can",
});
for (const part of result.steps.flatMap((step) => step.content)) {
  if (part.type === "tool-result") console.log(`${part.toolName} -> ${String(part.output)}`);
  if (part.type === "tool-error") console.log(`${part.toolName} -> error: ${String(part.error)}`);
}
console.log("model:", result.text);
