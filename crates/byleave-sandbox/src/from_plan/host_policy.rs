//! Decides which hosts may be reached: granted ones and those that rules allow. All others are refused or asked about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byleave_core::decision::{PolicyDecision, Verdict};
use byleave_core::effect::{Binding, Effect, Plan};
use byleave_core::git_transport::GitService;
use byleave_core::host::{LOCALHOST, is_localhost, never_opened};
use byleave_core::id::{AgentId, SessionId};
use byleave_core::manifest::Manifest;
use byleave_core::pattern::Pattern;
use byleave_core::policy::{Layer, Policy, PolicyRequest};
use byleave_files::local_listener::LocalListeners;

use crate::net::egress::{HostDecision, HostPolicy};

/// Whether the gate lends a call a Git transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitLending {
    /// No rule lends it, or a rule denies the host. With the reason.
    Refused(String),
    /// It is lent if a person approved exactly this.
    IfApproved,
    /// A rule allows it.
    Allowed,
}

/// Checks hosts for one call, with the rules that its plan was checked against.
#[derive(Clone, Debug)]
pub struct CallHostPolicy {
    policy: Arc<Policy>,
    granted: BTreeSet<(String, u16)>,
    granted_sends: BTreeSet<(String, u16)>,
    /// The programs that listened on ports of this machine when the plan was approved.
    local_programs: BTreeMap<u16, String>,
    /// The plan sends to a host that was not known. It may be any host that may be reached.
    sends_anywhere: bool,
    manifest: Manifest,
    session: SessionId,
    agent: AgentId,
    read_foreign: bool,
    /// The hosts of Git transports that are lent. A yes does not open them to the command itself.
    lent_hosts: BTreeSet<(String, u16)>,
    /// The ports that other processes of Byleave have published for their jobs.
    job_ports: BTreeSet<u16>,
}

impl CallHostPolicy {
    /// Creates the policy for a call of this session and agent, whose plan was permitted.
    pub fn new(policy: Arc<Policy>, plan: &Plan, session: SessionId, agent: AgentId) -> Self {
        let hosts = |effect: &Effect| effect.host().map(|(host, port)| (granted_name(host).to_owned(), port));
        // Sending to a host includes reaching it.
        let granted = plan.effects.iter().filter_map(hosts).collect();
        let sends = plan.effects.iter().filter(|effect| matches!(effect, Effect::Send { .. }));
        let granted_sends = sends.filter_map(hosts).collect();
        let sends_anywhere = plan.sends_to_unknown_host();
        let local = plan.bindings.iter().filter_map(Binding::local_port);
        let local_programs = local.map(|(port, program)| (port, program.to_owned())).collect();
        Self {
            policy,
            local_programs,
            granted,
            granted_sends,
            sends_anywhere,
            manifest: Manifest::for_commands("command"),
            session,
            agent,
            read_foreign: false,
            lent_hosts: BTreeSet::new(),
            job_ports: BTreeSet::new(),
        }
    }

