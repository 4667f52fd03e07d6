use std::collections::BTreeSet;

use super::*;
use crate::confinement::{CopiedPath, CopySource, SandboxPorts};
use crate::launch::RunAs;
use crate::limits::ResourceLimits;

struct FakeOciHost;

impl HostInfo for FakeOciHost {
    fn target(&self, _: &Path) -> Option<PathBuf> {
        None
    }

    fn kind(&self, path: &Path) -> Option<PathKind> {
        Some(if path.ends_with(".env") { PathKind::File } else { PathKind::Directory })
    }

    fn landlock(&self) -> u32 {
        0
    }
}

fn confinement() -> Confinement {
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
    let environment = [("OCI_TEST_UNSET", "C"), ("PATH", "/h/bin"), ("HOME", "/h")];
    Confinement {
        files: FileConfinement {
            cwd: "/h/ws".into(),
            home: Some("/h".into()),
            home_readable: paths(&["/h/.cargo"]),
            readable: ReadScope::Only(paths(&["/h/ws", "/data"])),
            writable: paths(&["/h/ws"]),
            hidden: paths(&["/h/ws/.env", "/h/ws/keys", "/h/.ssh"]),
            protected: paths(&["/h/ws/.git/hooks"]),
            ..FileConfinement::default()
        },
        network: Network::Off,
        ports: SandboxPorts::default(),
        environment: environment.map(|(name, value)| (name.into(), value.into())).into(),
        limits: ResourceLimits::default(),
        waived: BTreeSet::new(),
        required: BTreeSet::new(),
    }
}

fn docker() -> OciEngine {
    OciEngine { engine: "/usr/bin/docker".into(), options: vec!["--quiet".into()], image: "im".into() }
}

fn command() -> CommandSpec {
    CommandSpec { argv: vec!["sh".into(), "-c".into(), "true".into()], ..CommandSpec::default() }
}

const IDENTITY: UserIdentity = UserIdentity { uid: 7, gid: 8 };

fn words(confinement: &Confinement) -> Vec<String> {
    let words = arguments(&docker(), "n", confinement, &command(), IDENTITY, &FakeOciHost).unwrap();
    words.iter().map(|word| word.to_str().unwrap().to_owned()).collect()
}

fn mounted(confinement: &Confinement) -> Vec<String> {
    let words = words(confinement);
    words.iter().filter_map(|word| word.strip_prefix("--mount=").map(str::to_owned)).collect()
}

// req: E2, E7
#[test]
fn the_engine_is_told_everything_and_no_path_that_it_would_misread() {
    let words = words(&confinement());
    for word in [
        "--network=none",
        "--cap-drop=all",
        "--security-opt=no-new-privileges",
        "--read-only",
        "--user=7:8",
        "--pids-limit=512",
        "--memory=4294967296",
        "--ulimit=data=4294967296:4294967296",
        "--workdir=/h/ws",
        "--env=OCI_TEST_UNSET=C",
        "--env=HOME=/tmp",
        "--entrypoint=",
    ] {
        assert!(words.iter().any(|given| given == word), "{word}: {words:?}");
    }
    // The image has its own programs. A command without input gets none.
    assert!(!words.iter().any(|word| word.contains("/h/bin") || word == "--interactive"), "{words:?}");
    let end: Vec<&str> = words.iter().rev().take(4).rev().map(String::as_str).collect();
    assert_eq!(end, ["im", "sh", "-c", "true"]);
    let expected = [
        "type=bind,source=/data,target=/data,readonly",
        "type=bind,source=/h/ws,target=/h/ws",
        "type=bind,source=/dev/null,target=/h/ws/.env,readonly",
        "type=bind,source=/h/ws/.git,target=/h/ws/.git",
        "type=bind,source=/h/ws/.git/hooks,target=/h/ws/.git/hooks,readonly",
        "type=tmpfs,target=/h/ws/keys,tmpfs-size=4096,tmpfs-mode=0000",
    ];
    assert_eq!(mounted(&confinement()), expected);
    let mut odd = confinement();
    odd.files.writable.push("/h/a,readonly=false".into());
    let refused = arguments(&docker(), "n", &odd, &command(), IDENTITY, &FakeOciHost);
    assert!(matches!(refused, Err(PlanError::NotExpressible(_))), "{refused:?}");
}

// req: E7
#[test]
fn a_workspace_that_cannot_be_written_is_mounted_read_only_with_its_secrets_masked() {
    let mut asked = confinement();
    asked.files.writable.clear();
    let expected = [
        "type=bind,source=/data,target=/data,readonly",
        "type=bind,source=/h/ws,target=/h/ws,readonly",
        "type=bind,source=/dev/null,target=/h/ws/.env,readonly",
        "type=tmpfs,target=/h/ws/keys,tmpfs-size=4096,tmpfs-mode=0000",
    ];
    assert_eq!(mounted(&asked), expected);
}

// req: E7, E9
#[test]
fn a_full_copy_is_mounted_at_the_path_of_the_original_and_an_overlay_is_refused() {
    let mut asked = confinement();
    let copied = |source| vec![CopiedPath { root: "/h/ws".into(), source }];
    asked.files.copies = copied(CopySource::Tree { path: "/s/0/tree".into() });
    let expected = [
        "type=bind,source=/data,target=/data,readonly",
        "type=bind,source=/s/0/tree,target=/h/ws",
        "type=bind,source=/dev/null,target=/h/ws/.env,readonly",
        "type=bind,source=/s/0/tree/.git,target=/h/ws/.git",
        "type=bind,source=/s/0/tree/.git/hooks,target=/h/ws/.git/hooks,readonly",
        "type=tmpfs,target=/h/ws/keys,tmpfs-size=4096,tmpfs-mode=0000",
    ];
    assert_eq!(mounted(&asked), expected);
    asked.files.copies = copied(CopySource::Overlay {
        lower_layers: Vec::new(),
        upper_dir: "/s/0/upper".into(),
        work_dir: "/s/0/work".into(),
    });
    let refused = docker().check_enforcement(&asked, RunAs::User(IDENTITY)).unwrap_err().to_string();
    assert!(refused.contains("cannot mount an overlay"), "{refused}");
}

// req: E7
#[test]
fn choosing_a_container_waives_what_no_engine_gives_and_nothing_that_a_rule_requires() {
    use crate::guarantee::Guarantee;

    let mut asked = confinement();
    asked.network = Network::Proxied;
    let refused = docker().check_enforcement(&asked, RunAs::User(IDENTITY)).unwrap_err().to_string();
    for name in ["privileges-dropped", "tree-killed", "network-confined"] {
        assert!(refused.contains(name), "{name}: {refused}");
    }
    docker().adapt(&mut asked);
    assert_eq!(asked.network, Network::Off);
    docker().check_enforcement(&asked, RunAs::User(IDENTITY)).unwrap();
    for kept in [Guarantee::SecretsHidden, Guarantee::WritesConfined, Guarantee::NetworkConfined] {
        assert!(!asked.waived.contains(&kept), "{kept}");
    }
    asked.required.insert(Guarantee::TreeKilled);
    let refused = docker().check_enforcement(&asked, RunAs::User(IDENTITY)).unwrap_err().to_string();
    assert!(refused.contains("tree-killed"), "{refused}");
}
