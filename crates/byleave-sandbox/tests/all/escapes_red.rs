//! Attempts by someone who did not write the sandbox. They attack state that earlier commands leave for later ones, the scans
//! before and after a command, and processes that outlast it. They use the path of a real call with the built-in rules: a grant
//! becomes a confinement, for each one-shot command or once per session.
//!
//! Needs python3.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use byleave_core::effect::{Effect, Plan};
use byleave_core::policy::{PathVariables, Policy};
use byleave_sandbox::backend::{self, Backend};
use byleave_sandbox::confinement::Confinement;
use byleave_sandbox::from_plan::{self, RunEnvironment};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{self, CommandOutcome, CommandStatus, LaunchError, RunAs, SandboxSession};
use byleave_sandbox::limits::LimitKind;
use byleave_sandbox::plan::{CommandSpec, UserIdentity};

use crate::forms::long;
use crate::launch::{bash, text};
use byleave_testkit::user::{UID, unprivileged};

const SECRET: &str = "hunter2";

/// A home directory with a workspace in it.
struct HomeFixture {
    folder: tempfile::TempDir,
    /// Loaded once, because this takes longer than a command.
    policy: OnceLock<Arc<Policy>>,
}

impl HomeFixture {
    fn new() -> Self {
        Self::with(tempfile::tempdir().unwrap())
    }

