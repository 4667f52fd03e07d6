//! Drives a call with a person at hand who may press Ctrl-C.

use std::future::Future;
use std::pin::pin;

use anyhow::Result;
use byleave::approver::Reply;
use byleave::core::id::CallId;
use byleave::core::question::Question;
use byleave::gate::{Gate, SubmittedAnswer};
use byleave::result::CallStatus;
use tokio::signal::unix::{SignalKind, signal};

use crate::console::{Console, prose};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::hook;
use crate::live_output::LiveReporter;
use crate::resolved_options::ResolvedOptions;

/// How far a call came, and whether someone pressed Ctrl-C meanwhile.
pub(crate) struct DriveResult {
    pub(crate) standing: CallStatus,
    pub(crate) interrupted: bool,
}

impl DriveResult {
    pub(crate) fn status(&self) -> ExitStatus {
        let status = ExitStatus::of(&self.standing);
        if self.interrupted { status.interrupted() } else { status }
    }
}

/// Writes down what commands will run without, however it was said: in the book before anything runs.
pub(crate) async fn waive(gate: &Gate, options: &ResolvedOptions) -> Result<()> {
    if options.waived.is_empty() {
        return Ok(());
    }
    let names = options.waived.iter().map(|guarantee| guarantee.name().to_owned()).collect();
    let why = format!("{} said so", options.person.name);
    gate.waive(&options.tenant, &options.person.name, names, &why).await?;
    Ok(())
}

/// Answers a question as who is here, and drives its call on.
pub(crate) async fn answered(
    gate: &Gate,
    question: &Question,
    reply: Reply,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<DriveResult> {
    let by = options.person.clone();
    let given = SubmittedAnswer { question: question.id, digest: question.digest(), reply, by };
    let call = gate.answer(given).await.map_err(CliError::from)?;
    Ok(drive(gate, call, hook::resume(gate, call, options), options, screen).await)
}

/// Waits for the work on a call. Ctrl-C calls it off; pressed again, we leave at once.
pub(crate) async fn drive(
    gate: &Gate,
    call: CallId,
    work: impl Future<Output = CallStatus>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> DriveResult {
    // Listened for before the work's first step: that step may show the question, and the key that answers it must not
    // find a program that dies of it with the call still open in the book.
    let Ok(mut keys) = signal(SignalKind::interrupt()) else {
        return DriveResult { standing: work.await, interrupted: false };
    };
    let _live = LiveReporter::begin(gate, call, &options.state);
    let mut work = pin!(work);
    let mut interrupted = false;
    loop {
        // The work first: a call that nobody has taken up yet could not be called off.
        tokio::select! {
            biased;
            standing = &mut work => return DriveResult { standing, interrupted },
            _ = keys.recv() => {},
        }
        if interrupted {
            // An attempt that is left so is found open and settled as unknown by whoever comes next.
            std::process::exit(ExitStatus::Aborted.code().into());
        }
        interrupted = true;
        screen.say("calling it off; Ctrl-C again leaves at once");
        if let Err(fault) = gate.cancel(call, &options.person.name).await {
            screen.say(&prose(&format!("it could not be called off: {fault}")));
        }
    }
}
