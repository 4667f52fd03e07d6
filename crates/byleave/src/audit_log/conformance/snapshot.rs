//! A snapshot of everything that an audit log and its ledger show, to compare before and after.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::effect::{Effect, Plan};
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{CallId, SessionId, TenantId};
use byleave_core::question::Answer;
use byleave_core::standing_approval::StandingApproval;
use uuid::Uuid;

use super::OpenedStore;
use crate::audit_log::{
    CallFilter, CallItem, PageRequest, QuestionFilter, QuestionItem, StandingApprovalItem, Verification,
};
use crate::ledger::RecordContent;
use crate::ledger::conformance::ConformanceError;
use crate::ledger::conformance::record_script::{
    CallScript, NOW, QUESTION_MS, ScriptSettings, act, give, leave,
};

const ALL: PageRequest = PageRequest::first(100);

/// Everything visible through the audit log and its ledger.
#[derive(Debug, PartialEq)]
pub(super) struct AuditLogView {
    calls: Vec<CallItem>,
    questions: Vec<QuestionItem>,
    leaves: Vec<StandingApprovalItem>,
    standing: Vec<StandingApproval>,
    /// Before and after the questions expire.
    drivable: [Vec<CallId>; 2],
    held_up_by: Vec<Option<CallId>>,
    records: Vec<(Vec<ChainedEntry>, bool, Vec<RecordContent>)>,
    acts: Vec<AdminAction>,
    verification: Verification,
}

impl AuditLogView {
    pub(super) async fn of(opened: &OpenedStore) -> Result<Self, ConformanceError> {
        let OpenedStore { ledger, book } = opened;
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
        let mut standing: Vec<StandingApproval> = Vec::new();
        for leave in ledger.leaves(&tenant, ScriptSettings::default().tool, NOW).await? {
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

/// Fills an audit log with some of everything and seals part of it. Returns a spent standing approval.
pub(super) async fn fill(opened: &OpenedStore) -> Result<StandingApproval, ConformanceError> {
    let in_session = |session| ScriptSettings { session, ..ScriptSettings::default() };
    let asks_to = |path: &str| ScriptSettings {
        effects: vec![Effect::Write { path: path.into() }],
        ..ScriptSettings::asking()
    };
    let ledger = &*opened.ledger;
    opened.finish(&mut CallScript::ready(in_session("done"))?).await?;
    opened.append(&mut CallScript::ready(in_session("ready"))?).await?;
    opened.append(&mut CallScript::beginning(in_session("busy"), ledger.owner())?).await?;

    // One waits, one was answered and has not begun, one was declined.
    opened.append(&mut CallScript::waiting(asks_to("/w/a"))?).await?;
    let mut answered = CallScript::waiting(asks_to("/w/b"))?;
    opened.append(&mut answered).await?;
    answered.answer(Answer::Yes { note: None })?;
    opened.append(&mut answered).await?;
    let mut declined = CallScript::waiting(asks_to("/w/c"))?;
    opened.append(&mut declined).await?;
    declined.answer(Answer::No { feedback: None })?;
    declined.settle()?;
    opened.append(&mut declined).await?;
    opened.book.seal().await?;

    let spent = StandingApproval { uses_max: Some(1), ..leave() };
    let (standing, revoked) = (StandingApproval { uses_max: Some(2), ..leave() }, leave());
    for leave in [&spent, &standing, &revoked] {
        give(ledger, in_session("leaves"), leave).await?;
    }
    for leave in [&spent, &standing] {
        opened.append(&mut CallScript::beginning(ScriptSettings::on_leave(leave), ledger.owner())?).await?;
    }
    act(ledger, "local", AdminActionKind::Revoke { leave: revoked.id }).await?;

    let mut forgotten = CallScript::ready(in_session("forgotten"))?;
    opened.finish(&mut forgotten).await?;
    let mut waits = CallScript::waiting(ScriptSettings { session: "forgotten", ..ScriptSettings::asking() })?;
    opened.append(&mut waits).await?;
    for call in [forgotten.call(), waits.call()] {
        opened.book.forget(call, "eve".into(), NOW).await?;
    }
    Ok(spent)
}
