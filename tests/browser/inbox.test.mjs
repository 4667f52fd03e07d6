// The inbox in a real browser: a question arrives, is read, and is answered in every way. Also takes pictures for the guide.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { join } from "node:path";

import { Stage, readable, serious } from "./stage.mjs";

const PICTURES = process.env.BYLEAVE_PICTURES;
let stage;
let page;

before(async () => {
  stage = await Stage.start();
  page = await stage.signedIn();
});
after(() => stage?.stop());

async function picture(name, options = {}) {
  if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}.png`), ...options });
}

/** Checks that all of an element is on the screen, without scrolling. */
async function inView(place) {
  const { y, height } = await place.boundingBox();
  const rows = await page.evaluate(() => ({ at: scrollY, all: innerHeight }));
  return rows.at === 0 && y >= 0 && y + height <= rows.all;
}

const edit = (text) => ({ command: `sed -i 's/blue/${text}/' colours.txt && echo done` });

async function open(call) {
  await page.goto(`/questions/${call.question.id}`);
  await readable(page);
}

// req: R5
test("a question arrives while the list is looked at, and is announced", async () => {
  await page.goto("/");
  await page.getByText("No open questions.").waitFor();
  // Waits until the event stream is open before the call is made.
  await page.waitForTimeout(500);
  stage.write("colours.txt", "red\nblue\ngreen\n");
  const call = await stage.call("bash", edit("violet"), { reason: "The list should have violet." });
  assert.equal(call.state, "waiting");
  const entry = page.locator(`li[data-id="${call.question.id}"]`);
  await entry.waitFor();
  await page.getByText("One open question.").waitFor();
  assert.equal(await page.locator("#notice").textContent(), "One new question.");
  assert.match(await page.title(), /^\(1\) Inbox/);
  await picture("browser-inbox");
  assert.deepEqual(await serious(page), []);

  // Reads the changes of the rehearsal side by side, then says yes.
  assert.match(await entry.getByRole("link").textContent(), /^\$ sed -i 's\/blue\/violet\/' colours\.txt && echo done/);
  await entry.getByRole("link").click();
  await page.getByRole("heading", { level: 1, name: /^\$ sed -i/ }).waitFor();
  // The card has the command, what it changed and the answers on one screen.
  assert.equal(await page.locator(".delta .minus").textContent(), "-blue");
  assert.equal(await page.locator(".delta .plus").textContent(), "+violet");
  const [before, after] = [await page.locator(".delta .minus").boundingBox(), await page.locator(".delta .plus").boundingBox()];
  assert.ok(before.y === after.y && before.x + before.width <= after.x, "before and after are side by side");
  for (const part of [".question", ".bar button.yes"]) assert.ok(await inView(page.locator(part)), part);
  assert.equal(await page.locator("nav .badge").textContent(), "1");
  assert.ok(!(await page.getByText("Arguments, in full").isVisible()), "the details are folded");
  // The script of the page listens to keys once it is ready.
  await page.locator("article[data-ready]").waitFor();
  await page.keyboard.press("d");
  await page.getByText("Arguments, in full").waitFor();
  assert.equal(await page.locator("table.diff td.out").textContent(), "blue");
  assert.equal(await page.locator("table.diff td.in").textContent(), "violet");
  const yes = page.getByRole("button", { name: "Yes, run it" });
  await readable(page);
  await picture("browser-question", { fullPage: true });
  assert.deepEqual(await serious(page), []);
  await yes.click();
  await page.getByText("You said yes.").waitFor();
  const result = await stage.settled(call.call);
  assert.equal(result.outcome, "completed", JSON.stringify(result));
  assert.equal(stage.read("colours.txt"), "red\nviolet\ngreen\n");
  assert.deepEqual(page.complaints, []);
});

test("rejected with feedback, which the model gets", async () => {
  const call = await stage.call("bash", { command: "rm colours.txt" });
  await open(call);
  await page.getByLabel("What should the model do instead?").fill("Keep it;\nempty it instead.");
  await page.getByRole("button", { name: "No", exact: false }).first().click();
  await page.getByText("You said no.").waitFor();
  const result = await stage.settled(call.call);
  assert.equal(result.refusal.code, "declined");
  assert.match(JSON.stringify(result), /Keep it;\\nempty it instead\./);
  assert.equal(stage.read("colours.txt"), "red\nviolet\ngreen\n");
});

test("edited arguments are evaluated again, and only what is approved then runs", async () => {
  const call = await stage.call("bash", { command: "rm colours.txt" }, { session: "edited" });
  await open(call);
  await page.getByText("Edit the arguments").click();
  await page.getByLabel("command", { exact: true }).fill("sed -i 's/red/pink/' colours.txt\n");
  await page.getByRole("button", { name: "Send the edited arguments" }).click();
  await page.waitForURL((url) => url.pathname.startsWith("/questions/") && !url.pathname.endsWith(call.question.id));
  assert.match(await page.locator(".sheet").textContent(), /pink/);
  await readable(page);
  await page.getByRole("button", { name: "Yes, run it" }).click();
  await page.getByText("You said yes.").waitFor();
  assert.equal((await stage.settled(call.call)).outcome, "completed");
  assert.equal(stage.read("colours.txt"), "pink\nviolet\ngreen\n");
});

test("a standing approval is shown as its rule before it is given, and avoids the next question", async () => {
  const args = { command: "sed -i 's/pink/red/' colours.txt" };
  const call = await stage.call("bash", args);
  await open(call);
  await page.getByText("Don’t ask again: give a standing approval").click();
  await page.getByRole("button", { name: "Preview the standing approval" }).click();
  await page.getByRole("heading", { name: "New standing approval" }).waitFor();
  assert.match(await page.locator("pre.rule").textContent(), /write = \[".*colours\.txt"\]/);
  await picture("browser-leave");
  assert.deepEqual(await serious(page), []);
  await page.locator("article[data-ready]").waitFor();
  await page.getByRole("button", { name: "Give this standing approval" }).click();
  await page.getByText("You gave a standing approval.").waitFor();
  assert.equal((await stage.settled(call.call)).outcome, "completed");
  assert.equal((await stage.call("bash", args)).state, "settled");
  await page.goto("/approvals");
  assert.match(await page.locator("section.card").first().textContent(), /active/);
  assert.deepEqual(await serious(page), []);
  await page.getByRole("button", { name: "Revoke" }).click();
  await page.getByText("There is no active standing approval.").waitFor();
});

test("a part of the changes is applied", async () => {
  const call = await stage.call("bash", { command: "echo a > a.txt; echo b > b.txt" });
  await open(call);
  await page.getByText("Apply some of the changes").click();
  await page.getByRole("checkbox", { name: /b\.txt/ }).check();
  await page.getByRole("button", { name: "Apply only these" }).click();
  await page.getByText("You applied some of the changes.").waitFor();
  await stage.settled(call.call);
  assert.equal(stage.read("b.txt"), "b\n");
  assert.throws(() => stage.read("a.txt"), /ENOENT/);
});

test("several get one answer after all of them were shown", async () => {
  const calls = [];
  for (const name of ["one", "two", "three"]) calls.push(await stage.call("bash", { command: `echo ${name} > ${name}.txt` }, { session: name }));
  await page.goto("/");
  for (const call of calls.slice(0, 2)) await page.locator(`li[data-id="${call.question.id}"] input`).check();
  await page.getByRole("button", { name: "Answer the marked questions together" }).click();
  await page.getByRole("heading", { name: "2 questions, one answer" }).waitFor();
  assert.match(await page.locator("article").textContent(), /two\.txt[\s\S]*one\.txt/);
  assert.deepEqual(await serious(page), []);
  await readable(page);
  await page.getByRole("button", { name: "Yes to all of them" }).click();
  await page.getByRole("heading", { name: "Answered" }).waitFor();
  for (const call of calls.slice(0, 2)) assert.equal((await stage.settled(call.call)).outcome, "completed");
  assert.equal(stage.read("one.txt") + stage.read("two.txt"), "one\ntwo\n");
  const { status } = await stage.api(stage.ann, "GET", `/v1/questions/${calls[2].question.id}`);
  assert.equal(status, 200, "the third is still open");
});

test("a question that was answered elsewhere closes under the eyes of who reads it", async () => {
  const call = await stage.call("bash", { command: "echo x > x.txt" }, { session: "closing" });
  await open(call);
  await stage.api(stage.ann, "POST", `/v1/questions/${call.question.id}/answer`, { digest: call.question.digest, answer: { kind: "no" } });
  await page.getByText("This question is no longer open").waitFor();
  assert.equal(await page.getByRole("button", { name: "Yes, run it" }).isDisabled(), true);
});

test("with the keyboard alone: a letter goes to an answer, Enter gives it", async () => {
  const call = await stage.call("bash", { command: "echo k > k.txt" }, { session: "keys" });
  await page.goto("/");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/questions/);
  // A person who is typing answers nothing, even if the text contains an answer letter.
  await page.keyboard.type("yyyyy");
  await page.keyboard.press("Enter");
  assert.match(page.url(), /questions/);
  await page.waitForTimeout(600);
  await page.keyboard.press("y");
  await page.locator("article[data-ready]").waitFor();
  await page.waitForTimeout(600);
  await page.keyboard.press("y");
  await page.keyboard.press("Enter");
  await page.getByText("You said yes.").waitFor();
  assert.equal((await stage.settled(call.call)).outcome, "completed");
});

test("the audit log is searched, read and verified, and the statistics are drawn", async () => {
  await page.goto("/log");
  await page.getByRole("button", { name: "Verify now" }).click();
  await page.getByText("The audit log is intact").waitFor();
  await picture("browser-book");
  assert.deepEqual(await serious(page), []);
  await page.getByLabel("Outcome").selectOption("refused");
  await page.getByRole("button", { name: "Search" }).click();
  await page.waitForURL(/outcome=refused/);
  const rows = await page.locator("table.calls tbody tr").allTextContents();
  assert.ok(rows.length >= 2 && rows.every((row) => row.includes("refused")), rows.join("\n"));
  await page.locator("table.calls tbody a").first().click();
  await page.getByRole("heading", { name: "Record of a call" }).waitFor();
  assert.match(await page.locator(".entries").textContent(), /received[\s\S]*answered[\s\S]*by ann/);
  assert.deepEqual(await serious(page), []);
  await page.goto("/stats");
  await page.locator("svg.days rect").first().waitFor({ state: "attached" });
  await picture("browser-numbers");
  assert.deepEqual(await serious(page), []);
});

test("on a phone, in the dark", async () => {
  stage.write("colours.txt", "red\nblue\ngreen\n");
  const call = await stage.call("bash", edit("violet"), { session: "phone" });
  const before = page;
  page = await stage.signedIn({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: "dark" });
  await picture("browser-phone-inbox");
  assert.deepEqual(await serious(page), []);
  await page.locator(`li[data-id="${call.question.id}"] a`).tap();
  await page.getByRole("heading", { level: 1, name: /^\$ sed -i/ }).waitFor();
  for (const part of ["h1", ".delta .plus", ".bar button.yes"]) assert.ok(await inView(page.locator(part)), part);
  const [old, fresh] = [await page.locator(".delta .minus").boundingBox(), await page.locator(".delta .plus").boundingBox()];
  assert.ok(old.x === fresh.x && old.y < fresh.y, "after is below before");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `nothing is beyond the edge: ${wide}`);
  await readable(page);
  await picture("browser-phone-question", { fullPage: true });
  assert.deepEqual(await serious(page), []);
  await page.getByRole("button", { name: "Yes, run it" }).tap();
  await page.getByText("You said yes.").waitFor();
  assert.equal((await stage.settled(call.call)).outcome, "completed");
  await page.context().close();
  page = before;
});

test("everything is halted and lifted", async () => {
  await page.goto("/");
  await page.locator("details.halt summary").click();
  await page.getByLabel(/Reason/).fill("something is off");
  await page.getByRole("button", { name: "Halt everything" }).click();
  await page.getByText("ann halted everything: something is off").waitFor();
  const call = await stage.call("read_file", { path: "colours.txt" });
  assert.equal((await stage.settled(call.call)).refusal.code, "halted");
  await page.getByRole("button", { name: "Lift the halt" }).click();
  await page.locator(".halted").waitFor({ state: "detached" });
});

test("without the script everything can be answered, and not faster than it can be read", async () => {
  stage.write("plain.txt", "only here\n");
  const call = await stage.call("bash", { command: "rm plain.txt" }, { session: "plain" });
  const bare = await stage.signedIn({ javaScriptEnabled: false });
  await bare.goto(`/questions/${call.question.id}`);
  await bare.getByRole("button", { name: "Yes, run it" }).click();
  await bare.getByText("too fast to have read the question").waitFor();
  await bare.goto(`/questions/${call.question.id}`);
  await bare.waitForTimeout(2_600);
  await bare.getByRole("button", { name: "Yes, run it" }).click();
  await bare.getByText("You said yes.").waitFor();
  assert.equal((await stage.settled(call.call)).outcome, "completed");
  await bare.context().close();
});

test("signing out ends the visit, also for who kept the cookie", async () => {
  const other = await stage.signedIn();
  const cookies = await other.context().cookies();
  assert.deepEqual(cookies.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite })), [{ httpOnly: true, sameSite: "Lax" }]);
  await other.getByRole("button", { name: "Sign out" }).click();
  await other.getByLabel("Your token").waitFor();
  await other.context().addCookies(cookies);
  await other.goto("/log");
  await other.getByLabel("Your token").waitFor();
  await other.context().close();
});
