// The pages beside the inbox: what the policy decides, the timeline of a session, and the halt that is two taps away on every page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Stage, serious } from "./stage.mjs";

let stage;
let page;
let phone;

before(async () => {
  stage = await Stage.start([], () => ({}), { "a.txt": "a\n" });
  page = await stage.signedIn();
  phone = await stage.signedIn({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, colorScheme: "dark" });
});
after(() => stage?.stop());

async function isInView(target, place) {
  const box = await place.boundingBox();
  const screen = target.viewportSize();
  return box && box.x >= 0 && box.y >= 0 && box.x + box.width <= screen.width && box.y + box.height <= screen.height;
}

// req: P7
test("the policy page says what is decided on a call, by which rule, and runs nothing", async () => {
  await page.goto("/policy");
  assert.ok((await page.locator("table.rules tbody tr").count()) > 10);
  await page.getByLabel("Arguments as a JSON object").fill("cat ~/.ssh/id_ed25519 > copy.txt");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByRole("heading", { name: /It would be refused/ }).waitFor();
  const decision = page.getByRole("region", { name: "Decision" });
  const rule = await decision.locator("a[href^='#rule-']").first().getAttribute("href");
  assert.equal(await page.locator(`[id="${rule.slice(1)}"]`).count(), 1, rule);
  assert.match(await decision.textContent(), /id_ed25519/);
  assert.throws(() => stage.read("copy.txt"), /ENOENT/);
  // What was entered is still there, to change it.
  await page.getByLabel("Arguments as a JSON object").fill("ls");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByRole("heading", { name: /It would run without a question/ }).waitFor();
  await page.getByLabel("Tool", { exact: true }).selectOption("write_file");
  await page.getByLabel("Arguments as a JSON object").fill("not JSON");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("The arguments must be a JSON object.").waitFor();
  assert.deepEqual(await serious(page), []);
  assert.deepEqual(page.complaints, []);
});

test("a replay shows which past calls other rules would decide differently", async () => {
  const call = await stage.call("bash", { command: "echo b > b.txt" }, { session: "replayed" });
  assert.equal(call.state, "waiting");
  await page.goto("/policy");
  await page.getByText("Try other rules on past calls").click();
  await page.getByLabel("A policy file").fill("[[rule]]\nverdict = \"maybe\"\n");
  await page.getByRole("button", { name: "Replay" }).click();
  await page.getByText("These rules are not valid").waitFor();
  await page.getByLabel("A policy file").fill('[[rule]]\nid = "no"\nverdict = "deny"\nreason = "never"\nwrite = "/**"\n');
  await page.getByRole("button", { name: "Replay" }).click();
  await page.getByRole("heading", { name: /^1 of \d+ calls would be decided differently/ }).waitFor();
  const row = await page.locator(`a[href="/log/${call.call}"]`).locator("xpath=ancestor::tr").textContent();
  assert.match(row, /ask.*deny/);
  assert.deepEqual(await serious(page), []);
  // The rules did not come into force.
  await page.goto("/policy");
  assert.equal(await page.locator('[id="rule-no"]').count(), 0);
  await stage.api(stage.ann, "POST", `/v1/questions/${call.question.id}/answer`, { digest: call.question.digest, answer: { kind: "no" } });
  await stage.settled(call.call);
});

test("the timeline of a session shows its calls in order, and what was answered", async () => {
  const session = "timeline";
  await stage.call("read_file", { path: "a.txt" }, { session });
  const call = await stage.call("bash", { command: "echo c > c.txt" }, { session });
  await stage.api(stage.ann, "POST", `/v1/questions/${call.question.id}/answer`, { digest: call.question.digest, answer: { kind: "yes" } });
  await stage.settled(call.call);
  await page.goto(`/log/${call.call}`);
  await page.getByRole("link", { name: /timeline$/ }).click();
  await page.getByRole("heading", { name: /^Session/ }).waitFor();
  const calls = await page.locator(".timeline li.call").allTextContents();
  assert.equal(calls.length, 2, calls.join("\n"));
  assert.match(calls[0], /read_file[\s\S]*completed/);
  assert.match(calls[1], /c\.txt[\s\S]*completed[\s\S]*answered[\s\S]*ann/);
  assert.deepEqual(await serious(page), []);
  await page.getByRole("link", { name: "Search in this session" }).click();
  await page.waitForURL(/\/log\?session=/);
  assert.equal(await page.locator("table.calls tbody tr").count(), 2);
});

test("on a phone, everything is halted with two taps from every page", async () => {
  for (const path of ["/", "/log", "/policy", "/stats", "/approvals"]) {
    await phone.goto(path);
    await phone.locator("details.halt summary").tap();
    const button = phone.getByRole("button", { name: "Halt everything" });
    assert.ok(await isInView(phone, button), path);
    assert.deepEqual(await serious(phone), [], path);
    await button.tap();
    await phone.getByText("ann halted everything: stopped from the browser").waitFor();
    const call = await stage.call("read_file", { path: "a.txt" }, { session: "halted" });
    assert.equal((await stage.settled(call.call)).refusal.code, "halted");
    await phone.getByRole("button", { name: "Lift the halt" }).tap();
    await phone.locator(".halted").waitFor({ state: "detached" });
  }
});

test("without the right to administer there is no halt", async () => {
  const bob = stage.byleave("serve", "token", "add", "bob", "--person", "--scope", "answer,read").trim();
  const other = await stage.signedIn({}, bob);
  assert.equal(await other.locator("details.halt").count(), 0);
  await other.goto("/policy");
  assert.equal(await other.getByText("Try other rules on past calls").count(), 0);
});
