//! Delegation: a sub-agent never may do more than any of its parents, except what a rule delegates to it by name.

use byleave_core::call::Mode;
use byleave_core::decision::{PolicyDecision, Verdict};
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::{AgentId, SessionId, StandingApprovalId};
use byleave_core::manifest::{Manifest, PermissionClass};
use byleave_core::pattern::{MatchCertainty, Pattern, PatternMatcher};
use byleave_core::policy::{
    EffectStage, Layer, PathVariables, Policy, PolicyRequest, Rule, RuleCondition, RuleFile, SkipExamples,
    load_rules,
};
use byleave_core::session::{Ceiling, SessionNode};
use byleave_core::standing_approval::{StandingApproval, StandingApprovalMatcher};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

const MODES: [Mode; 5] =
    [Mode::ConfirmAll, Mode::ConfirmSensitive, Mode::ConfirmDangerous, Mode::Yolo, Mode::ReadOnly];
const NAMES: &[&str] = &["main", "tester", "deployer", "deployer-2", "X"];

fn a_path() -> impl Strategy<Value = String> {
    select(&["/w", "/w/a", "/w/b", "/v/a", "/W/A"][..]).prop_map(str::to_owned)
}

fn an_effect() -> impl Strategy<Value = Effect> {
    prop_oneof![
        3 => a_path().prop_map(|path| Effect::Read { path }),
        3 => a_path().prop_map(|path| Effect::Write { path }),
        1 => a_path().prop_map(|path| Effect::Delete { path }),
        2 => select(vec![&["git", "log"][..], &["git", "push"], &["rm"]]).prop_map(run),
        1 => select(&["t", "other"][..]).prop_map(|tool| Effect::Invoke { tool: tool.into() }),
        1 => select(&["a.example", "b.example"][..]).prop_map(|host| Effect::Reach { host: host.into(), port: 443 }),
        1 => select(&["a.example", "b.example"][..]).prop_map(|host| Effect::Send { host: host.into(), port: 443 }),
        1 => Just(Effect::Unknown { reason: "x".into() }),
    ]
}

fn run(words: &[&str]) -> Effect {
    let argv: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Effect::Run { program: format!("/usr/bin/{}", argv[0]), argv }
}

fn a_pattern() -> impl Strategy<Value = Pattern> {
    let glob = || select(&["/w/**", "/w/a", "**", "/v/*"][..]).prop_map(str::to_owned);
    prop_oneof![
        3 => glob().prop_map(Pattern::Read),
        3 => glob().prop_map(Pattern::Write),
        1 => glob().prop_map(Pattern::Delete),
        2 => select(vec![&["git"][..], &["git", "push"], &["rm"]])
            .prop_map(|words| Pattern::Run(words.iter().map(|word| (*word).to_owned()).collect())),
        1 => select(&["t", "*", "agent:X", "agent:*"][..]).prop_map(|tool| Pattern::Invoke(tool.into())),
        1 => select(&["a.example", "*.example"][..]).prop_map(|host| Pattern::Reach(host.into())),
        1 => select(&["a.example", "*.example"][..]).prop_map(|host| Pattern::Send(host.into())),
    ]
}

fn a_rule(verdicts: &'static [Verdict], delegates: bool) -> impl Strategy<Value = Rule> {
    let layers = &[Layer::Builtin, Layer::Organisation, Layer::User, Layer::Project, Layer::Session][..];
    let name = || select(&["main", "deployer*", "tester", "*"][..]).prop_map(str::to_owned);
    let who = (option::weighted(0.2, name()), option::weighted(0.2, name()));
    (select(layers), select(verdicts), vec(a_pattern(), 1..4), who, option::weighted(0.3, name()), 0..4_u8)
        .prop_map(move |(layer, verdict, patterns, (session, agent), delegate, mark)| {
            let verdict = if layer == Layer::Project { verdict.max(Verdict::Ask) } else { verdict };
            let when = RuleCondition { session, agent, ..RuleCondition::default() };
            let mut rule = Rule { when, ..Rule::new("", layer, verdict, patterns) };
            if verdict == Verdict::Ask {
                (rule.firm, rule.dangerous) = (mark == 1, mark == 2);
            }
            if delegates && verdict != Verdict::Allow && layer != Layer::Project {
                rule.delegate = delegate;
            }
            rule
        })
}

