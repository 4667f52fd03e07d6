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

use super::Job;

/// The time between two looks at the ports of a job.
const INTERVAL: Duration = Duration::from_millis(200);

/// The ports of one job.
pub(super) struct JobPorts {
    pub(super) job: Arc<Job>,
    pub(super) publisher: Arc<PortPublisher>,
    pub(super) policy: CallHostPolicy,
}

impl JobPorts {
    /// Publishes ports as the job opens and closes them, until the job ends.
    pub(super) fn watch(self) {
        let mut known = BTreeSet::new();
        while self.job.is_running() {
            let now = self.publisher.listening();
            for port in now.difference(&known) {
                self.job.say(self.open(*port));
            }
            for port in known.difference(&now) {
                self.publisher.withdraw(*port);
            }
            known = now;
            std::thread::sleep(INTERVAL);
        }
        self.publisher.close();
    }

    /// Publishes a port if that was granted, and returns what the agent is told.
    fn open(&self, port: u16) -> String {
        let id = &self.job.id;
        match self.policy.decide(LOCALHOST, port) {
            HostDecision::Granted => match self.publisher.publish(port) {
                Ok(()) => format!("job `{id}` serves http://{id}.localhost:{port}"),
                Err(error) => format!("job `{id}` listens on port {port}, but {error}"),
            },
            HostDecision::Refused(why) => {
                format!("job `{id}` listens on port {port}, which stays closed to everything outside: {why}")
            }
            HostDecision::Ask => format!(
                "job `{id}` listens on port {port}, which only the job itself can reach; start it with `ports: [{port}]` to ask for the port, or \
                 the user can add a rule with `reach = \"{LOCALHOST}:{port}\"`"
            ),
        }
    }
}
