// Guarded functions. The server evaluates and records each call, and this process runs it once, if allowed.

import { AsyncLocalStorage } from "node:async_hooks";

import { type CallOptions, type Client, deadline, newKey, waitS } from "./client.js";
import { InvalidResponse, ReportFailed, Unreachable, WaitTimeout } from "./errors.js";
import { type Arguments, type CallStatus, type EarlierData, type Json, type Result, checkFields, isObject, parseStatus, released } from "./models.js";
import { WAIT_S, pause } from "./transport.js";

/** A report is retried more often than a request, because the function has already run. */
const REPORT_TRIES = 8;

/** The session of the guarded function that runs. Nested calls get another session, so that they do not wait for it to end. */
const currentSession = new AsyncLocalStorage<string>();

/** Arguments to review. */
export interface Input {
  tool: string;
  key: string;
  arguments: Arguments;
}

/** A result to review. */
export interface Output {
  tool: string;
  call: string;
  arguments: Arguments;
  value: Json;
}

/** The opinion of a reviewer: no objection, a replacement, or a refusal. */
export type Opinion = { opinion: "pass" } | { opinion: "change"; value: Json; reason?: string } | { opinion: "deny"; reason?: string };

/** A boolean is also an opinion. A reviewer that throws or returns nothing refuses. */
export type Reviewer<S> = (subject: S) => Opinion | boolean | Promise<Opinion | boolean>;

/** The declaration of a function. Without `class` it counts as undeclared, and without `sensitive` as sensitive. */
export interface Declaration {
  /** Other names of the function. */
  aliases?: string[];
  /** Three to ten words by which `tool_search` finds it. */
  search_hint?: string;
  class?: "bash" | "file" | "webfetch" | "readonly" | "generic";
  roles?: { [pointer: string]: "read-path" | "write-path" | "edit-path" | "delete-path" | "patch" | "url" | "command" };
  operation?: string;
  needs_approval?: boolean;
  requires_checkpoint?: boolean;
  requires_reverse_thinking?: boolean;
  concurrency_safe?: boolean;
  read_only?: boolean;
  destructive?: boolean;
  reversible?: boolean;
  sensitive?: boolean;
  timeout_ms?: number;
  /** The tools whose data the function is given: other guarded functions, and full names such as `grep`. See `dataOf`. */
  wants_data?: (string | GuardedFunction<never>)[];
}

/** A function to put behind the gate. */
export interface Definition<A extends Arguments> {
  name: string;
  description: string;
  /** JSON Schema of the arguments. */
  parameters: { [name: string]: Json };
  declaration?: Declaration;
  /** Reviews the arguments before anybody is asked. */
  input?: Reviewer<Input>;
  /** Reviews the result before anybody else sees it. */
  output?: Reviewer<Output>;
  /** Runs the function. `data` has the data of earlier calls that `wants_data` asks for. */
  execute: (args: A, data: EarlierData) => Json | Promise<Json>;
}

/** A function behind the gate. */
export interface GuardedFunction<A extends Arguments> {
  /** Calls the function and returns the released value. Throws if the call did not complete. */
  (args: A, options?: CallOptions): Promise<Json>;
  /** Calls the function and returns the result. A refusal is also a result. */
  run(args: Arguments, options?: CallOptions): Promise<Result>;
  readonly definition: Definition<A>;
}

/**
 * Puts a function behind the gate. The server evaluates and records each call, and asks a person if needed. The function runs here,
 * once, and only if the server allows it. If the server cannot be reached, or its response is not valid, the function does not run.
 */
export function guard<A extends Arguments>(client: Client, definition: Definition<A>): GuardedFunction<A> {
  const run = (args: Arguments, options: CallOptions = {}) => runClientTool(client, definition, args, options);
  const call = async (args: A, options: CallOptions = {}) => releasedValue(await run(args, options));
  return Object.assign(call, { run, definition });
}

/** Returns the data of a tool, or `undefined` if there is none. The data of a guarded function is its released value. */
export function dataOf(data: EarlierData, source: string | GuardedFunction<never>): Json | undefined {
  if (typeof source === "string") return data[source]?.data;
  const name = Object.keys(data).find((tool) => tool.startsWith("client.") && tool.endsWith(`.${source.definition.name}`));
  const found = name === undefined ? undefined : data[name]?.data;
  return isValue(found) ? (found["value"] ?? null) : found;
}

function releasedValue(result: Result): Json {
  const text = released(result);
  const data = result.data;
  return isValue(data) ? (data["value"] ?? null) : text;
}

function isValue(data: Json | undefined): data is { [name: string]: Json } {
  return isObject(data) && Object.keys(data).join() === "value";
}

