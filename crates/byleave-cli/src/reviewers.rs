//! Builds the reviewers of the settings and adds them to a gate. A reviewer that cannot be built stops the program.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use byleave_gate::builtin_reviewers::{
    ProgramReviewer, WebhookReviewer, drop_fields, secret_redaction, strip,
};
use byleave_gate::gate::GateBuilder;
use byleave_gate::review::{NamedReviewer, ReviewScope};
use byleave_mcp::upstream::ACCEPT_TOOL;

use crate::config::{Config, ReviewerKind, ReviewerSetting};
use crate::error::CliError;
use crate::private_file::read_private;

/// Calls of the program itself, which no agent makes: a turn of a model, the report of a hook, the acceptance of an MCP server.
/// A reviewer must name them to review them.
const OWN_CALLS: [&str; 3] = ["model_turn", "agent_ran", ACCEPT_TOOL];

/// Adds the reviewers of the settings, after those that the builder has.
///
/// A later reviewer sees the changes of the earlier ones, so these must come last.
pub(crate) fn attach(mut builder: GateBuilder, settings: &Config, workspace: &str) -> Result<GateBuilder> {
    for reviewer in settings.reviewers() {
        builder = attach_one(builder, reviewer, Path::new(workspace))?;
    }
    Ok(builder)
}

fn attach_one(
    builder: GateBuilder,
    reviewer: &ReviewerSetting,
    workspace: &Path,
) -> Result<GateBuilder, CliError> {
    let scope = ReviewScope::Patterns {
        names: reviewer.tools.clone(),
        except: OWN_CALLS.map(str::to_owned).to_vec(),
    };
    Ok(match &reviewer.kind {
        ReviewerKind::Secrets => builder.review_output(scope, named(reviewer, None, secret_redaction())),
        ReviewerKind::DropFields { fields } => {
            builder.review_output(scope, named(reviewer, None, drop_fields(fields.clone())))
        }
        ReviewerKind::Strip { argument, remove } => {
            builder.review_input(scope, named(reviewer, None, strip(argument.clone(), remove.clone())))
        }
        ReviewerKind::Program { program, arguments, on, timeout } => {
            check_program(program, workspace).map_err(|(why, hint)| unusable(reviewer, &why).hint(hint))?;
            let made = ProgramReviewer::new(reviewer.name.clone(), program)
                .map_err(|error| unusable(reviewer, &error.to_string()))?;
            let made = arguments.iter().fold(made, |made, argument| made.arg(argument));
            let made = named(reviewer, *timeout, made);
            let builder =
                if on.has_input() { builder.review_input(scope.clone(), made.clone()) } else { builder };
            if on.has_output() { builder.review_output(scope, made) } else { builder }
        }
        ReviewerKind::Webhook { url, secret_file, on, timeout } => {
            let make = || Ok::<_, CliError>(named(reviewer, *timeout, service(reviewer, url, secret_file)?));
            let builder = if on.has_input() { builder.review_input(scope.clone(), make()?) } else { builder };
            if on.has_output() { builder.review_output(scope, make()?) } else { builder }
        }
    })
}

fn named<R>(reviewer: &ReviewerSetting, timeout: Option<Duration>, made: R) -> NamedReviewer<R> {
    let made = NamedReviewer::new(reviewer.name.clone(), made);
    match timeout {
        Some(limit) => made.with_timeout(limit),
        None => made,
    }
}

fn service(reviewer: &ReviewerSetting, url: &str, secret_file: &Path) -> Result<WebhookReviewer, CliError> {
    let secret = read_private(secret_file).map_err(|why| {
        let hint = "the file must contain only the secret that the service knows, at least 16 bytes, and only its \
                    owner may read it: `chmod 600`";
        unusable(reviewer, &format!("the secret in `{}`: {why}", secret_file.display())).hint(hint)
    })?;
    WebhookReviewer::new(reviewer.name.clone(), url, secret).map_err(|error| {
        unusable(reviewer, &error.to_string()).hint(
            "`url` begins with https, or on this machine with http; `secret_file` has the shared secret",
        )
    })
}

/// Checks that a program exists, and that neither other users nor agents can change it. Fails with the reason and what to do.
fn check_program(program: &Path, workspace: &Path) -> Result<(), (String, String)> {
    let shown = program.display();
    let wrong = |why: &str, hint: String| Err((format!("`{shown}` {why}"), hint));
    let found = match program.canonicalize().and_then(|real| Ok((fs::metadata(&real)?, real))) {
        Ok(found) => found,
        Err(error) => {
            let hint = "`command` begins with the path of an existing program".to_owned();
            return Err((format!("cannot find `{shown}`: {error}"), hint));
        }
    };
    let (about, real) = found;
    if !about.is_file() || about.mode() & 0o111 == 0 {
        return wrong("is not an executable file", format!("make it one: `chmod u+x {shown}`"));
    }
    let user = rustix::process::geteuid().as_raw();
    if about.mode() & 0o022 != 0 || (about.uid() != 0 && about.uid() != user) {
        let hint = format!("make it yours alone: `chmod go-w {shown}`, or change its owner with `chown`");
        return wrong("can be changed by other users", hint);
    }
    if about.uid() != 0 && real.starts_with(workspace) {
        let hint = "move it to a directory in which no agent works".to_owned();
        return wrong("is in the workspace, where agents can change it", hint);
    }
    Ok(())
}

fn unusable(reviewer: &ReviewerSetting, why: &str) -> CliError {
    CliError::new(format!("cannot use the reviewer `{}` ({}): {why}", reviewer.name, reviewer.place()))
}

#[cfg(test)]
mod tests {
    // req: R12
    #[cfg(feature = "agent")]
    #[test]
    fn a_turn_of_a_model_is_a_call_of_the_program_itself() {
        assert!(super::OWN_CALLS.contains(&byleave_agent::model_turn::MODEL_TURN));
    }
}
