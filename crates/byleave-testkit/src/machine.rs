//! A temporary machine with the paths of the corpus. Root creates it, and another user works on it.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::user::UID;

const ROLE: &str = "BYLEAVE_TEST_ROLE";
const JOB: &str = "BYLEAVE_TEST_JOB";
/// Begins a line in which a job reports a result.
const SAW: &str = "saw ";

/// A secret that commands must not get. It is in the environment as well.
pub const SECRET: &str = "GATE_SECRET";

/// One part of the work, on its own machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineJob {
    pub name: &'static str,
    /// Whether it needs the compilers of the user who runs the tests.
    pub builds: bool,
    pub part: usize,
    pub parts: usize,
}

/// The short form takes one of this many cases.
const SAMPLE: usize = 8;

impl MachineJob {
    /// Returns the items of this job: all of them in the long form of the proof, a sample otherwise.
    pub fn share<T>(self, all: Vec<T>) -> impl Iterator<Item = (usize, T)> {
        let step = if is_long() { 1 } else { SAMPLE };
        all.into_iter()
            .enumerate()
            .filter(move |(at, _)| at % self.parts == self.part && (at / self.parts).is_multiple_of(step))
    }
}

/// Tests whether the proof runs in its long form (`scripts/prove`).
pub fn is_long() -> bool {
    std::env::var("BYLEAVE_PROOF").is_ok_and(|form| form == "long")
}

