// Byleave runs exactly what was approved. The tests change the world between the page that can be answered and the click on yes. Then
// either exactly what was shown becomes final, or nothing does.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { formOf, open, sayYes, send, yesOf } from "./answering.mjs";
import { SECRET, refused } from "./ground.mjs";
import { readArguments, readInFull } from "./reading.mjs";

const CHANGED = "the world is changed between the page and the click on yes: refused, or what was seen is committed and not run again";

/** The tests of the cases that share one server. */
export const binding = {
  "script-rewritten-after-approval": changed((ground) => ground.script("x.sh", "#!/bin/sh\ntouch approved\n"), (ground) => ground.script("x.sh", ground.marking)),
  "script-runner-not-recognised": changed(
    (ground) => {
      // An unknown script runner, in a place where `npx` finds it.
      ground.script("node_modules/.bin/tsx", '#!/bin/sh\n. "$1"\n');
      ground.script("bin/npx", `#!/bin/sh\nexec ${ground.work}/node_modules/.bin/"$@"\n`);
      ground.script("x.ts", "touch approved\n");
    },
    (ground) => ground.script("x.ts", ground.marking),
  ),
  "interpreter-operand-unbindable": changed(
    (ground) => {
      ground.script("pkg/__init__.py", "");
      ground.script("pkg/main.py", "open('approved', 'w')\n");
    },
    (ground) => ground.script("pkg/main.py", ground.markers.map((marker) => `open('${marker}', 'w')\n`).join("")),
  ),
  "binary-replaced-after-approval": changed((ground) => ground.script("tool", "#!/bin/sh\ntouch approved\n"), (ground) => ground.script("tool", ground.marking)),
  "path-lookup-changes": changed(
    (ground) => ground.script("bin/prettier", "#!/bin/sh\ntouch approved\n"),
    (ground) => ground.script("node_modules/.bin/prettier", ground.marking),
  ),
  "file-changed-since-diff-shown": file,
  "symlink-retarget-after-approval": link,
  "argv-changed-between": argv,
  "env-changed-on-reuse": reused({ arguments: { command: "GIT_DIR=/ws/evilgit git status" } }),
  "approval-id-other-session": reused({ session: "other" }),
  "approval-id-replayed": replayed,
  "internal-approval-fields-injected": injected,
  "stale-prompt-answers-new-call": stale,
  "parallel-calls-one-answer": parallel,
  "retry-outside-sandbox-on-old-approval": retried,
};

/** Shows the question until it can be answered, changes the world, and clicks yes. Returns the result of the call. */
async function approvedWhile(ground, page, item, change) {
  const call = await ground.call(item);
  assert.equal(call.state, "waiting", JSON.stringify(call));
  await open(page, call);
  change(ground);
  await sayYes(page);
  return ground.stage.settled(call.call);
}

function changed(before, change) {
  return async (ground, page, item) => {
    before(ground);
    const result = await approvedWhile(ground, page, item, change);
    ground.noMarker();
    // Either the call is refused because something changed, or the result of the rehearsal is committed. The new script would not have
    // produced that result.
    const isRefused = result.outcome === "refused" && /changed/.test(result.refusal.message);
    const isCommitted = result.outcome === "completed" && ground.read("approved") !== null;
    assert.ok(isRefused || isCommitted, JSON.stringify(result));
    return CHANGED;
  };
}

async function file(ground, page, item) {
  const result = await approvedWhile(ground, page, item, () => ground.stage.write("a", "somebody else's x\n"));
  assert.notEqual(result.outcome, "completed", JSON.stringify(result));
  assert.equal(ground.read("a"), "somebody else's x\n");
  return CHANGED;
}

async function link(ground, page, item) {
  ground.stage.sh("mkdir real; ln -s real p");
  const result = await approvedWhile(ground, page, item, () => ground.stage.sh(ground.here("rm p; ln -s /outside p")));
  assert.equal(ground.read("../outside/f"), null);
  const isKept = result.outcome === "completed" && ground.read("real/f") !== null;
  assert.ok(isKept || result.outcome !== "completed", JSON.stringify(result));
  return CHANGED;
}

/** The tool receives exactly the words on the page. Nothing in between can change them. */
async function argv(ground, page, item) {
  refused(await ground.call(item), "tool-unknown");
  const call = await ground.call({ ...item, input: { ...item.input, tool: "acp_call" } });
  await open(page, call);
  const lines = await readInFull(page, await ground.questionView(call));
  await sayYes(page);
  const result = await ground.stage.settled(call.call);
  assert.equal(result.outcome, "completed", JSON.stringify(result));
  assert.deepEqual(result.arguments, readArguments(lines));
  return "there is no tool `exec`: refused. A stand-in, `acp_call` with the same arguments: exactly the words read from the page are handed over";
}

const log = { tool: "bash", arguments: { command: "echo a >> log" }, session: "s", mode: "confirm-all" };

/** Makes a call under a chosen key. */
async function under(ground, key, body, wait = 0) {
  const { stage } = ground;
  let { status, json } = await stage.api(stage.bot, "POST", `/v1/calls?wait=${wait}`, body, { "idempotency-key": key });
  while (json.state === "running") ({ status, json } = await stage.api(stage.bot, "GET", `/v1/calls/${json.call}`));
  return { status, json };
}

