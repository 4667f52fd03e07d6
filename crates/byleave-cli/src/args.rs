//! The command line arguments. [`crate::resolved_options`] and the commands interpret them.

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
  0    completed, or a dry run was shown
  1    failed: the tool reports a failure, the audit log does not verify, or commands cannot be confined here
  2    usage error, or an internal error, such as results that cannot be written
  3    refused, or the result is withheld; a code gives the reason
  4    waiting for a person, or for another call or process
  5    unknown: the call may or may not have taken effect; do not repeat it without checking
  130  aborted

With `--json`, standard output is exactly one JSON value, also after an error:
{\"error\": {\"message\": .., \"hint\": .., \"exit\": ..}}. Exceptions: `explain --batch`, `run` and `watch` print one JSON value per line, and the
standard output of `sandbox exec` is that of the command.

You can shorten an id to its last characters, as lists show it, or to its first; at least four.";

/// Nothing happens but by your leave: a gate between an AI agent and the world.
#[derive(Debug, Parser)]
#[command(name = "byleave", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// The options of every command.
#[derive(Debug, Group)]
#[command(next_help_heading = "Options for every command")]
pub(crate) struct GlobalArgs {
    /// State directory [default: setting `state`, $XDG_STATE_HOME/byleave or ~/.local/state/byleave]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Additional policy file, besides the organisation's, yours and the project's
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Print results as JSON, exact and in a stable format
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use color. NO_COLOR, CLICOLOR_FORCE and TERM=dumb are respected [default: setting `color`, or auto]
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

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Make one call
    ///
    /// Prints the tool's output to stdout with control characters escaped. Use `--json` for the exact bytes. All other messages go
    /// to stderr.
    Call(CallArgs),
    /// Run a command on a copy, then keep or discard its changes
    ///
    /// The command runs confined, without network, on a copy of this directory. Nothing changes until you approve. `y` applies
    /// exactly the changes that you saw, without a second run, and `byleave undo` reverts them. The policy applies on the copy as
    /// well: denied effects do not happen there either.
    Rehearse(RehearseArgs),
    /// Undo the file changes of a call
    ///
    /// If a file was changed since the call, the undo stops, shows both versions and changes nothing, unless you add `--force`. An
    /// undo is itself a call, so it can be undone as well.
    Undo(UndoArgs),
    /// Show the file changes of a call, or of its rehearsal
    Diff {
        /// Call id
        call: String,
    },
    /// Run a task with a model and the tools of this machine
    ///
    /// Every turn and every call of the model goes through the gate and is recorded in the audit log. `byleave undo --session
    /// SESSION` undoes the file changes. Without a terminal, a call that needs an answer is refused. With `--ask inbox` the question
    /// stays in the inbox instead, and `--resume` continues the session later. With `--json`, each event is one line. Only one run
    /// at a time can work in a directory.
    #[cfg(feature = "agent")]
    Run(RunArgs),
    /// Chat with a model that uses the tools of this machine
    ///
    /// Opens a full screen with the model's messages, its calls and their output, and the questions for you. `/help` lists the
    /// commands. Every turn and every call goes through the gate and is recorded in the audit log. `--resume` continues an earlier
    /// or interrupted conversation where it stopped, and runs no call twice.
    #[cfg(feature = "agent")]
    Chat(ChatArgs),
    /// List personas and show their system prompts
    #[cfg(feature = "agent")]
    Persona {
        #[command(subcommand)]
        command: Option<PersonaCommand>,
    },
    /// List, search, show and export conversations with models
    #[cfg(feature = "agent")]
    History {
        #[command(subcommand)]
        command: Option<HistoryCommand>,
    },
    /// Show a call's effects, the rules that match and the decision
    ///
    /// The call is not run.
    Explain(ExplainArgs),
    /// List, show and search tools, and print their schemas
    Tools {
        #[command(subcommand)]
        command: Option<ToolsCommand>,
    },
    /// List, show and answer open questions
    Inbox {
        #[command(subcommand)]
        command: Option<InboxCommand>,
    },
    /// Show fleet health and repair its audit log
    #[cfg(feature = "fleet")]
    Fleet {
        #[command(subcommand)]
        command: FleetCommand,
    },
    /// List and revoke standing approvals
    Leaves {
        #[command(subcommand)]
        command: Option<ApprovalsCommand>,
    },
    /// Set and show the parent and the limits of a session
    Session {
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// Show, check, test and suggest policy rules
    Policy {
        #[command(subcommand)]
        command: Option<PolicyCommand>,
    },
    /// Continue calls that were answered, interrupted, or blocked
    Resume(ResumeArgs),
    /// Refuse all calls until the halt is lifted
    ///
    /// Calls that already run continue to their end.
    Halt(HaltArgs),
    /// Evaluate calls of agents' built-in tools, for their hooks
    Hook {
        #[command(subcommand)]
        command: HookCommand,
    },
    /// Run a shell call that a hook has prepared
    ///
    /// Agents run this instead of their own command. The command runs confined. The output and the exit code are those of the
    /// command, or 125 if the command was not run.
    Exec(HookTicketArgs),
    /// Run a command in the sandbox
    Sandbox {
        #[command(subcommand)]
        command: SandboxCommand,
    },
    /// Run the MCP gateway and manage MCP servers
    Mcp {
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Run the HTTP server for calls, answers and the audit log
    ///
    /// Every request needs a token (`byleave token add`). Without TLS, the server listens on this machine only. Questions wait for an
    /// answer over HTTP or with `byleave inbox`.
    #[cfg(feature = "serve")]
    Serve(ServeArgs),
    /// Execute calls of a remote server on this machine
    ///
    /// The server must use workers (`byleave serve --workers`). The worker opens the connection, so it needs no open port. It plans,
    /// rehearses and runs calls in its working directory, which must have the same path as the server's. The policy of the worker
    /// applies. On a signal it accepts no new calls, and exits when its running calls have ended. A second signal exits at once, with
    /// code 5.
    #[cfg(feature = "serve")]
    Worker(WorkArgs),
    /// Create, list and remove tokens for the server
    #[cfg(feature = "serve")]
    Token {
        #[command(subcommand)]
        command: Option<TokenCommand>,
    },
    /// Manage webhooks that are notified of new questions
    ///
    /// The server sends the notifications while it runs, and signs them as Standard Webhooks specifies. A notification has the
    /// question as lists show it and a link to its page, and never the contents of the call.
    #[cfg(feature = "serve")]
    Webhook {
        #[command(subcommand)]
        command: Option<WebhookCommand>,
    },
    /// Read, verify and export the audit log
    Book {
        #[command(subcommand)]
        command: Option<AuditCommand>,
    },
    /// Show statistics of calls, questions, answers and rules
    Stats(StatsArgs),
    /// Watch the calls of all processes live, until Ctrl-C
    ///
    /// A terminal shows a live view. Otherwise each event is one line. The output of running commands is shown before any reviewer
    /// has seen it, so it is for your eyes only.
    Watch(WatchArgs),
    /// Show the settings and their sources, and edit your own
    Config {
        #[command(subcommand)]
        command: Option<ConfigCommand>,
    },
    /// Check the sandbox and the installation on this machine
    ///
    /// Runs a harmless command with every sandbox backend, and shows which guarantees each gives and how to get more. Also checks the
    /// settings, the policy, the state directory, the audit log, the terminal, notifications and agents. Exits with 1 if no backend
    /// works or a check fails.
    Doctor,
    /// Configure an agent to use Byleave
    ///
    /// Installs the hook and the MCP gateway, and moves the agent's MCP servers behind the gateway. Nothing else in the agent's files
    /// changes, and `--undo` reverts it. Without an agent, lists the known agents.
    Init(InitArgs),
    /// Run an agent behind a proxy for the Agent Client Protocol
    ///
    /// Set this as the agent's command in the editor. The policy answers the agent's permission requests. File writes through the
    /// editor are evaluated and recorded first. Everything else passes unchanged. The exit code is that of the agent.
    #[cfg(feature = "agent")]
    Acp(AcpArgs),
    /// Generate shell completions
    ///
    /// bash: `byleave completions bash > ~/.local/share/bash-completion/completions/byleave`;
    /// zsh: `byleave completions zsh > _byleave` in a directory of $fpath;
    /// fish: `byleave completions fish > ~/.config/fish/completions/byleave.fish`.
    Completions(CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    Man(ManArgs),
}

#[derive(Debug, Group)]
pub(crate) struct CallArgs {
    /// Tool
    pub(crate) tool: String,
    /// Arguments: JSON, `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) args: String,
    /// How much is asked [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// Show what would happen, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Session of the call. Calls of a session run in order
    #[arg(long, default_value = "cli")]
    pub(crate) session: SessionId,
    /// Parent session. Cannot be changed later
    #[arg(long, value_name = "SESSION")]
    pub(crate) parent: Option<SessionId>,
    /// Name of the agent that makes the call
    #[arg(long, default_value = "cli")]
    pub(crate) agent: AgentId,
    /// Reason, in the words of the agent; shown in questions
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Id of the call. A call with the same id is never run twice
    #[arg(long, value_name = "UUID")]
    pub(crate) id: Option<CallId>,
    /// Where questions go [default: setting `ask`, or terminal if there is one, else none]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<AskArg>,
    /// Timeout for tools that set none [default: setting `call_timeout`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub(crate) timeout_ms: Option<u64>,
}

#[derive(Debug, Group)]
pub(crate) struct ExplainArgs {
    /// Tool
    #[arg(conflicts_with = "command")]
    pub(crate) tool: Option<String>,
    /// Arguments: JSON, `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) args: String,
    /// Shell command, explained as a call of a tool of class `bash`
    #[arg(long, value_name = "TEXT")]
    pub(crate) command: Option<String>,
    /// Use only the file of `--policy`; with `--batch`, only the rules of each case
    #[arg(long)]
    pub(crate) only: bool,
    /// Evaluate cases from stdin, one JSON object per line
    ///
    /// A case has `id`, `tool`, `input`, `rules`, `default`, `cwd`, `home` and `workspace`. It is evaluated with the built-in rules and
    /// its own. The output has one line per case, with `id`, `verdict` and `because`.
    #[arg(long, conflicts_with_all = ["tool", "command"])]
    pub(crate) batch: bool,
    /// How much is asked [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
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
    /// List the standing approvals, newest first (the default)
    List,
    /// Revoke a standing approval
    Revoke {
        /// Standing approval id
        id: String,
    },
}

#[derive(Debug, Group)]
pub(crate) struct ResumeArgs {
    /// Where new questions go [default: setting `ask`, or terminal if there is one, else inbox]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<AskArg>,
}

#[derive(Debug, Group)]
pub(crate) struct HaltArgs {
    /// Reason, recorded in the audit log [default: requested by NAME]
    #[arg(long, value_name = "TEXT", conflicts_with = "lift")]
    pub(crate) reason: Option<String>,
    /// Lift the halt, so that calls can start again
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
