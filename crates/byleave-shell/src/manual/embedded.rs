//! The embedded files of `manuals/`. A test compares the list with the folder.

/// The name and text of every file.
pub(super) const MANUALS: &[(&str, &str)] = &[
    ("build.toml", include_str!("../../manuals/build.toml")),
    ("coreutils-files.toml", include_str!("../../manuals/coreutils-files.toml")),
    ("coreutils-text.toml", include_str!("../../manuals/coreutils-text.toml")),
    ("git.toml", include_str!("../../manuals/git.toml")),
    ("network.toml", include_str!("../../manuals/network.toml")),
    ("search.toml", include_str!("../../manuals/search.toml")),
    ("system.toml", include_str!("../../manuals/system.toml")),
    ("wrappers.toml", include_str!("../../manuals/wrappers.toml")),
];
