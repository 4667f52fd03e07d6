//! `byleave book`: reads, verifies and exports the audit log, and erases contents on request.

use std::path::PathBuf;
use std::pin::pin;
use std::time::SystemTime;

use anyhow::Result;
use byleave::audit_log::export::{self, ExportedRecord, IncludeContents};
use byleave::audit_log::{AuditLog as _, CallFilter, CallItem, CallState, PageRequest};
use byleave::core::admin_action::{AdminAction, AdminActionKind};
use byleave::core::id::CallId;
use futures::StreamExt as _;
use serde_json::json;

use crate::app_context::AppContext;
use crate::args::{AuditCommand, ExportFormatArg, LogArgs};
use crate::call_display::{format_count, table};
use crate::console::{Console, Tone, escape_json, one_line};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::json_output;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::{self, short};
use crate::time::{format_utc, now, parse_time};
use crate::tool_catalog::workplace;

pub(crate) async fn run(
    command: Option<AuditCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command.unwrap_or_else(|| AuditCommand::Log(LogArgs::default())) {
        AuditCommand::Log(which) => log(which, options, screen).await,
        AuditCommand::Show { call, contents } => show(&call, wanted(contents), options, screen).await,
        AuditCommand::Verify { anchor } => verify(anchor, options, screen).await,
        AuditCommand::Forget { call } => forget(&call, options, screen).await,
        AuditCommand::Export { format, contents, calls } => {
            export(format, wanted(contents), &calls, options, screen).await
        }
        AuditCommand::Actions => actions(options, screen).await,
        AuditCommand::Rebuild => rebuild(options, screen).await,
        AuditCommand::Anchor => anchor(options, screen).await,
    }
}

const fn wanted(contents: bool) -> IncludeContents {
    if contents { IncludeContents::Included } else { IncludeContents::Omitted }
}

async fn log(which: LogArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let now = now();
    let filter = CallFilter {
        tenant: None,
        session: which.list.session,
        tool: which.tool,
        agent: which.agent,
        state: which.call_state.map(CallState::from),
        outcome: which.outcome,
        code: which.code,
        text: which.text,
        asked_only: which.asked,
        since: which.since.as_deref().map(|typed| parse_time(typed, now)).transpose()?,
        until: which.until.as_deref().map(|typed| parse_time(typed, now)).transpose()?,
    };
    let house = AppContext::open_to_read(options, None)?;
    let calls = house.audit_log.calls(filter, PageRequest::with_limit(which.list.limit)).await?;
    if screen.json() {
        screen.value(&calls.iter().map(json_output::call_item).collect());
    } else if calls.is_empty() {
        screen.message("the audit log has no such call");
    } else {
        let rows: Vec<Vec<String>> = calls.iter().map(row).collect();
        table(screen, &["CALL", "RECEIVED", "AGENT", "SESSION", "TOOL", "OUTCOME", "WHAT"], &rows);
    }
    Ok(ExitStatus::Completed)
}

async fn actions(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let acts = AppContext::open_to_read(options, None)?.audit_log.admin_actions().await?;
    if screen.json() {
        screen.value(&serde_json::to_value(&acts)?);
    } else if acts.is_empty() {
        screen.message("the audit log has no admin actions");
    } else {
        let rows: Vec<Vec<String>> = acts.iter().map(act_row).collect();
        table(screen, &["WHEN", "WHO", "DID", "WHAT"], &rows);
    }
    Ok(ExitStatus::Completed)
}

fn act_row(act: &AdminAction) -> Vec<String> {
    let what = match &act.kind {
        AdminActionKind::Halt { reason: why } => why.clone(),
        AdminActionKind::Lift => String::new(),
        AdminActionKind::Revoke { standing_approval: leave } => format!("standing approval {leave}"),
        AdminActionKind::OpenSession(opening) => format!("session {}", opening.session),
        AdminActionKind::Forget { call } => format!("call {call}"),
        AdminActionKind::Waive { guarantees, reason: why } => format!("{}: {why}", guarantees.join(", ")),
    };
    vec![format_utc(act.at), one_line(&act.actor), act.kind.as_str().to_owned(), one_line(&what)]
}

