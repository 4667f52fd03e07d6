//! Texts as several pages write them.

use byleave::core::escape::{EscapeLevel, visible};
use byleave::core::time_format::span;

/// Several lines, each with everything in it visible.
pub(super) fn visible_lines(text: &str) -> String {
    text.lines().map(|line| visible(line, EscapeLevel::Text)).collect::<Vec<_>>().join("\n")
}

/// How long ago.
pub(super) fn ago(then: u64, now: u64) -> String {
    format!("{} ago", span(now.saturating_sub(then)))
}
