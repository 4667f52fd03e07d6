// Cases that restart the server: with other rules, with less time, in another environment, or after a kill.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";

import { formOf, open, sayNo, send } from "./answering.mjs";
import { refused } from "./ground.mjs";
import { readInFull } from "./reading.mjs";

/** The tests of the cases that have a server to themselves, one after the other. */
export const otherwise = {
  "hook-rewrites-input-after-check": rewritten,
  "mode-switched-while-pending": loosened,
  "container-backend-skips-approval": container,
  "headless-untrusted-workspace": untrusted,
  "hook-failure-allows": broken,
  "approval-fatigue-flood": flood,
};

/** The tests of the cases in which nobody answers in time. They run at once, on a server with a short question expiry. */
export const tooLate = {
  "long-delay-then-execute": delayed,
  "timeout-defaults-to-allow": silence,
  "non-interactive-defaults-to-allow": nobody,
  "managed-consent-recorded-headless": nothingRecorded,
};

const MOMENT = "6s";

/** Kills the server as a power failure would, and starts it again on the same state. */
export async function again(ground, words = [], env = {}) {
  const { stage } = ground;
  await stage.end("SIGKILL");
  stage.env = { ...stage.env, ...env };
  await stage.serve(words);
}

export const forAMoment = (ground) => again(ground, [], { BYLEAVE_QUESTION_EXPIRY: MOMENT });

async function withPage(ground, does) {
  const page = await ground.stage.signedIn();
  try {
    return await does(page);
  } finally {
    await page.context().close();
  }
}

const touch = (ground, item, more = {}) => ground.stage.call("bash", { command: "touch gate-marker" }, { session: item.id, mode: "confirm-all", ...more });

/** The call is changed after it was shown, here by a person with the page's own form. The policy evaluates the change again. */
async function rewritten(ground, item) {
  const { stage } = ground;
  const rules = stage.write("deny.toml", '[[rule]]\nid = "no-touch"\nverdict = "deny"\nrun = "touch"\n');
  await again(ground, ["--policy", rules]);
  const call = await ground.call(item);
  await withPage(ground, async (page) => {
    await open(page, call);
    await page.getByText("Edit the arguments").click();
    await page.getByLabel("command", { exact: true }).fill(ground.here(item.input.hook_updated.command));
    await page.getByRole("button", { name: "Send the edited arguments" }).click();
    await page.getByText("You sent an edited version.").waitFor();
  });
  const result = await stage.settled(call.call);
  assert.deepEqual([result.outcome, result.refusal.code], ["refused", "denied"], JSON.stringify(result));
  ground.noMarker();
  return "the server has no such hooks. A stand-in, a person who edits the arguments on the page: the edited call is evaluated again, and denied without a question";
}

/** The next server has looser rules and a looser mode. The open question stays open. */
async function loosened(ground, item) {
  const { stage } = ground;
  await again(ground);
  const call = await touch(ground, item);
  const page = await stage.signedIn();
  await open(page, call);
  const rules = stage.write("allow.toml", '[[rule]]\nid = "all"\nverdict = "allow"\nrun = "touch"\nwrite = "/**"\n');
  await again(ground, ["--mode", "yolo", "--policy", rules]);
  // The page belongs to the ended server, so its answer reaches nobody.
  await page.getByRole("button", { name: "Yes, run it" }).click();
  await page.waitForEvent("requestfailed", { timeout: 500 }).catch(() => {});
  await page.context().close();
  assert.equal((await stage.api(stage.bot, "GET", `/v1/calls/${call.call}?wait=1`)).json.state, "waiting");
  ground.noMarker();
  await withPage(ground, async (fresh) => {
    await open(fresh, call);
    await sayNo(fresh);
  });
  assert.equal((await stage.settled(call.call)).refusal.code, "declined");
  ground.noMarker();
  return "the server is killed while the page is open, and comes back with looser rules in the loosest mode: the click on the old page reaches nobody, and the question is still open";
}

