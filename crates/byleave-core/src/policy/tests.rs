//! Policy decisions on calls: cases as data.

use serde_json::json;

use super::*;
use crate::call::{Millis, Mode};
use crate::decision::{AskCause, PolicyDecision, Verdict};
use crate::effect::{Danger, Effect, Plan};
use crate::id::{AgentId, SessionId, StandingApprovalId};
use crate::manifest::{ApprovalRequirement, Manifest, PermissionClass};
use crate::pattern::Pattern;
use crate::standing_approval::{StandingApproval, StandingApprovalMatcher};

use Verdict::{Allow, Ask, Deny};

const PLACES: PathVariables<'_> = PathVariables {
    workspace: Some("/w"),
    home: Some("/home/u"),
    state: Some("/home/u/.local/state/byleave"),
    config: Some("/home/u/.config/byleave"),
};
const NOW: Millis = 1_000;

fn read(path: &str) -> Effect {
    Effect::Read { path: path.into() }
}
fn write(path: &str) -> Effect {
    Effect::Write { path: path.into() }
}
fn delete(path: &str) -> Effect {
    Effect::Delete { path: path.into() }
}
fn invoke(tool: &str) -> Effect {
    Effect::Invoke { tool: tool.into() }
}
fn unknown(why: &str) -> Effect {
    Effect::Unknown { reason: why.into() }
}
fn unconfined() -> Effect {
    Effect::Unconfined { guarantee: "network off".into() }
}
fn globs(globs: &[&str]) -> Vec<Pattern> {
    globs.iter().map(|glob| Pattern::Write((*glob).into())).collect()
}

fn tool(class: PermissionClass, sensitive: Option<bool>) -> Manifest {
    Manifest { permission_class: class, sensitive, ..Manifest::new("t", "", json!({})) }
}
fn plain() -> Manifest {
    tool(PermissionClass::File, Some(false))
}

fn policy(more: Vec<Rule>) -> Policy {
    Policy::new(builtin_rules(&PLACES).unwrap().into_iter().chain(more).collect()).unwrap()
}
fn rule(id: &str, layer: Layer, verdict: Verdict, patterns: Vec<Pattern>) -> Rule {
    Rule { reason: format!("{id} says {verdict:?}"), ..Rule::new(id, layer, verdict, patterns) }
}

fn leave(number: u128, scope: Vec<Pattern>) -> StandingApprovalMatcher {
    let id = StandingApprovalId::new(uuid::Uuid::from_u128(number));
    let leave =
        StandingApproval { id, tool: "t".into(), scope, session: None, expires_at: None, max_uses: None };
    StandingApprovalMatcher::new(leave).unwrap()
}

struct TestCall {
    manifest: Manifest,
    plan: Plan,
    mode: Mode,
    tool_asks: bool,
    leaves: Vec<StandingApprovalMatcher>,
}

impl TestCall {
    fn new(manifest: Manifest, effects: &[Effect]) -> Self {
        let reads_only = effects.iter().all(|effect| matches!(effect.kind(), "read" | "invoke"));
        let plan = Plan { effects: effects.to_vec(), read_only: reads_only, ..Plan::default() };
        Self { manifest, plan, mode: Mode::default(), tool_asks: false, leaves: Vec::new() }
    }
    fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
    fn leaves(self, leaves: Vec<StandingApprovalMatcher>) -> Self {
        Self { leaves, ..self }
    }
    fn ruled(&self, policy: &Policy) -> PolicyDecision {
        let session = SessionId::new("s").unwrap();
        let Self { manifest, plan, mode, tool_asks, leaves } = self;
        let (mode, tool_asks) = (*mode, *tool_asks);
        let agent = AgentId::new("a").unwrap();
        let (session, agent) = (&session, &agent);
        policy.evaluate(&PolicyRequest {
            manifest,
            plan,
            mode,
            tool_needs_approval: tool_asks,
            session,
            agent,
            standing_approvals: leaves,
            now: NOW,
            stage: EffectStage::Predicted,
            read_foreign: false,
        })
    }
    fn check(&self, policy: &Policy, verdict: Verdict, causes: &[AskCause]) -> PolicyDecision {
        let ruling = self.ruled(policy);
        assert_eq!((ruling.verdict, ruling.causes().as_slice()), (verdict, causes), "{ruling:#?}");
        ruling
    }
}

