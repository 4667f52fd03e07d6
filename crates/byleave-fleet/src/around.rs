//! What stands around a call that comes in: halts, leaves, who is above its session, who waits in it.
//!
//! Calls of one tenant that come in together are looked around for together: while one look is under way, whoever comes waits for
//! the next. A look begins only after everyone who shares it has come in, so nobody is told of a time before.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use byleave_core::admin_action::AdminAction;
use byleave_core::id::{SessionId, TenantId};
use byleave_core::session::SessionNode;
use byleave_core::standing_approval::{ANY_TOOL, StandingApproval};
use byleave_gate::ledger::LedgerError;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, try_join_all};
use lru::LruCache;

use crate::engine::Engine;
use crate::keys;
use crate::wire::{Looked, Looking};

/// So many tenants have a place to wait in; of the others each looks alone.
const TENANTS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1_023);

/// Who looks, and who waits for the next look.
pub(crate) struct Looks {
    rooms: Mutex<LruCache<TenantId, WaitingRoom>>,
}

/// Those of one tenant.
#[derive(Default)]
struct WaitingRoom {
    /// Held by who looks.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The look that has not begun yet.
    next: Option<(Arc<Mutex<Wanted>>, Look)>,
}

type Look = Shared<BoxFuture<'static, Result<Arc<Seen>, Arc<LedgerError>>>>;

/// What those want to know who share a look.
#[derive(Default)]
struct Wanted {
    sessions: BTreeSet<SessionId>,
    tools: BTreeSet<String>,
}

/// What was seen for all of them.
pub(crate) struct Seen {
    pub(crate) halt: Option<AdminAction>,
    sessions: HashMap<SessionId, (Vec<SessionNode>, bool)>,
    leaves: HashMap<String, Vec<Arc<StandingApproval>>>,
}

impl Seen {
    /// Those above a session, and whether someone waits in it.
    pub(crate) fn of_session(&self, session: &SessionId) -> Result<(Vec<SessionNode>, bool), LedgerError> {
        self.sessions.get(session).cloned().ok_or_else(unseen)
    }

    /// The leaves for a tool.
    pub(crate) fn leaves(
        &self,
        tool: &str,
    ) -> Result<impl Iterator<Item = &Arc<StandingApproval>>, LedgerError> {
        let of = |tool: &str| self.leaves.get(tool).map(|leaves| leaves.iter()).ok_or_else(unseen);
        Ok(of(tool)?.chain(of(ANY_TOOL)?))
    }
}

fn unseen() -> LedgerError {
    LedgerError::new("cannot look around for a call", "what was asked for was not answered")
}

impl Looks {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { rooms: Mutex::new(LruCache::new(TENANTS_MAX)) })
    }

    /// Looks around for a call, together with others that have come in by then.
    pub(crate) async fn look(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        ledger: &str,
        (tenant, session, tool): (&TenantId, &SessionId, &str),
    ) -> Result<Arc<Seen>, LedgerError> {
        let look = {
            let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
            let room = rooms.get_or_insert_mut(tenant.clone(), WaitingRoom::default);
            let (wanted, look) = room.next.get_or_insert_with(|| {
                let wanted = Arc::<Mutex<Wanted>>::default();
                let look = Arc::clone(self).begin(
                    (Arc::clone(engine), ledger.to_owned(), tenant.clone()),
                    Arc::clone(&room.turn),
                    Arc::clone(&wanted),
                );
                (wanted, look.boxed().shared())
            });
            let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
            wanted.sessions.insert(session.clone());
            wanted.tools.extend([tool.to_owned(), ANY_TOOL.to_owned()]);
            look.clone()
        };
        look.await.map_err(|fault| LedgerError::new(fault.operation.clone(), &fault.reason))
    }

    /// Waits for the look before it, and then looks for all who have come meanwhile.
    async fn begin(
        self: Arc<Self>,
        (engine, ledger, tenant): (Arc<Engine>, String, TenantId),
        turn: Arc<tokio::sync::Mutex<()>>,
        wanted: Arc<Mutex<Wanted>>,
    ) -> Result<Arc<Seen>, Arc<LedgerError>> {
        let _turn = turn.lock().await;
        let wanted = {
            // Under the lock: who comes from now on must not join what has begun.
            let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(room) = rooms.get_mut(&tenant)
                && room.next.as_ref().is_some_and(|(next, _)| Arc::ptr_eq(next, &wanted))
            {
                room.next = None;
            }
            std::mem::take(&mut *wanted.lock().unwrap_or_else(PoisonError::into_inner))
        };
        see(&engine, &ledger, &tenant, wanted).await.map(Arc::new).map_err(Arc::new)
    }
}

/// Looks at everything at once, so that it takes no longer than one of them.
async fn see(engine: &Engine, ledger: &str, tenant: &TenantId, wanted: Wanted) -> Result<Seen, LedgerError> {
    let sessions: Vec<SessionId> = wanted.sessions.into_iter().collect();
    let mut parts: HashMap<String, Vec<&SessionId>> = HashMap::new();
    for session in &sessions {
        parts.entry(keys::holds(ledger, tenant, session)).or_default().push(session);
    }
    let looking = Looking { tenant: tenant.clone(), sessions: sessions.clone() };
    let tenant_key = keys::tenant(ledger, tenant);
    let crowds = parts.into_iter().map(|(key, sessions)| async move {
        let crowded: Vec<bool> = engine.ask("Holds", &key, "are_crowded", &sessions).await?;
        if crowded.len() != sessions.len() {
            return Err(unseen());
        }
        Ok(sessions.into_iter().zip(crowded).collect::<Vec<_>>())
    });
    let leaves = wanted.tools.into_iter().map(|tool| {
        let key = keys::leaves(ledger, tenant, &tool);
        async move {
            let leaves: Vec<StandingApproval> = engine.ask("Leaves", &key, "list", &()).await?;
            Ok((tool, leaves.into_iter().map(Arc::new).collect()))
        }
    });
    let (looked, crowds, leaves) = tokio::try_join!(
        engine.ask::<Looked>("Tenant", &tenant_key, "look", &looking),
        try_join_all(crowds),
        try_join_all(leaves)
    )?;
    if looked.lineages.len() != sessions.len() {
        return Err(unseen());
    }
    let crowded: HashMap<&SessionId, bool> = crowds.into_iter().flatten().collect();
    let stand = |(session, lineage): (&SessionId, Vec<SessionNode>)| {
        let is_crowded = crowded.get(session).copied().ok_or_else(unseen)?;
        Ok((session.clone(), (lineage, is_crowded)))
    };
    let sessions = sessions.iter().zip(looked.lineages).map(stand).collect::<Result<_, LedgerError>>()?;
    Ok(Seen { halt: looked.halt, sessions, leaves: leaves.into_iter().collect() })
}
