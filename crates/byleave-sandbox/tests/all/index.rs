//! The workspace index and its uses: planted files are moved away, and new secrets are hidden.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_sandbox::confinement::PathPolicyScope;
use byleave_sandbox::launch::{RunAs, SandboxSession};
use byleave_sandbox::protected_paths::{IndexError, PathPolicy};
use byleave_sandbox::workspace_index::DirectoryIndex;

use crate::launch::{bash, confinement, text};
use crate::ways::ways;
use byleave_testkit::user::unprivileged;

struct DotenvPathPolicy;

impl PathPolicy for DotenvPathPolicy {
    fn is_hidden(&self, path: &str) -> bool {
        path.ends_with("/.env")
    }

    fn protects(&self, path: &str) -> bool {
        path.ends_with("/.git/config")
    }
}

fn marking(root: &Path) -> DirectoryIndex<DotenvPathPolicy> {
    DirectoryIndex::new(vec![root.to_path_buf()], Some(DotenvPathPolicy))
}

/// A deterministic sequence of numbers.
struct SeededRng(u64);

impl SeededRng {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

// req: E7
#[test]
fn rules_hold_for_names_that_are_not_text_and_hide_no_others() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let named = |name: &[u8]| root.join(std::ffi::OsStr::from_bytes(name));
    for path in
        [&b"caf\xe9.txt"[..], b"dir\xff/in.txt", b"dir\xff/.env", b"dir\xff/.git/config", b"plain/.env"]
    {
        fs::create_dir_all(named(path).parent().unwrap()).unwrap();
        fs::write(named(path), "x").unwrap();
    }
    let found = marking(&root).protected_paths().unwrap();
    assert_eq!(found.hidden, [named(b"dir\xff/.env"), named(b"plain/.env")]);
    assert_eq!(found.protected, [named(b"dir\xff/.git/config")]);
}

// req: E7
#[test]
fn a_warm_index_answers_as_a_fresh_look_does_whatever_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let mut warm = marking(&root);
    assert!(warm.is_watching(), "the kernel does not tell of changes in {}", root.display());
    let mut numbers = SeededRng(7);
    let names = ["a", "b", ".git", "hooks", "config", ".env", ".vscode", ".envrc"];
    for step in 0..3000 {
        // Any step may fail, because a missing path cannot be renamed.
        let mut path = || {
            let depth = 1 + numbers.below(4);
            (0..depth).fold(root.clone(), |path, _| path.join(names[numbers.below(names.len())]))
        };
        let (one, other) = (path(), path());
        let done = match numbers.below(6) {
            0 | 1 => fs::create_dir_all(&one),
            2 => fs::write(&one, ""),
            3 => fs::rename(&one, &other),
            4 => std::os::unix::fs::symlink(&other, &one),
            _ if one.is_dir() => fs::remove_dir_all(&one),
            _ => fs::remove_file(&one),
        };
        // Sometimes after every change, sometimes after many, because inode numbers are reused.
        if (done.is_ok() && step % 100 < 50) || step % 20 == 0 {
            let mut cold = DirectoryIndex::new_unwatched(vec![root.clone()], Some(DotenvPathPolicy));
            assert_eq!(warm.protected_paths().unwrap(), cold.protected_paths().unwrap(), "step {step}");
            assert_eq!(warm.runnable_paths().unwrap(), cold.runnable_paths().unwrap(), "step {step}");
        }
    }
}

// req: E7
#[test]
fn what_the_kernel_lost_count_of_or_cannot_be_read_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let mut index = marking(&root);
    assert!(index.protected_paths().unwrap().hidden.is_empty());
    // More changes than the kernel queues, with the relevant one last.
    let queue: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    for number in 0..=queue / 2 {
        fs::write(root.join(number.to_string()), "").unwrap();
        fs::remove_file(root.join(number.to_string())).unwrap();
    }
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/.env"), "").unwrap();
    assert_eq!(index.protected_paths().unwrap().hidden, [root.join("d/.env")]);
    // Replaces a directory with another, which mostly has the same inode number.
    for round in 0..20 {
        fs::remove_dir_all(root.join("d")).unwrap();
        fs::create_dir(root.join("d")).unwrap();
        assert!(index.protected_paths().unwrap().hidden.is_empty(), "round {round}");
        fs::remove_dir_all(root.join("d")).unwrap();
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/.env"), "").unwrap();
        assert_eq!(index.protected_paths().unwrap().hidden, [root.join("d/.env")], "round {round}");
    }
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    // With a mount over it, nothing in the directory has changed, but everything is different.
    let mounted = |test: &str| {
        let mut unshare = std::process::Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe().unwrap());
        let ended = unshare.args(["--exact", test, "--include-ignored"]).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    };
    mounted("index::in_mounts_of_its_own");
    let denied = "index::what_cannot_be_read_is_an_error_until_it_can";
    assert!(!unprivileged(denied));
}

