//! Tests the order of a plan on a fake host.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;

use super::*;
use crate::confinement::{CopiedPath, CopySource, FileConfinement, SandboxPorts};
use crate::plan_format::{MountAccess, OnMissing, PlanReader};

struct FakeHost(BTreeMap<PathBuf, PathKind>);

impl HostInfo for FakeHost {
    fn kind(&self, path: &Path) -> Option<PathKind> {
        self.0.get(path).copied()
    }

    fn target(&self, path: &Path) -> Option<PathBuf> {
        (self.kind(path)? == PathKind::Link).then(|| "/run/systemd/resolve/stub-resolv.conf".into())
    }

    fn landlock(&self) -> u32 {
        7
    }
}

/// A directory ends with a slash, a link with an at sign. Their parent directories exist as well.
fn host(paths: &[&str]) -> FakeHost {
    let mut told = BTreeMap::new();
    for path in ["/dev/", "/tmp/", "/var/tmp/", "/run/", "/mnt/", "/proc/", "/var/log/"].iter().chain(paths) {
        let kind = match path.as_bytes().last() {
            Some(b'/') => PathKind::Directory,
            Some(b'@') => PathKind::Link,
            _ => PathKind::File,
        };
        let path = PathBuf::from(path.trim_end_matches(['/', '@']));
        for above in path.ancestors().skip(1) {
            told.insert(above.to_path_buf(), PathKind::Directory);
        }
        told.insert(path, kind);
    }
    FakeHost(told)
}

fn files() -> FileConfinement {
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
    FileConfinement {
        cwd: "/home/me/ws".into(),
        home: Some("/home/me".into()),
        home_readable: paths(&["/home/me/.cargo", "/home/me/.rustup"]),
        writable: paths(&["/home/me/ws"]),
        hidden: paths(&[
            "/home/me/.ssh",
            "/home/me/.cargo/credentials.toml",
            "/home/me/ws/.env",
            "/home/other",
        ]),
        protected: paths(&["/home/me/ws/.git/hooks", "/home/me/ws/.git/config", "/home/me/ws/.vscode"]),
        ..FileConfinement::default()
    }
}

fn usual() -> FakeHost {
    host(&[
        "/home/me/.cargo/credentials.toml",
        "/home/me/.ssh/",
        "/home/me/ws/.git/hooks/",
        "/home/me/ws/.git/config",
        "/home/me/ws/.env",
        "/home/other/",
    ])
}

fn confinement(files: FileConfinement) -> Confinement {
    Confinement {
        files,
        network: Network::Off,
        ports: SandboxPorts::default(),
        environment: BTreeMap::from([("PATH".into(), "/usr/bin:relative::/bin".into())]),
        limits: ResourceLimits::default(),
        waived: BTreeSet::new(),
        required: BTreeSet::new(),
    }
}

fn plan(files: FileConfinement, host: &FakeHost) -> Result<LaunchPlan, PlanError> {
    let command =
        CommandSpec { argv: vec!["bash".into(), "-c".into(), "true".into()], ..CommandSpec::default() };
    LaunchPlan::new(&confinement(files), &command, UserIdentity { uid: 1000, gid: 100 }, host)
}

fn at(plan: &LaunchPlan, want: impl Fn(&MountOp<CString>) -> bool) -> usize {
    plan.mounts.iter().position(want).expect("a step")
}

fn last(plan: &LaunchPlan, want: impl Fn(&MountOp<CString>) -> bool) -> usize {
    plan.mounts.iter().rposition(want).expect("a step")
}

fn attached(path: &'static CStr) -> impl Fn(&MountOp<CString>) -> bool {
    move |op| matches!(op, MountOp::Attach { path: at, .. } if at.as_c_str() == path)
}

fn held(want_path: &'static CStr, want: MountAccess) -> impl Fn(&MountOp<CString>) -> bool {
    move |op| matches!(op, MountOp::CloneTree { path, access, .. } if path.as_c_str() == want_path && *access == want)
}

