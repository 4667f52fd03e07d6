//! The tool `apply_patch`: changes, creates, moves and deletes files according to a patch, completely or not at all.
//!
//! `byleave_gate::patch` found the files of the patch, and the gate evaluated them. The names found here must be exactly the same. Each file is
//! changed at its evaluated path; no path is resolved again.

use std::collections::{BTreeMap, BTreeSet};

use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::patch::PatchChange;
use byleave_gate::tool::{RunContext, Tool};
use byleave_gate::typed_tool::schema_for;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::execution_env::ExecutionEnv;
use crate::file_change_tool::FileChangeTool;
use crate::file_edit::{PlannedEdit, PlannedFile, Precondition};
use crate::patch::apply::{HunkPlacement, apply};
use crate::patch::{FileOperation, FilePatch, parse_patch};
use crate::workspace_files::{FileContent, Files};

/// The size limit for all files of a patch together, as a multiple of the limit for one file.
const FILES_MAX: u64 = 8;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApplyPatch {
    /// The patch: a unified diff as `git diff` writes it, or `*** Begin Patch` … `*** End Patch`
    patch: String,
}

/// Creates the tool for an execution environment.
pub fn apply_patch(workplace: &ExecutionEnv) -> impl Tool + use<> {
    let about = "Applies a patch to files: a unified diff as `git diff` writes it, or the `*** Begin Patch` form with `*** Add File:`, `*** Update \
        File:`, `*** Delete File:` and `*** Move to:`. Applies either the whole patch or nothing. Reports hunks that fit only elsewhere or with \
        fuzz.";
    let mut manifest = Manifest::new("apply_patch", about, schema_for::<ApplyPatch>());
    manifest.permission_class = PermissionClass::File;
    manifest.roles = [("/patch".to_owned(), ArgumentRole::Patch)].into();
    manifest.search_hint = Some("apply a patch or diff to files".into());
    manifest.audit_operation = Some("edit".into());
    manifest.sensitive = Some(false);
    manifest.reversible = true;
    FileChangeTool::new(manifest, workplace, revision)
}

fn revision(args: &ApplyPatch, files: &Files, run: &RunContext) -> Result<PlannedEdit, String> {
    let sections = parse_patch(&args.patch)?;
    let places = judged(&args.patch, &run.plan)?;
    agreed(&sections, &places)?;
    let mut bench = PatchSession { files, places: &places, pieces: BTreeMap::new(), bytes: 0 };
    let mut report = PatchReport::default();
    for section in &sections {
        if run.cancel.is_cancelled() {
            return Err("the call was cancelled; nothing was changed".into());
        }
        bench.work(section, &mut report).map_err(|why| format!("{why}; nothing was changed"))?;
    }
    let puts: Vec<PlannedFile> =
        bench.pieces.into_iter().filter_map(|(path, piece)| piece.put(path)).collect();
    if puts.is_empty() {
        return Err(
            "the patch changes nothing: the files already contain all its changes; read the files again"
                .into(),
        );
    }
    Ok(PlannedEdit { files: puts, output: report.output() })
}

/// Returns the evaluated path of each name. The plan lists the paths in the order of the names in the patch.
fn judged(text: &str, plan: &Plan) -> Result<BTreeMap<String, String>, String> {
    let patch = byleave_gate::patch::parse(text).map_err(|why| why.to_string())?;
    let mut effects = plan.named_effects();
    let mut places = BTreeMap::new();
    for change in patch.changes {
        let (name, path) = match (change, effects.next()) {
            (PatchChange::Add(name), Some(Effect::Write { path })) => (name, path),
            (PatchChange::Delete(name), Some(Effect::Delete { path })) => (name, path),
            (PatchChange::Compare(name), Some(Effect::Read { path })) => (name, path),
            (PatchChange::Update(name), Some(Effect::Read { path })) => match effects.next() {
                Some(Effect::Write { path: same }) if same == path => (name, path),
                _ => return Err(STRANGE.into()),
            },
            _ => return Err(STRANGE.into()),
        };
        if places.insert(name, path.clone()).is_some_and(|before| before != *path) {
            return Err(STRANGE.into());
        }
    }
    // The plan of a patch must not change any other file.
    match effects.any(|effect| matches!(effect, Effect::Write { .. } | Effect::Delete { .. })) {
        true => Err(STRANGE.into()),
        false => Ok(places),
    }
}

const STRANGE: &str = "the patch does not match the granted plan; call again with only this patch";