const ANY: &[Verdict] = &[Verdict::Allow, Verdict::Allow, Verdict::Ask, Verdict::Deny];

fn some_rules(delegates: bool) -> impl Strategy<Value = Vec<Rule>> {
    vec(a_rule(ANY, delegates), 0..8).prop_map(|mut rules| {
        for (i, rule) in rules.iter_mut().enumerate() {
            rule.id = format!("r{i}");
        }
        rules
    })
}

/// A session and its parents, up to the root.
fn a_lineage() -> impl Strategy<Value = Vec<SessionNode>> {
    let ceiling = (select(MODES.to_vec()), vec(a_pattern(), 0..2), vec(a_pattern(), 0..2));
    let ceiling = ceiling.prop_map(|(mode, deny, ask)| Ceiling { mode, deny, ask });
    vec((select(NAMES), ceiling), 1..5).prop_map(|levels| {
        let sessions: Vec<SessionId> = levels
            .iter()
            .enumerate()
            .map(|(i, (agent, _))| SessionId::new(format!("{agent}-{i}")).unwrap())
            .collect();
        levels
            .into_iter()
            .enumerate()
            .map(|(i, (agent, ceiling))| SessionNode {
                session: sessions[i].clone(),
                parent: sessions.get(i + 1).cloned(),
                agent: AgentId::new(agent).unwrap(),
                ceiling,
            })
            .collect()
    })
}

/// A call, independent of the agent that makes it.
#[derive(Clone, Debug)]
struct DelegatedCall {
    manifest: Manifest,
    plan: Plan,
    mode: Mode,
    tool_asks: bool,
    leaves: Vec<StandingApprovalMatcher>,
}

fn a_deal() -> impl Strategy<Value = DelegatedCall> {
    let classes = select(vec![
        PermissionClass::Bash,
        PermissionClass::File,
        PermissionClass::Readonly,
        PermissionClass::Generic,
        PermissionClass::Undeclared,
    ]);
    let manifest = (classes, select(vec![None, Some(false), Some(false), Some(true)]));
    let leaves = vec((vec(a_pattern(), 1..4), option::weighted(0.3, select(NAMES))), 0..3);
    let plan = (vec(an_effect(), 0..4), any::<bool>(), prop::bool::weighted(0.1));
    (manifest, plan, select(MODES.to_vec()), prop::bool::weighted(0.1), leaves).prop_map(
        |((permission_class, sensitive), (effects, reads_only, irreversible), mode, tool_asks, leaves)| {
            let bare = Manifest::new("t", "", serde_json::json!({}));
            let manifest = Manifest { permission_class, sensitive, ..bare };
            let leaves = (1..).zip(leaves).map(|(number, (scope, session))| {
                let session = session.map(|name| SessionId::new(format!("{name}-0")).unwrap());
                let id = StandingApprovalId::new(uuid::Uuid::from_u128(number));
                StandingApprovalMatcher::new(StandingApproval {
                    id,
                    tool: "t".into(),
                    scope,
                    session,
                    expires_at: None,
                    max_uses: None,
                })
                .unwrap()
            });
            let plan = Plan { effects, read_only: reads_only, irreversible, ..Plan::default() };
            DelegatedCall { manifest, plan, mode, tool_asks, leaves: leaves.collect() }
        },
    )
}

impl DelegatedCall {
    /// The decision if the first session of the lineage makes the call, under the agent name with which it
    /// was opened.
    fn ruled(&self, policy: &Policy, lineage: &[SessionNode]) -> PolicyDecision {
        self.ruled_as(policy, lineage, &lineage[0].session, &lineage[0].agent)
    }

