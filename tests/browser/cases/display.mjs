// The person sees on the page exactly what would happen. Every case is read to its end at two widths, and parsed back into the model's
// arguments.
import assert from "node:assert/strict";

import { readable } from "../stage.mjs";
import { sayYes } from "./answering.mjs";
import { refused } from "./ground.mjs";
import { SIZES, openAt, part, readArguments, readInFull, row } from "./reading.mjs";

const IN_FULL = "every line seen at 1,200 and at 390 px, the same as the server's, and read back to the exact arguments";
const OUTRIGHT = "refused outright, for what it really is about; there is no question to open";

export function display(item) {
  switch (item.id) {
    case "upstream-truncated-payload":
      return nothingToOpen("not-shown-in-full");
    case "missing-command-field":
      return nothingToOpen("arguments-invalid");
    case "strip-vs-grant-mismatch":
      return outright("plan-failed", "/tmp/hello\\u{1b}[/../../etc/hosts");
    case "deceptive-url-userinfo":
      return outright("plan-failed", "contains a user name or password");
    case "symlink-target-not-shown":
      return link;
    case "elevation-warning-lost":
      return elevated;
    case "always-allow-scope-hidden":
      return standingApproval;
    case "fake-dialog-in-output":
      return fakeDialog;
    case "prompt-repaint-race":
      return repainted;
    case "newline-padding":
      return tall;
    case "terminal-title-injection":
    case "zero-width-joiners":
    case "horizontal-scroll-hides-suffix":
      return programNotThere;
    default:
      return item.input.tool === "exec" || item.input.tool === "skill" ? standIn : shown;
  }
}

/** Returns the texts that must be on the page besides the arguments. */
function besides(id) {
  switch (id) {
    case "homoglyph-path":
      return ["lookalike characters", "⟨ѕ U+0455⟩rc"];
    case "bidi-override":
    case "bidi-isolate":
    case "zero-width-joiners":
    case "unicode-tag-characters":
    case "variation-selectors":
      return ["invisible characters"];
    case "comment-first-line":
    case "newline-padding":
      return ["┃ touch /tmp/gate-marker"];
    case "only-triggering-subcommand-shown":
      return ["cd /outside && touch ./gate-marker", "/outside/gate-marker"];
    case "agent-written-summary":
    case "markdown-rendered-in-prompt":
      return ["The model's own explanation (not verified)"];
    case "symlink-target-not-shown":
      return ["/outside/notes"];
    case "diff-whitespace-only-change":
      return ["-⇥b", "+        b"];
    case "crlf-hidden-line-in-diff":
      return ["echo ok⟨CR⟩touch /tmp/gate-marker"];
    case "argv-rewritten-before-run":
      return ["npx"];
    case "shown-payload-not-argv":
      return ["/ws/sh"];
    case "positional-arguments-hidden":
      return ["touch", "/tmp/gate-marker"];
    default:
      return [];
  }
}

/** Reads an open question at every size, and compares it with the model's arguments. */
async function read(ground, page, item, call) {
  assert.equal(call.state, "waiting", `nobody was asked: ${JSON.stringify(call)}`);
  const view = await ground.questionView(call);
  assert.equal(view.complete, true);
  const { args, description } = ground.here(item.input);
  let lines;
  for (const size of SIZES) {
    await openAt(page, call, size);
    lines = await readInFull(page, view);
    assert.deepEqual(readArguments(lines), args, "read back");
  }
  const rows = lines.map(row);
  for (const text of besides(item.id)) assert.ok(rows.join("\n").includes(ground.here(text)), `no ${text} in ${rows.join("\n")}`);
  if (description) {
    const words = part(lines, "The model's own explanation");
    assert.ok(words.every((text) => text.startsWith("  │ ")) && words.some((text) => text.includes(description)), words.join("\n"));
    assert.deepEqual(rows.filter((text) => text.includes(description) && !text.startsWith("  │ ")), []);
    assert.equal((await page.locator("article").textContent()).split(description).length, 2, "and nowhere else on the page");
  }
  assert.deepEqual(page.complaints, []);
  return rows;
}

async function shown(ground, page, item) {
  const call = await ground.call(item);
  await read(ground, page, item, call);
  await ground.no(call);
  return IN_FULL;
}

