//! Cases on the tree of sessions: a place is taken once, under an existing parent, and never changes.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::call::Mode;
use byleave_core::id::{AgentId, SessionId, TenantId};
use byleave_core::pattern::Pattern;
use byleave_core::session::{Ceiling, SessionNode, opening_action_id};

use super::record_script::NOW;
use super::{ConformanceError, LedgerHarness, ensure, race, same};
use byleave_gate::ledger::{Ledger, LedgerError};

fn opening(session: &str, parent: Option<&str>) -> Result<SessionNode, ConformanceError> {
    let ceiling =
        Ceiling { deny: vec![Pattern::Write("/w/**".into())], ..Ceiling::from_mode(Mode::ReadOnly) };
    Ok(SessionNode {
        session: SessionId::new(session)?,
        parent: parent.map(SessionId::new).transpose()?,
        agent: AgentId::new(format!("agent-{session}"))?,
        ceiling,
    })
}

fn open_act(tenant: &str, opening: &SessionNode) -> Result<AdminAction, ConformanceError> {
    let tenant = TenantId::new(tenant)?;
    let id = opening_action_id(&tenant, &opening.session);
    Ok(AdminAction {
        id,
        at: NOW,
        tenant,
        actor: "ada".into(),
        kind: AdminActionKind::OpenSession(opening.clone()),
    })
}

async fn open(
    ledger: &dyn Ledger,
    tenant: &str,
    opening: &SessionNode,
) -> Result<Result<(), LedgerError>, ConformanceError> {
    Ok(ledger.record_admin_action(open_act(tenant, opening)?).await)
}

async fn lineage(
    ledger: &dyn Ledger,
    tenant: &str,
    session: &str,
) -> Result<Vec<SessionNode>, ConformanceError> {
    Ok(ledger.lineage(&TenantId::new(tenant)?, &SessionId::new(session)?).await?)
}

pub(super) async fn a_session_keeps_the_place_it_took(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let (one, other) = (bench.open().await?, bench.open().await?);
    same("before", &lineage(&*one, "local", "main").await?, &vec![])?;
    let (main, child) = (opening("main", None)?, opening("child", Some("main"))?);
    let grandchild = opening("grandchild", Some("child"))?;
    for opening in [&main, &child, &grandchild] {
        open(&*one, "local", opening).await??;
    }
    let all = vec![grandchild, child, main.clone()];
    for ledger in [&*one, &*other] {
        same("everyone above", &lineage(ledger, "local", "grandchild").await?, &all)?;
        same("at the top", &lineage(ledger, "local", "main").await?, &vec![main.clone()])?;
        same("another tenant", &lineage(ledger, "other", "grandchild").await?, &vec![])?;
    }
    // No other parent, no missing parent, no other ceiling, and no cycle.
    let mut free = opening("child", Some("main"))?;
    free.ceiling = Ceiling::from_mode(Mode::Yolo);
    for again in [
        opening("child", None)?,
        opening("child", Some("grandchild"))?,
        free,
        opening("main", Some("child"))?,
    ] {
        let taken = open(&*other, "local", &again).await?;
        ensure!(taken.is_err(), "the session was opened again: {again:?}");
    }
    same("afterwards", &lineage(&*one, "local", "grandchild").await?, &all)
}

pub(super) async fn a_parent_must_be_there(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    open(&*ledger, "other", &opening("main", None)?).await??;
    for (wrong, why) in [
        (opening("child", Some("main"))?, "a parent of another tenant"),
        (opening("child", Some("child"))?, "its own parent"),
        (
            SessionNode {
                ceiling: Ceiling { ask: vec![Pattern::Read("[".into())], ..Ceiling::default() },
                ..opening("child", None)?
            },
            "a ceiling that cannot be read",
        ),
    ] {
        let taken = open(&*ledger, "local", &wrong).await?;
        ensure!(taken.is_err(), "{why}: it was taken");
        same(why, &lineage(&*ledger, "local", "child").await?, &vec![])?;
    }
    // With a freely chosen id, a session could be opened twice.
    let strange = AdminAction {
        id: open_act("local", &opening("x", None)?)?.id,
        ..open_act("local", &opening("child", None)?)?
    };
    ensure!(ledger.record_admin_action(strange).await.is_err(), "an opening under another id was taken");
    Ok(())
}

pub(super) async fn a_tree_outlives_a_restart(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let (main, child) = (opening("main", None)?, opening("child", Some("main"))?);
    open(&*ledger, "local", &main).await??;
    open(&*ledger, "local", &child).await??;
    drop(ledger);
    bench.restart().await?;
    let ledger = bench.open().await?;
    same("everyone above", &lineage(&*ledger, "local", "child").await?, &vec![child, main])
}

pub(super) async fn racing_openings_give_one_place(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    for name in ["a", "b"] {
        open(&*ledger, "local", &opening(name, None)?).await??;
    }
    let mut runners = Vec::new();
    for parent in ["a", "b", "a", "b"] {
        let ledger = bench.open().await?;
        let mut opening = opening("child", Some(parent))?;
        opening.agent = AgentId::new(format!("agent-{}", runners.len()))?;
        let act = open_act("local", &opening)?;
        runners.push(async move { ledger.record_admin_action(act).await.is_ok().then_some(opening) });
    }
    let won: Vec<SessionNode> = race(runners).await?.into_iter().flatten().collect();
    let [won] = won.as_slice() else { return Err(ConformanceError::new(format!("{} took it", won.len()))) };
    same("who won", &lineage(&*ledger, "local", "child").await?.first(), &Some(won))
}
