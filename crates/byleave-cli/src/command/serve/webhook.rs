//! `byleave serve webhook`: manages webhooks that are notified of questions while the server runs.

use std::fs::DirBuilder;
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;

use anyhow::{Context as _, Result};
use byleave_server::PrivateFileError;
use byleave_server::principal::Slug;
use byleave_server::webhooks::{DeliveryStatus, StoredWebhook, WebhookError, WebhookFormat, WebhookStore};
use clap::{Args as Group, Subcommand};
use serde_json::{Value, json};

use crate::call_display::table;
use crate::console::{Console, one_line, prose};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::time::{format_duration, now};

#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Add a webhook
    ///
    /// The secret that signs its messages is printed once.
    Add(AddWebhookArgs),
    /// List the webhooks and their delivery status (the default)
    List,
    /// Remove a webhook
    Remove {
        /// Webhook id, as shown in the list
        id: String,
    },
    /// Send a test message
    Test {
        /// Webhook id, as shown in the list [default: all webhooks]
        id: Option<String>,
    },
}

#[derive(Debug, Group)]
pub(crate) struct AddWebhookArgs {
    /// URL: https, or http on this machine; `-` reads it from stdin, hidden from process lists
    pub(crate) url: String,
    /// Use the format of incoming webhooks of Slack
    #[arg(long)]
    pub(crate) slack: bool,
    /// Tenant whose questions are sent
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) tenant: Slug,
}

/// The maximum length of a URL from standard input.
const URL_BYTES_MAX: u64 = 8 * 1024;

pub(crate) async fn run(
    command: Option<WebhookCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command.unwrap_or(WebhookCommand::List) {
        WebhookCommand::Add(typed) => add(typed, options, screen),
        WebhookCommand::List => list(options, screen),
        WebhookCommand::Remove { id } => remove(&id, options, screen),
        WebhookCommand::Test { id } => test(id.as_deref(), options, screen).await,
    }
}

/// Returns the webhooks of the server with this state directory.
pub(super) fn webhooks(options: &ResolvedOptions) -> WebhookStore {
    WebhookStore::new(options.state.join("webhooks.json"))
}

/// Converts an error to one with a hint.
fn unusable(fault: &WebhookError) -> CliError {
    let hint = match fault {
        WebhookError::File(PrivateFileError::Exposed(_)) => {
            "others may know the secrets in the file: remove it, and add the webhooks again"
        }
        WebhookError::File(_) => "remove the file and add the webhooks again",
        WebhookError::Endpoint(_) => "`byleave serve webhook add https://HOST/PATH`",
        WebhookError::TooMany => {
            "`byleave serve webhook list` lists the webhooks, `byleave serve webhook remove` removes one"
        }
    };
    CliError::new(fault.to_string()).hint(hint)
}

fn add(typed: AddWebhookArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let url = match typed.url.as_str() {
        "-" => {
            let mut text = String::new();
            io::stdin().take(URL_BYTES_MAX).read_to_string(&mut text).context("cannot read the address")?;
            text.trim().to_owned()
        }
        _ => typed.url,
    };
    let form = if typed.slack { WebhookFormat::Slack } else { WebhookFormat::Generic };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&options.state);
    made.with_context(|| format!("cannot make `{}`", options.state.display()))?;
    let (webhook, secret) =
        webhooks(options).add(typed.tenant, form, url, now()).map_err(|fault| unusable(&fault))?;
    let text = String::from_utf8_lossy(secret.expose()).into_owned();
    if screen.json() {
        let mut value = shown(&webhook, &DeliveryStatus::default());
        if let Value::Object(fields) = &mut value {
            fields.insert("secret".into(), text.into());
        }
        screen.value(&value);
        return Ok(ExitStatus::Completed);
    }
    screen.line(&text);
    screen.message(&prose(&format!(
        "webhook {} notifies {} of the questions of `{}`, signed with this secret; it is not shown again",
        webhook.id,
        webhook.origin(),
        webhook.tenant
    )));
    Ok(ExitStatus::Completed)
}

