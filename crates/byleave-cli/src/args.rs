//! What was typed. What it means is worked out in [`crate::resolved_options`] and by the commands.

#[cfg(feature = "agent")]
mod acp;
#[cfg(feature = "agent")]
mod agent;
mod audit;
mod completions;
mod config;
#[cfg(feature = "fleet")]
mod fleet;
mod hook;
mod inbox;
mod init;
mod mcp;
mod monitoring;
mod policy;
mod rehearse;
mod sandbox;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod tools;

use std::path::PathBuf;

use byleave::core::call::Mode;
use byleave::core::id::{AgentId, CallId, SessionId};
use clap::{Args as Group, Parser, Subcommand, ValueEnum};

#[cfg(feature = "agent")]
pub(crate) use self::acp::{AcpArgs, AcpAskArg};
#[cfg(feature = "agent")]
pub(crate) use self::agent::{
    ChatArgs, HistoryCommand, HistoryFormat, HistoryListArgs, ModelArgs, PersonaCommand, RunArgs,
};
pub(crate) use self::audit::{AuditCommand, ExportFormatArg};
pub(crate) use self::completions::{CompletionsArgs, ManArgs};
pub(crate) use self::config::ConfigCommand;
#[cfg(feature = "fleet")]
pub(crate) use self::fleet::{FleetArgs, FleetCommand};
pub(crate) use self::hook::{HookArgs, HookCommand, HookServeArgs, HookTicketArgs};
pub(crate) use self::inbox::{AnswerCommand, InboxCommand, ListArgs};
pub(crate) use self::init::InitArgs;
pub(crate) use self::mcp::{
    AccessArg, AddServerArgs, GatewayArgs, LoginArgs, McpCommand, McpServeArgs, McpWrapArgs, ProfileArgs,
};
pub(crate) use self::monitoring::{LogArgs, StatsArgs, WatchArgs};
pub(crate) use self::policy::{LayerArg, PolicyCommand};
pub(crate) use self::rehearse::{RehearseArgs, UndoArgs};
pub(crate) use self::sandbox::{SandboxCommand, SandboxExecArgs, SandboxProfileArg};
#[cfg(feature = "serve")]
pub(crate) use self::serve::{
    AddTokenArgs, AddWebhookArgs, ScopeArg, ServeArgs, TokenCommand, WebhookCommand, WorkArgs,
};
pub(crate) use self::session::{OpenSessionArgs, SessionCommand};
pub(crate) use self::tools::ToolsCommand;

const EXIT_CODES: &str = "\
Exit codes:
  0    completed (also: a dry run was shown, a command did what it says)
  1    failed: the tool ran and says so, the book does not verify, or nothing can be confined here
  2    usage: wrong on the command line, or byleave itself could not do it, or say what came of it
  3    refused, or the result is withheld; with a code that says why
  4    waiting for a person, or behind a call that does
  5    unknown: it may or may not have taken effect; do not repeat it unasked
  130  aborted

