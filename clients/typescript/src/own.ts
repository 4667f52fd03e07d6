// Functions of this process behind the gate: judged, asked about and recorded by the server, run here, once, when it says so.

import { AsyncLocalStorage } from "node:async_hooks";

import { type CallOptions, type Client, deadline, newKey, waitS } from "./client.js";
import { Nonsense, Unreachable, Unreported, WaitedTooLong } from "./errors.js";
import { type Arguments, type Json, type Result, type Standing, isObject, released, shaped, standing } from "./models.js";
import { WAIT_S, pause } from "./wire.js";

/** A report is worth more patience than a request: what it tells has happened. */
const REPORT_TRIES = 8;

/** The session of the guarded function that runs, so that what it calls does not wait for it to end. */
const inside = new AsyncLocalStorage<string>();

/** Arguments to be reviewed. */
export interface Input {
  tool: string;
  key: string;
  arguments: Arguments;
}

/** A result to be reviewed. */
export interface Output {
  tool: string;
  call: string;
  arguments: Arguments;
  value: Json;
}

/** What a reviewer says: nothing to object, this instead, or no. */
export type Verdict = { say: "pass" } | { say: "change"; value: Json; why?: string } | { say: "deny"; why?: string };

/** A plain boolean is a verdict. A reviewer that throws, or says nothing, objects. */
export type Reviewer<S> = (subject: S) => Verdict | boolean | Promise<Verdict | boolean>;

/** What a function says of itself. What is not said counts as the stricter. */
export interface Declared {
  class?: "bash" | "file" | "webfetch" | "readonly" | "generic";
  roles?: { [pointer: string]: "read-path" | "write-path" | "edit-path" | "delete-path" | "patch" | "url" | "command" };
  operation?: string;
  needs_approval?: boolean;
  requires_checkpoint?: boolean;
  concurrency_safe?: boolean;
  read_only?: boolean;
  destructive?: boolean;
  sensitive?: boolean;
  timeout_ms?: number;
}

/** A function to be put behind the gate. */
export interface Definition<A extends Arguments> {
  name: string;
  description: string;
  /** JSON Schema of the arguments. */
  parameters: { [name: string]: Json };
  declared?: Declared;
  /** Sees the arguments before anybody is asked. */
  input?: Reviewer<Input>;
  /** Sees the result before anybody else. */
  output?: Reviewer<Output>;
  execute: (args: A) => Json | Promise<Json>;
}

/** A function behind the gate. */
export interface Guarded<A extends Arguments> {
  /** Uses it, and gives what the server releases; else throws what stands in the way. */
  (args: A, options?: CallOptions): Promise<Json>;
  /** Uses it, and says what came of it: a refusal is a result, too. */
  run(args: Arguments, options?: CallOptions): Promise<Result>;
  readonly definition: Definition<A>;
}

/**
 * Puts a function behind the gate. Each call is judged, asked about and recorded by the server, and runs here, once, only when the
 * server says so. Where the server cannot be reached, or answers nonsense, the function does not run.
 */
export function guard<A extends Arguments>(client: Client, definition: Definition<A>): Guarded<A> {
  const run = (args: Arguments, options: CallOptions = {}) => use(client, definition, args, options);
  const call = async (args: A, options: CallOptions = {}) => value(await run(args, options));
  return Object.assign(call, { run, definition });
}

function value(result: Result): Json {
  const text = released(result);
  const data = result.data;
  return isObject(data) && Object.keys(data).join() === "value" ? (data["value"] ?? null) : text;
}

async function use<A extends Arguments>(client: Client, tool: Definition<A>, args: Arguments, options: CallOptions): Promise<Result> {
  const { key = newKey(), reason, mode } = options;
  const until = deadline(options.timeoutMs);
  const outer = inside.getStore();
  const session = options.session ?? (outer === undefined ? undefined : `${outer.slice(0, 44)}.in`);
  const said = await reviewed(tool.input, { tool: tool.name, key, arguments: args });
  const fits = said.say !== "change" || isObject(said.value);
  const verdict: Verdict = fits ? said : { say: "deny", why: "the reviewer changed the arguments to something that is no object" };
  const review = verdict.say === "change" ? { say: "change", arguments: verdict.value, why: verdict.why } : verdict;
  const passed = verdict.say === "change" ? verdict.value : args;

  const body = { tool: await register(client, tool), arguments: args, session, reason, mode, review };
  let far = await client.submitted(body, key, waitS(until));
  const claim = newKey();
  while (far.state !== "settled" && far.state !== "taken") {
    if (far.state === "ready") {
      const path = ["calls", far.call, "take"];
      far = standing(await client.wire.ask({ method: "POST", path, query: { wait: WAIT_S }, body: { claim }, repeatable: true }));
      continue;
    }
    const left = until - Date.now();
    if (left <= 0) throw new WaitedTooLong(far.call, far.state);
    if (left < 1000) await pause(left);
    far = await look(client, tool, far, waitS(until));
  }
  if (far.state === "taken") {
    far = await report(client, far.call, { claim, ...(await perform(tool, key, far, passed, session ?? "main")) });
    while (far.state !== "settled") far = await look(client, tool, far, WAIT_S);
  }
  if (far.result === undefined) throw new Nonsense("a settled call has no result");
  return far.result;
}

