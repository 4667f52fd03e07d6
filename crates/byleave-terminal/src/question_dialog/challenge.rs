//! The case against a call, made by the person who says yes: three short texts, one after the other.

use byleave_core::challenge::{Challenge, ChallengeVerdict};

use crate::keys::KeyPress;
use crate::text_input::TextField;

/// What the person is asked for, in order.
const PROMPTS: [&str; 3] =
    ["Which assumption of this call could be wrong?", "How could it fail?", "Why is it right all the same?"];

/// The texts so far, and the field for the next one.
pub struct ChallengeForm {
    texts: Vec<String>,
    pub(super) field: TextField,
}

/// The result of a key.
pub(super) enum ChallengeFormEvent {
    Nothing,
    Back,
    /// The text is empty, and each one is needed.
    Empty,
    Made(Challenge),
}

impl ChallengeForm {
    pub(super) fn new() -> Self {
        Self { texts: Vec::new(), field: TextField::line() }
    }

    /// Returns what the current field asks for.
    pub(super) fn prompt(&self) -> String {
        let at = self.texts.len();
        let question = PROMPTS.get(at).copied().unwrap_or_default();
        format!(
            "The case against this call, {} of {}: {question} Enter goes on, Esc goes back",
            at + 1,
            PROMPTS.len()
        )
    }

    pub(super) fn key(&mut self, key: &KeyPress) -> ChallengeFormEvent {
        match key {
            KeyPress::Escape => return ChallengeFormEvent::Back,
            KeyPress::Enter => {
                let text = self.field.text().trim().to_owned();
                if text.is_empty() {
                    return ChallengeFormEvent::Empty;
                }
                self.texts.push(text);
                self.field = TextField::line();
            }
            key => {
                self.field.key(key);
            }
        }
        match self.texts.as_slice() {
            [assumption, failure, reason] => ChallengeFormEvent::Made(Challenge {
                assumptions: vec![assumption.clone()],
                failure_scenarios: vec![failure.clone()],
                verdict: ChallengeVerdict::Proceed,
                reason: reason.clone(),
            }),
            _ => ChallengeFormEvent::Nothing,
        }
    }
}
