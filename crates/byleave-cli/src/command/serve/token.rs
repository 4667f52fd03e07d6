//! `byleave serve token`: manages who may use the server, and for what.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;

use anyhow::{Context as _, Result};
use byleave_server::PrivateFileError;
use byleave_server::principal::{AccessScope, PrincipalKind, Slug};
use byleave_server::tokens::{NewToken, OidcIdentity, StoredToken, TokenError, TokenStore};
use clap::{Args as Group, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::call_display::table;
use crate::console::{Console, one_line, prose};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::time::{format_duration, now, parse_duration};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token
    ///
    /// The token is printed once. Only its digest is stored.
    Add(AddTokenArgs),
    /// List the tokens (the default)
    List,
    /// Remove a token; it is rejected at once
    Remove {
        /// Token id, as shown in the list
        id: String,
    },
}

#[derive(Debug, Group)]
pub(crate) struct AddTokenArgs {
    /// Name of the holder; calls and answers are recorded under it
    pub(crate) name: Slug,
    /// The holder is a person, not an agent
    #[arg(long)]
    pub(crate) person: bool,
    /// Scopes, separated by commas [default: submit for an agent, answer and read for a person]
    #[arg(long = "scope", value_enum, value_delimiter = ',', value_name = "SCOPE")]
    pub(crate) scopes: Vec<ScopeArg>,
    /// OpenID Connect issuer where the person signs in, instead of a token
    #[arg(long, value_name = "ISSUER", requires = "signs_in_as", requires = "person")]
    pub(crate) at: Option<String>,
    /// Identity at the issuer: sub:SUBJECT, or email:ADDRESS if the issuer has verified it
    #[arg(long = "as", value_name = "IDENTITY", requires = "at")]
    pub(crate) signs_in_as: Option<String>,
    /// Lifetime: a number and s, m, h, d or w
    #[arg(long = "for", value_name = "DURATION", default_value = "90d")]
    pub(crate) lasting: String,
    /// Tenant
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) tenant: Slug,
}

/// The scope of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// Make calls and read their results
    Submit,
    /// Read questions in full, and answer those of others
    Answer,
    /// Read the audit log
    Read,
    /// Halt, revoke and cancel; for people only
    Administer,
    /// Execute calls as a worker; not combined with other scopes
    Work,
}

pub(crate) fn run(
    command: Option<TokenCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command.unwrap_or(TokenCommand::List) {
        TokenCommand::Add(typed) => add(typed, options, screen),
        TokenCommand::List => list(options, screen),
        TokenCommand::Remove { id } => remove(&id, options, screen),
    }
}

/// Returns the tokens of the server with this state directory.
pub(super) fn tokens(options: &ResolvedOptions) -> TokenStore {
    TokenStore::new(options.state.join("tokens.json"))
}

/// Converts an error to one with a hint.
pub(super) fn unusable(fault: &TokenError) -> CliError {
    let hint = match fault {
        TokenError::File(PrivateFileError::Exposed(_)) => {
            "protect the file with `chmod 600`, or remove it and create new tokens"
        }
        TokenError::File(PrivateFileError::Unreadable { .. } | PrivateFileError::Io { .. }) => {
            "remove the file and create new tokens"
        }
        TokenError::InvalidLifetime => "set the lifetime with `--for`, as in `--for 30d`",
        TokenError::NoScopes => "name one with `--scope`",
        TokenError::AgentAdministers => "omit `administer`, or add `--person`",
        TokenError::WorkAlone => "create a token with only `--scope work`, and another one for other scopes",
        TokenError::AgentSignsIn => "add `--person`",
        TokenError::InvalidIdentity => "use `--as sub:SUBJECT` or `--as email:ADDRESS`",
        TokenError::AlreadyRegistered => "`byleave serve token list` lists who may sign in",
        TokenError::OtherKind { .. } => "choose another name",
        TokenError::TooMany => {
            "`byleave serve token list` lists the tokens, `byleave serve token remove` removes one"
        }
    };
    CliError::new(fault.to_string()).hint(hint)
}

