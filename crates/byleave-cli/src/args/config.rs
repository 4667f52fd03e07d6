//! The arguments of `byleave config`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show all settings, their values and sources (the default)
    Show,
    /// Edit your own settings file
    ///
    /// The editor is the setting `editor`, $VISUAL, $EDITOR or vi. An invalid file is not saved: the old one stays, and your draft is
    /// kept for the next edit. A new file starts with every setting and its default, commented out.
    Edit,
    /// List the settings files and whether they exist
    Path,
}
