//! What was typed after `byleave policy`.

use std::path::PathBuf;

use byleave::core::policy::Layer;
use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show the rules in force, with where each comes from (the default)
    Show,
    /// Check one policy file, and say what is wrong where
    Check {
        /// The file
        file: PathBuf,
        /// Whose file it is to be [default: project for `.byleave/policy.toml`, else user]
        #[arg(long, value_enum)]
        layer: Option<LayerArg>,
    },
    /// Check the examples of all rules in force
    Test,
    /// Print the built-in rules as they are written, to learn from
    Builtin,
    /// Judge every call in the book again with another file in the place of your own rules: what would change?
    Replay {
        /// The file
        file: PathBuf,
    },
    /// Suggest rules that would have spared the questions that were always answered yes, at least twice
    ///
    /// Never for what is dangerous, cannot be taken back or was not understood, and never where one was answered otherwise.
    /// What is printed can be pasted into your policy file.
    Suggest,
}

/// Whose policy file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayerArg {
    Organisation,
    User,
    Project,
    Session,
}

impl From<LayerArg> for Layer {
    fn from(layer: LayerArg) -> Self {
        match layer {
            LayerArg::Organisation => Self::Organisation,
            LayerArg::User => Self::User,
            LayerArg::Project => Self::Project,
            LayerArg::Session => Self::Session,
        }
    }
}
