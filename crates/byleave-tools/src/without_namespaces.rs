//! Commands where the kernel gives no namespaces: what Landlock alone cannot give, and who may waive it.

use std::collections::BTreeSet;

use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::host::LOCALHOST;
use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::guarantee::Guarantee;

use crate::execution_env::NetworkAccess;

/// Whether the operator accepts the container around Byleave as the outer wall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContainerTrust {
    /// Nobody said so.
    #[default]
    Untrusted,
    /// The setting `container = "trusted"`, in a container that is a wall.
    Trusted,
    /// The setting, in a place that is no wall, for this reason. It has no effect.
    NoWall(String),
}

impl ContainerTrust {
    /// The guarantees that a trusted container waives, where commands run behind Landlock alone. Hidden and protected paths are not
    /// among them.
    pub const WAIVES: [Guarantee; 7] = [
        Guarantee::WritesConfined,
        Guarantee::WritesLockedTwice,
        Guarantee::NetworkConfined,
        Guarantee::ProcessesApart,
        Guarantee::PrivilegesDropped,
        Guarantee::TreeKilled,
        Guarantee::TmpLimited,
    ];

    /// Returns the guarantees that it waives.
    pub fn waived(&self) -> BTreeSet<Guarantee> {
        if *self == Self::Trusted { Self::WAIVES.into() } else { BTreeSet::new() }
    }

    /// Returns what a person can do if a guarantee is missing.
    pub(crate) fn advice(&self) -> String {
        match self {
            Self::Untrusted | Self::Trusted => "`byleave doctor` says what waives them here".to_owned(),
            Self::NoWall(why) => format!("`container = \"trusted\"` has no effect here: {why}"),
        }
    }
}

/// Changes a confinement to one for Landlock alone. A rehearsal has no sockets. A granted run has a network only if it needs one, because
/// Landlock confines it to ports and not to hosts.
pub(crate) fn adapt(
    confinement: &mut Confinement,
    plan: &Plan,
    access: NetworkAccess,
    trust: &ContainerTrust,
) {
    confinement.waived.extend(trust.waived());
    let reaches = plan.effects.iter().any(|effect| Effect::host(effect).is_some());
    let may_have_network = confinement.waived.contains(&Guarantee::NetworkConfined) || reaches;
    if confinement.network == Network::Proxied && (access == NetworkAccess::Blocked || !may_have_network) {
        confinement.network = Network::Off;
    }
    // A server of the command listens on the machine itself.
    let reached = plan.effects.iter().filter_map(Effect::host);
    let local = reached.filter(|(host, port)| *host == LOCALHOST && *port >= 1024);
    confinement.ports.granted.extend(local.map(|(_, port)| port));
}

#[cfg(test)]
mod tests {
    use byleave_sandbox::confinement::{FileConfinement, SandboxPorts};
    use byleave_sandbox::limits::ResourceLimits;

    use super::*;

    fn confinement() -> Confinement {
        Confinement {
            files: FileConfinement::default(),
            network: Network::Proxied,
            ports: SandboxPorts::default(),
            environment: std::collections::BTreeMap::new(),
            limits: ResourceLimits::default(),
            waived: BTreeSet::new(),
            required: BTreeSet::new(),
        }
    }

    // req: E7
    #[test]
    fn a_trusted_container_waives_by_name_and_never_what_hides_or_protects() {
        let trusted = ContainerTrust::Trusted.waived();
        for kept in [
            Guarantee::SecretsHidden,
            Guarantee::ProtectedKept,
            Guarantee::HomeHidden,
            Guarantee::ReadsConfined,
            Guarantee::EnvironmentClean,
            Guarantee::IpcApart,
        ] {
            assert!(!trusted.contains(&kept), "{kept}");
        }
        assert!(ContainerTrust::Untrusted.waived().is_empty());
        assert!(ContainerTrust::NoWall("it has SYS_ADMIN".into()).waived().is_empty());
    }

    // req: E7
    #[test]
    fn a_network_without_hosts_is_only_for_granted_runs_that_need_it() {
        let network = |effects: Vec<Effect>, access, trust: ContainerTrust| {
            let mut confinement = confinement();
            adapt(&mut confinement, &Plan { effects, ..Plan::default() }, access, &trust);
            confinement.network
        };
        let reach = || vec![Effect::Reach { host: "example.org".into(), port: 443 }];
        let (granted, blocked) = (NetworkAccess::Granted, NetworkAccess::Blocked);
        assert_eq!(network(reach(), blocked, ContainerTrust::Trusted), Network::Off);
        assert_eq!(network(reach(), granted, ContainerTrust::Trusted), Network::Proxied);
        // It stays as it is, and the missing guarantee refuses it.
        assert_eq!(network(reach(), granted, ContainerTrust::Untrusted), Network::Proxied);
        assert_eq!(network(Vec::new(), granted, ContainerTrust::Untrusted), Network::Off);
        assert_eq!(network(Vec::new(), granted, ContainerTrust::Trusted), Network::Proxied);
    }
}
