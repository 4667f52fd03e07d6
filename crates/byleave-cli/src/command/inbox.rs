//! `byleave inbox`: the open questions, and their answers.

mod answer;
mod held;
mod leave;

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use byleave::book::{Book as _, Page, QuestionFilter};
use byleave::core::offer::offers;
use byleave::core::question::QuestionKind;
use byleave::core::render::{LineRole, render};
use byleave::core::sheet::Seen;
use byleave_terminal::inbox::{self, Clerk, Left};
use serde_json::{Value, json};
use tokio::signal::ctrl_c;
use tokio::task::spawn_blocking;

use crate::args::{Ask, Inbox, List};
use crate::complaint::Complaint;
use crate::house::House;
use crate::ids::{self, short};
use crate::json;
use crate::options::Options;
use crate::person::{Behind, is_dumb, manner};
use crate::screen::{Screen, one_line};
use crate::show::table;
use crate::status::Status;
use crate::time::{now, span, utc};

pub(crate) async fn run(command: Option<Inbox>, options: &Options, screen: &mut Screen) -> Result<Status> {
    let Some(command) = command else {
        // At a terminal the questions are there to be answered; elsewhere they are listed.
        let is_seen = io::stdin().is_terminal() && io::stdout().is_terminal() && !screen.json();
        return match is_seen && !is_dumb() {
            true => sit(options).await,
            false => list(List::default(), options, screen).await,
        };
    };
    match command {
        Inbox::List(which) => list(which, options, screen).await,
        Inbox::Show { id } => show(&id, options, screen).await,
        Inbox::Answer { id, answer, digest } => {
            answer::run(&id, answer, digest.as_deref(), options, screen).await
        }
    }
}

/// The full screen, until the person leaves it.
async fn sit(options: &Options) -> Result<Status> {
    let house = House::open_or_make(options)?;
    let clerk: Arc<dyn Clerk> = Arc::new(Behind::new(options, &house));
    let manner = manner(options);
    let ends = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&ends);
    let shown = spawn_blocking(move || inbox::run(Path::new("/dev/tty"), &manner, &clerk, &ends));
    let mut shown = pin!(shown);
    let left = tokio::select! {
        left = &mut shown => left,
        _ = ctrl_c() => {
            heard.store(true, Ordering::Relaxed);
            shown.await
        }
    };
    Ok(match left.context("the inbox broke")?.context("the terminal broke")? {
        Left::Quit => Status::Completed,
        Left::Gone if !heard.load(Ordering::Relaxed) => Status::Completed,
        Left::Gone | Left::Aborted => Status::Aborted,
    })
}

async fn list(which: List, options: &Options, screen: &mut Screen) -> Result<Status> {
    let house = House::open_to_read(options, None)?;
    let filter = QuestionFilter { session: which.session, ..QuestionFilter::default() };
    let open = house.book.questions(filter, Page::first(which.limit)).await?;
    if screen.json() {
        screen.value(&open.iter().map(json::question_item).collect());
    } else if open.is_empty() {
        screen.say("no question is open");
    } else {
        let now = now();
        let rows: Vec<Vec<String>> = open
            .iter()
            .map(|item| {
                let left = item.expires_at.checked_sub(now).map_or_else(|| "too late".into(), span);
                vec![
                    short(&item.question),
                    format!("{} ago", span(now.saturating_sub(item.asked_at))),
                    left,
                    kind(item.kind).to_owned(),
                    one_line(&item.listing.agent),
                    one_line(&item.listing.tool),
                    one_line(&item.listing.summary),
                ]
            })
            .collect();
        table(screen, &["ID", "ASKED", "LEFT", "KIND", "AGENT", "TOOL", "WHAT"], &rows);
    }
    Ok(Status::Completed)
}

/// The question as everyone sees it: from the verified record, by the one renderer.
async fn show(id: &str, options: &Options, screen: &mut Screen) -> Result<Status> {
    let house = House::open_to_read(options, None)?;
    let question = ids::question(&house, id).await?;
    let gate = house.gate(options, &options.cwd, Ask::Inbox, options.chosen.gate())?;
    let sheet = gate.sheet(question).await.map_err(Complaint::from)?;
    let rendering = render(&sheet);
    if screen.json() {
        let mut value = json!(sheet);
        if let Value::Object(fields) = &mut value {
            fields.insert("question".into(), json::question(&sheet.question));
            fields.insert("rendering".into(), json!(rendering));
        }
        screen.value(&value);
        return Ok(Status::Completed);
    }
    let lines = rendering.wrapped(screen.columns().unwrap_or(usize::MAX));
    for line in &lines {
        match line.role {
            LineRole::Title => screen.title(&line.text),
            LineRole::Heading if line.gutter == 0 => {
                screen.line("");
                screen.title(&line.text);
            }
            LineRole::Expiry => {
                let at = sheet.question.expires_at;
                let left = at.checked_sub(now()).map_or_else(|| "too late".to_owned(), span);
                screen.line(&format!("  can be answered until {} (left: {left})", utc(at)));
            }
            _ => screen.line(&line.text),
        }
    }
    let id = short(&question);
    if rendering.complete && sheet.question.kind == QuestionKind::Release {
        screen.hint(&format!(
            "answer with `byleave inbox answer {id} release --digest {}`, or withhold, redact, edit, abort",
            sheet.question.digest().short()
        ));
    } else if rendering.complete {
        let confirm = if sheet.question.kind == QuestionKind::Checkpoint { " --confirm release" } else { "" };
        // Only of what was seen on a copy can a part be kept.
        let stands = matches!(&sheet.seen, Some(Seen::Ran { rehearsal, .. }) if rehearsal.stands());
        let part = if stands { "part, " } else { "" };
        let leave = if offers(&sheet).is_ok() { "leave, " } else { "" };
        screen.hint(&format!(
            "answer with `byleave inbox answer {id} yes{confirm} --digest {}`, or no, {part}edit, {leave}abort",
            sheet.question.digest().short()
        ));
    } else {
        screen.hint(&format!(
            "it cannot be shown in full, so it cannot be approved: `byleave inbox answer {id} no`"
        ));
    }
    Ok(Status::Completed)
}

const fn kind(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Approval => "approval",
        QuestionKind::Checkpoint => "checkpoint",
        QuestionKind::Release => "release",
    }
}
