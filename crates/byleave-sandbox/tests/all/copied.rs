//! A command on copies: it sees the existing files, changes only the copy, and hidden files stay hidden in it.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use byleave_sandbox::backend::{self, Backend};
use byleave_sandbox::confinement::{Confinement, CopiedPath, CopySource};
use byleave_sandbox::launch::{
    self, CommandOutcome, CommandStatus, LaunchError, OciEngine, RunAs, SandboxSession,
};
use byleave_sandbox::limits::LimitKind;
use byleave_sandbox::plan::{PlanError, UserIdentity};
use byleave_sandbox::probe;

use crate::forms::unprivileged_on_own_disk;
use crate::launch::{bash, confinement, text};
use byleave_testkit::user::{UID, passes, unprivileged};

/// A workspace, and a directory for its copies.
struct CopyFixture {
    folder: tempfile::TempDir,
}

impl CopyFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for directory in ["w/sub", "w/target", "store"] {
            fs::create_dir_all(folder.path().join(directory)).unwrap();
        }
        for file in ["w/a", "w/sub/b", "w/target/old", "w/.env", "w/held"] {
            fs::write(folder.path().join(file), format!("{file}\n")).unwrap();
        }
        Self { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// Creates an overlay of a directory of the workspace, over these layers.
    fn overlay(&self, root: &str, name: &str, lowers: &[&str]) -> CopiedPath {
        let [upper, work] = ["upper", "work"].map(|kind| self.at(&format!("store/{name}-{kind}")));
        fs::create_dir(&upper).unwrap();
        fs::create_dir(&work).unwrap();
        let lowers = lowers.iter().map(|lower| self.at(&format!("store/{lower}-upper"))).collect();
        CopiedPath {
            root: self.at(root),
            source: CopySource::Overlay { lower_layers: lowers, upper_dir: upper, work_dir: work },
        }
    }

    fn confined(&self, copied: Vec<CopiedPath>) -> Confinement {
        let mut confinement = confinement(&self.at("w"));
        confinement.files.copies = copied;
        confinement.files.hidden = vec![self.at("w/.env")];
        confinement.files.protected = vec![self.at("w/held")];
        confinement
    }

    fn run(&self, copied: Vec<CopiedPath>, script: &str) -> CommandOutcome {
        run(&self.confined(copied), script)
    }

    /// Everything observable in the workspace.
    fn state(&self) -> Vec<String> {
        let mut told = Vec::new();
        let mut left = vec![self.at("w")];
        while let Some(path) = left.pop() {
            let found = fs::symlink_metadata(&path).unwrap();
            let times = (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec());
            let kept = attribute(&path, "user.kept");
            let content = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            let [mode, links] = [u64::from(found.mode()), found.nlink()];
            told.push(format!("{} {mode:o} {links} {times:?} {kept:?} {content:?}", path.display()));
            if found.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        told.sort();
        told
    }
}

impl Drop for CopyFixture {
    fn drop(&mut self) {
        // The kernel's work directory of an overlay has no permissions, so it must get some before it can be
        // removed.
        open_all(self.folder.path());
    }
}

/// Makes every directory writable, so that it can be removed. Does not follow links.
pub(crate) fn open_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap_or_default();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_all(&entry.path());
        }
    }
}

fn run(confinement: &Confinement, script: &str) -> CommandOutcome {
    launch::run(confinement, &bash(script)).unwrap_or_else(|error| panic!("{error}"))
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0u8; 256];
    let length = rustix::fs::lgetxattr(path, name, &mut value).ok()?;
    value.truncate(length);
    Some(value)
}

fn said(outcome: &CommandOutcome) -> String {
    text(&outcome.stdout) + &text(&outcome.stderr)
}