/** Makes an approved call under a key, and then another call under the same key. */
function reused(change) {
  return async (ground, page) => {
    const key = randomUUID();
    const { json: call } = await under(ground, key, log);
    await open(page, call);
    await sayYes(page);
    assert.equal((await ground.stage.settled(call.call)).outcome, "completed");
    // Waits for a while. A client that does not wait gets the status of the key's first call.
    const { status, json } = await under(ground, key, ground.here({ ...log, ...change }), 20);
    assert.deepEqual([status, json.code], [409, "call-reused"]);
    assert.equal(ground.read("log"), "a\n");
    return "no approval can be presented by a caller, and a key is one call: the other is refused";
  };
}

/** The same call under the same key is answered from the audit log. The yes form, sent again, answers nothing. */
async function replayed(ground, page) {
  const key = randomUUID();
  const { json: call } = await under(ground, key, log);
  await open(page, call);
  const form = await formOf(page);
  await sayYes(page);
  assert.equal((await ground.stage.settled(call.call)).outcome, "completed");
  const { json: again } = await under(ground, key, log);
  assert.deepEqual([again.call, again.state], [call.call, "settled"]);
  assert.equal((await send(page, `/questions/${call.question.id}/answer`, form)).status, 409);
  // The form is not valid for the next call either, which differs only in its key.
  const { json: next } = await under(ground, randomUUID(), log);
  await open(page, next);
  assert.equal((await send(page, `/questions/${next.question.id}/answer`, form)).status, 409);
  await ground.no(next);
  assert.equal(ground.read("log"), "a\n");
  return "the same call again is answered from the audit log, and the form of a yes sent again, or for the next call, is refused: nothing runs twice";
}

async function injected(ground, page, item) {
  const { stage } = ground;
  const { argv, ...fields } = ground.here(item.input.args);
  refused(await ground.call(item), "tool-unknown");
  refused(await stage.call("bash", { command: argv.join(" "), ...fields }, { session: item.id }), "arguments-invalid");
  for (const [name, value] of Object.entries(fields)) {
    const body = { ...log, session: item.id, [name]: value };
    const { status, json } = await under(ground, randomUUID(), body);
    assert.deepEqual([status, json.code], [400, "malformed"], JSON.stringify(json));
  }
  await page.goto("/");
  assert.equal((await page.locator("main").textContent()).includes(item.id), false);
  ground.noMarker();
  return "there is no tool `exec`; in the arguments of `bash` and in the request itself such fields are refused, and no question comes to the inbox";
}

/** A question is withdrawn while its page is open. A later click, or a form sent for the next question, answers nothing. */
async function stale(ground, page, item) {
  const { stage } = ground;
  const first = await stage.call("edit", { path: `${ground.work}/a`, old: "x", new: "y" }, { session: "first", mode: "confirm-all" });
  await open(page, first);
  const form = await formOf(page);
  await stage.api(stage.bot, "POST", `/v1/calls/${first.call}/cancel`);
  const second = await ground.call(item);
  await page.getByText("This question is no longer open").waitFor();
  const yes = page.getByRole("button", { name: "Yes, run it" });
  assert.equal(await yes.isDisabled(), true);
  await yes.click({ force: true });
  await page.keyboard.press("Enter");
  for (const question of [first, second]) {
    const { status, text } = await send(page, `/questions/${question.question.id}/answer`, form);
    assert.ok(status === 409, `${status} ${text}`);
  }
  // It is refused even if the other question was shown, because the form names the digest that it answers.
  await open(page, second);
  assert.equal((await send(page, `/questions/${second.question.id}/answer`, { ...(await yesOf(page, first)) })).status, 409);
  await ground.no(second);
  assert.equal(ground.read("a"), "x\n");
  return "the page of a question that went away closes, and its form is refused for that one and for the next: a form names the digest of what it answers";
}

async function parallel(ground, page, item) {
  const one = await ground.call(item, { session: "one" });
  const also = await ground.stage.call("bash", ground.here(item.input.also_pending), { session: "also", mode: "confirm-all" });
  await open(page, one);
  await sayYes(page);
  assert.equal((await ground.stage.settled(one.call)).outcome, "completed");
  await page.locator(`li[data-id="${also.question.id}"]`).waitFor();
  // A form with both questions, of which one was never shown.
  const both = { ...(await yesOf(page, also)), question: also.question.id };
  assert.equal((await send(page, "/answer-several", both)).status, 409);
  await ground.no(also);
  return "of two that wait one is answered; the other is open as before, and an answer without its page is refused";
}

/** A read that the sandbox blocks stays blocked after any approval. */
async function retried(ground, page, item) {
  refused(await ground.call(item), "denied");
  const hides = { command: `python3 -c "print(open('.' + 'env').read())"; echo seen > seen` };
  const call = await ground.stage.call("bash", hides, { session: item.id, mode: "confirm-all" });
  await open(page, call);
  assert.equal((await page.content()).includes(SECRET), false);
  await sayYes(page);
  const result = await ground.stage.settled(call.call);
  assert.equal(ground.read("seen"), "seen\n", "it was approved, and is final");
  assert.equal(JSON.stringify(result).includes(SECRET), false, JSON.stringify(result));
  return "refused outright; and where the text hides which file it reads, after a yes: the secret is not there for the command, and nothing tries again without the sandbox";
}
