//! A view: everything that a book and its ledger show, so that before and after can be held against each other.

use byleave_core::act::{Act, Deed};
use byleave_core::chain::Line;
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::{CallId, SessionId, TenantId};
use byleave_core::leave::Leave;
use byleave_core::question::Answer;
use uuid::Uuid;

use super::Opened;
use crate::book::{CallFilter, CallItem, LeaveItem, Page, QuestionFilter, QuestionItem, Verification};
use crate::ledger::Content;
use crate::ledger::conformance::Flaw;
use crate::ledger::conformance::script::{NOW, QUESTION_MS, Script, Setting, act, give, leave};

const ALL: Page = Page::first(100);

/// Everything that can be seen.
#[derive(Debug, PartialEq)]
pub(super) struct View {
    calls: Vec<CallItem>,
    questions: Vec<QuestionItem>,
    leaves: Vec<LeaveItem>,
    standing: Vec<Leave>,
    /// While people still have time, and once they have not.
    drivable: [Vec<CallId>; 2],
    held_up_by: Vec<Option<CallId>>,
    records: Vec<(Vec<Line>, bool, Vec<Content>)>,
    acts: Vec<Act>,
    verification: Verification,
}

impl View {
    pub(super) async fn of(opened: &Opened) -> Result<Self, Flaw> {
        let Opened { ledger, book } = opened;
        let (tenant, session) = (TenantId::new("local")?, SessionId::new("s")?);
        let calls = book.calls(CallFilter::default(), ALL).await?;
        let mut records = Vec::new();
        for item in &calls {
            let kept = opened.kept(item.call).await?;
            records.push((kept.lines, kept.forgotten, book.contents(item.call).await?));
        }
        let mut held_up_by = Vec::new();
        for effect in [
            Effect::Write { path: "/w/a".into() },
            Effect::Read { path: "/w/b".into() },
            Effect::Read { path: "/w/c".into() },
            Effect::Unknown { why: "x".into() },
        ] {
            let (plan, stranger) =
                (Plan { effects: vec![effect], ..Plan::default() }, CallId::new(Uuid::now_v7()));
            held_up_by.push(ledger.held_up_by(&tenant, &session, stranger, &plan).await?);
        }
        let mut standing: Vec<Leave> = Vec::new();
        for leave in ledger.leaves(&tenant, Setting::default().tool, NOW).await? {
            standing.push((*leave).clone());
        }
        standing.sort_by_key(|leave| leave.id);
        Ok(Self {
            calls,
            questions: book.questions(QuestionFilter::default(), ALL).await?,
            leaves: book.leaves_given(&tenant, NOW).await?,
            standing,
            drivable: [ledger.drivable(NOW, 100).await?, ledger.drivable(NOW + QUESTION_MS, 100).await?],
            held_up_by,
            records,
            acts: book.acts().await?,
            verification: book.verify().await?,
        })
    }
}

/// A book with some of everything, part of it sealed. Returns a leave that is spent.
pub(super) async fn fill(opened: &Opened) -> Result<Leave, Flaw> {
    let in_session = |session| Setting { session, ..Setting::default() };
    let asks_to =
        |path: &str| Setting { effects: vec![Effect::Write { path: path.into() }], ..Setting::asking() };
    let ledger = &*opened.ledger;
    opened.finish(&mut Script::ready(in_session("done"))?).await?;
    opened.append(&mut Script::ready(in_session("ready"))?).await?;
    opened.append(&mut Script::beginning(in_session("busy"), ledger.owner())?).await?;

    // One waits, one was answered and has not begun, one was declined.
    opened.append(&mut Script::waiting(asks_to("/w/a"))?).await?;
    let mut answered = Script::waiting(asks_to("/w/b"))?;
    opened.append(&mut answered).await?;
    answered.answer(Answer::Yes { note: None })?;
    opened.append(&mut answered).await?;
    let mut declined = Script::waiting(asks_to("/w/c"))?;
    opened.append(&mut declined).await?;
    declined.answer(Answer::No { feedback: None })?;
    declined.settle()?;
    opened.append(&mut declined).await?;
    opened.book.seal().await?;

    let spent = Leave { uses_max: Some(1), ..leave() };
    let (standing, revoked) = (Leave { uses_max: Some(2), ..leave() }, leave());
    for leave in [&spent, &standing, &revoked] {
        give(ledger, in_session("leaves"), leave).await?;
    }
    for leave in [&spent, &standing] {
        opened.append(&mut Script::beginning(Setting::on_leave(leave), ledger.owner())?).await?;
    }
    act(ledger, "local", Deed::Revoke { leave: revoked.id }).await?;

    let mut forgotten = Script::ready(in_session("forgotten"))?;
    opened.finish(&mut forgotten).await?;
    let mut waits = Script::waiting(Setting { session: "forgotten", ..Setting::asking() })?;
    opened.append(&mut waits).await?;
    for call in [forgotten.call(), waits.call()] {
        opened.book.forget(call, "eve".into(), NOW).await?;
    }
    Ok(spent)
}