    /// Returns the same policy, which knows the ports that other processes of Byleave have published for their jobs.
    #[must_use]
    pub fn with_job_ports(self, job_ports: BTreeSet<u16>) -> Self {
        Self { job_ports, ..self }
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

    /// Returns the same policy for a call that is lent Git transports to these hosts. Only a rule still lets it connect to them itself.
    #[must_use]
    pub fn with_lent_hosts(self, lent_hosts: BTreeSet<(String, u16)>) -> Self {
        Self { lent_hosts, ..self }
    }

    /// Returns whether a custom rule allows a host. The built-in rules allow no host that a command needs.
    pub(super) fn has_reach_rule(policy: &Policy) -> bool {
        let allows =
            policy.rules().filter(|rule| rule.verdict == Verdict::Allow && rule.layer != Layer::Builtin);
        allows
            .flat_map(|rule| &rule.patterns)
            .any(|pattern| matches!(pattern, Pattern::Reach(_) | Pattern::Send(_)))
    }

    /// Returns whether the gate lends a service on a host. Fetching reaches the host, and pushing sends to it.
    pub fn git_lending(&self, host: &str, port: u16, service: GitService) -> GitLending {
        let reach = Effect::Reach { host: host.to_owned(), port };
        let send = Effect::Send { host: host.to_owned(), port };
        let plan = Plan { effects: vec![reach.clone(), send.clone()], ..Plan::default() };
        let request = PolicyRequest::new(&self.manifest, &plan, &self.session, &self.agent);
        let request = PolicyRequest { read_foreign: self.read_foreign, ..request };
        if !self.policy.explain(&request).iter().any(|matched| matched.rule.lends_git) {
            return GitLending::Refused(format!("no rule has `lend = [\"git\"]` for `{host}`"));
        }
        let decision = self.evaluate(match service {
            GitService::UploadPack => reach,
            GitService::ReceivePack => send,
        });
        match decision.verdict {
            Verdict::Deny => GitLending::Refused(denial(&decision)),
            Verdict::Ask => GitLending::IfApproved,
            Verdict::Allow => GitLending::Allowed,
        }
    }

    fn evaluate(&self, effect: Effect) -> PolicyDecision {
        let plan = Plan { effects: vec![effect], ..Plan::default() };
        let request = PolicyRequest::new(&self.manifest, &plan, &self.session, &self.agent);
        self.policy.evaluate(&PolicyRequest { read_foreign: self.read_foreign, ..request })
    }
}

/// The maximum number of ports for programs that use no proxy.
const PORTS_MAX: usize = 64;

/// Returns the ports that the plan or a rule names. Programs that use no proxy, such as the clients of databases, can connect on these.
///
/// No program inside can listen on such a port. So a port that is only about this machine is among them only if something listens there.
pub(super) fn proxied_ports(plan: &Plan, policy: &Policy) -> BTreeSet<u16> {
    let named = policy
        .rules()
        .filter(|rule| rule.verdict != Verdict::Deny && rule.layer != Layer::Builtin)
        .flat_map(|rule| &rule.patterns)
        .filter_map(|pattern| Some((pattern.is_localhost(), pattern.host_port()?)));
    let planned = plan.effects.iter().filter_map(Effect::host).map(|(host, port)| (is_localhost(host), port));
    let mut ports = BTreeSet::new();
    for (local, port) in named.chain(planned) {
        let is_open = port != 0 && never_opened(port).is_none();
        if is_open
            && ports.len() < PORTS_MAX
            && !ports.contains(&port)
            && (!local || LocalListeners::is_served(port))
        {
            ports.insert(port);
        }
    }
    ports
}

/// Returns the name under which a host is granted: the loopback of this machine has one.
fn granted_name(host: &str) -> &str {
    if is_localhost(host) { LOCALHOST } else { host }
}

/// Returns the reason of a deny.
fn denial(ruling: &PolicyDecision) -> String {
    ruling.reasons.first().map_or("a rule denies it", |reason| reason.message.as_str()).to_owned()
}

impl HostPolicy for CallHostPolicy {
    fn decide_send(&self, host: &str, port: u16) -> Result<(), String> {
        // A port of this machine is opened whole (see `decide`), unless a rule is about sending there.
        if is_localhost(host) {
            let ruling = self.evaluate(Effect::Send { host: host.to_owned(), port });
            let is_granted = self.granted_sends.contains(&(LOCALHOST.to_owned(), port));
            let asks = ruling.verdict == Verdict::Ask
                && ruling.reasons.iter().any(|reason| reason.rule.is_some())
                && !is_granted;
            if ruling.verdict == Verdict::Deny || asks {
                return Err(denial(&ruling));
            }
            return match self.decide(host, port) {
                HostDecision::Granted => Ok(()),
                HostDecision::Refused(why) => Err(why),
                HostDecision::Ask => Err("no rule allows it".to_owned()),
            };
        }
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

    fn decide_local(&self, port: u16, listeners: &LocalListeners) -> Result<(), String> {
        let described = listeners.describe();
        match self.local_programs.get(&port) {
            Some(approved) if *approved != described => Err(format!(
                "another program listens there than when it was approved: {described}, and not {approved}"
            )),
            _ => Ok(()),
        }
    }

    fn is_job_port(&self, port: u16) -> bool {
        self.job_ports.contains(&port)
    }

    fn opens_private(&self, host: &str, port: u16) -> bool {
        let plan = Plan { effects: vec![Effect::Reach { host: host.to_owned(), port }], ..Plan::default() };
        let request = PolicyRequest::new(&self.manifest, &plan, &self.session, &self.agent);
        let request = PolicyRequest { read_foreign: self.read_foreign, ..request };
        let matched = self.policy.explain(&request);
        matched.iter().any(|matched| matched.rule.private && matched.rule.verdict == Verdict::Allow)
    }

    fn decide(&self, host: &str, port: u16) -> HostDecision {
        if is_localhost(host)
            && let Some(why) = never_opened(port)
        {
            let why = format!("nothing can open this port to a command, because {why}");
            return HostDecision::Refused(why);
        }
        let ruling = self.evaluate(Effect::Reach { host: host.to_owned(), port });
        match ruling.verdict {
            // A deny wins over a grant, because the rules may be newer than the grant.
            Verdict::Deny => HostDecision::Refused(denial(&ruling)),
            Verdict::Allow => HostDecision::Granted,
            Verdict::Ask if self.lent_hosts.contains(&(host.to_owned(), port)) => {
                let why = "Git reaches it by the transport that is lent, and nothing else does";
                HostDecision::Refused(why.to_owned())
            }
            Verdict::Ask if self.granted.contains(&(granted_name(host).to_owned(), port)) => {
                HostDecision::Granted
            }
            Verdict::Ask => HostDecision::Ask,
        }
    }
}
