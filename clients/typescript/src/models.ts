// What the server says, as values. What decides whether something runs is read strictly: what does not fit is `Nonsense`.

import { Failed, Nonsense, Refused, Unknown, Withheld } from "./errors.js";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Arguments = { [name: string]: Json };

const STATES = ["settled", "waiting", "held-up", "ready", "taken", "running"] as const;
const OUTCOMES = ["completed", "failed", "withheld", "refused", "rehearsed", "unknown"] as const;
export type State = (typeof STATES)[number];
export type Outcome = (typeof OUTCOMES)[number];

/** Why something did not happen. */
export interface Refusal {
  code: string;
  why: string;
  page: string;
}

/** What came of a call. */
export interface Result {
  call: string;
  outcome: Outcome;
  tool: string;
  success: boolean;
  output: string;
  truncated: boolean;
  execution_time_ms: number;
  error: string | null;
  refusal: Refusal | null;
  arguments: Json;
  data: Json;
  effects: Json[] | null;
  changes: { what: string; by: string; why: string | null }[];
  receipt: { entries: number; head: string } | null;
}

/** A question, with the digest that an answer repeats. */
export interface QuestionRef {
  id: string;
  kind: string;
  digest: string;
  expires_at: number;
}

/** How far a call has come. */
export interface Standing {
  call: string;
  state: State;
  question?: QuestionRef;
  held_up_by?: string;
  /** What to run it with, where it was taken. */
  arguments?: Arguments;
  /** What came of it, where it is settled. */
  result?: Result;
}

/** An event of a call: `entry`, with the number of the entry as id, or `tool_approval`. */
export interface Event {
  event: string;
  id: number | undefined;
  data: Json;
}

/** An open question, in a line. */
export interface OpenQuestion {
  question: string;
  kind: string;
  call: string;
  session: string;
  agent: string;
  tool: string;
  operation: string;
  summary: string;
  asked_at: number;
  expires_at: number;
  cursor: number;
}

/** Everything that a person must see to answer a question. */
export interface Sheet {
  question: QuestionRef;
  call: string;
  agent: string;
  session: string;
  tool: string;
  arguments: Json;
  /** To be shown as text, all of them. */
  lines: { role: Json; text: string; gutter: number }[];
  complete: boolean;
  gravity: string;
  offers: { offer: number; breadth: string; words: string }[];
  no_leave: string | null;
}

/** A leave that was given. */
export interface Leave {
  leave: string;
  state: string;
  tool: string;
  scope: Json[];
  session: string | null;
  until: number | null;
  uses: number;
  uses_max: number | null;
  by: string;
  given_at: number;
  call: string;
  rule: string;
}

/** A call of the book, in a line. */
export interface CallEntry {
  call: string;
  session: string;
  agent: string;
  tool: string;
  operation: string;
  summary: string;
  state: string;
  outcome: string | null;
  code: string | null;
  opened_at: number;
  changed_at: number;
  cursor: number;
}

/** A record: every entry with its link. */
export interface Record {
  call: string;
  forgotten: boolean;
  damage: string | null;
  lines: { seq: number; link: string; entry: Json; text: string }[];
}

/** What came of checking the book. */
export interface Verification {
  sound: boolean;
  records: number;
  lines: number;
  acts: number;
  segments: number;
  unsealed: number;
  anchor: { number: number; digest: string; key: string } | null;
  flaw: { place: string; why: string } | null;
}

/** A tool. */
export interface ToolEntry {
  name: string;
  schema: Json;
  unfit: string | null;
  read_only: boolean;
  destructive: boolean;
}

/** What a call would do, and what the policy says of it. */
export interface Explanation {
  tool: string;
  verdict: string | null;
  refusal: Refusal | null;
  effects: Json[];
  reasons: { verdict: string; rule: string | null; origin: string | null; effects: number[]; why: string }[];
  policy: string | null;
}

/** What other rules would have made of past calls. */
export interface Replay {
  judged: number;
  same: number;
  /** There are older calls that were not looked at. */
  more: boolean;
  counts: { before: string; now: string; calls: number }[];
  changed: {
    call: string;
    tool: string;
    summary: string;
    before: string;
    now: string;
    rule: string | null;
    origin: string | null;
    why: string;
  }[];
  not_judged: { call: string; tool: string; why: string }[];
}

/** For the model to read, whatever came of it: its output, or why there is none. */
export function text(result: Result): string {
  if (result.success) return result.output;
  const said = result.error ?? result.refusal?.why ?? "it failed";
  const code = result.refusal ? ` (${result.refusal.code}, see ${result.refusal.page})` : "";
  return `${result.output}\n${result.outcome}: ${said}${code}`.replace(/^\n/, "");
}

/** The output, where the call completed; else throws what stands in its way. */
export function released(result: Result): string {
  if (result.success) return result.output;
  if (result.outcome === "failed") throw new Failed(text(result), result);
  const refusal = result.refusal ?? { code: "nonsense", why: "the server does not say why", page: "" };
  const kind = result.outcome === "withheld" ? Withheld : result.outcome === "refused" ? Refused : Unknown;
  throw new kind(result, refusal.code, refusal.why, refusal.page);
}

export function isObject(value: unknown): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** An object that has at least these fields, each of its type. */
export function shaped<T>(value: unknown, fields: { [name: string]: "string" | "number" | "boolean" | "list" }, what: string): T {
  if (!isObject(value)) throw new Nonsense(`${what} is no object`);
  for (const [name, kind] of Object.entries(fields)) {
    const found = value[name];
    const fits = kind === "list" ? Array.isArray(found) : typeof found === kind;
    if (!fits) throw new Nonsense(`${what} has no ${kind} \`${name}\``);
  }
  return value as T;
}

/** How far a call has come, read strictly: on this rests whether something runs. */
export function standing(value: unknown): Standing {
  const found = shaped<{ [name: string]: Json }>(value, { call: "string", state: "string" }, "the answer");
  const call = found["call"] as string;
  const state = STATES.find((one) => one === found["state"]);
  if (state === undefined) throw new Nonsense(`a call is said to be ${JSON.stringify(found["state"])}`);
  const read: Standing = { call, state };
  if (isObject(found["question"])) read.question = shaped(found["question"], { id: "string", digest: "string" }, "the question");
  if (typeof found["held_up_by"] === "string") read.held_up_by = found["held_up_by"];
  if (state === "settled") read.result = { ...settled(found["result"]), call };
  if (state === "taken") {
    if (!isObject(found["arguments"])) throw new Nonsense("the server does not say with which arguments");
    read.arguments = found["arguments"];
  }
  return read;
}

function settled(value: unknown): Result {
  const shape = { outcome: "string", tool: "string", success: "boolean", output: "string", changes: "list" } as const;
  const result = shaped<Result>(value, shape, "the result");
  if (!OUTCOMES.includes(result.outcome)) throw new Nonsense(`a call is said to be ${JSON.stringify(result.outcome)}`);
  if (result.success !== (result.outcome === "completed" || result.outcome === "rehearsed")) {
    throw new Nonsense(`a call that was ${result.outcome} is said to be success=${result.success}`);
  }
  if (result.refusal) shaped(result.refusal, { code: "string", why: "string", page: "string" }, "the refusal");
  return result;
}
