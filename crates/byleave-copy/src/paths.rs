//! Paths as text: absolute ones, and ones relative to a root. This module never accesses the disk.

/// Returns the absolute path of a path in a root.
pub(crate) fn absolute(root: &str, inside: &str) -> String {
    if inside.is_empty() {
        return root.to_owned();
    }
    format!("{}/{inside}", root.trim_end_matches('/'))
}

/// Returns the path in a root of an absolute path.
pub(crate) fn inside<'a>(root: &str, path: &'a str) -> &'a str {
    path.strip_prefix(root.trim_end_matches('/')).map_or(path, |rest| rest.trim_start_matches('/'))
}

/// Returns the paths above a path, nearest first.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.rsplit_once('/'), |(above, _)| above.rsplit_once('/')).map(|(above, _)| above)
}

/// Returns the parent directory of a path in a root, empty if that is the root itself.
pub(crate) fn parent(inside: &str) -> &str {
    inside.rsplit_once('/').map_or("", |(above, _)| above)
}
