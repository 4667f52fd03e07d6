// A function behind the gate, with reviewers of its arguments and its result.
//
//     BYLEAVE_URL=http://127.0.0.1:7411 BYLEAVE_TOKEN=byl_... node refunds.js
//
// A person answers at `byleave inbox`, or in any other place that shows questions.

import { Client, Refused, guard } from "byleave";

const refund = guard(new Client(), {
  name: "refund",
  description: "Pays money back.",
  parameters: {
    type: "object",
    properties: { order: { type: "string" }, cents: { type: "integer" } },
    required: ["order", "cents"],
    additionalProperties: false,
  },
  declaration: { class: "generic", destructive: true },
  // Receives the arguments before a person is asked.
  input: ({ arguments: { cents } }) => (Number(cents) > 100_00 ? { opinion: "deny", reason: "more than 100 is never paid back" } : true),
  // Receives the result before the model does.
  output: ({ arguments: { order, cents } }) => ({ opinion: "change", value: { order: order ?? null, cents: cents ?? null } }),
  execute: ({ order, cents }: { order: string; cents: number }) => ({ order, cents, card: "4111 1111 1111 1111" }),
});

console.log("paid back:", JSON.stringify(await refund({ order: "a17", cents: 5_00 })));
try {
  await refund({ order: "a18", cents: 500_00 });
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log(`refused: ${error.reason} (${error.code}, ${error.page})`);
}