/// Checks that both parsers found the same names, and that each name has its own file.
fn agreed(sections: &[FilePatch], places: &BTreeMap<String, String>) -> Result<(), String> {
    let ours: BTreeSet<&str> = sections.iter().flat_map(FilePatch::names).collect();
    let theirs: BTreeSet<&str> = places.keys().map(String::as_str).collect();
    if let Some(name) = ours.symmetric_difference(&theirs).next() {
        return Err(format!(
            "the patch is ambiguous: it is unclear whether it means `{}`; write each file as `git diff` does, or use the `*** Begin Patch` form",
            name.escape_debug()
        ));
    }
    let mut paths = BTreeMap::new();
    for (name, path) in places {
        if let Some(other) = paths.insert(path, name) {
            return Err(format!(
                "`{}` and `{}` are the same file; use one name for it",
                other.escape_debug(),
                name.escape_debug()
            ));
        }
    }
    Ok(())
}

/// The files of a patch that is being computed.
struct PatchSession<'a> {
    files: &'a Files,
    places: &'a BTreeMap<String, String>,
    pieces: BTreeMap<String, PatchedFile>,
    bytes: u64,
}

/// One file, before and after the patch.
struct PatchedFile {
    before: Option<FileContent>,
    after: Option<Vec<u8>>,
    mode: Option<u32>,
    /// Whether the file is deleted without being read.
    unread: bool,
}

impl PatchedFile {
    fn is_changed(&self) -> bool {
        match (&self.before, &self.after) {
            (None, None) => false,
            (Some(before), Some(after)) => {
                self.unread || before.bytes != *after || self.mode.is_some_and(|mode| mode != before.mode)
            }
            _ => true,
        }
    }

    /// Returns the planned file, if anything changes.
    fn put(self, path: String) -> Option<PlannedFile> {
        let from = Precondition::from_content(self.before.as_ref());
        self.is_changed().then_some(PlannedFile {
            path,
            precondition: from,
            content: self.after,
            mode: self.mode,
        })
    }
}

