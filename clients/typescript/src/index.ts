// A client for `byleave serve`, and a wrapper that puts functions behind its gate.

export { type CallOptions, Client } from "./client.js";
export { type Declaration, type Definition, type GuardedFunction, type Input, type Opinion, type Output, type Reviewer, dataOf, guard } from "./client_tools.js";
export * from "./errors.js";
export {
  type Arguments,
  type CallEntry,
  type CallStatus,
  type EarlierData,
  type Event,
  type Explanation,
  type HaltStatus,
  type Json,
  type OpenQuestion,
  type Outcome,
  type QuestionView,
  type Record,
  type Replay,
  type Refusal,
  type Result,
  type StandingApproval,
  type State,
  type ToolEntry,
  type Verification,
  Failed,
  NotCompleted,
  Refused,
  Unknown,
  Withheld,
  released,
  text,
} from "./models.js";
export type { ClientOptions } from "./transport.js";