// req: P4
#[test]
fn the_built_in_rules_guard_secrets_and_our_state_and_open_the_workspace() {
    let policy = policy(vec![]);
    let cases: &[(Verdict, &[Effect])] = &[
        (
            Allow,
            &[
                read("/w"),
                read("/w/a"),
                read("/w/a/b.rs"),
                read("/w/.env.example"),
                read("/w/a/.environment"),
            ],
        ),
        (
            Ask,
            &[
                read("/"),
                read("/wx"),
                read("/etc/passwd"),
                write("/w/a"),
                delete("/w/a"),
                write("/w/.env.sample"),
            ],
        ),
        (
            Deny,
            &[
                read("/w/.env"),
                write("/w/a/.env"),
                delete("/.env"),
                read("/w/.env.local"),
                read("/w/.env.example.x"),
            ],
        ),
        (
            Deny,
            &[
                read("/home/u/.ssh"),
                write("/home/u/.ssh/authorized_keys"),
                delete("/home/u/.ssh"),
                read("/w/id_rsa"),
            ],
        ),
        (
            Deny,
            &[
                read("/w/a.pem"),
                read("/w/.pem"),
                read("/home/u/.aws/credentials"),
                read("/w/my-credentials.json"),
            ],
        ),
        (Deny, &[read("/w/a\nb.pem"), read("/w/new\nline/.env"), read("/home/u/.gnupg/x")]),
        (Deny, &[read("/home/u/.local/state/byleave"), write("/home/u/.local/state/byleave/book.db")]),
        (Deny, &[delete("/home/u/.local/state"), delete("/home/u"), delete("/home"), delete("/")]),
        (
            Ask,
            &[
                read("/home/u/.local/state"),
                delete("/home/u/.local/share"),
                write("/home/u/.local/state/byleave2"),
            ],
        ),
    ];
    for (verdict, effects) in cases {
        for effect in *effects {
            let ruling = TestCall::new(plain(), std::slice::from_ref(effect)).ruled(&policy);
            assert_eq!(ruling.verdict, *verdict, "{effect:?}");
        }
    }
}

#[test]
fn the_examples_of_the_built_in_rules_hold() {
    let file = RuleFile { name: "builtin.toml", layer: Layer::Builtin, text: BUILTIN_TOML };
    for places in [PLACES, PathVariables::default()] {
        let read = load_rules(&file, &places, &SkipExamples).unwrap();
        assert!(read.checked_count > 30, "{}", read.checked_count);
        assert_eq!(read.unchecked_examples, []);
    }
}

#[test]
fn directories_are_taken_literally() {
    let check = |workspace: &str, path: &str, verdict: Verdict| {
        let policy =
            Policy::builtin(&PathVariables { workspace: Some(workspace), ..PathVariables::default() })
                .unwrap();
        let ruling = TestCall::new(plain(), &[read(path)]).ruled(&policy);
        assert_eq!(ruling.verdict, verdict, "{workspace} / {path}");
    };
    check("/a*", "/a*/x", Allow);
    check("/a*", "/ab/x", Ask);
    check("/[ab]{c,d}?", "/[ab]{c,d}?/x", Allow);
    check("/[ab]{c,d}?", "/acx/x", Ask);
    check("/a\\*", "/a\\*/x", Allow);
    check("/a\\*", "/a*/x", Ask);
    check("/", "/x/y", Allow);
    check("/", "/", Allow);
    for workspace in ["", "w", "/w/", "/w/../x"] {
        let fault =
            Policy::builtin(&PathVariables { workspace: Some(workspace), ..PathVariables::default() })
                .unwrap_err();
        assert!(fault.to_string().contains("workspace"), "{fault}");
        assert!(Policy::builtin(&PathVariables { state: Some(workspace), ..PLACES }).is_err());
    }
}

// req: P1, P7
#[test]
fn deny_beats_ask_beats_allow_whatever_the_layer() {
    let on = |id: &str, layer, verdict| rule(id, layer, verdict, globs(&["/w/x"]));
    let check = |rules: Vec<Rule>, verdict: Verdict, decided: &[&str]| {
        let policy = policy(rules);
        let ruling = TestCall::new(plain(), &[write("/w/x")]).ruled(&policy);
        let named: Vec<&str> = ruling.reasons.iter().filter_map(|reason| reason.rule.as_deref()).collect();
        assert_eq!((ruling.verdict, named.as_slice()), (verdict, decided), "{ruling:#?}");
        assert_eq!(ruling.policy, policy.digest());
    };
    use Layer::{Builtin, Organisation, Project, Session, User};
    check(vec![], Ask, &[]);
    for layer in [Builtin, Organisation, User, Session] {
        check(vec![on("a", layer, Allow)], Allow, &["a"]);
        check(vec![on("a", layer, Allow), on("k", Project, Ask)], Ask, &["k"]);
        check(vec![on("a", layer, Allow), on("k", Builtin, Ask)], Ask, &["k"]);
        check(vec![on("a", layer, Allow), on("k", Session, Ask), on("d", Project, Deny)], Deny, &["d"]);
        check(vec![on("a", Organisation, Allow), on("d", layer, Deny)], Deny, &["d"]);
    }
    check(vec![on("k", Builtin, Ask), on("k2", User, Ask)], Ask, &["k", "k2"]);
}

