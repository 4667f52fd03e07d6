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

/// Files that may have been one. Where a directory was moved, an overlay lets it be copied, and two names of one file come out as
/// two files that are alike to the nanosecond; nothing else tells of it.
pub(crate) fn twins<'a>(items: &'a [Item], renames: &[Rename]) -> Vec<&'a str> {
    if !items.iter().any(Item::is_going) {
        return Vec::new();
    }
    // What was there under another name was one file by itself, or is told of as linked.
    let moved: HashSet<&str> = renames.iter().map(|rename| rename.to.as_str()).collect();
    let mut alike: HashMap<(Digest, u32, i64), Vec<&str>> = HashMap::new();
    for change in items.iter().map(|item| &item.change).filter(|change| !moved.contains(change.path.as_str()))
    {
        if let Some(Node { kind: NodeKind::File { size: 1.., digest: Some(digest) }, mode, modified }) =
            &change.after
        {
            alike.entry((*digest, *mode, *modified)).or_default().push(&change.path);
        }
    }
    let mut paths: Vec<&str> = alike.into_values().filter(|all| all.len() > 1).flatten().collect();
    paths.sort_unstable();
    paths
}

fn size(node: Option<&Node>) -> Option<u64> {
    match node?.kind {
        NodeKind::File { size, .. } if size > 0 => Some(size),
        _ => None,
    }
}
