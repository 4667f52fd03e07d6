// A client for `byleave serve`, and functions behind its gate. Nothing happens but by your leave.

export { type CallOptions, Client } from "./client.js";
export * from "./errors.js";
export {
  type Arguments,
  type CallEntry,
  type Event,
  type Explanation,
  type Json,
  type Leave,
  type OpenQuestion,
  type Outcome,
  type Record,
  type Replay,
  type Refusal,
  type Result,
  type Sheet,
  type Standing,
  type State,
  type ToolEntry,
  type Verification,
  released,
  text,
} from "./models.js";
export { type Declared, type Definition, type Guarded, type Input, type Output, type Reviewer, type Verdict, guard } from "./own.js";
export type { Where } from "./wire.js";