// req: E5
#[test]
fn what_a_command_changes_it_changes_in_the_copy() {
    if !unprivileged("copied::what_a_command_changes_it_changes_in_the_copy") {
        return;
    }
    let world = CopyFixture::new();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(world.at("w/a"), "user.kept", b"before", flags).unwrap();
    let before = world.state();
    let script =
        "echo more >> a; echo new > new; rm sub/b; chmod 600 target/old; mkdir -p d/e; ln -s a l; mv a moved
        touch -d @1 sub; mkdir forged
        python3 -c 'import os; os.setxattr(\"moved\", \"user.kept\", b\"after\")'
        # What the kernel reads as its own words in a layer, the command cannot write there.
        python3 -c 'import os; os.setxattr(\"forged\", \"user.overlay.opaque\", b\"y\")' 2>/dev/null
        python3 -c 'import os; os.mknod(\"whiteout\", 0o20600, 0)' 2>/dev/null
        cat moved new; ls";
    let outcome = world.run(vec![world.overlay("w", "one", &[])], script);
    assert_eq!(outcome.status, CommandStatus::Exited(0), "{}", said(&outcome));
    assert_eq!(said(&outcome), "w/a\nmore\nnew\nd\nforged\nheld\nl\nmoved\nnew\nsub\ntarget\n");
    assert_eq!(world.state(), before, "the directory itself");
    assert_eq!(fs::read_to_string(world.at("store/one-upper/moved")).unwrap(), "w/a\nmore\n");
    let gone = fs::symlink_metadata(world.at("store/one-upper/sub/b")).unwrap();
    assert_eq!((gone.mode() & 0o170_000, gone.rdev()), (0o020_000, 0), "a whiteout");
    let times = fs::symlink_metadata(world.at("store/one-upper/target/old")).unwrap();
    assert_eq!(times.permissions().mode() & 0o777, 0o600);
    assert_eq!(attribute(&world.at("store/one-upper/moved"), "user.kept").as_deref(), Some(&b"after"[..]));
    assert_eq!(attribute(&world.at("store/one-upper/forged"), "user.overlay.opaque"), None);
    assert!(!world.at("store/one-upper/whiteout").exists());
    // The same in a full copy.
    fs::create_dir(world.at("store/tree")).unwrap();
    fs::write(world.at("store/tree/a"), "copied\n").unwrap();
    let tree = CopiedPath { root: world.at("w"), source: CopySource::Tree { path: world.at("store/tree") } };
    let outcome = world.run(vec![tree], "cat a; echo x > a; ls");
    assert_eq!(said(&outcome), "copied\na\n");
    assert_eq!(world.state(), before);
    assert_eq!(fs::read_to_string(world.at("store/tree/a")).unwrap(), "x\n");
}

// req: E5
#[test]
fn layers_of_earlier_commands_lie_beneath_and_are_not_changed() {
    if !unprivileged("copied::layers_of_earlier_commands_lie_beneath_and_are_not_changed") {
        return;
    }
    let world = CopyFixture::new();
    let before = world.state();
    let first = vec![world.overlay("w", "w1", &[]), world.overlay("w/target", "t1", &[])];
    let outcome = world.run(first, "echo 1 > target/built; echo 1 > src; rm target/old; ls target");
    assert_eq!(said(&outcome), "built\n");
    assert!(!world.at("store/w1-upper/target").exists(), "what is scratch is not in the outer copy");
    let second = vec![world.overlay("w", "w2", &[]), world.overlay("w/target", "t2", &["t1"])];
    let outcome = world.run(second, "ls; ls target; echo 2 >> target/built; cat target/built");
    assert_eq!(said(&outcome), "a\nheld\nsub\ntarget\nbuilt\n1\n2\n");
    assert_eq!(fs::read_to_string(world.at("store/t1-upper/built")).unwrap(), "1\n");
    // Many layers.
    let mut lowers = vec!["t2".to_owned(), "t1".to_owned()];
    for at in 0..40 {
        fs::create_dir(world.at(&format!("store/more{at}-upper"))).unwrap();
        fs::write(world.at(&format!("store/more{at}-upper/{at}")), "").unwrap();
        lowers.insert(0, format!("more{at}"));
    }
    let lowers: Vec<&str> = lowers.iter().map(String::as_str).collect();
    let third = vec![world.overlay("w", "w3", &[]), world.overlay("w/target", "t3", &lowers)];
    assert_eq!(said(&world.run(third, "ls target | wc -l; cat target/built")), "41\n1\n2\n");
    assert_eq!(world.state(), before);
    // Files that only earlier commands made are there too, below a mount point that is created for them.
    fs::remove_dir_all(world.at("w/target")).unwrap();
    let fourth = vec![world.overlay("w", "w4", &[]), world.overlay("w/target", "t4", &["t2", "t1"])];
    assert_eq!(said(&world.run(fourth, "ls target; echo > target/more")), "built\n");
    assert_eq!(fs::read_dir(world.at("store/w4-upper/target")).unwrap().count(), 0);
    assert!(world.at("store/t4-upper/more").exists() && !world.at("w/target").exists());
}

