// The client of `byleave serve`.

import { Unreachable, WaitTimeout } from "./errors.js";
import {
  type Arguments,
  type CallEntry,
  type CallStatus,
  type Event,
  type Explanation,
  type HaltStatus,
  type Json,
  type OpenQuestion,
  type QuestionView,
  type Record,
  type Replay,
  type Result,
  type StandingApproval,
  type ToolEntry,
  type Verification,
  checkFields,
  parseStatus,
} from "./models.js";
import { Parser } from "./sse.js";
import { type ClientOptions, type Request, Transport, WAIT_S, pause, problemOf } from "./transport.js";

/** Options of a call. */
export interface CallOptions {
  /** The same key refers to the same call, which never runs twice. Without a key, a new one is created. */
  key?: string;
  session?: string;
  reason?: string;
  mode?: string;
  dryRun?: boolean;
  /** The maximum time to wait until the call is settled; unlimited by default. */
  timeoutMs?: number;
}

/** Returns a new random key or claim. */
export const newKey = (): string => crypto.randomUUID();

export class Client {
  /** For other modules of this package. */
  readonly transport: Transport;

  constructor(options: ClientOptions = {}) {
    this.transport = new Transport(options);
  }

  /** Makes a call and waits until it is settled. A refusal is also a result; `released` throws it. */
  async call(tool: string, args: Arguments = {}, options: CallOptions = {}): Promise<Result> {
    const until = deadline(options.timeoutMs);
    return this.#waitUntilSettled(await this.submit(tool, args, options, waitS(until)), until);
  }

  /** Makes a call and returns its status. */
  async submit(tool: string, args: Arguments = {}, options: CallOptions = {}, waitFor = 0): Promise<CallStatus> {
    const { key = newKey(), session, reason, mode, dryRun } = options;
    return this.submitBody({ tool, arguments: args, session, reason, mode, dry_run: dryRun || undefined }, key, waitFor);
  }

  /** Sends a call under an idempotency key. */
  async submitBody(body: object, key: string, waitFor: number): Promise<CallStatus> {
    const headers = { "idempotency-key": key };
    return parseStatus(await this.transport.json({ method: "POST", path: ["calls"], query: { wait: waitFor }, body, headers, repeatable: true }));
  }

