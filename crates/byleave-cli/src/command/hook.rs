//! `byleave hook`: judges what an agent is about to do with a tool of its own, or serves those who ask that.

mod serve;

use std::io::Read as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use byleave_hook::{Answer, Dialect, Heard, INPUT_BYTES_MAX, Said, hear, say};
use tokio::sync::oneshot;

use crate::args::{self, Hook};
use crate::complaint::Complaint;
use crate::hook::Judge;
use crate::house::House;
use crate::options::Options;
use crate::screen::Screen;
use crate::status::Status;

/// How long it may take until an agent has said what it wants.
const LISTENS: Duration = Duration::from_secs(5);

pub(crate) async fn run(typed: Hook, options: &Options, screen: &mut Screen) -> Result<Status> {
    match (typed.dialect(), &typed) {
        (Some((dialect, judge)), _) => judge_one(dialect, judge, options, screen).await,
        (None, Hook::Serve(typed)) => serve::run(typed, options, screen).await,
        (None, _) => Ok(Status::Unusable),
    }
}

/// Judges one call by itself. Whatever goes wrong is a deny, and the agent reads it as one.
async fn judge_one(
    dialect: Dialect,
    typed: &args::Judge,
    options: &Options,
    screen: &mut Screen,
) -> Result<Status> {
    let patience = typed.patience_ms.unwrap_or(dialect.patience_ms());
    let deadline = Instant::now() + Duration::from_millis(Dialect::deadline_ms(patience));
    let heard = match listened(dialect).await {
        Ok(heard) => heard,
        Err(error) => return speak(screen, &denied(dialect, None, &error), &error),
    };
    let (own, options) = (heard.clone(), options.clone());
    // On a task of its own: if it breaks, that is a deny and no crash.
    let judged = tokio::spawn(async move {
        let house = House::open_or_make(&options)?;
        let workspace = own.workspace(&options.cwd);
        let program = std::env::current_exe().context("nobody knows where this program is")?;
        Judge::new(&house, &options, &workspace, &program)?.answer(dialect, &own, deadline).await
    });
    match judged.await.context("judging broke").and_then(|judged| judged) {
        Ok(answer) => {
            let said = say(dialect, Some(&heard), &answer);
            let error = match answer {
                Answer::Deny { why } => Complaint::refused(why).into(),
                _ => anyhow::anyhow!("it is let pass"),
            };
            speak(screen, &said, &error)
        }
        Err(error) => speak(screen, &denied(dialect, Some(&heard), &error), &error),
    }
}

async fn listened(dialect: Dialect) -> Result<Heard> {
    let (done, reading) = oneshot::channel();
    // A thread that nobody waits for: standard input may stay open for ever.
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let read = std::io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_end(&mut said).map(|_| said);
        // Whoever asked may have given up.
        drop(done.send(read));
    });
    let said =
        tokio::time::timeout(LISTENS, reading).await.context("the agent does not say what it wants")?;
    let said = said.context("reading broke")?.context("what the agent said cannot be read")?;
    if said.len() as u64 > INPUT_BYTES_MAX {
        return Err(Complaint::new("the call is too large to be judged").hint("make it smaller").into());
    }
    Ok(hear(dialect, &said).map_err(|unheard| {
        Complaint::new(unheard.to_string()).hint("this is for agents to start; see docs/guide/hooks.md")
    })?)
}

fn denied(dialect: Dialect, heard: Option<&Heard>, error: &anyhow::Error) -> Said {
    let hint = Complaint::hint_in(error).map(|hint| format!("; {hint}")).unwrap_or_default();
    say(dialect, heard, &Answer::Deny { why: format!("{error:#}{hint}") })
}

/// Leaves behind exactly what the agent reads.
fn speak(screen: &mut Screen, said: &Said, error: &anyhow::Error) -> Result<Status> {
    let status = if said.exit == 0 { Status::Completed } else { Status::Unusable };
    if screen.json() && status != Status::Completed {
        let hint = Complaint::hint_in(error).unwrap_or("`byleave inbox` and `byleave book log` say more");
        return Err(Complaint::new(format!("{error:#}")).hint(hint).into());
    }
    said.stderr.lines().for_each(|line| screen.say(&crate::screen::one_line(line)));
    if !said.stdout.is_empty() {
        screen.trusted(&said.stdout);
    }
    Ok(status)
}
