// LangChain tools whose calls go through Byleave: those of the server, and functions behind its gate.

import { DynamicStructuredTool } from "@langchain/core/tools";

import type { CallOptions, Client } from "./client.js";
import { type Form, forms } from "./forms.js";
import { type Arguments, type Result, text } from "./models.js";
import type { Guarded } from "./own.js";

/** The tools of the server, or those with these names. */
export async function tools(client: Client, names?: string[], options: CallOptions = {}): Promise<DynamicStructuredTool[]> {
  return (await forms(client, names)).map((form) => made(form, (args) => client.call(form.tool, args, options)));
}

/** A function that `guard` has put behind the gate. */
export function guarded<A extends Arguments>(function_: Guarded<A>, options: CallOptions = {}): DynamicStructuredTool {
  const { name, description, parameters } = function_.definition;
  return made({ tool: name, name, description, parameters }, (args) => function_.run(args, options));
}

/** What did not complete is text that the model can read. */
function made(form: Form, run: (args: Arguments) => Promise<Result>): DynamicStructuredTool {
  const func = async (args: unknown) => text(await run(args as Arguments));
  return new DynamicStructuredTool({ name: form.name, description: form.description, schema: form.parameters, func });
}