// req: E5
#[test]
fn what_is_hidden_or_held_is_so_on_top_of_the_copy() {
    if !unprivileged("copied::what_is_hidden_or_held_is_so_on_top_of_the_copy") {
        return;
    }
    let world = CopyFixture::new();
    fs::create_dir_all(world.at("w/deep/er")).unwrap();
    fs::write(world.at("w/deep/er/.env"), "S3CRET-7f").unwrap();
    fs::write(world.at("w/.env"), "S3CRET-7f").unwrap();
    fs::create_dir(world.at("w/target/keys")).unwrap();
    fs::write(world.at("w/target/keys/key"), "S3CRET-7f").unwrap();
    let before = world.state();
    // Each tries to read a secret or to change a protected file by another way than its path.
    let attempts = [
        "cat .env deep/er/.env target/keys/key",
        "cat sub/../.env /proc/self/root$PWD/.env /proc/self/cwd/deep/er/.env",
        "mv deep shown; cat shown/er/.env; mv deep/er shown; cat shown/.env; mv .env shown; cat shown",
        "mv target t; cat t/keys/key; mv target/keys k; cat k/key",
        "ln .env linked; cat linked; ln deep/er/.env linked; cat linked; cp -al . ../copy; cp -a . /tmp/copy; cat /tmp/copy/.env",
        "rm -f .env; rm -rf deep target; cat .env; rmdir deep/er; mkdir -p deep/er; cat deep/er/.env",
        "rm -rf deep/er && mkdir deep/er && cat deep/er/.env; python3 -c 'import os; os.rename(\"deep/er\", \"x\")'; cat x/.env",
        "umount .env; umount deep/er/.env; unshare -rm sh -c 'umount .env; cat .env'; cat .env",
        "python3 -c 'import ctypes; print(ctypes.CDLL(None).syscall(428, -100, b\".\", 1))'; cat /proc/self/mountinfo; cat .env",
        "grep -rs S3CRET-7f . /tmp /var/tmp /dev/shm /proc/self/cwd/",
        "find / -xdev -name '*-upper' -o -name '*-work' | head; ls store ../store; grep -e upper= -e store /proc/self/mountinfo",
        "echo x > held; echo x >> held; rm -f held; mv held h; cat held; ln -f a held; python3 -c 'import os; os.replace(\"a\", \"held\")'; cat held",
    ];
    for (at, attempt) in attempts.iter().enumerate() {
        let copied = vec![
            world.overlay("w", &format!("a{at}"), &[]),
            world.overlay("w/target", &format!("b{at}"), &[]),
        ];
        let mut confined = world.confined(copied);
        confined.files.hidden.extend(["w/deep/er/.env", "w/target/keys"].map(|path| world.at(path)));
        let told = said(&run(&confined, attempt));
        assert!(!told.contains("S3CRET-7f") && !told.contains("-upper"), "{attempt}: {told}");
        if attempt.contains("held") {
            assert!(told.starts_with("w/held\nw/held\n"), "{told}");
        }
        assert_eq!(world.state(), before, "{attempt}");
    }
    // Without the masks the secrets are visible.
    let mut bare = world.confined(vec![world.overlay("w", "bare", &[])]);
    bare.files.hidden.clear();
    assert_eq!(said(&run(&bare, attempts[0])), "S3CRET-7f".repeat(3));
}

