//! Decides which hosts may be reached: granted ones and those that rules allow. All others are refused or asked about.

use std::collections::BTreeSet;
use std::sync::Arc;

use byleave_core::decision::Verdict;
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
    manifest: Manifest,
    session: SessionId,
    agent: AgentId,
}

impl CallHostPolicy {
    /// Creates the policy for a call of this session and agent, whose plan was permitted.
    pub fn new(policy: Arc<Policy>, plan: &Plan, session: SessionId, agent: AgentId) -> Self {
        let granted = plan.effects.iter().filter_map(|effect| match effect {
            Effect::Reach { host, port } => Some((host.clone(), *port)),
            _ => None,
        });
        let granted = granted.collect();
        Self { policy, granted, manifest: Manifest::for_commands("command"), session, agent }
    }

    /// Returns the same policy for a tool that reaches hosts itself. Rules can distinguish its class from that of commands.
    #[must_use]
    pub fn for_tool(self, manifest: Manifest) -> Self {
        Self { manifest, ..self }
    }

    /// Returns whether a custom rule allows a host. The built-in rules allow no host that a command needs.
    pub(super) fn has_reach_rule(policy: &Policy) -> bool {
        let allows =
            policy.rules().filter(|rule| rule.verdict == Verdict::Allow && rule.layer != Layer::Builtin);
        allows.flat_map(|rule| &rule.patterns).any(|pattern| matches!(pattern, Pattern::Reach(_)))
    }
}

impl HostPolicy for CallHostPolicy {
    fn decide(&self, host: &str, port: u16) -> HostDecision {
        let effect = Effect::Reach { host: host.to_owned(), port };
        let plan = Plan { effects: vec![effect], ..Plan::default() };
        let ruling =
            self.policy.evaluate(&PolicyRequest::new(&self.manifest, &plan, &self.session, &self.agent));
        match ruling.verdict {
            // A deny wins over a grant, because the rules may be newer than the grant.
            Verdict::Deny => {
                let why = ruling.reasons.first().map_or("a rule denies it", |reason| reason.message.as_str());
                HostDecision::Refused(why.to_owned())
            }
            Verdict::Allow => HostDecision::Granted,
            Verdict::Ask if self.granted.contains(&(host.to_owned(), port)) => HostDecision::Granted,
            Verdict::Ask => HostDecision::Ask,
        }
    }
}