impl PatchSession<'_> {
    fn work(&mut self, section: &FilePatch, report: &mut PatchReport) -> Result<(), String> {
        let path = self.path(&section.name)?;
        let shown = self.files.display_path(&path);
        let fitted =
            |content: &[u8]| apply(content, &section.hunks).map_err(|why| format!("`{shown}`: {why}"));
        match &section.operation {
            FileOperation::Add => {
                if self.is_there(&path)? {
                    return Err(format!(
                        "the patch creates `{shown}`, but that file exists; change it instead, or delete it first"
                    ));
                }
                let (content, _) = fitted(b"")?;
                let mode = section.executable.and_then(|runs| runs.then_some(0o755));
                self.set(path, content, mode)?;
                report.add("created", &shown, None, &[]);
            }
            FileOperation::Update => {
                let (before, mode) = self.read(&path)?;
                let (content, fits) = fitted(&before)?;
                self.set(path, content, section.executable.map(|runs| with_bits(mode, runs)))?;
                report.add("changed", &shown, None, &fits);
            }
            FileOperation::Delete if section.hunks.is_empty() => {
                self.remove(path)?;
                report.add("removed", &shown, None, &[]);
            }
            FileOperation::Delete => {
                let (before, _) = self.read(&path)?;
                if !fitted(&before)?.0.is_empty() {
                    return Err(format!(
                        "the patch deletes `{shown}`, but does not remove all of its lines; give all of its lines"
                    ));
                }
                self.remove(path)?;
                report.add("removed", &shown, None, &[]);
            }
            FileOperation::Move(to) | FileOperation::Copy(to) => {
                let to = self.path(to)?;
                let to_shown = self.files.display_path(&to);
                let is_moved = matches!(section.operation, FileOperation::Move(_));
                if is_moved && self.pieces.get(&path).is_some_and(PatchedFile::is_changed) {
                    return Err(format!(
                        "the patch changes `{shown}` and then moves it; do both in one section, or in two patches"
                    ));
                }
                if self.is_there(&to)? {
                    return Err(format!(
                        "the patch creates `{to_shown}`, but that file exists; choose another name, or delete it first"
                    ));
                }
                // Git copies a file as it was before the patch.
                let (before, mode) = if is_moved { self.read(&path)? } else { self.original(&path)? };
                let (content, fits) = fitted(&before)?;
                let mode = section.executable.map_or(mode, |runs| with_bits(mode, runs));
                self.set(to, content, Some(mode & 0o777))?;
                if is_moved {
                    self.remove(path)?;
                }
                report.add(if is_moved { "moved" } else { "copied" }, &shown, Some(&to_shown), &fits);
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> Result<String, String> {
        self.places.get(name).cloned().ok_or_else(|| STRANGE.to_owned())
    }

    fn is_there(&self, path: &str) -> Result<bool, String> {
        match self.pieces.get(path) {
            Some(piece) => Ok(piece.after.is_some()),
            None => self.files.exists(path),
        }
    }

    /// Returns the current content of a file, including earlier changes by the patch, and its mode.
    fn read(&mut self, path: &str) -> Result<(Vec<u8>, u32), String> {
        if let Some(piece) = self.pieces.get(path) {
            let mode =
                piece.mode.or_else(|| piece.before.as_ref().map(|before| before.mode)).unwrap_or(0o644);
            let gone = || {
                format!(
                    "`{}` no longer exists: an earlier part of the patch removed it",
                    self.files.display_path(path)
                )
            };
            return piece.after.clone().map(|after| (after, mode)).ok_or_else(gone);
        }
        let content = self.files.read_content(path)?;
        self.count(content.size, 0)?;
        let (bytes, mode) = (content.bytes.clone(), content.mode);
        let piece =
            PatchedFile { after: Some(bytes.clone()), before: Some(content), mode: None, unread: false };
        self.pieces.insert(path.to_owned(), piece);
        Ok((bytes, mode))
    }

    /// Returns the content of a file before the patch, and its mode.
    fn original(&mut self, path: &str) -> Result<(Vec<u8>, u32), String> {
        match self.pieces.get(path) {
            None => self.read(path),
            Some(PatchedFile { before: Some(before), unread: false, .. }) => {
                Ok((before.bytes.clone(), before.mode))
            }
            Some(_) => {
                let shown = self.files.display_path(path);
                Err(format!("the patch both copies `{shown}` and creates or removes it; use two patches"))
            }
        }
    }

    /// Updates the number of stored bytes. It needs a limit because a short patch can copy a long file many times.
    fn count(&mut self, more: u64, less: u64) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(more).saturating_sub(less);
        match self.bytes > self.files.bytes_max().saturating_mul(FILES_MAX) {
            true => Err("the files of this patch are too large together; apply it in parts".into()),
            false => Ok(()),
        }
    }

    fn set(&mut self, path: String, content: Vec<u8>, mode: Option<u32>) -> Result<(), String> {
        let held = self.pieces.get(&path).and_then(|piece| piece.after.as_ref()).map_or(0, Vec::len);
        self.count(content.len() as u64, held as u64)?;
        let piece = self.pieces.entry(path).or_insert(PatchedFile {
            before: None,
            after: None,
            mode: None,
            unread: false,
        });
        piece.after = Some(content);
        piece.mode = mode.or(piece.mode);
        Ok(())
    }

    fn remove(&mut self, path: String) -> Result<(), String> {
        if let Some(piece) = self.pieces.get_mut(&path) {
            piece.after = None;
            return Ok(());
        }
        // A file that is deleted need not be read.
        let before = self.files.stat_for_removal(&path)?;
        self.pieces.insert(path, PatchedFile { before: Some(before), after: None, mode: None, unread: true });
        Ok(())
    }
}

/// Returns a mode with execute permission for everyone who may read the file, or a mode without execute permission.
const fn with_bits(mode: u32, runs: bool) -> u32 {
    if runs { mode | (mode & 0o444) >> 2 } else { mode & !0o111 }
}

/// The result for the model.
#[derive(Default)]
struct PatchReport {
    lines: Vec<String>,
    remarks: Vec<String>,
    data: Vec<Value>,
}

impl PatchReport {
    fn add(&mut self, what: &str, path: &str, to: Option<&str>, fits: &[HunkPlacement]) {
        let place = to.map_or_else(|| path.to_owned(), |to| format!("{path} to {to}"));
        self.lines.push(format!("  {what} {place}"));
        for (number, fit) in (1..).zip(fits) {
            let mut loose = Vec::new();
            if fit.offset != 0 {
                let way = if fit.offset > 0 { "further down" } else { "further up" };
                loose.push(format!("{} lines {way} than stated", fit.offset.unsigned_abs()));
            }
            if fit.fuzz > 0 {
                loose.push(format!(
                    "with {} outer lines of context that differ (fuzz {})",
                    fit.fuzz, fit.fuzz
                ));
            }
            if fit.ignored_whitespace {
                loose.push("under a heading with different whitespace".to_owned());
            }
            if !loose.is_empty() {
                let (line, loose) = (fit.line, loose.join(", "));
                self.remarks.push(format!("[byleave] hunk {number} of {path} was applied at line {line}, {loose}: check that this is right"));
            }
        }
        let hunks: Vec<Value> = fits
            .iter()
            .map(|fit| json!({ "line": fit.line, "offset": fit.offset, "fuzz": fit.fuzz }))
            .collect();
        self.data.push(json!({ "what": what, "path": path, "to": to, "hunks": hunks }));
    }

    fn output(self) -> Output {
        let mut text =
            format!("applied the patch to {} files:\n{}\n", self.lines.len(), self.lines.join("\n"));
        for remark in &self.remarks {
            text.push_str(remark);
            text.push('\n');
        }
        Output::text(text).with_data(json!({ "files": self.data }))
    }
}
