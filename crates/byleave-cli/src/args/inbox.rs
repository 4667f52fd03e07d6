//! What was typed after `byleave inbox`.

use std::path::PathBuf;

use byleave::core::id::SessionId;
use clap::{Args as Group, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// List the open questions, the newest first (the default)
    List(ListArgs),
    /// Answer one question on a screen of its own; ends as its call does
    Open {
        /// The question
        id: String,
    },
    /// Show a question in full
    Show {
        /// The question
        id: String,
    },
    /// Answer a question; its call goes on at once, and what comes of it is printed
    Answer {
        /// The question
        id: String,
        #[command(subcommand)]
        answer: AnswerCommand,
        /// The digest of the question as it was shown; another question is then not answered by mistake
        #[arg(long, global = true)]
        digest: Option<String>,
    },
}

#[derive(Debug, Group)]
pub(crate) struct ListArgs {
    /// At most so many
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
    pub(crate) limit: usize,
    /// Of this session
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
    /// Go ahead
    Yes {
        /// Something for the model to know
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// A checkpoint is passed only with `--confirm release`
        #[arg(long, value_name = "WORD")]
        confirm: Option<String>,
    },
    /// Do not
    No {
        /// What the model should do instead
        #[arg(long, value_name = "TEXT")]
        feedback: Option<String>,
    },
    /// Go ahead with a part of what it changed on the copy
    Part {
        /// What is kept, with everything beneath it, as seen from the directory of the call
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// Something for the model to know
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// With other arguments (or, for a held result, another result) instead
    Edit {
        /// All of it: JSON, `@FILE`, or `-` for standard input
        #[arg(long, value_name = "JSON")]
        args: String,
        /// Something for the model to know
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Go ahead, and in future without asking within a scope; without one, the scopes to choose from are listed
    Leave {
        /// What it covers, of those that are listed: a number
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "scope")]
        offer: Option<u32>,
        /// What it covers: run, exactly, read, write, delete, reach or invoke, a colon, and a pattern, as in `write:/w/notes/**`
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
        /// Show the rule that it amounts to and the past calls that it would have covered, and answer nothing
        #[arg(long)]
        preview: bool,
        /// For so long: a number and s, m, h, d or w
        #[arg(long = "for", value_name = "TIME")]
        lasting: Option<String>,
        /// So many times
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        uses: Option<u32>,
        /// Only in the session of the call that asks
        #[arg(long)]
        this_session: bool,
    },
    /// Let the model see a held result, whole (as `yes` does)
    Release {
        /// Something for the model to know
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Do not let the model see a held result (as `no` does)
    Withhold {
        /// What the model should do instead
        #[arg(long, value_name = "TEXT")]
        feedback: Option<String>,
    },
    /// Let the model see a held result with secrets masked, and whatever you name
    Redact {
        /// Something to be masked wherever it stands, in whatever case
        #[arg(long, value_name = "WORD")]
        text: Vec<String>,
        /// Something for the model to know
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Stop everything
    Abort,
}
