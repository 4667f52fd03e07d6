// A real `byleave serve` on a free port of this machine, with its own state directory.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import type { Client, Json } from "../src/index.js";

const PROGRAM = process.env["BYLEAVE"] ?? "byleave";

export class Server {
  readonly home = mkdtempSync(join(tmpdir(), "byleave-"));
  readonly dir = join(this.home, "w");
  readonly #env = { ...process.env, HOME: join(this.home, "home"), BYLEAVE_STATE: join(this.home, "state") };
  readonly bot: string;
  readonly ann: string;
  url = "";
  port = 0;
  #process: ChildProcess | undefined;

  constructor() {
    mkdirSync(this.dir);
    mkdirSync(join(this.home, "home"));
    this.bot = this.token("bot");
    this.ann = this.token("ann", "--person", "--scope", "submit,answer,read,administer");
  }

  token(...words: string[]): string {
    return execFileSync(PROGRAM, ["serve", "token", "add", ...words], { cwd: this.dir, env: this.#env, stdio: "pipe" }).toString().trim();
  }

  /** Starts the server. The second time it uses the same port and the same audit log. */
  async start(): Promise<this> {
    const words = ["serve", "--listen", `127.0.0.1:${this.port}`, "--requests-per-second", "1000"];
    const child = spawn(PROGRAM, words, { cwd: this.dir, env: this.#env, stdio: ["ignore", "ignore", "pipe"] });
    this.#process = child;
    this.url = await new Promise<string>((resolve, reject) => {
      child.once("exit", () => reject(new Error("the server did not start")));
      createInterface(child.stderr).on("line", (line) => {
        const found = /^listening on (.*)\/v1$/.exec(line);
        if (found?.[1]) resolve(found[1]);
      });
    });
    this.port = Number(new URL(this.url).port);
    return this;
  }

  /** Kills the server at once. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** A proxy between a client and the server that cuts responses at given points. */
export class Proxy {
  readonly requests: http.IncomingMessage[] = [];
  /** By end of the path: after how many bytes to cut a response, and how many more times. */
  readonly cuts = new Map<string, { after: number; times: number }>();
  readonly #http: http.Server;
  url = "";

  constructor(server: Server) {
    this.#http = http.createServer((request, response) => {
      this.requests.push(request);
      const path = (request.url ?? "").split("?")[0] ?? "";
      const cut = [...this.cuts].find(([end, { times }]) => path.endsWith(end) && times > 0)?.[1];
      if (cut) cut.times -= 1;
      const options = { port: server.port, method: request.method, path: request.url, headers: { ...request.headers, connection: "close" } };
      const onward = http.request({ host: "127.0.0.1", ...options }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        let left = cut?.after ?? Infinity;
        answer.on("data", (piece: Buffer) => {
          response.write(piece.subarray(0, Math.max(0, Math.min(left, piece.length))), () => {
            if (left <= 0) response.destroy();
          });
          left -= piece.length;
        });
        answer.on("end", () => (cut ? response.destroy() : response.end()));
      });
      request.pipe(onward);
    });
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#http.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
    return this;
  }

  close(): void {
    this.#http.close();
    this.#http.closeAllConnections();
  }
}

/** Answers the next question about a tool while the work runs. */
export async function answering<T>(person: Client, tool: string, answer: { kind: string; [field: string]: Json }, work: () => Promise<T>): Promise<T> {
  let over = false;
  const answered = (async () => {
    while (!over) {
      const question = (await person.questions()).find((one) => one.tool === tool);
      if (question) {
        const view = await person.question(question.question);
        await person.answer(question.question, view.question.digest, answer);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  try {
    return await work();
  } finally {
    over = true;
    await answered;
  }
}
