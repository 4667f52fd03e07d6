//! Recorded calls that can be evaluated again, and the policies for that.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::pin;

use anyhow::Result;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::audit_log::CallFilter;
use byleave_gate::audit_log::export::{self, IncludeContents};
use byleave_gate::core::policy::{Layer, Policy, Rule};
use byleave_gate::policy_files::{self, PolicyFile};
use byleave_gate::replay::{ReplayError, ReplayableCall};
use futures::StreamExt as _;

use crate::active_policy::ActivePolicy;
use crate::app_context::AppContext;
use crate::hook;
use crate::resolved_options::{ResolvedOptions, real_path};
use crate::time::now;
use crate::tool_catalog;

/// Returns every call of the audit log, newest first.
pub(super) async fn load_calls(
    house: &AppContext,
    options: &ResolvedOptions,
) -> Result<(Vec<ReplayableCall>, Vec<ReplayError>)> {
    let catalog = tool_catalog::catalog(options, &options.cwd, None)?;
    let leaves = house.audit_log.list_standing_approvals(&options.tenant, now()).await?;
    let (mut past, mut unjudged) = (Vec::new(), Vec::new());
    let mut records =
        pin!(export::export_records(&*house.audit_log, CallFilter::default(), IncludeContents::Included));
    while let Some(found) = records.next().await {
        let found = found?;
        if let Some(header) = found.stored.record.header() {
            hook::register_recorded_tool(&catalog, &header.tool)?;
        }
        match ReplayableCall::from_exported(&found, &catalog, &leaves) {
            Ok(one) => past.push(one),
            Err(one) => unjudged.push(one),
        }
    }
    Ok((past, unjudged))
}

/// The policies for evaluating calls again: one for each working directory.
pub(super) struct PoliciesByDirectory<'a> {
    pub(super) options: &'a ResolvedOptions,
    /// A file in place of the person's own.
    pub(super) own: Option<&'a Path>,
    /// Rules of the person in addition to the existing ones.
    pub(super) added: Vec<Rule>,
    known: HashMap<String, Result<Policy, String>>,
}

impl<'a> PoliciesByDirectory<'a> {
    pub(super) fn new(options: &'a ResolvedOptions, own: Option<&'a Path>, added: Vec<Rule>) -> Self {
        Self { options, own, added, known: HashMap::new() }
    }

    /// Returns the policy for calls in this directory, or why there is none.
    pub(super) fn for_directory(&mut self, cwd: &str) -> Result<&Policy, String> {
        if !self.known.contains_key(cwd) {
            let policy = self.load(cwd).map_err(|error| error.to_string());
            self.known.insert(cwd.to_owned(), policy);
        }
        match self.known.get(cwd) {
            Some(Ok(policy)) => Ok(policy),
            Some(Err(why)) => Err(format!("the rules for `{cwd}` cannot be used: {why}")),
            None => Err("there are no rules".to_owned()),
        }
    }

    fn load(&self, cwd: &str) -> Result<Policy> {
        let state = real_path(&self.options.state)?.unwrap_or_default();
        let rules = ActivePolicy { options: self.options, workspace: cwd, state: &state };
        let mut files = rules.files();
        if let Some(own) = self.own {
            files.retain(|file| file.layer != Layer::User);
            files.push(PolicyFile { layer: Layer::User, path: PathBuf::from(own), required: true });
        }
        let loaded = policy_files::load(&files, &rules.places(), &byleave_gate::core::policy::SkipExamples)?;
        if self.added.is_empty() {
            return Ok(loaded.policy);
        }
        // A built-in rule that the person's rule replaced stays replaced.
        let all = loaded.policy.rules().cloned().chain(self.added.iter().cloned());
        Ok(Policy::new(all.collect())?
            .with_workspace(loaded.policy.workspace())
            .with_repository(loaded.policy.repository()))
    }
}