async function container(ground, item) {
  await again(ground, [], { container: "docker", KUBERNETES_SERVICE_HOST: "10.0.0.1" });
  // The host mount of the case. Without it the command cannot run, and nobody would be asked.
  const made = !existsSync("/mnt/host");
  if (made) mkdirSync("/mnt/host");
  try {
    const call = await ground.call(item, { mode: "confirm-sensitive" });
    assert.equal(call.state, "waiting", JSON.stringify(call));
    await withPage(ground, (page) => open(page, call));
    await ground.no(call);
    assert.equal(existsSync("/mnt/host/x"), false);
  } finally {
    if (made) rmdirSync("/mnt/host");
  }
  return "the server, told that it is in a container: asks as anywhere";
}

async function untrusted(ground, item) {
  const { stage } = ground;
  stage.env = { ...stage.env, CI: "true" };
  const loosens = {
    "config.toml": ['mode = "yolo"\n', 'unattended = "allow-with-warning"\n', 'ask = "auto"\nquestions_per_minute = 99999\n', "min_read_time_percent = 1\n"],
    "policy.toml": ['[[rule]]\nid = "all"\nverdict = "allow"\nrun = "*"\n'],
  };
  for (const [name, texts] of Object.entries(loosens)) {
    for (const text of texts) {
      stage.write(`.byleave/${name}`, text);
      await assert.rejects(again(ground), new RegExp(`ended with 2: error: .*\\.byleave/${name}`), text);
      stage.sh("rm -r .byleave");
    }
  }
  await again(ground);
  assert.equal((await touch(ground, item, { mode: "yolo" })).code, "forbidden");
  const call = await touch(ground, item, { mode: "confirm-sensitive" });
  assert.equal(call.state, "waiting", JSON.stringify(call));
  await ground.no(call);
  return "settings and rules that come with the workspace and would loosen something are an error, and the server does not start; without them it asks, and an agent that names a looser mode is refused";
}

/** If the tokens cannot be read, answers are refused. If the rules cannot be read, the server does not start. */
async function broken(ground, item) {
  const { stage } = ground;
  await again(ground);
  const call = await touch(ground, item);
  await withPage(ground, async (page) => {
    await open(page, call);
    const form = await formOf(page);
    const tokens = join(stage.env.BYLEAVE_STATE, "tokens.json");
    for (const [spoils, mends] of [
      [`chmod 644 ${tokens}`, `chmod 600 ${tokens}`],
      [`cp -p ${tokens} ${tokens}.kept; echo '{' > ${tokens}`, `mv ${tokens}.kept ${tokens}`],
    ]) {
      stage.sh(spoils);
      const { status } = await send(page, `/questions/${call.question.id}/answer`, form);
      const api = await stage.api(stage.ann, "POST", `/v1/questions/${call.question.id}/answer`, { digest: form.digest, answer: { kind: "yes" } });
      stage.sh(mends);
      assert.ok(status >= 400 && api.status >= 400, `${status} ${api.status}`);
      assert.ok(await ground.isOpen(call));
    }
  });
  await ground.no(call);
  const rules = stage.write("broken.toml", '[[rule]]\nid = "all"\nverdict = "perhaps"\n');
  await assert.rejects(again(ground, ["--policy", rules]), /ended with/);
  await again(ground);
  return "the server has no such hooks. Where it cannot read who may do what, an answer on the page is refused; where it cannot read its rules, it does not start";
}

