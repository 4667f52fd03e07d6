//! Names the files behind a read of what a git repository stores. A command such as `git show HEAD` prints files that no word names, and the
//! sandbox hides files but not what was committed of them. So every tracked file that a rule guards is a read of its own.

use std::path::{Path, PathBuf};

use byleave_core::effect::{Danger, Effect, Plan};
use byleave_core::policy::Policy;
use byleave_files::LinkPolicy;
use byleave_shell::repository::{STASHED_CONTENT, STORED_CONTENT};

use super::git_objects::{GitObjects, from_hex};

/// The maximum size of an index that is read.
const INDEX_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// The maximum size of a small file of the repository.
const SMALL_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The most guarded files that a plan names.
const NAMED_MAX: usize = 20;
/// The most entries of the stash that are read.
const STASHES_MAX: usize = 200;
/// The flag of an index entry that has a second word of flags.
const EXTENDED: u16 = 0x4000;

/// Replaces the reads of what a repository stores by reads of its tracked and stashed files that a rule denies or asks about. Without such
/// a file nothing is left of them.
pub fn name_stored_content(plan: &mut Plan, policy: &Policy) {
    let mut found: Vec<(PathBuf, bool)> = Vec::new();
    plan.effects.retain(|effect| {
        let Effect::Read { path } = effect else { return true };
        let is_marker = |ending: &str| path.strip_suffix(ending).map(PathBuf::from);
        match (is_marker(STORED_CONTENT), is_marker(STASHED_CONTENT)) {
            (Some(top), _) => found.push((top, false)),
            (_, Some(top)) => found.push((top, true)),
            _ => {
                // Objects that are read as files.
                if let Some((top, _)) = path.split_once("/.git/objects/") {
                    found.push((top.into(), false));
                }
                return true;
            }
        }
        false
    });
    found.sort_unstable();
    found.dedup();
    for (top, may_be_stashed) in found {
        match tracked_files(&top) {
            Some(names) => add_guarded_files(plan, policy, &top, names),
            None => plan.effects.push(Effect::Unknown {
                reason: format!("cannot read which files the repository `{}` tracks", top.display()),
            }),
        }
        if !may_be_stashed {
            continue;
        }
        match stashed_files(&top) {
            Some(names) => add_guarded_files(plan, policy, &top, names),
            None => add_stash_danger(plan),
        }
    }
}

/// Adds the danger of what prints files of a stash that cannot be read.
fn add_stash_danger(plan: &mut Plan) {
    if plan.dangers.iter().any(|own| own.id == "stashed-files") {
        return;
    }
    let rules = byleave_shell::danger::all_dangers().iter();
    plan.dangers.extend(rules.filter(|rule| rule.id == "stashed-files").map(|rule| Danger {
        id: rule.id.clone(),
        reason: rule.why.clone(),
        denied: false,
    }));
}

fn add_guarded_files(plan: &mut Plan, policy: &Policy, top: &Path, names: Vec<String>) {
    let paths = names.into_iter().map(|name| top.join(name).to_string_lossy().into_owned());
    let guarded =
        paths.filter(|path| policy.strictest_restriction(&Effect::Read { path: path.clone() }).is_some());
    for path in guarded.take(NAMED_MAX) {
        let read = Effect::Read { path };
        if !plan.effects.contains(&read) {
            plan.effects.push(read);
        }
    }
}

/// Returns the directory with the index of a working tree. Of another working tree of the repository it is a directory of its own.
fn git_directory(top: &Path) -> PathBuf {
    let own = top.join(".git");
    let file = byleave_files::read_text(&own, LinkPolicy::Follow, SMALL_BYTES_MAX).unwrap_or_default();
    match file.strip_prefix("gitdir:") {
        Some(path) => top.join(path.trim()),
        None => own,
    }
}

/// Returns the files that were stashed and never tracked, of every entry of the stash: a stash keeps them in a third parent. `None` if
/// they cannot be read. The stash belongs to all working trees of the repository.
fn stashed_files(top: &Path) -> Option<Vec<String>> {
    let common = common_directory(top);
    if common.join("reftable").exists() {
        return None;
    }
    let text = |name: &str| match byleave_files::read_text(
        &common.join(name),
        LinkPolicy::Follow,
        SMALL_BYTES_MAX,
    ) {
        Ok(text) => Some(text),
        Err(error) => error.is_missing().then(String::new),
    };
    let packed = text("packed-refs")?;
    let packed = packed.lines().filter_map(|line| line.strip_suffix(" refs/stash"));
    let (log, last) = (text("logs/refs/stash")?, text("refs/stash")?);
    // Each line has the id before, and the id of the entry.
    let logged = log.lines().filter_map(|line| line.split(' ').nth(1));
    let mut ids: Vec<&str> = packed.chain(logged).chain(last.split_whitespace()).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > STASHES_MAX {
        return None;
    }
    let mut names = Vec::new();
    for id in ids {
        let id = from_hex(id.as_bytes())?;
        let objects = GitObjects::open(&common.join("objects"), id.len());
        for parent in objects.parents(&id)?.iter().skip(2) {
            names.extend(objects.files_of_commit(parent)?);
        }
    }
    Some(names)
}