/// Needs its own mounts. Another test starts it with them.
#[test]
#[ignore = "begun by another test"]
fn in_mounts_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (over, from) = (root.join("over"), root.join("from"));
    fs::create_dir(&over).unwrap();
    fs::create_dir(&from).unwrap();
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join(".env"), "").unwrap();
    let mut index = marking(&root);
    assert!(index.protected_paths().unwrap().hidden.is_empty());
    let mounted = std::process::Command::new("mount").arg("--bind").arg(other.path()).arg(&over).status();
    assert!(mounted.unwrap().success());
    assert_eq!(index.protected_paths().unwrap().hidden, [over.join(".env")]);
}

// req: E7
#[test]
fn what_cannot_be_read_is_an_error_until_it_can() {
    if !unprivileged("index::what_cannot_be_read_is_an_error_until_it_can") {
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let mut index = marking(&root);
    assert!(index.protected_paths().unwrap().hidden.is_empty());
    let inner = root.join("d");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join(".env"), "").unwrap();
    let mode = |mode| fs::set_permissions(&inner, fs::Permissions::from_mode(mode)).unwrap();
    mode(0);
    assert!(matches!(index.protected_paths(), Err(IndexError::Unreadable { .. })));
    assert!(index.runnable_paths().unwrap().is_empty());
    mode(0o700);
    assert_eq!(index.protected_paths().unwrap().hidden, [inner.join(".env")]);
}

// req: E2
#[test]
fn what_a_command_plants_is_put_away_and_told() {
    if !unprivileged("index::what_a_command_plants_is_put_away_and_told") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let root = workspace.path().canonicalize().unwrap();
    fs::create_dir_all(root.join(".git/hooks")).unwrap();
    fs::write(root.join(".git/hooks/pre-commit"), "theirs").unwrap();
    let plant = "mkdir -p sub .git/hooks; echo evil > .git/hooks/post-checkout; echo fine > .git/hooks/x.sample; \
        echo evil > sub/.envrc; mkdir -p .git/info .git/objects/info .git/objects/ab; echo fine > .git/objects/ab/cd; \
        echo evil > .git/info/attributes; echo evil > .git/objects/info/alternates; mkdir -p new/.git/hooks; echo evil > new/.git/hooks/pre-commit; echo fine > file";
    for (way, run) in ways(&confinement(&root)) {
        let outcome = run(plant);
        let planted: BTreeMap<PathBuf, PathBuf> =
            outcome.planted.into_iter().map(|planted| (planted.path, planted.quarantine_path)).collect();
        let expected = [
            ".git/hooks/post-checkout",
            ".git/info/attributes",
            ".git/objects/info/alternates",
            "new/.git",
            "sub/.envrc",
        ]
        .map(|path| root.join(path));
        assert_eq!(planted.keys().cloned().collect::<Vec<_>>(), expected, "{way}");
        for (path, quarantined) in planted {
            assert!(!path.exists() && quarantined.exists(), "{way}: {}", path.display());
        }
        assert!(root.join(".git/hooks/pre-commit").exists() && root.join("file").exists());
        assert!(run("true").planted.is_empty(), "{way}");
        // A file that existed before is not planted, even if a command changes it.
        fs::write(root.join("sub/.envrc"), "the user's own").unwrap();
        assert!(run("echo >> sub/.envrc").planted.is_empty(), "{way}");
        fs::remove_file(root.join("sub/.envrc")).unwrap();
    }
}

// req: E2
#[test]
fn what_appears_between_two_commands_is_hidden_in_the_next() {
    if !unprivileged("index::what_appears_between_two_commands_is_hidden_in_the_next") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let root = workspace.path().canonicalize().unwrap();
    for parked in [0, 2] {
        let mut confinement = confinement(&root);
        confinement.files.path_policy =
            Some(PathPolicyScope { roots: vec![root.clone()], policy: Arc::new(DotenvPathPolicy) });
        let session = SandboxSession::open(confinement, RunAs::Caller, parked).unwrap();
        let seen = |script: &str| text(&session.start(&bash(script)).unwrap().finish().unwrap().stdout);
        assert_eq!(seen("mkdir -p deep/er; echo ok"), "ok\n");
        fs::write(root.join("deep/er/.env"), "SECRET").unwrap();
        assert_eq!(seen("cat deep/er/.env; echo read"), "read\n");
        fs::rename(root.join("deep"), root.join("moved")).unwrap();
        assert_eq!(seen("cat moved/er/.env; echo read"), "read\n");
        assert_eq!(seen("echo own > .env; cat .env"), "own\n", "its own, while it runs");
        assert_eq!(seen("cat .env; echo read"), "read\n");
        fs::remove_file(root.join(".env")).unwrap();
        fs::remove_dir_all(root.join("moved")).unwrap();
    }
}
