//! The algebra of policy, over generated rules, plans, modes and standing approvals.

use byleave_core::call::{Millis, Mode};
use byleave_core::decision::{AskCause, PolicyDecision, Verdict};
use byleave_core::effect::{Effect, Plan, is_resolved};
use byleave_core::id::{AgentId, SessionId, StandingApprovalId};
use byleave_core::manifest::{ApprovalRequirement, Manifest, PermissionClass};
use byleave_core::pattern::{MatchCertainty, Pattern, PatternMatcher};
use byleave_core::policy::{
    EffectStage, Layer, PathVariables, Policy, PolicyRequest, Rule, RuleCondition, builtin_rules, is_stricter,
};
use byleave_core::standing_approval::{StandingApproval, StandingApprovalMatcher};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// The built-in rules, read once.
static OURS: std::sync::LazyLock<Vec<Rule>> = std::sync::LazyLock::new(|| builtin_rules(&PLACES).unwrap());
const NOW: Millis = 1_000;
const PLACES: PathVariables<'_> = PathVariables {
    workspace: Some("/w"),
    home: Some("/home/u"),
    state: Some("/state/byleave"),
    config: Some("/home/u/.config/byleave"),
};

// Small alphabets, so that rules and effects meet often.
const PATHS: &[&str] = &[
    "/",
    "/w",
    "/w/a",
    "/w/a/b.rs",
    "/w/.env",
    "/w/.env.example",
    "/w/k.pem",
    "/w/.pem",
    "/w/a.b.pem",
    "/w/n\nl/k.pem",
    "/v/a",
    "/v/credentials",
    "/state/byleave/x",
    "/w/../v/a",
    "/w/",
    "w/a",
    "/W/A",
    "/w/é",
];
const GLOBS: &[&str] = &[
    "/w",
    "/w/**",
    "/w/*",
    "**",
    "**/a",
    "/**/a",
    "**/*.pem",
    "*.pem",
    "/v/*",
    "/w/a",
    "/{v,w}/a",
    "/[!w]/a",
    "**/.env*",
    "**/*cred*",
    "/w/**/b.rs",
    "/w/?",
    "**/a/**",
    "/**",
];
const TOOLS: &[&str] = &["t", "other", "mcp_a_x"];
const TOOL_GLOBS: &[&str] = &["t", "*", "mcp_*", "o?her", "**"];
const HOSTS: &[&str] = &[
    "example.org",
    "a.example.org",
    "A.b.EXAMPLE.org.",
    "notexample.org",
    "org",
    "::1",
    "10.0.0.1",
    "167772161",
    "012.0.0.1",
    "::ffff:a00:1",
    "::a00:1",
    "",
];
const HOST_PATTERNS: &[&str] = &[
    "example.org",
    "*.example.org",
    "*.b.example.ORG",
    "*.org",
    "Org",
    "::1",
    "10.0.0.1",
    "10.0.0.0/8",
    "*",
    "*:*",
    "example.org:22",
    "*.org:443",
    "10.0.0.0/8:0",
];
const PROGRAMS: &[&str] = &["/usr/bin/git", "/w/git", "git", "/usr/bin/rm", "/usr/bin/"];
const WORDS: &[&str] = &["log", "-c", "x"];

fn a_text(from: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(from).prop_map(str::to_owned)
}

fn an_effect() -> impl Strategy<Value = Effect> {
    let path = || a_text(PATHS);
    prop_oneof![
        3 => path().prop_map(|path| Effect::Read { path }),
        3 => path().prop_map(|path| Effect::Write { path }),
        2 => path().prop_map(|path| Effect::Delete { path }),
        2 => a_text(TOOLS).prop_map(|tool| Effect::Invoke { tool }),
        2 => (a_text(HOSTS), select(&[443_u16, 22, 0][..])).prop_map(|(host, port)| Effect::Reach { host, port }),
        1 => (a_text(HOSTS), select(&[443_u16, 22, 0][..])).prop_map(|(host, port)| Effect::Send { host, port }),
        2 => (a_text(PROGRAMS), vec(a_text(WORDS), 0..3)).prop_map(|(program, mut argv)| {
            argv.insert(0, program.clone());
            Effect::Run { program, argv }
        }),
        1 => a_text(WORDS).prop_map(|why| Effect::Unknown { reason: why }),
        1 => a_text(WORDS).prop_map(|guarantee| Effect::Unconfined { guarantee }),
    ]
}

