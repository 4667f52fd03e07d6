//! A snapshot of everything that an audit log and its ledger show, to compare before and after.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::effect::{Effect, Plan};
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{CallId, SessionId, TenantId};
use byleave_core::question::Answer;
use byleave_core::standing_approval::StandingApproval;
use uuid::Uuid;

use super::OpenedStore;
use crate::ledger::ConformanceError;
use crate::ledger::record_script::{
    CallScript, NOW, QUESTION_MS, ScriptSettings, admin_action, grant_approval, standing_approval,
};
use byleave_gate::audit_log::{
    CallFilter, CallItem, PageRequest, QuestionFilter, QuestionItem, StandingApprovalItem, Verification,
};
use byleave_gate::ledger::RecordContent;

const ALL: PageRequest = PageRequest::with_limit(100);

/// Everything visible through the audit log and its ledger.
#[derive(Debug, PartialEq)]
pub(super) struct AuditLogView {
    calls: Vec<CallItem>,
    questions: Vec<QuestionItem>,
    standing_approvals: Vec<StandingApprovalItem>,
    usable_approvals: Vec<StandingApproval>,
    /// Before and after the questions expire.
    resumable_calls: [Vec<CallId>; 2],
    blocking_call: Vec<Option<CallId>>,
    records: Vec<(Vec<ChainedEntry>, bool, Vec<RecordContent>)>,
    admin_actions: Vec<AdminAction>,
    verification: Verification,
}

impl AuditLogView {
    pub(super) async fn capture(opened: &OpenedStore) -> Result<Self, ConformanceError> {
        let OpenedStore { ledger, audit_log: book } = opened;
        let (tenant, session) = (TenantId::new("local")?, SessionId::new("s")?);
        let calls = book.calls(CallFilter::default(), ALL).await?;
        let mut records = Vec::new();
        for item in &calls {
            let kept = opened.stored_call(item.call).await?;
            records.push((kept.chained_entries, kept.forgotten, book.contents(item.call).await?));
        }
        let mut held_up_by = Vec::new();
        for effect in [
            Effect::Write { path: "/w/a".into() },
            Effect::Read { path: "/w/b".into() },
            Effect::Read { path: "/w/c".into() },
            Effect::Unknown { reason: "x".into() },
        ] {
            let (plan, stranger) =
                (Plan { effects: vec![effect], ..Plan::default() }, CallId::new(Uuid::now_v7()));
            held_up_by.push(ledger.blocking_call(&tenant, &session, stranger, &plan, &[]).await?);
        }
        let mut standing: Vec<StandingApproval> = Vec::new();
        for leave in ledger.standing_approvals(&tenant, ScriptSettings::default().tool, NOW).await? {
            standing.push((*leave).clone());
        }
        standing.sort_by_key(|leave| leave.id);
        Ok(Self {
            calls,
            questions: book.questions(QuestionFilter::default(), ALL).await?,
            standing_approvals: book.list_standing_approvals(&tenant, NOW).await?,
            usable_approvals: standing,
            resumable_calls: [
                ledger.resumable_calls(NOW, 100).await?,
                ledger.resumable_calls(NOW + QUESTION_MS, 100).await?,
            ],
            blocking_call: held_up_by,
            records,
            admin_actions: book.admin_actions().await?,
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
    opened.audit_log.seal().await?;

    let spent = StandingApproval { max_uses: Some(1), ..standing_approval() };
    let (standing, revoked) =
        (StandingApproval { max_uses: Some(2), ..standing_approval() }, standing_approval());
    for leave in [&spent, &standing, &revoked] {
        grant_approval(ledger, in_session("leaves"), leave).await?;
    }
    for leave in [&spent, &standing] {
        opened
            .append(&mut CallScript::beginning(ScriptSettings::with_approval(leave), ledger.owner())?)
            .await?;
    }
    admin_action(ledger, "local", AdminActionKind::Revoke { standing_approval: revoked.id }).await?;

    let mut forgotten = CallScript::ready(in_session("forgotten"))?;
    opened.finish(&mut forgotten).await?;
    let mut waits = CallScript::waiting(ScriptSettings { session: "forgotten", ..ScriptSettings::asking() })?;
    opened.append(&mut waits).await?;
    for call in [forgotten.call(), waits.call()] {
        opened.audit_log.forget(call, "eve".into(), NOW).await?;
    }
    Ok(spent)
}
