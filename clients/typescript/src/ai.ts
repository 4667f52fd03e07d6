// Tools for the Vercel AI SDK whose calls go through Byleave: tools of the server, and guarded functions.

import { type Tool, jsonSchema, tool } from "ai";

import type { CallOptions, Client } from "./client.js";
import type { GuardedFunction } from "./client_tools.js";
import { formatTools } from "./formats.js";
import { type Arguments, NotCompleted, type Result, text } from "./models.js";

/** Returns the tools of the server, or those with these names, for `generateText` and similar functions. */
export async function tools(client: Client, names?: string[], options: CallOptions = {}): Promise<{ [name: string]: Tool }> {
  const entries = (await formatTools(client, names)).map((formatted) => {
    const execute = async (args: Arguments) => textOrThrow(await client.call(formatted.tool, args, options));
    return [formatted.name, tool({ description: formatted.description, inputSchema: jsonSchema<Arguments>(formatted.parameters), execute })];
  });
  return Object.fromEntries(entries);
}

/** Returns a tool for a guarded function. */
export function guarded<A extends Arguments>(function_: GuardedFunction<A>, options: CallOptions = {}): Tool {
  const { description, parameters } = function_.definition;
  const execute = async (args: Arguments) => textOrThrow(await function_.run(args, options));
  return tool({ description, inputSchema: jsonSchema<Arguments>(parameters), execute }) as Tool;
}

/** Returns the text for the model. Throws if the call did not complete. */
function textOrThrow(result: Result): string {
  if (result.success) return text(result);
  throw new NotCompleted(text(result), result);
}
