//! The commands. Each has one file, with its arguments.

#[cfg(feature = "agent")]
mod acp;
#[cfg(feature = "agent")]
mod agent;
mod audit;
mod call;
mod completions;
mod config;
mod doctor;
mod exec;
mod explain;
mod gc;
mod halt;
mod hook;
mod inbox;
mod init;
mod log;
mod man;
mod mcp;
mod policy;
mod rehearse;
mod resume;
mod sandbox;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod status;
mod tools;
mod undo;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[cfg(feature = "agent")]
use self::acp::AcpArgs;
#[cfg(feature = "agent")]
use self::agent::AgentCommand;
use self::audit::AuditCommand;
use self::call::CallArgs;
use self::completions::CompletionsArgs;
use self::config::ConfigCommand;
use self::exec::HookTicketArgs;
use self::explain::ExplainArgs;
use self::gc::GcArgs;
use self::halt::HaltArgs;
use self::hook::HookCommand;
use self::inbox::InboxCommand;
use self::init::InitArgs;
use self::log::LogArgs;
use self::man::ManArgs;
use self::mcp::McpCommand;
use self::policy::PolicyCommand;
use self::rehearse::RehearseArgs;
use self::resume::ResumeArgs;
use self::sandbox::SandboxCommand;
#[cfg(feature = "serve")]
use self::serve::ServeCommandArgs;
use self::session::SessionCommand;
use self::tools::ToolsCommand;
use self::undo::UndoArgs;
use crate::args::GlobalArgs;
use crate::console::Console;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

/// The manual page ends with this text.
const EXIT_CODES: &str = "\
Exit codes:
  0    completed, a dry run was shown, or a person answered in the place of the tool
  1    failed: the tool reports a failure, the audit log does not verify, or commands cannot be confined here
  2    usage error, or an internal error, such as results that cannot be written
  3    refused, or the result is withheld; a code gives the reason
  4    waiting for a person, or for another call or process
  5    unknown: the call may or may not have taken effect; do not repeat it without checking
  130  aborted