async function runClientTool<A extends Arguments>(client: Client, tool: Definition<A>, args: Arguments, options: CallOptions): Promise<Result> {
  const { key = newKey(), reason, mode } = options;
  const until = deadline(options.timeoutMs);
  const outer = currentSession.getStore();
  const session = options.session ?? (outer === undefined ? undefined : `${outer.slice(0, 44)}.in`);
  const given = await askReviewer(tool.input, { tool: tool.name, key, arguments: args });
  const isValid = given.opinion !== "change" || isObject(given.value);
  const opinion: Opinion = isValid ? given : { opinion: "deny", reason: "the reviewer changed the arguments to a value that is not an object" };
  const review = opinion.opinion === "change" ? { opinion: "change", arguments: opinion.value, reason: opinion.reason } : opinion;
  const passed = opinion.opinion === "change" ? opinion.value : args;

  const body = { tool: await register(client, tool), arguments: args, session, reason, mode, review };
  let status = await client.submitBody(body, key, waitS(until));
  const claim = newKey();
  while (status.state !== "settled" && status.state !== "claimed") {
    if (status.state === "ready") {
      const path = ["calls", status.call, "claim"];
      status = parseStatus(await client.transport.json({ method: "POST", path, query: { wait: WAIT_S }, body: { claim }, repeatable: true }));
      continue;
    }
    const left = until - Date.now();
    if (left <= 0) throw new WaitTimeout(status.call, status.state);
    if (left < 1000) await pause(left);
    status = await getStatus(client, tool, status, waitS(until));
  }
  if (status.state === "claimed") {
    status = await report(client, status.call, { claim, ...(await runFunction(tool, key, status, passed, session ?? "main")) });
    while (status.state !== "settled") status = await getStatus(client, tool, status, WAIT_S);
  }
  if (status.result === undefined) throw new InvalidResponse("the response of the server has no result for a settled call");
  return status.result;
}

async function getStatus<A extends Arguments>(client: Client, tool: Definition<A>, status: CallStatus, waitFor: number): Promise<CallStatus> {
  // A restarted server has lost the registered functions.
  await register(client, tool);
  return client.status(status.call, waitFor);
}

async function register<A extends Arguments>(client: Client, tool: Definition<A>): Promise<string> {
  const { wants_data: wanted = [], ...declaration } = tool.declaration ?? {};
  const names: string[] = [];
  // A function whose data is wanted must be registered first.
  for (const source of wanted) names.push(typeof source === "string" ? source : await register(client, source.definition));
  const body = { description: tool.description, input_schema: tool.parameters, ...declaration, ...(names.length > 0 ? { wants_data: names } : {}) };
  const response = await client.transport.json({ method: "PUT", path: ["client-tools", tool.name], body, repeatable: true });
  return checkFields<{ tool: string }>(response, { tool: "string" }, "the response").tool;
}

/** Runs the function and returns the report. The function runs only here. */
async function runFunction<A extends Arguments>(tool: Definition<A>, key: string, status: CallStatus, passed: Json, session: string): Promise<object> {
  const args = status.arguments;
  if (args === undefined) throw new InvalidResponse("the response of the server has no arguments");
  if (!isEqual(args, passed)) {
    // A person edited the arguments, and the reviewer has not seen the edit.
    const opinion = await askReviewer(tool.input, { tool: tool.name, key, arguments: args });
    if (opinion.opinion !== "pass") {
      return { error: `the function did not run: the reviewer refused the edited arguments: ${opinion.reason ?? "no reason was given"}` };
    }
  }
  let returned: Json;
  let original: object;
  try {
    // The server has checked the arguments against the schema of this type.
    returned = (await currentSession.run(session, async () => tool.execute(args as A, status.data ?? {}))) ?? null;
    original = content(returned);
  } catch (error) {
    return { error: String(error) };
  }
  const opinion = await askReviewer(tool.output, { tool: tool.name, call: status.call, arguments: args, value: returned });
  if (opinion.opinion !== "change") return { ...original, review: opinion };
  try {
    return { ...original, review: { opinion: "change", ...content(opinion.value), reason: opinion.reason } };
  } catch {
    return { ...original, review: { opinion: "deny", reason: "the reviewer changed the result to a value that is not JSON" } };
  }
}

async function askReviewer<S>(reviewer: Reviewer<S> | undefined, subject: S): Promise<Opinion> {
  if (reviewer === undefined) return { opinion: "pass" };
  let result: unknown;
  try {
    result = await reviewer(subject);
  } catch (error) {
    return { opinion: "deny", reason: `the reviewer failed: ${error instanceof Error ? error.name : "it threw"}` };
  }
  if (result === true) return { opinion: "pass" };
  if (result === false) return { opinion: "deny" };
  if (isObject(result)) {
    const reason = typeof result["reason"] === "string" ? { reason: result["reason"] } : {};
    if (result["opinion"] === "pass") return { opinion: "pass" };
    if (result["opinion"] === "deny") return { opinion: "deny", ...reason };
    if (result["opinion"] === "change" && result["value"] !== undefined) return { opinion: "change", value: result["value"], ...reason };
  }
  return { opinion: "deny", reason: "the reviewer returned no valid opinion" };
}

function content(returned: Json): object {
  const text: string | undefined = typeof returned === "string" ? returned : JSON.stringify(returned);
  if (text === undefined) throw new TypeError("the function returned a value that is not JSON");
  // The server may put notes for the model before the text, but not before the value.
  return { text, data: { value: returned } };
}

async function report(client: Client, call: string, body: object): Promise<CallStatus> {
  const path = ["calls", call, "report"];
  try {
    return parseStatus(await client.transport.json({ method: "POST", path, query: { wait: 2 }, body, repeatable: true }, REPORT_TRIES));
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    throw new ReportFailed(`call ${call} has run, but its result could not be reported to the server: ${error.message}`, { cause: error });
  }
}

function isEqual(one: Json, other: Json): boolean {
  if (isObject(one) && isObject(other)) {
    const names = Object.keys(one);
    return names.length === Object.keys(other).length && names.every((name) => name in other && isEqual(one[name] as Json, other[name] as Json));
  }
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((part, at) => isEqual(part, other[at] as Json));
  }
  return one === other;
}
