//! Sets up a conversation with a model: persona, gate and limits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use byleave_agent::agent_loop::{Agent, ConversationContext, EventListener, ModelHandle};
use byleave_agent::conversation::Conversation;
use byleave_agent::history::History;
use byleave_agent::limits::{TaskLimits, TaskUsage, TokenPrices};
use byleave_agent::model::ModelError;
use byleave_agent::model_turn::MODEL_TURN;
use byleave_agent::persona::{LoadedPersona, ModelName, Persona, PersonaLoadError};
use byleave_agent::provider::{ProviderKind, ProviderModel, ProviderSettings};
use byleave_agent::tool_block_adapter::{ToolBlockModel, ToolCallStyle};
use byleave_gate::audit_log::{AuditLog as _, CallFilter, PageRequest};
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::gate::Gate;
use clap::{Args as Group, ValueEnum};

use crate::app_context::AppContext;
use crate::args::{AskArg, ModeArg};
use crate::call_display::format_count;
use crate::config::suggestion::near;
use crate::error::CliError;
use crate::resolved_options::{ResolvedOptions, variable};
use crate::terminal_approver;
use crate::time::{format_duration, now, parse_duration};

/// The model, its persona and its limits.
#[derive(Debug, Group)]
pub(crate) struct ModelArgs {
    /// Persona: a name (see `byleave agent persona`) or a file [default: that of the session, or coder]
    #[arg(long, value_name = "NAME")]
    pub(crate) persona: Option<String>,
    /// Model, as in `anthropic/claude-sonnet-4-5` [default: that of the session, $BYLEAVE_MODEL, or that of the persona]
    ///
    /// Providers: openai, anthropic, gemini and ollama.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Compatible endpoint, as in `http://localhost:8000/v1` [default: $BYLEAVE_MODEL_URL, or that of the provider]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// How the model calls tools
    #[arg(long, value_enum, default_value_t = ToolCallStyleArg::Auto)]
    pub(crate) tool_calls: ToolCallStyleArg,
    /// How much is asked [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// Show what each call would do; run and change nothing
    ///
    /// The model itself is called, and costs what it costs.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Where questions go [default: setting `ask`, or terminal if there is one, else none]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<AskArg>,
    /// Maximum number of turns for each of your messages
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: u32,
    /// Maximum number of input and output tokens for each of your messages
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Maximum cost for each of your messages, in the unit of `--prices`
    #[arg(long, value_name = "AMOUNT", requires = "prices", value_parser = amount)]
    pub(crate) max_cost: Option<f64>,
    /// Prices of a million input and output tokens, as in `3/15`
    #[arg(long, value_name = "INPUT/OUTPUT", value_parser = prices)]
    pub(crate) prices: Option<TokenPrices>,
    /// Maximum time for each of your messages: a number and s, m, h, d or w, as in `30m`
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_time: Option<String>,
}

/// How a model calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolCallStyleArg {
    /// Native tool calls, or tool blocks if the model has none
    Auto,
    /// Native tool calls of the model
    Native,
    /// Fenced blocks tagged `tool`
    Blocks,
}

impl From<ToolCallStyleArg> for ToolCallStyle {
    fn from(typed: ToolCallStyleArg) -> Self {
        match typed {
            ToolCallStyleArg::Auto => Self::Auto,
            ToolCallStyleArg::Native => Self::Native,
            ToolCallStyleArg::Blocks => Self::Blocks,
        }
    }
}

fn amount(typed: &str) -> Result<f64, String> {
    let amount: Option<f64> = typed.parse().ok();
    amount
        .filter(|amount| amount.is_finite() && *amount >= 0.0)
        .ok_or_else(|| "expected a number, as in `1.50`".into())
}

fn prices(typed: &str) -> Result<TokenPrices, String> {
    let (input, output) = typed.split_once('/').ok_or("expected two numbers, as in `3/15`")?;
    Ok(TokenPrices { input: amount(input)?, output: amount(output)? })
}

/// The maximum number of turns that are searched for sessions.
const TURNS_MAX: usize = 100_000;

/// Returns the directory of the person's own personas.
pub(crate) fn personas(options: &ResolvedOptions) -> Option<PathBuf> {
    options.config.as_ref().map(|dir| Path::new(dir).join("personas"))
}

/// Loads the persona with this name.
pub(crate) fn persona(name: &str, options: &ResolvedOptions) -> Result<LoadedPersona> {
    let found = Persona::load(name, personas(options).as_deref());
    Ok(found.map_err(|fault| CliError::new(fault.to_string()).hint(persona_hint(&fault)))?)
}

