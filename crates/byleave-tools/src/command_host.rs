//! Where commands run: in the sandbox of this machine, or in a container.

use byleave_gate::core::effect::{Effect, Plan};
use byleave_sandbox::confinement::Confinement;
use byleave_sandbox::launch::OciEngine;

/// The place where commands run. There is no fallback from one place to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CommandHost {
    /// The sandbox of this machine.
    #[default]
    Native,
    /// A container. Commands there have no network, and run on full copies.
    Container(OciEngine),
    /// None, for this reason. Every command is refused.
    Unavailable(String),
}

impl CommandHost {
    /// Changes a confinement to one that holds in this place, or returns why the command cannot run here.
    pub(crate) fn adapt(&self, plan: &Plan, confinement: &mut Confinement) -> Result<(), String> {
        match self {
            Self::Native => Ok(()),
            Self::Unavailable(why) => Err(why.clone()),
            Self::Container(engine) => {
                let reached = plan.effects.iter().find_map(Effect::host);
                let reached = reached.map(|(host, port)| format!("{host}:{port}"));
                if let Some(host) = reached {
                    return Err(format!(
                        "commands run in a container, which has no network, and this one reaches `{}`",
                        host.escape_debug()
                    ));
                }
                engine.adapt(confinement);
                Ok(())
            }
        }
    }

    /// Returns why copies are not overlays here, if they are not.
    pub(crate) fn full_copy_reason(&self) -> Option<&'static str> {
        match self {
            Self::Native | Self::Unavailable(_) => None,
            Self::Container(_) => Some("a container engine cannot mount an overlay"),
        }
    }

    /// Returns an error if there can be no background jobs here.
    pub(crate) fn check_jobs(&self) -> Result<(), String> {
        match self {
            Self::Native => Ok(()),
            Self::Container(_) | Self::Unavailable(_) => {
                Err("a background job cannot run in a container; run the command without `background`".into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use byleave_sandbox::confinement::{FileConfinement, Network, SandboxPorts};
    use byleave_sandbox::limits::ResourceLimits;

    use super::*;

    fn confinement() -> Confinement {
        Confinement {
            files: FileConfinement::default(),
            network: Network::Proxied,
            ports: SandboxPorts::default(),
            environment: std::collections::BTreeMap::new(),
            limits: ResourceLimits::default(),
            waived: std::collections::BTreeSet::new(),
            required: std::collections::BTreeSet::new(),
        }
    }

    // req: E7
    #[test]
    fn a_command_never_runs_in_another_place_than_the_chosen_one() {
        let engine = OciEngine { engine: "/usr/bin/podman".into(), options: Vec::new(), image: "im".into() };
        let container = CommandHost::Container(engine);
        let mut asked = confinement();
        container.adapt(&Plan::default(), &mut asked).unwrap();
        assert_eq!(asked.network, Network::Off);
        let reach = Effect::Reach { host: "example.org".into(), port: 443 };
        let plan = Plan { effects: vec![reach], ..Plan::default() };
        let refused = container.adapt(&plan, &mut confinement()).unwrap_err();
        assert!(refused.contains("no network") && refused.contains("example.org:443"), "{refused}");
        assert!(container.check_jobs().is_err() && container.full_copy_reason().is_some());
        let missing = CommandHost::Unavailable("there is no engine".into());
        let refused = missing.adapt(&Plan::default(), &mut confinement()).unwrap_err();
        assert_eq!(refused, "there is no engine");
        assert!(missing.check_jobs().is_err());
    }
}