    fn with(folder: tempfile::TempDir) -> Self {
        let world = Self { folder, policy: OnceLock::new() };
        world.file("home/w/.git/HEAD", "ref: refs/heads/main\n");
        world.file("home/w/.git/config", "");
        world.file("home/w/src/main.rs", "");
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn work(&self) -> PathBuf {
        self.at("home/w")
    }

    fn file(&self, path: &str, text: &str) {
        let file = self.at(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn policy(&self) -> &Arc<Policy> {
        self.policy.get_or_init(|| {
            let (workspace, home) = (self.work(), self.at("home"));
            let places = PathVariables {
                workspace: workspace.to_str(),
                home: home.to_str(),
                ..PathVariables::default()
            };
            Arc::new(Policy::builtin(&places).unwrap())
        })
    }

    /// The grant only says that a program may run. The built-in rules decide everything else.
    fn confinement(&self) -> Confinement {
        self.confinement_for(CallAccess::All)
    }

    fn confinement_for(&self, access: CallAccess) -> Confinement {
        let place = RunEnvironment {
            repository: None,
            workspace: self.work(),
            cwd: self.work(),
            home: Some(self.at("home")),
            private_paths: Vec::new(),
            run_markers_dir: None,
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            read_only: matches!(access, CallAccess::Reading),
            is_rehearsal: false,
            on_copy: false,
        };
        let run = Effect::Run { program: "/bin/bash".into(), argv: vec!["bash".into()] };
        let plan = Plan { effects: vec![run], ..Plan::default() };
        let mut confinement = from_plan::build_confinement(&plan, self.policy(), &place).unwrap();
        confinement.waived.insert(Guarantee::MemoryLimited);
        (confinement.limits.wall_time, confinement.limits.tmp_bytes) = (Duration::from_secs(120), 64 << 20);
        confinement
    }

    fn session(&self, parked: u32) -> SandboxSession {
        SandboxSession::open(self.confinement(), RunAs::Caller, parked)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Creates one of the run methods. Created only on demand, because each costs as much as several
    /// commands.
    fn way(&self, name: &'static str) -> RunMethod<'_> {
        let run: CommandRunner<'_> = match name {
            "one-shot" => Box::new(|script| launch::run(&self.confinement(), &bash(script))),
            _ => {
                let session = self.session(if name == "pool" { 2 } else { 0 });
                Box::new(move |script| session.start(&bash(script))?.finish())
            }
        };
        RunMethod { name, run }
    }
}

const WAYS: [&str; 3] = ["one-shot", "session", "pool"];

/// The access that the mode of a call gives.
#[derive(Clone, Copy, Debug)]
enum CallAccess {
    All,
    Reading,
}

type CommandRunner<'a> = Box<dyn Fn(&str) -> Result<CommandOutcome, LaunchError> + 'a>;

/// A method to run commands one after the other.
struct RunMethod<'a> {
    name: &'static str,
    run: CommandRunner<'a>,
}

impl RunMethod<'_> {
    fn outcome(&self, script: &str) -> CommandOutcome {
        (self.run)(script).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn told(&self, script: &str) -> String {
        let outcome = self.outcome(script);
        text(&outcome.stdout) + &text(&outcome.stderr)
    }
}

fn python(script: &str) -> String {
    format!("python3 - <<'END'\n{script}\nEND\n")
}

// req: E7
#[test]
fn a_secret_is_not_read_by_renaming_what_it_lies_in() {
    if !unprivileged("escapes_red::a_secret_is_not_read_by_renaming_what_it_lies_in") {
        return;
    }
    for way in WAYS {
        let world = HomeFixture::new();
        world.file("home/w/.docker/config.json", SECRET);
        world.file("home/w/a/deep/.env", SECRET);
        let way = world.way(way);
        way.told("mv .docker d; mv a b; mv a/deep c; mkdir .docker a a/deep; touch .docker/config.json a/deep/.env");
        let told = way.told("cat $(find . -type f 2>/dev/null) 2>&1");
        assert!(!told.contains(SECRET), "{}: {told}", way.name);
    }
}

// req: E7
#[test]
fn a_second_name_that_was_made_beforehand_does_not_show_a_secret() {
    if !unprivileged("escapes_red::a_second_name_that_was_made_beforehand_does_not_show_a_secret") {
        return;
    }
    let links = ["ln .env notes", "mkdir d; mv .env d/notes; ln -s d/notes .env"];
    for (way, link) in WAYS.into_iter().flat_map(|way| links.map(|link| (way, link))) {
        let world = HomeFixture::new();
        let way = world.way(way);
        assert_eq!(way.told(&format!("touch .env && {link}")), "");
        // A person writes the secret.
        fs::write(world.work().join(".env"), SECRET).unwrap();
        let told = way.told("cat .env notes d/notes 2>&1");
        assert!(!told.contains(SECRET), "{} {link}: {told}", way.name);
    }
}

// req: E7
#[test]
fn a_secret_that_is_removed_and_made_anew_is_hidden_though_it_has_the_same_number() {
    if !unprivileged(
        "escapes_red::a_secret_that_is_removed_and_made_anew_is_hidden_though_it_has_the_same_number",
    ) {
        return;
    }
    for way in WAYS {
        let world = HomeFixture::new();
        let env = world.work().join(".env");
        fs::write(&env, SECRET).unwrap();
        let way = world.way(way);
        let mut reused = 0;
        let rounds = if long() { 20 } else { 8 };
        for _ in 0..rounds {
            assert!(!way.told("cat .env 2>&1; touch .env").contains(SECRET), "{}", way.name);
            let before = fs::metadata(&env).unwrap().ino();
            // As git does when it checks out another branch.
            fs::remove_file(&env).unwrap();
            fs::write(&env, SECRET).unwrap();
            reused += usize::from(fs::metadata(&env).unwrap().ino() == before);
            let told = way.told("cat .env 2>&1");
            assert!(!told.contains(SECRET), "{} after {reused}: {told}", way.name);
        }
        println!("{}: {reused} of {rounds} had the number of the one before", way.name);
    }
}

// req: E7
#[test]
fn a_secret_is_not_shown_while_another_command_swaps_what_it_lies_in() {
    if !unprivileged("escapes_red::a_secret_is_not_shown_while_another_command_swaps_what_it_lies_in") {
        return;
    }
    let world = HomeFixture::new();
    world.file("home/w/a/.env", SECRET);
    let swap = r#"
import ctypes, os
libc = ctypes.CDLL(None)
os.makedirs("b", exist_ok=True); open("b/.env", "w").close(); open("swapping", "w").close()
while not os.path.exists("over"): libc.renameat2(-100, b"a", -100, b"b", 2)
"#;
    let swapping = launch::start(&world.confinement(), &bash(&python(swap)), RunAs::Caller).unwrap();
    until(&world.work().join("swapping"));
    let rounds = if long() { 100 } else { 25 };
    let mut ran = 0;
    for _ in 0..rounds {
        // A failed start is acceptable too.
        if let Ok(outcome) = launch::run(&world.confinement(), &bash("cat a/.env b/.env")) {
            assert!(!text(&outcome.stdout).contains(SECRET), "{outcome:?}");
            ran += 1;
        }
    }
    println!("{ran} of {rounds} ran");
    fs::write(world.work().join("over"), "").unwrap();
    swapping.finish().unwrap();
}

/// Waits for a file that the other side makes.
fn until(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed().as_secs() < 120, "{}", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the planted files that a person's programs would run.
fn in_action(world: &HomeFixture, planted: &[&str]) -> Vec<String> {
    let there =
        |path: &&&str| world.work().join(OsStr::from_bytes(path.as_bytes())).symlink_metadata().is_ok();
    planted.iter().filter(there).map(|path| (*path).to_owned()).collect()
}

// req: E7
#[test]
fn what_is_planted_by_one_command_is_found_however_it_is_put_there() {
    if unprivileged("escapes_red::what_is_planted_by_one_command_is_found_however_it_is_put_there") {
        what_is_planted_is_found("one-shot");
    }
}

// req: E7
#[test]
fn what_is_planted_in_a_session_is_found_however_it_is_put_there() {
    if unprivileged("escapes_red::what_is_planted_in_a_session_is_found_however_it_is_put_there") {
        what_is_planted_is_found("session");
    }
}

// req: E7
#[test]
fn what_is_planted_in_a_pool_is_found_however_it_is_put_there() {
    if unprivileged("escapes_red::what_is_planted_in_a_pool_is_found_however_it_is_put_there") {
        what_is_planted_is_found("pool");
    }
}

fn what_is_planted_is_found(way: &'static str) {
    let attempts: &[(&str, &[&str])] = &[
        ("echo x > .envrc; echo x > src/.envrc", &[".envrc", "src/.envrc"]),
        (
            "mkdir evil; echo x > evil/pre-commit; chmod +x evil/pre-commit; ln -s ../evil .git/hooks",
            &[".git/hooks/pre-commit"],
        ),
        ("mkdir -p t/x/.git/hooks; echo x > t/x/.git/config; mv t/x src/x", &["src/x/.git"]),
        ("mkdir -p t; echo x > t/1; ln t/1 .mcp.json", &[".mcp.json"]),
        ("mkdir -p 'a\nb'; echo x > 'a\nb/.envrc'", &["a\nb/.envrc"]),
        ("ln -s src .vscode", &[".vscode"]),
        (
            "mkdir .codex src/.zed; echo x > .codex/config.toml; echo x > src/.zed/tasks.json; echo x > a.code-workspace; echo x > mcp.json",
            &[".codex", "src/.zed", "a.code-workspace", "mcp.json"],
        ),
        ("mkfifo .envrc", &[".envrc"]),
        ("mkdir -p .git/worktrees/x; echo x > .git/commondir", &[".git/worktrees", ".git/commondir"]),
        (
            "git init -q --bare src/b 2>&1 || { mkdir -p src/b/objects src/b/refs; echo 'ref: refs/heads/x' > src/b/HEAD; }; printf '[core]\n\tfsmonitor = touch /tmp/x\n' > src/b/config",
            &["src/b/HEAD"],
        ),
        (
            "mkdir -p t/q; chmod 755 t; echo x > t/q/.envrc; chmod 555 t/q; echo x > zz; mkdir z; echo x > z/.envrc",
            &["z/.envrc"],
        ),
        (
            "for n in $(seq 1000); do echo x > .envrc.quarantined-$n; done; echo x > .envrc.quarantined-0; echo x > .envrc; echo x > src/.mcp.json",
            &["src/.mcp.json"],
        ),
    ];
    for (script, planted) in attempts {
        let world = HomeFixture::new();
        let way = world.way(way);
        let outcome = (way.run)(script);
        println!("{:12} {:?} {script}", way.name, outcome.as_ref().map(|outcome| outcome.planted.len()));
        let left = in_action(&world, planted);
        assert!(left.is_empty(), "{}: {script}: {left:?} {outcome:?}", way.name);
    }
}

// req: E7
#[test]
fn what_is_planted_where_nobody_can_look_is_said() {
    if !unprivileged("escapes_red::what_is_planted_where_nobody_can_look_is_said") {
        return;
    }
    // If a path is locked completely, nothing runs any more until a person has checked it.
    for way in WAYS {
        let world = HomeFixture::new();
        let way = world.way(way);
        assert!(way.outcome("mkdir d; echo x > d/.envrc; chmod 000 d").planted.is_empty());
        let refused = (way.run)("chmod 700 d").unwrap_err().to_string();
        assert!(refused.contains("/w/d`") && refused.contains("make it readable"), "{}: {refused}", way.name);
    }
    for script in [
        "echo x > src/.envrc; chmod 311 src",
        "mkdir -p \"$(printf 'n\\377')\"; echo x > \"$(printf 'n\\377')/.envrc\"",
        "mkdir -p s/.git/hooks; echo x > s/.git/hooks/pre-commit; chmod 311 s/.git s",
    ] {
        for way in WAYS {
            let world = HomeFixture::new();
            let way = world.way(way);
            let outcome = (way.run)(script);
            fs::set_permissions(world.work().join("src"), fs::Permissions::from_mode(0o755)).unwrap();
            let said = outcome.as_ref().map_or(true, |outcome| !outcome.planted.is_empty());
            assert!(said, "{}: {script}: {outcome:?}", way.name);
        }
    }
}

// req: E7
#[test]
fn what_a_person_makes_meanwhile_is_no_less_a_secret_for_being_put_out_of_action() {
    if !unprivileged(
        "escapes_red::what_a_person_makes_meanwhile_is_no_less_a_secret_for_being_put_out_of_action",
    ) {
        return;
    }
    for parked in [0, 2] {
        let world = HomeFixture::new();
        let session = world.session(parked);
        let waiting = session.start(&bash("until [ -e over ]; do sleep 0.01; done")).unwrap();
        fs::write(world.work().join(".envrc"), SECRET).unwrap();
        fs::write(world.work().join("over"), "").unwrap();
        assert_eq!(waiting.finish().unwrap().planted.len(), 1);
        let outcome = session.start(&bash("ls -A; cat .envrc* 2>&1")).unwrap().finish().unwrap();
        let told = text(&outcome.stdout);
        assert!(told.contains("quarantined") && !told.contains(SECRET), "{parked}: {told}");
        let outcome = launch::run(&world.confinement(), &bash("cat .envrc*")).unwrap();
        assert!(!text(&outcome.stdout).contains(SECRET), "{outcome:?}");
    }
}

// req: E7
#[test]
fn a_link_where_something_is_run_from_is_not_led_elsewhere() {
    if !unprivileged("escapes_red::a_link_where_something_is_run_from_is_not_led_elsewhere") {
        return;
    }
    for script in [
        "mkdir evil; ln -sfn ../evil .git/hooks",
        "rm .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit",
        "rm .vscode; mkdir .vscode; echo x > .vscode/tasks.json",
        "mkdir evil; ln -sfn evil .vscode",
    ] {
        for way in WAYS {
            let world = HomeFixture::new();
            world.file("home/w/tools/hooks/x", "");
            world.file("home/w/tools/vscode/x", "");
            symlink("../tools/hooks", world.work().join(".git/hooks")).unwrap();
            symlink("tools/vscode", world.work().join(".vscode")).unwrap();
            let way = world.way(way);
            assert!(way.outcome("touch src/x").planted.is_empty());
            let outcome = way.outcome(script);
            assert!(!outcome.planted.is_empty(), "{}: {script}: {outcome:?}", way.name);
        }
    }
}

// req: E7
#[test]
fn output_that_is_handed_to_another_command_does_not_hold_up_its_end() {
    if !unprivileged("escapes_red::output_that_is_handed_to_another_command_does_not_hold_up_its_end") {
        return;
    }
    for parked in [0, 2] {
        let world = HomeFixture::new();
        let session = world.session(parked);
        let taker = r#"
import array, os, socket
meeting = socket.socket(socket.AF_UNIX); meeting.bind("/tmp/meeting"); meeting.listen(); open("listening", "w").close()
_, control, _, _ = (c := meeting.accept()[0]).recvmsg(1, 256)
handed = array.array("i"); handed.frombytes(control[0][2]); c.sendall(b"!")
while not os.path.exists("over"): os.write(handed[0], b"x" * 4096)
"#;
        let taker = session.start(&bash(&python(taker))).unwrap();
        until(&world.work().join("listening"));
        let giver = r#"
import array, socket
meeting = socket.socket(socket.AF_UNIX); meeting.connect("/tmp/meeting")
meeting.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))]); meeting.recv(1)
"#;
        let giver = session.start(&bash(&python(giver))).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(giver.finish().map(|outcome| outcome.status)));
        let ended = receiver.recv_timeout(Duration::from_secs(120));
        fs::write(world.work().join("over"), "").unwrap();
        assert_eq!(ended.unwrap().unwrap(), CommandStatus::Exited(0), "parked {parked}");
        drop(taker);
    }
}

