//! The arguments of `byleave policy`.

use std::path::PathBuf;

use byleave::core::policy::Layer;
use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show the rules in force and their sources (the default)
    Show,
    /// Check a policy file and show its errors
    Check {
        /// Policy file
        file: PathBuf,
        /// Layer of the file [default: project for `.byleave/policy.toml`, else user]
        #[arg(long, value_enum)]
        layer: Option<LayerArg>,
    },
    /// Test the examples of all rules in force
    Test,
    /// Print the source of the built-in rules
    Builtin,
    /// Evaluate recorded calls with another policy file
    ///
    /// The file replaces your own rules. Shows the calls whose decision would change.
    Replay {
        /// Policy file
        file: PathBuf,
    },
    /// Suggest rules for questions that you always answered yes
    ///
    /// A rule is suggested if at least two calls were approved. No rule is suggested for calls that are dangerous, irreversible or
    /// could not be predicted, or if one such question had another answer. You can paste the output into your policy file.
    Suggest,
}

/// The layer of a policy file.
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
