//! The listing for each kind of change that a command can make.

use byleave_copy::{CopyMethod, Error};
use byleave_core::file_change::{FileNodeKind, GitStatus};

use crate::place::CopyFixture;

const FILES: &str =
    "mkdir -p d/e empty; echo one > a; echo two > b; echo x > d/x; echo y > d/e/y; ln -s a link; chmod 640 b";

/// The command, and the listing.
const CASES: [(&str, &[&str]); 22] = [
    ("true", &[]),
    ("cat a > /dev/null; ls -R > /dev/null", &[]),
    ("chmod 600 a; chmod 644 a", &[]),
    ("echo one > a; touch -d @1000000000 a", &[]),
    ("echo new > c", &["created c"]),
    ("echo more >> a", &["changed a"]),
    ("echo eno > a", &["changed a"]),
    ("touch a", &["mode or time a"]),
    ("chmod 755 a", &["mode or time a"]),
    ("rm a", &["deleted a"]),
    ("rm a; echo one > a; touch -d @1000000000 a", &[]),
    ("rm -r d", &["deleted d", "deleted d/e", "deleted d/e/y", "deleted d/x"]),
    ("rm -r d; mkdir d", &["deleted d/e", "deleted d/e/y", "deleted d/x"]),
    ("rm -r d; mkdir d; echo z > d/z; mkdir d/e", &["deleted d/e/y", "deleted d/x", "created d/z"]),
    ("rm -r d; echo d > d", &["changed d", "deleted d/e", "deleted d/e/y", "deleted d/x"]),
    ("rm a; mkdir a; echo i > a/i", &["changed a", "created a/i"]),
    ("ln -sfn b link", &["changed link"]),
    ("rm link; echo l > link", &["changed link"]),
    ("mkfifo p", &["created p"]),
    ("chmod 700 d; chmod 711 .", &["mode or time .", "mode or time d"]),
    (
        "mv d f",
        &[
            "deleted d",
            "deleted d/e",
            "deleted d/e/y",
            "deleted d/x",
            "created f",
            "created f/e",
            "created f/e/y",
            "created f/x",
        ],
    ),
    ("mkdir -p n/o; rmdir empty; echo t > tmp; rm tmp", &["deleted empty", "created n", "created n/o"]),
];

// req: E5
#[test]
fn everything_is_listed_and_nothing_else() {
    for method in [CopyMethod::Overlay, CopyMethod::Tree] {
        let place = CopyFixture::new();
        place.directly(&format!("{FILES}; touch -d @1000000000 a b d/x d/e/y"));
        for (script, listed) in CASES {
            let copy = place.on_copy_by(method, script);
            assert_eq!(place.short(&copy.changes().unwrap()), listed, "{script} by {method:?}");
            copy.discard().unwrap();
        }
    }
}

// req: E5
#[test]
fn renames_diffs_and_limits_are_told() {
    let place = CopyFixture::new();
    place.directly(&format!("{FILES}; ln b hard"));
    let copy = place.on_copy("mv d/x moved; echo three >> a; echo four > hard");
    let mut changes = copy.changes().unwrap();
    copy.fill_diffs(&mut changes).unwrap();
    assert_eq!(changes.renames.len(), 1);
    assert_eq!(
        (&changes.renames[0].from, &changes.renames[0].to),
        (&place.path("d/x"), &place.path("moved"))
    );
    let of = |inside: &str| changes.list.iter().find(|change| change.path == place.path(inside)).unwrap();
    assert_eq!(of("a").diff.as_deref(), Some("@@ -1 +1,2 @@\n one\n+three\n"));
    assert_eq!(of("moved").diff.as_deref(), Some("@@ -0,0 +1 @@\n+x\n"));
    assert!(
        changes.caveats.iter().any(|limit| limit.starts_with("hard links") && limit.contains("hard`")),
        "{changes:?}"
    );
    assert_eq!(place.store.changes(copy.id()).unwrap(), changes);
}

#[test]
fn what_was_changed_underneath_is_told() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let copy = place.on_copy("echo mine > a");
    place.directly("echo theirs > a");
    let changes = copy.changes().unwrap();
    assert!(
        changes.caveats.iter().any(|limit| limit.starts_with("changed by another program")),
        "{changes:?}"
    );
}

