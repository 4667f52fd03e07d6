//! Applies a plan. The order matters: first the journal, then the servers in their new file, and only then their removal from the
//! agent's file. An interruption loses nothing, and `--undo` reverts what was done.

use anyhow::Result;

use super::plan::InitPlan;
use crate::atomic_replace;
use crate::init_journal::{BeforeAfter, ChangedFile, InitJournal, InitStep, ServersChange, missing_above};
use crate::resolved_options::ResolvedOptions;
use crate::time::now;

pub(super) fn apply(plan: &InitPlan, options: &ResolvedOptions) -> Result<()> {
    let mut setup = InitJournal::load_or_new(options, plan.agent, plan.project.clone())?;
    let mut step = InitStep { at: now(), files: Vec::new(), servers: None };
    let files: Vec<_> = plan.files.iter().filter(|file| !file.ops.is_empty()).collect();
    for (number, file) in files.iter().enumerate() {
        let texts = BeforeAfter { before: file.before.as_deref(), after: &file.after };
        step.files.push(ChangedFile {
            path: file.path.clone(),
            format: file.format,
            ops: file.ops.clone(),
            created_dirs: missing_above(&file.path),
            texts: setup.store_texts(number, texts)?,
        });
    }
    let servers = &plan.servers;
    if !plan.moved.is_empty() {
        let texts = BeforeAfter { before: servers.before.as_deref(), after: &servers.after };
        step.servers = Some(ServersChange {
            path: servers.path.clone(),
            added: servers.added.clone(),
            shared: servers.shared.clone(),
            created_dirs: missing_above(&servers.path),
            texts: setup.store_texts(files.len(), texts)?,
        });
    }
    setup.steps.push(step);
    setup.save(options)?;
    if !servers.added.is_empty() {
        atomic_replace::replace(&servers.path, servers.before.as_deref(), &servers.after)?;
    }
    for file in files {
        atomic_replace::replace(&file.path, file.before.as_deref(), &file.after)?;
    }
    Ok(())
}
