// Responses of the server as values. Fields that decide whether something runs are read strictly, and throw `InvalidResponse`.

import { ByleaveError, InvalidResponse } from "./errors.js";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Arguments = { [name: string]: Json };

const STATES = ["settled", "waiting", "blocked", "ready", "claimed", "running"] as const;
const OUTCOMES = ["completed", "failed", "withheld", "refused", "dry-run", "unknown", "answered"] as const;
/** The outcomes with a text for the model. `answered`: a person answered in the place of the tool, which did not run. */
const SUCCESSES: readonly Outcome[] = ["completed", "dry-run", "answered"];
export type State = (typeof STATES)[number];
export type Outcome = (typeof OUTCOMES)[number];

/** The reason for a refusal. */
export interface Refusal {
  code: string;
  /** How a participant failed, if the code says that one did: error, panic, timeout or invalid-response. */
  cause?: string;
  message: string;
  page: string;
}

/** The result of a call. */
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
  modifications: { kind: string; actor: string; reason: string | null }[];
  receipt: { entries: number; head: string } | null;
}

/** The call was settled without a result for the model. */
export class NotCompleted extends ByleaveError {
  constructor(message: string, readonly result: Result) {
    super(message);
  }
}

/** The call ran and failed. */
export class Failed extends NotCompleted {}

/** The call did not run. */
export class Refused extends NotCompleted {
  constructor(result: Result, readonly code: string, readonly reason: string, readonly page: string) {
    super(`${reason} (${code})`, result);
  }
}

/** The call ran, but its result was not released. */
export class Withheld extends Refused {}

/** The call may have run; its outcome is unknown. */
export class Unknown extends Refused {}

/** A question, with the digest that an answer must repeat. */
export interface QuestionRef {
  id: string;
  kind: string;
  digest: string;
  expires_at: number;
}

/** The data of earlier calls of the session, by the full name of the tool that returned it. */
export interface EarlierData {
  [tool: string]: { call: string; data: Json };
}

/** The status of a call. */
export interface CallStatus {
  call: string;
  state: State;
  question?: QuestionRef;
  blocking_call?: string;
  /** The arguments to run a claimed call with. */
  arguments?: Arguments;
  /** The data of earlier calls that the tool of a claimed call wants. */
  data?: EarlierData;
  /** The result of a settled call. */
  result?: Result;
}

/** An event of a call: `entry`, with the number of the entry as id, or `tool_approval`. */
export interface Event {
  event: string;
  id: number | undefined;
  data: Json;
}

/** An open question, summarized. */
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
export interface QuestionView {
  question: QuestionRef;
  call: string;
  agent: string;
  session: string;
  tool: string;
  arguments: Json;
  /** The lines to show as text, all of them. */
  lines: { role: Json; text: string; gutter: number }[];
  complete: boolean;
  severity: string;
  approval_scopes: { scope: number; width: string; description: string }[];
  no_approval_reason: string | null;
}

/** A parseStatus approval. */
export interface StandingApproval {
  standing_approval: string;
  state: string;
  tool: string;
  patterns: Json[];
  session: string | null;
  expires_at: number | null;
  uses: number;
  max_uses: number | null;
  approver: string;
  granted_at: number;
  call: string;
  rule: string;
}

/** A call of the audit log, summarized. */
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
  integrity_error: string | null;
  entries: { seq: number; link: string; entry: Json; text: string }[];
}

/** The result of verifying the audit log. */
export interface Verification {
  intact: boolean;
  records: number;
  entries: number;
  admin_actions: number;
  segments: number;
  unsealed: number;
  anchor: { number: number; digest: string; public_key: string } | null;
  integrity_error: { position: string; reason: string } | null;
}

/** Whether a halt is active. */
export interface HaltStatus {
  halted: boolean;
  reason: string | null;
  actor: string | null;
}

/** A tool. */
export interface ToolEntry {
  name: string;
  schema: Json;
  unsupported_reason: string | null;
  read_only: boolean;
  destructive: boolean;
}

/** The effects of a call and the decision of the policy. */
export interface Explanation {
  tool: string;
  verdict: string | null;
  refusal: Refusal | null;
  effects: Json[];
  reasons: { verdict: string; rule: string | null; origin: string | null; effects: number[]; message: string }[];
  policy: string | null;
}