#[test]
fn a_reason_says_which_rule_and_where() {
    let mut ours = rule("no-lock", Layer::User, Deny, globs(&["**/*.lock"]));
    ours.origin = Some("rules.toml:7".into());
    let case = TestCall::new(plain(), &[write("/w/a.lock"), read("/w/a"), write("/w/b.lock"), read("/w/b")]);
    let ruling = case.check(&policy(vec![ours]), Deny, &[]);
    let reason = &ruling.reasons[0];
    assert_eq!(reason.rule.as_deref(), Some("no-lock"));
    assert_eq!(reason.origin.as_deref(), Some("user, rules.toml:7"));
    assert_eq!((reason.effects.as_slice(), reason.message.as_str()), (&[0, 2][..], "no-lock says Deny"));
    assert_eq!(
        ruling.reasons[1].rule.as_deref(),
        Some("workspace-read"),
        "allowed effects are reported, too"
    );
    assert_eq!(ruling.reasons[1].effects, [1, 3], "and folded");
    assert_eq!(ruling.reasons.len(), 2);
}

// req: P6, T6
#[test]
fn classes_have_their_own_fallback() {
    let check = |class, effects: &[Effect], verdict, causes: &[AskCause]| {
        TestCall::new(tool(class, Some(false)), effects).check(&policy(vec![]), verdict, causes);
    };
    check(PermissionClass::Readonly, &[invoke("t")], Allow, &[]);
    check(PermissionClass::Readonly, &[invoke("t"), read("/w/a")], Allow, &[]);
    check(PermissionClass::Readonly, &[invoke("t"), read("/w/.env")], Deny, &[]);
    check(PermissionClass::Readonly, &[invoke("t"), read("/etc/passwd")], Ask, &[AskCause::Default]);
    // The tool's class is about the tool itself, and not about another tool that it uses or about its writes.
    check(PermissionClass::Readonly, &[invoke("other")], Ask, &[AskCause::Default]);
    check(PermissionClass::Readonly, &[invoke("t"), write("/w/a")], Ask, &[AskCause::Default]);
    check(PermissionClass::Generic, &[invoke("t")], Ask, &[AskCause::Default]);
    check(PermissionClass::Undeclared, &[invoke("t")], Ask, &[AskCause::Default, AskCause::Sensitive]);
    check(PermissionClass::File, &[read("/w/a")], Allow, &[]);

    // The plan's own claim that it only reads is not enough, even if the write itself is allowed.
    let ours = || vec![rule("w", Layer::Builtin, Allow, globs(&["/w/**"]))];
    let lying = |class, sensitive, effects: &[Effect], cause| {
        let mut case = TestCall::new(tool(class, sensitive), effects);
        case.plan.read_only = true;
        case.check(&policy(ours()), Ask, &[cause]);
    };
    lying(PermissionClass::Readonly, Some(false), &[invoke("t"), write("/w/a")], AskCause::Default);
    lying(PermissionClass::File, None, &[read("/w/a"), write("/w/a")], AskCause::Sensitive);

    let named = |verdict| rule("named", Layer::User, verdict, vec![Pattern::Invoke("t".into())]);
    for (class, verdict) in [
        (PermissionClass::Readonly, Deny),
        (PermissionClass::Generic, Allow),
        (PermissionClass::Undeclared, Allow),
    ] {
        TestCall::new(tool(class, Some(false)), &[invoke("t")]).check(
            &policy(vec![named(verdict)]),
            verdict,
            &[],
        );
    }
    let readonly = TestCall::new(tool(PermissionClass::Readonly, Some(false)), &[invoke("t")]);
    readonly.check(&policy(vec![named(Ask)]), Ask, &[AskCause::Rule]);
}

// req: T5
#[test]
fn undeclared_is_sensitive_unless_it_is_permitted_reads_or_allowed_in_so_many_words() {
    let w = |layer| rule("w", layer, Allow, globs(&["/w/**"]));
    let check = |sensitive, effects: &[Effect], rules: Vec<Rule>, causes: &[AskCause]| {
        let verdict = if causes.is_empty() { Allow } else { Ask };
        TestCall::new(tool(PermissionClass::File, sensitive), effects).check(&policy(rules), verdict, causes);
    };
    check(None, &[read("/w/a")], vec![], &[]);
    check(Some(true), &[read("/w/a")], vec![], &[AskCause::Sensitive]);
    check(None, &[read("/etc/a")], vec![], &[AskCause::Default, AskCause::Sensitive]);
    for layer in [Layer::Organisation, Layer::User, Layer::Session] {
        check(None, &[write("/w/a")], vec![w(layer)], &[]);
        check(Some(true), &[write("/w/a")], vec![w(layer)], &[]);
        // A built-in rule allows the read. It says nothing about this tool.
        check(None, &[write("/w/a"), read("/w/a")], vec![w(layer)], &[AskCause::Sensitive]);
    }
    check(None, &[write("/w/a")], vec![w(Layer::Builtin)], &[AskCause::Sensitive]);
    check(Some(false), &[write("/w/a")], vec![w(Layer::Builtin)], &[]);
}

