//! Text diffs for people. Covers only text that is short enough to read.

/// Texts longer than this are not compared.
pub(crate) const BYTES_MAX: u64 = 400 * 1024;
const LINES_MAX: usize = 8000;

/// Returns a unified diff without its header, or `None` if one side is not text or is too long.
pub(crate) fn unified_diff(before: &[u8], after: &[u8]) -> Option<String> {
    let (before, after) = (as_text(before)?, as_text(after)?);
    let patch = diffy::create_patch(before, after).to_string();
    // The first two lines name the files, which the change already does.
    let body = patch.splitn(3, '\n').nth(2)?;
    Some(body.to_owned())
}

/// Applies a diff to the text before it.
pub(crate) fn apply(before: &str, diff: &str) -> Option<String> {
    let patch = format!("--- original\n+++ modified\n{diff}");
    diffy::apply(before, &diffy::Patch::from_str(&patch).ok()?).ok()
}

/// Returns the bytes as text if a person could read them.
pub(crate) fn as_text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() as u64 > BYTES_MAX || bytes.contains(&0) {
        return None;
    }
    let text = str::from_utf8(bytes).ok()?;
    (text.lines().count() <= LINES_MAX).then_some(text)
}