    fn ruled_as(
        &self,
        policy: &Policy,
        lineage: &[SessionNode],
        session: &SessionId,
        agent: &AgentId,
    ) -> PolicyDecision {
        let Self { manifest, plan, mode, tool_asks, leaves } = self;
        let request = PolicyRequest {
            manifest,
            plan,
            mode: *mode,
            tool_needs_approval: *tool_asks,
            session,
            agent,
            standing_approvals: leaves,
            now: 0,
            stage: EffectStage::Predicted,
            read_foreign: false,
        };
        policy.evaluate_in_session(&request, lineage)
    }

    fn without_leaves(&self) -> Self {
        Self { leaves: Vec::new(), ..self.clone() }
    }
}

fn policy(rules: &[Rule]) -> Policy {
    Policy::new(rules.to_vec()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_tree_allows_what_a_ceiling_above_denies(
        rules in some_rules(true),
        lineage in a_lineage(),
        deal in a_deal(),
        agent in select(NAMES),
    ) {
        let policy = policy(&rules);
        // For every agent name that the call gives.
        let agent = AgentId::new(agent).unwrap();
        let ruling = deal.ruled_as(&policy, &lineage, &lineage[0].session, &agent);
        for opening in &lineage {
            let fits = |pattern: &Pattern| {
                let matcher = PatternMatcher::with_certainty(pattern.clone(), MatchCertainty::Possible).unwrap();
                deal.plan.effects.iter().any(|effect| matcher.matches(effect))
            };
            let changes = |effect: &Effect| matches!(effect, Effect::Write { .. } | Effect::Delete { .. } | Effect::Unknown { .. });
            if opening.ceiling.deny.iter().any(fits) {
                prop_assert_eq!(ruling.verdict, Verdict::Deny, "{:?}", opening);
            }
            let built_in = rules.iter().any(|rule| rule.layer == Layer::Builtin && rule.verdict == Verdict::Allow);
            if opening.ceiling.mode == Mode::ReadOnly && !built_in && deal.plan.effects.iter().any(changes) {
                prop_assert_eq!(ruling.verdict, Verdict::Deny, "{:?}", opening);
            }
        }
    }

    // Without delegation and without standing approvals: a deny at any level denies, and an ask at any level
    // asks.
    #[test]
    fn nobody_holds_more_than_anyone_above(rules in some_rules(false), lineage in a_lineage(), deal in a_deal()) {
        let (policy, deal) = (policy(&rules), deal.without_leaves());
        let own = deal.ruled(&policy, &lineage).verdict;
        for above in 1..lineage.len() {
            let theirs = deal.ruled(&policy, &lineage[above..]).verdict;
            prop_assert!(own >= theirs, "{own:?}, but {theirs:?} for {:?}", lineage[above]);
        }
        // Nor more than it may alone, in its own mode or in that of any parent.
        for opening in &lineage {
            let alone = DelegatedCall { mode: opening.ceiling.mode, ..deal.clone() };
            let request = alone.ruled_as(&policy, &[], &lineage[0].session, &lineage[0].agent);
            prop_assert!(own >= request.verdict, "looser than in {:?}", opening.ceiling.mode);
        }
    }

    // With delegation, only a rule that names this sub-agent allows more, and only past the rules that name
    // it.
    #[test]
    fn only_a_rule_that_names_it_lets_a_sub_agent_do_more(
        rules in some_rules(true),
        lineage in a_lineage(),
        deal in a_deal(),
    ) {
        let mut modes = lineage.iter().map(|opening| opening.ceiling.mode).chain([deal.mode]);
        // In read-only mode a program may run only if a rule allows it, and a delegating rule that names the
        // agent is such a rule.
        prop_assume!(modes.all(|mode| mode != Mode::ReadOnly));
        let deal = deal.without_leaves();
        let own = deal.ruled(&policy(&rules), &lineage).verdict;
        // The same rules without those that name this agent, and with nothing delegated.
        let name = lineage[0].agent.as_str();
        let names = |glob: &str| globset::Glob::new(glob).unwrap().compile_matcher().is_match(name);
        let mut plain = rules.clone();
        plain.retain(|rule| !rule.delegate.as_deref().is_some_and(names));
        plain.iter_mut().for_each(|rule| rule.delegate = None);
        let kept = policy(&plain);
        if plain.len() == rules.len() {
            prop_assert_eq!(own, deal.ruled(&kept, &lineage).verdict);
        }
        // Other denies at any level still apply.
        for above in 0..lineage.len() {
            if deal.ruled(&kept, &lineage[above..]).verdict == Verdict::Deny {
                prop_assert_eq!(own, Verdict::Deny);
            }
        }
    }

    #[test]
    fn an_empowered_child_may_do_what_its_parent_may_only_delegate(
        verdict in select(&[Verdict::Ask, Verdict::Deny][..]),
        layer in select(&[Layer::Organisation, Layer::User, Layer::Session][..]),
        when in select(&[None, Some("main")][..]),
        depth in 0..3_usize,
        denied in any::<bool>(),
    ) {
        let mut rule = Rule::new("push", layer, verdict, vec![Pattern::Run(vec!["git".into(), "push".into()])]);
        (rule.delegate, rule.when.agent) = (Some("deployer*".into()), when.map(str::to_owned));
        let deny = Rule::new("no", Layer::Project, Verdict::Deny, vec![Pattern::Run(vec!["git".into(), "push".into()])]);
        let policy = policy(&[vec![rule], if denied { vec![deny] } else { vec![] }].concat());
        let session = |name: &str| SessionId::new(name).unwrap();
        let opening = |name: &str, agent: &str, parent: Option<&str>| SessionNode {
            session: session(name),
            parent: parent.map(session),
            agent: AgentId::new(agent).unwrap(),
            ceiling: Ceiling::from_mode(Mode::ConfirmSensitive),
        };
        let mut above = vec![opening("m", "main", None)];
        for i in 0..depth {
            let parent = above[0].session.to_string();
            above.insert(0, opening(&format!("m{i}"), "main", Some(&parent)));
        }
        let mut manifest = Manifest::new("t", "", serde_json::json!({}));
        (manifest.permission_class, manifest.sensitive) = (PermissionClass::Bash, Some(false));
        let plan = Plan { effects: vec![run(&["git", "push"])], ..Plan::default() };
        let deal = DelegatedCall { manifest, plan, mode: Mode::ConfirmSensitive, tool_asks: false, leaves: vec![] };
        let as_child = |agent: &str| {
            let parent = above[0].session.to_string();
            let lineage = [vec![opening("c", agent, Some(&parent))], above.clone()].concat();
            deal.ruled(&policy, &lineage).verdict
        };
        let own = if denied { Verdict::Deny } else { verdict };
        prop_assert_eq!(deal.ruled(&policy, &above).verdict, own, "the parent");
        prop_assert_eq!(as_child("deployer-2"), if denied { Verdict::Deny } else { Verdict::Allow }, "named by the rule");
        prop_assert_eq!(as_child("tester"), own, "another child");
        // A name alone gives no permission. There must be a parent that may delegate.
        let alone = [opening("c", "deployer", None)];
        let expected = if when.is_some() && !denied { Verdict::Ask } else { own };
        prop_assert_eq!(deal.ruled(&policy, &alone).verdict, expected, "alone");
    }

    // req: P7, P8
    #[test]
    fn adding_a_deny_an_ask_or_a_ceiling_never_allows_more_in_a_tree(
        rules in some_rules(true),
        more in a_rule(&[Verdict::Ask, Verdict::Deny], false),
        lineage in a_lineage(),
        one_more in a_lineage(),
        deal in a_deal(),
    ) {
        let before = policy(&rules);
        let then = deal.ruled(&before, &lineage).verdict;
        let after = policy(&[rules.clone(), vec![Rule { id: "more".into(), ..more }]].concat());
        prop_assert!(deal.ruled(&after, &lineage).verdict >= then);
        let mut lower = lineage.clone();
        lower[0].ceiling.deny.extend(one_more[0].ceiling.deny.iter().cloned());
        lower[0].ceiling.ask.extend(one_more[0].ceiling.ask.iter().cloned());
        prop_assert!(deal.ruled(&before, &lower).verdict >= then);
    }

    // req: P7
    #[test]
    fn the_order_of_rules_does_not_matter_in_a_tree(
        (rules, shuffled) in some_rules(true).prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle())),
        lineage in a_lineage(),
        deal in a_deal(),
    ) {
        prop_assert_eq!(deal.ruled(&policy(&rules), &lineage), deal.ruled(&policy(&shuffled), &lineage));
    }

    // req: P2
    #[test]
    fn read_only_denies_what_changes_and_loosens_nothing(rules in some_rules(false), lineage in a_lineage(), deal in a_deal()) {
        let policy = policy(&rules);
        let in_mode = |mode| DelegatedCall { mode, ..deal.clone() }.ruled(&policy, &lineage);
        let read_only = in_mode(Mode::ReadOnly);
        prop_assert!(read_only.verdict >= in_mode(Mode::ConfirmSensitive).verdict);
        for mode in MODES {
            let denied = in_mode(Mode::Yolo).verdict == Verdict::Deny;
            prop_assert!(!denied || in_mode(mode).verdict == Verdict::Deny, "{mode:?} softens a deny");
        }
        if deal.plan.effects.is_empty() || deal.plan.effects.iter().any(|effect| matches!(effect, Effect::Unknown { .. })) {
            prop_assert_eq!(read_only.verdict, Verdict::Deny);
        }
        if read_only.verdict != Verdict::Deny {
            prop_assert!(read_only.reasons.iter().all(|reason| reason.verdict != Verdict::Deny));
        }
    }
}