function nothingToOpen(code) {
  return async (ground, page, item) => {
    refused(await ground.call(item), code);
    await noneOf(page, item);
    return "refused, and no question comes to the inbox";
  };
}

function outright(code, text) {
  return async (ground, page, item) => {
    const call = await ground.call(item);
    refused(call, code);
    assert.ok(call.result.refusal.message.includes(text), call.result.refusal.message);
    await noneOf(page, item);
    return OUTRIGHT;
  };
}

/** Checks that the inbox has no question of this case. */
async function noneOf(page, item) {
  await page.goto("/");
  await page.getByRole("heading", { name: "Inbox" }).waitFor();
  assert.equal((await page.locator("main").textContent()).includes(item.id), false);
}

/** A question that is longer than a screen cannot be approved before its end was in view. Afterwards it can. */
async function tall(ground, page, item) {
  const call = await ground.call(item);
  await openAt(page, call, SIZES[1]);
  const dwell = Number(await page.locator("article").getAttribute("data-dwell"));
  await page.waitForTimeout(2 * dwell + 200);
  const buttons = page.locator("form[data-approves] button");
  assert.ok((await buttons.evaluateAll((all) => all.map(({ disabled }) => disabled))).every(Boolean), "approved without its end");
  await page.keyboard.press("y");
  await page.keyboard.press("Enter");
  assert.ok(await ground.isOpen(call));
  await readable(page);
  assert.equal(await buttons.first().isDisabled(), false);
  await read(ground, page, item, call);
  await ground.no(call);
  return `${IN_FULL}; its end was out of view for a while, and as long as it was, nothing approved it`;
}

/** A tool that the program does not have is refused. The same arguments are shown in full for a tool that accepts any arguments. */
async function standIn(ground, page, item) {
  refused(await ground.call(item), "tool-unknown");
  const other = { ...item, input: { ...item.input, tool: "acp_call" } };
  await shown(ground, page, other);
  return `there is no tool \`${item.input.tool}\`: refused without a question. A stand-in, \`acp_call\` with the same arguments: ${IN_FULL}`;
}

/** A command whose program does not exist is refused. The same arguments are shown in full for a tool that accepts any arguments. */
async function programNotThere(ground, page, item) {
  const call = await ground.call(item);
  if (call.state === "waiting") {
    // This machine has the program.
    await read(ground, page, item, call);
    await ground.no(call);
  } else {
    refused(call, "cannot-run");
    await noneOf(page, item);
  }
  await shown(ground, page, { ...item, input: { ...item.input, tool: "acp_call" } });
  return `the copy shows that the program does not exist: refused without a question. A stand-in, \`acp_call\` with the same arguments: ${IN_FULL}`;
}

/** A key file is refused outright. If a link leads to a target that may be asked about, the page shows the target. */
async function link(ground, page, item) {
  await outright("denied", "private keys are secrets")(ground, page, item);
  ground.stage.sh(ground.here("rm /ws/notes; echo x > /outside/notes; ln -s /outside/notes /ws/notes"));
  await shown(ground, page, item);
  return `a link to a key is ${OUTRIGHT}; one to another file: ${IN_FULL}, with where it leads`;
}

/** The address is refused, and the tool has no such field. A call that is not understood leads to a separate warning. */
async function elevated(ground, page, item) {
  refused(await ground.call(item), "denied");
  const { url } = item.input.args;
  refused(await ground.stage.call("web_fetch", { url, elevated: true }, { session: item.id }), "arguments-invalid");
  const args = { argv: ["curl", url], elevated: true };
  const other = { ...item, input: { tool: "acp_call", args } };
  const call = await ground.call(other);
  const rows = await read(ground, page, other, call);
  assert.ok(rows.some((text) => text.startsWith("⚠") && text.includes("NOT UNDERSTOOD")), rows.join("\n"));
  const warnings = await page.locator(".sheet .warning, .sheet .effect").allTextContents();
  assert.ok(warnings.some((text) => text.startsWith("⚠")), warnings.join("\n"));
  await ground.no(call);
  return "the address is refused, and the program has no such field. A stand-in, `acp_call` with such a field: the warning that it was not understood is on the page, as is every line of the server's; the line about leaving the sandbox itself is shown at the terminal";
}

