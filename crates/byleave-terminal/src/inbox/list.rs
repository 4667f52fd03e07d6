//! The list of open questions: sorted, filtered by a text, with marks.

use std::collections::HashSet;

use byleave_core::call::Millis;
use byleave_core::escape::{EscapeLevel, make_visible};
use byleave_core::id::QuestionId;
use byleave_core::question::QuestionKind;
use byleave_gate::audit_log::QuestionItem;

use crate::keys::KeyPress;

/// One open question, ready for display. All outside text in it is escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxItem {
    /// The id of the question.
    pub question: QuestionId,
    /// The kind of the question.
    pub kind: QuestionKind,
    /// The tool.
    pub tool: String,
    /// The agent that made the call.
    pub agent: String,
    /// The session of the call.
    pub session: String,
    /// The question in one line: the command, the edit or the call. The predicted effects if that is not known.
    pub line: String,
    /// The time of the question.
    pub asked_at: Millis,
    /// The time after which it cannot be answered.
    pub expires_at: Millis,
    /// All searchable text, in lower case.
    needle: String,
}

impl From<&QuestionItem> for InboxItem {
    fn from(item: &QuestionItem) -> Self {
        let shown = |text: &str| make_visible(text, EscapeLevel::Name);
        let (tool, agent) = (shown(&item.call_summary.tool), shown(&item.call_summary.agent));
        let session = shown(item.call_summary.session.as_str());
        let summary = shown(&item.call_summary.summary);
        let needle = format!("{tool} {agent} {session} {summary}").to_lowercase();
        Self {
            question: item.question,
            kind: item.kind,
            agent,
            session,
            line: format!("{tool}  {summary}"),
            tool,
            asked_at: item.asked_at,
            expires_at: item.expires_at,
            needle,
        }
    }
}

impl InboxItem {
    /// Shows the question as its card does, in one line ([`byleave_core::render::QuestionCard::short_text`]).
    #[must_use]
    pub fn with_short_text(mut self, text: String) -> Self {
        self.needle = format!("{} {}", text.to_lowercase(), self.needle);
        self.line = text;
        self
    }
}

/// Checks whether a text contains a word, or its letters in this order and close together: `gpush` finds `git push`. Both are in lower
/// case.
fn is_match(needle: &str, word: &str) -> bool {
    if needle.contains(word) {
        return true;
    }
    let Some(first) = word.chars().next() else { return true };
    let room = word.len() * 2 + 2;
    needle.match_indices(first).any(|(at, _)| {
        let mut rest = needle.get(at..).unwrap_or_default().chars().take(room);
        word.chars().all(|wanted| rest.any(|c| c == wanted))
    })
}

/// The order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InboxOrder {
    /// Longest wait first.
    #[default]
    Oldest,
    /// Newest first.
    Newest,
    /// Shortest remaining time first.
    Expiring,
    /// By session, then by age.
    Session,
    /// By agent, then by age.
    Agent,
    /// By tool, then by age.
    Tool,
}

impl InboxOrder {
    const ALL: [Self; 6] =
        [Self::Oldest, Self::Newest, Self::Expiring, Self::Session, Self::Agent, Self::Tool];

    /// Returns the name of the order.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Oldest => "oldest first",
            Self::Newest => "newest first",
            Self::Expiring => "expiring first",
            Self::Session => "by session",
            Self::Agent => "by agent",
            Self::Tool => "by tool",
        }
    }
}

/// Open questions, sorted, filtered and marked.
#[derive(Default)]
pub struct InboxList {
    items: Vec<InboxItem>,
    /// The indices of the shown items, in order.
    shown: Vec<usize>,
    order: InboxOrder,
    text: String,
    marked: HashSet<QuestionId>,
    /// The question under the cursor, and its index.
    at: Option<QuestionId>,
    pub(super) place: usize,
    pub(super) top: usize,
    pub(super) height: usize,
}

impl InboxList {
    /// Replaces the questions. The cursor stays on its question as long as that is open.
    pub fn replace(&mut self, items: Vec<InboxItem>) {
        self.items = items;
        let open: HashSet<QuestionId> = self.items.iter().map(|item| item.question).collect();
        self.marked.retain(|question| open.contains(question));
        self.arrange();
    }

    /// Checks whether this question is open.
    pub fn has(&self, question: QuestionId) -> bool {
        self.items.iter().any(|item| item.question == question)
    }