// req: T8
#[test]
fn a_tool_that_asks_is_heard_whatever_the_rules_allow() {
    let allow = rule("w", Layer::User, Allow, globs(&["/w/**"]));
    let mut case = TestCall::new(plain(), &[write("/w/a")]);
    case.check(&policy(vec![allow.clone()]), Allow, &[]);
    case.tool_asks = true;
    case.check(&policy(vec![allow.clone()]), Ask, &[AskCause::ToolNeedsApproval]);
    case.tool_asks = false;
    case.manifest.needs_approval = ApprovalRequirement::Always;
    case.check(&policy(vec![allow.clone()]), Ask, &[AskCause::ToolNeedsApproval]);
    case.manifest.needs_approval = ApprovalRequirement::Depends;
    case.check(&policy(vec![allow]), Allow, &[]);
}

#[test]
fn what_is_not_understood_is_covered_by_no_rule() {
    let every: Vec<Pattern> = vec![
        Pattern::Read("**".into()),
        Pattern::Write("**".into()),
        Pattern::Delete("**".into()),
        Pattern::Invoke("**".into()),
    ];
    let policy = policy(vec![rule("all", Layer::User, Allow, every)]);
    let check = |effects: &[Effect], verdict, causes: &[AskCause]| {
        TestCall::new(plain(), effects).check(&policy, verdict, causes);
    };
    check(&[write("/w/a")], Allow, &[]);
    check(&[write("/w/a"), unknown("`$X`")], Ask, &[AskCause::NotUnderstood]);
    check(&[write("/w/a"), unconfined()], Ask, &[AskCause::Dangerous]);
    check(&[], Ask, &[AskCause::NotUnderstood]);
    let silent = TestCall::new(tool(PermissionClass::File, None), &[]);
    silent.check(&policy, Ask, &[AskCause::Sensitive, AskCause::NotUnderstood]);
    let decision =
        TestCall::new(plain(), &[unknown("s3cret"), unconfined(), write("/w/s3cret/")]).ruled(&policy);
    assert!(
        !format!("{decision:?}").contains("s3cret"),
        "a decision repeats nothing of the plan: {decision:#?}"
    );
    check(&[unknown("a"), read("/w/.env")], Deny, &[AskCause::NotUnderstood]);
    // A second spelling of a path would bypass rules on the first.
    for path in ["", "w/a", "/w/../home/u/.ssh/id", "/w//a", "/w/a/", "/w/./a"] {
        for mode in Mode::ALL {
            let ruling = TestCall::new(plain(), &[write(path)]).mode(mode).ruled(&policy);
            assert_eq!(ruling.verdict, Deny, "{path} in {mode:?}");
        }
    }
}

// req: R10, P2
#[test]
fn modes_and_causes() {
    let firm = Rule { firm: true, ..rule("firm", Layer::User, Ask, globs(&["/w/firm"])) };
    let dangerous = Rule { dangerous: true, ..rule("harm", Layer::User, Ask, globs(&["/w/harm"])) };
    let ask = rule("ask", Layer::User, Ask, globs(&["/w/ask", "/w/firm"]));
    let policy = policy(vec![firm, dangerous, ask, rule("ok", Layer::User, Allow, globs(&["/w/ok"]))]);
    // From confirm-all to yolo.
    let cases: &[(Effect, [Verdict; 4])] = &[
        (read("/w/a"), [Ask, Allow, Allow, Allow]),
        (write("/w/ok"), [Ask, Allow, Allow, Allow]),
        (write("/w/ask"), [Ask, Ask, Allow, Allow]),
        (write("/w/other"), [Ask, Ask, Allow, Allow]),
        (write("/w/firm"), [Ask, Ask, Ask, Allow]),
        (write("/w/harm"), [Ask, Ask, Ask, Allow]),
        (unknown("x"), [Ask, Ask, Ask, Allow]),
        (unconfined(), [Ask, Ask, Ask, Allow]),
        (read("/w/.env"), [Deny; 4]),
    ];
    for (effect, verdicts) in cases {
        for (mode, verdict) in Mode::ALL.into_iter().zip(verdicts) {
            let ruling = TestCall::new(plain(), std::slice::from_ref(effect)).mode(mode).ruled(&policy);
            assert_eq!(ruling.verdict, *verdict, "{effect} in {mode:?}");
            assert!(!ruling.reasons.is_empty());
        }
    }
    let passed = TestCall::new(plain(), &[unknown("x")]).mode(Mode::Yolo).ruled(&policy);
    assert_eq!(
        passed.reasons[0].cause,
        Some(AskCause::NotUnderstood),
        "an effect that would have asked is still reported"
    );
    assert_eq!(passed.reasons[0].message, "the effect could not be predicted; the mode `yolo` allows it");
    let mut gone = TestCall::new(plain(), &[write("/w/ok")]);
    gone.plan.irreversible = true;
    gone.check(&policy, Ask, &[AskCause::Irreversible]);
}

