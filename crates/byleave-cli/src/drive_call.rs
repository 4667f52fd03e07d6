//! Drives a call while a person may press Ctrl-C.

use std::future::Future;
use std::path::Path;
use std::pin::pin;

use anyhow::Result;
use byleave_gate::approver::Reply;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::core::id::{CallId, QuestionId};
use byleave_gate::core::question::Question;
use byleave_gate::core::record::{Attempt, QuestionClosure};
use byleave_gate::gate::{Gate, SubmittedAnswer};
use byleave_gate::result::CallStatus;
use byleave_tools::CommandHost;
use tokio::signal::unix::{SignalKind, signal};

use crate::app_context::AppContext;
use crate::console::{Console, prose};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::hook::{self, TicketStore};
use crate::live_output::LiveReporter;
use crate::resolved_options::ResolvedOptions;
use crate::tool_catalog::{command_host, container_trust, workplace};

/// The status of a call, and whether Ctrl-C was pressed meanwhile.
pub(crate) struct DriveResult {
    pub(crate) call_status: CallStatus,
    pub(crate) interrupted: bool,
}

impl DriveResult {
    pub(crate) fn status(&self) -> ExitStatus {
        let status = ExitStatus::from_call_status(&self.call_status);
        if self.interrupted { status.interrupted() } else { status }
    }
}

/// Records the waived guarantees in the audit log before anything runs, whatever their origin.
pub(crate) async fn record_waivers(gate: &Gate, options: &ResolvedOptions) -> Result<()> {
    let mut waived = options.waived.clone();
    let mut why = format!("requested by {}", options.person.name);
    // Choosing a container waives what no engine gives.
    if let CommandHost::Container(engine) = command_host(options, Path::new(&options.cwd)) {
        waived.extend(engine.missing_guarantees().into_iter().map(|(guarantee, _)| guarantee));
        why.push_str(&format!("; commands run in a container of `{}`", engine.image));
    }
    let trusted = container_trust(options).waived();
    if !trusted.is_empty() && workplace(options, &options.cwd).has_no_namespaces() {
        waived.extend(trusted);
        why.push_str("; `container = \"trusted\"`: the container around Byleave is the outer wall");
    }
    if waived.is_empty() {
        return Ok(());
    }
    let names = waived.iter().map(|guarantee| guarantee.name().to_owned()).collect();
    gate.waive(&options.tenant, &options.person.name, names, &why).await?;
    Ok(())
}

/// Answers a question in the person's name and continues its call.
pub(crate) async fn answer_and_drive(
    (gate, house): (&Gate, &AppContext),
    question: &Question,
    reply: Reply,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<DriveResult> {
    let by = options.person.clone();
    let given = SubmittedAnswer { question: question.id, digest: question.digest(), reply, approver: by };
    let call = gate.answer(given).await.map_err(CliError::from)?;
    let work = async { follow_run(gate, house, hook::resume(gate, call, options).await, options).await };
    Ok(drive(gate, call, work, options, screen).await)
}

/// Waits while another process runs a call, and returns what came of it. It has started the call, because the answer reached it first.
///
/// A call that no process has started, and one that an agent starts, are left as they are: nobody knows when that will be.
pub(crate) async fn follow_run(
    gate: &Gate,
    house: &AppContext,
    mut status: CallStatus,
    options: &ResolvedOptions,
) -> CallStatus {
    while let CallStatus::RunningElsewhere { call } = status {
        let is_of_an_agent = TicketStore::new(options).find(call).is_ok_and(|ticket| ticket.is_some());
        let stored = house.audit_log.record(call).await.ok().flatten();
        let is_started =
            stored.is_some_and(|stored| matches!(stored.record.attempt(), Some(Attempt::Open(_))));
        if is_of_an_agent || !is_started {
            return status;
        }
        gate.wait_for_progress(&status).await;
        status = gate.resume(call).await;
    }
    status
}

/// Says how a question was answered, if it was, and by whom. Not escaped.
pub(crate) async fn closing_words(house: &AppContext, call: CallId, question: QuestionId) -> Option<String> {
    let stored = house.audit_log.record(call).await.ok().flatten()?;
    match stored.record.question_closure(question)? {
        QuestionClosure::Answered { answer, .. } => Some(answer.description()),
        QuestionClosure::Expired | QuestionClosure::ApproverFailed(_) => None,
    }
}

/// Waits for the work on a call. Ctrl-C cancels it; a second Ctrl-C exits at once.
pub(crate) async fn drive(
    gate: &Gate,
    call: CallId,
    work: impl Future<Output = CallStatus>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> DriveResult {
    // Ctrl-C is handled before the first step, because that step may show the question. Otherwise Ctrl-C at the question would
    // kill the program and leave the call open on its record.
    let Ok(mut keys) = signal(SignalKind::interrupt()) else {
        return DriveResult { call_status: work.await, interrupted: false };
    };
    let _live = LiveReporter::begin(gate, call, &options.state);
    let mut work = pin!(work);
    let mut interrupted = false;
    loop {
        // The work comes first, because a call that nobody has taken up yet cannot be cancelled.
        tokio::select! {
            biased;
            standing = &mut work => return DriveResult { call_status: standing, interrupted },
            _ = keys.recv() => {},
        }
        if interrupted {
            // The next process finds the open attempt and settles it as unknown.
            std::process::exit(ExitStatus::Aborted.code().into());
        }
        interrupted = true;
        screen.message("cancelling; press Ctrl-C again to exit at once");
        if let Err(fault) = gate.cancel(call, &options.person.name).await {
            screen.message(&prose(&format!("the call could not be cancelled: {fault}")));
        }
    }
}
