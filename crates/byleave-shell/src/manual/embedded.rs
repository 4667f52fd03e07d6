//! The embedded files of `manuals/`. A test compares the list with the folder.

/// The name and text of every file.
pub(super) const MANUALS: &[(&str, &str)] = &[
    ("build.toml", include_str!("../../manuals/build.toml")),
    ("coreutils-files.toml", include_str!("../../manuals/coreutils-files.toml")),
    ("coreutils-text.toml", include_str!("../../manuals/coreutils-text.toml")),
    ("git.toml", include_str!("../../manuals/git.toml")),
    ("javascript.toml", include_str!("../../manuals/javascript.toml")),
    ("languages.toml", include_str!("../../manuals/languages.toml")),
    ("network.toml", include_str!("../../manuals/network.toml")),
    ("python.toml", include_str!("../../manuals/python.toml")),
    ("rust.toml", include_str!("../../manuals/rust.toml")),
    ("search.toml", include_str!("../../manuals/search.toml")),
    ("system.toml", include_str!("../../manuals/system.toml")),
    ("wrappers.toml", include_str!("../../manuals/wrappers.toml")),
];

/// The files about tools that run the project's own code.
pub(super) const PROJECT_CODE: &[&str] =
    &["build.toml", "javascript.toml", "languages.toml", "python.toml", "rust.toml"];

/// The files about programs that may connect to a server that no word of the command names.
pub(super) const CLIENTS: &[&str] = &["network.toml", "system.toml"];