fn a_pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        3 => a_text(GLOBS).prop_map(Pattern::Read),
        3 => a_text(GLOBS).prop_map(Pattern::Write),
        2 => a_text(GLOBS).prop_map(Pattern::Delete),
        2 => a_text(TOOL_GLOBS).prop_map(Pattern::Invoke),
        2 => a_text(HOST_PATTERNS).prop_map(Pattern::Reach),
        1 => a_text(HOST_PATTERNS).prop_map(Pattern::Send),
        2 => (select(&["git", "/usr/bin/git", "rm", "/w/git"][..]), vec(a_text(WORDS), 0..2)).prop_map(
            |(program, mut words)| {
                words.insert(0, program.to_owned());
                Pattern::Run(words)
            }
        ),
        1 => (select(&["git", "/usr/bin/git", "rm", "/w/git"][..]), vec(a_text(WORDS), 0..3)).prop_map(
            |(program, mut words)| {
                words.insert(0, program.to_owned());
                Pattern::RunExact(words)
            }
        ),
    ]
}

fn a_condition() -> impl Strategy<Value = RuleCondition> {
    let flag = || option::weighted(0.1, any::<bool>());
    let classes = option::weighted(
        0.1,
        select(vec![PermissionClass::Bash, PermissionClass::File, PermissionClass::Undeclared]),
    );
    let name = || option::weighted(0.05, select(&["s", "a", "A", "x*", "*"][..]).prop_map(str::to_owned));
    let mode = option::weighted(0.1, select(Mode::ALL.to_vec()));
    ((flag(), flag()), flag(), classes, mode, name(), name(), name()).prop_map(
        |((read_only, read_foreign), sensitive, class, mode, server, session, agent)| RuleCondition {
            read_only,
            read_foreign,
            sensitive,
            class: class.into_iter().collect(),
            mode,
            server,
            session,
            agent,
        },
    )
}

fn a_rule_of(verdicts: &'static [Verdict], layers: &'static [Layer]) -> impl Strategy<Value = Rule> {
    let marks = (0..4_u8, vec(select(&["network off", "secrets masked"][..]), 0..2), any::<bool>());
    (select(layers), select(verdicts), vec(a_pattern(), 1..5), marks, a_condition()).prop_map(
        |(layer, verdict, patterns, (mark, guarantees, excepts), when)| {
            let verdict = if layer == Layer::Project { verdict.max(Verdict::Ask) } else { verdict };
            let mut rule = Rule { when, ..Rule::new("", layer, verdict, patterns) };
            match verdict {
                Verdict::Ask => (rule.firm, rule.dangerous) = (mark == 1, mark == 2),
                Verdict::Allow => rule.guarantees = guarantees.into_iter().map(str::to_owned).collect(),
                Verdict::Deny => {}
            }
            // Rules about whole calls have no effect patterns.
            if mark == 3 && verdict != Verdict::Allow && rule.when != RuleCondition::default() {
                rule.patterns.clear();
            }
            if excepts && matches!(rule.patterns.first(), Some(Pattern::Read(_))) {
                rule.except.push(Pattern::Read("/w/a/b.rs".into()));
            }
            rule
        },
    )
}

const LAYERS: &[Layer] = &[Layer::Builtin, Layer::Organisation, Layer::User, Layer::Project, Layer::Session];
const VERDICTS: &[Verdict] = &[Verdict::Allow, Verdict::Allow, Verdict::Ask, Verdict::Deny];

/// Some of the built-in rules. Sometimes all of them, which take long to compile.
fn some_of_ours() -> impl Strategy<Value = Vec<Rule>> {
    let all = OURS.len();
    let some = move |most: usize| subsequence(OURS.clone(), 0..=most.min(all));
    prop_oneof![7 => Just(Vec::new()), 12 => some(12), 1 => Just(OURS.clone())]
}

fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
    (some_of_ours(), vec(a_rule_of(VERDICTS, LAYERS), 0..6)).prop_map(|(ours, mut rules)| {
        for (i, rule) in rules.iter_mut().enumerate() {
            rule.id = format!("r{i}");
        }
        rules.extend(ours);
        rules
    })
}

fn some_leaves() -> impl Strategy<Value = Vec<StandingApprovalMatcher>> {
    let one = (
        prop_oneof![4 => Just("t"), 1 => Just("other")],
        vec(a_pattern(), 1..6),
        option::weighted(0.2, select(&["s", "s2"][..])),
        option::weighted(0.2, select(&[NOW, NOW + 1][..])),
    );
    vec(one, 0..4).prop_map(|leaves| {
        let numbered = (1..).zip(leaves);
        numbered
            .map(|(number, (tool, scope, session, until))| {
                let session = session.map(|name| SessionId::new(name).unwrap());
                let id = StandingApprovalId::new(uuid::Uuid::from_u128(number));
                StandingApprovalMatcher::new(StandingApproval {
                    id,
                    tool: tool.into(),
                    scope,
                    session,
                    expires_at: until,
                    max_uses: None,
                })
                .unwrap()
            })
            .collect()
    })
}

/// A call to evaluate, in any mode.
#[derive(Clone, Debug)]
struct TestCall {
    manifest: Manifest,
    plan: Plan,
    tool_asks: bool,
    leaves: Vec<StandingApprovalMatcher>,
}

fn a_scene() -> impl Strategy<Value = TestCall> {
    let classes = [
        PermissionClass::Bash,
        PermissionClass::File,
        PermissionClass::Webfetch,
        PermissionClass::Readonly,
        PermissionClass::Generic,
        PermissionClass::Undeclared,
    ];
    let needs = [
        ApprovalRequirement::Never,
        ApprovalRequirement::Never,
        ApprovalRequirement::Always,
        ApprovalRequirement::Depends,
    ];
    let manifest =
        (select(classes.to_vec()), select(vec![None, Some(false), Some(true)]), select(needs.to_vec()));
    let plan = (vec(an_effect(), 0..5), any::<bool>(), prop::bool::weighted(0.2));
    (manifest, plan, prop::bool::weighted(0.2), some_leaves()).prop_map(
        |(
            (permission_class, sensitive, needs_approval),
            (effects, reads_only, irreversible),
            tool_asks,
            leaves,
        )| {
            let bare = Manifest::new("t", "", serde_json::json!({}));
            let manifest = Manifest { permission_class, sensitive, needs_approval, ..bare };
            let plan = Plan { effects, read_only: reads_only, irreversible, ..Plan::default() };
            TestCall { manifest, plan, tool_asks, leaves }
        },
    )
}

fn caller() -> (SessionId, AgentId) {
    (SessionId::new("s").unwrap(), AgentId::new("a").unwrap())
}

impl TestCall {
    fn ruled(&self, policy: &Policy, mode: Mode) -> PolicyDecision {
        policy.evaluate(&self.request(mode, &caller()))
    }

    fn request<'a>(&'a self, mode: Mode, (session, agent): &'a (SessionId, AgentId)) -> PolicyRequest<'a> {
        let Self { manifest, plan, tool_asks, leaves } = self;
        PolicyRequest {
            manifest,
            plan,
            mode,
            tool_needs_approval: *tool_asks,
            session,
            agent,
            standing_approvals: leaves,
            now: NOW,
            stage: EffectStage::Predicted,
            read_foreign: false,
        }
    }
}

fn policy(rules: &[Rule]) -> Policy {
    Policy::new(rules.to_vec()).unwrap()
}