fn row(item: &CallItem) -> Vec<String> {
    let outcome = item.outcome.as_deref().unwrap_or(item.state.as_str());
    let code = item.code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default();
    vec![
        short(&item.call),
        format_utc(item.opened_at),
        one_line(&item.call_summary.agent),
        one_line(item.call_summary.session.as_str()),
        one_line(&item.call_summary.tool),
        one_line(&format!("{outcome}{code}")),
        one_line(&item.call_summary.summary),
    ]
}

/// Returns the record of a call, if it exists.
async fn record(house: &AppContext, call: CallId, contents: IncludeContents) -> Result<ExportedRecord> {
    let missing = || CliError::new(format!("there is no call {call} in the audit log"));
    let found = export::export_one(&*house.audit_log, call, contents).await?;
    Ok(found.ok_or_else(|| missing().hint("`byleave book log` lists the calls"))?)
}

async fn show(
    call: &str,
    contents: IncludeContents,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let house = AppContext::open_to_read(options, None)?;
    let found = record(&house, short_ids::call(&house, call).await?, contents).await?;
    if screen.json() {
        screen.value(&found.to_json());
        return Ok(ExitStatus::Completed);
    }
    screen.title(&format!("call {}", found.call));
    if let Some(listing) = &found.stored.call_summary {
        let who = format!("{} by {} in session {}", listing.tool, listing.agent, listing.session);
        screen.line(&one_line(&who));
        if !listing.summary.is_empty() {
            screen.line(&one_line(&listing.summary));
        }
        // The operation is more than a word: the call describes itself.
        if listing.operation.contains(' ') {
            screen.line(&one_line(&listing.operation));
        }
    }
    if found.stored.forgotten {
        screen.line("the contents of this call were forgotten");
    }
    screen.line("");
    for (seq, entry) in found.stored.record.entries().iter().enumerate() {
        let remark = one_line(&export::describe_entry(entry));
        let line = format!("{seq:>3}  {}  {:<22}  {remark}", format_utc(entry.at), entry.event.kind());
        screen.line(line.trim_end());
    }
    for content in &found.contents {
        screen.line("");
        screen.title(&format!(
            "content {} ({} bytes)",
            content.content_ref.digest.short_hex(),
            content.content_ref.size
        ));
        screen.text(&String::from_utf8_lossy(&content.bytes));
    }
    if let Some(damage) = found.stored.record.damage() {
        screen.message_with_tone(Tone::Bad, "damaged:", &one_line(&damage.to_string()));
        return Ok(ExitStatus::Failed);
    }
    Ok(ExitStatus::Completed)
}

async fn verify(
    anchor: Option<PathBuf>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    if let Some(path) = anchor.as_ref().filter(|path| !path.exists()) {
        let missing = CliError::new(format!("there is no anchor in `{}`", path.display()));
        return Err(missing.hint("`byleave book anchor > FILE` creates one; keep it elsewhere").into());
    }
    let house = AppContext::open_to_read(options, anchor)?;
    let found = house.audit_log.verify().await?;
    let status = if found.is_intact() { ExitStatus::Completed } else { ExitStatus::Failed };
    if screen.json() {
        screen.value(&json_output::verification(&found));
        return Ok(status);
    }
    screen.line(&format!(
        "checked {} with {}, {}, {}; {} not yet sealed",
        format_count(found.records, "record"),
        match found.entries {
            1 => "1 entry".to_owned(),
            many => format!("{many} entries"),
        },
        format_count(found.admin_actions, "admin action"),
        format_count(found.segments, "segment"),
        found.unsealed
    ));
    match &found.anchor {
        Some(anchor) => screen.line(&format!("compared with the anchor of segment {}", anchor.number)),
        None => screen.line("compared with no anchor: a restored old copy would not be detected"),
    }
    match &found.integrity_error {
        None => screen.line("the audit log is intact"),
        Some(flaw) => {
            screen.line(&one_line(&format!("the audit log is NOT intact: {flaw}")));
            screen.hint("do not trust the audit log from this place on; compare it with an earlier copy and its anchor");
        }
    }
    Ok(status)
}