// req: E2
#[test]
fn the_order_of_mounts_is_the_safety_of_it() {
    let plan = plan(files(), &usual()).unwrap();
    let seal = at(&plan, |op| *op == MountOp::Seal);
    assert_eq!(at(&plan, |op| *op == MountOp::MakePrivate), 0);
    // Writable trees are cloned before everything is made read-only.
    assert!(at(&plan, held(c"/home/me/ws", MountAccess::Write)) < seal);
    assert!(at(&plan, held(c"/home/me/.cargo", MountAccess::Read)) < seal);
    assert!(at(&plan, held(c"/dev/null", MountAccess::Device)) < seal);
    // Emptied directories come before their contents.
    let (home, ws) = (at(&plan, attached(c"/home/me")), at(&plan, attached(c"/home/me/ws")));
    assert!(seal < home && home < ws);
    // Protected paths come after the writable tree that contains them, and after the directories in between.
    let git = at(&plan, attached(c"/home/me/ws/.git"));
    assert!(ws < git && git < at(&plan, attached(c"/home/me/ws/.git/config")));
    assert!(git < at(&plan, attached(c"/home/me/ws/.git/hooks")));
    assert!(at(&plan, held(c"/home/me/ws/.git", MountAccess::Write)) < git);
    assert!(at(&plan, held(c"/home/me/ws/.git/config", MountAccess::Read)) > git);
    // Masks come after all of them, and `/proc` after the masks.
    let mask = at(&plan, attached(c"/home/me/ws/.env"));
    assert!(mask > last(&plan, attached(c"/home/me/ws/.git/hooks")));
    let proc = at(&plan, attached(c"/proc"));
    for path in [c"/home/me/.cargo/credentials.toml", c"/home/other", c"/run", c"/mnt", c"/var/log"] {
        let mask = at(&plan, attached(path));
        assert!(git < mask && mask < proc, "{path:?}");
    }
    let mounts = |op: &MountOp<CString>| {
        matches!(op, MountOp::Attach { .. } | MountOp::CloneTree { .. } | MountOp::Scratch { .. })
    };
    assert_eq!(last(&plan, mounts), proc, "the processes come last");
}

// req: E2
#[test]
fn every_directory_between_the_writable_and_the_protected_is_a_mount_point() {
    let mut files = files();
    files.protected = vec!["/home/me/ws/a/b/c/config".into()];
    let plan = plan(files, &host(&["/home/me/ws/a/b/c/config"])).unwrap();
    let points = [
        c"/home/me/ws",
        c"/home/me/ws/a",
        c"/home/me/ws/a/b",
        c"/home/me/ws/a/b/c",
        c"/home/me/ws/a/b/c/config",
    ];
    let places: Vec<usize> = points.into_iter().map(|point| at(&plan, attached(point))).collect();
    assert!(places.is_sorted(), "{places:?}");
}

// req: E2
#[test]
fn what_is_not_there_is_not_mounted_and_what_has_to_be_there_is_an_error() {
    let plan_of_usual = plan(files(), &usual()).unwrap();
    let names = |plan: &LaunchPlan, path: &CStr| plan.mounts.iter().any(|op| attached_any(op, path));
    // No `.rustup`, no `.vscode`; `.ssh` is hidden with the home directory.
    for path in [c"/home/me/.rustup", c"/home/me/ws/.vscode", c"/home/me/.ssh"] {
        assert!(!names(&plan_of_usual, path), "{path:?}");
    }
    let case = |change: &dyn Fn(&mut FileConfinement), host: &FakeHost| {
        let mut files = files();
        change(&mut files);
        plan(files, host).unwrap_err()
    };
    assert_eq!(
        case(&|files| files.writable.push("/nowhere".into()), &usual()),
        PlanError::Missing("/nowhere".into())
    );
    assert_eq!(case(&|files| files.cwd = "/nowhere".into(), &usual()), PlanError::Missing("/nowhere".into()));
    assert_eq!(
        case(&|files| files.writable = vec!["/home".into()], &usual()),
        PlanError::ShowsHome("/home".into())
    );
    assert_eq!(
        case(&|files| files.writable = vec!["/home/me".into()], &usual()),
        PlanError::ShowsHome("/home/me".into())
    );
    assert_eq!(
        case(&|files| files.writable = vec!["/tmp".into()], &usual()),
        PlanError::ShowsAllMounts("/tmp".into())
    );
    assert_eq!(
        case(&|files| files.hidden = vec!["/home/me/ws/../x".into()], &usual()),
        PlanError::Unresolved("/home/me/ws/../x".into())
    );
    assert_eq!(
        case(&|files| files.hidden = vec!["secret".into()], &usual()),
        PlanError::Unresolved("secret".into())
    );
    let link = host(&["/home/me/ws/.env@"]);
    assert_eq!(case(&|_| {}, &link), PlanError::Link("/home/me/ws/.env".into()));
}

fn attached_any(op: &MountOp<CString>, path: &CStr) -> bool {
    matches!(op, MountOp::Attach { path: at, .. } if at.as_c_str() == path)
}

