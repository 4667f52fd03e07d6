//! The additional steps of a plan with a proxied network: sockets that are passed out, a resolver, certificate authorities.
//!
//! They come after all other mounts. The last step waits until the network is served.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mounts::HIDDEN_EVERYWHERE;
use super::{HostInfo, LaunchPlan, PathKind, PlanError, path_text, text};
use crate::confinement::FileConfinement;
use crate::plan_format::{CloneDepth, MountAccess, MountOp, OnMissing, SocketKind};

/// The port of the proxy inside.
pub(crate) const PROXY_PORT: u16 = 3128;
/// The number of sockets of each family for connections from outside at the same time.
const CONNECTORS: usize = 24;
/// The directory of our files inside, which exists in every confinement.
const OURS: &str = "/dev/byleave";
const RESOLVER: &str = "/etc/resolv.conf";

/// The content of a proxied network inside.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkPlan {
    /// The ports for connections to the addresses of names.
    pub(crate) ports: Vec<u16>,
    /// Further ports, for connections to the addresses of names and to the loopback.
    pub(crate) granted_ports: BTreeSet<u16>,
    /// Whether the ports on which the command listens can be connected to from outside.
    pub(crate) publishes: bool,
    /// The certificate authorities that programs must trust, in PEM: those of the machine and ours.
    pub(crate) authorities: Option<Arc<str>>,
}

/// The paths where systems keep trusted certificate authorities.
pub(crate) const SYSTEM_AUTHORITIES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The variables by which programs find certificate authorities.
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
    /// Returns the variables that lead programs to the proxy at this address, and to the certificate authorities.
    pub(crate) fn variables(&self, proxy: &str) -> Vec<(&'static str, String)> {
        self.variables_with(proxy, &format!("{OURS}/authorities.pem"))
    }

    /// Does the same, with the authorities in this file.
    pub(crate) fn variables_with(&self, proxy: &str, authorities: &str) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        // `ALL_PROXY` uses HTTP too, because SOCKS there needs libraries that many programs lack.
        for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            variables.push((name, proxy.to_owned()));
        }
        for name in ["no_proxy", "NO_PROXY"] {
            variables.push((name, "localhost,127.0.0.1,::1".to_owned()));
        }
        if self.authorities.is_some() {
            variables.extend(AUTHORITIES.map(|name| (name, authorities.to_owned())));
        }
        variables
    }
}

impl LaunchPlan {
    /// Adds a proxied network to this plan.
    pub(crate) fn with_network_plan(
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
            Ok::<_, PlanError>(MountOp::CloneTree {
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
        // Mounts the directory over itself, read-only, so that it cannot be written from here on.
        self.mounts.extend([read_only(OURS)?, attach(Path::new(OURS), OnMissing::Fault)?]);
        if wiring.authorities.is_some()
            && let Some(at) = authorities_file(files, host)
        {
            // For programs that do not read the variables, such as wget.
            let ours = format!("{OURS}/authorities.pem");
            self.mounts.extend([read_only(&ours)?, attach(&at, OnMissing::Fault)?]);
        }
        match place(files, host) {
            // Without this file, programs ask 127.0.0.1 by default.
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
        self.mounts.push(MountOp::OfferSocket { socket: SocketKind::Proxy, port: PROXY_PORT });
        self.mounts.push(MountOp::OfferSocket { socket: SocketKind::Lookups, port: 53 });
        let offer = |socket, port| MountOp::OfferSocket { socket, port };
        let transparent: BTreeSet<u16> = wiring.ports.iter().chain(&wiring.granted_ports).copied().collect();
        self.mounts.extend(transparent.iter().map(|port| offer(SocketKind::Transparent, *port)));
        self.mounts.extend(wiring.granted_ports.iter().map(|port| offer(SocketKind::Loopback6, *port)));
        if wiring.publishes {
            for _ in 0..CONNECTORS {
                self.mounts.extend([offer(SocketKind::Connector4, 0), offer(SocketKind::Connector6, 0)]);
            }
        }
        self.mounts.push(MountOp::WaitForReady);
        Ok(self)
    }

    /// Returns the sockets that are passed out, in order.
    pub(crate) fn offered_sockets(&self) -> impl Iterator<Item = SocketKind> + '_ {
        self.mounts.iter().filter_map(|op| match op {
            MountOp::OfferSocket { socket, .. } => Some(*socket),
            _ => None,
        })
    }
}

fn file(path: &str, content: &str) -> Result<MountOp<CString>, PlanError> {
    Ok(MountOp::File { path: text(path, "a path")?, text: text(content, "a file of the sandbox")? })
}

/// Returns the file of this machine with certificate authorities, if it is visible inside.
fn authorities_file(files: &FileConfinement, host: &impl HostInfo) -> Option<PathBuf> {
    let found = SYSTEM_AUTHORITIES.iter().find_map(|path| match host.kind(Path::new(path))? {
        PathKind::Link => host.target(Path::new(path)),
        PathKind::File => Some(PathBuf::from(path)),
        PathKind::Directory => None,
    });
    let is_hidden = |path: &PathBuf| {
        let mut hidden = files.hidden.iter().map(PathBuf::as_path).chain(HIDDEN_EVERYWHERE.map(Path::new));
        hidden.any(|hidden| path.starts_with(hidden))
    };
    found.filter(|path| !is_hidden(path))
}

/// The file in which programs look for their resolver.
enum ResolverFile {
    /// A file that is visible inside.
    Shown(PathBuf),
    /// A file in a hidden directory: its path, and the cover that must be removed for it.
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
            // A directory that contains a kept tree is not covered but emptied.
            ResolverFile::Hidden { at, cover: (!kept.any(|kept| kept.starts_with(hidden))).then_some(hidden) }
        }
    })
}
