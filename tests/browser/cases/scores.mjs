// The section of docs/security/scores.md for the pages.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";

const PAGE = new URL("../../../docs/security/scores.md", import.meta.url);
const BEGINS = "<!-- pages -->\n";
const ENDS = "<!-- /pages -->\n";
/** The text that the section follows. */
const AFTER = "<!-- /approvals -->\n";

const PREFACE = `## Approvals in the browser

Written by \`BYLEAVE_SCORES=write scripts/browser\`, never by hand; CI fails where it differs. The cases about approval of the corpus once
more, on the pages of \`byleave serve\` in a real browser, with the real program; calls come in over HTTP, as a rule in the mode that asks
about everything. \`/ws\`, \`/outside\`, \`/home/u\` and \`/tmp/gate-marker\` of the corpus are places in a directory of the test's own. Where a
case tells of something that the program does not have, the table says what stands in for it.

`;

/** Writes the section if requested, and fails if the page differs. */
export function check(cases, ways) {
  const page = readFileSync(PAGE, "utf8");
  const seen = section(cases, ways);
  const [from, to] = [page.indexOf(BEGINS), page.indexOf(ENDS)];
  if (process.env.BYLEAVE_SCORES !== "write") {
    assert.equal(from < 0 ? "" : page.slice(from + BEGINS.length, to), seen, "docs/security/scores.md is not what was seen");
    return;
  }
  const at = page.indexOf(AFTER) + AFTER.length;
  const [before, after] = from < 0 ? [`${page.slice(0, at)}\n`, page.slice(at)] : [page.slice(0, from), page.slice(to + ENDS.length)];
  writeFileSync(PAGE, before + BEGINS + seen + ENDS + after);
}

function section(cases, ways) {
  const sums = new Map();
  for (const { id, class: name } of cases) {
    for (const row of [name, "~"]) {
      const [all, held] = sums.get(row) ?? [0, 0];
      sums.set(row, [all + 1, held + (ways.has(id) ? 1 : 0)]);
    }
  }
  const byName = [...sums].sort(([a], [b]) => (a < b ? -1 : 1));
  const classes = byName.map(([name, [all, held]]) => `| ${name === "~" ? "**all**" : name} | ${all} | ${held} |\n`);
  const rows = cases.map(({ id, class: name, must }) => `| \`${id}\` | ${name} | ${must} | ${ways.has(id) ? "×" : "–"} | ${ways.get(id) ?? ""} |\n`);
  return `${PREFACE}| class | cases | page |\n|---|--:|--:|\n${classes.join("")}\n| case | class | must | page | how it is shown |\n|---|---|---|:-:|---|\n${rows.join("")}`;
}
