// Calls through the client, against a real server.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import * as byleave from "../src/index.js";
import { Proxy, Server, answering } from "./stage.js";

const server = new Server();
let bot: byleave.Client;
let ann: byleave.Client;

before(async () => {
  await server.start();
  bot = new byleave.Client({ baseUrl: server.url, token: server.bot });
  ann = new byleave.Client({ baseUrl: `${server.url}/v1`, token: server.ann });
});
after(() => server.close());

async function all(events: AsyncIterable<byleave.Event>): Promise<byleave.Event[]> {
  const seen = [];
  for await (const event of events) seen.push(event);
  return seen;
}

const at = (name: string) => join(server.dir, name);

test("a call is made and released", async () => {
  writeFileSync(at("a.txt"), "hello\n");
  const result = await bot.call("read_file", { path: "a.txt" });
  assert.match(byleave.released(result), /hello/);
  assert.deepEqual(await bot.wait(result.call), result);
});

test("the same key is one call", async () => {
  const args = { path: "once.txt", content: "1" };
  const first = await answering(ann, "write_file", { kind: "yes" }, () => bot.call("write_file", args, { key: "once", timeoutMs: 30_000 }));
  assert.ok(first.success, byleave.text(first));
  writeFileSync(at("once.txt"), "2");
  assert.deepEqual(await bot.call("write_file", args, { key: "once" }), first);
  assert.equal(readFileSync(at("once.txt"), "utf8"), "2", "it did not run again");
  await assert.rejects(bot.call("write_file", { ...args, content: "3" }, { key: "once" }), (error) => {
    assert.ok(error instanceof byleave.Conflict);
    assert.equal(error.code, "call-reused");
    return true;
  });
});

test("a lost answer is asked for again under the same key", async () => {
  const proxy = await new Proxy(server).start();
  try {
    proxy.cuts.set("/calls", { after: 0, times: 2 });
    writeFileSync(at("b.txt"), "hello\n");
    const before = (await ann.auditLog({ tool: "read_file", limit: 1000 })).length;
    const result = await new byleave.Client({ baseUrl: proxy.url, token: server.bot }).call("read_file", { path: "b.txt" });
    assert.ok(result.success);
    const keys = proxy.requests.map((request) => request.headers["idempotency-key"]).filter(Boolean);
    assert.equal(keys.length, 3);
    assert.equal(new Set(keys).size, 1);
    assert.equal((await ann.auditLog({ tool: "read_file", limit: 1000 })).length, before + 1);
  } finally {
    proxy.close();
  }
});

test("a person answers while the agent waits", async () => {
  const write = (content: string) => bot.call("write_file", { path: "asked.txt", content }, { timeoutMs: 30_000 });
  const call = () => write("x");
  const refused = await answering(ann, "write_file", { kind: "no", feedback: "another name" }, call);
  assert.ok(!existsSync(at("asked.txt")));
  assert.throws(() => byleave.released(refused), (error) => {
    assert.ok(error instanceof byleave.Refused);
    assert.match(error.reason, /another name/);
    assert.ok(error.page.endsWith(`${error.code}.md`));
    return true;
  });
  // A refused call stays refused if it is repeated. A different call is asked about.
  assert.ok(!(await call()).success);
  assert.ok((await answering(ann, "write_file", { kind: "yes" }, () => write("y"))).success);
  assert.equal(readFileSync(at("asked.txt"), "utf8"), "y");
});

test("a person answers in the place of the tool", async () => {
  const call = () => bot.call("write_file", { path: "known.txt", content: "x" }, { timeoutMs: 30_000 });
  const answered = await answering(ann, "write_file", { kind: "result", text: "it is written already" }, call);
  assert.deepEqual([answered.outcome, answered.success], ["answered", true]);
  assert.equal(byleave.released(answered), "[byleave] a person (ann) answered in the place of the tool; the tool did not run\nit is written already");
  assert.ok(!existsSync(at("known.txt")));
});

