// Tools of the server in the format of frameworks.

import type { Client } from "./client.js";
import { ByleaveError, InvalidResponse } from "./errors.js";
import { type Json, isObject } from "./models.js";

/** A tool in the format of a framework. */
export interface FormattedTool {
  tool: string;
  name: string;
  description: string;
  parameters: { [name: string]: Json };
}

/** Returns the tools with these names, or all tools that the format can express. Throws if a name is unknown. */
export async function formatTools(client: Client, names?: string[]): Promise<FormattedTool[]> {
  const known = new Map((await client.tools("openai")).map((entry) => [entry.name, entry]));
  const chosen = names ?? [...known.values()].filter((entry) => entry.schema !== null).map((entry) => entry.name);
  return chosen.map((name) => {
    const entry = known.get(name);
    if (!entry?.schema) throw new ByleaveError(`cannot use the tool \`${name}\`: ${entry?.unsupported_reason ?? "the server has no such tool"}`);
    const definition = isObject(entry.schema) ? entry.schema["function"] : undefined;
    if (!isObject(definition) || typeof definition["name"] !== "string" || !isObject(definition["parameters"])) throw new InvalidResponse(`the tool \`${name}\` has no valid schema`);
    return { tool: name, name: definition["name"], description: String(definition["description"] ?? ""), parameters: definition["parameters"] };
  });
}
