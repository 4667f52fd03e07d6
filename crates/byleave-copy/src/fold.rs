//! Renames, folded back: one thing removed and one made with the same content is one thing under another name.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use byleave_core::change::{Node, NodeKind, Rename};
use byleave_core::digest::Digest;

use crate::disk::{self, Beneath};
use crate::fault::{At as _, Fault};
use crate::list::Item;
use crate::read::Reader;

/// Finds the renames among the items, and fills in the digests that it needed.
pub(crate) fn fold(items: &mut [Item], reader: &mut Reader) -> Result<Vec<Rename>, Fault> {
    let made: HashSet<u64> = items
        .iter()
        .filter(|item| item.change.before.is_none())
        .filter_map(|item| size(item.change.after.as_ref()))
        .collect();
    if made.is_empty() {
        return Ok(Vec::new());
    }
    let disk = Beneath::open(Path::new("/")).at("open", "/")?;
    let mut gone: HashMap<Digest, Vec<String>> = HashMap::new();
    for item in items.iter_mut().filter(|item| item.change.after.is_none()) {
        if !size(item.change.before.as_ref()).is_some_and(|size| made.contains(&size)) {
            continue;
        }
        let path = item.change.path.clone();
        let opened = disk
            .parent(path.trim_start_matches('/'))
            .and_then(|(above, name)| disk::open_file(&*above, name));
        let Ok(file) = opened else { continue };
        let digest = reader.digest(&file).at("read", &path)?;
        if let Some(Node { kind: NodeKind::File { digest: known, .. }, .. }) = &mut item.change.before {
            *known = Some(digest);
        }
        gone.entry(digest).or_default().push(path);
    }
    // Of several with one content, names that end alike belong together; else the first.
    let mut renames = Vec::new();
    for item in items.iter().filter(|item| item.change.before.is_none()) {
        let Some(Node { kind: NodeKind::File { digest: Some(digest), .. }, .. }) = &item.change.after else {
            continue;
        };
        let Some(candidates) = gone.get_mut(digest).filter(|all| !all.is_empty()) else { continue };
        let name = item.change.path.rsplit('/').next();
        let best = candidates.iter().position(|from| from.rsplit('/').next() == name).unwrap_or(0);
        renames.push(Rename { from: candidates.remove(best), to: item.change.path.clone() });
    }
    Ok(renames)
}

fn size(node: Option<&Node>) -> Option<u64> {
    match node?.kind {
        NodeKind::File { size, .. } if size > 0 => Some(size),
        _ => None,
    }
}
