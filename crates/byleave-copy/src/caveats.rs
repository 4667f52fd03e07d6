//! The ways in which a copy differs from a direct run, as text with the affected paths.

use std::collections::BTreeMap;

/// A limitation of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Caveat {
    /// The file had several hard links, and only this one has the new content.
    HardLinkBroken,
    /// These files are identical and a directory was moved, which an overlay does by copying. They may have been one file.
    HardLinkUnclear,
    /// Somebody else changed the file below since the copy was made.
    LowerChanged,
    /// The extended attributes differ. They are kept, but not shown.
    AttributesChanged,
    /// The owner differs.
    OwnerChanged,
}

/// The limitations that a scan encountered, with their paths.
#[derive(Debug, Default)]
pub(crate) struct Caveats(BTreeMap<Caveat, Vec<String>>);

const NAMED_MAX: usize = 5;

impl Caveats {
    pub(crate) fn add(&mut self, limit: Caveat, path: &str) {
        self.0.entry(limit).or_default().push(path.into());
    }

    pub(crate) fn to_messages(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|(limit, paths)| format!("{}: {}", limit.description(), join_paths(paths)))
            .collect()
    }
}

impl Caveat {
    const fn description(self) -> &'static str {
        match self {
            Self::HardLinkBroken => {
                "hard links: other names of these files are not changed with them, because a copy changes one name only"
            }
            Self::HardLinkUnclear => {
                "hard links: these files have the same content, mode and time; if they were one file, moving a directory separated them, because a \
                 copy moves by copying"
            }
            Self::LowerChanged => "changed by another program since the copy was made: a commit is refused",
            Self::AttributesChanged => {
                "extended attributes or access lists differ: they are committed, but not shown here"
            }
            Self::OwnerChanged => "the owner or group differs: it is committed, but not shown here",
        }
    }
}

fn join_paths(paths: &[String]) -> String {
    let mut text =
        paths.iter().take(NAMED_MAX).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    if let Some(more) = paths.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
