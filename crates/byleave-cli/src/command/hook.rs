//! `byleave hook`: evaluates a call that an agent is about to make with a tool of its own, or serves hooks that ask for it.

mod serve;

use std::io::Read as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use byleave_hook::{
    AgentKind, AgentVariables, HookDecision, HookOutput, HookRequest, MAX_INPUT_BYTES, format_response,
    parse_request,
};
use clap::{Args as Group, Subcommand};
#[cfg(target_os = "linux")]
use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::app_context::AppContext;
use crate::console::Console;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::hook::HookEvaluator;
use crate::resolved_options::ResolvedOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Evaluate one call of Claude Code
    ClaudeCode(HookArgs),
    /// Evaluate one call of Codex
    Codex(HookArgs),
    /// Evaluate one call of Gemini CLI
    Gemini(HookArgs),
    /// Evaluate one call of Cursor
    Cursor(HookArgs),
    /// Evaluate one call of Goose
    Goose(HookArgs),
    /// Evaluate one call of Copilot, in a terminal or in VS Code
    Copilot(HookArgs),
    /// Evaluate calls for all hooks in one process, until Ctrl-C
    ///
    /// Hooks connect to its socket in the state directory, which only you can open. Without it, every hook starts its own gate. It
    /// exits when the settings or the program have changed.
    Serve(HookServeArgs),
}

#[derive(Clone, Debug, Group)]
pub(crate) struct HookArgs {
    /// The agent's timeout for its hook, as configured there [default: that of the agent]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=86_400_000))]
    pub(crate) timeout_ms: Option<u64>,
}

#[derive(Debug, Group)]
pub(crate) struct HookServeArgs {
    /// Exit after this many seconds without a request
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(crate) idle_s: Option<u64>,
}

impl HookCommand {
    /// Returns the dialect and its arguments. Returns `None` for `serve`.
    pub(crate) const fn dialect(&self) -> Option<(AgentKind, &HookArgs)> {
        match self {
            Self::ClaudeCode(typed) => Some((AgentKind::ClaudeCode, typed)),
            Self::Codex(typed) => Some((AgentKind::Codex, typed)),
            Self::Gemini(typed) => Some((AgentKind::Gemini, typed)),
            Self::Cursor(typed) => Some((AgentKind::Cursor, typed)),
            Self::Goose(typed) => Some((AgentKind::Goose, typed)),
            Self::Copilot(typed) => Some((AgentKind::Copilot, typed)),
            Self::Serve(_) => None,
        }
    }
}

/// The time limit for reading the agent's request.
const LISTENS: Duration = Duration::from_secs(5);

pub(crate) async fn run(
    typed: HookCommand,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match (typed.dialect(), &typed) {
        (Some((dialect, judge)), _) => judge_one(dialect, judge, options, screen).await,
        (None, HookCommand::Serve(typed)) => serve::run(typed, options, screen).await,
        (None, _) => Ok(ExitStatus::Unusable),
    }
}

/// Evaluates one call by itself. Every failure is a deny, in the agent's format.
async fn judge_one(
    dialect: AgentKind,
    typed: &HookArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let timeout = typed.timeout_ms.unwrap_or(dialect.default_timeout_ms());
    let deadline = Instant::now() + Duration::from_millis(AgentKind::deadline_ms(timeout));
    let gone = hook_is_gone(deadline);
    let heard = match listened(dialect).await {
        Ok(heard) => heard,
        Err(error) => return speak(screen, &denied(dialect, None, &error), &error),
    };
    let (own, options) = (heard.clone(), options.clone());
    // A separate task, so that a panic becomes a deny and not a crash.
    let judged = tokio::spawn(async move {
        let house = AppContext::open_or_create(&options)?;
        let workspace = own.workspace(&options.cwd);
        let agent = AgentVariables::read(|name| std::env::var(name).ok());
        let program = std::env::current_exe().context("cannot determine the path of this program")?;
        HookEvaluator::new(&house, &options, &workspace, &program)?
            .answer(dialect, &own, &agent, deadline)
            .await
    });
    let judged = async {
        tokio::select! {
            judged = judged => judged,
            // Its mark stays, so the next process ends the call.
            () = gone => std::process::exit(2),
        }
    };
    match judged.await.context("the evaluation failed").and_then(|judged| judged) {
        Ok(answer) => {
            let said = format_response(dialect, Some(&heard), &answer);
            let error = match answer {
                HookDecision::Deny { reason: why } => CliError::refused(why).into(),
                _ => anyhow::anyhow!("the call is not denied"),
            };
            speak(screen, &said, &error)
        }
        Err(error) => speak(screen, &denied(dialect, Some(&heard), &error), &error),
    }
}

/// Waits until the hook that started this process is gone before the deadline. An agent kills only the hook, and a process that still waited
/// would keep a question open that nobody takes the answer of. A hook that ended because its own time was up has told its agent.
async fn hook_is_gone(deadline: Instant) {
    let Ok(mut ended) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    #[cfg(target_os = "linux")]
    if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
        tracing::debug!(%error, "this process may outlive its hook");
    }
    loop {
        ended.recv().await;
        if Instant::now() < deadline {
            return;
        }
    }
}

async fn listened(dialect: AgentKind) -> Result<HookRequest> {
    let (done, reading) = oneshot::channel();
    // A detached thread, because standard input may stay open forever.
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let read = std::io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut said).map(|_| said);
        // The receiver may have given up.
        drop(done.send(read));
    });
    let said = tokio::time::timeout(LISTENS, reading).await.context("the agent sent no request in time")?;
    let said =
        said.context("the reader of standard input failed")?.context("cannot read the agent's request")?;
    if said.len() as u64 > MAX_INPUT_BYTES {
        return Err(CliError::new("the call is too large to evaluate").hint("make the call smaller").into());
    }
    Ok(parse_request(dialect, &said).map_err(|unheard| {
        CliError::new(unheard.to_string()).hint("agents start this command; see docs/guide/hooks.md")
    })?)
}

fn denied(dialect: AgentKind, heard: Option<&HookRequest>, error: &anyhow::Error) -> HookOutput {
    let hint = CliError::hint_in(error).map(|hint| format!("; {hint}")).unwrap_or_default();
    format_response(dialect, heard, &HookDecision::Deny { reason: format!("{error:#}{hint}") })
}

/// Writes exactly the text that the agent reads.
fn speak(screen: &mut Console, said: &HookOutput, error: &anyhow::Error) -> Result<ExitStatus> {
    let status = if said.exit_code == 0 { ExitStatus::Completed } else { ExitStatus::Unusable };
    if screen.json() && status != ExitStatus::Completed {
        let hint = CliError::hint_in(error).unwrap_or("`byleave inbox` and `byleave log` show more");
        return Err(CliError::new(format!("{error:#}")).hint(hint).into());
    }
    said.stderr.lines().for_each(|line| screen.message(&crate::console::one_line(line)));
    if !said.stdout.is_empty() {
        screen.raw_text(&said.stdout);
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches as _};

    use super::*;

    // req: M2
    #[test]
    fn every_dialect_has_a_command_of_its_name() {
        let command = HookCommand::augment_subcommands(Command::new("hook"));
        for dialect in AgentKind::ALL {
            let typed = command.clone().try_get_matches_from(["hook", dialect.name()]).unwrap();
            let hook = HookCommand::from_arg_matches(&typed).unwrap();
            assert_eq!(hook.dialect().map(|(dialect, _)| dialect), Some(dialect));
        }
        // And `serve`. One more is a dialect that is not in `ALL`.
        assert_eq!(command.get_subcommands().count(), AgentKind::ALL.len() + 1);
    }
}