// req: E7
#[test]
fn what_a_rule_denies_in_some_call_may_be_denied() {
    let mut of_one = rule("one", Layer::User, Deny, globs(&["/w/x"]));
    of_one.when.agent = Some("other".into());
    let policy = policy(vec![of_one]);
    for (effect, may) in [
        (read("/w/.env"), true),
        (read("/w/.env.example"), false),
        (read("/w/a"), false),
        (write("/w/.git/config"), true),
        (write("/w/.git/index"), false),
        (write("/w/x"), true),
    ] {
        assert_eq!(policy.may_deny(&effect), may, "{effect}");
    }
    assert!(policy.may_ask(&write("/w/.github/workflows/ci.yml")));
    assert!(!policy.may_ask(&write("/w/a")), "no rule matches: not this case");
    assert_eq!(policy.strictest_restriction(&write("/w/.github/workflows/ci.yml")), Some(Ask));
    assert_eq!(policy.strictest_restriction(&write("/w/.git/config")), Some(Deny), "asked about, and denied");
    assert_eq!(policy.strictest_restriction(&write("/w/a")), None);
    let mut of_ours = policy.read_matchers(Deny).filter(|(place, _)| place == "/home/u/.local/state/byleave");
    assert!(of_ours.any(|(_, guard)| guard.matches(&read("/home/u/.local/state/byleave/book"))));
}

// req: P8
#[test]
fn a_rule_without_effects_is_about_whole_calls_in_its_mode_and_every_looser_one() {
    let everything = [
        &[read("/w/a")][..],
        &[unknown("x")],
        &[unconfined()],
        &[],
        &[read("/w/a"), write("/w/b"), unknown("x")],
    ];
    let about = |verdict, mode| {
        let when = RuleCondition { mode: Some(mode), ..RuleCondition::default() };
        policy(vec![Rule { when, ..rule("whole", Layer::Organisation, verdict, Vec::new()) }])
    };
    for effects in everything {
        let case = |mode| TestCall::new(plain(), effects).mode(mode);
        let denies = about(Deny, Mode::ConfirmDangerous);
        for (mode, is_denied) in [
            (Mode::ReadOnly, false),
            (Mode::ConfirmAll, false),
            (Mode::ConfirmSensitive, false),
            (Mode::ConfirmDangerous, true),
            (Mode::Yolo, true),
        ] {
            let ruling = case(mode).ruled(&denies);
            let by_it = ruling.reasons.iter().any(|reason| reason.rule.as_deref() == Some("whole"));
            assert_eq!(by_it, is_denied, "{effects:?} {mode:?}");
            assert!(!is_denied || ruling.verdict == Deny, "{effects:?} {mode:?}");
        }
        let asks = case(Mode::ConfirmSensitive).ruled(&about(Ask, Mode::ConfirmSensitive));
        assert!(asks.verdict == Ask && asks.causes().contains(&AskCause::Rule), "{effects:?}");
    }
}

#[test]
fn a_leave_answers_what_it_covers_and_may_answer() {
    let firm = Rule { firm: true, ..rule("firm", Layer::User, Ask, globs(&["/w/firm"])) };
    let dangerous = Rule { dangerous: true, ..rule("harm", Layer::User, Ask, globs(&["/w/harm"])) };
    let policy = policy(vec![firm, dangerous, rule("ask", Layer::Project, Ask, globs(&["/w/ask"]))]);
    let all = || vec![leave(1, vec![Pattern::Write("/**".into()), Pattern::Read("/**".into())])];
    let writes = || vec![leave(2, globs(&["/**"]))];
    let check = |case: &TestCall, verdict: Verdict| {
        let ruling = case.ruled(&policy);
        assert_eq!(ruling.verdict, verdict, "{ruling:#?}");
        assert_eq!(ruling.standing_approval.is_some(), verdict == Allow);
    };
    let of = |effects: &[Effect]| TestCall::new(plain(), effects);
    check(&of(&[write("/w/a")]).leaves(writes()), Allow);
    check(&of(&[write("/w/ask")]).leaves(writes()), Allow);
    check(&of(&[write("/w/a"), read("/w/b")]).leaves(writes()), Allow);
    check(&of(&[write("/w/a"), read("/etc/b")]).leaves(writes()), Ask);
    check(&of(&[write("/w/a"), read("/etc/b")]).leaves(all()), Allow);
    for effect in [write("/w/firm"), write("/w/harm"), unknown("x"), unconfined()] {
        check(&of(&[write("/w/a"), effect]).leaves(all()), Ask);
    }
    check(&of(&[]).leaves(all()), Ask);
    check(&of(&[write("/w/.env")]).leaves(all()), Deny);
    // A reason about the whole call needs a standing approval for every effect.
    let sensitive = |effects: &[Effect]| TestCall::new(tool(PermissionClass::File, Some(true)), effects);
    check(&sensitive(&[write("/w/a"), read("/w/b")]).leaves(writes()), Ask);
    check(&sensitive(&[write("/w/a"), read("/w/b")]).leaves(all()), Allow);
    check(&of(&[write("/w/a"), read("/w/b")]).mode(Mode::ConfirmAll).leaves(writes()), Ask);
    check(&of(&[write("/w/a"), read("/w/b")]).mode(Mode::ConfirmAll).leaves(all()), Allow);
    let mut gone = of(&[write("/w/a")]).leaves(all());
    gone.plan.irreversible = true;
    check(&gone, Ask);
}

