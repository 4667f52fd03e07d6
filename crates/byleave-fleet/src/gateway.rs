//! Being the gateway of a fleet: one process at a time, because only it knows which workers live.
//!
//! Who is it says so every second. Another takes its place once it has watched that for a whole lease and seen nothing move: a
//! clock is only ever held against itself. Whoever has not been heard by the engine for half a lease must not say of anybody that
//! they are gone, for another may know better by now. A process that was started again where it ran before need not watch: two
//! never run in one directory.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use byleave_gate::ledger::LedgerError;
use byleave_worker::uptime;
use uuid::Uuid;

use crate::engine::Engine;
use crate::wire::{Candidate, Holder};

/// For how long one who says nothing is watched before its place is taken.
const LEASE: Duration = Duration::from_secs(10);
const BEAT: Duration = Duration::from_secs(1);
/// For how long an engine is waited for that is away when a gateway starts: both may have been started together.
const ENGINE_PATIENCE: Duration = Duration::from_secs(30);

/// The gateway of a fleet, for as long as it is that.
pub struct Gateway {
    engine: Engine,
    name: String,
    me: Candidate,
    held: Held,
    /// Locked.
    _place: File,
}

/// What a gateway waits for before it serves anybody.
#[derive(Debug)]
pub enum Awaited<'a> {
    /// Another is the gateway.
    Place,
    /// The engine does not answer, and why.
    Engine(&'a LedgerError),
}

/// When the engine was last told, and heard it. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Held(Arc<Mutex<Option<Duration>>>);

impl Held {
    /// Whether nobody else can be the gateway.
    pub fn is_sure(&self) -> bool {
        let at = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        at.is_some_and(|at| uptime().saturating_sub(at) < LEASE / 2)
    }
}

impl Gateway {
    pub(crate) fn new(engine: Engine, name: String, dir: &Path) -> Result<Self, LedgerError> {
        let (place, file) =
            place(dir).map_err(|error| LedgerError::new(format!("cannot use `{}`", dir.display()), error))?;
        let me = Candidate { id: Uuid::now_v7(), place, over: None };
        Ok(Self { engine, name, me, held: Held(Arc::default()), _place: file })
    }

    /// Says whether nobody else can be the gateway, also once this was moved elsewhere.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Becomes the gateway, once nobody else is. Says once what it waits for.
    pub async fn take(&self, wait: impl FnOnce(Awaited<'_>)) -> Result<(), LedgerError> {
        let mut wait = Some(wait);
        let since = uptime();
        let mut watched: Option<(Holder, Duration)> = None;
        loop {
            let now = uptime();
            let gone = watched.as_ref().filter(|(holder, since)| {
                // Of this very directory, which we have locked.
                holder.place == self.me.place || now.saturating_sub(*since) >= LEASE
            });
            let over = gone.map(|(holder, _)| holder.clone());
            let is_quick = over.is_some();
            let other = match self.hold(over).await {
                Ok(None) => return Ok(()),
                Ok(Some(other)) => other,
                Err(fault) if uptime().saturating_sub(since) >= ENGINE_PATIENCE => return Err(fault),
                Err(fault) => {
                    wait.take().into_iter().for_each(|wait| wait(Awaited::Engine(&fault)));
                    tokio::time::sleep(BEAT).await;
                    continue;
                }
            };
            if other.place != self.me.place
                && let Some(wait) = wait.take()
            {
                wait(Awaited::Place);
            }
            if watched.as_ref().is_none_or(|(holder, _)| *holder != other) {
                let again = other.place == self.me.place && !is_quick;
                watched = Some((other, uptime()));
                if again {
                    continue;
                }
            }
            tokio::time::sleep(BEAT).await;
        }
    }

    /// Stays the gateway; comes back when another is.
    pub async fn keep(&self) -> LedgerError {
        loop {
            tokio::time::sleep(BEAT).await;
            match self.hold(None).await {
                Ok(None) => {}
                Ok(Some(_)) => {
                    let why = "this one was not heard for too long, and another has taken its place";
                    return LedgerError::new("cannot go on as the gateway of the fleet", why);
                }
                // The engine is away, for others as for us.
                Err(fault) => tracing::warn!(%fault, "the engine does not hear that the gateway is there"),
            }
        }
    }

    /// Gives the place up, so that nobody waits for it.
    pub async fn leave(self) -> Result<(), LedgerError> {
        *self.held.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.engine.ask("Gateway", &self.name, "leave", &self.me.id).await
    }

    /// Holds the place; says whose it is where it is another's.
    async fn hold(&self, over: Option<Holder>) -> Result<Option<Holder>, LedgerError> {
        // Before it is said: it may take a while to be heard.
        let at = uptime();
        let hold = Candidate { over, ..self.me.clone() };
        let holder: Holder = self.engine.ask("Gateway", &self.name, "hold", &hold).await?;
        let is_me = holder.id == self.me.id;
        *self.held.0.lock().unwrap_or_else(PoisonError::into_inner) = is_me.then_some(at);
        Ok((!is_me).then_some(holder))
    }
}

/// The name of a directory, and that nobody else is the gateway there for as long as the file is open.
fn place(dir: &Path) -> io::Result<(Uuid, File)> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let path = dir.join("gateway");
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(io::Error::other(
                "a gateway runs there already; another wants a state directory of its own",
            ));
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    if let Ok(place) = text.trim().parse() {
        return Ok((place, file));
    }
    let place = Uuid::now_v7();
    file.set_len(0)?;
    file.write_all(place.to_string().as_bytes())?;
    file.sync_all()?;
    Ok((place, file))
}
