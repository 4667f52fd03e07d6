//! `byleave token`: who may use the server, and for what.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;

use anyhow::{Context as _, Result};
use byleave_server::FileFault;
use byleave_server::principal::{Kind, Scope};
use byleave_server::tokens::{Identity, Token, TokenFault, Tokens, Wanted};
use serde_json::{Value, json};

use crate::args::{AddToken, ScopeArg, TokenCommand};
use crate::complaint::Complaint;
use crate::options::Options;
use crate::screen::{Screen, one_line, prose};
use crate::show::table;
use crate::status::Status;
use crate::time::{lasting, now, span};

pub(crate) fn run(command: Option<TokenCommand>, options: &Options, screen: &mut Screen) -> Result<Status> {
    match command.unwrap_or(TokenCommand::List) {
        TokenCommand::Add(typed) => add(typed, options, screen),
        TokenCommand::List => list(options, screen),
        TokenCommand::Remove { id } => remove(&id, options, screen),
    }
}

/// The tokens of the server that keeps its book here.
pub(super) fn tokens(options: &Options) -> Tokens {
    Tokens::at(options.state.join("tokens.json"))
}

/// A fault as something that can be mended.
pub(super) fn unusable(fault: &TokenFault) -> Complaint {
    let hint = match fault {
        TokenFault::File(FileFault::Exposed(_)) => {
            "close it with `chmod 600`, or remove it and make new tokens"
        }
        TokenFault::File(FileFault::Unreadable { .. } | FileFault::System { .. }) => {
            "remove the file and make new tokens"
        }
        TokenFault::Lasting => "say how long with `--for`, as in `--for 30d`",
        TokenFault::Scopeless => "name one with `--scope`",
        TokenFault::AgentAdministers => "leave `administer` out, or say `--person`",
        TokenFault::WorkAlone => "make a token with `--scope work` alone, and another for whatever else",
        TokenFault::AgentSignsIn => "say `--person`",
        TokenFault::Nobody => "say `--as sub:SUBJECT` or `--as email:ADDRESS`",
        TokenFault::Known => "`byleave token list` lists who may",
        TokenFault::OtherKind { .. } => "choose another name",
        TokenFault::TooMany => "`byleave token list` lists them, `byleave token remove` removes one",
    };
    Complaint::new(fault.to_string()).hint(hint)
}

fn add(typed: AddToken, options: &Options, screen: &mut Screen) -> Result<Status> {
    let kind = if typed.person { Kind::Person } else { Kind::Agent };
    let usual: &[Scope] = match kind {
        Kind::Person => &[Scope::Answer, Scope::Read],
        Kind::Agent => &[Scope::Submit],
    };
    let scopes = match typed.scopes.is_empty() {
        true => usual.iter().copied().collect(),
        false => typed.scopes.into_iter().map(scope).collect(),
    };
    let (tenant, name, lasts_ms) = (typed.tenant, typed.name, lasting(&typed.lasting)?);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&options.state);
    made.with_context(|| format!("cannot make `{}`", options.state.display()))?;
    let wanted = Wanted { tenant, name, kind, scopes, lasts_ms };
    if let Some((issuer, who)) = typed.at.zip(typed.signs_in_as) {
        let identity = Identity { issuer, who };
        let token = tokens(options).admit(wanted, identity, now()).map_err(|fault| unusable(&fault))?;
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
        return Ok(Status::Completed);
    }
    screen.line(&text);
    screen.say(&prose(&format!(
        "token {} for {} `{}`, good for {}, for {}; it is not shown again",
        token.id,
        token.kind.word(),
        token.name,
        words(&token),
        span(lasts_ms)
    )));
    Ok(Status::Completed)
}

/// Says who may sign in elsewhere now.
fn admitted(token: &Token, screen: &mut Screen) -> Status {
    if screen.json() {
        screen.value(&shown(token));
    } else {
        screen.say(&prose(&format!(
            "`{}` may sign in{}, good for {}; `byleave token remove {}` ends it",
            token.name,
            elsewhere(token),
            words(token),
            token.id
        )));
    }
    Status::Completed
}

/// Where somebody signs in, and as whom.
fn elsewhere(token: &Token) -> String {
    let told = |identity: &Identity| format!(" as {} at {}", identity.who, identity.issuer);
    token.signs_in.as_ref().map(told).unwrap_or_default()
}

fn list(options: &Options, screen: &mut Screen) -> Result<Status> {
    let found = tokens(options).list().map_err(|fault| unusable(&fault))?;
    if screen.json() {
        screen.value(&found.iter().map(shown).collect());
    } else if found.is_empty() {
        screen.say("there are no tokens; `byleave token add NAME` makes one");
    } else {
        let now = now();
        let rows = found.iter().map(|token| {
            let left = match token.expires_at.checked_sub(now) {
                Some(left) if left > 0 => format!("for {}", span(left)),
                _ => "no longer".to_owned(),
            };
            let (kind, tenant) = (token.kind.word().to_owned(), token.tenant.to_string());
            let good = format!("{}{}", words(token), elsewhere(token));
            vec![token.id.clone(), tenant, token.name.to_string(), kind, one_line(&good), left]
        });
        table(screen, &["TOKEN", "TENANT", "NAME", "KIND", "GOOD FOR", "COUNTS"], &rows.collect::<Vec<_>>());
    }
    Ok(Status::Completed)
}

fn remove(id: &str, options: &Options, screen: &mut Screen) -> Result<Status> {
    let missing =
        || Complaint::new(format!("there is no token `{id}`")).hint("`byleave token list` lists them");
    // Nothing is made where there is nothing.
    if !tokens(options).list().map_err(|fault| unusable(&fault))?.iter().any(|token| token.id == id) {
        return Err(missing().into());
    }
    let removed = tokens(options).remove(id).map_err(|fault| unusable(&fault))?;
    let removed = removed.ok_or_else(missing)?;
    if screen.json() {
        screen.value(&shown(&removed));
    } else {
        screen.say(&prose(&format!("token {} of `{}` counts no longer", removed.id, removed.name)));
    }
    Ok(Status::Completed)
}

fn words(token: &Token) -> String {
    token.scopes.iter().map(|scope| scope.word()).collect::<Vec<_>>().join(", ")
}

fn shown(token: &Token) -> Value {
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

const fn scope(typed: ScopeArg) -> Scope {
    match typed {
        ScopeArg::Submit => Scope::Submit,
        ScopeArg::Answer => Scope::Answer,
        ScopeArg::Read => Scope::Read,
        ScopeArg::Administer => Scope::Administer,
        ScopeArg::Work => Scope::Work,
    }
}
