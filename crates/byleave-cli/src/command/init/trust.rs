//! Trusts our hooks in Codex, which skips every hook that the person did not trust.
//!
//! Codex itself names the hash of each hook. Only a hook that `init` wrote, in the file in which it wrote it, is trusted here.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use byleave_hook::AgentKind;
use serde_json::json;

use super::apply;
use super::plan::{InitFileEdit, InitPlan};
use crate::agent_configs::{self, ProgramPaths};
use crate::atomic_replace;
use crate::codex_program::{self, ListedHook};
use crate::config_edit::{self, EditOp, FileFormat};
use crate::resolved_options::ResolvedOptions;

/// Whether the agent runs the hooks that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HookTrust {
    /// The agent runs every hook in its settings.
    NotNeeded,
    /// The agent runs our hooks. This many became trusted now.
    Trusted(usize),
    /// The person must trust them, for this reason.
    ByPerson(String),
}

/// Trusts the hooks of a plan that was applied.
pub(super) fn trust_hooks(plan: &InitPlan, programs: &ProgramPaths, options: &ResolvedOptions) -> HookTrust {
    if plan.agent != AgentKind::Codex {
        return HookTrust::NotNeeded;
    }
    match try_trust(plan, programs, options) {
        Ok(trust) => trust,
        Err(error) => HookTrust::ByPerson(format!("{error:#}")),
    }
}

fn try_trust(plan: &InitPlan, programs: &ProgramPaths, options: &ResolvedOptions) -> Result<HookTrust> {
    let places = options.agent_places(plan.project.clone())?;
    let codex = codex_program::find().context("the program `codex` was not found")?;
    let wanted = agent_configs::hook_commands(plan.agent, &places, programs);
    let listed = codex_program::listed_hooks(&codex, &options.cwd)?;
    let is_ours = |hook: &&ListedHook| {
        wanted.iter().any(|(path, command)| {
            hook.command.as_ref() == Some(command) && same_file(&hook.source_path, path)
        })
    };
    let ours: Vec<ListedHook> = listed.iter().filter(is_ours).cloned().collect();
    if ours.len() < wanted.len() {
        return Ok(HookTrust::ByPerson("codex does not list all of them".to_owned()));
    }
    let ops: Vec<EditOp> = ours.iter().filter(|hook| !hook.runs()).map(trusted).collect();
    if ops.is_empty() {
        return Ok(HookTrust::Trusted(0));
    }
    let path = atomic_replace::target(&places.own_codex().join("config.toml"))?;
    let before = atomic_replace::text(&path)?;
    let after = config_edit::apply(FileFormat::Toml, before.as_deref().unwrap_or_default(), &ops)
        .with_context(|| format!("cannot change `{}`", path.display()))?;
    let count = ops.len();
    let edit = InitFileEdit { path, format: FileFormat::Toml, before, after, ops };
    apply::apply(&plan.with_only(edit), options)?;
    Ok(HookTrust::Trusted(count))
}

fn trusted(hook: &ListedHook) -> EditOp {
    EditOp::Set {
        at: vec!["hooks".to_owned(), "state".to_owned(), hook.key.clone()],
        value: json!({ "trusted_hash": hook.current_hash }),
    }
}

fn same_file(one: &PathBuf, other: &PathBuf) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}