// req: E7
#[test]
fn what_rules_deny_is_not_read_among_toolchains() {
    if !unprivileged("escapes_red::what_rules_deny_is_not_read_among_toolchains") {
        return;
    }
    for way in WAYS {
        let world = HomeFixture::new();
        world.file("home/go/src/project/.env", SECRET);
        world.file("home/go/pkg/mod/x/x.go", "package x");
        let way = world.way(way);
        let told = way.told("cat ~+/../go/src/project/.env ../go/pkg/mod/x/x.go 2>&1");
        assert!(!told.contains(SECRET) && told.contains("package"), "{}: {told}", way.name);
    }
}

// req: E7
#[test]
fn thousands_of_secrets_are_hidden_or_nothing_runs() {
    if !unprivileged("escapes_red::thousands_of_secrets_are_hidden_or_nothing_runs") {
        return;
    }
    let world = HomeFixture::new();
    // Each is a mount, which the kernel takes time to create and to remove.
    for n in 0..if long() { 3000 } else { 1000 } {
        world.file(&format!("home/w/p/{n}/.env"), SECRET);
    }
    match launch::run(&world.confinement(), &bash("cat p/*/.env 2>/dev/null | wc -c")) {
        Ok(outcome) => assert_eq!(text(&outcome.stdout), "0\n"),
        Err(error) => println!("{error}"),
    }
}

