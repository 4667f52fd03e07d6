//! Suggestions for misspelt names.

/// Returns the known name that is nearest to an unknown one, if any is near.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |known: &'a str| (strsim::jaro_winkler(name, known), known);
    let best = known.into_iter().map(likeness).max_by(|one, other| one.0.total_cmp(&other.0));
    best.filter(|(likeness, _)| *likeness > 0.75).map(|(_, known)| known)
}
