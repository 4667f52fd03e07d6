// Functions behind the gate, against a real server.

import assert from "node:assert/strict";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import * as byleave from "../src/index.js";
import { Proxy, Server, answering } from "./stage.js";

const server = new Server();
let bot: byleave.Client;
let ann: byleave.Client;

before(async () => {
  await server.start();
  bot = new byleave.Client({ baseUrl: server.url, token: server.bot });
  ann = new byleave.Client({ baseUrl: server.url, token: server.ann });
});
after(() => server.close());

const QUIET: byleave.Declaration = { class: "readonly", sensitive: false };
const parameters = { type: "object", properties: { cents: { type: "integer" } }, additionalProperties: false };
const plain = { description: "Pays money back.", parameters };

test("a function runs when a person says yes, and not when not", async () => {
  const ran: unknown[] = [];
  const execute = (args: { cents: number }) => (ran.push(args.cents), { paid: args.cents });
  const refund = byleave.guard(bot, { ...plain, name: "refund", execute });
  const call = () => refund({ cents: 5 });
  await assert.rejects(answering(ann, "client.bot.refund", { kind: "no" }, () => refund({ cents: 500 })), byleave.Refused);
  assert.deepEqual(ran, []);
  assert.deepEqual(await answering(ann, "client.bot.refund", { kind: "yes" }, call), { paid: 5 });
  assert.deepEqual(ran, [5]);
  assert.equal((await ann.auditLog({ tool: "client.bot.refund", limit: 1 }))[0]?.outcome, "completed");
});

test("the same key runs it once, also from two clients at once", async () => {
  let ran = 0;
  const once = byleave.guard(bot, { ...plain, name: "once", declaration: QUIET, execute: () => `${++ran}` });
  const first = await once.run({}, { key: "own-once" });
  assert.deepEqual([await once.run({}, { key: "own-once" }), first.output, ran], [first, "1", 1]);
  const outcomes = await Promise.allSettled([1, 2, 3].map(() => once.run({}, { key: "together" })));
  assert.equal(ran, 2);
  for (const one of outcomes) {
    if (one.status === "rejected") assert.equal((one.reason as byleave.Conflict).code, "claimed");
    else assert.equal(one.value.output, "2");
  }
});

test("reviewers see, change and refuse, and it is in the audit log", async () => {
  const ran: number[] = [];
  const pay = byleave.guard(bot, {
    ...plain,
    name: "pay",
    declaration: QUIET,
    input: ({ arguments: { cents } }) => {
      if (Number(cents) > 100) return { opinion: "deny", reason: "too much" };
      return { opinion: "change", value: { cents: Number(cents) - 1 }, reason: "less" };
    },
    output: ({ value }) => (value === 0 ? false : { opinion: "change", value: { paid: value }, reason: "shaped" }),
    execute: ({ cents }: { cents: number }) => (ran.push(cents), cents),
  });
  assert.deepEqual(await pay({ cents: 5 }), { paid: 4 });
  const record = await ann.record((await ann.auditLog({ tool: "client.bot.pay", limit: 1 }))[0]?.call ?? "");
  assert.match(JSON.stringify(record.entries.map((entry) => entry.entry)), /less","reviewer":"client".*shaped","reviewer":"client"/);
  await assert.rejects(pay({ cents: 500 }), (error) => error instanceof byleave.Refused && error.code === "review-denied");
  await assert.rejects(pay({ cents: 1 }), byleave.Withheld);
  assert.deepEqual(ran, [4, 0]);
});

test("a reviewer that breaks blocks, and what a person edits is reviewed again", async () => {
  let ran = 0;
  const execute = () => (ran++, "secret");
  const throws = () => {
    throw new Error("broken");
  };
  await assert.rejects(byleave.guard(bot, { ...plain, name: "x", declaration: QUIET, input: throws, execute })({}), byleave.Refused);
  assert.equal(ran, 0);
  await assert.rejects(byleave.guard(bot, { ...plain, name: "y", declaration: QUIET, output: throws, execute })({}), byleave.Withheld);
  const small = byleave.guard(bot, { ...plain, name: "small", input: (subject) => Number(subject.arguments["cents"]) < 100, execute });
  const edit = answering(ann, "client.bot.small", { kind: "edit", value: { cents: 700 } }, () => small({ cents: 5 }));
  await assert.rejects(edit, byleave.Failed);
  assert.equal(ran, 1);
});

