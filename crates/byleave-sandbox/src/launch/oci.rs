//! Runs a command in a container of podman or docker, for an image instead of this machine's files.
//!
//! It is never chosen automatically, only by name. It fetches nothing: the image must exist. The engine's default filter applies
//! to the command instead of ours. The engine owns the container, so the container continues if this program is killed.

mod arguments;
mod container;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use container::ContainerClient;
pub use container::RunningContainer;

use super::{CommandOutcome, IndexCache, LaunchError, RunAs, ThisHost, internal_error, own_identity, scan};
use crate::confinement::{Confinement, CopySource, Network};
use crate::guarantee::{Enforcement, Guarantee};
use crate::plan::CommandSpec;

/// The engines, in the order in which they are searched for.
const ENGINES: [&str; 2] = ["podman", "docker"];
/// The maximum length of the name of an image.
const IMAGE_MAX: usize = 512;

/// A container engine and the image that commands run in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciEngine {
    /// The program: `podman`, `docker`, or a compatible one.
    pub engine: PathBuf,
    /// Options before all others, such as the location of its store.
    pub options: Vec<OsString>,
    /// The image, which must exist.
    pub image: String,
}

/// Returns whether a text can be the name of an image. It can never be an option of the engine.
pub fn is_image_name(text: &str) -> bool {
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "._-/:@".contains(letter);
    text.len() <= IMAGE_MAX
        && text.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && text.chars().all(is_known)
}

impl OciEngine {
    /// Finds an engine for an image in the directories of this `PATH`: podman, else docker. An engine that the workspace or
    /// another user could have replaced is not used.
    pub fn find(image: &str, search: &OsStr, workspace: &Path) -> Result<Self, LaunchError> {
        if !is_image_name(image) {
            return Err(failed(format!("`{}` is not the name of an image", image.escape_debug())));
        }
        let found = ENGINES.iter().find_map(|name| {
            let directories = std::env::split_paths(search).filter(|directory| directory.is_absolute());
            directories.map(|directory| directory.join(name)).find(|path| is_trusted(path, workspace))
        });
        let missing = || failed("there is neither `podman` nor `docker` in a directory of `PATH`".into());
        Ok(Self { engine: found.ok_or_else(missing)?, options: Vec::new(), image: image.to_owned() })
    }

    /// Returns how far it gives a guarantee to a command with this network.
    pub fn enforcement(&self, network: &Network, guarantee: Guarantee) -> Enforcement {
        match guarantee {
            Guarantee::NetworkConfined if *network == Network::Proxied => Enforcement::Unavailable(
                "only the native backend can connect the command to the proxy".into(),
            ),
            Guarantee::WritesLockedTwice => {
                Enforcement::Unavailable("only mounts enforce it, without Landlock".into())
            }
            Guarantee::PrivilegesDropped => Enforcement::Partial(
                "the system call filter is that of the container engine, which allows more than ours".into(),
            ),
            Guarantee::EnvironmentClean => {
                Enforcement::Partial("the variables that the image sets are also present".into())
            }
            Guarantee::TreeKilled => {
                Enforcement::Partial("the container keeps running if this program is killed first".into())
            }
            Guarantee::TmpLimited => {
                Enforcement::Partial("the size of temporary files is limited, but their number is not".into())
            }
            Guarantee::MemoryLimited | Guarantee::ProcessesLimited if self.ignores_group_limits() => {
                Enforcement::Partial(
                    "each process is limited separately, because podman without root cannot use cgroups of version 1"
                        .into(),
                )
            }
            _ => Enforcement::Full,
        }
    }

    /// Returns the guarantees that it does not give in full to a command without a network, with the reasons. Choosing a
    /// container waives them.
    pub fn missing_guarantees(&self) -> Vec<(Guarantee, String)> {
        let missing = Guarantee::ALL.into_iter().filter_map(|guarantee| {
            match self.enforcement(&Network::Off, guarantee) {
                Enforcement::Full => None,
                Enforcement::Partial(why) | Enforcement::Unavailable(why) => Some((guarantee, why)),
            }
        });
        missing.collect()
    }

    /// Changes a confinement to one that a container can hold. There is no network instead of one through the proxy, and the
    /// guarantees that no engine gives are waived. Guarantees that a rule requires stay required.
    pub fn adapt(&self, confinement: &mut Confinement) {
        if confinement.network == Network::Proxied {
            confinement.network = Network::Off;
        }
        confinement.waived.extend(self.missing_guarantees().into_iter().map(|(guarantee, _)| guarantee));
    }

    /// Checks whether a confined command of this user may run in a container. It starts nothing.
    pub fn check_enforcement(&self, confinement: &Confinement, run_as: RunAs) -> Result<(), LaunchError> {
        own_identity(run_as)?;
        let is_overlay = |source: &CopySource| matches!(source, CopySource::Overlay { .. });
        if confinement.files.copies.iter().any(|copied| is_overlay(&copied.source)) {
            return Err(LaunchError::CopiesUnsupported(
                "in a container, because the engine cannot mount an overlay",
            ));
        }
        let given = |guarantee| self.enforcement(&confinement.network, guarantee);
        Ok(confinement.check_enforcement(given)?)
    }

