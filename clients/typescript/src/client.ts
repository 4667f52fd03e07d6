// The client of `byleave serve`.

import { Unreachable, WaitedTooLong } from "./errors.js";
import {
  type Arguments,
  type CallEntry,
  type Event,
  type Explanation,
  type Json,
  type Leave,
  type OpenQuestion,
  type Record,
  type Replay,
  type Result,
  type Sheet,
  type Standing,
  type ToolEntry,
  type Verification,
  shaped,
  standing,
} from "./models.js";
import { Parser } from "./sse.js";
import { type Request, WAIT_S, type Where, Wire, pause, problemOf } from "./wire.js";

/** How a call is made. */
export interface CallOptions {
  /** The same key is the same call, which is never run twice. One is made where none is given. */
  key?: string;
  session?: string;
  reason?: string;
  mode?: string;
  dryRun?: boolean;
  /** How long to wait for it to be settled; as long as a person takes, if not said. */
  timeoutMs?: number;
}

/** A key, or a claim, that nobody else has. */
export const newKey = (): string => crypto.randomUUID();

export class Client {
  /** For what else is built on it. */
  readonly wire: Wire;

  constructor(where: Where = {}) {
    this.wire = new Wire(where);
  }

  /** Makes a call and waits until it is settled. A call that was refused is a result, too: `released` throws what stands in the way. */
  async call(tool: string, args: Arguments = {}, options: CallOptions = {}): Promise<Result> {
    const until = deadline(options.timeoutMs);
    return this.#settled(await this.submit(tool, args, options, waitS(until)), until);
  }

  /** Makes a call and says how far it has come. */
  async submit(tool: string, args: Arguments = {}, options: CallOptions = {}, waitFor = 0): Promise<Standing> {
    const { key = newKey(), session, reason, mode, dryRun } = options;
    return this.submitted({ tool, arguments: args, session, reason, mode, dry_run: dryRun || undefined }, key, waitFor);
  }

  /** Sends a call under a key: sent twice, it is made once. */
  async submitted(body: object, key: string, waitFor: number): Promise<Standing> {
    const headers = { "idempotency-key": key };
    return standing(await this.wire.ask({ method: "POST", path: ["calls"], query: { wait: waitFor }, body, headers, repeatable: true }));
  }