/// The number of cases per property. Most of the time is spent on compiling the rules.
fn cases() -> u32 {
    let is_long = std::env::var("BYLEAVE_PROOF").is_ok_and(|form| form == "long");
    if is_long { 4_000 } else { 120 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    // req: P7, P8
    #[test]
    fn adding_a_deny_an_ask_or_a_rule_of_a_project_never_allows_more(
        rules in some_rules(),
        more in a_rule_of(&[Verdict::Ask, Verdict::Deny], LAYERS),
        scene in a_scene(),
    ) {
        let before = policy(&rules);
        let more = Rule { id: "more".into(), ..more };
        let after = policy(&[rules, vec![more.clone()]].concat());
        prop_assert_ne!(before.digest(), after.digest());
        for mode in Mode::ALL {
            let (then, now) = (scene.ruled(&before, mode), scene.ruled(&after, mode));
            prop_assert!(now.verdict >= then.verdict, "{more:?}\n{then:#?}\n{now:#?}");
            prop_assert!(!is_stricter(&then, &now) || now.verdict == then.verdict);
        }
    }

    // req: P8
    #[test]
    fn a_rule_of_a_project_replaces_nothing(
        rules in some_rules(),
        more in a_rule_of(&[Verdict::Ask, Verdict::Deny], &[Layer::Project]),
        of in any::<prop::sample::Index>(),
        scene in a_scene(),
    ) {
        let taken: Vec<&Rule> = rules.iter().filter(|rule| rule.layer != Layer::Project).collect();
        prop_assume!(!taken.is_empty());
        let more = Rule { id: of.get(&taken).id.clone(), ..more };
        let (before, after) = (policy(&rules), policy(&[rules, vec![more]].concat()));
        for mode in Mode::ALL {
            prop_assert!(scene.ruled(&after, mode).verdict >= scene.ruled(&before, mode).verdict);
        }
    }

    // req: P7
    #[test]
    fn the_order_of_rules_and_leaves_does_not_matter(
        (rules, shuffled) in some_rules().prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle())),
        scene in a_scene(),
    ) {
        let (one, other) = (policy(&rules), policy(&shuffled));
        let mut turned = scene.clone();
        turned.leaves.reverse();
        for mode in Mode::ALL {
            prop_assert_eq!(scene.ruled(&one, mode), turned.ruled(&other, mode));
        }
    }

    // req: P2
    #[test]
    fn modes_only_ask_less_and_never_soften_a_deny(rules in some_rules(), scene in a_scene()) {
        // A rule may apply only to loose modes and make them stricter. A call denied in a mode is denied in all looser ones.
        let mut plain = rules.clone();
        let policy_of_modes = policy(&rules);
        let denied = Mode::ALL.map(|mode| scene.ruled(&policy_of_modes, mode).verdict == Verdict::Deny);
        prop_assert!(denied.is_sorted(), "{denied:?}");
        plain.iter_mut().for_each(|rule| rule.when.mode = None);
        plain.retain(|rule| !rule.patterns.is_empty() || rule.when != RuleCondition::default());
        let policy = policy(&plain);
        let verdicts = Mode::ALL.map(|mode| scene.ruled(&policy, mode).verdict);
        prop_assert!(verdicts.is_sorted_by(|a, b| a >= b), "{verdicts:?}");
        let denied = verdicts.map(|verdict| verdict == Verdict::Deny);
        prop_assert!(denied == [true; 4] || denied == [false; 4], "{verdicts:?}");
        prop_assert!(verdicts[0] >= Verdict::Ask || scene.ruled(&policy, Mode::ConfirmAll).standing_approval.is_some());
    }

    #[test]
    fn a_leave_answers_only_what_a_leave_may_answer(rules in some_rules(), scene in a_scene()) {
        let policy = policy(&rules);
        let bare = TestCall { leaves: vec![], ..scene.clone() };
        for mode in Mode::ALL {
            let (without, with) = (bare.ruled(&policy, mode), scene.ruled(&policy, mode));
            prop_assert!(with.verdict <= without.verdict, "a leave never tightens");
            prop_assert_eq!(&with.reasons, &without.reasons, "a leave changes no reason");
            let unanswerable = without.causes().into_iter().any(|cause| !cause.allows_standing_approval());
            if without.verdict != Verdict::Ask || unanswerable {
                prop_assert_eq!(with, without);
            } else if with.verdict == Verdict::Allow {
                let used = scene.leaves.iter().find(|leave| Some(leave.standing_approval().id) == with.standing_approval).unwrap();
                prop_assert!(used.applies_to("t", &SessionId::new("s").unwrap(), &without.reasons, NOW));
                for ask in with.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask) {
                    let about = |place: u32| ask.effects.is_empty() || ask.effects.contains(&place);
                    let asked = (0..).zip(&scene.plan.effects).filter(|(place, _)| about(*place));
                    prop_assert!(asked.clone().count() > 0);
                    prop_assert!(asked.clone().all(|(_, effect)| used.covers(effect)), "{ask:?}");
                }
            } else {
                prop_assert_eq!(with.standing_approval, None);
            }
        }
    }

    // req: T5
    #[test]
    fn labels_never_matter(rules in some_rules(), scene in a_scene(), flags: [bool; 4], word in option::of(a_text(WORDS))) {
        let mut rules = rules;
        // Except if a rule requires a read-only tool: there they only tighten, see below.
        rules.iter_mut().for_each(|rule| rule.when.read_only = None);
        rules.retain(|rule| !rule.patterns.is_empty() || rule.when != RuleCondition::default());
        let policy = policy(&rules);
        let mut labelled = scene.clone();
        let [read_only, destructive, concurrency_safe, reversible] = flags;
        let audit_operation = word.clone();
        labelled.manifest = Manifest {
            read_only, destructive, concurrency_safe, reversible, audit_operation, search_hint: word, ..scene.manifest.clone()
        };
        for mode in Mode::ALL {
            prop_assert_eq!(labelled.ruled(&policy, mode), scene.ruled(&policy, mode));
        }
    }

    // req: T5
    #[test]
    fn to_call_itself_read_only_never_allows_more(rules in some_rules(), scene in a_scene()) {
        let policy = policy(&rules);
        let mut labelled = scene.clone();
        labelled.manifest.read_only = true;
        for mode in Mode::ALL {
            prop_assert!(labelled.ruled(&policy, mode).verdict >= scene.ruled(&policy, mode).verdict);
        }
    }

    // req: P1
    #[test]
    fn a_ruling_is_the_strictest_of_its_reasons_and_says_something_of_every_effect(
        rules in some_rules(),
        scene in a_scene(),
    ) {
        let policy = policy(&rules);
        for mode in Mode::ALL {
            let ruling = scene.ruled(&policy, mode);
            let strictest = ruling.reasons.iter().map(|reason| reason.verdict).max();
            // The one exception: a standing approval answered the question.
            let shown = if ruling.standing_approval.is_some() { Some(Verdict::Ask) } else { Some(ruling.verdict) };
            prop_assert_eq!(strictest, shown);
            prop_assert!(ruling.standing_approval.is_none() || ruling.verdict == Verdict::Allow);
            for (place, _) in (0..).zip(&scene.plan.effects) {
                prop_assert!(ruling.reasons.iter().any(|reason| reason.effects.contains(&place)));
            }
            for reason in &ruling.reasons {
                prop_assert!(!reason.message.is_empty());
                prop_assert!(reason.verdict != Verdict::Ask || reason.cause.is_some());
                prop_assert!(reason.verdict != Verdict::Deny || reason.cause.is_none());
                prop_assert!(reason.effects.is_sorted_by(|a, b| a < b));
                prop_assert_eq!(reason.rule.is_some(), reason.origin.is_some());
            }
            if let Some(decisive) = ruling.decisive_reason() && ruling.verdict == Verdict::Deny {
                prop_assert_eq!(decisive.verdict, Verdict::Deny);
            }
        }
    }

    // req: R10
    #[test]
    fn permitted_reads_never_ask_in_confirm_sensitive(
        rules in some_rules(),
        scene in a_scene(),
        paths in vec(a_text(PATHS), 1..4),
    ) {
        let policy = policy(&rules);
        let mut scene = scene;
        let effects = paths.into_iter().map(|path| Effect::Read { path }).collect();
        scene.plan = Plan { effects, read_only: true, ..Plan::default() };
        scene.tool_asks = false;
        scene.manifest.needs_approval = ApprovalRequirement::Never;
        if scene.manifest.sensitive == Some(true) {
            scene.manifest.sensitive = None;
        }
        let ruling = scene.ruled(&policy, Mode::ConfirmSensitive);
        let about_effects = |reason: &byleave_core::decision::DecisionReason| !reason.effects.is_empty();
        if ruling.reasons.iter().filter(|reason| about_effects(reason)).all(|reason| reason.verdict == Verdict::Allow) {
            prop_assert_eq!(ruling.verdict, Verdict::Allow);
            prop_assert_eq!(ruling.standing_approval, None);
        }
        let allowed = |effect: &Effect| matches!(effect, Effect::Read { path } if is_resolved(path));
        prop_assert!(ruling.verdict != Verdict::Allow || scene.plan.effects.iter().all(allowed));
    }

    #[test]
    fn what_is_not_understood_is_never_allowed_by_a_rule_or_a_leave(
        rules in some_rules(),
        scene in a_scene(),
        empty in any::<bool>(),
    ) {
        let policy = policy(&rules);
        let mut scene = scene;
        if empty {
            scene.plan.effects.clear();
        } else {
            scene.plan.effects.push(Effect::Unknown { reason: "x".into() });
        }
        for mode in [Mode::ConfirmAll, Mode::ConfirmSensitive, Mode::ConfirmDangerous] {
            let ruling = scene.ruled(&policy, mode);
            prop_assert!(ruling.verdict >= Verdict::Ask);
            let denied = ruling.verdict == Verdict::Deny;
            prop_assert!(denied || ruling.causes().contains(&AskCause::NotUnderstood));
        }
    }

    #[test]
    fn the_index_finds_just_the_rules_that_fit(rules in some_rules(), scene in a_scene()) {
        let policy = policy(&rules);
        let ready = |patterns: &[Pattern], sense: MatchCertainty| -> Vec<PatternMatcher> {
            patterns.iter().map(|pattern| PatternMatcher::with_certainty(pattern.clone(), sense).unwrap()).collect()
        };
        let mut slow: Vec<(u32, Layer, &str)> = Vec::new();
        // Compiled once per rule, because compiling is slow and matching is not.
        for rule in rules.iter().filter(|rule| rule.when == RuleCondition::default()) {
            let (about, except) = (ready(&rule.patterns, rule.certainty()), ready(&rule.except, rule.except_certainty()));
            let fits = |matchers: &[PatternMatcher], effect: &Effect| matchers.iter().any(|matcher| matcher.matches(effect));
            let effects = (0..).zip(&scene.plan.effects);
            let found = effects.filter(|(_, effect)| fits(&about, effect) && !fits(&except, effect));
            slow.extend(found.map(|(place, _)| (place, rule.layer, rule.id.as_str())));
        }
        slow.sort_unstable();
        let caller = caller();
        let found = policy.explain(&scene.request(Mode::Yolo, &caller));
        let found: Vec<_> = found.iter().filter(|one| one.rule.when == RuleCondition::default()).map(|one| (one.effect, one.rule.layer, one.rule.id.as_str())).collect();
        prop_assert_eq!(found, slow);
    }
}

// req: P3
#[test]
fn a_deny_fits_a_program_by_what_it_was_called_and_by_what_it_is() {
    // Under both names, in any location. Only an allow checks whether the file belongs to the system.
    for name in ["cargo", "rustup"] {
        for program in ["/home/u/.cargo/bin/rustup", "/w/bin/rustup", "/usr/bin/rustup"] {
            let rule = Rule::new("no", Layer::User, Verdict::Deny, vec![Pattern::Run(vec![name.into()])]);
            let policy = Policy::new(vec![rule]).unwrap();
            let run = Effect::Run { program: program.into(), argv: vec!["cargo".into(), "test".into()] };
            let plan = Plan { effects: vec![run], ..Plan::default() };
            let (manifest, session, agent) =
                (Manifest::for_commands("bash"), SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
            let ruling = policy.evaluate(&PolicyRequest::new(&manifest, &plan, &session, &agent));
            assert_eq!(ruling.verdict, Verdict::Deny, "{name} {program}");
        }
    }
}
