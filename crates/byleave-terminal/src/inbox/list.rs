//! The list: open questions in an order, narrowed by a text, some of them marked.

use std::collections::HashSet;

use byleave::audit_log::QuestionItem;
use byleave_core::call::Millis;
use byleave_core::escape::{EscapeLevel, visible};
use byleave_core::id::QuestionId;
use byleave_core::question::QuestionKind;

use crate::keys::KeyPress;

/// One open question, ready to be shown: everything from outside is visible in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxItem {
    /// Which.
    pub question: QuestionId,
    /// What it is about.
    pub kind: QuestionKind,
    /// The tool.
    pub tool: String,
    /// Who wants it.
    pub agent: String,
    /// The session of the call.
    pub session: String,
    /// What it would do, in short.
    pub summary: String,
    /// When it was asked.
    pub asked_at: Millis,
    /// Nobody can answer it after that.
    pub expires_at: Millis,
    /// Everything that can be looked for, in lower case.
    needle: String,
}

impl From<&QuestionItem> for InboxItem {
    fn from(item: &QuestionItem) -> Self {
        let shown = |text: &str| visible(text, EscapeLevel::Name);
        let (tool, agent) = (shown(&item.listing.tool), shown(&item.listing.agent));
        let (session, summary) = (shown(item.listing.session.as_str()), shown(&item.listing.summary));
        let needle = format!("{tool} {agent} {session} {summary}").to_lowercase();
        Self {
            question: item.question,
            kind: item.kind,
            tool,
            agent,
            session,
            summary,
            asked_at: item.asked_at,
            expires_at: item.expires_at,
            needle,
        }
    }
}

/// In which order questions are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InboxOrder {
    /// The one that waits longest first.
    #[default]
    Oldest,
    /// The one that came last first.
    Newest,
    /// The one that can be answered for the shortest time first.
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

    /// The order in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Oldest => "oldest first",
            Self::Newest => "newest first",
            Self::Expiring => "least time left first",
            Self::Session => "by session",
            Self::Agent => "by agent",
            Self::Tool => "by tool",
        }
    }
}

/// Open questions, in an order, narrowed and marked.
#[derive(Default)]
pub struct InboxList {
    items: Vec<InboxItem>,
    /// The places of the items that are shown, in order.
    shown: Vec<usize>,
    order: InboxOrder,
    text: String,
    marked: HashSet<QuestionId>,
    /// The question that the cursor is on, and its place.
    at: Option<QuestionId>,
    pub(super) place: usize,
    pub(super) top: usize,
    pub(super) height: usize,
}

impl InboxList {
    /// Other questions are open now; the cursor stays on its question as long as that is there.
    pub fn replace(&mut self, items: Vec<InboxItem>) {
        self.items = items;
        let open: HashSet<QuestionId> = self.items.iter().map(|item| item.question).collect();
        self.marked.retain(|question| open.contains(question));
        self.arrange();
    }

    /// Whether this question is open.
    pub fn has(&self, question: QuestionId) -> bool {
        self.items.iter().any(|item| item.question == question)
    }

    /// How many are open, shown and marked.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.items.len(), self.shown.len(), self.marked.len())
    }

    /// The order they are in.
    pub const fn order(&self) -> InboxOrder {
        self.order
    }

    /// The text they are narrowed by.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is something to widen: a text that they are narrowed by, or marks.
    pub fn is_narrowed(&self) -> bool {
        !self.text.is_empty() || !self.marked.is_empty()
    }

    /// Those on the screen, each with its place, and whether it is marked.
    pub fn window(&self, height: usize) -> impl Iterator<Item = (usize, &InboxItem, bool)> {
        let places = self.shown.iter().enumerate().skip(self.top).take(height);
        places.filter_map(|(place, index)| {
            let item = self.items.get(*index)?;
            Some((place, item, self.marked.contains(&item.question)))
        })
    }

    /// The questions to be answered: those that are marked, else the one that the cursor is on.
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

    /// Shows only those with this text in them. What is no longer shown is no longer marked: nobody answers what they do not see.
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
        let fits = |item: &InboxItem| self.text.split_whitespace().all(|word| item.needle.contains(word));
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
