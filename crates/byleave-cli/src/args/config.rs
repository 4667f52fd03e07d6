//! What is typed after `byleave config`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting, its value, and where that comes from (the default)
    Show,
    /// Open your own file in your editor; what does not load is not taken
    ///
    /// The editor is the setting `editor`, $VISUAL, $EDITOR or vi. A file that is not there yet begins with every setting and its
    /// default, commented out.
    Edit,
    /// Name the files that settings are read from, and say which are there
    Path,
}