// req: E7
#[test]
fn the_next_command_of_a_session_starts_whatever_the_one_before_has_used_up() {
    if !unprivileged("escapes_red::the_next_command_of_a_session_starts_whatever_the_one_before_has_used_up")
    {
        return;
    }
    let world = HomeFixture::new();
    for way in ["session", "pool"].map(|way| world.way(way)) {
        for script in [
            "cat /dev/zero > /dev/shm/x 2>/dev/null; true",
            "head -c 100000000 /dev/zero > /tmp/x 2>/dev/null; head -c 1000 /dev/zero > /var/tmp/y 2>/dev/null; true",
            "python3 -c 'import os, time\nfor n in range(600):\n  if os.fork() == 0: time.sleep(600)' 2>/dev/null; true",
            "cd /tmp && python3 -c 'import os\nfor n in range(120000): os.close(os.open(str(n), 64))' 2>/dev/null; true",
            "trap '' HUP TERM INT; (while :; do :; done) & sleep 0.1; kill -9 -1",
            "chmod 000 /dev/shm; true",
        ] {
            (way.run)(script).unwrap_or_else(|error| panic!("{} {script}: {error}", way.name));
            assert_eq!(way.told("echo on"), "on\n", "{} after {script}", way.name);
        }
    }
}

/// Kernel interfaces other than reading and writing files by path.
const KERNEL: &str = r#"
import ctypes, fcntl, mmap, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if libc.syscall(*args) >= 0: print("SUCCEEDED", name)
def refused(name, what, *args):
    try: what(*args)
    except (OSError, ValueError): return
    print("SUCCEEDED", name)
