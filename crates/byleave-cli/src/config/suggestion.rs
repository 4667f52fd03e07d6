//! Suggestions for misspelt names.

/// How similar a name must be to be suggested, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.75;

/// Returns the known name that is nearest to an unknown one, if any is near.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    near(name, known).into_iter().next()
}

/// Returns the known names that are near to an unknown one, the nearest first.
pub(crate) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let likeness = |known: &'a str| (strsim::jaro_winkler(name, known), known);
    let near = known.into_iter().map(likeness).filter(|(likeness, _)| *likeness > MIN_SIMILARITY);
    let mut near: Vec<(f64, &str)> = near.collect();
    near.sort_by(|one, other| one.0.total_cmp(&other.0));
    near.into_iter().rev().map(|(_, known)| known).collect()
}
