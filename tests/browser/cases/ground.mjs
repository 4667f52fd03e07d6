// Where the cases play: the places of the corpus as they are on this stage, and what must not be there afterwards.
import assert from "node:assert/strict";
import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What a file says that nobody may read. */
export const SECRET = "GATE_SECRET";

export class Ground {
  constructor(stage) {
    const at = (name) => join(stage.dir, name);
    this.stage = stage;
    this.work = at("work");
    this.places = [
      ["/ws", this.work],
      ["/outside", at("outside")],
      ["/home/u", at("home")],
      ["/tmp/gate-marker", at("tmp/gate-marker")],
    ];
    this.markers = [at("tmp/gate-marker"), join(this.work, "gate-marker")];
  }

  /** The same with the places of this stage. */
  here(value) {
    if (typeof value === "string") {
      return this.places.reduce((text, [from, to]) => text.replaceAll(new RegExp(`(?<![\\w/])${from}(?![\\w-])`, "g"), to), value);
    }
    if (Array.isArray(value)) return value.map((item) => this.here(item));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.here(item)]));
  }

  /** Empties it, and puts there what the cases name. */
  prepare(...cases) {
    const script = this.here(
      `find /ws /outside ${this.stage.dir}/tmp -mindepth 1 -delete; mkdir -p /home/u/.ssh
       echo ${SECRET} > /home/u/.ssh/id_ed25519; echo KEY=${SECRET} > /ws/.env; echo ${SECRET} > /outside/secret.txt
       echo x > /ws/a; printf 'a:\\n\\tb\\n' > /ws/Makefile`,
    );
    this.stage.sh(script);
    for (const { setup } of cases) if (setup.startsWith("sh:")) this.stage.sh(this.here(setup.slice(3)));
  }

  /** A program in the directory that calls work in; another file in its place, as an attacker would put it. */
  script(path, text) {
    this.stage.write(`${path}.new`, text);
    this.stage.sh(`chmod 755 '${path}.new' && mv '${path}.new' '${path}'`);
  }

  /** What leaves both markers, for a shell. */
  get marking() {
    return `#!/bin/sh\ntouch ${this.markers.join(" ")}\n`;
  }

  noMarker() {
    for (const marker of this.markers) assert.equal(existsSync(marker), false, `${marker} is there`);
  }

  read(path) {
    const at = join(this.work, path);
    return existsSync(at) ? readFileSync(at, "utf8") : null;
  }

  /** Everything that a call could have changed, by path. */
  everything() {
    const found = {};
    const left = [this.work, join(this.stage.dir, "outside"), join(this.stage.dir, "tmp")];
    for (let dir = left.pop(); dir; dir = left.pop()) {
      for (const name of readdirSync(dir)) {
        const path = join(dir, name);
        const kind = lstatSync(path);
        if (kind.isDirectory()) left.push(path);
        found[path] = kind.isFile() ? readFileSync(path, "utf8") : "";
      }
    }
    return found;
  }

  /** Makes the call of a case, which asks about everything. */
  call(item, more = {}) {
    const { tool, args, description } = item.input;
    return this.stage.call(tool, this.here(args), { session: item.id, mode: "confirm-all", ...(description ? { reason: description } : {}), ...more });
  }

  /** The question as the server has it. */
  async sheet(call) {
    const { status, json } = await this.stage.api(this.stage.ann, "GET", `/v1/questions/${call.question.id}`);
    assert.equal(status, 200, JSON.stringify(json));
    return json;
  }

  async isOpen(call) {
    const { status } = await this.stage.api(this.stage.ann, "GET", `/v1/questions/${call.question.id}`);
    return status === 200;
  }

  /** Says no, which is possible as long as it is open, and leaves nothing behind. */
  async no(call) {
    assert.ok(await this.isOpen(call), "the question is no longer open");
    const body = { digest: call.question.digest, answer: { say: "no" } };
    const { status, json } = await this.stage.api(this.stage.ann, "POST", `/v1/questions/${call.question.id}/answer`, body);
    assert.ok(status < 300, JSON.stringify(json));
    assert.equal((await this.stage.settled(call.call)).refusal.code, "declined");
    this.noMarker();
  }
}

/** Refused before anybody could say yes: the code. */
export function refused(call, code) {
  assert.equal(call.state, "settled", `asked: ${JSON.stringify(call)}`);
  assert.equal(call.result.refusal?.code, code, JSON.stringify(call.result));
}