call("io_uring", 425, 8, ctypes.create_string_buffer(256)); call("fanotify", 300, 0x200, 0); call("userfaultfd", 323, 1)
call("keyctl session", 250, 1, 0); call("add_key", 248, b"user", b"x", b"y", 1, -3); call("bpf", 321, 0, 0, 0)
call("name_to_handle", 303, -100, b".", ctypes.create_string_buffer(256), ctypes.create_string_buffer(8), 0)
call("open_by_handle", 304, -100, ctypes.create_string_buffer(256), 0); call("clone3", 435, ctypes.create_string_buffer(88), 88)
call("open_tree", 428, -100, b"/", 1); call("mount_setattr", 442, -100, b".", 0, ctypes.create_string_buffer(32), 32)
call("pidfd_getfd", 438, libc.syscall(434, 1, 0), 0, 0); call("lsm_set_self", 460, 0, 0, 0, 0); call("statmount", 457, ctypes.create_string_buffer(24), 0, 0, 0)
call("x32", 0x40000000 | 165, 0, 0, 0, 0, 0)
for family in [socket.AF_ALG, 40, socket.AF_PACKET, 29, 31, 44]: refused(f"family {family}", socket.socket, family, 5 if family == 38 else 2)
# By roundabout paths to what is covered.
for path in ["/proc/self/root", "/proc/thread-self/root", "/proc/1/root", "/proc/self/cwd/..", "/dev/fd/../../../..", "/proc/self/task/%d/root" % os.getpid()]:
    for name in [f"{os.getcwd()}/a/.env", os.path.expanduser("~/notes")]:
        try: print(open(path + name).read())
        except OSError: pass
