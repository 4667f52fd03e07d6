//! Truncates outputs to a limit. The beginning and the end stay, and a note in the gap says what is missing (E3).
//!
//! Outputs are truncated twice. The audit log keeps up to the larger limit, and reviewers see that version. The agent gets up to the
//! smaller limit, with a note how to read the rest.

use byleave_core::id::CallId;
use byleave_core::outcome::Output;

/// Truncates an output to the part that is stored.
pub(crate) fn truncate_stored(output: &mut Output, limit: u64) {
    truncate(output, limit, &|missing, whole| {
        format!("[byleave] cut: {missing} of {whole} bytes are not kept")
    });
}

/// Truncates a stored output for the agent. `rest` is the tool that reads the rest.
pub(crate) fn truncate_released(output: &mut Output, limit: u64, call: CallId, rest: Option<&str>) {
    truncate(output, limit, &|missing, whole| {
        let how = rest.map(|tool| format!("; read them with {tool}, call = \"{call}\"")).unwrap_or_default();
        format!("[byleave] cut: {missing} of {whole} bytes are left out here{how}")
    });
}

fn truncate(output: &mut Output, limit: u64, note: &dyn Fn(usize, usize) -> String) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    for text in [Some(&mut output.text), output.error.as_mut()].into_iter().flatten() {
        if text.len() > limit {
            *text = cut_middle(text, limit, note);
            output.truncated = true;
        }
    }
    if let Some(data) = &output.data {
        let bytes = data.to_string().len();
        if bytes > limit {
            output.data = None;
            output.truncated = true;
            output.text.push_str(&format!("\n[byleave] cut: structured data of {bytes} bytes left out"));
        }
    }
}

/// Returns the beginning and the end of a text, cut at line ends if there are any nearby.
fn cut_middle(text: &str, limit: usize, note: &dyn Fn(usize, usize) -> String) -> String {
    let half = limit / 2;
    let head = text.get(..text.floor_char_boundary(limit - half)).unwrap_or_default();
    let end = head.rfind('\n').filter(|end| *end >= head.len() / 2);
    let head = end.and_then(|end| head.get(..=end)).unwrap_or(head);
    let tail = text.get(text.ceil_char_boundary(text.len() - half)..).unwrap_or_default();
    let end = tail.find('\n').filter(|end| *end <= tail.len() / 2);
    let tail = end.and_then(|end| tail.get(end + 1..)).unwrap_or(tail);
    let missing = text.len() - head.len() - tail.len();
    // A line that is shown from its middle on was not written by Byleave, even if it looks like it.
    let is_ours = end.is_none() && tail.trim_start().starts_with("[byleave]");
    let within = if is_ours { "…" } else { "" };
    let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{gap}{}\n{within}{tail}", note(missing, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: E3
    #[test]
    fn the_beginning_and_the_end_stay() {
        let check = |text: &str, limit: u64, wanted: &str| {
            let mut output = Output::text(text);
            truncate_stored(&mut output, limit);
            assert_eq!(output.text, wanted);
            assert_eq!(output.truncated, text != wanted);
        };
        check("short", 5, "short");
        check(&"aé".repeat(100), 4, "a\n[byleave] cut: 297 of 300 bytes are not kept\né");
        check("one\ntwo\nthree\nfour\n", 12, "one\n[byleave] cut: 10 of 19 bytes are not kept\nfour\n");
        let mut output = Output::text("short").with_data(serde_json::json!("x".repeat(100)));
        truncate_stored(&mut output, 50);
        assert!(output.truncated && output.data.is_none());
    }

    // req: E3
    #[test]
    fn what_is_left_out_can_be_read_on() {
        let call = CallId::new(uuid::Uuid::nil());
        let mut output = Output::text("x".repeat(100));
        truncate_released(&mut output, 10, call, Some("more"));
        assert!(
            output.text.contains(&format!("left out here; read them with more, call = \"{call}\"")),
            "{}",
            output.text
        );
    }
}
