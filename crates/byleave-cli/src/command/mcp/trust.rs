//! `byleave mcp trust` and `test`: inspect a server with the person, and show what it offers.

use anyhow::Result;
use byleave_gate::audit_log::{AuditLog as _, CallFilter, CallState, PageRequest};
use byleave_gate::gate::Gate;
use byleave_mcp::active_callers::ActiveCallers;
use byleave_mcp::upstream::pins::Drift;
use byleave_mcp::upstream::server_definition::ServerName;
use byleave_mcp::upstream::{AcceptanceContext, ServerStatus};
use serde_json::{Value, json};

use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::console::{Console, Tone, one_line, prose};
use crate::drive_call::record_waivers;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::{mcp_servers, terminal_approver};

/// The maximum number of earlier reviews that are cancelled.
const REVIEWS_MAX: usize = 100;

/// Asks at the terminal how the server is started, and then about its tools. Accepted answers are pinned.
pub(super) async fn run(name: &str, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let definition = mcp_servers::find(options, name)?;
    let server = definition.name.clone();
    let house = AppContext::open_or_create(options)?;
    // Without a terminal nobody can look at it, and an open question would be answered without the server.
    let ask = options.resolve_ask(None, AskArg::None);
    if ask != AskArg::Terminal {
        let nobody = CliError::new(format!("there is no terminal to review the server `{server}` on"));
        return Err(nobody
            .hint("run the command at a terminal; `byleave mcp serve` leaves the question in `byleave inbox`")
            .into());
    }
    let gate = terminal_approver::gate(&house, options, &options.cwd, ask, options.settings.gate())?;
    record_waivers(&gate, options).await?;
    let (callers, pins) = (ActiveCallers::default(), mcp_servers::pins(options));
    let upstream = mcp_servers::connect(&gate, &house, &callers, vec![definition], pins, options)?;
    let by = AcceptanceContext { at_terminal: true, ..mcp_servers::asking(options) };
    cancel_older_reviews(&gate, &house, &by, &server, options).await?;
    if let Err(why) = upstream.accept(&gate, &by, &server).await {
        return Err(CliError::new(format!("the server `{server}` is not accepted: {why}")).into());
    }
    Ok(told(name, &upstream.refresh(&server).await, screen))
}

/// Cancels what an earlier `byleave mcp trust` of this server left open, for example because it was killed while it asked.
async fn cancel_older_reviews(
    gate: &Gate,
    house: &AppContext,
    by: &AcceptanceContext,
    server: &ServerName,
    options: &ResolvedOptions,
) -> Result<()> {
    let session = by.session(server).map_err(CliError::new)?;
    let filter = CallFilter {
        tenant: Some(options.tenant.clone()),
        session: Some(session),
        state: Some(CallState::Waiting),
        ..CallFilter::default()
    };
    for older in house.audit_log.calls(filter, PageRequest::with_limit(REVIEWS_MAX)).await? {
        gate.cancel(older.call, &options.person.name).await?;
    }
    Ok(())
}

/// Starts an accepted server and shows what it offers.
pub(super) async fn test(name: &str, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let definition = mcp_servers::find(options, name)?;
    let server = definition.name.clone();
    let house = AppContext::open_or_create(options)?;
    let gate = house.gate(options, &options.cwd, AskArg::None, options.settings.gate())?;
    record_waivers(&gate, options).await?;
    let (callers, pins) = (ActiveCallers::default(), mcp_servers::pins(options));
    let upstream = mcp_servers::connect(&gate, &house, &callers, vec![definition], pins, options)?;
    Ok(told(name, &upstream.refresh(&server).await, screen))
}

fn told(name: &str, stands: &ServerStatus, screen: &mut Console) -> ExitStatus {
    if screen.json() {
        screen.value(&value(name, stands));
    }
    let trust = format!("`byleave mcp trust {name}` reviews it with you");
    match stands {
        _ if screen.json() => {}
        ServerStatus::NotConnected => screen.message("byleave has not tried to start the server"),
        ServerStatus::NotAccepted => screen.message(&format!(
            "the server was not started: its command or address was not accepted, or has changed; {trust}"
        )),
        ServerStatus::Unavailable(why) => screen.message_with_tone(Tone::Careful, "down:", &prose(why)),
        ServerStatus::Connected { offered, suspended, rejected: refused } => {
            offered.iter().for_each(|tool| screen.line(&one_line(tool)));
            for drift in suspended {
                screen.message_with_tone(Tone::Careful, "suspended:", &prose(&words(drift)));
            }
            for why in refused {
                screen.message_with_tone(Tone::Careful, "rejected:", &prose(why));
            }
            if !suspended.is_empty() {
                screen.message(&trust);
            }
        }
    }
    match stands {
        ServerStatus::Connected { suspended, .. } if suspended.is_empty() => ExitStatus::Completed,
        ServerStatus::Connected { .. } | ServerStatus::NotAccepted => ExitStatus::Refused,
        ServerStatus::Unavailable(_) | ServerStatus::NotConnected => ExitStatus::Failed,
    }
}

fn words(drift: &Drift) -> String {
    match drift {
        Drift::New { tool, .. } => format!("`{tool}` was never accepted"),
        Drift::Changed { tool, .. } => format!("`{tool}` differs from the accepted version"),
        Drift::Instructions { .. } => "the server's instructions to the model were never accepted".into(),
    }
}

fn value(name: &str, stands: &ServerStatus) -> Value {
    match stands {
        ServerStatus::NotConnected => json!({ "server": name, "state": "untried" }),
        ServerStatus::NotAccepted => json!({ "server": name, "state": "not-accepted" }),
        ServerStatus::Unavailable(why) => json!({ "server": name, "state": "down", "reason": why }),
        ServerStatus::Connected { offered, suspended, rejected: refused } => {
            json!({ "server": name, "state": "up", "offered": offered, "suspended": suspended, "refused": refused })
        }
    }
}