test("a denied call is a result with code, reason and page", async () => {
  writeFileSync(at(".env"), "SECRET=1");
  const { outcome, refusal } = await bot.call("read_file", { path: ".env" });
  assert.deepEqual([outcome, refusal?.code], ["refused", "denied"]);
  assert.match(refusal?.page ?? "", /^https:/);
});

test("waiting ends when the time is over, and the call does not", async () => {
  const late = await bot.call("write_file", { path: "late.txt", content: "" }, { timeoutMs: 300 }).catch((error: unknown) => error);
  assert.ok(late instanceof byleave.WaitTimeout);
  assert.equal((await bot.cancel(late.call)).result?.refusal?.code, "cancelled");
});

test("events go on where they were when the connection breaks", async () => {
  const proxy = await new Proxy(server).start();
  try {
    const away = new byleave.Client({ baseUrl: proxy.url, token: server.bot });
    const call = () => away.call("write_file", { path: "sse.txt", content: "" }, { timeoutMs: 30_000 });
    const { call: id } = await answering(ann, "write_file", { kind: "yes" }, call);
    const whole = await all(away.events(id));
    proxy.cuts.set("/events", { after: 3000, times: 2 });
    proxy.requests.length = 0;
    assert.deepEqual(await all(away.events(id)), whole);
    const numbers = whole.map((event) => event.id).filter((id) => id !== undefined);
    assert.deepEqual(numbers, [...numbers.keys()]);
    assert.ok(numbers.length > 5);
    assert.ok(whole.some((event) => event.event === "tool_approval"));
    assert.ok(proxy.requests.filter((request) => request.headers["last-event-id"]).length >= 2);
  } finally {
    proxy.close();
  }
});

test("questions, standing approvals and the audit log", async () => {
  const status = await bot.submit("write_file", { path: "approved.txt", content: "" }, { session: "approvals" }, 2);
  assert.equal(status.state, "waiting");
  const view = await ann.question(status.question?.id ?? "");
  await assert.rejects(ann.answer(view.question.id, "0".repeat(64), { kind: "yes" }), byleave.Conflict);
  await assert.rejects(bot.answer(view.question.id, view.question.digest, { kind: "yes" }), byleave.Forbidden);
  await ann.answer(view.question.id, view.question.digest, { kind: "standing-approval", scope: view.approval_scopes[0]?.scope ?? 0 });
  assert.ok((await bot.wait(status.call, 30_000)).success);
  const approval = (await ann.standingApprovals()).find((one) => one.call === status.call);
  assert.deepEqual([approval?.state, approval?.approver], ["active", "ann"]);
  await ann.revoke(approval?.standing_approval ?? "");
  const revoked = (await ann.standingApprovals()).find((one) => one.standing_approval === approval?.standing_approval);
  assert.equal(revoked?.state, "revoked");
  assert.equal((await ann.record(status.call)).entries[0]?.seq, 0);
  assert.ok((await ann.export()).includes(status.call));
  assert.ok((await ann.verify()).intact);
});

test("tools, explain, halt, health, and problems of their own types", async () => {
  assert.ok((await bot.tools()).some((tool) => tool.name === "read_file"));
  assert.equal((await bot.explain("read_file", { path: ".env" })).verdict, "deny");
  assert.equal((await bot.health()).status, "ok");
  await bot.call("read_file", { path: "a.txt" });
  const rules = '[[rule]]\nid = "no-reading"\nverdict = "deny"\nread = "a.txt"\nreason = "not this one"\n';
  assert.ok((await ann.replay(rules)).changed.some((change) => change.rule === "no-reading"));
  await assert.rejects(bot.replay(rules), byleave.Forbidden);
  await ann.halt("a test");
  assert.ok((await ann.haltStatus()).halted);
  assert.equal((await bot.call("read_file", { path: "a.txt" })).refusal?.code, "halted");
  await ann.lift();
  const stranger = new byleave.Client({ baseUrl: server.url, token: "byl_00000000_no" });
  await assert.rejects(stranger.tools(), byleave.Unauthenticated);
  await assert.rejects(bot.auditLog(), byleave.Forbidden);
  for (const id of ["00000000-0000-0000-0000-000000000000", "../health", ".."]) await assert.rejects(bot.status(id), byleave.NotFound);
});