/// Suggests the names that are near to an unknown one.
fn persona_hint(fault: &PersonaLoadError) -> String {
    let list = "`byleave agent persona` lists the personas";
    let PersonaLoadError::Unknown { name, known } = fault else { return list.to_owned() };
    let near = near(name, known.iter().map(String::as_str));
    let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    if near.is_empty() { list.to_owned() } else { format!("did you mean {}? {list}", near.join(" or ")) }
}

/// Creates a gate and a conversation on it.
pub(crate) fn agent(
    gate: &Gate,
    house: &AppContext,
    options: &ResolvedOptions,
    session: SessionId,
    typed: &ModelArgs,
    before: &Conversation,
    watcher: EventListener,
) -> Result<Agent> {
    let last = before.last_known_turn();
    if let Some(last) = last.filter(|last| last.cwd != options.cwd) {
        let what = format!("this conversation belongs to the directory `{}`", last.cwd);
        return Err(CliError::new(what).hint("change to that directory to continue the conversation").into());
    }
    let last = last.map(|taken| &taken.arguments);
    if let Some(last) = last.filter(|last| last.dry_run != typed.dry_run) {
        return Err(other_kind(last.dry_run).into());
    }
    let name = typed.persona.clone().or_else(|| last.map(|asked| asked.persona.clone()));
    let found = persona(name.as_deref().unwrap_or("coder"), options)?;
    let speaker = speaker(typed, last.map(|asked| asked.model.as_str()), &found.persona)?;
    if let Some(last) = last.filter(|last| typed.base_url.is_none() && last.endpoint != speaker.endpoint) {
        let what = format!(
            "this conversation used the endpoint {}, and would now be sent to {}",
            last.endpoint, speaker.endpoint
        );
        return Err(CliError::new(what).hint("choose the endpoint with `--base-url`").into());
    }
    let seat = ConversationContext {
        tenant: options.tenant.clone(),
        session,
        agent: AgentId::new(found.key.clone())?,
        cwd: options.cwd.clone(),
        mode: options.settings.clone().with_mode(typed.mode).mode(),
        dry_run: typed.dry_run,
    };
    let time = typed.max_time.as_deref().map(parse_duration).transpose()?.map(Duration::from_millis);
    let limits = TaskLimits {
        turns: typed.max_turns,
        max_tokens: typed.max_tokens,
        cost: typed.max_cost,
        prices: typed.prices,
        max_time: time,
        ..TaskLimits::default()
    };
    let ledger = Arc::clone(&house.audit_log) as Arc<_>;
    Ok(Agent::new(gate.clone(), ledger, seat, found, speaker, limits, watcher)?)
}

/// Returns the error for a dry run that is continued as a real conversation, or the reverse.
fn other_kind(was_dry_run: bool) -> CliError {
    if was_dry_run {
        return CliError::new("this conversation is a dry run, in which nothing was executed")
            .hint("continue it with `--dry-run`, or begin a new conversation");
    }
    CliError::new("this conversation is not a dry run")
        .hint("begin a new conversation with `--dry-run`, or continue this one without it")
}

/// Creates the gate of a conversation. It is a separate gate, because it removes tools that the persona does not have.
pub(crate) fn gate(
    house: &AppContext,
    options: &ResolvedOptions,
    typed: &ModelArgs,
    ask: AskArg,
) -> Result<Gate> {
    let chosen = options.settings.clone().with_mode(typed.mode);
    terminal_approver::gate_with(house, &options.for_models(), &options.cwd, ask, chosen.gate(), || {
        terminal_approver::at_terminal(options, house)
    })
}

