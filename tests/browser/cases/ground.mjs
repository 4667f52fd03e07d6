// The environment of the cases: the directories of the corpus on this stage, and the files that must not exist afterwards.
import assert from "node:assert/strict";
import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The content of a file that nobody may read. */
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

  /** Returns a value with the paths of this stage. */
  here(value) {
    if (typeof value === "string") {
      return this.places.reduce((text, [from, to]) => text.replaceAll(new RegExp(`(?<![\\w/])${from}(?![\\w-])`, "g"), to), value);
    }
    if (Array.isArray(value)) return value.map((item) => this.here(item));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.here(item)]));
  }

  /** Clears the environment and creates the files that the cases name. */
  prepare(...cases) {
    const script = this.here(
      `find /ws /outside ${this.stage.dir}/tmp -mindepth 1 -delete; mkdir -p /home/u/.ssh
       echo ${SECRET} > /home/u/.ssh/id_ed25519; echo KEY=${SECRET} > /ws/.env; echo ${SECRET} > /outside/secret.txt
       echo x > /ws/a; printf 'a:\\n\\tb\\n' > /ws/Makefile`,
    );
    this.stage.sh(script);
    for (const { setup } of cases) if (setup.startsWith("sh:")) this.stage.sh(this.here(setup.slice(3)));
  }

  /** Writes a program into the working directory of calls. Replaces the file by another, as an attacker would. */
  script(path, text) {
    this.stage.write(`${path}.new`, text);
    this.stage.sh(`chmod 755 '${path}.new' && mv '${path}.new' '${path}'`);
  }

  /** Returns a shell script that creates both markers. */
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

  /** Returns every file that a call could have changed, by path. */
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

  /** Makes the call of a case, in a mode that asks about everything. */
  call(item, more = {}) {
    const { tool, args, description } = item.input;
    return this.stage.call(tool, this.here(args), { session: item.id, mode: "confirm-all", ...(description ? { reason: description } : {}), ...more });
  }

  /** Returns the question as the server describes it. */
  async questionView(call) {
    const { status, json } = await this.stage.api(this.stage.ann, "GET", `/v1/questions/${call.question.id}`);
    assert.equal(status, 200, JSON.stringify(json));
    return json;
  }

  async isOpen(call) {
    const { status } = await this.stage.api(this.stage.ann, "GET", `/v1/questions/${call.question.id}`);
    return status === 200;
  }

  /** Declines the question, which is possible only while it is open. Checks that no marker remains. */
  async no(call) {
    assert.ok(await this.isOpen(call), "the question is no longer open");
    const body = { digest: call.question.digest, answer: { kind: "no" } };
    const { status, json } = await this.stage.api(this.stage.ann, "POST", `/v1/questions/${call.question.id}/answer`, body);
    assert.ok(status < 300, JSON.stringify(json));
    assert.equal((await this.stage.settled(call.call)).refusal.code, "declined");
    this.noMarker();
  }
}

/** Checks that the call was refused with this code, before anybody could say yes. */
export function refused(call, code) {
  assert.equal(call.state, "settled", `asked: ${JSON.stringify(call)}`);
  assert.equal(call.result.refusal?.code, code, JSON.stringify(call.result));
}