// req: E2
#[test]
fn a_workspace_in_a_place_that_is_emptied_gets_a_place_of_its_own_in_it() {
    for (workspace, emptied) in [("/tmp/ws", c"/tmp"), ("/run/user/ws", c"/run"), ("/mnt/disk/ws", c"/mnt")] {
        let files = FileConfinement {
            cwd: workspace.into(),
            writable: vec![workspace.into()],
            ..FileConfinement::default()
        };
        let plan = plan(files, &host(&[&format!("{workspace}/")])).unwrap();
        let place = plan.mounts.iter().find_map(|op| match op {
            MountOp::Attach { path, missing, .. } if path.to_bytes() == workspace.as_bytes() => {
                Some(*missing)
            }
            _ => None,
        });
        assert_eq!(place, Some(OnMissing::MakeDirectory), "{workspace}");
        let attached_at = at(&plan, |op| attached_any(op, &CString::new(workspace).unwrap()));
        assert!(last(&plan, attached(emptied)) < attached_at, "{workspace}: nothing covers it afterwards");
    }
}

// req: E2
#[test]
fn a_program_is_never_looked_for_in_the_working_directory() {
    let plan = plan(files(), &usual()).unwrap();
    assert_eq!(plan.programs, [c"/usr/bin/bash".into(), CString::from(c"/bin/bash")]);
}

// req: E2
#[test]
fn what_is_written_is_what_is_read() {
    let plan = plan(files(), &usual()).unwrap();
    let bytes = plan.encode();
    let mut reader = PlanReader::new(&bytes);
    assert_eq!((reader.read_part(), reader.read_number()), (Some(PlanPart::Whole), Some(0)));
    assert_eq!(reader.bytes(), Some(&[][..]), "no session");
    assert_eq!((reader.read_number(), reader.read_number()), (Some(1000), Some(100)));
    let count = reader.read_u32().unwrap();
    let read: Vec<MountOp<&CStr>> = (0..count).map(|_| reader.read_op().unwrap()).collect();
    assert_eq!(read.len(), plan.mounts.len());
    for (read, written) in read.iter().zip(&plan.mounts) {
        assert_eq!(format!("{read:?}"), format!("{written:?}"));
    }
    assert_eq!(reader.text(), Some(plan.cwd.as_c_str()));
    // A truncated plan is invalid, and nothing is read past the end.
    for length in 0..64 {
        let mut cut = PlanReader::new(&bytes[..length]);
        while cut.read_number().is_some() {}
        assert_eq!(cut.text(), None);
    }
}

// req: E7
#[test]
fn a_served_network_is_waited_for_last_and_its_files_cannot_be_written() {
    let wiring =
        NetworkPlan { ports: vec![80, 443], authorities: Some("PEM".into()), ..NetworkPlan::default() };
    let with = |host: &FakeHost, files: FileConfinement| {
        let plan = plan(files.clone(), host).unwrap();
        plan.with_network_plan(&wiring, &files, host).unwrap()
    };
    let plan = with(&host(&["/home/me/ws/", "/etc/resolv.conf"]), files());
    assert_eq!(plan.mounts.last(), Some(&MountOp::WaitForReady));
    assert_eq!(plan.offered_sockets().count(), 4);
    let written = last(&plan, |op| matches!(op, MountOp::File { .. }));
    let sealed = at(&plan, held(c"/dev/byleave", MountAccess::Mask));
    assert!(at(&plan, attached(c"/dev/byleave")) < written && written < sealed);
    assert_eq!(last(&plan, attached(c"/dev/byleave")), sealed + 1);
    let resolver = at(&plan, attached(c"/etc/resolv.conf"));
    assert_eq!(at(&plan, held(c"/dev/byleave/resolv.conf", MountAccess::Mask)) + 1, resolver);
    // If it leads into a hidden directory, that is uncovered for it, unless it contains a kept tree.
    let linked = ["/home/me/ws/", "/run/ws/", "/etc/resolv.conf@"];
    let stub = c"/run/systemd/resolve/stub-resolv.conf";
    let plan = with(&host(&linked), files());
    assert_eq!(plan.mounts.iter().filter(|op| attached_any(op, c"/run")).count(), 2);
    assert!(last(&plan, attached(c"/run")) < at(&plan, attached(stub)));
    let kept = FileConfinement {
        cwd: "/run/ws".into(),
        writable: vec!["/run/ws".into()],
        ..FileConfinement::default()
    };
    let plan = with(&host(&linked), kept);
    assert!(at(&plan, attached(c"/run")) < at(&plan, attached(c"/run/ws")));
    assert_eq!(last(&plan, attached(c"/run")), at(&plan, attached(c"/run")), "nothing covers the workspace");
    // Existing variables of the same names are replaced.
    let variables = wiring.variables("http://127.0.0.1:3128");
    let plan = plan.with_variables(&[("PATH", "/x".into())]).unwrap().with_variables(&variables).unwrap();
    assert_eq!(plan.environment.iter().filter(|one| one.to_bytes().starts_with(b"PATH=")).count(), 1);
    assert!(plan.environment.contains(&c"GIT_SSL_CAINFO=/dev/byleave/authorities.pem".into()));
}