# Copies and second names of what is covered, and of what is held.
for path in ["a/.env", ".git/config", ".git"]:
    refused("link " + path, os.link, path, "l"); refused("rename " + path, os.rename, path, "r")
    for flags in [1, 2, 4]:
        if libc.renameat2(-100, b"src", -100, path.encode(), flags) == 0: print("SUCCEEDED renameat2", path, flags)
    if libc.linkat(os.open(path, os.O_PATH), b"", -100, b"l2", 0x1000) == 0: print("SUCCEEDED linkat", path)
refused("reopen", lambda: open("/proc/self/fd/%d" % os.open(".git/config", os.O_RDONLY), "w"))
refused("truncate", os.truncate, ".git/config", 0); refused("chmod", os.chmod, ".git/config", 0o666)
refused("xattr", os.setxattr, ".git/config", "user.x", b"x"); refused("utime", os.utime, ".git/config")
refused("map", lambda: mmap.mmap(os.open(".git/config", os.O_RDWR), 0))
refused("flags", lambda: fcntl.ioctl(os.open(".git/config", os.O_RDONLY), 0x40086602, struct.pack("l", 0x40)))
to = os.open("clone", os.O_RDWR | os.O_CREAT)
refused("clone", lambda: fcntl.ioctl(to, 0x40049409, os.open("a/.env", os.O_RDONLY)))
for what in [0x5412, 0x541c, 0x541d, 0x5423, 0x5412 | 1 << 32]:
    if libc.ioctl(0, ctypes.c_ulong(what), b"x") == 0: print("SUCCEEDED ioctl", what)
