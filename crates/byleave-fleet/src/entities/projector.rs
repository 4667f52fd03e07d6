//! A lane into the book: which calls and acts of a ledger it has not acknowledged, and one message that sees to them.
//!
//! A call says once that it owes something, and says it again only after everything was acknowledged. What is owed stands in the
//! lane's own state until the book has it, not in the engine's queues: so a book that is away costs one short try now and then
//! for each lane, however much waits, holds nobody's slot, and how far it is behind can be read off. The lane has no clock:
//! times are those of the entries.

use std::sync::Arc;
use std::time::Duration;

use byleave_core::admin_action::AdminAction;
use byleave_core::call::Millis;
use byleave_core::id::CallId;
use restate_sdk::prelude::*;

use super::call::CallEntityClient;
use super::{broken, drop_handle};
use crate::books::Books;
use crate::keys::{self, short, unshort};
use crate::projection::{Came, Parcel, bring};
use crate::wire::{Acknowledged, Behind, Owed, Owing};

/// A message that sees to what is owed is on its way.
const GOING: &str = "going";
/// How often in a row the book was away.
const TRIES: &str = "tries";
/// What begins a name: a call that owes lines, an act that is owed, something that the book has refused.
const CALL: char = 'c';
const ACT: char = 'a';
const REFUSED: char = 'x';

/// So much is brought at once.
const TOGETHER_MAX: usize = 64;
/// So many calls are asked at once, and no more once they have said so much.
const ASKED_MAX: usize = 8;
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// What is said within this time goes together: most calls are over by then, and owe all of it at once.
const GATHER: Duration = Duration::from_millis(50);
/// A book that was away is left alone for so long, and for twice as long each time, up to a limit.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// So many of those that were refused are named.
const NAMED_MAX: usize = 20;

/// A lane into the book.
pub(crate) struct ProjectorEntity {
    books: Option<Arc<Books>>,
}

impl ProjectorEntity {
    pub(crate) const fn new(books: Option<Arc<Books>>) -> Self {
        Self { books }
    }
}

#[restate_sdk::object(
    name = "Projector",
    journal_retention = "0s",
    idempotency_retention = "0s",
    lazy_state = true,
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl ProjectorEntity {
    /// A call owes the book lines.
    #[handler(ingress_private = true)]
    async fn owes(&self, ctx: ObjectContext<'_>, owing: Json<Owing>) -> HandlerResult<()> {
        let Owing { call, since } = owing.into_inner();
        ctx.set(&name(CALL, since, &call.uuid()), Vec::<u8>::new());
        go(&ctx).await
    }

    /// An act is owed to the book.
    #[handler(ingress_private = true)]
    async fn owes_act(&self, ctx: ObjectContext<'_>, act: Json<AdminAction>) -> HandlerResult<()> {
        ctx.set(&name(ACT, act.0.at, &act.0.id.uuid()), act);
        go(&ctx).await
    }

    /// Brings what is owed into the book, the oldest first; comes back for what is left.
    #[handler(ingress_private = true)]
    async fn bring(&self, ctx: ObjectContext<'_>, _this: Json<()>) -> HandlerResult<()> {
        let ledger = keys::ledger_of(ctx.key()).ok_or_else(|| broken("cannot read a key", ctx.key()))?;
        let names = ctx.get_keys().await?;
        let refused: Vec<String> = names.iter().filter(|name| name.starts_with(REFUSED)).cloned().collect();
        // What was refused once, and was sent again and taken, is refused no longer.
        let done = |waits: &Waits| {
            ctx.clear(&waits.name);
            let refusal = refusal(waits);
            if refused.contains(&refusal) {
                ctx.clear(&refusal);
            }
        };
        let waiting = waiting(names);
        let gathered = gather(&ctx, &ledger, &waiting).await?;
        let (mut names, mut marks, mut parcels) = (Vec::new(), Vec::new(), Vec::new());
        let is_more = gathered.len() < waiting.len();
        for (waits, found) in gathered {
            match found {
                Ok(Some(parcel)) => {
                    names.push(waits);
                    marks.push(acknowledgement(&parcel));
                    parcels.push(parcel);
                }
                // Everything was brought on another way.
                Ok(None) => done(waits),
                Err(why) => refuse(&ctx, waits, &why),
            }
        }
        let books = self.books.clone();
        let of = ledger.clone();
        let came = ctx.run(|| async move { Ok(Json(bring(books.as_deref(), &of, parcels).await)) });
        let came: Vec<Came> = came.name("bring").await?.into_inner();
        let mut away = None;
        for ((waits, mark), came) in names.into_iter().zip(marks).zip(came) {
            let call = |call: CallId| ctx.object_client::<CallEntityClient<'_>>(keys::call(&ledger, call));
            match (came, mark) {
                (Came::Taken, Some((of, acknowledged))) => {
                    done(waits);
                    drop_handle(call(of).acknowledged(Json(acknowledged)).send());
                }
                (Came::Taken, None) => done(waits),
                (Came::Gap, Some((of, _))) => {
                    ctx.clear(&waits.name);
                    drop_handle(call(of).again(Json(())).send());
                }
                (Came::Gap, None) => refuse(&ctx, waits, "an act has nothing before it"),
                (Came::Refused(why), _) => refuse(&ctx, waits, &why),
                (Came::Away(why), _) => away = Some(why),
            }
        }
        go_on(&ctx, away, is_more).await
    }

    /// Sees to what is owed, also where the message that should is lost.
    #[handler]
    async fn wake(&self, ctx: ObjectContext<'_>, _this: Json<()>) -> HandlerResult<Json<()>> {
        ctx.clear(GOING);
        go(&ctx).await?;
        Ok(Json(()))
    }

    /// How far the book is behind.
    #[handler]
    async fn behind(&self, ctx: SharedObjectContext<'_>, _this: Json<()>) -> HandlerResult<Json<Behind>> {
        let names = ctx.get_keys().await?;
        let mut refused = Vec::new();
        for name in names.iter().filter(|name| name.starts_with(REFUSED)).take(NAMED_MAX) {
            refused.extend(ctx.get::<String>(name).await?);
        }
        let waiting = waiting(names);
        let since = waiting.first().map(|waits| waits.since);
        Ok(Json(Behind { waiting: waiting.len() as u64, since, refused }))
    }
}