// req: E5
#[test]
fn a_copy_is_in_hand_before_anything_covers_what_it_is_of_and_masks_come_on_top() {
    let overlay = |root: &str, name: &str, lowers: &[&str]| CopiedPath {
        root: root.into(),
        source: CopySource::Overlay {
            lower_layers: lowers.iter().map(PathBuf::from).collect(),
            upper_dir: format!("/home/me/state/{name}/upper").into(),
            work_dir: format!("/home/me/state/{name}/work").into(),
        },
    };
    let mut files = files();
    files.hidden.push("/home/me/ws/target/keys".into());
    files.copies = vec![
        overlay("/home/me/ws/target", "t", &["/home/me/state/old/upper"]),
        overlay("/home/me/ws", "w", &[]),
    ];
    let mut told = usual();
    let more = [
        "/home/me/ws/target/keys/",
        "/home/me/state/t/upper/",
        "/home/me/state/t/work/",
        "/home/me/state/w/upper/",
        "/home/me/state/w/work/",
        "/home/me/state/old/upper/",
    ];
    told.0.extend(host(&more).0);
    let made_for = plan(files.clone(), &told).unwrap();
    let made = |path: &'static CStr| move |op: &MountOp<CString>| matches!(op, MountOp::Overlay { root, .. } if root.as_c_str() == path);
    let (outer, inner) = (at(&made_for, made(c"/home/me/ws")), at(&made_for, made(c"/home/me/ws/target")));
    let seal = at(&made_for, |op| *op == MountOp::Seal);
    assert!(outer < seal && inner < seal, "what is written stays so");
    let layers = |before: usize| -> Vec<&CStr> {
        let taken = made_for.mounts[..before].iter().rev().map_while(|op| match op {
            MountOp::Layer { path, .. } => Some(path.as_c_str()),
            _ => None,
        });
        let mut taken: Vec<&CStr> = taken.collect();
        taken.reverse();
        taken
    };
    let [upper, work] = [c"/home/me/state/t/upper", c"/home/me/state/t/work"];
    assert_eq!(layers(inner), [upper, work, c"/home/me/state/old/upper", c"/home/me/ws/target"]);
    assert_eq!(layers(outer).len(), 3);
    let attach = [at(&made_for, attached(c"/home/me/ws")), at(&made_for, attached(c"/home/me/ws/target"))];
    let [ws, target] = attach;
    assert!(seal < ws && ws < target);
    let itself = held(c"/home/me/ws", MountAccess::Write);
    assert!(!made_for.mounts.iter().any(itself), "the directory itself is not there");
    // Hidden paths come on top. If earlier commands may have removed one, it is mounted only if it exists.
    let env = at(&made_for, attached(c"/home/me/ws/.env"));
    let keys = at(&made_for, attached(c"/home/me/ws/target/keys"));
    assert!(target < env && target < keys);
    let if_there = |op: &MountOp<CString>| matches!(op, MountOp::SkipIfMissing { .. });
    assert!(if_there(&made_for.mounts[keys - 2]) && !if_there(&made_for.mounts[env - 2]));
    // As the init process reads it.
    let encoded = made_for.encode();
    let mut read = PlanReader::new(&encoded);
    read.read_part().unwrap();
    read.read_number().unwrap();
    read.bytes().unwrap();
    read.read_number().unwrap();
    read.read_number().unwrap();
    assert_eq!(read.read_u32(), u32::try_from(made_for.mounts.len()).ok());
    for op in &made_for.mounts {
        assert_eq!(format!("{:?}", read.read_op().unwrap()), format!("{op:?}"));
    }
    // The location of the copy must not be visible.
    files.home_readable.push("/home/me/state".into());
    assert!(matches!(plan(files, &told), Err(PlanError::CopyVisible(_))));
}
