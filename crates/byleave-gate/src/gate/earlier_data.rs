//! The data of earlier calls of the session that a tool is given (T4).
//!
//! It is chosen when the call is planned, and the plan refers to it by call and digest. From then on only that data is used, even if a
//! newer result exists. A result is given as it was released, after its reviewers. The record of the earlier call is authoritative.

use std::collections::BTreeMap;
use std::sync::Arc;

use byleave_core::digest::ContentRef;
use byleave_core::effect::{EarlierDataRef, Plan};
use byleave_core::entry::{CallHeader, RecordEvent};
use byleave_core::id::CallId;
use byleave_core::outcome::{Outcome, Output};
use byleave_core::record::Record;
use byleave_core::refusal::{Code, Refusal, StageResult};

use crate::gate::inner::GateInner;
use crate::gate::working_record::WorkingRecord;
use crate::ledger::{ContentError, Ledger, LedgerError};
use crate::tool::EarlierData;

/// The maximum size of all data that one call is given, in bytes of JSON.
const DATA_BYTES_MAX: usize = 1_048_576;

/// Chooses the data for a call of a tool that wants data of these tools.
///
/// A later draft of the call gets the data of the first one.
pub(crate) async fn choose_data(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    wanted: &[String],
) -> StageResult<Vec<EarlierDataRef>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(planned) = first_planned_data(&desk.record) {
        return Ok(planned.to_vec());
    }
    let header = require_header(desk)?;
    let (mut chosen, mut bytes): (Vec<EarlierDataRef>, usize) = (Vec::new(), 0);
    for tool in wanted {
        let found = parts.ledger.latest_completed_call(&header.tenant, &header.session, tool).await;
        let Some(call) = found.map_err(|fault| ledger_refusal(&fault))? else { continue };
        let Some((held, output)) = read_result(&*parts.ledger, &header, tool, call).await? else { continue };
        let Some(data) = &output.data else { continue };
        bytes = bytes.saturating_add(data.to_string().len());
        if bytes > DATA_BYTES_MAX {
            return Err(Refusal::new(
                Code::ArgumentsTooLarge,
                format!(
                    "the tool wants data of earlier calls, and with that of call {call} of `{tool}` it has {bytes} bytes; at most {DATA_BYTES_MAX} are given"
                ),
            ));
        }
        desk.cache_content(held, output);
        chosen.push(EarlierDataRef { tool: tool.clone(), call, output: held });
    }
    Ok(chosen)
}

/// Reads the data that a plan refers to. Refuses if a part of it is not there any more, or differs.
pub(crate) async fn read_data(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    plan: &Plan,
) -> StageResult<Arc<BTreeMap<String, EarlierData>>> {
    let mut data = BTreeMap::new();
    for EarlierDataRef { tool, call, output: held } in &plan.data {
        let output = match desk.cached::<Output>(*held) {
            Some(output) => output,
            None => {
                let header = require_header(desk)?;
                let result = read_result(&*parts.ledger, &header, tool, *call).await?;
                let output = result.filter(|(found, _)| found == held).map(|(_, output)| output);
                desk.cache_content(*held, output.ok_or_else(|| missing_refusal(tool, *call))?)
            }
        };
        let value = output.data.clone().ok_or_else(|| missing_refusal(tool, *call))?;
        data.insert(tool.clone(), EarlierData { call: *call, data: value });
    }
    Ok(Arc::new(data))
}

/// Returns the data of the first plan on the record.
fn first_planned_data(record: &Record) -> Option<&[EarlierDataRef]> {
    record.entries().iter().find_map(|entry| match &entry.event {
        RecordEvent::Planned(Ok(summary)) => Some(summary.data.as_slice()),
        _ => None,
    })
}

/// Reads the released output of a completed call of this tool in the same session. Returns `None` if there is none.
async fn read_result(
    ledger: &dyn Ledger,
    header: &CallHeader,
    tool: &str,
    call: CallId,
) -> StageResult<Option<(ContentRef, Output)>> {
    let Some(loaded) = ledger.load(call).await.map_err(|fault| ledger_refusal(&fault))? else {
        return Ok(None);
    };
    let record = &loaded.record;
    if let Some(damage) = record.damage() {
        return Err(Refusal::new(
            Code::RecordBroken,
            format!("the record of call {call}, whose data the tool wants, is damaged: {damage}"),
        ));
    }
    let is_same_session = record
        .header()
        .is_some_and(|other| (&other.tenant, &other.session) == (&header.tenant, &header.session));
    let is_of_tool = matches!(record.resolved_tool(), Some(Ok(terms)) if terms.tool == tool);
    let (Some(Outcome::Completed { output: held }), Some(key), true, true) =
        (record.outcome(), &loaded.key, is_same_session, is_of_tool)
    else {
        return Ok(None);
    };
    let bytes = match ledger.content(call, *held).await {
        Ok(bytes) => bytes,
        Err(ContentError::Forgotten) => return Ok(None),
        Err(ContentError::Ledger(fault)) => return Err(ledger_refusal(&fault)),
        Err(fault @ (ContentError::Missing | ContentError::Corrupted)) => {
            return Err(unreadable_refusal(tool, call, &fault));
        }
    };
    let output = (key.content_ref(&bytes) == *held).then(|| serde_json::from_slice(&bytes).ok()).flatten();
    match output {
        Some(output) => Ok(Some((*held, output))),
        None => Err(unreadable_refusal(tool, call, &ContentError::Corrupted)),
    }
}

fn require_header(desk: &WorkingRecord) -> StageResult<CallHeader> {
    let header = desk.record.header().cloned();
    header.ok_or_else(|| Refusal::new(Code::RecordBroken, "the record does not begin with a call"))
}

fn ledger_refusal(fault: &LedgerError) -> Refusal {
    Refusal::new(Code::NotRecorded, fault.to_string())
}

fn unreadable_refusal(tool: &str, call: CallId, fault: &ContentError) -> Refusal {
    Refusal::new(Code::RecordBroken, format!("cannot read the data of call {call} of `{tool}`: {fault}"))
}

fn missing_refusal(tool: &str, call: CallId) -> Refusal {
    Refusal::new(
        Code::Forgotten,
        format!(
            "the data of call {call} of `{tool}`, with which this call was planned, cannot be read any more; make the call again"
        ),
    )
}
