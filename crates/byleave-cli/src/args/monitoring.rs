//! The arguments of `byleave book log`, `byleave stats` and `byleave watch`.

use byleave::audit_log::CallState;
use byleave::core::id::{AgentId, SessionId};
use byleave::core::refusal::Code;
use clap::builder::PossibleValuesParser;
use clap::{Args as Group, ValueEnum};

use super::ListArgs;

/// The six outcomes, as the audit log names them.
const OUTCOMES: [&str; 6] = ["completed", "failed", "withheld", "refused", "dry-run", "unknown"];

#[derive(Debug, Default, Group)]
pub(crate) struct LogArgs {
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// Only this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Only this agent, as named in lists; a sub-agent also by its own name
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only calls in this state (`--state` is the state directory)
    #[arg(long = "is", value_enum, value_name = "STATE")]
    pub(crate) call_state: Option<CallStateArg>,
    /// Only calls with this outcome
    #[arg(long, value_parser = PossibleValuesParser::new(OUTCOMES))]
    pub(crate) outcome: Option<String>,
    /// Only calls refused with this code (see docs/refusals)
    #[arg(long, hide_possible_values = true, value_parser = PossibleValuesParser::new(codes()))]
    pub(crate) code: Option<String>,
    /// Only calls received since: a duration, as in `2h`, or a UTC date, as in `2026-03-01` or `2026-03-01T14:30`
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only calls received before: same format as `--since`
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only calls with this text in their summary, as shown in the list (case-insensitive)
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Only calls that a person was asked about
    #[arg(long)]
    pub(crate) asked: bool,
}

#[derive(Debug, Group)]
pub(crate) struct StatsArgs {
    /// Only calls received since: a duration, as in `2h`, or a UTC date, as in `2026-03-01` or `2026-03-01T14:30`
    #[arg(long, value_name = "TIME", default_value = "7d")]
    pub(crate) since: String,
    /// Only calls received before: same format as `--since`
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only this session
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Only this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Only this agent
    #[arg(long)]
    pub(crate) agent: Option<AgentId>,
}

#[derive(Debug, Group)]
pub(crate) struct WatchArgs {
    /// Only this session
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Only this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Show the open calls once and exit
    #[arg(long)]
    pub(crate) once: bool,
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallStateArg {
    /// Can continue
    Open,
    /// Waiting for a person
    Waiting,
    /// Finished, with an outcome
    Settled,
    /// Record is damaged
    Damaged,
}

impl From<CallStateArg> for CallState {
    fn from(state: CallStateArg) -> Self {
        match state {
            CallStateArg::Open => Self::Open,
            CallStateArg::Waiting => Self::Waiting,
            CallStateArg::Settled => Self::Settled,
            CallStateArg::Damaged => Self::Damaged,
        }
    }
}

fn codes() -> Vec<&'static str> {
    Code::ALL.iter().map(|code| code.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

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

    #[test]
    fn no_command_redefines_a_global_option() {
        let command = crate::args::Args::command();
        let globals = command.get_arguments().filter(|argument| argument.is_global_set());
        let globals: Vec<String> = globals.map(|argument| argument.get_id().to_string()).collect();
        assert!(globals.contains(&"state".to_owned()));
        check(&command, &globals);
    }
}