/** Makes two hundred calls. The settings limit the number of questions. One answer covers at most twenty questions, each shown in full. */
async function flood(ground, item) {
  const { stage } = ground;
  const most = 20;
  await again(ground, [], { BYLEAVE_QUESTIONS_PER_MINUTE: String(most) });
  const echo = (number, session) => stage.call("echo", { text: String(number) }, { session, mode: "confirm-all" });
  // Within a session questions come one after the other. Each is declined at once, and the next one comes.
  let asked = 0;
  for (let number = 0; number < 200; number += 1) {
    const call = await echo(number, item.id);
    if (call.state !== "waiting") {
      refused(call, "too-many-questions");
      continue;
    }
    asked += 1;
    await ground.no(call);
  }
  assert.equal(asked, most);

  const open = await Promise.all(Array.from({ length: 20 }, (_, number) => echo(number, `${item.id}-${number}`)));
  const hidden = await stage.call("bash", ground.here({ command: "touch /tmp/gate-marker" }), { session: "hidden", mode: "confirm-all" });
  const together = (some) => `/answer-several?${some.map(({ question }) => `question=${question.id}`).join("&")}`;
  const some = [...open.slice(0, 12), hidden, ...open.slice(12, 19)];
  await withPage(ground, async (page) => {
    assert.equal((await page.goto(together([...open, hidden]))).status(), 422);
    await page.goto(together(some));
    assert.equal(await page.getByRole("button", { name: "Yes to all of them" }).isDisabled(), true);
    const views = await Promise.all(some.map((call) => ground.questionView(call)));
    await page.locator("details.details").evaluateAll((all) => all.forEach((one) => (one.open = true)));
    await readInFull(page, { lines: views.flatMap(({ lines }) => lines) });
    await page.locator("article[data-ready]").waitFor();
    await page.getByRole("button", { name: "Yes to all of them" }).click();
    await page.getByRole("heading", { name: "Answered" }).waitFor();
  });
  for (const call of some) assert.equal((await stage.settled(call.call)).refusal, null);
  ground.noMarker();
  await ground.no(open[19]);
  await again(ground, [], { BYLEAVE_QUESTIONS_PER_MINUTE: "120" });
  return "of 200 calls of a session, one after the other, as many are asked about as the settings say, the rest is refused; an agent that names many sessions is asked about in each. More than 20 get no answer together, 20 do after each was shown whole, and what was waved through so is contained";
}

/** Waits until the call is settled by itself. */
async function over(ground, call) {
  const result = await ground.stage.settled(call.call);
  assert.equal(result?.outcome, "refused", JSON.stringify(result));
  assert.equal(result.refusal.code, "unanswered", JSON.stringify(result));
  ground.noMarker();
}

/** The page was opened in time, and is answered too late. */
async function delayed(ground, item) {
  await withPage(ground, async (page) => {
    const call = await ground.call(item);
    await open(page, call);
    const form = await formOf(page);
    await over(ground, call);
    const { status } = await send(page, `/questions/${call.question.id}/answer`, form);
    assert.equal(status, 409);
    await page.goto(`/questions/${call.question.id}`);
    assert.equal(await page.locator("form[data-approves]").count(), 0);
  });
  return "nobody can wait an hour here. A stand-in, a question that is open for six seconds: the yes on its page, sent later, is refused, and nothing runs; that a yes given in time expires is shown at the terminal";
}

async function silence(ground, item) {
  await withPage(ground, async (page) => {
    const call = await touch(ground, item);
    await open(page, call);
    await over(ground, call);
    await page.getByText("This question is no longer open").waitFor();
    assert.equal(await page.getByRole("button", { name: "Yes, run it" }).isDisabled(), true);
  });
  return "a question that is open for six seconds, on a page on which nobody does anything: refused, and the page closes";
}

async function nobody(ground, item) {
  const call = await ground.call(item);
  assert.equal(call.state, "waiting", JSON.stringify(call));
  await over(ground, call);
  return "the server has no terminal, and nobody opens a page: the call waits, and is refused when its time is over";
}

/** If nobody was there, neither an answer nor a standing approval is recorded. */
async function nothingRecorded(ground, item) {
  const { stage } = ground;
  const call = await touch(ground, item);
  await over(ground, call);
  const { json } = await stage.api(stage.ann, "GET", `/v1/log/calls/${call.call}`);
  assert.match(JSON.stringify(json), /"asked"/);
  assert.doesNotMatch(JSON.stringify(json), /"answered"/);
  const approvals = await stage.api(stage.ann, "GET", "/v1/approvals");
  assert.equal(JSON.stringify(approvals.json).includes(item.id), false);
  // Later, with somebody there, the call leads to a question.
  const later = await touch(ground, item);
  assert.equal(later.state, "waiting", JSON.stringify(later));
  await ground.no(later);
  return "nobody opens the page: refused, the audit log has no answer and no standing approval, and the next time it asks";
}