// req: P3
#[test]
fn a_danger_is_asked_about_whatever_is_allowed_and_a_forbidden_one_is_denied_in_every_mode() {
    let policy = policy(vec![rule("all", Layer::User, Allow, globs(&["/w/**"]))]);
    let with = |denied: bool| {
        let mut case = TestCall::new(plain(), &[write("/w/a")]).leaves(vec![leave(1, globs(&["/**"]))]);
        case.plan.dangers = vec![Danger { id: "harm".into(), reason: "it harms".into(), denied }];
        case
    };
    TestCall::new(plain(), &[write("/w/a")]).check(&policy, Allow, &[]);
    for mode in [Mode::ConfirmAll, Mode::ConfirmSensitive, Mode::ConfirmDangerous] {
        assert_eq!(with(false).mode(mode).ruled(&policy).verdict, Ask, "{mode:?}");
    }
    for mode in Mode::ALL {
        let ruling = with(true).mode(mode).ruled(&policy);
        assert_eq!(ruling.verdict, Deny, "{mode:?}");
        let decisive = ruling.decisive_reason().unwrap();
        assert_eq!((decisive.rule.as_deref(), decisive.message.as_str()), (Some("harm"), "it harms"));
    }
}

#[test]
fn a_leave_holds_for_its_tool_session_and_time() {
    let policy = policy(vec![]);
    let check = |change: &dyn Fn(&mut StandingApproval), verdict| {
        let mut given = leave(1, globs(&["/w/**"])).standing_approval().clone();
        change(&mut given);
        let case = TestCall::new(plain(), &[write("/w/a")])
            .leaves(vec![StandingApprovalMatcher::new(given).unwrap()]);
        assert_eq!(case.ruled(&policy).verdict, verdict);
    };
    check(&|_| {}, Allow);
    check(&|leave| leave.tool = "other".into(), Ask);
    check(&|leave| leave.session = Some(SessionId::new("s").unwrap()), Allow);
    check(&|leave| leave.session = Some(SessionId::new("s2").unwrap()), Ask);
    check(&|leave| leave.expires_at = Some(NOW + 1), Allow);
    check(&|leave| leave.expires_at = Some(NOW), Ask);
}

#[test]
fn of_several_leaves_the_least_is_used() {
    let policy = policy(vec![]);
    let wide = leave(1, globs(&["/w/**", "/v/**"]));
    let (small, other) = (leave(3, globs(&["/w/**"])), leave(4, globs(&["/w/a"])));
    let mut leaves = vec![wide, other, small];
    for _ in 0..3 {
        leaves.rotate_left(1);
        let ruling = TestCall::new(plain(), &[write("/w/a")]).leaves(leaves.clone()).ruled(&policy);
        assert_eq!(ruling.standing_approval, Some(StandingApprovalId::new(uuid::Uuid::from_u128(3))));
        assert_eq!(
            ruling.causes(),
            [AskCause::Default],
            "an effect that the standing approval answered is still reported"
        );
    }
}

#[test]
fn the_guarantees_are_those_of_the_allow_that_decided() {
    let allow = |id: &str, layer, guarantees: &[&str]| Rule {
        guarantees: guarantees.iter().map(|text| (*text).into()).collect(),
        ..rule(id, layer, Allow, globs(&["/w/x"]))
    };
    let check = |rules: Vec<Rule>, guarantees: &[&str]| {
        let ruling = TestCall::new(plain(), &[write("/w/x")]).check(&policy(rules), Allow, &[]);
        assert_eq!(ruling.guarantees, guarantees);
    };
    let ours = || allow("b", Layer::Builtin, &["network off"]);
    check(vec![ours()], &["network off"]);
    check(vec![ours(), allow("u", Layer::User, &[])], &[]);
    check(vec![ours(), allow("u", Layer::User, &["b", "a"]), allow("u2", Layer::User, &["a"])], &["a", "b"]);
    check(vec![allow("o", Layer::Organisation, &["a"]), allow("u", Layer::User, &[])], &["a"]);
    let denied = TestCall::new(plain(), &[write("/w/x"), read("/w/.env")]).ruled(&policy(vec![ours()]));
    assert!(denied.guarantees.is_empty(), "a deny depends on nothing");
}