  /** Returns the status of a call. */
  async status(call: string, waitFor = 0): Promise<CallStatus> {
    return parseStatus(await this.#get(["calls", call], { wait: waitFor }));
  }

  /** Waits until a call is settled. */
  async wait(call: string, timeoutMs?: number): Promise<Result> {
    const until = deadline(timeoutMs);
    return this.#waitUntilSettled(await this.status(call, waitS(until)), until);
  }

  /** Cancels a call. A running call is stopped, and a waiting call is refused. */
  async cancel(call: string): Promise<CallStatus> {
    return parseStatus(await this.transport.json({ method: "POST", path: ["calls", call, "cancel"], query: { wait: WAIT_S }, repeatable: true }));
  }

  /** Follows a call to its end. Continues at the same entry if the connection breaks. */
  async *events(call: string, last?: number): AsyncGenerator<Event> {
    for (let failures = 0; ; ) {
      const began = last;
      let broken: unknown;
      // A stream sends a keep-alive message every 15 s.
      const silence = new AbortController();
      let timer = setTimeout(() => silence.abort(), 60_000);
      try {
        const headers: { [name: string]: string } = { accept: "text/event-stream" };
        if (last !== undefined) headers["last-event-id"] = String(last);
        const response = await this.transport.fetch({ method: "GET", path: ["calls", call, "events"], headers }, silence.signal);
        if (response.status === 204) return;
        if (response.status !== 200) throw problemOf(response, await response.text());
        const parser = new Parser();
        const decoder = new TextDecoder();
        for await (const piece of response.body ?? []) {
          clearTimeout(timer);
          timer = setTimeout(() => silence.abort(), 60_000);
          for (const event of parser.feed(decoder.decode(piece, { stream: true }))) {
            // An event is seen only after it was yielded.
            yield event;
            last = event.id ?? last;
          }
        }
      } catch (error) {
        if (!(error instanceof TypeError) && !(error instanceof DOMException)) throw error;
        broken = error;
      } finally {
        clearTimeout(timer);
        silence.abort();
      }
      // The call may have ended. The next stream then has no content.
      failures = last === began ? failures + 1 : 0;
      if (failures >= this.transport.tries) throw new Unreachable("the event stream ends repeatedly", { cause: broken });
      if (broken !== undefined) await pause(Math.min(100 * 2 ** failures, 5000));
    }
  }

  /** Returns open questions, newest first. */
  async questions(query: { limit?: number; after?: number } = {}): Promise<OpenQuestion[]> {
    return this.#list("questions", ["questions"], query);
  }

  /** Returns everything that a person must see to answer a question. */
  async question(question: string): Promise<QuestionView> {
    return checkFields(await this.#get(["questions", question]), { call: "string", lines: "list", complete: "boolean" }, "the question");
  }

  /** Answers a question as it was shown: `{ kind: "yes" }`, `no`, `edit`, `partial`, `standing-approval`, `result` or `abort`, with its fields. */
  async answer(question: string, digest: string, answer: { kind: string; [field: string]: Json }): Promise<CallStatus> {
    return parseStatus(await this.transport.json({ method: "POST", path: ["questions", question, "answer"], body: { digest, answer } }));
  }

  /** Returns the parseStatus approvals. */
  async standingApprovals(): Promise<StandingApproval[]> {
    return this.#list("standing_approvals", ["approvals"]);
  }

  /** Revokes a parseStatus approval. */
  async revoke(standingApproval: string): Promise<void> {
    await this.transport.text({ method: "DELETE", path: ["approvals", standingApproval] });
  }

  /** Returns calls of the audit log, newest first, filtered by `tool`, `agent`, `outcome`, `code`, `text`, `since`, `until`, `limit`, `after`. */
  async auditLog(query: { [name: string]: string | number } = {}): Promise<CallEntry[]> {
    return this.#list("calls", ["log", "calls"], query);
  }

  /** Returns the record of a call. */
  async record(call: string): Promise<Record> {
    return checkFields(await this.#get(["log", "calls", call]), { call: "string", entries: "list" }, "the record");
  }

  /** Exports the records as JSON lines or as Markdown. */
  async export(format: "json" | "markdown" = "json", query: { since?: number; until?: number } = {}): Promise<string> {
    return this.transport.text({ method: "GET", path: ["audit", "export"], query: { format, ...query }, repeatable: true });
  }

  /** Verifies the whole audit log. */
  async verify(): Promise<Verification> {
    return checkFields(await this.transport.json({ method: "POST", path: ["audit", "verify"], repeatable: true }), { intact: "boolean" }, "the verification");
  }

  /** Returns the tools, with their schemas. */
  async tools(format: "mcp" | "openai" | "anthropic" | "gemini" = "mcp"): Promise<ToolEntry[]> {
    return this.#list("tools", ["tools"], { format });
  }

  /** Returns the effects of a call and the decision of the policy. Runs nothing. */
  async explain(tool: string, args: Arguments = {}, mode?: string): Promise<Explanation> {
    const request: Request = { method: "POST", path: ["policy", "explain"], body: { tool, arguments: args, mode }, repeatable: true };
    return checkFields(await this.transport.json(request), { tool: "string", reasons: "list" }, "the explanation");
  }

  /** Evaluates the newest calls with these rules (TOML). The rules do not come into force. */
  async replay(policy: string, limit?: number): Promise<Replay> {
    const request: Request = { method: "POST", path: ["policy", "replay"], body: { policy, limit }, repeatable: true };
    return checkFields(await this.transport.json(request), { evaluated: "number", changed: "list" }, "the replay");
  }

  /** Returns whether a halt is active. */
  async haltStatus(): Promise<HaltStatus> {
    return checkFields(await this.#get(["halt"]), { halted: "boolean" }, "the halt status");
  }

  /** Halts all calls. */
  async halt(reason: string): Promise<void> {
    await this.transport.text({ method: "PUT", path: ["halt"], body: { reason } });
  }

  /** Lifts a halt. */
  async lift(): Promise<void> {
    await this.transport.text({ method: "DELETE", path: ["halt"] });
  }

  /** Returns the health of the server. */
  async health(): Promise<{ status: string; version: string }> {
    return checkFields(await this.#get(["health"]), { status: "string", version: "string" }, "the health");
  }

  async #waitUntilSettled(submitted: CallStatus, until: number): Promise<Result> {
    let status = submitted;
    while (status.result === undefined) {
      // Does not wait for a call that this client itself must run.
      if (status.state === "ready" || status.state === "claimed" || Date.now() >= until) throw new WaitTimeout(status.call, status.state);
      const left = until - Date.now();
      if (left < 1000) await pause(left);
      status = await this.status(status.call, waitS(until));
    }
    return status.result;
  }

  #get(path: string[], query: { [name: string]: string | number | undefined } = {}): Promise<unknown> {
    return this.transport.json({ method: "GET", path, query, repeatable: true });
  }

  async #list<T>(name: string, path: string[], query: { [name: string]: string | number | undefined } = {}): Promise<T[]> {
    return checkFields<{ [name: string]: T[] }>(await this.#get(path, query), { [name]: "list" }, "the response")[name] ?? [];
  }
}

export const deadline = (timeoutMs: number | undefined): number => (timeoutMs === undefined ? Infinity : Date.now() + timeoutMs);

/** Returns how long the next request may wait, in whole seconds. */
export const waitS = (until: number): number => Math.max(0, Math.min(WAIT_S, Math.floor((until - Date.now()) / 1000)));