/** The result of evaluating past calls with other rules. */
export interface Replay {
  evaluated: number;
  same: number;
  /** Whether there are older calls that were not evaluated. */
  has_more: boolean;
  counts: { before: string; after: string; calls: number }[];
  changed: {
    call: string;
    tool: string;
    summary: string;
    before: string;
    after: string;
    rule: string | null;
    origin: string | null;
    message: string;
  }[];
  skipped: { call: string; tool: string; reason: string }[];
}

/** Returns the text for the model: the output, or the reason why there is none. */
export function text(result: Result): string {
  if (result.success) return result.output;
  const message = result.error ?? result.refusal?.message ?? "the call failed";
  const code = result.refusal ? ` (${result.refusal.code}, see ${result.refusal.page})` : "";
  return `${result.output}\n${result.outcome}: ${message}${code}`.replace(/^\n/, "");
}

/** Returns the output of a completed call, or the answer of a person in its place. Throws if there is neither. */
export function released(result: Result): string {
  if (result.success) return result.output;
  if (result.outcome === "failed") throw new Failed(text(result), result);
  const refusal = result.refusal ?? { code: "invalid-response", message: "the server gave no reason", page: "" };
  const kind = result.outcome === "withheld" ? Withheld : result.outcome === "refused" ? Refused : Unknown;
  throw new kind(result, refusal.code, refusal.message, refusal.page);
}

export function isObject(value: unknown): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Checks that an object has at least these fields with these types. */
export function checkFields<T>(value: unknown, fields: { [name: string]: "string" | "number" | "boolean" | "list" }, what: string): T {
  if (!isObject(value)) throw new InvalidResponse(`${what} is not an object`);
  for (const [name, kind] of Object.entries(fields)) {
    const found = value[name];
    const fits = kind === "list" ? Array.isArray(found) : typeof found === kind;
    if (!fits) throw new InvalidResponse(`${what} has no field \`${name}\` of the type ${kind}`);
  }
  return value as T;
}

/** Reads the status of a call strictly, because it decides whether something runs. */
export function parseStatus(value: unknown): CallStatus {
  const found = checkFields<{ [name: string]: Json }>(value, { call: "string", state: "string" }, "the response");
  const call = found["call"] as string;
  const state = STATES.find((one) => one === found["state"]);
  if (state === undefined) throw new InvalidResponse(`the response of the server has the unknown state ${JSON.stringify(found["state"])}`);
  const read: CallStatus = { call, state };
  if (isObject(found["question"])) read.question = checkFields(found["question"], { id: "string", digest: "string" }, "the question");
  if (typeof found["blocking_call"] === "string") read.blocking_call = found["blocking_call"];
  if (state === "settled") read.result = { ...parseResult(found["result"]), call };
  if (state === "claimed") {
    if (!isObject(found["arguments"])) throw new InvalidResponse("the response of the server has no arguments");
    read.arguments = found["arguments"];
    if (isObject(found["data"])) read.data = parseEarlierData(found["data"]);
  }
  return read;
}

function parseEarlierData(found: { [name: string]: Json }): EarlierData {
  const data: EarlierData = {};
  for (const [tool, given] of Object.entries(found)) {
    const { call, data: value } = checkFields<{ call: string; data?: Json }>(given, { call: "string" }, "the data of an earlier call");
    data[tool] = { call, data: value ?? null };
  }
  return data;
}

function parseResult(value: unknown): Result {
  const shape = { outcome: "string", tool: "string", success: "boolean", output: "string", modifications: "list" } as const;
  const result = checkFields<Result>(value, shape, "the result");
  if (!OUTCOMES.includes(result.outcome)) throw new InvalidResponse(`the response of the server has the unknown outcome ${JSON.stringify(result.outcome)}`);
  if (result.success !== SUCCESSES.includes(result.outcome)) {
    throw new InvalidResponse(`the response of the server has the outcome ${result.outcome} with success=${result.success}`);
  }
  if (result.refusal) checkFields(result.refusal, { code: "string", message: "string", page: "string" }, "the refusal");
  return result;
}