#[test]
fn a_built_in_ask_can_be_replaced_and_nothing_else() {
    use Layer::{Builtin, Organisation, Project, Session, User};
    let on = |layer, verdict| rule("k", layer, verdict, globs(&["/w/x"]));
    let check = |rules: Vec<Rule>, verdict| {
        let ruling = TestCall::new(plain(), &[write("/w/x")]).ruled(&policy(rules));
        assert_eq!(ruling.verdict, verdict, "{ruling:#?}");
    };
    check(vec![on(Builtin, Ask), on(User, Allow)], Allow);
    check(vec![on(Builtin, Ask), on(Organisation, Allow)], Allow);
    check(vec![on(Builtin, Ask), on(Session, Allow)], Ask);
    check(vec![on(Organisation, Ask), on(User, Allow)], Ask);
    check(vec![on(Builtin, Ask), on(Organisation, Ask), on(User, Allow)], Ask);
    let elsewhere = rule("k", Project, Ask, globs(&["/w/y"]));
    check(vec![on(Builtin, Ask), on(User, Allow), elsewhere.clone()], Allow);
    check(vec![on(Builtin, Ask), elsewhere], Ask);
    for (builtin, by) in [(Deny, Allow), (Deny, Deny), (Allow, Ask)] {
        let fault = Policy::new(vec![on(Builtin, builtin), on(User, by)]).unwrap_err();
        assert!(fault.to_string().contains("only a built-in `ask` can be replaced"), "{fault}");
    }
}

#[test]
fn stricter_is_what_allows_less_and_nothing_else() {
    let case = |leaves| TestCall::new(plain(), &[write("/w/a")]).leaves(leaves);
    let given = || vec![leave(1, globs(&["/w/**"]))];
    let with = |verdict| policy(vec![rule("x", Layer::User, verdict, globs(&["/w/a"]))]);
    let guaranteed = |names: &[&str]| {
        let guarantees = names.iter().map(|name| (*name).into()).collect();
        policy(vec![Rule { guarantees, ..rule("x", Layer::User, Allow, globs(&["/w/a"])) }])
    };
    let rulings = [with(Allow), with(Ask), with(Deny)].map(|policy| case(vec![]).ruled(&policy));
    for (i, then) in rulings.iter().enumerate() {
        for (k, now) in rulings.iter().enumerate() {
            assert_eq!(is_stricter(now, then), k > i);
        }
    }
    let asked = case(vec![]).ruled(&policy(vec![]));
    let left = case(given()).ruled(&policy(vec![]));
    assert!(is_stricter(&asked, &left), "the standing approval is gone");
    assert!(!is_stricter(&left, &asked), "a new standing approval voids nothing");
    let ruled = |names: &[&str]| case(vec![]).ruled(&guaranteed(names));
    assert!(is_stricter(&ruled(&["a", "b"]), &ruled(&["a"])));
    assert!(!is_stricter(&ruled(&["a"]), &ruled(&["a", "b"])));
    assert!(!is_stricter(&ruled(&["a"]), &asked), "looser, although the allow depends on something");
}

#[test]
fn explaining_names_every_rule_about_an_effect() {
    let policy = policy(vec![
        rule("ask", Layer::User, Ask, globs(&["/w/**"])),
        rule("allow", Layer::Session, Allow, globs(&["/w/a"])),
        rule("other", Layer::User, Deny, globs(&["/v/**"])),
    ]);
    let (manifest, session) = (plain(), SessionId::new("s").unwrap());
    let agent = AgentId::new("a").unwrap();
    let plan = Plan { effects: vec![read("/w/a"), write("/w/a")], ..Plan::default() };
    let (mode, leaves) = (Mode::default(), &[]);
    let request = PolicyRequest {
        manifest: &manifest,
        plan: &plan,
        mode,
        tool_needs_approval: false,
        session: &session,
        agent: &agent,
        standing_approvals: leaves,
        now: NOW,
        stage: EffectStage::Predicted,
        read_foreign: false,
    };
    let told: Vec<(u32, &str, bool)> = policy
        .explain(&request)
        .into_iter()
        .map(|one| (one.effect, one.rule.id.as_str(), one.decisive))
        .collect();
    assert_eq!(told, [(0, "workspace-read", true), (1, "ask", true), (1, "allow", false)]);
}