/// Runs jobs in parallel, each on its own machine, through the test of this name. Returns their results by
/// name.
pub fn run<T: DeserializeOwned + Send>(test: &str, jobs: &[MachineJob]) -> Vec<(&'static str, Vec<T>)> {
    assert!(rustix::process::geteuid().is_root(), "needs root, to make machines that are thrown away");
    let next = std::sync::Mutex::new(jobs.iter());
    let work = || {
        let mut done = Vec::new();
        loop {
            let Some(job) = next.lock().unwrap().next() else { return done };
            done.push((job.name, on_a_machine(test, jobs, *job)));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// Does the work of a restarted test: creates the machine, or is the user on it. Returns false if the test was not
/// restarted.
///
/// `program` is the `byleave` program, if the machine needs it.
pub fn began_again(test: &str, jobs: &[MachineJob], program: Option<&str>, work: fn(MachineJob)) -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    let at: usize = std::env::var(JOB).unwrap().parse().unwrap();
    let job = jobs[at];
    if role == "machine" {
        become_somebody_else(test, job, program);
        return true;
    }
    assert_eq!(rustix::process::geteuid().as_raw(), UID);
    work(job);
    true
}

/// Reports a result of a job.
pub fn tell(saw: &impl Serialize) {
    // Begins on a new line, because the test harness may have printed part of one.
    println!("\n{SAW}{}", serde_json::to_string(saw).unwrap());
}

fn arguments(test: &str) -> [&str; 5] {
    ["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"]
}

/// Restarts the test as root in its own namespaces.
fn on_a_machine<T: DeserializeOwned>(test: &str, jobs: &[MachineJob], job: MachineJob) -> Vec<T> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--ipc", "--net", "--fork", "--kill-child"]);
    unshare.args(["--propagation", "private"]);
    unshare.arg(std::env::current_exe().unwrap()).args(arguments(test));
    let at = jobs.iter().position(|other| (other.name, other.part) == (job.name, job.part)).unwrap();
    let ended = unshare.env(ROLE, "machine").env(JOB, at.to_string()).output().unwrap();
    let told = [ended.stdout, ended.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    // Once for the machine, once for the user on it.
    let passed = told.lines().filter(|line| line.starts_with("test result: ok. 1 passed")).count();
    assert!(ended.status.success() && passed == 2, "{job:?}: {told}");
    let saw = told.lines().filter_map(|line| line.strip_prefix(SAW));
    saw.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Creates the machine, and restarts the test on it as another user.
fn become_somebody_else(test: &str, job: MachineJob, program: Option<&str>) {
    let exe = std::env::current_exe().unwrap();
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let place =
        |name: &str, usual: &str| std::env::var_os(name).map_or_else(|| home.join(usual), PathBuf::from);
    let mut machine = Command::new("bash");
    machine.args(["-c", MACHINE, "machine"]).arg(exe);
    machine.arg(place("RUSTUP_HOME", ".rustup")).arg(place("CARGO_HOME", ".cargo"));
    machine.arg(job.builds.to_string());
    machine.args(program);
    let ended = machine.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(!Path::new(env!("CARGO_MANIFEST_DIR")).exists(), "something of the machine around it is there");
    let mut again = Command::new("/supervisor");
    again.args(arguments(test)).env_clear().env(ROLE, "user").current_dir("/").uid(UID).gid(UID);
    again.env(JOB, std::env::var(JOB).unwrap());
    again.envs(std::env::vars().filter(|(name, _)| name.starts_with("BYLEAVE_PROOF")));
    let path = "/home/u/.cargo/bin:/usr/local/bin:/usr/bin:/bin";
    again.envs([("PATH", path), ("HOME", "/home/u"), ("USER", "u"), ("LANG", "C.UTF-8")]);
    again.envs([("API_TOKEN", SECRET), ("SSH_AUTH_SOCK", "/home/u/agent.sock")]);
    let ended = again.stdin(Stdio::null()).output().unwrap();
    let told = [ended.stdout, ended.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    println!("{told}");
    assert!(ended.status.success() && told.contains("1 passed"), "as user {UID}");
}

/// Its own network, in which every address is the machine itself, and its own root filesystem. The compilers of the user who runs the tests are in the home of the user on it,
/// read-only.
const MACHINE: &str = r#"
set -eu
# Held open: it may lie in a place that is not there any more.
exec 9<"$1" 8<"${5:-/dev/null}"
# Every IPv4 address leads to this machine, and nowhere else.
if command -v ip >/dev/null; then
    ip link set lo up
    # From another address, because a program may refuse to reach its own machine.
    ip route add local 0.0.0.0/0 dev lo src 127.0.0.1
    echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
fi
mount -t tmpfs -o mode=755 tmpfs /mnt
cd /mnt
for entry in /*; do
    case $entry in
        /usr | /etc | /opt | /nix | /bin | /sbin | /lib*)
            if [ -L "$entry" ]; then cp -P "$entry" .; else mkdir ".$entry" && mount --rbind "$entry" ".$entry"; fi ;;
    esac
done
mkdir -m 755 proc dev sys ws outside home home/u main old state var var/lib run
mkdir -m 1777 tmp var/tmp
cat <&9 >supervisor
cat <&8 >byleave
chmod 755 supervisor byleave
cp /etc/passwd /etc/group state
echo 'u:x:61001:61001::/home/u:/bin/bash' >>state/passwd
echo 'u:x:61001:' >>state/group
mount --bind state/passwd etc/passwd
mount --bind state/group etc/group
# Who is trusted here may change without any effect on the machine around it. The file lies where the user cannot remove it: nothing can
# be mounted over a file that was removed, so the sandbox could not be built.
if [ -f etc/ssl/certs/ca-certificates.crt ]; then
    cp etc/ssl/certs/ca-certificates.crt authorities
    chown 61001:61001 authorities
    mount --bind authorities etc/ssl/certs/ca-certificates.crt
fi
chown -R 61001:61001 ws outside home/u main
chown 61001:61001 state
if [ "$4" = true ]; then
    mkdir -p home/u/.rustup home/u/.cargo/bin
    if [ -d "$2" ]; then mount --bind -o ro "$2" home/u/.rustup; fi
    # Without the manuals: a hundred thousand files that every command would be looked through for.
    for manuals in home/u/.rustup/toolchains/*/share; do
        if [ -d "$manuals" ]; then mount -t tmpfs tmpfs "$manuals"; fi
    done
    if [ -d "$3/bin" ]; then mount --bind -o ro "$3/bin" home/u/.cargo/bin; fi
    chown 61001:61001 home/u/.cargo
fi
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
pivot_root . old
umount -l /old
rmdir /old
"#;
