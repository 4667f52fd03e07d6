//! Executes a claimed attempt: once, within its time, stoppable, and never failing outward (E2, E3, T3).

use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_core::entry::Fact;
use byleave_core::id::{AttemptId, CallId};
use byleave_core::outcome::{End, EndStatus, Output};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::event::Event;
use crate::gate::desk::Desk;
use crate::gate::footing::{Performed, pinned, unreadable};
use crate::gate::parts::{Parts, site};
use crate::guard::{Caged, Panic, first_poll, message, payload};
use crate::ledger::{Interruption, LedgerFault};
use crate::pending::step_aside;
use crate::tool::{Progress, Run};

/// Runs the attempt if it is this drive's own; else finds out what has become of it.
pub(crate) async fn execute(parts: &Parts, desk: &mut Desk, attempt: AttemptId) -> Performed {
    if desk.mine.take() != Some(attempt) {
        return match parts.ledger.interrupt(desk.call(), attempt, parts.now()).await {
            Ok(Interruption::Written | Interruption::NotOpen) => Performed::LookAgain,
            Ok(Interruption::OwnerAlive) => Performed::Elsewhere,
            Err(fault) => {
                tracing::error!(call = %desk.call(), %fault, "cannot find out what has become of an attempt");
                Performed::Elsewhere
            }
        };
    }
    // What is on the record is marked as started where it runs; what may be run again needs no mark.
    if desk.is_durable()
        && let Err(fault) = parts.ledger.starting(desk.call(), attempt).await
    {
        return Performed::Fact(not_started(desk, attempt, &fault));
    }
    desk.ran = true;
    let started = Instant::now();
    let (status, mut output) = run(parts, desk).await;
    output.execution_time_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let limit = desk.terms().map_or(0, |terms| terms.limits.output_bytes);
    cut(&mut output, usize::try_from(limit).unwrap_or(usize::MAX));
    let end = End {
        status,
        ran_ms: output.execution_time_ms,
        truncated: output.truncated,
        undoable: output.undo.is_some(),
        output: desk.hold(&output),
    };
    Performed::Fact(Fact::Ended { attempt, end })
}

/// The end of an attempt whose start could not be marked: it failed before anything ran.
fn not_started(desk: &mut Desk, attempt: AttemptId, fault: &LedgerFault) -> Fact {
    let output = Output::failure(format!("it was not started: {fault}"));
    let (status, output) = (EndStatus::Failed, desk.hold(&output));
    Fact::Ended { attempt, end: End { status, output, ran_ms: 0, truncated: false, undoable: false } }
}

async fn run(parts: &Parts, desk: &mut Desk) -> (EndStatus, Output) {
    let unable = |why: String| (EndStatus::Failed, Output::failure(why));
    // All of this was read back when the attempt was claimed, so it is at hand.
    let (entry, site) = match (pinned(parts, desk), site(&desk.record)) {
        (Ok(entry), Some(site)) => (entry, site),
        (Err(refusal), _) => return unable(refusal.to_string()),
        (_, None) => return unable("the record does not begin with a call".into()),
    };
    let arguments = match desk.arguments(&*parts.ledger).await {
        Ok(arguments) => arguments,
        Err(fault) => return unable(unreadable(fault).to_string()),
    };
    let plan = match desk.plan(&*parts.ledger).await {
        Ok(plan) => plan,
        Err(fault) => return unable(unreadable(fault).to_string()),
    };
    let call = desk.call();
    let driving = parts.bustle.enter(call);
    // Told by us alone, once it is decided that the call is off: what a tool then has to say is no success.
    let stop = CancellationToken::new();
    let called_off = async {
        tokio::select! {
            () = driving.cancel.cancelled() => {}
            () = called_off_elsewhere(parts, call) => {}
        }
    };
    let events = parts.events.clone();
    let progress = Arc::new(move |progress: Progress| events.emit([Event::Progress { call, progress }]));
    let run = Run::new(call, site, plan, stop.clone(), progress);
    let tool = entry.tool().clone();
    let timeout = Duration::from_millis(desk.terms().map_or(0, |terms| terms.limits.timeout_ms));
    let is_prompt = tool.is_prompt();
    let mut work = Caged::new(async move { tool.execute((*arguments).clone(), run).await });
    if is_prompt && let Some(ended) = first_poll(&mut work).await {
        return judge(ended);
    }
    let leash =
        Leash { task: Some(tokio::spawn(work.in_current_span())), stop, grace: parts.settings.stop_grace };
    watch(leash, called_off, timeout).await
}