// req: P2, P4
#[test]
fn the_workspace_boundary_holds_in_every_mode() {
    use Mode::{ConfirmAll, ConfirmDangerous, ConfirmSensitive, Yolo};
    let all = |glob: &str| {
        vec![Pattern::Read(glob.into()), Pattern::Write(glob.into()), Pattern::Delete(glob.into())]
    };
    let rules = vec![
        rule("open", Layer::User, Allow, all("/open/**")),
        rule("asked", Layer::User, Ask, all("/{open,closed}/asked/**")),
        rule("tight", Layer::Project, Ask, all("/tight/**")),
    ];
    let within = policy(rules.clone()).with_workspace(PLACES.workspace);
    let classes = [
        PermissionClass::File,
        PermissionClass::Readonly,
        PermissionClass::Webfetch,
        PermissionClass::Generic,
        PermissionClass::Undeclared,
    ];
    let verdicts = |policy: &Policy, class: PermissionClass, effect: &Effect| {
        [ConfirmAll, ConfirmSensitive, ConfirmDangerous, Yolo].map(|mode| {
            TestCall::new(tool(class, Some(false)), std::slice::from_ref(effect))
                .mode(mode)
                .ruled(policy)
                .verdict
        })
    };
    for effect in [read, write, delete] {
        for class in classes {
            for path in ["/x", "/wx", "/", "/closed/asked/f", "/tight/f", "/openx", "/W/f"] {
                let effect = effect(path);
                let [most, some, less, none] = verdicts(&within, class, &effect);
                // A built-in rule denies deleting anything directly beneath the root.
                let asks = if effect.kind() == "delete" && !path.ends_with("/f") { Deny } else { Ask };
                assert_eq!((most, some), (asks, asks), "{class:?} {effect}");
                assert_eq!((less, none), (Deny, Deny), "{class:?} {effect}");
            }
            for path in ["/w/f", "/w/a/..b", "/open/f", "/open/asked/f"] {
                assert_eq!(verdicts(&within, class, &effect(path))[3], Allow, "{class:?} {}", effect(path));
            }
        }
    }
    // The sandbox confines commands, and without a workspace no boundary exists.
    assert_eq!(verdicts(&within, PermissionClass::Bash, &read("/x"))[3], Allow);
    assert_eq!(verdicts(&policy(rules.clone()), PermissionClass::File, &read("/x"))[3], Allow);
    // One path outside is enough. The digest covers the workspace, so a grant of another policy does not apply.
    let both = TestCall::new(plain(), &[write("/w/f"), read("/x")]).mode(Yolo).ruled(&within);
    assert_eq!(both.verdict, Deny);
    assert_eq!(
        both.decisive_reason().map(|reason| (reason.cause, reason.effects.clone())),
        Some((Some(AskCause::OutsideWorkspace), vec![1]))
    );
    let elsewhere = policy(rules.clone()).with_workspace(Some("/elsewhere"));
    assert!(within.digest() != elsewhere.digest() && within.digest() != policy(rules).digest());
}

// A list of allowed commands: everything else is denied, and so is what could not be predicted.
// req: P3
#[test]
fn a_deny_of_every_program_leaves_only_its_exceptions() {
    let run = |words: &[&str]| Effect::Run {
        program: format!("/usr/bin/{}", words[0]),
        argv: words.iter().map(|word| (*word).to_owned()).collect(),
    };
    let words = |text: &str| Pattern::Run(text.split(' ').map(str::to_owned).collect());
    let list = Rule {
        except: vec![words("ls"), words("git status")],
        ..rule("list", Layer::User, Deny, vec![words("*")])
    };
    let allow = rule("all", Layer::User, Allow, vec![words("ls"), words("git"), words("rm")]);
    let policy = policy(vec![list.clone(), allow]);
    let verdict = |effect: Effect| {
        let plan = Plan { effects: vec![effect], ..Plan::default() };
        let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
        let bash = Manifest::for_commands("bash");
        let request =
            PolicyRequest { mode: Mode::Yolo, ..PolicyRequest::new(&bash, &plan, &session, &agent) };
        policy.evaluate(&request).verdict
    };
    assert_eq!(verdict(run(&["ls", "-la"])), Allow);
    assert_eq!(verdict(run(&["git", "status", "--short"])), Allow);
    assert_eq!(verdict(run(&["git", "push"])), Deny);
    assert_eq!(verdict(run(&["rm", "x"])), Deny);
    assert_eq!(verdict(unknown("eval")), Deny);
    // An exception needs certainty: a program of that name somewhere else is not meant.
    let planted = Effect::Run { program: "/w/ls".into(), argv: vec!["ls".into()] };
    assert_eq!(verdict(planted), Deny);

    let error = |rule: Rule| Policy::new(vec![rule]).unwrap_err().to_string();
    let every = rule("x", Layer::User, Allow, vec![words("*")]);
    assert!(error(every).contains("cannot name every program"));
    let never = Rule { except: vec![words("*")], ..rule("x", Layer::User, Deny, vec![words("git")]) };
    assert!(error(never).contains("can never match"));
}

// req: P1
#[test]
fn a_remembering_ask_stands_in_for_a_missing_rule() {
    let host = |text: &str| vec![Pattern::Reach(text.into())];
    let docs = Rule { remember: true, ..rule("docs", Layer::User, Ask, host("docs.example")) };
    let call = |name: &str| {
        TestCall::new(
            tool(PermissionClass::Webfetch, Some(false)),
            &[Effect::Reach { host: name.into(), port: 443 }],
        )
    };
    call("docs.example").check(&policy(vec![docs.clone()]), Ask, &[AskCause::Rule]);
    call("other.example").check(&policy(vec![docs.clone()]), Ask, &[AskCause::Default]);
    // Another rule decides alone, also a looser one.
    for verdict in [Allow, Deny] {
        let other = rule("other", Layer::User, verdict, host("docs.example"));
        call("docs.example").check(&policy(vec![docs.clone(), other]), verdict, &[]);
    }
}
