// Checkpoints and challenges in a real browser of the size of a phone: a rule makes a call wait for a person in every mode.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chmodSync } from "node:fs";

import { Stage, readable, serious } from "./stage.mjs";

const RULES = `
[[rule]]
id = "production"
verdict = "ask"
run = "kubectl apply"
checkpoint = true
reason = "this changes production"

[[rule]]
verdict = "ask"
write = "plan.txt"
challenge = true
`;
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
let stage;
let page;

before(async () => {
  stage = await Stage.start(["--policy", "../rules.toml"], (dir) => ({ PATH: `${dir}/work/bin:/usr/bin:/bin`, BYLEAVE_MODE: "yolo" }), { "../rules.toml": RULES });
  chmodSync(stage.write("bin/kubectl", '#!/bin/sh\necho "$@" >> deployed\n'), 0o755);
  page = await stage.signedIn(PHONE);
});
after(() => stage?.stop());

async function open(call) {
  await page.goto(`/questions/${call.question.id}`);
  await readable(page);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `nothing is beyond the edge: ${wide}`);
  assert.deepEqual(await serious(page), []);
}

// req: R8
test("a checkpoint is released by the typed word, and by nothing else", async () => {
  const call = await stage.call("bash", { command: "kubectl apply -f app.yaml" }, { mode: "yolo" });
  assert.equal(call.state, "waiting", JSON.stringify(call));
  await open(call);
  await page.getByRole("heading", { level: 1, name: "$ kubectl apply -f app.yaml" }).waitFor();
  await page.getByRole("heading", { level: 2, name: /CHECKPOINT/ }).waitFor();
  await page.getByLabel(/^Type release/).fill("yes");
  await page.getByRole("button", { name: "Yes, run it" }).tap();
  await page.getByText("the confirmation text is wrong").waitFor();
  assert.throws(() => stage.read("deployed"));
  await open(call);
  await page.getByLabel(/^Type release/).fill("release");
  await page.getByRole("button", { name: "Yes, run it" }).tap();
  await page.getByText("You said yes.").waitFor();
  assert.equal((await stage.settled(call.call)).outcome, "completed");
  assert.match(stage.read("deployed"), /apply -f app.yaml/);
});

// req: R9
test("a yes carries the case against the call", async () => {
  const call = await stage.call("write_file", { path: "plan.txt", content: "new" }, { mode: "yolo" });
  assert.equal(call.state, "waiting", JSON.stringify(call));
  await open(call);
  await page.getByText("a yes needs the case against the call").first().waitFor();
  await page.getByLabel("Which assumption could be wrong?").fill("nobody edits it");
  await page.getByLabel("How could it fail?").fill("it is overwritten");
  await page.getByLabel("Why is it right all the same?").fill("it is a draft");
  await page.getByRole("button", { name: "Yes, run it" }).tap();
  await page.getByText("You said yes.").waitFor();
  assert.equal((await stage.settled(call.call)).outcome, "completed");
  assert.equal(stage.read("plan.txt"), "new");
  assert.match(stage.byleave("log", "show", call.call, "--contents", "--json"), /it is overwritten/);
});
