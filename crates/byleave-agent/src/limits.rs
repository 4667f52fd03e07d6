//! How far a model may go without a person: in turns, tokens, money and time, and how often it may run against the same wall.
//!
//! Everything but the time is counted from the conversation, so who takes it up again counts the same.

use std::collections::HashMap;
use std::time::Duration;

use byleave::core::digest::canonical;
use byleave::core::refusal::Code;
use byleave::result::CallOutcome;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::conversation::{RecordedCall, RecordedTurn, TurnResult};

/// How far a model may go for one word of a person.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskLimits {
    /// Turns.
    pub turns: u32,
    /// Tokens, read and written.
    pub tokens: Option<u64>,
    /// Money, in the unit of the prices.
    pub cost: Option<f64>,
    /// Time.
    pub time: Option<Duration>,
    /// The very same call, with the very same result.
    pub repeats: u32,
    /// Turns in a row of which every call was refused.
    pub refusals: u32,
    /// What a model costs; without it nothing is known of money.
    pub prices: Option<TokenPrices>,
}

/// What a million tokens cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenPrices {
    /// Read.
    pub input: f64,
    /// Written.
    pub output: f64,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self { turns: 50, tokens: None, cost: None, time: None, repeats: 3, refusals: 5, prices: None }
    }
}

/// Which limit was reached.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum LimitReached {
    /// So many turns.
    #[error("it has taken {0} turns")]
    Turns(u32),
    /// So many tokens.
    #[error("it has used {0} tokens")]
    Tokens(u64),
    /// So much money.
    #[error("it has cost {0:.4}")]
    Cost(f64),
    /// The time is over.
    #[error("its time is over ({0} s)")]
    Time(u64),
    /// The same call again and again.
    #[error("it asks for the very same call of `{0}` again and again, and gets the same")]
    Repeats(String),
    /// Refused again and again.
    #[error("all that it asked for was refused, {0} turns in a row")]
    Refusals(u32),
    /// What is limited cannot be counted.
    #[error("the provider does not say how many tokens it used, so a limit on them cannot hold")]
    Uncounted,
}

/// What a task has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TaskUsage {
    /// Turns.
    pub turns: u32,
    /// Tokens that were read.
    pub input_tokens: u64,
    /// Tokens that were written.
    pub output_tokens: u64,
    /// What they cost, where that is known.
    pub cost: Option<f64>,
}

impl TaskUsage {
    /// What these turns used.
    pub fn by(turns: &[RecordedTurn], prices: Option<TokenPrices>) -> Self {
        let mut used = Self::default();
        for taken in turns {
            used.turns += 1;
            if let Some(TurnResult::Said(said)) = &taken.came {
                used.input_tokens += said.usage.input_tokens.unwrap_or(0);
                used.output_tokens += said.usage.output_tokens.unwrap_or(0);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let cost = |prices: TokenPrices| {
            (used.input_tokens as f64 * prices.input + used.output_tokens as f64 * prices.output) / 1e6
        };
        used.cost = prices.map(cost);
        used
    }
}

impl TaskLimits {
    /// Whether another turn is too many.
    pub(crate) fn before_a_turn(&self, task: &[RecordedTurn]) -> Option<LimitReached> {
        let used = TaskUsage::by(task, self.prices);
        let tokens = used.input_tokens + used.output_tokens;
        let is_counted = |taken: &RecordedTurn| match &taken.came {
            Some(TurnResult::Said(said)) => {
                said.usage.input_tokens.is_some() && said.usage.output_tokens.is_some()
            }
            _ => true,
        };
        if (self.tokens.is_some() || self.cost.is_some()) && !task.iter().all(is_counted) {
            return Some(LimitReached::Uncounted);
        }
        if used.turns >= self.turns {
            return Some(LimitReached::Turns(used.turns));
        }
        if self.tokens.is_some_and(|most| tokens >= most) {
            return Some(LimitReached::Tokens(tokens));
        }
        if let (Some(most), Some(cost)) = (self.cost, used.cost)
            && cost >= most
        {
            return Some(LimitReached::Cost(cost));
        }
        let refused = refused_in_a_row(task);
        (refused >= self.refusals).then_some(LimitReached::Refusals(refused))
    }

    /// Whether the calls of the last turn were made too often.
    pub(crate) fn before_the_calls(&self, task: &[RecordedTurn]) -> Option<LimitReached> {
        let mut seen: HashMap<String, (String, u32)> = HashMap::new();
        for taken in task {
            let Some(TurnResult::Said(said)) = &taken.came else { continue };
            for (call, made) in said.calls.iter().zip(&taken.made) {
                let what = canonical(&json!([call.name, Value::Object(call.args.clone())]));
                let Some(result) = &made.result else {
                    // Those of the same turn have the same result, as far as anybody knows.
                    let (_, times) = seen.entry(what).or_default();
                    if *times >= self.repeats {
                        return Some(LimitReached::Repeats(call.name.clone()));
                    }
                    *times += 1;
                    continue;
                };
                // Where it was cut, it names its own id.
                let told =
                    format!("{}\n{:?}", result.text(), result.error()).replace(&made.call.to_string(), "");
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

/// Turns in a row of which every call was refused. What was called off was not.
fn refused_in_a_row(task: &[RecordedTurn]) -> u32 {
    let is_refused = |made: &RecordedCall| match made.result.as_ref().map(|result| &result.ending) {
        Some(CallOutcome::Refused(refusal)) => !matches!(refusal.code, Code::Cancelled | Code::Aborted),
        _ => false,
    };
    let asking = task.iter().rev().filter(|taken| !taken.made.is_empty());
    let refused = asking.take_while(|taken| taken.made.iter().all(is_refused)).count();
    u32::try_from(refused).unwrap_or(u32::MAX)
}
