// The approval cases of the corpus, on the pages. Each is shown in its own way, and docs/security/scores.md says which.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { authority } from "./cases/authority.mjs";
import { binding } from "./cases/binding.mjs";
import { display } from "./cases/display.mjs";
import { Ground } from "./cases/ground.mjs";
import { forAMoment, otherwise, tooLate } from "./cases/otherwise.mjs";
import { check } from "./cases/scores.mjs";
import { Stage } from "./stage.mjs";

/** The number of pages that are used in parallel. */
const TOGETHER = 3;

const CORPUS = new URL("../corpus/bypasses.jsonl", import.meta.url);
const corpus = readFileSync(CORPUS, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const cases = corpus.filter(({ tool }) => tool === "approval_ui");
const of = (ways) => Object.entries(ways).map(([id, way]) => [cases.find((item) => item.id === id), way]);

/** How each case was shown to hold. */
const shown = new Map();
const pages = [];
let place;
let apart;

async function ground() {
  const path = (dir) => ({ PATH: `${join(dir, "work/node_modules/.bin")}:${join(dir, "work/bin")}:${process.env.PATH}` });
  return new Ground(await Stage.start(["--tenant", "other"], path));
}

before(async () => {
  [place, apart] = await Promise.all([ground(), ground()]);
  for (let number = 0; number < TOGETHER; number += 1) pages.push(await place.stage.signedIn());
});
after(() => Promise.all([place, apart].map((one) => one?.stage.stop())));

/** Runs a case on one of the pages. */
async function onPage(item, way) {
  const page = pages.pop();
  try {
    shown.set(item.id, await way(place, page, item));
  } finally {
    pages.push(page);
  }
}

// These cases approve something, so each runs alone.
const giving = new Set(["symlink-target-not-shown", "always-allow-scope-hidden"]);
const seen = cases.filter((item) => item.class === "approval-display");
let untouched;

// req: R5
describe("the cases", { concurrency: true }, () => {
  describe("on one server", { concurrency: 1 }, () => {
    describe("what is on the page is what would happen", { concurrency: TOGETHER }, () => {
      before(() => {
        place.prepare(...seen);
        untouched = place.everything();
      });
      for (const item of seen.filter(({ id }) => !giving.has(id))) test(item.id, () => onPage(item, display(item)));
    });

    test("and nothing of it happened", () => {
      place.noMarker();
      assert.deepEqual(place.everything(), untouched);
    });

    describe("what is given is what was shown", { concurrency: 1 }, () => {
      const ways = [...seen.filter(({ id }) => giving.has(id)).map((item) => [item, display(item)]), ...of(binding)];
      for (const [item, way] of ways) {
        test(item.id, () => {
          place.prepare(item);
          return onPage(item, way);
        });
      }
    });

    describe("by who may, and by nobody else", { concurrency: TOGETHER }, () => {
      before(() => place.prepare());
      for (const [item, way] of of(authority)) test(item.id, () => onPage(item, way));
    });
  });

  describe("on another, which is killed and started anew", { concurrency: 1 }, () => {
    describe("whatever becomes of the server", { concurrency: 1 }, () => {
      for (const [item, way] of of(otherwise)) {
        test(item.id, async () => {
          apart.prepare(item);
          shown.set(item.id, await way(apart, item));
        });
      }
    });

    describe("where nobody answers in time", { concurrency: true }, () => {
      before(async () => {
        apart.prepare();
        await forAMoment(apart);
      });
      for (const [item, way] of of(tooLate)) test(item.id, async () => shown.set(item.id, await way(apart, item)));
    });
  });
});

test("every case was shown, and the page of scores says how", () => {
  check(cases, shown);
  assert.deepEqual(cases.filter(({ id }) => !shown.has(id)).map(({ id }) => id), []);
});
