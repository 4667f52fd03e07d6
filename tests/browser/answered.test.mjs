// A person answers in the place of the tool, in a real browser of the size of a phone.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Stage, readable, serious } from "./stage.mjs";

const RULES = `
[[rule]]
verdict = "ask"
write = "plan.txt"

[[rule]]
verdict = "ask"
write = "final.txt"
checkpoint = true
`;
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
let stage;
let page;

before(async () => {
  stage = await Stage.start(["--policy", "../rules.toml"], () => ({}), { "../rules.toml": RULES });
  page = await stage.signedIn(PHONE);
});
after(() => stage?.stop());

async function open(call) {
  await page.goto(`/questions/${call.question.id}`);
  await readable(page);
}

// req: R5
test("the text on the page is the result, and the tool does not run", async () => {
  const call = await stage.call("write_file", { path: "plan.txt", content: "new" });
  assert.equal(call.state, "waiting", JSON.stringify(call));
  await open(call);
  await page.getByText("Answer in the place of the tool").tap();
  await page.getByLabel("Result for the model").fill("it is written already");
  assert.deepEqual(await serious(page), []);
  await page.getByRole("button", { name: "Answer with this result" }).tap();
  await page.getByText("You answered in the place of the tool.").waitFor();
  const settled = await stage.settled(call.call);
  assert.equal(settled.outcome, "answered", JSON.stringify(settled));
  assert.match(settled.output, /answered in the place of the tool; the tool did not run\nit is written already$/);
  assert.throws(() => stage.read("plan.txt"));
});

// req: R5, R8
test("a checkpoint has no form for a result", async () => {
  const call = await stage.call("write_file", { path: "final.txt", content: "new" });
  assert.equal(call.state, "waiting", JSON.stringify(call));
  await open(call);
  assert.equal(await page.getByText("Answer in the place of the tool").count(), 0);
});
