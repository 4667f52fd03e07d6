//! Decides which hosts may be reached: granted ones and those that rules allow. All others are refused or asked about.

use std::collections::BTreeSet;
use std::sync::Arc;

use byleave_core::decision::{PolicyDecision, Verdict};
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::{AgentId, SessionId};
use byleave_core::manifest::Manifest;
use byleave_core::pattern::Pattern;
use byleave_core::policy::{Layer, Policy, PolicyRequest};

use crate::net::egress::{HostDecision, HostPolicy};

/// Checks hosts for one call, with the rules that its plan was checked against.
#[derive(Debug)]
pub struct CallHostPolicy {
    policy: Arc<Policy>,
    granted: BTreeSet<(String, u16)>,
    granted_sends: BTreeSet<(String, u16)>,
    /// The plan sends to a host that was not known. It may be any host that may be reached.
    sends_anywhere: bool,
    manifest: Manifest,
    session: SessionId,
    agent: AgentId,
    read_foreign: bool,
}

impl CallHostPolicy {
    /// Creates the policy for a call of this session and agent, whose plan was permitted.
    pub fn new(policy: Arc<Policy>, plan: &Plan, session: SessionId, agent: AgentId) -> Self {
        let hosts = |effect: &Effect| effect.host().map(|(host, port)| (host.to_owned(), port));
        // Sending to a host includes reaching it.
        let granted = plan.effects.iter().filter_map(hosts).collect();
        let sends = plan.effects.iter().filter(|effect| matches!(effect, Effect::Send { .. }));
        let granted_sends = sends.filter_map(hosts).collect();
        let sends_anywhere = plan.sends_to_unknown_host();
        Self {
            policy,
            granted,
            granted_sends,
            sends_anywhere,
            manifest: Manifest::for_commands("command"),
            session,
            agent,
            read_foreign: false,
        }
    }

    /// Returns the same policy for a tool that reaches hosts itself. Rules can distinguish its class from that of commands.
    #[must_use]
    pub fn for_tool(self, manifest: Manifest) -> Self {
        Self { manifest, ..self }
    }

    /// Returns the same policy for a session that has read text of strangers, or has not.
    #[must_use]
    pub fn with_read_foreign(self, read_foreign: bool) -> Self {
        Self { read_foreign, ..self }
    }

    /// Returns whether a custom rule allows a host. The built-in rules allow no host that a command needs.
    pub(super) fn has_reach_rule(policy: &Policy) -> bool {
        let allows =
            policy.rules().filter(|rule| rule.verdict == Verdict::Allow && rule.layer != Layer::Builtin);
        allows
            .flat_map(|rule| &rule.patterns)
            .any(|pattern| matches!(pattern, Pattern::Reach(_) | Pattern::Send(_)))
    }

    fn evaluate(&self, effect: Effect) -> PolicyDecision {
        let plan = Plan { effects: vec![effect], ..Plan::default() };
        let request = PolicyRequest::new(&self.manifest, &plan, &self.session, &self.agent);
        self.policy.evaluate(&PolicyRequest { read_foreign: self.read_foreign, ..request })
    }
}

/// Returns the reason of a deny.
fn denial(ruling: &PolicyDecision) -> String {
    ruling.reasons.first().map_or("a rule denies it", |reason| reason.message.as_str()).to_owned()
}

impl HostPolicy for CallHostPolicy {
    fn decide_send(&self, host: &str, port: u16) -> Result<(), String> {
        let ruling = self.evaluate(Effect::Send { host: host.to_owned(), port });
        match ruling.verdict {
            Verdict::Deny => Err(denial(&ruling)),
            Verdict::Allow => Ok(()),
            Verdict::Ask if self.sends_anywhere || self.granted_sends.contains(&(host.to_owned(), port)) => {
                Ok(())
            }
            Verdict::Ask => {
                Err("no rule allows sending, and the command does not say that it sends".to_owned())
            }
        }
    }

    fn decide(&self, host: &str, port: u16) -> HostDecision {
        let ruling = self.evaluate(Effect::Reach { host: host.to_owned(), port });
        match ruling.verdict {
            // A deny wins over a grant, because the rules may be newer than the grant.
            Verdict::Deny => HostDecision::Refused(denial(&ruling)),
            Verdict::Allow => HostDecision::Granted,
            Verdict::Ask if self.granted.contains(&(host.to_owned(), port)) => HostDecision::Granted,
            Verdict::Ask => HostDecision::Ask,
        }
    }
}