async function look<A extends Arguments>(client: Client, tool: Definition<A>, far: Standing, waitFor: number): Promise<Standing> {
  // A server that began anew has forgotten which functions there are.
  await register(client, tool);
  return client.look(far.call, waitFor);
}

async function register<A extends Arguments>(client: Client, tool: Definition<A>): Promise<string> {
  const body = { description: tool.description, input_schema: tool.parameters, ...tool.declared };
  const said = await client.wire.ask({ method: "PUT", path: ["own-tools", tool.name], body, repeatable: true });
  return shaped<{ tool: string }>(said, { tool: "string" }, "the answer").tool;
}

/** Runs the function, and says what came of it. It runs in no other place. */
async function perform<A extends Arguments>(tool: Definition<A>, key: string, far: Standing, passed: Json, session: string): Promise<object> {
  const args = far.arguments;
  if (args === undefined) throw new Nonsense("the server does not say with which arguments");
  if (!same(args, passed)) {
    // A person edited them, and no reviewer has seen that.
    const again = await reviewed(tool.input, { tool: tool.name, key, arguments: args });
    if (again.say !== "pass") {
      return { error: `it did not run: the reviewer does not pass the edited arguments: ${again.why ?? "no reason was given"}` };
    }
  }
  let made: Json;
  let shown: object;
  try {
    // The schema, which the server has checked, says that they are of this type.
    made = (await inside.run(session, async () => tool.execute(args as A))) ?? null;
    shown = content(made);
  } catch (error) {
    return { error: String(error) };
  }
  const verdict = await reviewed(tool.output, { tool: tool.name, call: far.call, arguments: args, value: made });
  if (verdict.say !== "change") return { ...shown, review: verdict };
  try {
    return { ...shown, review: { say: "change", ...content(verdict.value), why: verdict.why } };
  } catch {
    return { ...shown, review: { say: "deny", why: "the reviewer changed the result to something that is no JSON" } };
  }
}

async function reviewed<S>(reviewer: Reviewer<S> | undefined, subject: S): Promise<Verdict> {
  if (reviewer === undefined) return { say: "pass" };
  let said: unknown;
  try {
    said = await reviewer(subject);
  } catch (error) {
    return { say: "deny", why: `the reviewer broke: ${error instanceof Error ? error.name : "it threw"}` };
  }
  if (said === true) return { say: "pass" };
  if (said === false) return { say: "deny" };
  if (isObject(said)) {
    const why = typeof said["why"] === "string" ? { why: said["why"] } : {};
    if (said["say"] === "pass") return { say: "pass" };
    if (said["say"] === "deny") return { say: "deny", ...why };
    if (said["say"] === "change" && said["value"] !== undefined) return { say: "change", value: said["value"], ...why };
  }
  return { say: "deny", why: "the reviewer said nothing that makes sense" };
}

function content(made: Json): object {
  const text: string | undefined = typeof made === "string" ? made : JSON.stringify(made);
  if (text === undefined) throw new TypeError("what it returned is no JSON");
  // The text may get notes for the model in front of it; the value does not.
  return { text, data: { value: made } };
}

async function report(client: Client, call: string, body: object): Promise<Standing> {
  const path = ["calls", call, "report"];
  try {
    return standing(await client.wire.ask({ method: "POST", path, query: { wait: 2 }, body, repeatable: true }, REPORT_TRIES));
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    throw new Unreported(`call ${call} has run, and the server could not be told: ${error.message}`, { cause: error });
  }
}

function same(one: Json, other: Json): boolean {
  if (isObject(one) && isObject(other)) {
    const names = Object.keys(one);
    return names.length === Object.keys(other).length && names.every((name) => name in other && same(one[name] as Json, other[name] as Json));
  }
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((part, at) => same(part, other[at] as Json));
  }
  return one === other;
}