# Beneath the mounts, from a directory that was open before something was put over it.
for n in range(3, 256): refused(f"descriptor {n}", os.listdir, n) if n != to and os.path.exists(f"/proc/self/fd/{n}") and os.path.isdir(f"/proc/self/fd/{n}") else None
for mode in [0o4755, 0o2755, 0o6755]:
    open("s", "w").close(); refused("chmod", os.chmod, "s", mode); refused("open", os.open, f"s{mode}", os.O_CREAT, mode); refused("mkfifo", os.mkfifo, f"f{mode}", mode)
refused("acl", os.setxattr, "s", "system.posix_acl_access", struct.pack("<IHHIHHIHHI", 2, 1, 7, 0xffffffff, 2, 7, 0, 0x20, 7, 0xffffffff)[:28])
refused("capability", os.setxattr, "s", "security.capability", struct.pack("<IIIII", 0x2000001, 0xffffffff, 0, 0, 0))
refused("device", os.mknod, "dev", 0o20666, os.makedev(1, 1))
for name in ["user.overlay.redirect", "trusted.overlay.redirect"][1:]: refused(name, os.setxattr, "s", name, b"x")
"#;

// req: E7
#[test]
fn what_else_the_kernel_offers_leads_to_nothing() {
    if !unprivileged("escapes_red::what_else_the_kernel_offers_leads_to_nothing") {
        return;
    }
    for way in WAYS {
        let world = HomeFixture::new();
        world.file("home/w/a/.env", SECRET);
        world.file("home/notes", SECRET);
        let way = world.way(way);
        let outcome = way.outcome(&python(KERNEL));
        let told = text(&outcome.stdout) + &text(&outcome.stderr);
        let held = !told.contains("SUCCEEDED") && !told.contains(SECRET);
        assert!(held && outcome.status == CommandStatus::Exited(0), "{}: {told}", way.name);
    }
}

// req: E7
#[test]
fn sockets_of_the_machine_are_out_of_reach() {
    assert!(
        rustix::process::geteuid().is_root(),
        "needs root, to listen where the machine's own programs do"
    );
    let world = HomeFixture::with(tempfile::tempdir_in("/var/lib").unwrap());
    world.file("other/file", "");
    let everybody = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    everybody(world.folder.path(), 0o755);
    for path in ["home", "home/w", "home/w/src"] {
        std::os::unix::fs::chown(world.at(path), Some(UID), Some(UID)).unwrap();
    }
    let paths = [world.at("beside.sock"), world.at("other/daemon.sock")];
    let listeners = paths.each_ref().map(|path| {
        let listener = UnixListener::bind(path).unwrap();
        everybody(path, 0o666);
        listener.set_nonblocking(true).unwrap();
        listener
    });
    let script = format!(
        "import socket\nfor path in {paths:?}:\n  try: socket.socket(socket.AF_UNIX).connect(path); print('SUCCEEDED', path)\n  except OSError: pass"
    );
    let command =
        CommandSpec { argv: vec!["python3".into(), "-c".into(), script.into()], ..CommandSpec::default() };
    let run_as = RunAs::User(UserIdentity { uid: UID, gid: UID });
    for parked in [None, Some(0), Some(2)] {
        let outcome = match parked {
            None => launch::start(&world.confinement(), &command, run_as).unwrap().finish().unwrap(),
            Some(parked) => {
                let session = SandboxSession::open(world.confinement(), run_as, parked).unwrap();
                session.start(&command).unwrap().finish().unwrap()
            }
        };
        assert_eq!(
            (outcome.status, text(&outcome.stdout)),
            (CommandStatus::Exited(0), String::new()),
            "{parked:?}"
        );
    }
    assert!(listeners.iter().all(|listener| listener.accept().is_err()));
}