With `--json`, standard output has one JSON value and nothing else, also where something went wrong:
{\"error\": {\"what\": .., \"hint\": .., \"exit\": ..}}. Only `explain --batch`, `run` and `watch` print one a line, and with `sandbox exec` standard
output is the command's own.

Ids may be shortened to their last characters (as lists show them) or their first, at least four.";

/// Nothing happens but by your leave: a gate between an AI agent and the world.
#[derive(Debug, Parser)]
#[command(name = "byleave", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// What holds for every command.
#[derive(Debug, Group)]
#[command(next_help_heading = "Options for every command")]
pub(crate) struct GlobalArgs {
    /// Where the book is kept [default: as set, $XDG_STATE_HOME/byleave, ~/.local/state/byleave]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Rules for this session, beside those of the organisation, yours and the project's
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Results as JSON, exact and in a stable shape
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colour; NO_COLOR, CLICOLOR_FORCE and TERM=dumb are respected [default: as set, auto]
    #[arg(long, global = true, value_enum, value_name = "WHEN")]
    pub(crate) color: Option<ColorArg>,
    /// Say on standard error what is going on; twice for more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    Auto,
    Always,
    Never,
}

impl ColorArg {
    /// As a setting has it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Make one call
    ///
    /// What it puts out goes to standard output, with control characters made visible; `--json` has it exact.
    /// Everything else that is said goes to standard error.
    Call(CallArgs),
    /// Run a command on a copy, see what it would change, and keep it or not
    ///
    /// It runs confined, with no network, on a copy of this directory: nothing changes until you say so. `y` makes exactly what you
    /// saw final and runs nothing again; `byleave undo` takes it back. Rules hold: what they deny does not happen on the copy either.
    Rehearse(RehearseArgs),
    /// Take back what a call changed in files
    ///
    /// A file that was changed since is never overwritten: both sides are shown, and nothing is taken back. An undo is itself a
    /// call, and can be taken back the same way.
    Undo(UndoArgs),
    /// Show what a call changed in files, or would
    Diff {
        /// The call
        call: String,
    },
    /// Have a model do a task, with the tools that are here and under the rules that hold
    ///
    /// Every turn of the model and every call that it asks for goes through the gate and into the book; what was changed can be
    /// undone (`byleave undo --session SESSION`). With nobody there to ask, what needs an answer is refused, or left in the inbox
    /// (`--ask inbox`) for `--resume`. With `--json` each thing that happens is a line. One run at a time works in a directory.
    #[cfg(feature = "agent")]
    Run(RunArgs),
    /// Talk with a model that works with the tools that are here, under the rules that hold
    ///
    /// On a screen of its own: what the model says, its calls with what they put out, and questions where it matters. `/help` says
    /// what else there is. Everything goes through the gate and into the book; a conversation that was left, or cut off, goes on
    /// with `--resume` where it stopped, and nothing runs twice.
    #[cfg(feature = "agent")]
    Chat(ChatArgs),
    /// See who a model can be, and what it is told
    #[cfg(feature = "agent")]
    Persona {
        #[command(subcommand)]
        command: Option<PersonaCommand>,
    },
    /// Read conversations with models: list, show, search and export them
    #[cfg(feature = "agent")]
    History {
        #[command(subcommand)]
        command: Option<HistoryCommand>,
    },
    /// Say what a call would do, which rules are about it, and what they come to; nothing is run
    Explain(ExplainArgs),
    /// See which tools there are
    Tools {
        #[command(subcommand)]
        command: Option<ToolsCommand>,
    },
    /// See and answer open questions
    Inbox {
        #[command(subcommand)]
        command: Option<InboxCommand>,
    },
    /// See how a fleet stands, and look after its book
    #[cfg(feature = "fleet")]
    Fleet {
        #[command(subcommand)]
        command: FleetCommand,
    },
    /// See and revoke standing leaves
    Leaves {
        #[command(subcommand)]
        command: Option<ApprovalsCommand>,
    },
    /// Open sessions that have sub-agents, and see who is above them
    Session {
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// Check, test and see the rules in force
    Policy {
        #[command(subcommand)]
        command: Option<PolicyCommand>,
    },
    /// Drive on what was answered, interrupted or held up
    Resume(ResumeArgs),
    /// Refuse everything from now on, until it is lifted
    Halt(HaltArgs),
    /// Judge the calls of agents' built-in tools: what their hooks start, or ask
    Hook {
        #[command(subcommand)]
        command: HookCommand,
    },
    /// Begin a shell call that a hook has prepared
    ///
    /// Agents run this in place of their own command. It runs confined, prints what the command prints, and ends with its exit code,
    /// or with 125 if it was not run.
    Exec(HookTicketArgs),
    /// Run something confined
    Sandbox {
        #[command(subcommand)]
        command: SandboxCommand,
    },
    /// Put the gate in front of agents that speak MCP
    Mcp {
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Serve agents and people over HTTP: calls in, questions out, the book read
    ///
    /// Every request carries a token (`byleave token add`). On this machine only, unless there is TLS. What must be asked waits for
    /// an answer over HTTP, or with `byleave inbox`.
    #[cfg(feature = "serve")]
    Serve(ServeArgs),
    /// Drive calls for a server elsewhere, with the tools and files that are here
    ///
    /// For a server that was started with `--workers`. The worker opens the connection, so nothing need reach it. It plans, rehearses
    /// and runs in the directory that it is started in, which must have the same path as the server's; its own rules count. When it is
    /// told to end it takes nothing new, and ends when what it runs has ended.
    #[cfg(feature = "serve")]
    Worker(WorkArgs),
    /// Make, list and remove the tokens that the server takes
    #[cfg(feature = "serve")]
    Token {
        #[command(subcommand)]
        command: Option<TokenCommand>,
    },
    /// Say who is told of questions while the server runs, each message signed
    ///
    /// By the scheme of the Standard Webhooks. What is told is what a list of questions shows, and a link to the page of the
    /// question; never true contents.
    #[cfg(feature = "serve")]
    Webhook {
        #[command(subcommand)]
        command: Option<WebhookCommand>,
    },
    /// Read, verify and export the book
    Book {
        #[command(subcommand)]
        command: Option<AuditCommand>,
    },
    /// Count calls, questions and answers, and show which rules ask most
    Stats(StatsArgs),
    /// Watch calls as they come, run, wait and end, whoever runs them; Ctrl-C ends it
    ///
    /// At a terminal it is drawn in place; elsewhere it is a line for each thing that happens. What a command prints is shown as
    /// it comes: no reviewer has seen it, so it is for your eyes only.
    Watch(WatchArgs),
    /// See the settings and where each comes from, and change your own
    Config {
        #[command(subcommand)]
        command: Option<ConfigCommand>,
    },
    /// Say how commands can be confined on this machine, what that is worth, and how to get more
    ///
    /// By trying: a harmless command is run in every way that there is. It also looks at the settings, the rules, the state directory,
    /// the book, the terminal and how you are told of questions. Exits with 1 when no way works or something is not well.
    Doctor,
    /// Stand in front of an agent: its settings name our gateway and hook, and its MCP servers move behind the gateway
    ///
    /// Without an agent, says which there are. Nothing else in the agent's files changes; `--undo` takes it back.
    Init(InitArgs),
    /// Stand between an editor and an agent that speak the Agent Client Protocol
    ///
    /// To be set as the agent's command in the editor. What the agent asks leave for is answered by policy, and what it writes through
    /// the editor is judged and recorded first; everything else passes as it is. It ends with the agent's own exit code.
    #[cfg(feature = "agent")]
    Acp(AcpArgs),
    /// Print what makes a shell complete commands, options and values
    ///
    /// bash: `byleave completions bash > ~/.local/share/bash-completion/completions/byleave`;
    /// zsh: `byleave completions zsh > _byleave` in a directory of $fpath;
    /// fish: `byleave completions fish > ~/.config/fish/completions/byleave.fish`.
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for every command
    Man(ManArgs),
}

#[derive(Debug, Group)]
pub(crate) struct CallArgs {
    /// The tool
    pub(crate) tool: String,
    /// The arguments: JSON, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) args: String,
    /// How much is asked [default: as set, confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// Say what would happen, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The conversation or task it is part of; its calls keep their order
    #[arg(long, default_value = "cli")]
    pub(crate) session: SessionId,
    /// The session whose sub-agent this one is; said once, and fixed from then on
    #[arg(long, value_name = "SESSION")]
    pub(crate) parent: Option<SessionId>,
    /// Who makes the call
    #[arg(long, default_value = "cli")]
    pub(crate) agent: AgentId,
    /// Why, in the words of who makes the call; shown to people as such
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// The id of the call: the same id is the same call, and is never run twice
    #[arg(long, value_name = "UUID")]
    pub(crate) id: Option<CallId>,
    /// Where questions go [default: as set, or terminal at a terminal, else none]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<AskArg>,
    /// How long it may take, where the tool does not say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub(crate) timeout_ms: Option<u64>,
}

#[derive(Debug, Group)]
pub(crate) struct ExplainArgs {
    /// The tool
    #[arg(conflicts_with = "command")]
    pub(crate) tool: Option<String>,
    /// The arguments: JSON, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) args: String,
    /// A shell command, as a tool of the class `bash` would run it
    #[arg(long, value_name = "TEXT")]
    pub(crate) command: Option<String>,
    /// Judge under the file of `--policy` alone: without the built-in rules, and without those of anyone else
    #[arg(long)]
    pub(crate) only: bool,
    /// Judge cases from standard input, one JSON object a line (`id`, `tool`, `input`, `rules`, `default`, `cwd`, `home`,
    /// `workspace`), and print one a line (`id`, `verdict`, `because`); under the built-in rules and those of each case
    #[arg(long, conflicts_with_all = ["tool", "command"])]
    pub(crate) batch: bool,
    /// How much is asked [default: as set, confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
}

/// Where questions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AskArg {
    /// To the person at this terminal
    Terminal,
    /// Into the book, to be answered with `byleave inbox`
    Inbox,
    /// Nowhere: what needs an answer is refused
    None,
}

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// Everything asks, reading included
    ConfirmAll,
    /// Sensitive, unknown and dangerous calls ask
    ConfirmSensitive,
    /// Only dangerous effects ask, and what could not be understood
    ConfirmDangerous,
    /// Nothing asks; what is denied stays denied
    Yolo,
    /// What would change something is denied, not asked about
    ReadOnly,
}

impl AskArg {
    /// As a setting has it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Inbox => "inbox",
            Self::None => "none",
        }
    }
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

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List the leaves, the newest first (the default)
    List,
    /// Make a leave count no longer
    Revoke {
        /// The leave
        id: String,
    },
}

#[derive(Debug, Group)]
pub(crate) struct ResumeArgs {
    /// Where questions go that come up on the way [default: as set, or terminal at a terminal, else inbox]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<AskArg>,
}

#[derive(Debug, Group)]
pub(crate) struct HaltArgs {
    /// Why
    #[arg(long, value_name = "TEXT", conflicts_with = "lift")]
    pub(crate) why: Option<String>,
    /// Let calls begin again
    #[arg(long)]
    pub(crate) lift: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_commands_are_well_formed() {
        super::Args::command().debug_assert();
    }
}