#[test]
fn what_is_not_text_is_a_fault() {
    for script in
        [r"touch $(printf 'bad\377')", r"ln -s $(printf 'bad\377') link2", r"mkdir $(printf 'bad\377')"]
    {
        let place = CopyFixture::new();
        place.directly(FILES);
        assert!(matches!(place.on_copy(script).changes(), Err(Error::NotText { .. })), "{script}");
    }
}

#[test]
fn attributes_of_overlays_do_not_leave_the_layer_and_strange_ones_are_faults() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let set = |path: &str, name: &str| {
        rustix::fs::setxattr(path, name, b"x", rustix::fs::XattrFlags::empty()).unwrap()
    };
    let copy = place.on_copy("echo mine > a; mkdir k; echo k > k/k");
    let upper = format!("{}/copies/{}/0/upper", place.store.path().display(), copy.id());
    set(&format!("{upper}/a"), "user.overlay.origin");
    set(&format!("{upper}/k"), "user.overlay.impure");
    set(&format!("{upper}/a"), "user.own");
    let changes = copy.changes().unwrap();
    copy.commit(&changes).unwrap();
    let names = |path: String| {
        let mut space = [0_u8; 256];
        let length = rustix::fs::listxattr(path, &mut space[..]).unwrap();
        String::from_utf8_lossy(&space[..length]).into_owned()
    };
    assert_eq!(names(place.path("a")), "user.own\0");
    assert_eq!(names(place.path("k")), "");
    // The other kind of whiteout, which kernels make if devices cannot be made.
    let copy = place.on_copy("touch d/x d/gone");
    let upper = format!("{}/copies/{}/0/upper", place.store.path().display(), copy.id());
    set(&format!("{upper}/d"), "user.overlay.opaque");
    std::fs::write(format!("{upper}/d/x"), "").unwrap();
    set(&format!("{upper}/d/x"), "user.overlay.whiteout");
    assert_eq!(place.short(&copy.changes().unwrap()), ["created d/gone", "deleted d/x"]);
    set(&format!("{upper}/d"), "user.overlay.redirect");
    assert!(matches!(copy.changes(), Err(Error::UnsupportedLayer { .. })));
}

// req: E5
#[test]
fn an_attribute_alone_is_a_change() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let copy = place.on_copy("python3 -c 'import os; os.setxattr(\"a\", \"user.own\", b\"1\")'");
    let changes = copy.changes().unwrap();
    assert_eq!(place.short(&changes), ["mode or time a"]);
    assert!(changes.caveats[0].starts_with("extended attributes"), "{changes:?}");
}

// req: E5
#[test]
fn what_git_knows_is_told_without_git() {
    let git = "git init -q . && git config user.email a@b && git config user.name n";
    for version in [2, 4] {
        let place = CopyFixture::new();
        place.directly(&format!(
            "{git}; git config index.version {version}; mkdir -p src sub; echo a > src/a; echo ab > src/ab; echo '*.log\nout/' > .gitignore; \
             echo '!keep.log' > sub/.gitignore; git add -A; git commit -qm x; echo secret > .git/info/exclude; echo u > untracked"
        ));
        let script = "echo 1 >> src/a; echo 2 >> src/ab; echo 3 > x.log; echo 4 > sub/keep.log; mkdir out; echo 5 > out/keep.log; \
                      echo 6 > secret; rm untracked; rm .git/description; echo 'src/a' > .gitignore";
        let changes = place.on_copy(script).changes().unwrap();
        let told: Vec<_> = changes
            .list
            .iter()
            .map(|change| (change.path.strip_prefix(&place.path("")).unwrap(), change.git_status))
            .collect();
        assert_eq!(
            told,
            [
                (".git/description", GitStatus::Repository),
                (".gitignore", GitStatus::Tracked),
                ("out", GitStatus::Ignored),
                ("out/keep.log", GitStatus::Ignored),
                ("secret", GitStatus::Ignored),
                ("src/a", GitStatus::Tracked),
                ("src/ab", GitStatus::Tracked),
                ("sub/keep.log", GitStatus::Untracked),
                ("untracked", GitStatus::Untracked),
                ("x.log", GitStatus::Ignored),
            ],
            "index version {version}"
        );
    }
}

