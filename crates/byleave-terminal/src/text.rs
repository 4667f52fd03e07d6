//! Text helpers for screens: times, and texts that must fit.

use std::time::Duration;

use byleave_core::call::Millis;
use byleave_gate::clock::{Clock as _, SystemClock};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns the current time.
pub(crate) fn now() -> Millis {
    SystemClock.now()
}

/// Formats a duration for people.
pub fn clock(left: Duration) -> String {
    let seconds = left.as_secs();
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) if h < 48 => format!("{h}:{m:02}:{s:02}"),
        (h, ..) => format!("{} days", h / 24),
    }
}

/// Returns the beginning of a text that fits, with a mark if it was cut. For lists, never for a question.
pub fn fit(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > columns {
            break;
        }
        used += wide;
        out.push(c);
    }
    out.push('…');
    out
}

/// Wraps a text, at spaces if there are some.
pub fn wrap_text(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let used = lines.last().map_or(0, |line| line.width());
        if used > 0 && used + word.trim_end().width() > columns {
            lines.push(String::new());
        }
        for c in word.chars() {
            let used = lines.last().map_or(0, |line| line.width());
            if used + c.width().unwrap_or(0) > columns && c != ' ' {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
            }
        }
    }
    lines
}