fn add(typed: AddTokenArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let kind = if typed.person { PrincipalKind::Person } else { PrincipalKind::Agent };
    let usual: &[AccessScope] = match kind {
        PrincipalKind::Person => &[AccessScope::Answer, AccessScope::Read],
        PrincipalKind::Agent => &[AccessScope::Submit],
    };
    let scopes = match typed.scopes.is_empty() {
        true => usual.iter().copied().collect(),
        false => typed.scopes.into_iter().map(scope).collect(),
    };
    let (tenant, name, lasts_ms) = (typed.tenant, typed.name, parse_duration(&typed.lasting)?);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&options.state);
    made.with_context(|| format!("cannot make `{}`", options.state.display()))?;
    let wanted = NewToken { tenant, name, kind, scopes, lifetime_ms: lasts_ms };
    if let Some((issuer, who)) = typed.at.zip(typed.signs_in_as) {
        let identity = OidcIdentity { issuer, subject: who };
        let token =
            tokens(options).add_identity(wanted, identity, now()).map_err(|fault| unusable(&fault))?;
        return Ok(admitted(&token, screen));
    }
    let (token, secret) = tokens(options).add(wanted, now()).map_err(|fault| unusable(&fault))?;
    let text = String::from_utf8_lossy(secret.expose()).into_owned();
    if screen.json() {
        let mut value = shown(&token);
        if let Value::Object(fields) = &mut value {
            fields.insert("token".into(), text.into());
        }
        screen.value(&value);
        return Ok(ExitStatus::Completed);
    }
    screen.line(&text);
    screen.message(&prose(&format!(
        "token {} for {} `{}`, with scope {}, valid for {}; it is not shown again",
        token.id,
        token.kind.as_str(),
        token.name,
        words(&token),
        format_duration(lasts_ms)
    )));
    Ok(ExitStatus::Completed)
}

/// Reports who may sign in at a provider now.
fn admitted(token: &StoredToken, screen: &mut Console) -> ExitStatus {
    if screen.json() {
        screen.value(&shown(token));
    } else {
        screen.message(&prose(&format!(
            "`{}` may sign in{}, with scope {}; `byleave serve token remove {}` revokes this",
            token.name,
            elsewhere(token),
            words(token),
            token.id
        )));
    }
    ExitStatus::Completed
}

/// Describes where somebody signs in, and as whom.
fn elsewhere(token: &StoredToken) -> String {
    let told = |identity: &OidcIdentity| format!(" as {} at {}", identity.subject, identity.issuer);
    token.signs_in.as_ref().map(told).unwrap_or_default()
}

fn list(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let found = tokens(options).list().map_err(|fault| unusable(&fault))?;
    if screen.json() {
        screen.value(&found.iter().map(shown).collect());
    } else if found.is_empty() {
        screen.message("there are no tokens; `byleave serve token add NAME` creates one");
    } else {
        let now = now();
        let rows = found.iter().map(|token| {
            let left = match token.expires_at.checked_sub(now) {
                Some(left) if left > 0 => format!("for {}", format_duration(left)),
                _ => "no longer".to_owned(),
            };
            let (kind, tenant) = (token.kind.as_str().to_owned(), token.tenant.to_string());
            let good = format!("{}{}", words(token), elsewhere(token));
            vec![token.id.clone(), tenant, token.name.to_string(), kind, one_line(&good), left]
        });
        table(screen, &["TOKEN", "TENANT", "NAME", "KIND", "SCOPES", "VALID"], &rows.collect::<Vec<_>>());
    }
    Ok(ExitStatus::Completed)
}

fn remove(id: &str, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let missing = || {
        CliError::new(format!("there is no token `{id}`")).hint("`byleave serve token list` lists the tokens")
    };
    // Do not create the file if there is none.
    if !tokens(options).list().map_err(|fault| unusable(&fault))?.iter().any(|token| token.id == id) {
        return Err(missing().into());
    }
    let removed = tokens(options).remove(id).map_err(|fault| unusable(&fault))?;
    let removed = removed.ok_or_else(missing)?;
    if screen.json() {
        screen.value(&shown(&removed));
    } else {
        screen.message(&prose(&format!("token {} of `{}` is no longer valid", removed.id, removed.name)));
    }
    Ok(ExitStatus::Completed)
}

fn words(token: &StoredToken) -> String {
    token.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")
}

fn shown(token: &StoredToken) -> Value {
    json!({
        "id": token.id,
        "tenant": token.tenant,
        "name": token.name,
        "kind": token.kind,
        "scopes": token.scopes,
        "made_at": token.made_at,
        "expires_at": token.expires_at,
        "signs_in": token.signs_in,
    })
}

const fn scope(typed: ScopeArg) -> AccessScope {
    match typed {
        ScopeArg::Submit => AccessScope::Submit,
        ScopeArg::Answer => AccessScope::Answer,
        ScopeArg::Read => AccessScope::Read,
        ScopeArg::Administer => AccessScope::Administer,
        ScopeArg::Work => AccessScope::Work,
    }
}
