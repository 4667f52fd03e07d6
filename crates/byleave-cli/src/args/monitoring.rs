//! What was typed of the commands that look at calls: `book log`, `stats`, `watch`.

use byleave::audit_log::CallState;
use byleave::core::id::{AgentId, SessionId};
use byleave::core::refusal::Code;
use clap::builder::PossibleValuesParser;
use clap::{Args as Group, ValueEnum};

use super::ListArgs;

/// The six outcomes, as the book has them.
const OUTCOMES: [&str; 6] = ["completed", "failed", "withheld", "refused", "rehearsed", "unknown"];

#[derive(Debug, Default, Group)]
pub(crate) struct LogArgs {
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// Of this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Of this agent, as lists name it; a sub-agent also by its own name
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// How far they have come; `--state` is where the book is kept
    #[arg(long = "is", value_enum, value_name = "STATE")]
    pub(crate) call_state: Option<CallStateArg>,
    /// With this outcome
    #[arg(long, value_parser = PossibleValuesParser::new(OUTCOMES))]
    pub(crate) outcome: Option<String>,
    /// Refused with this code; docs/refusals lists them
    #[arg(long, hide_possible_values = true, value_parser = PossibleValuesParser::new(codes()))]
    pub(crate) code: Option<String>,
    /// Received since then: a span as in `2h`, or a date as in `2026-03-01` or `2026-03-01T14:30`, in UTC
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Received before then, written the same way
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// With this in what they do, as the list shows it; small and capital letters are the same
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Only calls that a person was asked about
    #[arg(long)]
    pub(crate) asked: bool,
}

#[derive(Debug, Group)]
pub(crate) struct StatsArgs {
    /// Calls received since then: a span as in `2h`, or a date as in `2026-03-01` or `2026-03-01T14:30`, in UTC
    #[arg(long, value_name = "WHEN", default_value = "7d")]
    pub(crate) since: String,
    /// Calls received before then, written the same way
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// Of this session
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Of this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Of this agent
    #[arg(long)]
    pub(crate) agent: Option<AgentId>,
}

#[derive(Debug, Group)]
pub(crate) struct WatchArgs {
    /// Of this session
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Of this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Say how things stand, and end
    #[arg(long)]
    pub(crate) once: bool,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallStateArg {
    /// Can be driven on
    Open,
    /// Waits for a person
    Waiting,
    /// Has its outcome
    Settled,
    /// Its record is damaged
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
                    "`{}` takes `{id}` for its own, which holds for every command",
                    sub.get_name()
                );
            }
            check(sub, globals);
        }
    }

    #[test]
    fn no_command_takes_an_option_that_holds_for_all() {
        let command = crate::args::Args::command();
        let globals = command.get_arguments().filter(|argument| argument.is_global_set());
        let globals: Vec<String> = globals.map(|argument| argument.get_id().to_string()).collect();
        assert!(globals.contains(&"state".to_owned()));
        check(&command, &globals);
    }
}
