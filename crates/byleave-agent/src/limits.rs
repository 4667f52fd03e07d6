//! Limits on how far a model may go without a person: turns, tokens, money, time, repeated calls and refusals.
//!
//! All limits but the time are computed from the conversation, so they are the same after it is resumed.

use std::collections::HashMap;
use std::time::Duration;

use byleave_gate::core::digest::canonical_json;
use byleave_gate::core::refusal::Code;
use byleave_gate::result::CallOutcome;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::conversation::{RecordedCall, RecordedTurn, TurnResult};

/// The limits for one message of a person.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskLimits {
    /// The number of turns.
    pub turns: u32,
    /// The number of tokens, read and written.
    pub max_tokens: Option<u64>,
    /// The amount of money, in the unit of the prices.
    pub cost: Option<f64>,
    /// The time.
    pub max_time: Option<Duration>,
    /// The number of identical calls with identical results.
    pub max_repeats: u32,
    /// The number of successive turns in which every call was refused.
    pub max_refusals: u32,
    /// The prices of the model. Without them the cost is unknown.
    pub prices: Option<TokenPrices>,
}

/// The prices of a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenPrices {
    /// The price of tokens read.
    pub input: f64,
    /// The price of tokens written.
    pub output: f64,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            turns: 50,
            max_tokens: None,
            cost: None,
            max_time: None,
            max_repeats: 3,
            max_refusals: 5,
            prices: None,
        }
    }
}

/// The limit that was reached.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum LimitReachedError {
    /// The number of turns.
    #[error("the agent has taken {0} turns")]
    Turns(u32),
    /// The number of tokens.
    #[error("the agent has used {0} tokens")]
    Tokens(u64),
    /// The amount of money.
    #[error("the agent has cost {0:.4}")]
    Cost(f64),
    /// The time.
    #[error("the time limit is reached ({0} s)")]
    Time(u64),
    /// The model repeats the same call.
    #[error("the model repeats the same call of `{0}` and gets the same result")]
    Repeats(String),
    /// Every call was refused in too many successive turns.
    #[error("all calls were refused, {0} turns in a row")]
    Refusals(u32),
    /// The provider does not report the tokens that are limited.
    #[error("the provider does not report token usage, so a token limit cannot be enforced")]
    UsageUnknown,
}

/// The resources that a task has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TaskUsage {
    /// The number of turns.
    pub turns: u32,
    /// The number of tokens read.
    pub input_tokens: u64,
    /// The number of tokens written.
    pub output_tokens: u64,
    /// The cost, if it is known.
    pub cost: Option<f64>,
}

impl TaskUsage {
    /// Returns the resources that these turns used.
    pub fn from_turns(turns: &[RecordedTurn], prices: Option<TokenPrices>) -> Self {
        let mut used = Self::default();
        for taken in turns {
            used.turns += 1;
            if let Some(TurnResult::Response(said)) = &taken.result {
                used.input_tokens += said.usage.input_tokens.unwrap_or(0);
                used.output_tokens += said.usage.output_tokens.unwrap_or(0);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let cost = |prices: TokenPrices| {
            (used.input_tokens as f64 * prices.input + used.output_tokens as f64 * prices.output) / 1e6
        };
        used.cost = prices.map(cost);
        used
    }
}

impl TaskLimits {
    /// Checks whether another turn would exceed a limit.
    pub(crate) fn check_turn(&self, task: &[RecordedTurn]) -> Option<LimitReachedError> {
        let used = TaskUsage::from_turns(task, self.prices);
        let tokens = used.input_tokens + used.output_tokens;
        let is_counted = |taken: &RecordedTurn| match &taken.result {
            Some(TurnResult::Response(said)) => {
                said.usage.input_tokens.is_some() && said.usage.output_tokens.is_some()
            }
            _ => true,
        };
        if (self.max_tokens.is_some() || self.cost.is_some()) && !task.iter().all(is_counted) {
            return Some(LimitReachedError::UsageUnknown);
        }
        if used.turns >= self.turns {
            return Some(LimitReachedError::Turns(used.turns));
        }
        if self.max_tokens.is_some_and(|most| tokens >= most) {
            return Some(LimitReachedError::Tokens(tokens));
        }
        if let (Some(most), Some(cost)) = (self.cost, used.cost)
            && cost >= most
        {
            return Some(LimitReachedError::Cost(cost));
        }
        let refused = refused_in_a_row(task);
        (refused >= self.max_refusals).then_some(LimitReachedError::Refusals(refused))
    }

    /// Checks whether the calls of the last turn were made too often.
    pub(crate) fn check_calls(&self, task: &[RecordedTurn]) -> Option<LimitReachedError> {
        let mut seen: HashMap<String, (String, u32)> = HashMap::new();
        for taken in task {
            let Some(TurnResult::Response(said)) = &taken.result else { continue };
            for (call, made) in said.calls.iter().zip(&taken.calls) {
                let what = canonical_json(&json!([call.name, Value::Object(call.args.clone())]));
                let Some(result) = &made.result else {
                    // Equal calls of the same turn are assumed to have the same result.
                    let (_, times) = seen.entry(what).or_default();
                    if *times >= self.max_repeats {
                        return Some(LimitReachedError::Repeats(call.name.clone()));
                    }
                    *times += 1;
                    continue;
                };
                // A truncated output names the id of its call.
                let told =
                    format!("{}\n{:?}", result.to_text(), result.error()).replace(&made.call.to_string(), "");
                let entry = seen.entry(what).or_insert_with(|| (told.clone(), 0));
                if entry.0 == told {
                    entry.1 += 1;
                } else {
                    *entry = (told, 1);
                }
            }
        }
        None
    }
}

/// Counts the last successive turns in which every call was refused. A cancelled call is not a refused one.
fn refused_in_a_row(task: &[RecordedTurn]) -> u32 {
    let is_refused = |made: &RecordedCall| match made.result.as_ref().map(|result| &result.outcome) {
        Some(CallOutcome::Refused(refusal)) => !matches!(refusal.code, Code::Cancelled | Code::Aborted),
        _ => false,
    };
    let asking = task.iter().rev().filter(|taken| !taken.calls.is_empty());
    let refused = asking.take_while(|taken| taken.calls.iter().all(is_refused)).count();
    u32::try_from(refused).unwrap_or(u32::MAX)
}
