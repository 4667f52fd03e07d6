//! The proxy of a command without a network of its own: it listens on the loopback of this machine, for the time of the command.
//!
//! Landlock confines the command to the port of the proxy and to the ports that it was granted. It cannot confine it to hosts.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::super::network_bridge::{CommandNetwork, NetworkBridge};
use crate::confinement::Confinement;
use crate::launch::{LaunchError, internal_error};
use crate::net::egress::Egress;
use crate::net::proxy_server::ProxyServer;
use crate::plan::{LaunchPlan, TcpPorts};

pub(super) struct CommandProxy {
    bridge: NetworkBridge,
    serving: ProxyServer,
    door: Arc<Egress>,
    port: u16,
}

impl CommandProxy {
    pub(super) fn serve(bridge: &NetworkBridge, door: Egress) -> Result<Self, LaunchError> {
        let door = Arc::new(bridge.prepare_egress(door)?);
        let (serving, port) = bridge.serve_loopback(&door)?;
        Ok(Self { bridge: bridge.clone(), serving, door, port })
    }

    /// Lets a command connect to the proxy, and connect and listen on the ports that it was granted and on one that the kernel chooses.
    pub(super) fn add_to(
        &self,
        plan: LaunchPlan,
        confinement: &Confinement,
        scratch: &Path,
    ) -> Result<LaunchPlan, LaunchError> {
        let granted = || confinement.ports.granted.iter().copied();
        let ports = TcpPorts {
            connected: granted().chain([self.port]).collect(),
            listening: granted().chain([0]).collect(),
        };
        let wiring = self.bridge.network_plan(confinement);
        let file = scratch.join("authorities.pem");
        if let Some(authorities) = &wiring.authorities {
            fs::write(&file, authorities.as_bytes())
                .map_err(internal_error("writing the certificate authorities"))?;
        }
        let proxy = format!("http://127.0.0.1:{}", self.port);
        let variables = wiring.variables_with(&proxy, &file.display().to_string());
        Ok(plan.with_tcp(&ports)?.with_variables(&variables)?)
    }

    pub(super) fn into_network(self) -> CommandNetwork {
        CommandNetwork::Own { uplink: self.bridge, serving: self.serving, door: self.door }
    }
}
