//! How far a model may go without a person: in turns, tokens, money and time, and how often it may run against the same wall.
//!
//! Everything but the time is counted from the conversation, so who takes it up again counts the same.

use std::collections::HashMap;
use std::time::Duration;

use byleave::core::digest::canonical;
use byleave::result::Ending;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::conversation::{Came, Taken};

/// How far a model may go for one word of a person.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
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
    /// Calls in a row that were refused.
    pub refusals: u32,
    /// What a model costs; without it nothing is known of money.
    pub prices: Option<Prices>,
}

/// What a million tokens cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Read.
    pub input: f64,
    /// Written.
    pub output: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { turns: 50, tokens: None, cost: None, time: None, repeats: 3, refusals: 5, prices: None }
    }
}

/// Which limit was reached.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
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
    #[error("its calls were refused {0} times in a row")]
    Refusals(u32),
}

/// What a task has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Used {
    /// Turns.
    pub turns: u32,
    /// Tokens that were read.
    pub input_tokens: u64,
    /// Tokens that were written.
    pub output_tokens: u64,
    /// What they cost, where that is known.
    pub cost: Option<f64>,
}

impl Used {
    /// What these turns used.
    pub fn by(turns: &[Taken], prices: Option<Prices>) -> Self {
        let mut used = Self::default();
        for taken in turns {
            used.turns += 1;
            if let Some(Came::Said(said)) = &taken.came {
                used.input_tokens += said.usage.input_tokens.unwrap_or(0);
                used.output_tokens += said.usage.output_tokens.unwrap_or(0);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let cost = |prices: Prices| {
            (used.input_tokens as f64 * prices.input + used.output_tokens as f64 * prices.output) / 1e6
        };
        used.cost = prices.map(cost);
        used
    }
}

impl Limits {
    /// Whether another turn is too many.
    pub(crate) fn before_a_turn(&self, task: &[Taken]) -> Option<Reached> {
        let used = Used::by(task, self.prices);
        let tokens = used.input_tokens + used.output_tokens;
        if used.turns >= self.turns {
            return Some(Reached::Turns(used.turns));
        }
        if self.tokens.is_some_and(|most| tokens >= most) {
            return Some(Reached::Tokens(tokens));
        }
        if let (Some(most), Some(cost)) = (self.cost, used.cost)
            && cost >= most
        {
            return Some(Reached::Cost(cost));
        }
        let refused = refused_in_a_row(task);
        (refused >= self.refusals).then_some(Reached::Refusals(refused))
    }

    /// Whether the calls of the last turn were made too often.
    pub(crate) fn before_the_calls(&self, task: &[Taken]) -> Option<Reached> {
        let mut seen: HashMap<String, (String, u32)> = HashMap::new();
        for taken in task {
            let Some(Came::Said(said)) = &taken.came else { continue };
            for (call, made) in said.calls.iter().zip(&taken.made) {
                let what = canonical(&json!([call.name, Value::Object(call.args.clone())]));
                let Some(result) = &made.result else {
                    let again = seen.get(&what).is_some_and(|(_, times)| *times >= self.repeats);
                    if again {
                        return Some(Reached::Repeats(call.name.clone()));
                    }
                    continue;
                };
                let told = format!("{}\n{:?}", result.text(), result.error());
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

fn refused_in_a_row(task: &[Taken]) -> u32 {
    let mut refused = 0;
    for result in task.iter().flat_map(|taken| &taken.made).filter_map(|made| made.result.as_ref()) {
        refused = if matches!(result.ending, Ending::Refused(_)) { refused + 1 } else { 0 };
    }
    refused
}
