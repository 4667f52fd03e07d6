//! Arguments and values that several commands share.

use std::path::PathBuf;

use byleave_gate::core::call::Mode;
use byleave_gate::core::id::SessionId;
use byleave_sandbox::guarantee::Guarantee;
use clap::{Args as Group, ValueEnum};

/// The options of every command.
#[derive(Debug, Group)]
#[command(next_help_heading = "Options for every command")]
pub(crate) struct GlobalArgs {
    /// State directory [default: ~/.local/state/byleave]
    ///
    /// The default is the setting `state`, $XDG_STATE_HOME/byleave or ~/.local/state/byleave.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Additional policy file
    ///
    /// It applies besides the files of the organisation, of yourself and of the project.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Print results as JSON, exact and in a stable format
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use color: auto, always or never
    ///
    /// NO_COLOR, CLICOLOR_FORCE and TERM=dumb are respected. The default is the setting `color`, or auto.
    #[arg(long, global = true, value_enum, value_name = "WHEN")]
    pub(crate) color: Option<ColorArg>,
    /// Use verbose output (repeat for more)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// When to use color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    Auto,
    Always,
    Never,
}

impl ColorArg {
    /// Returns the value of the setting.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// Where questions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AskArg {
    /// Ask at this terminal
    Terminal,
    /// Keep the question open, to be answered with `byleave inbox`
    Inbox,
    /// Ask nobody: refuse calls that need an answer
    None,
}

impl AskArg {
    /// Returns the value of the setting.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Inbox => "inbox",
            Self::None => "none",
        }
    }
}

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// Ask about every call, including reads
    ConfirmAll,
    /// Ask about sensitive, unknown and dangerous calls
    ConfirmSensitive,
    /// Ask about dangerous effects and effects that could not be predicted
    ConfirmDangerous,
    /// Never ask; denied calls stay denied
    Yolo,
    /// Deny every change; reads ask as in confirm-sensitive
    ReadOnly,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::ConfirmAll => Self::ConfirmAll,
            ModeArg::ConfirmSensitive => Self::ConfirmSensitive,
            ModeArg::ConfirmDangerous => Self::ConfirmDangerous,
            ModeArg::Yolo => Self::Yolo,
            ModeArg::ReadOnly => Self::ReadOnly,
        }
    }
}

#[derive(Debug, Group)]
pub(crate) struct ListArgs {
    /// Maximum number of items
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
    pub(crate) limit: usize,
    /// Only this session
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
}

impl Default for ListArgs {
    fn default() -> Self {
        Self { limit: 50, session: None }
    }
}

/// Parses the name of a guarantee.
pub(crate) fn guarantee(name: &str) -> Result<String, String> {
    let all = || Guarantee::ALL.map(Guarantee::name).join(", ");
    Guarantee::from_name(name)
        .map(|found| found.name().to_owned())
        .ok_or_else(|| format!("there are: {}", all()))
}