  /** How far a call has come. */
  async look(call: string, waitFor = 0): Promise<Standing> {
    return standing(await this.#get(["calls", call], { wait: waitFor }));
  }

  /** Waits until a call is settled. */
  async wait(call: string, timeoutMs?: number): Promise<Result> {
    const until = deadline(timeoutMs);
    return this.#settled(await this.look(call, waitS(until)), until);
  }

  /** Calls a call off: what runs is stopped, what waits is refused. */
  async cancel(call: string): Promise<Standing> {
    return standing(await this.wire.ask({ method: "POST", path: ["calls", call, "cancel"], query: { wait: WAIT_S }, repeatable: true }));
  }

  /** Follows a call to its end, and goes on where it was when the connection breaks. */
  async *events(call: string, last?: number): AsyncGenerator<Event> {
    for (let failures = 0; ; ) {
      const began = last;
      let broke: unknown;
      // A stream shows every 15 s that it is alive.
      const silence = new AbortController();
      let timer = setTimeout(() => silence.abort(), 60_000);
      try {
        const headers: { [name: string]: string } = { accept: "text/event-stream" };
        if (last !== undefined) headers["last-event-id"] = String(last);
        const response = await this.wire.fetch({ method: "GET", path: ["calls", call, "events"], headers }, silence.signal);
        if (response.status === 204) return;
        if (response.status !== 200) throw problemOf(response, await response.text());
        const parser = new Parser();
        const decoder = new TextDecoder();
        for await (const piece of response.body ?? []) {
          clearTimeout(timer);
          timer = setTimeout(() => silence.abort(), 60_000);
          for (const event of parser.feed(decoder.decode(piece, { stream: true }))) {
            // Only what was handed on counts as seen.
            yield event;
            last = event.id ?? last;
          }
        }
      } catch (error) {
        if (!(error instanceof TypeError) && !(error instanceof DOMException)) throw error;
        broke = error;
      } finally {
        clearTimeout(timer);
        silence.abort();
      }
      // A stream that ended may be at its end: the next one then has no content.
      failures = last === began ? failures + 1 : 0;
      if (failures >= this.wire.tries) throw new Unreachable("the stream breaks off again and again", { cause: broke });
      if (broke !== undefined) await pause(Math.min(100 * 2 ** failures, 5000));
    }
  }

  /** Open questions, the newest first. */
  async questions(query: { limit?: number; after?: number } = {}): Promise<OpenQuestion[]> {
    return this.#list("questions", ["questions"], query);
  }

  /** Everything that a person must see to answer a question. */
  async question(question: string): Promise<Sheet> {
    return shaped(await this.#get(["questions", question]), { call: "string", lines: "list", complete: "boolean" }, "the question");
  }

  /** Answers a question as it was shown: `{ say: "yes" }`, `no`, `edit`, `part`, `leave` or `abort`, with what belongs to it. */
  async answer(question: string, digest: string, answer: { say: string; [more: string]: Json }): Promise<Standing> {
    return standing(await this.wire.ask({ method: "POST", path: ["questions", question, "answer"], body: { digest, answer } }));
  }

  /** The leaves that were given. */
  async leaves(): Promise<Leave[]> {
    return this.#list("leaves", ["leaves"]);
  }

  /** Makes a leave count no longer. */
  async revoke(leave: string): Promise<void> {
    await this.wire.text({ method: "DELETE", path: ["leaves", leave] });
  }

  /** Calls of the book, the newest first: by `tool`, `agent`, `outcome`, `code`, `text`, `since`, `until`, `limit`, `after`. */
  async book(query: { [name: string]: string | number } = {}): Promise<CallEntry[]> {
    return this.#list("calls", ["book", "calls"], query);
  }

  /** The record of a call. */
  async record(call: string): Promise<Record> {
    return shaped(await this.#get(["book", "calls", call]), { call: "string", lines: "list" }, "the record");
  }

  /** The records, as JSON lines or as Markdown. */
  async export(form: "json" | "markdown" = "json", query: { since?: number; until?: number } = {}): Promise<string> {
    return this.wire.text({ method: "GET", path: ["book", "export"], query: { form, ...query }, repeatable: true });
  }

  /** Checks the whole book. */
  async verify(): Promise<Verification> {
    return shaped(await this.wire.ask({ method: "POST", path: ["book", "verify"], repeatable: true }), { sound: "boolean" }, "the verification");
  }

  /** The tools, with their schemas. */
  async tools(form: "mcp" | "openai" | "anthropic" | "gemini" = "mcp"): Promise<ToolEntry[]> {
    return this.#list("tools", ["tools"], { form });
  }

  /** What a call would do, and what the policy says of it; nothing is run. */
  async explain(tool: string, args: Arguments = {}, mode?: string): Promise<Explanation> {
    const request: Request = { method: "POST", path: ["policy", "explain"], body: { tool, arguments: args, mode }, repeatable: true };
    return shaped(await this.wire.ask(request), { tool: "string", reasons: "list" }, "the explanation");
  }

  /** What these rules (TOML) would have made of the newest calls; nothing is put in force. */
  async replay(policy: string, limit?: number): Promise<Replay> {
    const request: Request = { method: "POST", path: ["policy", "replay"], body: { policy, limit }, repeatable: true };
    return shaped(await this.wire.ask(request), { judged: "number", changed: "list" }, "what came of the rules");
  }

  /** Whether everything is halted. */
  async halted(): Promise<{ halted: boolean; why: string | null; by: string | null }> {
    return shaped(await this.#get(["halt"]), { halted: "boolean" }, "the halt");
  }

  /** Refuses everything from now on. */
  async halt(why: string): Promise<void> {
    await this.wire.text({ method: "PUT", path: ["halt"], body: { why } });
  }

  /** Lifts a halt. */
  async lift(): Promise<void> {
    await this.wire.text({ method: "DELETE", path: ["halt"] });
  }

  /** How the server is. */
  async health(): Promise<{ status: string; version: string }> {
    return shaped(await this.#get(["health"]), { status: "string", version: "string" }, "the health");
  }

  async #settled(far: Standing, until: number): Promise<Result> {
    let now = far;
    while (now.result === undefined) {
      // One that is for its maker to run is not waited for.
      if (now.state === "ready" || now.state === "taken" || Date.now() >= until) throw new WaitedTooLong(now.call, now.state);
      const left = until - Date.now();
      if (left < 1000) await pause(left);
      now = await this.look(now.call, waitS(until));
    }
    return now.result;
  }

  #get(path: string[], query: { [name: string]: string | number | undefined } = {}): Promise<unknown> {
    return this.wire.ask({ method: "GET", path, query, repeatable: true });
  }

  async #list<T>(name: string, path: string[], query: { [name: string]: string | number | undefined } = {}): Promise<T[]> {
    return shaped<{ [name: string]: T[] }>(await this.#get(path, query), { [name]: "list" }, "the answer")[name] ?? [];
  }
}

export const deadline = (timeoutMs: number | undefined): number => (timeoutMs === undefined ? Infinity : Date.now() + timeoutMs);

/** How long the next request may wait, in whole seconds. */
export const waitS = (until: number): number => Math.max(0, Math.min(WAIT_S, Math.floor((until - Date.now()) / 1000)));
