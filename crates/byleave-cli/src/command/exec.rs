//! `byleave exec`: begins a shell call that a hook has prepared, and is the command from then on: its output, its exit code.
//!
//! What a command prints is passed on as it comes only where nobody reviews results; where somebody does, the agent gets what is
//! released, at the end. What ran on a copy first has printed already, and is shown when it counts.

use std::io::{self, Write as _};

use anyhow::Result;
use byleave::book::Book as _;
use byleave::core::id::CallId;
use byleave::event::Event;
use byleave::result::{CallResult, Ending, Standing};
use byleave_tools::in_its_own_words;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;

use crate::args::{Ask, Ticket};
use crate::ask::{drive, waive};
use crate::complaint::Complaint;
use crate::hook::Tickets;
use crate::house::House;
use crate::options::Options;
use crate::screen::{Screen, prose};
use crate::status::Status;

pub(crate) async fn run(typed: &Ticket, options: &Options, screen: &mut Screen) -> Result<Status> {
    let house = House::open_to_write(options)?;
    let call = typed.call;
    let unknown = || {
        Complaint::new(format!("no call {call} was prepared for an agent"))
            .hint("a hook prepares calls, and tells the agent what to run")
    };
    Tickets::of(options).find(call)?.ok_or_else(unknown)?;
    let kept = house.book.record(call).await?.ok_or_else(unknown)?;
    let heading = kept.record.heading().ok_or_else(unknown)?;
    if heading.tool != "bash" {
        return Err(Complaint::not_run(format!("call {call} is for the agent to do, not for a shell"))
            .hint("`byleave book show` says what was judged")
            .into());
    }
    if kept.record.attempts() > 0 {
        return Err(Complaint::not_run(format!("call {call} was begun before, and nothing runs twice"))
            .hint("make the call again")
            .into());
    }
    let options = options.at(heading.cwd.clone())?;
    let gate = house.gate(&options, &options.cwd, Ask::Inbox, options.chosen.gate())?;
    waive(&gate, &options).await?;
    let (over, is_over) = oneshot::channel::<()>();
    let streams = !gate.reviews_outputs();
    let printing = streams.then(|| tokio::spawn(print(gate.subscribe(), call, is_over)));
    let driven = drive(&gate, call, gate.resume(call), &options, screen).await;
    drop(over);
    let printed = match printing {
        Some(printing) => printing.await.unwrap_or(false),
        None => false,
    };
    match &driven.standing {
        Standing::Settled(result) => Ok(told(result, printed, screen)),
        _ => Err(Complaint::not_run("its result is held back until a person has looked at it")
            .hint("`byleave inbox` shows it")
            .into()),
    }
}

/// Passes on what is printed, line by line; says whether anything was.
async fn print(mut events: Receiver<Event>, call: CallId, mut is_over: oneshot::Receiver<()>) -> bool {
    let (mut line, mut any, mut over) = (String::new(), false, false);
    loop {
        let event = if over {
            match events.try_recv() {
                Ok(event) => Ok(event),
                Err(_) => break,
            }
        } else {
            tokio::select! {
                biased;
                event = events.recv() => event,
                _ = &mut is_over => { over = true; continue; }
            }
        };
        match event {
            Ok(Event::Printed { call: of, printed }) if of == call => {
                any = true;
                if printed.left_out > 0 {
                    line.push_str(&format!(
                        "\n[…{} bytes were printed too fast to be passed on]\n",
                        printed.left_out
                    ));
                }
                line.push_str(&printed.text);
                let whole = line.rfind('\n').map_or(0, |at| at + 1);
                let rest = line.split_off(whole);
                out(&in_its_own_words(&line));
                line = rest;
            }
            Err(RecvError::Closed) => break,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
        }
    }
    out(&in_its_own_words(&line));
    any
}

/// Ends as the command did.
fn told(result: &CallResult, printed: bool, screen: &mut Screen) -> Status {
    match &result.ending {
        Ending::Completed(output) | Ending::Failed(output) => {
            let text = result.text();
            if printed {
                let ours = text.split_inclusive('\n').filter(|line| line.starts_with("[byleave]"));
                ours.for_each(out);
            } else {
                out(&text);
            }
            let code = output.data.as_ref().and_then(|data| data.get("exit")).and_then(Value::as_u64);
            match (&result.ending, code) {
                (Ending::Completed(_), None) => Status::Completed,
                (_, Some(code)) => Status::Command(u8::try_from(code).unwrap_or(1)),
                (_, None) => {
                    let error = result.error().unwrap_or_else(|| "it failed".into());
                    screen.say(&prose(&format!("byleave: {error}")));
                    Status::NOT_RUN
                }
            }
        }
        Ending::Withheld(_) | Ending::Refused(_) | Ending::Unknown(_) | Ending::Rehearsed(_) => {
            let error = result.error().unwrap_or_else(|| "it did not run".into());
            screen.say(&prose(&format!("byleave: {error}")));
            Status::NOT_RUN
        }
    }
}

/// The command's own words, as they are: whoever reads them asked for the command. Nobody reading is nobody's fault.
fn out(text: &str) {
    let mut stdout = io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}
