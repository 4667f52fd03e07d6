// The real server in a directory of its own, with a real browser.
//
// BYLEAVE names the program. BYLEAVE_BROWSER names a directory with `playwright-core` and `axe-core`. The sandbox refuses to work for root,
// so as root the server runs as an ordinary user.
import { spawn, execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const held = createRequire(`${process.env.BYLEAVE_BROWSER}/`);
const { chromium } = held("playwright-core");
const axe = readFileSync(held.resolve("axe-core/axe.min.js"), "utf8");

const USER = process.getuid() === 0 ? { uid: 61003, gid: 61003 } : {};

export class Stage {
  /** Starts a server. `env` returns additional environment variables for its directory; `files` are written before, relative to the working directory. */
  static async start(serve = [], env = () => ({}), files = {}) {
    const stage = new Stage();
    const dir = mkdtempSync(join(tmpdir(), "byleave-browser-"));
    chmodSync(dir, 0o755);
    stage.dir = dir;
    stage.program = join(dir, "byleave");
    copyFileSync(process.env.BYLEAVE, stage.program);
    chmodSync(stage.program, 0o755);
    for (const name of ["home", "work", "outside", "tmp"]) {
      mkdirSync(join(dir, name));
      if (USER.uid) chownSync(join(dir, name), USER.uid, USER.gid);
    }
    stage.env = {
      PATH: process.env.PATH,
      HOME: join(dir, "home"),
      BYLEAVE_STATE: join(dir, "home", "state"),
      // For machines without a delegated cgroup. The tests are not about memory.
      BYLEAVE_WAIVE: "memory-limited",
      ...env(dir),
    };
    stage.bot = stage.byleave("serve", "token", "add", "bot").trim();
    stage.ann = stage.byleave("serve", "token", "add", "ann", "--person", "--scope", "answer,read,administer").trim();
    for (const [path, text] of Object.entries(files)) stage.write(path, text);
    await stage.serve(serve);
    return stage;
  }

  /** Runs the program, and returns its output. */
  byleave(...words) {
    return execFileSync(this.program, words, { cwd: join(this.dir, "work"), env: this.env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], ...USER });
  }

  /** Runs a script in the working directory of calls, as the user of the server. */
  sh(script) {
    return execFileSync("bash", ["--norc", "-c", script], { cwd: join(this.dir, "work"), env: this.env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], ...USER });
  }

  async serve(words = []) {
    const child = spawn(this.program, ["serve", "--listen", "127.0.0.1:0", "--requests-per-second", "1000", ...words], {
      cwd: join(this.dir, "work"),
      env: this.env,
      stdio: ["ignore", "ignore", "pipe"],
      ...USER,
    });
    this.server = child;
    let said = "";
    [this.url, this.pages] = await new Promise((resolve, reject) => {
      // Uses `close` instead of `exit`, because the last output may come after `exit`.
      child.once("close", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
      child.stderr.setEncoding("utf8").on("data", (text) => {
        said += text;
        const found = /listening on (\S+)\/v1\n.*people sign in at (\S+)\/\n/s.exec(said);
        if (found) resolve([found[1], found[2]]);
      });
    });
  }

  /** Writes a file into the working directory of calls. */
  write(path, text) {
    const at = join(this.dir, "work", path);
    mkdirSync(dirname(at), { recursive: true });
    writeFileSync(at, text);
    if (USER.uid) {
      chownSync(at, USER.uid, USER.gid);
      chownSync(dirname(at), USER.uid, USER.gid);
    }
    return at;
  }

  read(path) {
    return readFileSync(join(this.dir, "work", path), "utf8");
  }

  async api(token, method, path, body, headers = {}) {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body ? { "content-type": "application/json" } : {}), ...headers },
      body: body && JSON.stringify(body),
    });
    return { status: response.status, json: await response.json().catch(() => null) };
  }

  /** Makes a call as the agent. Waits until it leads to a question or is settled. */
  async call(tool, args, more = {}) {
    const body = { tool, arguments: args, session: "s1", ...more };
    let { json } = await this.api(this.bot, "POST", "/v1/calls?wait=0", body, { "idempotency-key": randomUUID() });
    while (json.state === "running") ({ json } = await this.api(this.bot, "GET", `/v1/calls/${json.call}`));
    return json;
  }

  async settled(call) {
    const { json } = await this.api(this.bot, "GET", `/v1/calls/${call}?wait=60`);
    return json.result;
  }

  async browser(options = {}) {
    this.chromium ??= await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
    const context = await this.chromium.newContext({ viewport: { width: 1200, height: 900 }, baseURL: this.pages, ...options });
    context.setDefaultTimeout(20_000);
    return context;
  }

  /** Returns a page of a signed-in person. */
  async signedIn(options = {}, token = this.ann) {
    const page = await (await this.browser(options)).newPage();
    page.complaints = [];
    page.on("console", (message) => message.type() === "error" && page.complaints.push(message.text()));
    page.on("pageerror", (error) => page.complaints.push(String(error)));
    await page.goto("/");
    await page.getByLabel("Your token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Inbox" }).waitFor();
    return page;
  }

  /** Ends the server with a signal, SIGTERM by default. */
  async end(signal = "SIGTERM") {
    const { server } = this;
    const isOver = () => server.exitCode !== null || server.signalCode !== null;
    server.kill(signal);
    await new Promise((resolve) => (isOver() ? resolve() : server.once("exit", resolve)));
  }

  async stop() {
    await this.chromium?.close();
    await this.end();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Returns the violations that axe rates serious or worse. */
export async function serious(page) {
  // Runs through the browser's protocol, because the page allows no scripts but its own.
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`);
}

/** Waits until a question on the page can be answered: its end was seen, for long enough. */
export async function readable(page) {
  await page.locator(".answers").scrollIntoViewIfNeeded();
  await page.locator("article[data-ready]").waitFor();
}
