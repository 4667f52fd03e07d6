//! Tracks the position of the interpreter in the text, and records the outline.

use crate::source_outline::{ListOperator, Outline, OutlinePart};
use crate::syntax::tree::CommandNodeKind;

/// The maximum number of parts in an outline. The analysis itself continues beyond it.
const PARTS_MAX: usize = 8192;

/// The position of the interpreter, from the outside in.
#[derive(Default)]
pub(super) struct NestingTracker {
    /// The constructs that enclose a command at this position.
    kinds: Vec<&'static str>,
    /// The open parts, `None` if the outline is full.
    open: Vec<Option<usize>>,
    outline: Outline,
    /// The attributes of the next part.
    joint: ListOperator,
    negated: bool,
    label: Option<String>,
}

impl NestingTracker {
    /// Enters a construct that is part of a command's position.
    pub(super) fn push(&mut self, kind: &'static str) {
        self.push_as(kind, kind);
    }

    /// Does the same, with another word for the outline.
    pub(super) fn push_as(&mut self, kind: &'static str, part: &'static str) {
        self.kinds.push(kind);
        self.enter_part(part);
    }

    pub(super) fn pop(&mut self) {
        self.kinds.pop();
        self.leave_part();
    }

    /// Enters a construct that only the outline contains.
    pub(super) fn enter_part(&mut self, kind: &'static str) {
        let parent = self.open.last().copied().flatten();
        // A group is a command that is a group. The duplicate is skipped if it directly follows.
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
            let part = OutlinePart {
                parent,
                kind,
                label,
                joint,
                negated,
                commands: Vec::new(),
                unresolved: Vec::new(),
            };
            self.open.push(Some(self.outline.parts.len()));
            self.outline.parts.push(part);
        } else {
            self.outline.truncated = true;
            self.open.push(None);
        }
    }

    pub(super) fn leave_part(&mut self) {
        self.open.pop();
    }

    /// Sets the list operator before the next part.
    pub(super) fn set_joint(&mut self, joint: ListOperator) {
        self.joint = joint;
    }

    pub(super) fn set_negated(&mut self) {
        self.negated = true;
    }

    /// Sets the label of the next part.
    pub(super) fn set_label(&mut self, label: String) {
        self.label = Some(label);
    }

    /// Returns the constructs that enclose a command at this position.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        self.kinds.clone()
    }

    /// Records that the command with this index was found here.
    pub(super) fn add_command(&mut self, place: usize) {
        if let Some(part) = self.current_part() {
            part.commands.push(place);
        }
    }

    /// Records a command that is only possible.
    pub(super) fn add_possible_command(&mut self, place: usize) {
        self.enter_part("possible");
        self.add_command(place);
        self.leave_part();
    }

    /// Records that something here could not be resolved.
    pub(super) fn add_unresolved(&mut self, why: &str) {
        let unread = match self.open.last().copied().flatten() {
            Some(at) => self.outline.parts.get_mut(at).map(|part| &mut part.unresolved),
            None => Some(&mut self.outline.unresolved),
        };
        if let Some(unread) = unread.filter(|unread| !unread.iter().any(|known| known == why)) {
            unread.push(why.to_owned());
        }
    }

    pub(super) fn into_outline(self) -> Outline {
        self.outline
    }

    fn current_part(&mut self) -> Option<&mut OutlinePart> {
        let at = self.open.last().copied().flatten()?;
        self.outline.parts.get_mut(at)
    }
}

/// Returns the name of a command kind in the outline.
pub(super) const fn part_name(kind: &CommandNodeKind) -> &'static str {
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