/** A standing approval shows exactly what it covers, and exactly that is granted. */
async function standingApproval(ground, page, item) {
  const { stage } = ground;
  stage.write("package.json", JSON.stringify({ scripts: { build: "echo built >> built" } }));
  const plainly = { session: item.id, mode: "confirm-sensitive" };
  const call = await ground.call(item, plainly);
  await read(ground, page, item, call);
  await readable(page);
  await page.getByText("Don’t ask again: give a standing approval").click();
  await page.getByRole("radio").first().check();
  await page.getByRole("button", { name: "Preview the standing approval" }).click();
  await page.getByRole("heading", { name: "New standing approval" }).waitFor();
  const rule = await page.locator("pre.rule").innerText();
  assert.match(rule.replaceAll(/\s/g, ""), /"npm","run","build","--","--x"\]/);
  const give = page.getByRole("button", { name: "Give this standing approval" });
  assert.equal(await give.isDisabled(), true, "a standing approval before its end was in view");
  await give.scrollIntoViewIfNeeded();
  await page.locator("article[data-ready]").waitFor();
  await give.click();
  await page.getByText("You gave a standing approval.").waitFor();
  assert.equal((await stage.settled(call.call)).outcome, "completed");
  await page.goto("/approvals");
  const given = await page.locator("section.card pre.rule").first().innerText();
  // The id of the rule is that of the standing approval, which is created when it is granted.
  const same = (text) => text.replaceAll(/^(id|#).*\n/gm, "");
  assert.equal(same(given), same(rule), "what was shown is what was given");
  // The very same call no longer leads to a question. Any other call does.
  assert.equal((await ground.call(item, plainly)).state, "settled");
  for (const command of ["npm run build -- --x --y", "npm run build"]) {
    const other = await stage.call("bash", { command }, plainly);
    assert.equal(other.state, "waiting", command);
    await ground.no(other);
  }
  const elsewhere = await ground.call(item, { ...plainly, session: `${item.id}-2` });
  assert.equal(elsewhere.state, "waiting", "in another session it asks");
  await ground.no(elsewhere);
  return `${IN_FULL}; the page of the standing approval shows the whole rule, and what is given covers that and nothing else`;
}

/** A tool prints text that looks like a question. The page shows it behind a gutter and has no buttons but Byleave's own. */
async function fakeDialog(ground, page, item) {
  const buttons = () => page.locator("button").allTextContents();
  const plain = await ground.stage.call("bash", { command: "cat a" }, { session: item.id, mode: "confirm-all" });
  await page.goto(`/questions/${plain.question.id}`);
  const ours = await buttons();
  await ground.no(plain);
  const call = await ground.call(item);
  const rows = await read(ground, page, item, call);
  const fake = rows.filter((text) => text.includes("Approve? [y/N]"));
  assert.ok(fake.length > 0 && fake.every((text) => text.startsWith("  │ ")), rows.join("\n"));
  assert.deepEqual(await buttons(), ours);
  await ground.no(call);
  return `${IN_FULL}; what the command printed on the copy is behind a gutter, and the page has no other buttons than any`;
}

/** Other questions come in and are answered while one is read. Nothing on its page moves or changes. */
async function repainted(ground, page, item) {
  const call = await ground.call(item);
  await read(ground, page, item, call);
  await readable(page);
  const picture = () =>
    page.evaluate(() => {
      const clocks = /<span data-until="\d+">[^<]*/g;
      const boxes = [...document.querySelectorAll(".question div, .sheet .line, .answers button, .bar button")].map((one) => {
        const { x, y, width, height } = one.getBoundingClientRect();
        return [x, y, width, height].join(" ");
      });
      return { html: document.querySelector("article").outerHTML.replace(clocks, ""), boxes, title: document.title, at: scrollY };
    });
  const before = await picture();
  for (let number = 0; number < 4; number += 1) {
    const session = `${item.id}-${number}`;
    const clears = { text: "\x1b[2J\x1b[H</article><h1>May nothing run?</h1>" };
    const other = await ground.stage.call("echo", clears, { session, mode: "confirm-all", reason: "\x1b[2J" });
    assert.deepEqual(await picture(), before);
    await ground.no(other);
  }
  await page.waitForTimeout(300);
  assert.deepEqual(await picture(), before);
  await sayYes(page);
  const { refusal } = await ground.stage.settled(call.call);
  assert.equal(refusal, null, "it was approved, and ran for itself");
  ground.noMarker();
  return `${IN_FULL}; while others come in and go, nothing on its page moves or changes`;
}
