// Tools of the Vercel AI SDK whose calls go through Byleave: those of the server, and functions behind its gate.

import { type Tool, jsonSchema, tool } from "ai";

import type { CallOptions, Client } from "./client.js";
import { NotCompleted } from "./errors.js";
import { forms } from "./forms.js";
import { type Arguments, type Result, text } from "./models.js";
import type { Guarded } from "./own.js";

/** The tools of the server, or those with these names, for `generateText` and its kin. */
export async function tools(client: Client, names?: string[], options: CallOptions = {}): Promise<{ [name: string]: Tool }> {
  const made = (await forms(client, names)).map((form) => {
    const execute = async (args: Arguments) => said(await client.call(form.tool, args, options));
    return [form.name, tool({ description: form.description, inputSchema: jsonSchema<Arguments>(form.parameters), execute })];
  });
  return Object.fromEntries(made);
}

/** A function that `guard` has put behind the gate. */
export function guarded<A extends Arguments>(function_: Guarded<A>, options: CallOptions = {}): Tool {
  const { description, parameters } = function_.definition;
  const execute = async (args: Arguments) => said(await function_.run(args, options));
  return tool({ description, inputSchema: jsonSchema<Arguments>(parameters), execute }) as Tool;
}

/** What the model gets; what did not complete is an error of the tool. */
function said(result: Result): string {
  if (result.success) return text(result);
  throw new NotCompleted(text(result), result);
}
