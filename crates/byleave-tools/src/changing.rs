//! Tools that change files: what each wants to be there is put on a copy, shown where somebody is asked, and committed as a whole.
//! So every one of them is atomic, can be rehearsed and can be taken back, and none of them opens a file for writing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave::core::change::{Change, Changes, NodeKind};
use byleave::core::effect::Effect;
use byleave::core::id::CallId;
use byleave::core::manifest::Manifest;
use byleave::core::outcome::{EndStatus, Output};
use byleave::core::rehearsal::Rehearsal;
use byleave::pending::Pending;
use byleave::tool::{Rehearse, Run, Tool, Unrehearsed};
use byleave_copy::{Copy, Fault, Method, Settings, Store};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::apart::{apart, rehearsed_apart};
use crate::commit::{committed, discard, drop_copy, finish, is_kept, undo_of};
use crate::files::Files;
use crate::revision::{From, Put, Revision};
use crate::run_by_git::run_by_git;
use crate::unasked::may_be_read;
use crate::workplace::Workplace;

/// Works out what is to be there. Must not change anything.
pub(crate) type Reviser<T> = fn(&T, &Files, &Run) -> Result<Revision, String>;

/// A tool that changes files.
pub(crate) struct Changing<T> {
    manifest: Manifest,
    workplace: Arc<Workplace>,
    reviser: Reviser<T>,
}

impl<T> Changing<T> {
    /// A tool that does what is worked out.
    pub(crate) fn new(manifest: Manifest, workplace: &Workplace, reviser: Reviser<T>) -> Self {
        Self { manifest, workplace: Arc::new(workplace.clone()), reviser }
    }
}

impl<T: DeserializeOwned + 'static> Tool for Changing<T> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn rehearser(&self) -> Option<&dyn Rehearse> {
        Some(self)
    }

    fn execute(&self, arguments: Value, run: Run) -> Pending<'_, Output> {
        let (workplace, reviser) = (Arc::clone(&self.workplace), self.reviser);
        Box::pin(apart(move || {
            let revision = revised(&workplace, reviser, arguments, &run)?;
            if revision.puts.is_empty() {
                return Ok(revision.output);
            }
            let (copy, changes) =
                on_a_copy(&workplace, &revision, &run).map_err(|unready| unready.to_string())?;
            let done = match run.cancel.is_cancelled() {
                true => Err("it was called off, and nothing was changed; call again".into()),
                false => none_is_run_by_git(&copy, &changes).and_then(|()| committed(&copy, &changes)),
            };
            if done.is_err() {
                discard(copy);
            }
            done.map(|()| Output { undo: undo_of(&run, &changes), ..revision.output })
        }))
    }
}

/// Refuses what nobody was asked about and git would run later.
fn none_is_run_by_git(copy: &Copy, changes: &Changes) -> Result<(), String> {
    match run_by_git(copy, changes).map_err(|fault| format!("nothing was changed: {fault}"))?.first() {
        None => Ok(()),
        Some(path) => Err(format!(
            "nothing was changed: git would run what `{}` says; leave it to a person",
            path.escape_debug()
        )),
    }
}

impl<T: DeserializeOwned + 'static> Rehearse for Changing<T> {
    fn rehearse(&self, arguments: Value, run: Run) -> Pending<'_, Result<Rehearsal, Unrehearsed>> {
        let (workplace, reviser) = (Arc::clone(&self.workplace), self.reviser);
        let manifest = self.manifest.clone();
        Box::pin(rehearsed_apart(move || rehearsed(&workplace, reviser, arguments, &run, &manifest)))
    }

    fn is_kept<'a>(&'a self, call: CallId, seen: &'a Rehearsal) -> Pending<'a, bool> {
        // Of nothing there is no copy to keep.
        if seen.changes.is_empty() {
            return Box::pin(async { true });
        }
        is_kept(&self.workplace, call, seen)
    }

    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: Run) -> Pending<'_, Output> {
        let workplace = Arc::clone(&self.workplace);
        Box::pin(apart(move || finish(&workplace, seen, only.as_deref(), &run)))
    }

    fn discard(&self, call: CallId) -> Pending<'_, ()> {
        drop_copy(&self.workplace, call)
    }
}

fn revised<T: DeserializeOwned>(
    workplace: &Workplace,
    reviser: Reviser<T>,
    arguments: Value,
    run: &Run,
) -> Result<Revision, String> {
    let arguments =
        serde_json::from_value(arguments).map_err(|error| format!("cannot read the arguments: {error}"))?;
    let files = Files::of(workplace, run)?;
    let revision = reviser(&arguments, &files, run)?;
    for put in &revision.puts {
        let length = put.content.as_ref().map_or(0, Vec::len) as u64;
        if length > files.bytes_max() {
            let (path, most) = (files.shown(&put.path), files.bytes_max());
            return Err(format!(
                "`{path}` would have {length} bytes, more than the {most} that a file may have; write it in parts"
            ));
        }
    }
    Ok(revision)
}

fn rehearsed<T: DeserializeOwned>(
    workplace: &Workplace,
    reviser: Reviser<T>,
    arguments: Value,
    run: &Run,
    manifest: &Manifest,
) -> Result<Rehearsal, Unrehearsed> {
    let seen = match revised(workplace, reviser, arguments, run) {
        Ok(revision) if revision.puts.is_empty() => Ok((revision.output, Changes::default())),
        Ok(revision) => match on_a_copy(workplace, &revision, run) {
            Ok((copy, changes)) => Ok((revision.output, shown(&copy, changes))),
            Err(Unrehearsed::Elsewhere) => return Err(Unrehearsed::Elsewhere),
            Err(Unrehearsed::Not(why)) => Err(why),
        },
        Err(why) => Err(why),
    };
    let (status, (output, changes)) = match seen {
        Ok(seen) => (EndStatus::Done, seen),
        // How it fails tells what is there, and that is not for the agent before somebody said so.
        Err(why) if !may_all_be_read(manifest, run) => {
            return Err(Unrehearsed::Not(format!("it would fail: {why}")));
        }
        // That it fails is what it comes to: nobody need be asked whether it may.
        Err(why) => (EndStatus::Failed, (Output::failure(why), Changes::default())),
    };
    let (wanted, weaker) = (Vec::new(), Vec::new());
    Ok(Rehearsal { changes, scratch: 0, wanted, left_running: 0, weaker, status, output })
}

