// The examples run, against a real server.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { Client } from "../src/index.js";
import { Server, answering } from "./stage.js";

const server = new Server();
let ann: Client;

before(async () => {
  await server.start();
  ann = new Client({ baseUrl: server.url, token: server.ann });
  writeFileSync(join(server.dir, "README.md"), "read me\n");
  writeFileSync(join(server.dir, ".env"), "SECRET=1\n");
});
after(() => server.close());

async function run(name: string): Promise<string> {
  const env = { ...process.env, BYLEAVE_URL: server.url, BYLEAVE_TOKEN: server.bot };
  return (await promisify(execFile)(process.execPath, [join(import.meta.dirname, "../examples", name)], { env, timeout: 60_000 })).stdout;
}

test("refunds", async () => {
  const printed = await answering(ann, "client.bot.refund", { kind: "yes" }, () => run("refunds.js"));
  assert.match(printed, /paid back: {"cents":500,"order":"a17"}/);
  assert.match(printed, /more than 100 is never paid back \(review-denied, https:/);
  assert.ok(!printed.includes("4111"));
});

for (const name of ["ai-sdk.js", "langchain.js"]) {
  test(name, async () => {
    const before = new Set((await ann.auditLog({ limit: 1000 })).map((entry) => entry.call));
    const printed = await run(name);
    assert.match(printed, /read_file -> .*read me/);
    assert.match(printed, /shout -> HELLO\nmodel: done/);
    assert.match(printed, /refused: .*\(denied, see https:/);
    assert.ok(!printed.includes("SECRET"));
    const calls = (await ann.auditLog({ limit: 1000 })).filter((entry) => !before.has(entry.call));
    const outcomes = calls.map((entry) => `${entry.tool} ${entry.outcome}`).sort();
    assert.deepEqual(outcomes, ["client.bot.shout completed", "read_file completed", "read_file refused"]);
  });
}