    /// Returns how many are open, shown and marked.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.items.len(), self.shown.len(), self.marked.len())
    }

    /// Returns the order.
    pub const fn order(&self) -> InboxOrder {
        self.order
    }

    /// Returns the filter text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks whether there is a filter text or a mark.
    pub fn is_narrowed(&self) -> bool {
        !self.text.is_empty() || !self.marked.is_empty()
    }

    /// Returns the items on the screen, each with its index and whether it is marked.
    pub fn window(&self, height: usize) -> impl Iterator<Item = (usize, &InboxItem, bool)> {
        let places = self.shown.iter().enumerate().skip(self.top).take(height);
        places.filter_map(|(place, index)| {
            let item = self.items.get(*index)?;
            Some((place, item, self.marked.contains(&item.question)))
        })
    }

    /// Returns the questions to answer: the marked ones, or else the one under the cursor.
    pub fn chosen(&self) -> Vec<QuestionId> {
        if self.marked.is_empty() {
            return self.at.into_iter().collect();
        }
        let shown = self.shown.iter().filter_map(|index| self.items.get(*index));
        shown.map(|item| item.question).filter(|question| self.marked.contains(question)).collect()
    }

    pub(super) fn key(&mut self, key: &KeyPress) {
        let page = self.height.saturating_sub(1).max(1);
        let last = self.shown.len().saturating_sub(1);
        let place = match key {
            KeyPress::Up => self.place.saturating_sub(1),
            KeyPress::Down => self.place + 1,
            KeyPress::PageUp => self.place.saturating_sub(page),
            KeyPress::PageDown => self.place + page,
            KeyPress::Home => 0,
            KeyPress::End => last,
            _ => return,
        };
        self.go(place.min(last));
    }

    pub(super) fn mark(&mut self) {
        if let Some(at) = self.at {
            if !self.marked.remove(&at) {
                self.marked.insert(at);
            }
            self.key(&KeyPress::Down);
        }
    }

    pub(super) fn mark_all(&mut self) {
        let shown = self.shown.iter().filter_map(|index| self.items.get(*index));
        self.marked.extend(shown.map(|item| item.question));
    }

    pub(super) fn unmark(&mut self, questions: impl Iterator<Item = QuestionId>) {
        for question in questions {
            self.marked.remove(&question);
        }
    }

    pub(super) fn reorder(&mut self) {
        let at = InboxOrder::ALL.iter().position(|order| *order == self.order).unwrap_or(0);
        self.order = InboxOrder::ALL.iter().cycle().nth(at + 1).copied().unwrap_or_default();
        self.arrange();
    }

    /// Shows only items that match this text. Hidden items lose their marks, because nobody may answer a question that they do
    /// not see.
    pub(super) fn narrow(&mut self, text: &str) {
        self.text = text.to_lowercase();
        self.arrange();
        let shown: HashSet<QuestionId> =
            self.shown.iter().filter_map(|index| self.items.get(*index)).map(|item| item.question).collect();
        self.marked.retain(|question| shown.contains(question));
    }

    pub(super) fn widen(&mut self) {
        self.marked.clear();
        self.narrow("");
    }

    fn arrange(&mut self) {
        let items = &self.items;
        let fits = |item: &InboxItem| self.text.split_whitespace().all(|word| is_match(&item.needle, word));
        let mut shown: Vec<(usize, &InboxItem)> =
            items.iter().enumerate().filter(|(_, item)| fits(item)).collect();
        shown.sort_by(|(_, a), (_, b)| {
            let age = a.asked_at.cmp(&b.asked_at).then(a.question.cmp(&b.question));
            match self.order {
                InboxOrder::Oldest => age,
                InboxOrder::Newest => age.reverse(),
                InboxOrder::Expiring => a.expires_at.cmp(&b.expires_at).then(age),
                InboxOrder::Session => a.session.cmp(&b.session).then(age),
                InboxOrder::Agent => a.agent.cmp(&b.agent).then(age),
                InboxOrder::Tool => a.tool.cmp(&b.tool).then(age),
            }
        });
        self.shown = shown.into_iter().map(|(place, _)| place).collect();
        let found = self.at.and_then(|at| {
            self.shown.iter().position(|index| self.items.get(*index).is_some_and(|item| item.question == at))
        });
        self.go(found.unwrap_or(self.place));
    }

    fn go(&mut self, place: usize) {
        self.place = place.min(self.shown.len().saturating_sub(1));
        self.at =
            self.shown.get(self.place).and_then(|index| self.items.get(*index)).map(|item| item.question);
    }
}