// req: E7
#[test]
fn without_a_network_of_its_own_a_pair_of_sockets_leads_to_nobody() {
    if !unprivileged("escapes_red::without_a_network_of_its_own_a_pair_of_sockets_leads_to_nobody") {
        return;
    }
    let world = HomeFixture::new();
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("log");
    let receiver = UnixDatagram::bind(&path).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let mut confinement = world.confinement();
    confinement.waived = Guarantee::ALL.into_iter().collect();
    let script = format!(
        "import socket\nfor kind in [socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, socket.SOCK_STREAM, socket.SOCK_SEQPACKET]:
  for way in ['sendto', 'connect']:
    try:
      one, other = socket.socketpair(socket.AF_UNIX, kind)
      one.sendto(b'x', {path:?}) if way == 'sendto' else one.connect({path:?}); one.send(b'y'); print(kind, way)
    except OSError: pass
one, other = socket.socketpair(); one.send(b'works'); print(other.recv(9).decode())"
    );
    let command =
        CommandSpec { argv: vec!["python3".into(), "-c".into(), script.into()], ..CommandSpec::default() };
    let running = backend::start_on(Backend::Landlock, &confinement, &command, RunAs::Caller).unwrap();
    let outcome = running.finish().unwrap();
    assert!(receiver.recv(&mut [0; 9]).is_err(), "{outcome:?}");
    assert!(text(&outcome.stdout).ends_with("works\n"), "{outcome:?}");
}

// req: E2
#[test]
fn nothing_that_a_command_does_keeps_it_past_its_time() {
    if !unprivileged("escapes_red::nothing_that_a_command_does_keeps_it_past_its_time") {
        return;
    }
    let world = HomeFixture::new();
    // In parallel, because most of the time is spent waiting for the limit.
    std::thread::scope(|scope| {
        for script in [
            "kill -STOP $$",
            "kill -STOP -1; sleep 600",
            "yes & yes >&2",
            "exec 3>&1; (setsid sleep 600 &) ; sleep 600",
            "while :; do (:) & done 2>/dev/null",
            "python3 -c 'import os, time\nfor n in range(150):\n  if os.fork() == 0: os._exit(0)\ntime.sleep(600)'",
        ] {
            let mut confinement = world.confinement();
            (confinement.limits.wall_time, confinement.limits.pids) = (Duration::from_secs(1), 200);
            scope.spawn(move || {
                let alone = launch::run(&confinement, &bash(script)).unwrap();
                let session = SandboxSession::open(confinement, RunAs::Caller, 1).unwrap();
                let in_session = session.start(&bash(script)).unwrap().finish().unwrap();
                // None of them ends by itself within ten minutes.
                let ended_by = (alone.limit_exceeded, in_session.limit_exceeded);
                assert_eq!(ended_by, (Some(LimitKind::Wall), Some(LimitKind::Wall)), "{script}");
                assert!(alone.wall_time.max(in_session.wall_time) < Duration::from_secs(300), "{script}");
            });
        }
    });
}

// req: E7
#[test]
fn a_call_that_only_reads_sees_its_workspace_and_changes_nothing() {
    if !unprivileged("escapes_red::a_call_that_only_reads_sees_its_workspace_and_changes_nothing") {
        return;
    }
    let world = HomeFixture::new();
    world.file("home/w/.env", SECRET);
    world.file("home/w/src/main.rs", "fn main");
    let confinement = world.confinement_for(CallAccess::Reading);
    for parked in [None, Some(0), Some(2)] {
        let script = bash(
            "cat src/main.rs .env; echo x > new; mv src other; rm -rf .git; chmod 777 src; touch ~/x /tmp/x",
        );
        let outcome = match parked {
            None => launch::run(&confinement, &script).unwrap(),
            Some(parked) => {
                let session = SandboxSession::open(confinement.clone(), RunAs::Caller, parked).unwrap();
                session.start(&script).unwrap().finish().unwrap()
            }
        };
        let told = text(&outcome.stdout);
        assert_eq!(told, "fn main", "{parked:?}: {outcome:?}");
        assert!(world.work().join("src").exists() && world.work().join(".git/config").exists());
    }
}