/// Whether everything that the plan changes may be read as well, without anybody being asked.
fn may_all_be_read(manifest: &Manifest, run: &Run) -> bool {
    run.plan.effects.iter().all(|effect| match effect {
        Effect::Write { path } | Effect::Delete { path } => may_be_read(path, manifest, run),
        // What else there is was judged as it is.
        _ => true,
    })
}

/// With how the texts differ. That is for people: without it there is still everything to judge.
fn shown(copy: &Copy, mut changes: Changes) -> Changes {
    if let Err(fault) = copy.show(&mut changes) {
        tracing::warn!(%fault, "the differences of a revision cannot be shown");
    }
    changes
}

/// Puts a revision on a copy, and holds what is then different against what was meant to be.
fn on_a_copy(workplace: &Workplace, revision: &Revision, run: &Run) -> Result<(Copy, Changes), Unrehearsed> {
    let not = |fault: Fault| match fault {
        Fault::Busy(_) => Unrehearsed::Elsewhere,
        other => Unrehearsed::Not(format!("nothing was changed: {other}")),
    };
    if let Some(put) = revision.puts.iter().find(|put| !is_granted(put, run)) {
        return Err(Unrehearsed::Not(format!(
            "nothing was changed: `{}` was not granted",
            put.path.escape_debug()
        )));
    }
    let roots = roots(workplace, revision, run).map_err(Unrehearsed::Not)?;
    let copy = store(workplace)
        .and_then(|store| store.copy(run.call.uuid(), &roots, Method::Overlay))
        .map_err(not)?;
    let put = || -> Result<Changes, Fault> {
        for put in &revision.puts {
            match &put.content {
                Some(content) => copy.put(Path::new(&put.path), content, put.mode)?,
                None => copy.take(Path::new(&put.path))?,
            }
        }
        copy.changes()
    };
    let checked = put().map_err(not).and_then(|changes| match unmeant(&changes, revision) {
        None => Ok(changes),
        Some(path) => Err(Unrehearsed::Not(format!(
            "nothing was changed: `{}` changed while it was worked on; read it again, then try again",
            path.escape_debug()
        ))),
    });
    match checked {
        Ok(changes) => Ok((copy, changes)),
        Err(why) => {
            discard(copy);
            Err(why)
        }
    }
}

/// A store in which nothing is scratch: what is written by name is meant.
fn store(workplace: &Workplace) -> Result<Store, Fault> {
    Store::open(&workplace.kept_in, Settings { scratch: Vec::new(), ..workplace.keeping.clone() })
}

fn is_granted(put: &Put, run: &Run) -> bool {
    run.plan.effects.iter().any(|effect| match effect {
        Effect::Write { path } => put.content.is_some() && *path == put.path,
        Effect::Delete { path } => put.content.is_none() && *path == put.path,
        _ => false,
    })
}

/// The directories that the copy is of: the workspace, and elsewhere those that the files lie in.
fn roots(workplace: &Workplace, revision: &Revision, run: &Run) -> Result<Vec<PathBuf>, String> {
    let (_, workspace) = workplace.places(run)?;
    let mut roots = BTreeSet::new();
    for put in &revision.puts {
        let path = Path::new(&put.path);
        if path.starts_with(&workspace) {
            roots.insert(workspace.clone());
            continue;
        }
        let there = path.ancestors().skip(1).find(|above| above.is_dir());
        let there =
            there.ok_or_else(|| format!("nothing was changed: `{}` has no directory to lie in", put.path))?;
        roots.insert(there.to_path_buf());
    }
    // One that lies in another comes with it.
    let nested = |root: &PathBuf| roots.iter().any(|other| other != root && root.starts_with(other));
    Ok(roots.iter().filter(|root| !nested(root)).cloned().collect())
}

/// A path whose change is not the one that was meant, because what it rests on is not there any more.
fn unmeant<'a>(changes: &'a Changes, revision: &'a Revision) -> Option<&'a str> {
    let put = |path: &str| revision.puts.iter().find(|put| put.path == path);
    let listed = |path: &str| changes.list.iter().find(|change| change.path == path);
    let is_new_directory = |change: &Change| {
        change.before.is_none() && change.after.as_ref().is_some_and(|node| node.kind == NodeKind::Directory)
    };
    let extra = changes.list.iter().find(|change| put(&change.path).is_none() && !is_new_directory(change));
    if let Some(extra) = extra {
        return Some(&extra.path);
    }
    let missing =
        revision.puts.iter().find(|put| listed(&put.path).is_none_or(|change| !rests_on(change, put.from)));
    missing.map(|put| put.path.as_str())
}

fn rests_on(change: &Change, from: From) -> bool {
    match (from, &change.before) {
        (From::Anything, _) | (From::Nothing, None) => true,
        (From::File { size, modified }, Some(node)) => {
            let is_size = matches!(node.kind, NodeKind::File { size: is, .. } if is == size);
            is_size && node.modified == modified
        }
        (From::Nothing, Some(_)) | (From::File { .. }, None) => false,
    }
}
