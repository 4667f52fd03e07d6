//! Recognises changes of the settings of a repository that run nothing, on a copy and in an undo. All others are judged as a write of the
//! file, which the rules deny.

use byleave_copy::{CopyStore, Error, WorkspaceCopy};
use byleave_files::{LinkPolicy, read_text};
use byleave_gate::core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind};
use byleave_gate::core::git_settings::{
    GitSettingsChange, SETTINGS_BYTES_MAX, compare_restored_settings, compare_settings, is_settings_file,
};
use byleave_gate::core::id::CallId;

/// The bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// Returns the changes on a copy to settings of repositories, as far as they run nothing.
pub(crate) fn git_settings(
    copy: &WorkspaceCopy,
    changes: &FileChanges,
) -> Result<Vec<GitSettingsChange>, Error> {
    let mut found = Vec::new();
    for change in changes.list.iter().filter(|change| is_settings_file(&change.path)) {
        if !stays_private(change) {
            continue;
        }
        if let Some((before, after)) = copy.texts(change)? {
            found.extend(compare_settings(&change.path, &before, &after));
        }
    }
    Ok(found)
}

/// Returns the changes that an undo makes to settings of repositories, as far as they run nothing.
pub(crate) fn restored_settings(
    store: &CopyStore,
    call: CallId,
    changes: &FileChanges,
) -> Result<Vec<GitSettingsChange>, Error> {
    let mut found = Vec::new();
    for change in changes.list.iter().filter(|change| is_settings_file(&change.path)) {
        if change.before.is_none() || !stays_private(change) {
            continue;
        }
        let Ok(now) = read_text(change.path.as_ref(), LinkPolicy::Never, SETTINGS_BYTES_MAX) else {
            continue;
        };
        let restored = store.restored_text(call.uuid(), &change.path)?;
        found.extend(restored.and_then(|text| compare_restored_settings(&change.path, &now, &text)));
    }
    Ok(found)
}

/// Checks whether a change leaves a plain file that no one else may write.
fn stays_private(change: &FileChange) -> bool {
    let is_file = |node: &FileNode| matches!(node.kind, FileNodeKind::File { .. });
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return false };
    is_file(before) && is_file(after) && after.mode & OTHERS_WRITE & !before.mode == 0
}