/// Something that waits, under the name that it stands in the state with.
struct Waits {
    name: String,
    since: Millis,
    kind: char,
    id: uuid::Uuid,
}

fn name(kind: char, since: Millis, id: &uuid::Uuid) -> String {
    format!("{kind}.{since:x}.{}", short(id))
}

/// What waits, the oldest first.
fn waiting(names: Vec<String>) -> Vec<Waits> {
    let read = |name: String| {
        let mut parts = name.splitn(3, '.');
        let kind = match parts.next()? {
            "c" => CALL,
            "a" => ACT,
            _ => return None,
        };
        let since = Millis::from_str_radix(parts.next()?, 16).ok()?;
        let id = unshort(parts.next()?)?;
        Some(Waits { name, since, kind, id })
    };
    let mut waiting: Vec<Waits> = names.into_iter().filter_map(read).collect();
    waiting.sort_unstable_by_key(|waits| (waits.since, waits.id));
    waiting
}

/// What some of those who wait owe; `None` where it is nothing any more, and why where nobody can say.
async fn gather<'a>(
    ctx: &ObjectContext<'_>,
    ledger: &str,
    waiting: &'a [Waits],
) -> Result<Vec<(&'a Waits, Result<Option<Parcel>, String>)>, HandlerError> {
    let (mut gathered, mut bytes) = (Vec::new(), 0_usize);
    for some in waiting.get(..TOGETHER_MAX.min(waiting.len())).unwrap_or_default().chunks(ASKED_MAX) {
        if bytes >= BYTES_MAX {
            break;
        }
        let asked: Vec<_> = some
            .iter()
            .map(|waits| {
                let call = CallId::new(waits.id);
                let asks = || ctx.object_client::<CallEntityClient<'_>>(keys::call(ledger, call));
                (waits, (waits.kind == CALL).then(|| (call, asks().owed(Json(())).call())))
            })
            .collect();
        for (waits, asked) in asked {
            let found = match asked {
                Some((call, asked)) => match asked.await {
                    Ok(Json(owed)) => Ok(owed.map(|owed: Owed| {
                        bytes = bytes.saturating_add(owed.bytes());
                        Parcel::Lines(call, owed)
                    })),
                    Err(broken) => Err(broken.to_string()),
                },
                None => Ok(ctx.get::<Json<AdminAction>>(&waits.name).await?.map(|act| Parcel::Act(act.0))),
            };
            gathered.push((waits, found));
        }
    }
    Ok(gathered)
}

/// What a call is told once the book has taken a parcel.
fn acknowledgement(parcel: &Parcel) -> Option<(CallId, Acknowledged)> {
    match parcel {
        Parcel::Lines(call, owed) => {
            let acknowledged =
                Acknowledged { from: owed.from, upto: owed.upto(), whole: owed.settles.is_some() };
            Some((*call, acknowledged))
        }
        Parcel::Act(_) => None,
    }
}

/// Puts something aside that the book does not take. It stays where it came from, and is named until it was sent again and taken.
fn refuse(ctx: &ObjectContext<'_>, waits: &Waits, why: &str) {
    tracing::error!(id = %waits.id, why, "the book refuses what is owed to it");
    ctx.clear(&waits.name);
    ctx.set(&refusal(waits), format!("{}: {why}", waits.id));
}

/// The name that a refusal stands in the state with.
fn refusal(waits: &Waits) -> String {
    format!("{REFUSED}.{}", short(&waits.id))
}

/// Sees to it that someone sees to what is owed.
async fn go(ctx: &ObjectContext<'_>) -> Result<(), HandlerError> {
    if ctx.get::<Vec<u8>>(GOING).await?.is_none() {
        ctx.set(GOING, Vec::<u8>::new());
        come_back(ctx, GATHER);
    }
    Ok(())
}

async fn go_on(ctx: &ObjectContext<'_>, away: Option<String>, is_more: bool) -> Result<(), HandlerError> {
    match away {
        Some(why) => {
            let tries = ctx.get::<u32>(TRIES).await?.unwrap_or(0);
            let pause = PAUSE_MIN.saturating_mul(1 << tries.min(10)).min(PAUSE_MAX);
            tracing::warn!(why, pause_ms = pause.as_millis(), "the book is away");
            ctx.set(TRIES, tries.saturating_add(1));
            come_back(ctx, pause);
        }
        None => {
            ctx.clear(TRIES);
            if is_more {
                come_back(ctx, Duration::ZERO);
            } else {
                ctx.clear(GOING);
            }
        }
    }
    Ok(())
}

fn come_back(ctx: &ObjectContext<'_>, after: Duration) {
    let lane = ctx.object_client::<ProjectorEntityClient<'_>>(ctx.key());
    drop_handle(lane.bring(Json(())).send_after(after));
}
