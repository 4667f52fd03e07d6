//! The arguments of `byleave inbox`.

use std::path::PathBuf;

use byleave::core::id::SessionId;
use clap::{Args as Group, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// List the open questions, newest first (the default)
    List(ListArgs),
    /// Show a question on a full screen and answer it there
    ///
    /// The exit code is that of the call.
    Open {
        /// Question id
        id: String,
    },
    /// Show a question in full
    Show {
        /// Question id
        id: String,
    },
    /// Answer a question and continue its call
    ///
    /// Prints the result of the call.
    Answer {
        /// Question id
        id: String,
        #[command(subcommand)]
        answer: AnswerCommand,
        /// Digest of the question as shown; a different question is then not answered
        #[arg(long, global = true)]
        digest: Option<String>,
    },
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

#[derive(Debug, Subcommand)]
pub(crate) enum AnswerCommand {
    /// Approve the call
    Yes {
        /// Note for the model
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Confirmation. A checkpoint requires `--confirm release`
        #[arg(long, value_name = "WORD")]
        confirm: Option<String>,
    },
    /// Decline the call
    No {
        /// Feedback for the model: what to do instead
        #[arg(long, value_name = "TEXT")]
        feedback: Option<String>,
    },
    /// Approve a part of the changes of a rehearsal
    Partial {
        /// Paths to keep, with everything below, relative to the directory of the call
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// Note for the model
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Replace the arguments, or a held result
    Edit {
        /// All arguments, or the whole result: JSON, `@FILE`, or `-` for stdin
        #[arg(long, value_name = "JSON")]
        args: String,
        /// Note for the model
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Approve the call, and similar calls in future
    ///
    /// A standing approval covers calls of the same tool within a scope. Without `--scope` and `--pattern`, lists the possible scopes,
    /// answers nothing and exits with 2.
    StandingApproval {
        /// Number of a listed scope
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "pattern")]
        scope: Option<u32>,
        /// Scope of your own: an effect, a colon and a pattern, as in `write:/w/notes/**`
        ///
        /// Effects: run, exactly, read, write, delete, reach, invoke and plan.
        #[arg(long, value_name = "PATTERN")]
        pattern: Vec<String>,
        /// Show the equivalent rule and the past calls it would have covered; answer nothing
        #[arg(long)]
        preview: bool,
        /// Lifetime: a number and s, m, h, d or w
        #[arg(long = "for", value_name = "DURATION")]
        lasting: Option<String>,
        /// Maximum number of uses
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        uses: Option<u32>,
        /// Only in the session of this call
        #[arg(long)]
        this_session: bool,
    },
    /// Release a held result to the model unchanged (same as `yes`)
    Release {
        /// Note for the model
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Withhold a held result from the model (same as `no`)
    Withhold {
        /// Feedback for the model: what to do instead
        #[arg(long, value_name = "TEXT")]
        feedback: Option<String>,
    },
    /// Release a held result with secrets and named text masked
    Redact {
        /// Text to mask everywhere (case-insensitive)
        #[arg(long, value_name = "TEXT")]
        text: Vec<String>,
        /// Note for the model
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Abort the call and its turn
    Abort,
}