// req: E5
#[test]
fn copies_that_could_be_reached_or_cannot_be_had_are_refused() {
    if !unprivileged("copied::copies_that_could_be_reached_or_cannot_be_had_are_refused") {
        return;
    }
    let world = CopyFixture::new();
    let refused = |copied: Vec<CopiedPath>, change: &dyn Fn(&mut Confinement)| {
        let mut confined = world.confined(copied);
        change(&mut confined);
        launch::run(&confined, &bash("true")).unwrap_err()
    };
    let tree = |root: &str, at: &str| CopiedPath {
        root: world.at(root),
        source: CopySource::Tree { path: world.at(at) },
    };
    for directory in ["w/inside", "elsewhere", "store/tree"] {
        fs::create_dir(world.at(directory)).unwrap();
    }
    let nothing = |_: &mut Confinement| {};
    let shown = refused(vec![tree("w/sub", "w/inside")], &nothing);
    assert!(matches!(shown, LaunchError::Plan(PlanError::CopyVisible(_))), "{shown}");
    let named = refused(vec![tree("w", "store/tree")], &|confined| {
        confined.files.home_readable.push(world.at("store"));
    });
    assert!(matches!(named, LaunchError::Plan(PlanError::CopyVisible(_))), "{named}");
    for (copied, why) in [
        (vec![tree("elsewhere", "store/tree")], "may not write there"),
        (vec![tree("w", "store/tree"), tree("w", "store/tree")], "two copies"),
        (vec![tree("w/a", "store/tree")], "only one is a directory"),
        (vec![world.overlay("w/a", "file", &[])], "only a directory"),
    ] {
        let error = refused(copied, &nothing);
        assert!(matches!(&error, LaunchError::Plan(PlanError::InvalidCopy(_, _))), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    let absent = refused(vec![tree("w", "store/none")], &nothing);
    assert!(matches!(absent, LaunchError::Plan(PlanError::Missing(_))), "{absent}");
    // The kernel does not accept an upper directory on another filesystem than the work directory.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut overlay = world.overlay("w", "apart", &[]);
    if let CopySource::Overlay { work_dir: work, .. } = &mut overlay.source {
        *work = memory.path().to_path_buf();
    }
    let error = refused(vec![overlay], &nothing);
    assert!(matches!(&error, LaunchError::CopyFailed { root, .. } if *root == world.at("w")), "{error}");
    // Sessions and other backends cannot mount copies.
    let confined = world.confined(vec![tree("w", "store/tree")]);
    let is_refused =
        |error: LaunchError| assert!(matches!(error, LaunchError::CopiesUnsupported(_)), "{error}");
    is_refused(SandboxSession::open(confined.clone(), RunAs::Caller, 0).err().unwrap());
    let mut waived = confined.clone();
    waived.waived.extend(byleave_sandbox::guarantee::Guarantee::ALL);
    is_refused(backend::start_on(Backend::Bwrap, &waived, &bash("true"), RunAs::Caller).err().unwrap());
    waived.files.copies = vec![world.overlay("w", "alone", &[])];
    is_refused(backend::start_on(Backend::Landlock, &waived, &bash("true"), RunAs::Caller).err().unwrap());
    let engine = OciEngine { engine: "podman".into(), options: Vec::new(), image: "none".into() };
    // A container can have a full copy, but not an overlay.
    let mut waived = world.confined(vec![world.overlay("w", "container", &[])]);
    waived.waived.extend(byleave_sandbox::guarantee::Guarantee::ALL);
    is_refused(engine.run(&waived, &bash("true"), RunAs::Caller).unwrap_err());
}

// req: E5
#[test]
fn a_copy_does_not_fill_the_disk() {
    if !unprivileged_on_own_disk("copied::a_copy_does_not_fill_the_disk") {
        return;
    }
    let world = CopyFixture::new();
    fs::write(world.at("w/large"), vec![1; 20 << 20]).unwrap();
    fs::create_dir(world.at("store/tree")).unwrap();
    let tree = CopiedPath { root: world.at("w"), source: CopySource::Tree { path: world.at("store/tree") } };
    for (at, (script, ended_by, reached)) in [
        (
            "for i in $(seq 20); do head -c 1M /dev/zero > $i; done; sleep 1000",
            Some(LimitKind::Copy),
            &[][..],
        ),
        // A single byte of a large file.
        ("echo >> large; sleep 1000", Some(LimitKind::Copy), &[]),
        ("exec 7>x; rm x; head -c 20M /dev/zero >&7; sleep 1000", Some(LimitKind::Copy), &[]),
        ("mkdir d; head -c 20M /dev/zero > d/x; chmod 0 d; sleep 1000", Some(LimitKind::Copy), &[]),
        ("head -c 20M /dev/zero > target/x; sleep 1000", Some(LimitKind::Copy), &[]),
        ("fallocate -l 20M quick", None, &[LimitKind::Copy]),
        ("head -c 2M /dev/zero > small; rm large; head -c 20M /dev/zero > /tmp/other; sleep 0.3", None, &[]),
    ]
    .into_iter()
    .enumerate()
    {
        let layered = vec![
            world.overlay("w", &format!("w{at}"), &[]),
            world.overlay("w/target", &format!("t{at}"), &[]),
        ];
        for copied in [layered, vec![tree.clone()]] {
            if matches!(&copied[..], [one] if *one == tree)
                && (script.contains("target") || script.contains("large"))
            {
                continue;
            }
            let mut confined = world.confined(copied);
            (confined.limits.copy_bytes, confined.limits.wall_time) = (8 << 20, Duration::from_secs(300));
            let outcome = run(&confined, script);
            assert_eq!(
                (outcome.limit_exceeded, &outcome.limits_reached[..]),
                (ended_by, reached),
                "{script}: {outcome:?}"
            );
        }
    }
    // A reserve of disk space stays free.
    let mut confined = world.confined(vec![world.overlay("w", "room", &[])]);
    confined.limits.reserve_bytes = u64::MAX;
    let refused = launch::run(&confined, &bash("true")).unwrap_err();
    assert!(matches!(refused, LaunchError::DiskFull { .. }), "{refused}");
    let told = rustix::fs::statvfs(world.at("store")).unwrap();
    confined.limits.reserve_bytes = (told.f_bavail * told.f_frsize).saturating_sub(64 << 20);
    confined.limits.wall_time = Duration::from_secs(300);
    let outcome = run(&confined, "for i in 1 2 3; do fallocate -l 50M $i; done; sleep 1000");
    assert_eq!(outcome.limit_exceeded, Some(LimitKind::Reserve), "{outcome:?}");
}

// req: E5
#[test]
fn whether_copies_can_be_had_is_found_by_trying() {
    if !unprivileged("copied::whether_copies_can_be_had_is_found_by_trying") {
        return;
    }
    let world = CopyFixture::new();
    assert_eq!(probe::probe_overlays(&world.at("store"), RunAs::Caller), Ok(()));
    assert_eq!(probe::probe_overlays(&world.at("store/not/yet"), RunAs::Caller), Ok(()));
    assert_eq!(fs::read_dir(world.at("store")).unwrap().count(), 0, "nothing is left");
    // Only root can write there.
    assert!(probe::probe_overlays(Path::new("/usr"), RunAs::Caller).is_err());
}

/// Objects in the workspace that lead out of it: a stream socket with a server, a datagram socket, and a named pipe.
// req: E5
#[test]
fn nobody_outside_is_talked_to_through_what_lies_in_the_copy() {
    if !unprivileged("copied::nobody_outside_is_talked_to_through_what_lies_in_the_copy") {
        return;
    }
    let world = CopyFixture::new();
    let listener = UnixListener::bind(world.at("w/stream")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let messages = UnixDatagram::bind(world.at("w/messages")).unwrap();
    messages.set_nonblocking(true).unwrap();
    let name = format!("byleave-test-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    hidden.set_nonblocking(true).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, world.at("w/pipe"), rustix::fs::Mode::from_raw_mode(0o600))
        .unwrap();
    // Open at both ends here, so that neither end blocks.
    let mut pipe = fs::File::options().read(true).write(true).open(world.at("w/pipe")).unwrap();
    rustix::io::ioctl_fionbio(&pipe, true).unwrap();
    let script = format!(
        "python3 - <<'END'
import os, socket
for kind, path in [(socket.SOCK_STREAM, 'stream'), (socket.SOCK_DGRAM, 'messages'), (socket.SOCK_STREAM, '\\0{name}')]:
    for to in [path, os.path.abspath(path) if path[0] != '\\0' else path]:
        try:
            one = socket.socket(socket.AF_UNIX, kind); one.connect(to); one.send(b'x'); print('reached', to)
        except OSError as error: print(error.strerror)
os.rename('stream', 'moved')
try: socket.socket(socket.AF_UNIX).connect('moved'); print('reached')
except OSError as error: print(error.strerror)
os.link('messages', 'linked')
try: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect('linked'); print('reached')
except OSError as error: print(error.strerror)
pipe = os.open('pipe', os.O_RDWR | os.O_NONBLOCK)
try: print('reached', os.read(pipe, 9))
except OSError as error: print(error.strerror)
os.write(pipe, b'from inside')
try: os.open('pipe', os.O_WRONLY | os.O_NONBLOCK); print('open to itself')
except OSError as error: print(error.strerror)
END"
    );
    pipe.write_all(b"from outside").unwrap();
    let confined = world.confined(vec![world.overlay("w", "one", &[])]);
    let outcome = run(&confined, &script);
    let told = said(&outcome);
    assert!(!told.contains("reached") && told.ends_with("open to itself\n"), "{told}");
    assert_eq!(told.lines().count(), 10, "{told}");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(hidden.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(messages.recv(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut read = [0; 64];
    let length = pipe.read(&mut read).unwrap();
    assert_eq!(&read[..length], b"from outside", "nobody else read or wrote");
    // Control: without the copy they lead out.
    let plain = said(&run(&world.confined(Vec::new()), &script));
    assert!(plain.contains("reached stream") && plain.contains("reached messages"), "{plain}");
}

// req: E5
#[test]
fn a_directory_of_copies_that_is_on_an_overlay_is_told() {
    const ON: &str = "BYLEAVE_TEST_ON_OVERLAY";
    let test = "copied::a_directory_of_copies_that_is_on_an_overlay_is_told";
    if let Some(on) = std::env::var_os(ON) {
        let told = probe::probe_overlays(Path::new(&on), RunAs::Caller).unwrap_err();
        assert!(told.contains("itself on an overlay") && told.contains("--state"), "{told}");
        return;
    }
    if !unprivileged(test) {
        return;
    }
    let world = CopyFixture::new();
    for directory in ["l", "u", "work", "m"] {
        fs::create_dir(world.at(directory)).unwrap();
    }
    let mount =
        "mount -t overlay -o userxattr,lowerdir=l,upperdir=u,workdir=work none m && exec \"$0\" \"$@\"";
    let mut again = std::process::Command::new("unshare");
    again.args(["-Um", "--map-current-user", "--keep-caps", "sh", "-c", mount]);
    // A copy, because the path of the program may be inaccessible to the other user.
    fs::copy("/proc/self/exe", world.at("program")).unwrap();
    fs::set_permissions(world.at("program"), fs::Permissions::from_mode(0o755)).unwrap();
    again.arg(world.at("program"));
    again.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    passes(again.current_dir(world.at("")).env(ON, world.at("m")), test);
}

/// Root runs it as another user, which does not own all the files.
// req: E5
#[test]
fn what_belongs_to_others_is_in_the_copy_as_theirs() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    let world = CopyFixture::new();
    let identity = UserIdentity { uid: UID, gid: UID };
    let copied = world.overlay("w", "one", &[]);
    for path in ["", "w", "w/sub", "w/target", "w/a", "store", "store/one-upper", "store/one-work"] {
        std::os::unix::fs::chown(world.at(path), Some(UID), Some(UID)).unwrap();
    }
    // A file of the user with a group that the user is not in.
    std::os::unix::fs::chown(world.at("w/held"), Some(UID), Some(UID + 1)).unwrap();
    let before = world.state();
    let mut confined = world.confined(vec![copied]);
    confined.files.protected.clear();
    let told = |script: &str| {
        let running = launch::start(&confined, &bash(script), RunAs::User(identity)).unwrap();
        said(&running.finish().unwrap())
    };
    // They can be read and removed. Changes that would copy a file with its owner fail with an error. This is a limit of
    // overlays.
    let script = "cat sub/b; echo x >> a; rm target/old; ls target
        for change in 'echo x >> sub/b' 'mv sub/b moved' 'echo x >> held' 'mv held moved'; do bash -c \"$change\" 2>/dev/null && echo changed; done";
    assert_eq!(told(script), "w/sub/b\n");
    for theirs in ["sub/b", "held", "moved"] {
        assert!(!world.at("store/one-upper").join(theirs).exists(), "{theirs}");
    }
    assert_eq!(world.state(), before);
}