fn speaker(typed: &ModelArgs, before: Option<&str>, persona: &Persona) -> Result<ModelHandle> {
    let name = match &persona.hosted {
        Some(hosted) => Some(hosted_name(typed, hosted)?),
        None => typed.model.clone().or_else(|| before.map(str::to_owned)),
    };
    let name = name.or_else(|| variable("BYLEAVE_MODEL"));
    let name = name.or_else(|| persona.model.as_ref().map(ToString::to_string));
    let known = "write PROVIDER/MODEL with openai, anthropic, gemini or ollama, as in `--model anthropic/claude-sonnet-4-5`";
    let Some(name) = name else {
        return Err(CliError::new("no model is chosen")
            .hint(format!("{known}, or set BYLEAVE_MODEL"))
            .into());
    };
    let wrong = || {
        CliError::new(format!("`{}` does not name a model of a known provider", name.escape_debug()))
            .hint(known)
    };
    let model = ModelName::parse(&name).ok_or_else(wrong)?;
    let kind: ProviderKind = model.provider.parse().map_err(|_| wrong())?;
    let base_url = typed.base_url.clone().or_else(|| variable("BYLEAVE_MODEL_URL"));
    let settings = ProviderSettings { base_url, ..ProviderSettings::new(kind, model.model) };
    let provider = ProviderModel::from_env(settings.clone()).map_err(|fault| unfit(&fault))?;
    let (endpoint, host) = (provider.endpoint(), provider.host());
    let style = ToolCallStyle::from(typed.tool_calls);
    let model = match &persona.hosted {
        Some(_) => ToolBlockModel::hosted(provider, style),
        None => ToolBlockModel::new(provider, &settings, style),
    };
    Ok(ModelHandle { name, endpoint, host, model: Arc::new(model) })
}

/// Returns the name of a hosted persona in place of a model. Another model would not have its prompt.
fn hosted_name(typed: &ModelArgs, hosted: &ModelName) -> Result<String, CliError> {
    let name = hosted.to_string();
    match &typed.model {
        Some(other) if *other != name => {
            Err(CliError::new(format!("the persona is hosted as `{name}`, and cannot use another model"))
                .hint("leave out `--model`, or use another persona"))
        }
        _ => Ok(name),
    }
}

fn unfit(fault: &ModelError) -> CliError {
    let hint = match fault {
        ModelError::NoKey { variable } => {
            format!("set the environment variable `{variable}`; its value is sent only to the provider")
        }
        _ => "check `--model` and `--base-url`".to_owned(),
    };
    CliError::new(fault.to_string()).hint(hint)
}

/// Returns the option of a dry run with a space before it, for commands that continue one.
pub(crate) fn dry_run_option(typed: &ModelArgs) -> &'static str {
    if typed.dry_run { " --dry-run" } else { "" }
}

/// Describes the usage of a conversation.
pub(crate) fn format_usage(used: TaskUsage) -> String {
    let cost = used.cost.map(|cost| format!(", {cost:.4} spent")).unwrap_or_default();
    let tokens = used.input_tokens.saturating_add(used.output_tokens);
    format!("{}, {tokens} tokens{cost}", format_count(used.turns.into(), "turn"))
}

/// Describes a conversation in one line.
pub(crate) fn describe(history: &History) -> String {
    let ago = format_duration(now().saturating_sub(history.started_at));
    let turns = format_count(history.used.turns.into(), "turn");
    format!("{}, {ago} ago, {} with {}, {turns}", history.session, history.persona, history.model)
}

/// Returns the sessions of conversations, newest first.
pub(crate) async fn sessions(house: &AppContext, options: &ResolvedOptions) -> Result<Vec<SessionId>> {
    let filter = CallFilter {
        tenant: Some(options.tenant.clone()),
        tool: Some(MODEL_TURN.to_owned()),
        ..CallFilter::default()
    };
    let turns = house.audit_log.calls(filter, PageRequest::with_limit(TURNS_MAX)).await?;
    let mut sessions: Vec<SessionId> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for turn in turns {
        if seen.insert(turn.call_summary.session.clone()) {
            sessions.push(turn.call_summary.session);
        }
    }
    Ok(sessions)
}

/// Finds the session that was typed in full or by its end.
pub(crate) async fn session(typed: &str, house: &AppContext, options: &ResolvedOptions) -> Result<SessionId> {
    let sessions = sessions(house, options).await?;
    let hint = "`byleave agent history` lists the conversations";
    if let Some(whole) = sessions.iter().find(|session| session.as_str() == typed) {
        return Ok(whole.clone());
    }
    let ends: Vec<_> =
        sessions.iter().filter(|session| typed.len() >= 4 && session.as_str().ends_with(typed)).collect();
    match ends.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(CliError::new(format!("there is no conversation `{}`", typed.escape_debug()))
            .hint(hint)
            .into()),
        _ => Err(CliError::new(format!("several conversations end with `{}`", typed.escape_debug()))
            .hint(hint)
            .into()),
    }
}

/// Reads a conversation from the audit log.
pub(crate) async fn conversation(
    gate: &Gate,
    house: &AppContext,
    options: &ResolvedOptions,
    session: &SessionId,
) -> Result<Conversation> {
    Ok(Conversation::read(gate, &*house.audit_log, &options.tenant, session).await?)
}
