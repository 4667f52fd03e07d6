//! What a plan has in addition where the network is served by us: sockets that are handed out, a resolver, authorities.
//!
//! Comes after everything else, when the mounts that hold it are in place; and the last step is to wait until it is served.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mounts::HIDDEN_EVERYWHERE;
use super::{HostInfo, LaunchPlan, PathKind, PlanError, path_text, text};
use crate::confinement::FileConfinement;
use crate::plan_format::{CloneDepth, MountAccess, MountOp, OnMissing, SocketKind};

/// The port of the proxy inside.
pub(crate) const PROXY_PORT: u16 = 3128;
/// Where our files are inside: in a place that is made for every confinement.
const OURS: &str = "/dev/byleave";
const RESOLVER: &str = "/etc/resolv.conf";

/// What a network that is served by us has inside.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkPlan {
    /// The ports on which connections to the addresses of names are taken.
    pub(crate) ports: Vec<u16>,
    /// The authorities that programs are to trust, in PEM: those of the machine and ours.
    pub(crate) authorities: Option<Arc<str>>,
}

/// By which variables programs find the authorities that they trust.
const AUTHORITIES: [&str; 10] = [
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "NIX_SSL_CERT_FILE",
];

impl NetworkPlan {
    /// The variables that lead programs to the proxy at this address, and to the authorities.
    pub(crate) fn variables(&self, proxy: &str) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        // Over HTTP in `ALL_PROXY` as well: what speaks SOCKS there needs libraries that many do not have.
        for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            variables.push((name, proxy.to_owned()));
        }
        for name in ["no_proxy", "NO_PROXY"] {
            variables.push((name, "localhost,127.0.0.1,::1".to_owned()));
        }
        if self.authorities.is_some() {
            variables.extend(AUTHORITIES.map(|name| (name, format!("{OURS}/authorities.pem"))));
        }
        variables
    }
}

impl LaunchPlan {
    /// This plan with a network that is served by us.
    pub(crate) fn with_wiring(
        mut self,
        wiring: &NetworkPlan,
        files: &FileConfinement,
        host: &impl HostInfo,
    ) -> Result<Self, PlanError> {
        let resolver = format!("{OURS}/resolv.conf");
        let attach = |path: &Path, missing| {
            Ok::<_, PlanError>(MountOp::Attach { slot: 0, path: path_text(path)?, missing })
        };
        let scratch =
            |bytes| MountOp::Scratch { slot: 0, bytes, inodes: 64, mode: 0o755, access: MountAccess::Write };
        let read_only = |path: &str| {
            let path = text(path, "a path")?;
            Ok::<_, PlanError>(MountOp::Hold {
                slot: 0,
                path,
                depth: CloneDepth::One,
                access: MountAccess::Mask,
            })
        };
        self.mounts.push(scratch(4 << 20));
        self.mounts.push(attach(Path::new(OURS), OnMissing::MakeDirectory)?);
        self.mounts.push(file(&resolver, "nameserver 127.0.0.1\n")?);
        if let Some(authorities) = &wiring.authorities {
            self.mounts.push(file(&format!("{OURS}/authorities.pem"), authorities)?);
        }
        // The same again, over itself: from here on nobody can write to it.
        self.mounts.extend([read_only(OURS)?, attach(Path::new(OURS), OnMissing::Fault)?]);
        match place(files, host) {
            // Programs that find no such file ask 127.0.0.1 by themselves.
            None => {}
            Some(ResolverFile::Shown(at)) => {
                self.mounts.extend([read_only(&resolver)?, attach(&at, OnMissing::Fault)?]);
            }
            Some(ResolverFile::Hidden { at, cover }) => {
                if let Some(cover) = cover {
                    self.mounts.extend([scratch(64 << 10), attach(cover, OnMissing::Fault)?]);
                }
                self.mounts.extend([read_only(&resolver)?, attach(&at, OnMissing::MakeFile)?]);
            }
        }
        self.mounts.push(MountOp::Route);
        self.mounts.push(MountOp::Offer { socket: SocketKind::Proxy, port: PROXY_PORT });
        self.mounts.push(MountOp::Offer { socket: SocketKind::Lookups, port: 53 });
        let transparent = wiring.ports.iter();
        self.mounts
            .extend(transparent.map(|port| MountOp::Offer { socket: SocketKind::Transparent, port: *port }));
        self.mounts.push(MountOp::Await);
        Ok(self)
    }

    /// The sockets that are handed out, in order.
    pub(crate) fn offers(&self) -> impl Iterator<Item = SocketKind> + '_ {
        self.mounts.iter().filter_map(|op| match op {
            MountOp::Offer { socket, .. } => Some(*socket),
            _ => None,
        })
    }
}

fn file(path: &str, content: &str) -> Result<MountOp<CString>, PlanError> {
    Ok(MountOp::File { path: text(path, "a path")?, text: text(content, "a file of the sandbox")? })
}

/// Where programs look for their resolver.
enum ResolverFile {
    /// A file that is seen inside.
    Shown(PathBuf),
    /// A file in something that is hidden: where it is, and what has to be uncovered for it.
    Hidden { at: PathBuf, cover: Option<&'static Path> },
}

fn place(files: &FileConfinement, host: &impl HostInfo) -> Option<ResolverFile> {
    let at = match host.kind(Path::new(RESOLVER))? {
        PathKind::Link => host.target(Path::new(RESOLVER))?,
        PathKind::File | PathKind::Directory => PathBuf::from(RESOLVER),
    };
    let hidden = HIDDEN_EVERYWHERE.map(Path::new).into_iter().find(|hidden| at.starts_with(hidden));
    Some(match hidden {
        None => ResolverFile::Shown(at),
        Some(hidden) => {
            let mut kept = files.writable.iter().chain(&files.home_readable);
            // What holds something that is kept is not covered but emptied.
            ResolverFile::Hidden { at, cover: (!kept.any(|kept| kept.starts_with(hidden))).then_some(hidden) }
        }
    })
}
