//! Taking back: what an undo would be about, and the call that does it.

use anyhow::Result;
use byleave::approve::Reply;
use byleave::book::{Book as _, CallFilter, CallItem, Page};
use byleave::clock::fresh_id;
use byleave::core::call::{Call, Mode};
use byleave::core::id::{AgentId, CallId, SessionId};
use byleave::core::render::summary;
use byleave::gate::{Gate, GivenAnswer};
use byleave::result::Standing;
use byleave_copy::{State, Store};
use serde_json::json;

use crate::args::Ask;
use crate::complaint::Complaint;
use crate::house::House;
use crate::options::Options;
use crate::show;
use crate::time::{now, span};
use crate::tools::workplace;

/// How many calls of a session are looked at.
const CALLS_MAX: usize = 10_000;
/// How many of them are read at once where one is looked for.
const AT_ONCE: usize = 100;

/// What an undo without further words would take back, in words.
pub(crate) async fn last_change(house: &House, options: &Options) -> Result<Option<String>> {
    let Some(item) = newest_standing(CallFilter::default(), house, options).await? else {
        return Ok(None);
    };
    let changes = workplace(options, &options.cwd).store()?.changes(item.call.uuid())?;
    let ago = span(now().saturating_sub(item.changed_at));
    Ok(Some(format!("{} of {ago} ago ({})", item.listing.tool, summary(&changes))))
}

/// Takes that back, and says what came of it.
pub(crate) async fn newest(house: &House, options: &Options) -> Result<String> {
    let found = newest_standing(CallFilter::default(), house, options).await?;
    taken_back(found, house, options).await
}

/// Takes back what a session changed last, and says what came of it.
#[cfg(feature = "agent")]
pub(crate) async fn newest_of(session: &SessionId, house: &House, options: &Options) -> Result<String> {
    let filter = CallFilter { session: Some(session.clone()), ..CallFilter::default() };
    let found = newest_standing(filter, house, options).await?;
    taken_back(found, house, options).await
}

async fn taken_back(found: Option<CallItem>, house: &House, options: &Options) -> Result<String> {
    let Some(item) = found else {
        return Ok("there is nothing to take back".to_owned());
    };
    let (gate, undo) = prepared(item.call, false, house, options).await?;
    let mut came = gate.advance(undo).await;
    if let Standing::Waiting { question, .. } = &came {
        let (id, digest, by) = (question.id, question.digest(), options.person.clone());
        let given = GivenAnswer { question: id, digest, reply: Reply::Yes { note: None }, by };
        let call = gate.answer(given).await.map_err(Complaint::from)?;
        came = gate.resume(call).await;
    }
    Ok(format!("undo of {}: {}", item.listing.tool, show::in_short(&came)))
}

/// The newest call whose changes can be taken back. No more is read than it takes to find it: a question waits for this.
pub(crate) async fn newest_standing(
    filter: CallFilter,
    house: &House,
    options: &Options,
) -> Result<Option<CallItem>> {
    let store = workplace(options, &options.cwd).store()?;
    let (mut page, mut looked) = (Page::first(AT_ONCE), 0);
    while looked < CALLS_MAX {
        let calls = house.book.calls(filter.clone(), page).await?;
        page.after = calls.last().map(|item| item.cursor);
        looked += calls.len();
        let is_last = calls.len() < AT_ONCE;
        if let Some(found) = calls.into_iter().find(|item| stands(&store, item)) {
            return Ok(Some(found));
        }
        if is_last {
            break;
        }
    }
    Ok(None)
}

/// The calls whose changes can be taken back, the newest first.
pub(crate) async fn standing(filter: CallFilter, house: &House, options: &Options) -> Result<Vec<CallItem>> {
    let store = workplace(options, &options.cwd).store()?;
    let mut all = house.book.calls(filter, Page::first(CALLS_MAX)).await?;
    all.retain(|item| stands(&store, item));
    Ok(all)
}

fn stands(store: &Store, item: &CallItem) -> bool {
    item.listing.operation != "undo"
        && store.state(item.call.uuid()).is_ok_and(|state| state == State::Committed)
}

/// The call that takes another back, and the gate for it.
pub(crate) async fn prepared(
    call: CallId,
    force: bool,
    house: &House,
    options: &Options,
) -> Result<(Gate, Call)> {
    let workspace = house.workspace_of(call).await?;
    let gate = house.gate(options, &workspace, Ask::Inbox, options.chosen.gate())?;
    let arguments = if force { json!({ "call": call, "force": true }) } else { json!({ "call": call }) };
    let undo = Call {
        id: CallId::new(fresh_id()),
        tenant: options.tenant.clone(),
        session: SessionId::new("cli")?,
        agent: AgentId::new("undo")?,
        tool: "undo".into(),
        arguments,
        reason: None,
        cwd: workspace,
        mode: Mode::ConfirmSensitive,
        dry_run: false,
    };
    Ok((gate, undo))
}