// req: B7, E9
#[test]
fn what_cannot_be_read_of_git_counts_as_in_no_repository() {
    // (the command, whether the index still applies, whether the patterns of parent directories still apply)
    let cases = [
        ("rm .git/index; mkfifo .git/index", false, true),
        ("rm .git/index; ln -s /dev/zero .git/index", false, true),
        ("mv .git/index .git/real; ln -s real .git/index", false, true),
        ("truncate -s 900M .git/index", false, true),
        ("mkfifo .git/commondir", true, true),
        ("ln -s /dev/zero .git/commondir", true, true),
        ("rm .git/info/exclude; mkfifo .git/info/exclude", true, true),
        ("mkfifo sub/.gitignore", true, false),
        ("truncate -s 900M sub/.gitignore", true, false),
        // Without a limit this case crashes the process.
        (
            "head -c 200000 /dev/zero | tr '\\0' '{' > sub/.gitignore; head -c 200000 /dev/zero | tr '\\0' '}' >> sub/.gitignore",
            true,
            false,
        ),
        ("seq 1 100000 | sed 's/$/*x?/' > sub/.gitignore", true, false),
        // Git does not follow such a link either, so the patterns of parent directories apply.
        ("ln -s /dev/zero sub/.gitignore", true, true),
        ("rm -r .git; mkfifo .git", false, false),
        ("rm -r .git; ln -s /dev/zero .git", false, false),
    ];
    for (put, index, patterns) in cases {
        let place = CopyFixture::new();
        place.directly("git init -q .; mkdir sub; echo t > t; echo '*.log' > .gitignore; git add -A");
        place.directly(put);
        let changes = place.on_copy("echo 1 >> t; echo 2 > sub/x.log").changes().unwrap();
        let standing = |name: &str| {
            changes.list.iter().find(|change| change.path == place.path(name)).unwrap().git_status
        };
        let counts = |counts: bool, one: GitStatus| if counts { one } else { GitStatus::Untracked };
        assert_eq!(standing("t"), counts(index, GitStatus::Tracked), "{put}");
        assert_eq!(standing("sub/x.log"), counts(patterns, GitStatus::Ignored), "{put}");
    }
}

// req: E9
#[test]
fn a_repository_may_lie_elsewhere_and_behind_a_link() {
    let place = CopyFixture::new();
    place.directly(
        "mkdir real; ln -s real linked; git init -q --separate-git-dir linked/git .; echo t > t; \
         git add t; echo '*.log' > real/git/info/exclude; printf 'gitdir: linked/git\\n' > .git",
    );
    let changes = place.on_copy("echo 1 >> t; echo 2 > x.log").changes().unwrap();
    let told: Vec<_> = changes.list.iter().map(|change| change.git_status).collect();
    assert_eq!(told, [GitStatus::Tracked, GitStatus::Ignored]);
}

#[test]
fn a_link_out_of_the_workspace_is_a_link() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let copy = place.on_copy("rm -r d; ln -s /etc d; ln -s /etc/passwd p");
    let changes = copy.changes().unwrap();
    let to = |inside: &str| {
        let change = changes.list.iter().find(|change| change.path == place.path(inside)).unwrap();
        change.after.clone().unwrap().kind
    };
    assert_eq!(to("d"), FileNodeKind::Link { target: "/etc".into() });
    assert_eq!(to("p"), FileNodeKind::Link { target: "/etc/passwd".into() });
    assert_eq!(changes.list.len(), 5);
}

// req: E5
#[test]
fn what_may_have_been_one_file_is_told_where_a_directory_was_moved() {
    // The command, and whether it is reported. If two new names of one file are moved, a copy separates them.
    let cases = [
        ("echo new > one; ln one d/two; mv d e", true),
        ("mv d e", false),
        ("echo new > one; echo new > e; touch -r one e", false),
        ("mkdir f; cp -a d/x f/1; cp -a d/x f/2; rm -r f", false),
    ];
    for (script, told) in cases {
        let place = CopyFixture::new();
        place.directly("mkdir d; echo content > d/x; echo content > d/y; touch -r d/x d/y");
        let copy = place.on_copy(script);
        let limits = copy.changes().unwrap().caveats;
        let is_told = limits.iter().any(|limit| limit.contains("moving a directory"));
        assert_eq!(is_told, told, "{script}: {limits:?}");
    }
}