test("a guarded function may fail, and may use another", async () => {
  const fails = byleave.guard(bot, { ...plain, name: "fails", declaration: QUIET, execute: () => Promise.reject(new Error("no such order")) });
  assert.match(byleave.text(await fails.run({})), /no such order/);
  const inner = byleave.guard(bot, { ...plain, name: "inner", declaration: QUIET, execute: () => "in" });
  const outer = byleave.guard(bot, { ...plain, name: "outer", declaration: QUIET, execute: async () => `out of ${await inner({})}` });
  assert.equal(await outer({}), "out of in");
});

test("lost answers run nothing twice", async () => {
  const proxy = await new Proxy(server).start();
  try {
    for (const path of ["/client-tools/count", "/calls", "/claim", "/report"]) proxy.cuts.set(path, { after: 0, times: 2 });
    let ran = 0;
    const away = new byleave.Client({ baseUrl: proxy.url, token: server.bot });
    const count = byleave.guard(away, { ...plain, name: "count", declaration: QUIET, execute: () => ++ran });
    assert.deepEqual([await count({}), ran], [1, 1]);
    assert.ok([...proxy.cuts.values()].every((cut) => cut.times === 0));
  } finally {
    proxy.close();
  }
});

test("a server that dies in the middle leaves it unknown", async () => {
  const own = await new Server().start();
  try {
    let ran = 0;
    const client = new byleave.Client({ baseUrl: own.url, token: own.bot });
    const execute = async () => {
      ran += 1;
      await own.kill();
      await own.start();
      return "done";
    };
    const crash = byleave.guard(client, { ...plain, name: "crash", declaration: QUIET, execute });
    assert.equal((await crash.run({}, { key: "crash" })).outcome, "unknown");
    assert.equal((await crash.run({}, { key: "crash" })).outcome, "unknown");
    assert.equal(ran, 1);
  } finally {
    await own.close();
  }
});

const NAME = { "/never": { tool: "client.bot.never" } };
const CALL = { call: "c", state: "ready" };
const INVALID: { [end: string]: unknown }[] = [
  { "": "hello" },
  { "": {} },
  { "/never": { tool: 1 }, "": CALL },
  { ...NAME, "": { call: "c", state: "perhaps" } },
  { ...NAME, "": { call: "c", state: "settled" } },
  { ...NAME, "/claim": { ...CALL, state: "claimed" }, "": CALL },
  { ...NAME, "/claim": { ...CALL, state: "claimed", arguments: [1] }, "": CALL },
];

test("without a server, and with invalid responses, nothing runs", async () => {
  let ran = 0;
  const never = (baseUrl: string) => {
    const client = new byleave.Client({ baseUrl, token: "t", tries: 2 });
    return byleave.guard(client, { ...plain, name: "never", declaration: QUIET, execute: () => `${++ran}` })({});
  };
  let replies: { [end: string]: unknown } = {};
  const fake = http.createServer((request, response) => {
    const path = (request.url ?? "").split("?")[0] ?? "";
    const reply = Object.entries(replies).find(([end]) => path.endsWith(end))?.[1];
    request.resume().on("end", () => response.end(typeof reply === "string" ? reply : JSON.stringify(reply)));
  });
  await new Promise<void>((resolve) => fake.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(fake.address() as AddressInfo).port}`;
  for (replies of INVALID) await assert.rejects(never(url), byleave.InvalidResponse, JSON.stringify(replies));
  fake.close();
  fake.closeAllConnections();
  await assert.rejects(never(url), byleave.Unreachable);
  assert.equal(ran, 0);
});

test("a function is given the data of the function that it names", async () => {
  const given: unknown[] = [];
  const found = byleave.guard(bot, { ...plain, name: "find_orders", declaration: QUIET, execute: () => ["a17", "a18"] });
  const refundAll = byleave.guard(bot, {
    ...plain,
    name: "refund_all",
    declaration: { ...QUIET, wants_data: [found] },
    execute: (_args, data) => (given.push(byleave.dataOf(data, found)), "done"),
  });
  const unrelated = byleave.guard(bot, { ...plain, name: "unrelated", declaration: QUIET, execute: (_args, data) => (given.push(byleave.dataOf(data, found)), "done") });
  // It registers the function that it names, which was never called.
  await refundAll.run({}, { session: "data" });
  await found.run({}, { session: "data" });
  await refundAll.run({}, { session: "data" });
  await refundAll.run({}, { session: "elsewhere" });
  await unrelated.run({}, { session: "data" });
  assert.deepEqual(given, [undefined, ["a17", "a18"], undefined, undefined]);
  const mistaken = byleave.guard(bot, { ...plain, name: "mistaken", declaration: { ...QUIET, wants_data: ["client.bot.no_such_function"] }, execute: () => "done" });
  await assert.rejects(mistaken({}), byleave.Problem);
});