/// Returns the directory of the repository, which all its working trees share.
fn common_directory(top: &Path) -> PathBuf {
    let own = git_directory(top);
    let common = byleave_files::read_text(&own.join("commondir"), LinkPolicy::Follow, SMALL_BYTES_MAX);
    common.map_or_else(|_| own.clone(), |path| own.join(path.trim()))
}

/// Returns the names in the index of a working tree, or `None` if it cannot be read. Without an index there are none.
fn tracked_files(top: &Path) -> Option<Vec<String>> {
    let own = git_directory(top);
    let index = own.join("index");
    if !index.exists() {
        return Some(Vec::new());
    }
    let config = byleave_files::read_text(&own.join("config"), LinkPolicy::Follow, SMALL_BYTES_MAX);
    let is_sha256 = config.is_ok_and(|text| text.to_lowercase().contains("sha256"));
    let hash_length = if is_sha256 { 32 } else { 20 };
    let bytes = byleave_files::read(&index, LinkPolicy::Follow, INDEX_BYTES_MAX).ok()?;
    let parsed = Index::parse(&bytes, hash_length)?;
    let mut names = parsed.names;
    if let Some(shared) = parsed.shared {
        let shared = own.join(format!("sharedindex.{shared}"));
        let bytes = byleave_files::read(&shared, LinkPolicy::Follow, INDEX_BYTES_MAX).ok()?;
        names.extend(Index::parse(&bytes, hash_length)?.names);
    }
    Some(names)
}

/// The names in an index of git, versions 2 to 4.
#[derive(Debug, Default, PartialEq, Eq)]
struct Index {
    names: Vec<String>,
    /// The hash of the index that holds the other names.
    shared: Option<String>,
}

impl Index {
    fn parse(bytes: &[u8], hash_length: usize) -> Option<Self> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at.checked_add(4)?)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        let version = number(4).filter(|version| bytes.starts_with(b"DIRC") && (2..=4).contains(version))?;
        let count = number(8)?;
        let mut index = Self::default();
        let mut at = 12_usize;
        let mut name: Vec<u8> = Vec::new();
        for _ in 0..count {
            let begin = at;
            let flags_at = at.checked_add(40)?.checked_add(hash_length)?;
            let flags = bytes.get(flags_at..flags_at.checked_add(2)?)?;
            let flags = u16::from_be_bytes(flags.try_into().ok()?);
            at = flags_at.checked_add(if version >= 3 && flags & EXTENDED != 0 { 4 } else { 2 })?;
            if version == 4 {
                let (removed, next) = variable_number(bytes, at)?;
                name.truncate(name.len().checked_sub(removed)?);
                at = next;
            } else {
                name.clear();
            }
            let rest = bytes.get(at..)?;
            let length = rest.iter().position(|byte| *byte == 0)?;
            name.extend(rest.get(..length)?);
            at = at.checked_add(length)?.checked_add(1)?;
            if version < 4 {
                // Padded to a multiple of eight, with at least one zero.
                let used = at.checked_sub(begin)?;
                at = begin.checked_add(used.checked_next_multiple_of(8)?)?;
            }
            index.names.push(String::from_utf8_lossy(&name).into_owned());
        }
        let end = bytes.len().checked_sub(hash_length)?;
        while at.checked_add(8)? <= end {
            let length = usize::try_from(number(at.checked_add(4)?)?).ok()?;
            let content = at.checked_add(8)?;
            if bytes.get(at..content)?.starts_with(b"link") {
                let hash = bytes.get(content..content.checked_add(hash_length)?)?;
                let is_set = hash.iter().any(|byte| *byte != 0);
                index.shared = is_set.then(|| hash.iter().map(|byte| format!("{byte:02x}")).collect());
            }
            at = content.checked_add(length)?;
        }
        Some(index)
    }
}