fn list(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let found = with_status(options)?;
    if screen.json() {
        screen.value(&found.iter().map(|(webhook, standing)| shown(webhook, standing)).collect());
    } else if found.is_empty() {
        screen.message("there are no webhooks; `byleave serve webhook add URL` adds one");
    } else {
        let rows = found.iter().map(|(webhook, standing)| {
            let tenant = webhook.tenant.to_string();
            let form = webhook.form.as_str().to_owned();
            vec![webhook.id.clone(), tenant, form, webhook.origin(), one_line(&format_status(standing))]
        });
        table(screen, &["WEBHOOK", "TENANT", "FORM", "WHERE", "STATUS"], &rows.collect::<Vec<_>>());
    }
    Ok(ExitStatus::Completed)
}

fn remove(id: &str, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    // Do not create the file if there is none.
    named(id, options)?;
    let removed = webhooks(options).remove(id).map_err(|fault| unusable(&fault))?;
    let removed = removed.ok_or_else(|| missing(id))?;
    if screen.json() {
        screen.value(&shown(&removed, &DeliveryStatus::default()));
    } else {
        screen.message(&prose(&format!("{} gets no more notifications", removed.origin())));
    }
    Ok(ExitStatus::Completed)
}

async fn test(id: Option<&str>, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let all = webhooks(options);
    let wanted = match id {
        Some(id) => vec![named(id, options)?],
        None => all.list().map_err(|fault| unusable(&fault))?,
    };
    if wanted.is_empty() {
        return Err(CliError::new("there are no webhooks")
            .hint("`byleave serve webhook add URL` adds one")
            .into());
    }
    let (mut status, mut values) = (ExitStatus::Completed, Vec::new());
    for webhook in wanted {
        let tried = all.test(&webhook).await;
        let why = tried.as_ref().err().map(ToString::to_string);
        if why.is_some() {
            status = ExitStatus::Failed;
        }
        if screen.json() {
            values.push(json!({ "id": webhook.id, "delivered": why.is_none(), "reason": why }));
        } else {
            let what = why.map_or_else(|| "delivered".to_owned(), |why| format!("not delivered: {why}"));
            screen.line(&format!("{} {} {}", webhook.id, webhook.origin(), one_line(&what)));
        }
    }
    if screen.json() {
        screen.value(&values.into());
    }
    Ok(status)
}

/// Returns all webhooks with their delivery status.
pub(in crate::command) fn with_status(
    options: &ResolvedOptions,
) -> Result<Vec<(StoredWebhook, DeliveryStatus)>, CliError> {
    let all = webhooks(options);
    let read = || Ok((all.list()?, all.statuses()?));
    let (found, mut standing) = read().map_err(|fault| unusable(&fault))?;
    let with = |webhook: StoredWebhook| {
        let standing = standing.remove(&webhook.id).unwrap_or_default();
        (webhook, standing)
    };
    Ok(found.into_iter().map(with).collect())
}

fn named(id: &str, options: &ResolvedOptions) -> Result<StoredWebhook, CliError> {
    let found = webhooks(options).list().map_err(|fault| unusable(&fault))?;
    found.into_iter().find(|webhook| webhook.id == id).ok_or_else(|| missing(id))
}

fn missing(id: &str) -> CliError {
    CliError::new(format!("there is no webhook `{id}`"))
        .hint("`byleave serve webhook list` lists the webhooks")
}

/// Describes a delivery status.
pub(in crate::command) fn format_status(standing: &DeliveryStatus) -> String {
    let ago = |at: Option<u64>| {
        at.map_or_else(String::new, |at| format!(" {} ago", format_duration(now().saturating_sub(at))))
    };
    let lost = match standing.given_up {
        0 => String::new(),
        lost => format!("; {lost} given up"),
    };
    match (&standing.failure_reason, standing.is_healthy()) {
        (Some(why), false) => format!("failed{}: {why}{lost}", ago(standing.failed_at)),
        _ if standing.delivered == 0 => "nothing was delivered yet".to_owned(),
        _ => format!("delivered {}, the last{}{lost}", standing.delivered, ago(standing.told_at)),
    }
}

fn shown(webhook: &StoredWebhook, standing: &DeliveryStatus) -> Value {
    json!({
        "id": webhook.id,
        "tenant": webhook.tenant,
        "format": webhook.form,
        "where": webhook.origin(),
        "made_at": webhook.made_at,
        "status": standing,
    })
}