#[test]
fn delegation_is_written_in_a_policy_file_and_only_where_it_means_something() {
    let places = PathVariables { workspace: Some("/w"), ..PathVariables::default() };
    let check = |layer: Layer, text: &str| {
        let file = RuleFile { name: "p.toml", layer, text };
        load_rules(&file, &places, &SkipExamples).map(|read| read.rules).map_err(|fault| fault.to_string())
    };
    let deny = "[[rule]]\nid = \"d\"\nverdict = \"deny\"\nrun = \"git push\"\ndelegate = \"deployer*\"";
    assert_eq!(check(Layer::User, deny).unwrap()[0].delegate.as_deref(), Some("deployer*"));
    for (layer, text, wanted) in [
        (Layer::Project, deny, "a project can only tighten"),
        (Layer::User, deny.replace("deny", "allow").as_str(), "`delegate` is valid only on a `deny`"),
        (Layer::User, &deny.replace("\"deployer*\"", "true"), "this is a boolean, not a string"),
        (Layer::User, &deny.replace("\"deployer*\"", "\"[\""), "glob"),
    ] {
        let told = check(layer, text).unwrap_err();
        assert!(told.contains(wanted), "{told}");
    }
}

#[test]
fn a_built_in_rule_that_delegates_writes_nothing_in_read_only() {
    for verdict in [Verdict::Ask, Verdict::Deny] {
        let mut rule = Rule::new("r", Layer::Builtin, verdict, vec![Pattern::Write("/w/a".into())]);
        rule.delegate = Some("*".into());
        let id = |name: &str| SessionId::new(name).unwrap();
        let session = |session, parent, mode| SessionNode {
            session: id(session),
            parent,
            agent: AgentId::new("main").unwrap(),
            ceiling: Ceiling::from_mode(mode),
        };
        let lineage =
            [session("c", Some(id("m")), Mode::ReadOnly), session("m", None, Mode::ConfirmSensitive)];
        let mut manifest = Manifest::new("t", "", serde_json::json!({}));
        (manifest.permission_class, manifest.sensitive) = (PermissionClass::File, Some(false));
        let plan = Plan { effects: vec![Effect::Write { path: "/w/a".into() }], ..Plan::default() };
        let deal =
            DelegatedCall { manifest, plan, mode: Mode::ConfirmSensitive, tool_asks: false, leaves: vec![] };
        assert_eq!(deal.ruled(&policy(&[rule]), &lineage).verdict, Verdict::Deny);
    }
}
