//! `byleave audit`: verifies and exports the audit log, and deletes contents on request.

use std::path::PathBuf;
use std::pin::pin;
use std::time::SystemTime;

use anyhow::Result;
use byleave_gate::audit_log::export::{self, ExportedRecord, IncludeContents};
use byleave_gate::audit_log::{AuditLog as _, CallFilter};
use byleave_gate::core::admin_action::{AdminAction, AdminActionKind};
use clap::{Subcommand, ValueEnum};
use futures::StreamExt as _;
use serde_json::json;

use crate::app_context::AppContext;
use crate::call_display::{format_count, table};
use crate::command::log::{include_contents, record};
use crate::console::{Console, Tone, escape_json, one_line};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::json_output;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::{self, short};
use crate::time::{format_utc, now};
use crate::tool_catalog::workplace;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Verify the audit log and report the first error (the default)
    ///
    /// Exits with 1 if the audit log is not intact.
    Verify {
        /// Anchor from another place. Without it, a restored old copy is not detected
        #[arg(long, value_name = "FILE")]
        anchor: Option<PathBuf>,
    },
    /// Permanently delete the contents of a call
    ///
    /// The record of the call stays and still verifies. The call can no longer be undone.
    Forget {
        /// Call id
        call: String,
    },
    /// Export records as JSON or Markdown
    Export {
        /// Output format
        #[arg(long, value_enum)]
        format: ExportFormatArg,
        /// Include the contents
        #[arg(long)]
        contents: bool,
        /// Call ids [default: all calls]
        calls: Vec<String>,
    },
    /// List admin actions, such as halts and waivers
    ///
    /// Admin actions are halts and their lifting, revoked standing approvals, opened sessions, deleted contents and waivers.
    Actions,
    /// Rebuild the lists from the entries
    Rebuild,
    /// Seal the audit log and print its anchor
    ///
    /// Keep the anchor in another place, for `verify --anchor`.
    Anchor,
}

/// The format of exported records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormatArg {
    Json,
    Markdown,
}

pub(crate) async fn run(
    command: Option<AuditCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command.unwrap_or(AuditCommand::Verify { anchor: None }) {
        AuditCommand::Verify { anchor } => verify(anchor, options, screen).await,
        AuditCommand::Export { format, contents, calls } => {
            export(format, include_contents(contents), &calls, options, screen).await
        }
        AuditCommand::Forget { call } => forget(&call, options, screen).await,
        AuditCommand::Actions => actions(options, screen).await,
        AuditCommand::Rebuild => rebuild(options, screen).await,
        AuditCommand::Anchor => anchor(options, screen).await,
    }
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

async fn verify(
    anchor: Option<PathBuf>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    if let Some(path) = anchor.as_ref().filter(|path| !path.exists()) {
        let missing = CliError::new(format!("there is no anchor in `{}`", path.display()));
        return Err(missing.hint("`byleave audit anchor > FILE` creates one; keep it elsewhere").into());
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
    let forgotten = forgotten.ok_or_else(|| missing().hint("`byleave log` lists the calls"))?;
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
