// LangChain tools whose calls go through Byleave: tools of the server, and guarded functions.

import { DynamicStructuredTool } from "@langchain/core/tools";

import type { CallOptions, Client } from "./client.js";
import type { GuardedFunction } from "./client_tools.js";
import { type FormattedTool, formatTools } from "./formats.js";
import { type Arguments, type Result, text } from "./models.js";

/** Returns the tools of the server, or those with these names. */
export async function tools(client: Client, names?: string[], options: CallOptions = {}): Promise<DynamicStructuredTool[]> {
  return (await formatTools(client, names)).map((formatted) => makeTool(formatted, (args) => client.call(formatted.tool, args, options)));
}

/** Returns a tool for a guarded function. */
export function guarded<A extends Arguments>(function_: GuardedFunction<A>, options: CallOptions = {}): DynamicStructuredTool {
  const { name, description, parameters } = function_.definition;
  return makeTool({ tool: name, name, description, parameters }, (args) => function_.run(args, options));
}

/** Returns the text for the model, even if the call did not complete. */
function makeTool(formatted: FormattedTool, run: (args: Arguments) => Promise<Result>): DynamicStructuredTool {
  const func = async (args: unknown) => text(await run(args as Arguments));
  return new DynamicStructuredTool({ name: formatted.name, description: formatted.description, schema: formatted.parameters, func });
}
