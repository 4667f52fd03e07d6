//! The ports on which a background job listens. A job is found to be a service because it listens, not because it runs long.
//!
//! A port that a rule or a person opened is published on the loopback of this machine, and the agent is told its address. It is told of
//! any other port, too, with the rule that would open it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::core::host::LOCALHOST;
use byleave_sandbox::from_plan::CallHostPolicy;
use byleave_sandbox::net::egress::{HostDecision, HostPolicy as _};
use byleave_sandbox::net::published_ports::PortPublisher;

use crate::job_notes::JobPort;

/// The time between two looks at the ports of a job.
const INTERVAL: Duration = Duration::from_millis(200);

/// The ports of one job.
pub(crate) struct JobPorts {
    /// The name of the job.
    pub(crate) id: String,
    pub(crate) publisher: Arc<PortPublisher>,
    pub(crate) policy: CallHostPolicy,
    /// Whether a call can ask for the ports of its job.
    pub(crate) can_ask: bool,
}

/// The listener for what a job does with its ports.
pub(crate) trait JobPortListener {
    /// Checks whether the job still runs.
    fn is_running(&self) -> bool;
    /// Tells the agent something.
    fn say(&self, line: String);
    /// Reports the ports on which the job listens now.
    fn changed(&self, _ports: Vec<JobPort>) {}
}

impl JobPorts {
    /// Publishes ports as the job opens and closes them, until the job ends.
    pub(crate) fn watch(self, listener: &dyn JobPortListener) {
        let mut known = BTreeSet::new();
        while listener.is_running() {
            let now = self.publisher.listening();
            for port in now.difference(&known) {
                listener.say(self.open(*port));
            }
            for port in known.difference(&now) {
                self.publisher.withdraw(*port);
            }
            if now != known {
                let published = self.publisher.published();
                let port = |port: &u16| JobPort { port: *port, is_published: published.contains(port) };
                listener.changed(now.iter().map(port).collect());
            }
            known = now;
            std::thread::sleep(INTERVAL);
        }
        self.publisher.close();
    }

    /// Publishes a port if that was granted, and returns what the agent is told.
    fn open(&self, port: u16) -> String {
        let id = &self.id;
        match self.policy.decide(LOCALHOST, port) {
            HostDecision::Granted => match self.publisher.publish(port) {
                Ok(()) => format!("job `{id}` serves http://{id}.localhost:{port}"),
                Err(error) => format!("job `{id}` listens on port {port}, but {error}"),
            },
            HostDecision::Refused(why) => {
                format!("job `{id}` listens on port {port}, which stays closed to everything outside: {why}")
            }
            HostDecision::Ask => {
                let ask = if self.can_ask {
                    format!("start it with `ports: [{port}]` to ask for the port, or ")
                } else {
                    String::new()
                };
                format!(
                    "job `{id}` listens on port {port}, which only the job itself can reach; {ask}the user can add a rule with `reach = \"{LOCALHOST}:{port}\"`"
                )
            }
        }
    }
}
