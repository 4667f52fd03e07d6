//! Paths as text: absolute ones, and those of things in a root. Nothing is looked at.

/// The path of something in a root.
pub(crate) fn absolute(root: &str, inside: &str) -> String {
    if inside.is_empty() {
        return root.to_owned();
    }
    format!("{}/{inside}", root.trim_end_matches('/'))
}

/// The path in a root of something absolute.
pub(crate) fn inside<'a>(root: &str, path: &'a str) -> &'a str {
    path.strip_prefix(root.trim_end_matches('/')).map_or(path, |rest| rest.trim_start_matches('/'))
}

/// The paths above a path, nearest first.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.rsplit_once('/'), |(above, _)| above.rsplit_once('/')).map(|(above, _)| above)
}

/// The directory that something in a root lies in; empty where that is the root itself.
pub(crate) fn above(inside: &str) -> &str {
    inside.rsplit_once('/').map_or("", |(above, _)| above)
}
