//! The trail: where in the text the reader stands, and the outline of where it has been.

use crate::source_outline::{ListOperator, Outline, OutlinePart};
use crate::syntax::tree::CommandNodeKind;

/// Parts that an outline lists, at most; the reading itself goes on.
const PARTS_MAX: usize = 8192;

/// Where the reader stands, from the outside in.
#[derive(Default)]
pub(super) struct NestingTracker {
    /// What a command found here stands in.
    kinds: Vec<&'static str>,
    /// The parts that are open; none where the outline is full.
    open: Vec<Option<usize>>,
    outline: Outline,
    /// What is known beforehand of the next part.
    joint: ListOperator,
    negated: bool,
    label: Option<String>,
}

impl NestingTracker {
    /// Goes into something that a command's place is told by.
    pub(super) fn push(&mut self, kind: &'static str) {
        self.push_as(kind, kind);
    }

    /// The same, with another word for the outline.
    pub(super) fn push_as(&mut self, kind: &'static str, part: &'static str) {
        self.kinds.push(kind);
        self.enter(part);
    }

    pub(super) fn pop(&mut self) {
        self.kinds.pop();
        self.leave();
    }

    /// Goes into something that only the outline tells.
    pub(super) fn enter(&mut self, kind: &'static str) {
        let parent = self.open.last().copied().flatten();
        // A group is a command that is a group: the same thing once more, before anything stands in it.
        let same = parent.filter(|parent| {
            let part = self.outline.parts.get(*parent);
            self.label.is_none()
                && kind != "command"
                && parent.saturating_add(1) == self.outline.parts.len()
                && part.is_some_and(|part| part.kind == kind)
        });
        let (joint, negated) = (std::mem::take(&mut self.joint), std::mem::take(&mut self.negated));
        let label = self.label.take();
        if same.is_some() {
            self.open.push(same);
        } else if self.outline.parts.len() < PARTS_MAX {
            let part =
                OutlinePart { parent, kind, label, joint, negated, commands: Vec::new(), unread: Vec::new() };
            self.open.push(Some(self.outline.parts.len()));
            self.outline.parts.push(part);
        } else {
            self.outline.cut = true;
            self.open.push(None);
        }
    }

    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// Says beforehand how the next part hangs together with the one before it.
    pub(super) fn joined(&mut self, joint: ListOperator) {
        self.joint = joint;
    }

    pub(super) fn negated(&mut self) {
        self.negated = true;
    }

    /// Says beforehand what the next part is called.
    pub(super) fn labelled(&mut self, label: String) {
        self.label = Some(label);
    }

    /// What a command found here stands in.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        self.kinds.clone()
    }

    /// Notes that the command at this place in the reading was found here.
    pub(super) fn command(&mut self, place: usize) {
        if let Some(part) = self.here() {
            part.commands.push(place);
        }
    }

    /// The same for one that is only possible.
    pub(super) fn possible(&mut self, place: usize) {
        self.enter("possible");
        self.command(place);
        self.leave();
    }

    /// Notes that something could not be told here.
    pub(super) fn puzzle(&mut self, why: &str) {
        let unread = match self.open.last().copied().flatten() {
            Some(at) => self.outline.parts.get_mut(at).map(|part| &mut part.unread),
            None => Some(&mut self.outline.unread),
        };
        if let Some(unread) = unread.filter(|unread| !unread.iter().any(|known| known == why)) {
            unread.push(why.to_owned());
        }
    }

    pub(super) fn outline(self) -> Outline {
        self.outline
    }

    fn here(&mut self) -> Option<&mut OutlinePart> {
        let at = self.open.last().copied().flatten()?;
        self.outline.parts.get_mut(at)
    }
}

/// What a command is in the outline.
pub(super) const fn part_of(kind: &CommandNodeKind) -> &'static str {
    match kind {
        CommandNodeKind::Simple { .. } => "command",
        CommandNodeKind::Group(_) => "group",
        CommandNodeKind::Subshell(_) => "subshell",
        CommandNodeKind::Loop { .. } => "loop",
        CommandNodeKind::For { .. } | CommandNodeKind::ArithmeticFor { .. } => "for",
        CommandNodeKind::If { .. } => "if",
        CommandNodeKind::Case { .. } => "case",
        CommandNodeKind::Function { .. } => "function",
        CommandNodeKind::Arithmetic(_) => "arithmetic",
        CommandNodeKind::Test(_) => "test",
        CommandNodeKind::Coprocess(_) => "coprocess",
    }
}
