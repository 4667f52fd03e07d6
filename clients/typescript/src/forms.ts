// Tools of the server in the form that frameworks take.

import type { Client } from "./client.js";
import { ByleaveError, Nonsense } from "./errors.js";
import { type Json, isObject } from "./models.js";

/** A tool as a framework sees it. */
export interface Form {
  tool: string;
  name: string;
  description: string;
  parameters: { [name: string]: Json };
}

/** The tools with these names, or all that the form can have. A name that is not there is an error. */
export async function forms(client: Client, names?: string[]): Promise<Form[]> {
  const known = new Map((await client.tools("openai")).map((entry) => [entry.name, entry]));
  const chosen = names ?? [...known.values()].filter((entry) => entry.schema !== null).map((entry) => entry.name);
  return chosen.map((name) => {
    const entry = known.get(name);
    if (!entry?.schema) throw new ByleaveError(`\`${name}\` cannot be used: ${entry?.unfit ?? "the server has no such tool"}`);
    const form = isObject(entry.schema) ? entry.schema["function"] : undefined;
    if (!isObject(form) || typeof form["name"] !== "string" || !isObject(form["parameters"])) throw new Nonsense(`\`${name}\` has no form`);
    return { tool: name, name: form["name"], description: String(form["description"] ?? ""), parameters: form["parameters"] };
  });
}
