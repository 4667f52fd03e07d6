//! The builder of a rendering: enforces the limits, escapes text from outside, and collects warnings.

use crate::escape::{EscapeLevel, Escaper, make_visible};

use super::line::{LineRole, RenderLine, Rendering, continuation_gutter, split};

/// The maximum size of the text. Nobody would read more.
const BYTES_MAX: usize = 2_000_000;
/// The maximum number of lines.
const LINES_MAX: usize = 50_000;
/// The reserve for the details, which must be shown even if the rest is too large.
const RESERVE_BYTES: usize = 64_000;
const RESERVE_LINES: usize = 400;
/// The maximum length of a line before it is continued on the next.
const LINE_CHARS_MAX: usize = 4_000;

/// The builder of a rendering.
#[derive(Default)]
pub(super) struct RenderingBuilder {
    lines: Vec<RenderLine>,
    bytes: usize,
    in_reserve: bool,
    missing: Option<String>,
    warnings_at: usize,
    warnings: Vec<String>,
    escaper: Escaper,
}

impl RenderingBuilder {
    /// Marks the current end as the place for warnings about the whole question.
    pub(super) fn set_warnings_position(&mut self) {
        self.warnings_at = self.lines.len();
    }

    /// Allows the use of the reserve from here on.
    pub(super) fn open_reserve(&mut self) {
        self.in_reserve = true;
    }

    /// Records that something cannot be shown, so the rendering is not complete.
    pub(super) fn mark_incomplete(&mut self, why: impl Into<String>) {
        self.missing.get_or_insert_with(|| why.into());
    }

    /// Returns whether more can still be written. If not, callers need not compute it.
    pub(super) fn is_open(&self) -> bool {
        self.missing.is_none() || self.in_reserve
    }

    /// Adds a warning about the whole question, shown directly below the title.
    pub(super) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Writes a line of our own at the left edge. Nothing from outside begins there.
    pub(super) fn push_heading(&mut self, role: LineRole, text: &str) {
        self.push_line(role, "", text);
    }

    /// Writes a line behind a gutter. The text must already be escaped. A text that is too long continues behind the same gutter.
    pub(super) fn push_line(&mut self, role: LineRole, gutter: &str, text: &str) {
        if text.len() <= LINE_CHARS_MAX {
            self.push_raw(role, gutter, text);
            return;
        }
        let mut hanging = continuation_gutter(gutter);
        if hanging.trim().is_empty() {
            hanging.push_str("  ");
        }
        let pieces = split(text, LINE_CHARS_MAX, |_| 1);
        let last = pieces.len().saturating_sub(1);
        for (place, piece) in pieces.iter().enumerate() {
            let gutter = if place == 0 { gutter } else { &hanging };
            let back = if place == 0 { "" } else { "⟨continued⟩" };
            let on = if place == last { "" } else { "⟨continues⟩" };
            self.push_raw(role, gutter, &format!("{back}{piece}{on}"));
        }
    }

    /// Returns whether all texts could be shown, and none has invisible characters, look-alikes or right-to-left text.
    pub(super) fn is_harmless(&self) -> bool {
        let counts = self.escaper.counts();
        self.missing.is_none() && counts.hidden_chars == 0 && counts.lookalikes == 0 && counts.rtl_runs == 0
    }

    /// Returns text from outside, escaped.
    pub(super) fn escape(&mut self, text: &str, care: EscapeLevel) -> String {
        if text.len() > BYTES_MAX {
            self.mark_incomplete(format!("a single text has {} bytes", text.len()));
            return String::new();
        }
        let mut out = String::with_capacity(text.len() + 8);
        self.escaper.write(text, care, &mut out);
        out
    }

    /// Returns a name, a path or a single line from outside, escaped and in quotes that cannot occur inside.
    pub(super) fn quote(&mut self, text: &str) -> String {
        format!("“{}”", self.escape(text, EscapeLevel::Name))
    }

    /// Returns the rendering, with the warnings in their place.
    pub(super) fn finish(mut self) -> Rendering {
        let mut warnings = Vec::new();
        if let Some(why) = &self.missing {
            warnings.push(format!("CANNOT BE SHOWN IN FULL: {why}; you can only refuse, not approve"));
        }
        warnings.append(&mut self.warnings);
        let tally = *self.escaper.counts();
        let example = |c: Option<char>| make_visible(&c.unwrap_or_default().to_string(), EscapeLevel::Name);
        if tally.hidden_chars > 0 {
            let first = example(tally.first_hidden);
            let places = format_count(tally.hidden_chars, "place", "places");
            warnings.push(format!(
                "contains invisible characters, shown in brackets in {places} below; the first is {first}"
            ));
        }
        if tally.lookalikes > 0 {
            let first = tally.first_lookalike.map_or(0, u32::from);
            let places = format_count(tally.lookalikes, "place", "places");
            warnings.push(format!(
                "contains lookalike characters, shown in brackets in {places} below; the first is U+{first:04X}"
            ));
        }
        if tally.rtl_runs > 0 {
            warnings.push("contains right-to-left text, shown as ⟨rtl … rtl⟩".into());
        }
        let complete = self.missing.is_none();
        let lines = warnings.into_iter().map(|text| warning_line(&text));
        self.lines.splice(self.warnings_at..self.warnings_at, lines);
        Rendering { lines: self.lines, complete }
    }

    fn push_raw(&mut self, role: LineRole, gutter: &str, text: &str) {
        if !self.is_open() {
            return;
        }
        let (bytes_max, lines_max) = match self.in_reserve {
            true => (BYTES_MAX + RESERVE_BYTES, LINES_MAX + RESERVE_LINES),
            false => (BYTES_MAX, LINES_MAX),
        };
        let bytes = gutter.len() + text.len();
        if self.bytes + bytes > bytes_max {
            return self.mark_incomplete(format!("the question has more than {BYTES_MAX} bytes"));
        }
        if self.lines.len() >= lines_max {
            return self.mark_incomplete(format!("the question has more than {LINES_MAX} lines"));
        }
        self.bytes += bytes;
        let gutter_chars = u16::try_from(gutter.chars().count()).unwrap_or(u16::MAX);
        self.lines.push(RenderLine { role, text: format!("{gutter}{text}"), gutter: gutter_chars });
    }
}

/// The gutter of a warning.
pub(super) const WARNING_GUTTER: &str = "⚠ ";

fn warning_line(text: &str) -> RenderLine {
    RenderLine { role: LineRole::Warning, text: format!("{WARNING_GUTTER}{text}"), gutter: 2 }
}

/// Formats a number with its noun: `1 line`, `2 lines`.
pub(super) fn format_count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
