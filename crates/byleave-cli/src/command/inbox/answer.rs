//! `byleave inbox answer`: gives an answer, and drives just that call on.

use std::path::PathBuf;

use anyhow::Result;
use byleave::approve::Reply;
use byleave::core::question::QuestionKind;
use byleave::core::render::render;
use byleave::core::sheet::{Seen, Sheet};
use byleave::gate::{AnswerFault, GivenAnswer};
use byleave::ledger::Ledger as _;
use serde_json::Value;

use super::digest::digest_of;
use super::{held, leave};
use crate::args::{Answer, Ask};
use crate::ask::{drive, waive};
use crate::command::call::json as typed_json;
use crate::complaint::Complaint;
use crate::hook;
use crate::house::House;
use crate::ids;
use crate::json;
use crate::options::{Options, text_of};
use crate::screen::Screen;
use crate::show;
use crate::status::Status;
use crate::time::now;

/// What a person types to pass a checkpoint.
const RELEASE: &str = "release";

pub(super) async fn run(
    id: &str,
    answer: Answer,
    digest: Option<&str>,
    options: &Options,
    screen: &mut Screen,
) -> Result<Status> {
    if let Answer::Leave { offer, scope, preview, .. } = &answer
        && (*preview || offer.is_none() && scope.is_empty())
    {
        return leave::look(id, &answer, digest, options, screen).await;
    }
    let house = House::open_to_write(options)?;
    let id = ids::question(&house, id).await?;
    let call = house.book.call_of(id).await?;
    let call = call.ok_or(AnswerFault::NoSuchQuestion(id)).map_err(Complaint::from)?;
    let workspace = house.workspace_of(call).await?;
    // What comes up on the way, after an edit for one, goes where this question was.
    let gate = house.gate(options, &workspace, Ask::Inbox, options.chosen.gate())?;
    waive(&gate, options).await?;
    let sheet = gate.sheet(id).await.map_err(Complaint::from)?;
    let given = GivenAnswer {
        question: id,
        digest: digest_of(&sheet.question, digest)?,
        reply: reply(answer, &sheet)?,
        by: options.person.clone(),
    };
    let leave = match &given.reply {
        Reply::Leave(leave) => Some(leave.clone()),
        _ => None,
    };
    let call = gate.answer(given).await.map_err(Complaint::from)?;
    if let Some(leave) = &leave {
        leave::tell(leave, &sheet, screen);
    }
    let driven = drive(&gate, call, hook::resume(&gate, call, options), options, screen).await;
    match leave.filter(|_| screen.json()) {
        Some(given) => {
            let mut value = json::standing(&driven.standing);
            if let Value::Object(fields) = &mut value {
                fields.insert("leave".into(), json::leave(&given, now()));
            }
            screen.value(&value);
        }
        None => show::standing(screen, &driven.standing),
    }
    Ok(driven.status())
}

/// The paths that are kept, seen from the directory of the call.
fn parts(typed: &[PathBuf], sheet: &Sheet) -> Result<Vec<String>> {
    if !matches!(sheet.seen, Some(Seen::Ran { .. })) {
        let whole = Complaint::new("it was not run on a copy, so there are no parts of it to keep");
        return Err(whole.hint("answer the whole: yes, no, or edit").into());
    }
    let part = |path: &PathBuf| {
        let path = text_of(path)?;
        let wrong = || Complaint::new(format!("nothing was changed at `{path}`"));
        let part = sheet.part(&path).ok_or_else(wrong);
        Ok(part.map_err(|wrong| wrong.hint("`byleave diff` lists the paths that were"))?)
    };
    typed.iter().map(part).collect()
}

fn reply(answer: Answer, sheet: &Sheet) -> Result<Reply> {
    let approves = matches!(
        answer,
        Answer::Yes { .. }
            | Answer::Part { .. }
            | Answer::Leave { .. }
            | Answer::Release { .. }
            | Answer::Redact { .. }
    );
    if approves && !render(sheet).complete {
        let refused = Complaint::refused("the question cannot be shown in full, so it cannot be approved");
        return Err(refused.hint("say no, or give smaller arguments with `edit`").into());
    }
    Ok(match answer {
        Answer::Yes { note, confirm } => {
            released(sheet.question.kind, confirm.as_deref())?;
            Reply::Yes { note }
        }
        Answer::No { feedback } => Reply::No { feedback },
        Answer::Part { paths, note } => Reply::Part { paths: parts(&paths, sheet)?, note },
        Answer::Edit { args, note } => Reply::Edit { value: typed_json("--args", &args)?, note },
        Answer::Leave { .. } => Reply::Leave(leave::typed(&answer, sheet)?),
        Answer::Release { note } => held::release(sheet, note)?,
        Answer::Withhold { feedback } => held::withhold(sheet, feedback)?,
        Answer::Redact { text, note } => held::redact(sheet, &text, note)?,
        Answer::Abort => Reply::Abort,
    })
}

/// A yes typed in passing releases nothing: a checkpoint wants the word.
fn released(kind: QuestionKind, confirm: Option<&str>) -> Result<(), Complaint> {
    if kind != QuestionKind::Checkpoint || confirm == Some(RELEASE) {
        return Ok(());
    }
    Err(Complaint::new("this is a checkpoint: what it lets pass cannot be taken back")
        .hint(format!("if you are sure: `yes --confirm {RELEASE}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: R8
    #[test]
    fn a_checkpoint_wants_the_word() {
        assert!(released(QuestionKind::Checkpoint, None).is_err());
        assert!(released(QuestionKind::Checkpoint, Some("yes")).is_err());
        assert!(released(QuestionKind::Checkpoint, Some("release")).is_ok());
        assert!(released(QuestionKind::Approval, None).is_ok());
    }
}