With `--json`, standard output is exactly one JSON value, also after an error:
{\"error\": {\"message\": .., \"hint\": .., \"exit\": ..}}. Exceptions: `explain --batch`, `agent run` and `log follow` print one JSON value per line, and the
standard output of `sandbox exec` is that of the command.

You can shorten an id to its last characters, as lists show it, or to its first; at least four.";

/// Nothing happens but by your leave: a gate between an AI agent and the world.
#[derive(Debug, Parser)]
#[command(name = "byleave", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

/// A command. The hidden ones are for agents and scripts; the help text of the program lists them in one line.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// List, show and answer open questions
    Inbox {
        #[command(subcommand)]
        command: Option<InboxCommand>,
    },
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
        /// Call id [default: the newest call that changed files in this directory or a parent]
        call: Option<String>,
    },
    /// List, show, follow and count calls
    ///
    /// Without a command, lists the calls, newest first. The options select calls of that list.
    Log(LogArgs),
    /// Show a call's effects, the rules that match and the decision
    ///
    /// The call is not run.
    Explain(ExplainArgs),
    /// Show, check and suggest rules; list standing approvals
    Policy {
        #[command(subcommand)]
        command: Option<PolicyCommand>,
    },
    /// Refuse all calls until the halt is lifted
    ///
    /// Calls that already run continue to their end.
    Halt(HaltArgs),
    /// Verify, export and anchor the audit log; forget contents
    Audit {
        #[command(subcommand)]
        command: Option<AuditCommand>,
    },
    /// Configure an agent to use Byleave
    ///
    /// Installs the hook and the MCP gateway, and moves the agent's MCP servers behind the gateway. Nothing else in the agent's files
    /// changes, and `--undo` reverts it. Without an agent, at a terminal: finds the agents that are here, asks how careful to be, sets all
    /// of them up and checks them. Elsewhere: lists the known agents.
    Init(InitArgs),
    /// Check the sandbox and the installation on this machine
    ///
    /// Runs a harmless command with every sandbox backend, and shows which guarantees each gives and how to get more. Also checks the
    /// settings, the policy, the state directory, the audit log, the terminal, notifications and agents. Exits with 1 if no backend
    /// works or a check fails.
    Doctor,
    /// Show the settings and their sources, and edit your own
    Config {
        #[command(subcommand)]
        command: Option<ConfigCommand>,
    },
    /// Run a command in the sandbox
    Sandbox {
        #[command(subcommand)]
        command: SandboxCommand,
    },
    /// Chat with a model, or give it a task
    #[cfg(feature = "agent")]
    Agent {
        #[command(subcommand)]
        command: AgentCommand,
    },
    /// Run the HTTP server for calls, answers and the audit log
    ///
    /// Every request needs a token (`byleave serve token add`). Without TLS, the server listens on this machine only. Questions wait for an
    /// answer over HTTP or with `byleave inbox`.
    #[cfg(feature = "serve")]
    Serve(ServeCommandArgs),
    /// Make one call
    ///
    /// Prints the tool's output to stdout with control characters escaped. Use `--json` for the exact bytes. All other messages go
    /// to stderr.
    #[command(hide = true)]
    Call(CallArgs),
    /// List, show and search tools, and print their schemas
    #[command(hide = true)]
    Tools {
        #[command(subcommand)]
        command: Option<ToolsCommand>,
    },
    /// Set and show the parent and the limits of a session
    #[command(hide = true)]
    Session {
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// Continue calls that were answered, interrupted, or blocked
    #[command(hide = true)]
    Resume(ResumeArgs),
    /// Run the MCP gateway and manage MCP servers
    #[command(hide = true)]
    Mcp {
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Run an agent behind a proxy for the Agent Client Protocol
    ///
    /// Set this as the agent's command in the editor. The policy answers the agent's permission requests. File writes through the
    /// editor are evaluated and recorded first. Everything else passes unchanged. The exit code is that of the agent.
    #[command(hide = true)]
    #[cfg(feature = "agent")]
    Acp(AcpArgs),
    /// Evaluate calls of agents' built-in tools, for their hooks
    #[command(hide = true)]
    Hook {
        #[command(subcommand)]
        command: HookCommand,
    },
    /// Run a shell call that a hook has prepared
    ///
    /// Agents run this instead of their own command. The command runs confined. The output and the exit code are those of the
    /// command, or 125 if the command was not run.
    #[command(hide = true)]
    Exec(HookTicketArgs),
    /// Drop old before-images, and show the space that they take
    ///
    /// Before-images are kept for 30 days, and at least for 7 days. Until then `byleave undo` can restore them.
    #[command(hide = true)]
    Gc(GcArgs),
    /// Generate shell completions
    ///
    /// bash: `byleave completions bash > ~/.local/share/bash-completion/completions/byleave`;
    /// zsh: `byleave completions zsh > _byleave` in a directory of $fpath;
    /// fish: `byleave completions fish > ~/.config/fish/completions/byleave.fish`.
    #[command(hide = true)]
    Completions(CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    #[command(hide = true)]
    Man(ManArgs),
}

/// Checks whether a command must work even if a settings file does not load, so that one can find and fix it.
pub(crate) const fn works_without_settings(command: Option<&CliCommand>) -> bool {
    matches!(
        command,
        Some(
            CliCommand::Doctor
                | CliCommand::Completions(_)
                | CliCommand::Man(_)
                | CliCommand::Config { command: Some(ConfigCommand::Edit | ConfigCommand::Path) }
        )
    )
}

/// Runs the typed command. Without a command, shows the status.
pub(crate) async fn run(
    command: Option<CliCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let Some(command) = command else { return status::run(options, screen).await };
    match command {
        CliCommand::Inbox { command } => inbox::run(command, options, screen).await,
        CliCommand::Rehearse(typed) => rehearse::run(typed, options, screen).await,
        CliCommand::Undo(typed) => undo::run(typed, options, screen).await,
        CliCommand::Diff { call } => undo::diff(call.as_deref(), options, screen).await,
        CliCommand::Log(typed) => log::run(typed, options, screen).await,
        CliCommand::Explain(typed) => explain::run(&typed, options, screen).await,
        CliCommand::Policy { command } => policy::run(command, options, screen).await,
        CliCommand::Halt(typed) => halt::run(typed, options, screen).await,
        CliCommand::Audit { command } => audit::run(command, options, screen).await,
        CliCommand::Init(typed) => init::run(&typed, options, screen),
        CliCommand::Doctor => doctor::run(options, screen),
        CliCommand::Config { command } => config::run(command, options, screen),
        CliCommand::Sandbox { command } => sandbox::run(command, options, screen).await,
        #[cfg(feature = "agent")]
        CliCommand::Agent { command } => agent::run(command, options, screen).await,
        #[cfg(feature = "serve")]
        CliCommand::Serve(typed) => serve::run(typed, options, screen).await,
        CliCommand::Call(typed) => call::run(typed, options, screen).await,
        CliCommand::Tools { command } => tools::run(command, options, screen).await,
        CliCommand::Session { command } => session::run(command, options, screen).await,
        CliCommand::Resume(typed) => resume::run(&typed, options, screen).await,
        CliCommand::Mcp { command } => mcp::run(command, options, screen).await,
        #[cfg(feature = "agent")]
        CliCommand::Acp(typed) => acp::run(typed, options).await,
        CliCommand::Hook { command } => hook::run(command, options, screen).await,
        CliCommand::Exec(typed) => exec::run(&typed, options, screen).await,
        CliCommand::Gc(typed) => gc::run(&typed, options, screen),
        CliCommand::Completions(typed) => Ok(completions::run(&typed, screen)),
        CliCommand::Man(typed) => man::run(&typed, screen),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _, Parser as _};

    use super::{Args, CliCommand, SandboxCommand};

    fn check(command: &Command, globals: &[String]) {
        for sub in command.get_subcommands() {
            for argument in sub.get_arguments() {
                let (id, long) = (argument.get_id().as_str(), argument.get_long().unwrap_or_default());
                assert!(
                    !globals.iter().any(|global| global == id || global == long),
                    "`{}` redefines `{id}`, which is an option of every command",
                    sub.get_name()
                );
            }
            check(sub, globals);
        }
    }

    // Options after the first word belong to the command that is run, with `--` and without.
    #[test]
    fn the_words_of_a_command_need_no_separator() {
        let parse = |words: &[&str]| {
            let all = ["byleave", "--json"].iter().chain(words);
            Args::try_parse_from(all).unwrap().command.unwrap()
        };
        for separator in [&[][..], &["--"]] {
            let words =
                [&["sandbox", "exec", "--reach", "h"], separator, &["echo", "-n", "--json", "--help"]]
                    .concat();
            let CliCommand::Sandbox { command: SandboxCommand::Exec(typed) } = parse(&words) else {
                panic!("another command")
            };
            assert_eq!(typed.command, ["echo", "-n", "--json", "--help"]);
            assert_eq!(typed.reach, ["h"]);
            let words = [&["rehearse", "-y"], separator, &["rm", "-rf", "-y", "build"]].concat();
            let CliCommand::Rehearse(typed) = parse(&words) else { panic!("another command") };
            assert_eq!(typed.command, ["rm", "-rf", "-y", "build"]);
        }
    }

    #[test]
    fn the_commands_are_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn no_command_redefines_a_global_option() {
        let command = Args::command();
        let globals = command.get_arguments().filter(|argument| argument.is_global_set());
        let globals: Vec<String> = globals.map(|argument| argument.get_id().to_string()).collect();
        assert!(globals.contains(&"state".to_owned()));
        check(&command, &globals);
    }
}