async fn forget(call: &str, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let house = AppContext::open_to_write(options)?;
    let call = short_ids::call(&house, call).await?;
    let forgotten = house.audit_log.forget(call, options.person.name.clone(), now()).await?;
    let missing = || CliError::new(format!("there is no call {call} in the audit log"));
    let forgotten = forgotten.ok_or_else(|| missing().hint("`byleave book log` lists the calls"))?;
    // The earlier contents of changed files belong to the call as well.
    let store = workplace(options, &options.cwd).open_store()?;
    let images = store.forget_copy(call.uuid(), SystemTime::now(), "the call was forgotten")?;
    if screen.json() {
        let scrubbed = forgotten.key_wiped;
        screen.value(
            &json!({ "call": call, "admin_action": forgotten.action.id, "scrubbed": scrubbed, "copies": images }),
        );
    } else {
        screen.line(&format!(
            "the contents of call {} are permanently deleted; its record remains",
            short(&call)
        ));
        if images {
            screen.line("the earlier contents of its changed files are deleted as well: the call can no longer be undone");
        }
        if !forgotten.key_wiped {
            screen.message_with_tone(
                Tone::Careful,
                "warning:",
                "another process was reading, so a copy of the key may be left in the file",
            );
            screen.hint("forget the call again when no other process uses the audit log");
        }
    }
    Ok(ExitStatus::Completed)
}

async fn export(
    format: ExportFormatArg,
    contents: IncludeContents,
    calls: &[String],
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    if screen.json() && format == ExportFormatArg::Markdown {
        let both = CliError::new("Markdown cannot be printed as JSON");
        return Err(both.hint("omit `--json`, or write `--format json`").into());
    }
    let house = AppContext::open_to_read(options, None)?;
    let mut chosen = Vec::new();
    for call in calls {
        chosen.push(short_ids::call(&house, call).await?);
    }
    let mut sheet = Exporter { format, screen, count: 0 };
    if chosen.is_empty() {
        let mut records = pin!(export::export_records(&*house.audit_log, CallFilter::default(), contents));
        while let Some(found) = records.next().await {
            sheet.put(&found?);
        }
    }
    for call in chosen {
        sheet.put(&record(&house, call, contents).await?);
    }
    sheet.end();
    Ok(ExitStatus::Completed)
}

/// Writes records one at a time, so that an audit log of any size can be exported.
struct Exporter<'a> {
    format: ExportFormatArg,
    screen: &'a mut Console,
    count: usize,
}

impl Exporter<'_> {
    fn put(&mut self, found: &ExportedRecord) {
        match self.format {
            ExportFormatArg::Json => {
                self.screen.raw_text(if self.count == 0 { "[\n" } else { ",\n" });
                self.screen.raw_text(&escape_json(&format!("{:#}", found.to_json())));
            }
            ExportFormatArg::Markdown => self.screen.text(&found.to_markdown()),
        }
        self.count += 1;
    }

    fn end(self) {
        if self.format == ExportFormatArg::Json {
            self.screen.raw_text(if self.count == 0 { "[]\n" } else { "\n]\n" });
        }
    }
}

async fn rebuild(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let house = AppContext::open_to_write(options)?;
    house.audit_log.rebuild().await?;
    if screen.json() {
        screen.value(&json!({ "rebuilt": true }));
    } else {
        screen.line("the lists were rebuilt from the entries");
    }
    Ok(ExitStatus::Completed)
}

async fn anchor(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let house = AppContext::open_to_write(options)?;
    house.audit_log.seal().await?;
    let empty = || {
        CliError::new("there is nothing to anchor: the audit log is empty")
            .hint("create the anchor after the first `byleave call`")
    };
    let anchor = house.audit_log.anchor().await?.ok_or_else(empty)?;
    screen.value(&json!(anchor));
    Ok(ExitStatus::Completed)
}