/// Waits until another process has written on the record that the call is off.
async fn called_off_elsewhere(parts: &Parts, call: CallId) {
    loop {
        parts.pause().await;
        match parts.ledger.load(call).await {
            Ok(Some(loaded)) if loaded.record.cancelled().is_some() => return,
            Ok(_) => {}
            Err(fault) => tracing::warn!(%call, %fault, "cannot see whether a running call was cancelled"),
        }
    }
}

/// A tool at work. Whoever lets go of it before it is done stops it.
struct Leash {
    task: Option<JoinHandle<Result<Output, Panic>>>,
    stop: CancellationToken,
    grace: Duration,
}

impl Leash {
    async fn ended(&mut self) -> Result<Output, Panic> {
        match &mut self.task {
            Some(task) => {
                let ended = task.await;
                self.task = None;
                ended.unwrap_or_else(|error| Err(payload(error)))
            }
            None => std::future::pending().await,
        }
    }

    /// A tool that listens ends its own children first; one that does not is dropped where it stands.
    async fn pull(mut self) -> Output {
        self.stop.cancel();
        if let Ok(ended) = tokio::time::timeout(self.grace, self.ended()).await {
            return ended.unwrap_or_default();
        }
        if let Some(task) = &self.task {
            task.abort();
        }
        // It is gone as soon as it lets go of its thread. One that blocks cannot be made to.
        match tokio::time::timeout(self.grace, self.ended()).await {
            Ok(ended) => ended.unwrap_or_default(),
            Err(_) => Output::text("[byleave] it does not stop; it may still be at work"),
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let Some(mut task) = self.task.take() else { return };
        self.stop.cancel();
        let grace = self.grace;
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                if tokio::time::timeout(grace, &mut task).await.is_err() {
                    task.abort();
                }
            })),
            Err(_) => task.abort(),
        }
    }
}

/// Waits for the tool, its time limit or a cancellation; and sees to it that the tool then really stops.
async fn watch(
    mut leash: Leash,
    called_off: impl Future<Output = ()>,
    timeout: Duration,
) -> (EndStatus, Output) {
    let stopped = async {
        // A tool that is done at once costs no timer.
        step_aside().await;
        tokio::select! {
            biased;
            () = called_off => (EndStatus::Stopped, "cancelled while it ran".to_owned()),
            () = tokio::time::sleep(timeout) => {
                (EndStatus::TimedOut, format!("timed out after {} ms and was stopped", timeout.as_millis()))
            }
        }
    };
    let (status, why) = tokio::select! {
        biased;
        ended = leash.ended() => return judge(ended),
        stopped = stopped => stopped,
    };
    let said = leash.pull().await;
    (status, Output { is_error: true, error: Some(why), ..said })
}

fn judge(ended: Result<Output, Panic>) -> (EndStatus, Output) {
    match ended {
        Ok(output) if output.is_error => {
            let error = output.error.clone().or_else(|| Some("the tool failed without saying why".into()));
            (EndStatus::Failed, Output { error, ..output })
        }
        Ok(output) => (EndStatus::Done, output),
        Err(broken) => {
            (EndStatus::Panicked, Output::failure(format!("the tool panicked: {}", message(broken))))
        }
    }
}

/// Cuts an output to its limit and marks it; what was cut is said where it was.
fn cut(output: &mut Output, limit: usize) {
    for text in [Some(&mut output.text), output.error.as_mut()].into_iter().flatten() {
        if text.len() > limit {
            let whole = text.len();
            text.truncate(text.floor_char_boundary(limit));
            text.push_str(&format!("\n[byleave] cut: {} of {whole} bytes shown", text.len()));
            output.truncated = true;
        }
    }
    if let Some(data) = &output.data {
        let bytes = data.to_string().len();
        if bytes > limit {
            output.data = None;
            output.truncated = true;
            output.text.push_str(&format!("\n[byleave] cut: structured data of {bytes} bytes left out"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: E3
    #[test]
    fn output_is_cut_at_a_character_and_marked() {
        let mut output = Output::text("aé".repeat(100));
        cut(&mut output, 4);
        assert!(output.truncated);
        assert_eq!(output.text, "aéa\n[byleave] cut: 4 of 300 bytes shown");
        let mut output = Output::text("short").with_data(serde_json::json!("x".repeat(100)));
        cut(&mut output, 50);
        assert!(output.truncated && output.data.is_none());
        let mut output = Output::text("short");
        cut(&mut output, 5);
        assert!(!output.truncated);
    }
}
