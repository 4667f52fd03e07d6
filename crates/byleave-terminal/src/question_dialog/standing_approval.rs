//! The form for a standing approval: scope, time, uses, session. It shows the equivalent rule and the past calls that it would
//! have covered.

use byleave_core::approval_scopes::{ApprovalLimits, ApprovalScope, approval_for_question, approval_scopes};
use byleave_core::call::Millis;
use byleave_core::id::StandingApprovalId;
use byleave_core::question_view::QuestionView;
use byleave_core::standing_approval::StandingApproval;
use byleave_gate::clock::fresh_id;

use crate::keys::KeyPress;

const MINUTE: Millis = 60_000;
const HOUR: Millis = 60 * MINUTE;

/// The durations to choose from, shortest first.
const TIMES: [(&str, Option<Millis>); 5] = [
    ("15 minutes", Some(15 * MINUTE)),
    ("an hour", Some(HOUR)),
    ("8 hours", Some(8 * HOUR)),
    ("7 days", Some(7 * 24 * HOUR)),
    ("until it is revoked", None),
];
/// The numbers of uses to choose from, fewest first.
const COUNTS: [(&str, Option<u32>); 5] = [
    ("once", Some(1)),
    ("5 times", Some(5)),
    ("20 times", Some(20)),
    ("100 times", Some(100)),
    ("any number of times", None),
];

/// A standing approval under consideration.
pub struct StandingApprovalForm {
    offers: Vec<ApprovalScope>,
    id: StandingApprovalId,
    question: Box<QuestionView>,
    now: Millis,
    pub(super) row: usize,
    chosen: [usize; 4],
    /// The past calls that it would have covered, or `None` until they are known.
    pub(super) covered_calls: Option<Vec<String>>,
}

/// The result of a key.
pub(super) enum ApprovalFormEvent {
    Nothing,
    Back,
    /// Another standing approval is in the form now.
    ApprovalChanged(StandingApproval),
    Granted(StandingApproval),
}

impl StandingApprovalForm {
    /// Creates a form with the narrowest choice: the first scope, an hour, this session.
    pub fn new(sheet: &QuestionView, offers: Vec<ApprovalScope>, now: Millis) -> Option<Self> {
        offers.first()?;
        let id = StandingApprovalId::new(fresh_id());
        let question = Box::new(sheet.clone());
        Some(Self { offers, id, question, now, row: 0, chosen: [0, 1, 4, 0], covered_calls: None })
    }

    /// Returns the standing approval in the form.
    pub fn standing_approval(&self) -> StandingApproval {
        let [scope, time, count, session] = self.chosen;
        let scope = self.offers.get(scope).map(|offer| offer.patterns.clone()).unwrap_or_default();
        let limits = ApprovalLimits {
            lifetime_ms: TIMES.get(time).and_then(|(_, lasts)| *lasts),
            max_uses: COUNTS.get(count).and_then(|(_, uses)| *uses),
            every_session: session != 0,
        };
        approval_for_question(self.id, &self.question, scope, limits, self.now)
    }

    /// Returns the time at which the form was opened.
    pub(super) const fn now(&self) -> Millis {
        self.now
    }

    /// Returns label, current choice, its index and the number of choices for each row.
    pub(super) fn rows(&self) -> [(&'static str, String, usize, usize); 4] {
        let [scope, time, count, session] = self.chosen;
        let lasts = TIMES.get(time).map_or("", |(name, _)| *name).to_owned();
        let uses = COUNTS.get(count).map_or("", |(name, _)| *name).to_owned();
        let words = self.offers.get(scope).map(|offer| offer.description.clone()).unwrap_or_default();
        let sessions = ["in this session", "in every session"];
        [
            ("covers", words, scope, self.offers.len()),
            ("for", lasts, time, TIMES.len()),
            ("how often", uses, count, COUNTS.len()),
            ("where", sessions.get(session).copied().unwrap_or_default().to_owned(), session, sessions.len()),
        ]
    }

    pub(super) fn set_covered_calls(&mut self, words: Vec<String>) {
        self.covered_calls = Some(words);
    }

    pub(super) fn key(&mut self, key: &KeyPress) -> ApprovalFormEvent {
        let lengths = [self.offers.len(), TIMES.len(), COUNTS.len(), 2];
        match key {
            KeyPress::Escape => return ApprovalFormEvent::Back,
            KeyPress::Enter => return ApprovalFormEvent::Granted(self.standing_approval()),
            KeyPress::Up | KeyPress::BackTab => self.row = self.row.saturating_sub(1),
            KeyPress::Down | KeyPress::Tab => self.row = (self.row + 1).min(lengths.len() - 1),
            KeyPress::Left | KeyPress::Right => {
                if let (Some(at), Some(length)) = (self.chosen.get_mut(self.row), lengths.get(self.row)) {
                    let next =
                        if *key == KeyPress::Left { at.saturating_sub(1) } else { (*at + 1).min(length - 1) };
                    if next != *at {
                        *at = next;
                        self.covered_calls = None;
                        return ApprovalFormEvent::ApprovalChanged(self.standing_approval());
                    }
                }
            }
            _ => {}
        }
        ApprovalFormEvent::Nothing
    }
}

/// Returns the scopes that can be offered, or the reason why none can.
pub(crate) fn offered_scopes(sheet: &QuestionView) -> Result<Vec<ApprovalScope>, String> {
    approval_scopes(sheet).map_err(|why| why.to_string())
}