    /// Checks whether the engine works and has the image.
    pub fn check_image(&self) -> Result<(), LaunchError> {
        let mut client = self.client();
        client.args(["image", "inspect", "--format", "{{.Id}}", &self.image]).stdin(Stdio::null());
        let output = client.output().map_err(internal_error("starting the container engine"))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(failed(format!("`{}` cannot use the image `{}`: {message}", self.engine.display(), self.image)))
    }

    /// Starts a command. With a terminal, the engine uses the terminal of this process. With a cache, it scans for paths to hide
    /// or protect only as far as the cache does not know them.
    pub fn start(
        &self,
        confinement: &Confinement,
        command: &CommandSpec,
        run_as: RunAs,
        cache: Option<&IndexCache>,
    ) -> Result<RunningContainer, LaunchError> {
        let identity = own_identity(run_as)?;
        self.check_enforcement(confinement, run_as)?;
        if !is_image_name(&self.image) {
            return Err(failed(format!("`{}` is not the name of an image", self.image.escape_debug())));
        }
        let (confinement, tripwire) = scan::prepare_command(confinement, cache)?;
        let mut random = [0u8; 8];
        getrandom::fill(&mut random)
            .map_err(|error| internal_error("naming a container")(std::io::Error::other(error)))?;
        let name = format!("byleave-{:016x}", u64::from_ne_bytes(random));
        let words = arguments::arguments(self, &name, &confinement, command, identity, &ThisHost)?;
        let client = ContainerClient { engine: self.clone(), name };
        RunningContainer::start(client, words, &confinement, command, tripwire)
    }

    /// Runs a command to its end. Its processor time is not known.
    pub fn run(
        &self,
        confinement: &Confinement,
        command: &CommandSpec,
        run_as: RunAs,
    ) -> Result<CommandOutcome, LaunchError> {
        self.start(confinement, command, run_as, None)?.finish()
    }

    /// Returns a client of the engine. It works outside the workspace, so that it reads no file there.
    fn client(&self) -> Command {
        let mut client = Command::new(&self.engine);
        client.args(&self.options).current_dir("/");
        client
    }

    /// Returns whether it is a podman that runs without root, and maps users by itself.
    fn is_rootless_podman(&self) -> bool {
        let is_podman = self.engine.file_name().is_some_and(|name| name == "podman");
        is_podman && !rustix::process::geteuid().is_root()
    }

    /// Returns whether the engine would ignore limits on all processes of a container together.
    fn ignores_group_limits(&self) -> bool {
        self.is_rootless_podman() && !Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
    }
}

/// Checks that a program is executable, and that neither the workspace nor another user could have put it there.
fn is_trusted(path: &Path, workspace: &Path) -> bool {
    let Ok(target) = path.canonicalize() else { return false };
    let Ok(meta) = target.metadata() else { return false };
    let own = rustix::process::geteuid().as_raw();
    meta.is_file()
        && meta.mode() & 0o111 != 0
        && meta.mode() & 0o022 == 0
        && (meta.uid() == 0 || meta.uid() == own)
        && !path.starts_with(workspace)
        && !target.starts_with(workspace)
}

fn failed(message: String) -> LaunchError {
    LaunchError::Oci { message }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    // req: E7
    #[test]
    fn an_engine_is_found_outside_the_workspace_and_podman_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let put = |path: &str, mode: u32| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        put("w/bin/podman", 0o755);
        put("open/podman", 0o777);
        put("plain/podman", 0o644);
        let search = |directories: &[&str]| {
            std::env::join_paths(directories.iter().map(|directory| root.join(directory))).unwrap()
        };
        let find = |directories: &[&str]| OciEngine::find("alpine:3", &search(directories), &root.join("w"));
        let refused = find(&["w/bin", "open", "plain"]).unwrap_err().to_string();
        assert!(refused.contains("neither `podman` nor `docker`"), "{refused}");
        std::os::unix::fs::symlink(root.join("w/bin/podman"), root.join("plain/docker")).unwrap();
        assert!(find(&["plain"]).is_err());
        put("first/docker", 0o755);
        assert_eq!(find(&["first", "w/bin"]).unwrap().engine, root.join("first/docker"));
        put("second/podman", 0o755);
        assert_eq!(find(&["first", "second"]).unwrap().engine, root.join("second/podman"));
        let relative = OciEngine::find("alpine:3", OsStr::new("second:"), &root.join("w"));
        assert!(relative.is_err());
    }

    // req: E7
    #[test]
    fn the_name_of_an_image_is_never_an_option() {
        for name in ["alpine", "docker.io/library/alpine:3.20", "localhost/a_b-c", "a@sha256:00ff"] {
            assert!(is_image_name(name), "{name}");
        }
        for name in ["", "--privileged", "-v", "/etc", "a b", "a\n", "a,b", "a=b"] {
            assert!(!is_image_name(name), "{name}");
        }
    }
}
