//! The audit log: lists, records, export and verification. Contents are left out; they are only for the client of a call and
//! for approvers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use byleave_gate::audit_log::export::{self, ExportedRecord, IncludeContents};
use byleave_gate::audit_log::{CallFilter, Cursor, PageRequest};
use byleave_gate::core::id::CallId;
use futures::StreamExt as _;
use futures::stream;

use crate::api_types::{
    AuditLogQuery, CallEntry, CallList, ExportFormat, ExportQuery, RecordBody, VerificationReport,
    check_length,
};
use crate::caller::Caller;
use crate::extract::{JsonResponse, PathId, StrictQuery};
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::record_access;
use crate::state::App;
use crate::tenant::Tenant;

const LIMIT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;
/// The largest integer that every JSON parser represents exactly.
const EXACT_MAX: u64 = 9_007_199_254_740_991;
/// The number of calls that are looked up at once for an export.
const AT_ONCE: usize = 64;

/// List calls
#[utoipa::path(
    get, path = "/v1/log/calls", tag = "audit log",
    params(AuditLogQuery),
    responses(
        (status = 200, body = CallList, description = "Calls, newest first"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The search is not valid"),
    ),
)]
pub(super) async fn calls(
    State(_app): State<App>,
    caller: Caller,
    StrictQuery(query): StrictQuery<AuditLogQuery>,
) -> Result<JsonResponse<CallList>, Problem> {
    caller.require_scope(&[AccessScope::Read])?;
    let page = page(query.limit, query.after)?;
    let texts = [
        ("tool", &query.tool, 128),
        ("agent", &query.agent, 128),
        ("outcome", &query.outcome, 32),
        ("code", &query.code, 64),
        ("text", &query.text, 200),
    ];
    for (what, text, most) in texts {
        text.as_deref().map_or(Ok(()), |text| check_length(what, text, 1, most))?;
    }
    let filter = CallFilter {
        tenant: Some(caller.tenant.id().clone()),
        tool: query.tool,
        agent: query.agent,
        outcome: query.outcome,
        code: query.code,
        text: query.text,
        since: exact(query.since)?,
        until: exact(query.until)?,
        ..CallFilter::default()
    };
    let items = caller.tenant.audit_log.calls(filter, page).await?;
    Ok(JsonResponse(CallList { calls: items.iter().map(CallEntry::from).collect() }))
}

/// Read the record of a call
#[utoipa::path(
    get, path = "/v1/log/calls/{call}", tag = "audit log",
    params(("call" = uuid::Uuid, Path, description = "The call")),
    responses(
        (status = 200, body = RecordBody, description = "The record"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The call does not exist"),
    ),
)]
pub(super) async fn record(
    State(_app): State<App>,
    caller: Caller,
    PathId(call): PathId<CallId>,
) -> Result<JsonResponse<RecordBody>, Problem> {
    caller.require_scope(&[AccessScope::Read])?;
    Ok(JsonResponse(RecordBody::from(&record_access::record(&caller.tenant, call).await?)))
}

/// Export the audit log
///
/// Streams the records, newest first, as JSON lines or as Markdown. If the audit log fails in between, the response ends with an
/// error. A response without an error is complete.
#[utoipa::path(
    get, path = "/v1/audit/export", tag = "audit log",
    params(ExportQuery),
    responses(
        (status = 200, description = "The records", content(
            (String = "application/x-ndjson"),
            (String = "text/markdown"),
        )),
    ),
)]
pub(super) async fn export(
    State(_app): State<App>,
    caller: Caller,
    StrictQuery(query): StrictQuery<ExportQuery>,
) -> Result<Response, Problem> {
    caller.require_scope(&[AccessScope::Read])?;
    let filter = CallFilter {
        tenant: Some(caller.tenant.id().clone()),
        since: exact(query.since)?,
        until: exact(query.until)?,
        ..CallFilter::default()
    };
    let (media, form) = match query.format {
        ExportFormat::Json => ("application/x-ndjson", json as fn(&ExportedRecord) -> String),
        ExportFormat::Markdown => {
            ("text/markdown; charset=utf-8", ExportedRecord::to_markdown as fn(&ExportedRecord) -> String)
        }
    };
    let records = records(Arc::clone(&caller.tenant), filter);
    let written = records.map(move |found| found.map(|found| form(&found)));
    Ok(([(header::CONTENT_TYPE, media)], Body::from_stream(written)).into_response())
}

fn json(found: &ExportedRecord) -> String {
    format!("{}\n", found.to_json())
}

/// Streams every matching record, looked up on demand.
fn records(
    tenancy: Arc<Tenant>,
    filter: CallFilter,
) -> impl stream::Stream<Item = Result<ExportedRecord, byleave_gate::ledger::LedgerError>> {
    let state = Some((tenancy, filter, None::<Cursor>, Vec::new().into_iter()));
    stream::unfold(state, |state| async move {
        let (tenancy, filter, mut after, mut ready): (_, _, _, std::vec::IntoIter<CallId>) = state?;
        loop {
            if ready.len() == 0 {
                match tenancy.audit_log.calls(filter.clone(), PageRequest { limit: AT_ONCE, after }).await {
                    Ok(items) => {
                        after = items.last().map(|item| item.cursor);
                        ready = items.iter().map(|item| item.call).collect::<Vec<_>>().into_iter();
                    }
                    Err(fault) => return Some((Err(fault), None)),
                }
            }
            let call = ready.next()?;
            match export::export_one(&*tenancy.audit_log, call, IncludeContents::Omitted).await {
                Ok(Some(found)) if record_access::belongs_to(&tenancy, &found) => {
                    return Some((Ok(found), Some((tenancy, filter, after, ready))));
                }
                Ok(_) => {}
                Err(fault) => return Some((Err(fault), None)),
            }
        }
    })
}

/// Verify the audit log
///
/// Verifies all records, which takes a while. Only one verification runs at a time.
#[utoipa::path(
    post, path = "/v1/audit/verify", tag = "audit log",
    responses((status = 200, body = VerificationReport, description = "The result of the verification")),
)]
pub(super) async fn verify(
    State(_app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<VerificationReport>, Problem> {
    caller.require_scope(&[AccessScope::Read])?;
    let found = Arc::clone(&caller.tenant).verify().await?;
    Ok(JsonResponse(VerificationReport::from(&found)))
}

/// Returns the requested page of a list.
pub(super) fn page(limit: Option<u32>, after: Option<i64>) -> Result<PageRequest, Problem> {
    let limit = limit.unwrap_or(LIMIT);
    let after = after.map(|after| u64::try_from(after).map_err(|_| after));
    if !(1..=LIMIT_MAX).contains(&limit) || matches!(after, Some(Err(_))) {
        let what = format!("`limit` must be 1 to {LIMIT_MAX}, and `after` must be the cursor of an item");
        return Err(Problem::new(ProblemKind::Malformed, what));
    }
    let after = exact(after.and_then(Result::ok))?;
    let after = after.map(|after| Cursor(i64::try_from(after).unwrap_or(i64::MAX)));
    Ok(PageRequest { limit: usize::try_from(limit).unwrap_or(usize::MAX), after })
}

fn exact(number: Option<u64>) -> Result<Option<u64>, Problem> {
    match number {
        Some(number) if number > EXACT_MAX => Err(Problem::new(
            ProblemKind::Malformed,
            format!("a number in the query is larger than {EXACT_MAX}"),
        )),
        number => Ok(number),
    }
}
