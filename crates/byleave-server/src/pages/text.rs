//! Text formatting for several pages.

use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::time_format::format_duration;

/// Returns several lines with all invisible characters made visible.
pub(super) fn visible_lines(text: &str) -> String {
    text.lines().map(|line| make_visible(line, EscapeLevel::Text)).collect::<Vec<_>>().join("\n")
}

/// Formats how long ago a time was.
pub(super) fn ago(then: u64, now: u64) -> String {
    format!("{} ago", format_duration(now.saturating_sub(then)))
}