/// Reads a number of variable length as git writes it, and returns the place behind it.
fn variable_number(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at = at.checked_add(1)?;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some((value, at.checked_add(1)?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use byleave_core::policy::{PathVariables, builtin_rules};

    use super::*;

    fn git(directory: &Path, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(arguments).current_dir(directory);
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", directory);
        let ended = git.output().unwrap();
        assert!(ended.status.success(), "{arguments:?} {ended:?}");
    }

    fn planned(top: &Path, ending: &str) -> Plan {
        let read = |path: String| Effect::Read { path };
        let places = PathVariables { workspace: top.to_str(), ..PathVariables::default() };
        let policy = Policy::new(builtin_rules(&places).unwrap()).unwrap();
        let mut plan = Plan { effects: vec![read(format!("{}{ending}", top.display()))], ..Plan::default() };
        name_stored_content(&mut plan, &policy);
        plan
    }

    // req: P5
    #[test]
    fn tracked_files_that_a_rule_guards_are_read_by_what_prints_any_of_them() {
        for version in ["2", "3", "4", "split"] {
            let made = tempfile::tempdir().unwrap();
            let top = made.path().canonicalize().unwrap();
            git(&top, &["init", "-q", "."]);
            fs::create_dir(top.join("a directory")).unwrap();
            for name in ["a.rs", "a directory/.env", "a directory/b.rs", ".env.example", "zz"] {
                fs::write(top.join(name), "x").unwrap();
            }
            git(&top, &["add", "-f", "."]);
            match version {
                "3" => git(&top, &["update-index", "--skip-worktree", "zz"]),
                "split" => git(&top, &["update-index", "--split-index"]),
                version => git(&top, &["update-index", "--index-version", version]),
            }
            let guarded = top.join("a directory/.env").to_str().unwrap().to_owned();
            assert_eq!(
                planned(&top, STORED_CONTENT).effects,
                [Effect::Read { path: guarded }],
                "index version {version}"
            );
            git(&top, &["rm", "-q", "--cached", "a directory/.env"]);
            // The shared part of a split index still has the name.
            if version != "split" {
                assert_eq!(planned(&top, STORED_CONTENT), Plan::default(), "index version {version}");
            }
        }
    }

    // req: P5
    #[test]
    fn an_index_that_is_cut_short_is_not_taken_for_an_empty_one() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path().canonicalize().unwrap();
        git(&top, &["init", "-q", "."]);
        assert_eq!(planned(&top, STORED_CONTENT), Plan::default(), "no index");
        fs::write(top.join(".env"), "x").unwrap();
        git(&top, &["add", "-f", "."]);
        let whole = fs::read(top.join(".git/index")).unwrap();
        for length in 0..whole.len() {
            drop(Index::parse(&whole[..length], 20));
        }
        fs::write(top.join(".git/index"), &whole[..60]).unwrap();
        assert!(matches!(planned(&top, STORED_CONTENT).effects[..], [Effect::Unknown { .. }]));
    }

    // req: P5
    #[test]
    fn stashed_files_that_a_rule_guards_are_read_by_what_may_print_any_object() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path().canonicalize().unwrap();
        let stash = |name: &str, content: &str| {
            fs::write(top.join(name), content).unwrap();
            git(&top, &["stash", "push", "-q", "-u"]);
        };
        git(&top, &["init", "-q", "."]);
        fs::write(top.join("a"), "x").unwrap();
        git(&top, &["add", "a"]);
        git(&top, &["commit", "-q", "-m", "i"]);
        assert_eq!(planned(&top, STASHED_CONTENT), Plan::default());
        stash("notes", "x");
        assert_eq!(planned(&top, STASHED_CONTENT), Plan::default(), "only notes are stashed");
        fs::create_dir_all(top.join("a directory/b")).unwrap();
        stash("a directory/b/.env", "x");
        // So many that their trees are in a pack, as differences to each other.
        for number in 0..40 {
            for name in 0..30 {
                fs::write(top.join(format!("file {name}")), format!("{number} {name}")).unwrap();
            }
            stash("more", &number.to_string());
        }
        let guarded = [Effect::Read { path: top.join("a directory/b/.env").to_str().unwrap().to_owned() }];
        for step in ["loose", "packed", "packed names"] {
            match step {
                "packed" => git(&top, &["repack", "-q", "-a", "-d", "--depth=50", "--window=50"]),
                "packed names" => git(&top, &["pack-refs", "--all"]),
                _ => {}
            }
            assert_eq!(planned(&top, STORED_CONTENT), Plan::default());
            assert_eq!(planned(&top, STASHED_CONTENT).effects, guarded, "{step}");
        }
        // What cannot be read is a danger.
        let packs = top.join(".git/objects/pack");
        for entry in fs::read_dir(&packs).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let dangers = planned(&top, STASHED_CONTENT).dangers;
        assert_eq!(dangers.iter().map(|own| own.id.as_str()).collect::<Vec<_>>(), ["stashed-files"]);
    }
}
