//! Drives a call with a person at hand who may press Ctrl-C.

use std::future::Future;
use std::pin::pin;

use anyhow::Result;
use byleave::approve::Reply;
use byleave::core::id::CallId;
use byleave::core::question::Question;
use byleave::gate::{Gate, GivenAnswer};
use byleave::result::Standing;
use tokio::signal::unix::{SignalKind, signal};

use crate::complaint::Complaint;
use crate::hook;
use crate::live::Live;
use crate::options::Options;
use crate::screen::{Screen, prose};
use crate::status::Status;

/// How far a call came, and whether someone pressed Ctrl-C meanwhile.
pub(crate) struct Driven {
    pub(crate) standing: Standing,
    pub(crate) interrupted: bool,
}

impl Driven {
    pub(crate) fn status(&self) -> Status {
        let status = Status::of(&self.standing);
        if self.interrupted { status.interrupted() } else { status }
    }
}

/// Writes down what commands will run without, however it was said: in the book before anything runs.
pub(crate) async fn waive(gate: &Gate, options: &Options) -> Result<()> {
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
    options: &Options,
    screen: &mut Screen,
) -> Result<Driven> {
    let by = options.person.clone();
    let given = GivenAnswer { question: question.id, digest: question.digest(), reply, by };
    let call = gate.answer(given).await.map_err(Complaint::from)?;
    Ok(drive(gate, call, hook::resume(gate, call, options), options, screen).await)
}

/// Waits for the work on a call. Ctrl-C calls it off; pressed again, we leave at once.
pub(crate) async fn drive(
    gate: &Gate,
    call: CallId,
    work: impl Future<Output = Standing>,
    options: &Options,
    screen: &mut Screen,
) -> Driven {
    // Listened for before the work's first step: that step may show the question, and the key that answers it must not
    // find a program that dies of it with the call still open in the book.
    let Ok(mut keys) = signal(SignalKind::interrupt()) else {
        return Driven { standing: work.await, interrupted: false };
    };
    let _live = Live::begin(gate, call, &options.state);
    let mut work = pin!(work);
    let mut interrupted = false;
    loop {
        // The work first: a call that nobody has taken up yet could not be called off.
        tokio::select! {
            biased;
            standing = &mut work => return Driven { standing, interrupted },
            _ = keys.recv() => {},
        }
        if interrupted {
            // An attempt that is left so is found open and settled as unknown by whoever comes next.
            std::process::exit(Status::Aborted.code().into());
        }
        interrupted = true;
        screen.say("calling it off; Ctrl-C again leaves at once");
        if let Err(fault) = gate.cancel(call, &options.person.name).await {
            screen.say(&prose(&format!("it could not be called off: {fault}")));
        }
    }
}
