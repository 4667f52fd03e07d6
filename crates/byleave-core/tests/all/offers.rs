//! Offers of standing approvals: each offer makes the next question unnecessary, and covers nothing that its
//! text does not say.
// req: R5

use std::sync::{Arc, LazyLock};

use byleave_core::approval_scopes::{ApprovalScope, ScopeWidth, approval_scopes, covers_question};
use byleave_core::call::Mode;
use byleave_core::decision::{AskCause, PolicyDecision, Verdict};
use byleave_core::digest::Digest;
use byleave_core::effect::{Danger, Effect, Plan};
use byleave_core::entry::{Limits, ResolvedTool};
use byleave_core::id::{AgentId, CallId, QuestionId, SessionId, StandingApprovalId};
use byleave_core::manifest::{Manifest, PermissionClass};
use byleave_core::pattern::Pattern;
use byleave_core::policy::{Layer, PathVariables, Policy, PolicyRequest, Rule, builtin_rules};
use byleave_core::question::{Question, QuestionKind};
use byleave_core::question_view::QuestionView;
use byleave_core::review::{ReviewNote, ReviewOutcome};
use byleave_core::standing_approval::{NotCoverableError, StandingApproval, StandingApprovalMatcher};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use uuid::Uuid;

const PLACES: PathVariables<'_> =
    PathVariables { workspace: Some("/w"), home: Some("/home/u"), state: Some("/state"), config: None };

/// The built-in rules, compiled once.
static OURS: LazyLock<Arc<Policy>> =
    LazyLock::new(|| Arc::new(Policy::new(builtin_rules(&PLACES).unwrap()).unwrap()));

/// A call that was evaluated, and can be evaluated again under a standing approval.
struct DecidedCall {
    manifest: Manifest,
    plan: Plan,
    mode: Mode,
    policy: Arc<Policy>,
}

impl DecidedCall {
    fn new(effects: Vec<Effect>) -> Self {
        let manifest = Manifest {
            sensitive: Some(false),
            permission_class: PermissionClass::Bash,
            ..Manifest::new("t", "", json!({}))
        };
        let plan = Plan { effects, ..Plan::default() };
        Self { manifest, plan, mode: Mode::ConfirmSensitive, policy: OURS.clone() }
    }

    fn ruled(&self, leaves: &[StandingApprovalMatcher]) -> PolicyDecision {
        let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
        let plain = PolicyRequest::new(&self.manifest, &self.plan, &session, &agent);
        self.policy.evaluate(&PolicyRequest { mode: self.mode, standing_approvals: leaves, ..plain })
    }

    fn asks_under(&self, scope: &[Pattern]) -> bool {
        self.ruled(&[given(scope)]).verdict != Verdict::Allow
    }

    fn sheet(&self) -> QuestionView {
        sheet(self.plan.clone(), self.ruled(&[]), self.mode)
    }

    fn offers(&self) -> Result<Vec<ApprovalScope>, NotCoverableError> {
        approval_scopes(&self.sheet())
    }
}

fn given(scope: &[Pattern]) -> StandingApprovalMatcher {
    let id = StandingApprovalId::new(Uuid::from_u128(1));
    let leave = StandingApproval {
        id,
        tool: "t".into(),
        scope: scope.to_vec(),
        session: None,
        expires_at: None,
        max_uses: None,
    };
    StandingApprovalMatcher::new(leave).unwrap()
}

fn sheet(plan: Plan, ruling: PolicyDecision, mode: Mode) -> QuestionView {
    QuestionView {
        question: Question {
            id: QuestionId::new(Uuid::from_u128(7)),
            kind: QuestionKind::Approval,
            binding: Digest::compute(b"plan"),
            expires_at: 1,
        },
        call: CallId::new(Uuid::from_u128(1)),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("a").unwrap(),
        lineage: Vec::new(),
        cwd: "/w".into(),
        mode,
        resolved_tool: ResolvedTool {
            tool: "t".into(),
            manifest: Digest::compute(b"manifest"),
            operation: "execute".into(),
            read_only: false,
            destructive: false,
            concurrency_safe: false,
            idempotent: false,
            checkpoint: false,
            rehearsal: None,
            challenge: byleave_core::entry::ChallengeTerms::default(),
            limits: Limits::default(),
        },
        draft: 1,
        arguments: json!({}),
        first_arguments: None,
        reason: None,
        plan,
        decision: ruling,
        notes: vec![],
        challenge: None,
        rehearsal: None,
        output: None,
    }
}

fn run(program: &str, words: &str) -> Effect {
    Effect::Run { program: program.into(), argv: words.split(' ').map(str::to_owned).collect() }
}
fn write(path: &str) -> Effect {
    Effect::Write { path: path.into() }
}
fn delete(path: &str) -> Effect {
    Effect::Delete { path: path.into() }
}
fn reach(host: &str, port: u16) -> Effect {
    Effect::Reach { host: host.into(), port }
}

fn words(effects: Vec<Effect>) -> Vec<(ScopeWidth, String)> {
    let offers = DecidedCall::new(effects).offers().unwrap();
    offers.into_iter().map(|offer| (offer.width, offer.description)).collect()
}

#[test]
fn the_narrowest_comes_first_and_each_is_said_in_words() {
    let check = |effects: Vec<Effect>, wanted: &[(ScopeWidth, &str)]| {
        let found = words(effects);
        let found: Vec<(ScopeWidth, &str)> =
            found.iter().map(|(breadth, words)| (*breadth, words.as_str())).collect();
        assert_eq!(found, wanted);
    };
    check(
        vec![run("/usr/bin/cargo", "cargo test --lib"), reach("example.org", 443)],
        &[
            (ScopeWidth::Exact, "run exactly `/usr/bin/cargo test --lib`; reach `example.org` on port 443"),
            (
                ScopeWidth::Program,
                "run `cargo test …`, with any further arguments; reach `example.org` on port 443",
            ),
            (
                ScopeWidth::Host,
                "run `cargo test …`, with any further arguments; reach `example.org` on ports 80 and 443",
            ),
        ],
    );
    check(
        vec![write("/w/notes/a b.md"), write("/w/notes/c\u{202e}.md")],
        &[
            (ScopeWidth::Exact, "write `/w/notes/a b.md`, `/w/notes/c⟨U+202E⟩.md`"),
            (ScopeWidth::Directory, "write anything directly in `/w/notes`"),
            (ScopeWidth::Workspace, "write anything beneath `/w`"),
        ],
    );
    let invoke = Effect::Invoke { tool: "mcp_a_x".into() };
    check(vec![invoke], &[(ScopeWidth::Tool, "use the tool `mcp_a_x`, with any arguments")]);
    // A path outside of the workspace is never widened to its directory.
    check(vec![write("/x.md")], &[(ScopeWidth::Exact, "write `/x.md`")]);
    check(
        vec![reach("example.org", 22)],
        &[
            (ScopeWidth::Exact, "reach `example.org` on port 22"),
            (ScopeWidth::Host, "reach `example.org` on any port"),
        ],
    );
}

// opencode#40158: a standing approval for `git status && rm -rf ./tmp` applied to every rm.
#[test]
fn a_leave_on_one_rm_is_not_one_for_rm() {
    let effects =
        vec![run("/usr/bin/git", "git status"), run("/usr/bin/rm", "rm -rf ./tmp"), delete("/w/tmp")];
    let offers = DecidedCall::new(effects).offers().unwrap();
    for offer in &offers {
        let leave = given(&offer.patterns);
        for other in ["rm -rf /home/u", "rm -rf ./tmp ./src", "rm -rf ./tmp --no-preserve-root", "rm x", "rm"]
        {
            assert!(!leave.covers(&run("/usr/bin/rm", other)), "{other}: {offer:?}");
        }
        assert!(!leave.covers(&delete("/home/u/x")), "{offer:?}");
    }
}

#[test]
fn what_runs_anything_is_offered_as_it_is_or_not_at_all() {
    for (program, line) in [
        ("/usr/bin/bash", "bash deploy now"),
        ("/usr/bin/env", "env true"),
        ("/usr/bin/sudo", "sudo apt install x"),
        ("/usr/bin/xargs", "xargs rm"),
        ("/usr/bin/python3.12", "python3 -c print"),
        ("/usr/bin/python3.12", "python3 script arg"),
        ("/usr/bin/busybox", "sh x"),
        ("/usr/bin/docker", "docker run image"),
        ("/usr/bin/npm", "npm exec thing"),
        ("/usr/bin/git", "git config core.pager x"),
        ("/usr/bin/git", "git -c x push"),
        ("/usr/bin/terraform", "terraform"),
        ("/usr/bin/prettier", "prettier --write a"),
        ("/usr/bin/gh", "gh api"),
    ] {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let Ok(offers) = DecidedCall::new(vec![run(program, line)]).offers() else { continue };
        for offer in &offers {
            assert!(offer.patterns.iter().all(|pattern| matches!(pattern, Pattern::RunExact(_))));
            let more =
                Effect::Run { program: program.into(), argv: [argv.clone(), vec!["more".into()]].concat() };
            assert!(!given(&offer.patterns).covers(&more), "{line}: {offer:?}");
        }
    }
    let scene = DecidedCall::new(vec![run("/usr/bin/tidy", "tidy out"), write("/w/out")]);
    assert!(scene.offers().unwrap().iter().all(|offer| offer.width != ScopeWidth::Program));
}

// `git checkout -b x` makes a branch. A standing approval for `git checkout …` would let `git checkout -- '*'` discard
// uncommitted work.
#[test]
fn the_first_words_stand_for_no_form_that_does_more() {
    for (shown, others) in [
        ("git checkout -b x", &["git checkout -- *", "git checkout -b y", "git checkout -B x HEAD~9"][..]),
        ("git checkout main", &["git checkout *", "git checkout main -- *", "git checkout --ours ."]),
        ("git tag v1", &["git tag -d v1", "git tag -f v1", "git tag v2"]),
        ("git branch x", &["git branch -M x main", "git branch -D main"]),
        ("git stash push", &["git stash push -u", "git stash pop"]),
        ("git stash list", &["git stash list --all", "git stash drop"]),
        ("git commit -m x", &["git commit -m x --amend", "git commit --amend"]),
        ("git reset a", &["git reset --keep HEAD~3", "git reset a b"]),
        ("git fetch https://example.org/x", &["git fetch --prune", "git fetch . +HEAD~3:main"]),
        ("git worktree list", &["git worktree prune", "git worktree remove x"]),
        ("cargo fmt --check", &["cargo fmt", "cargo fmt --all"]),
        ("cargo clippy", &["cargo clippy --fix"]),
        ("cargo add x", &["cargo add y"]),
        ("npm install x", &["npm install y"]),
        ("npm run clean", &["npm run other", "npm run clean -- src", "npm exec clean"]),
        ("npm test", &["npm test -- -u"]),
        ("yarn run rimraf out", &["yarn run rimraf src"]),
        ("gh pr view 1", &["gh pr merge 1", "gh repo delete x"]),
        ("docker ps", &["docker system prune", "docker ps --all"]),
        ("tool list", &["tool list --purge", "tool"]),
        ("terraform plan", &["terraform plan -destroy", "terraform apply"]),
    ] {
        let program = format!("/usr/bin/{}", shown.split(' ').next().unwrap());
        let offers = DecidedCall::new(vec![run(&program, shown)]).offers().unwrap();
        for offer in &offers {
            assert!(given(&offer.patterns).covers(&run(&program, shown)), "{shown}: {offer:?}");
            for other in others {
                assert!(!given(&offer.patterns).covers(&run(&program, other)), "{other}: {offer:?}");
            }
        }
    }
    for (shown, other) in [
        ("cargo test", "cargo test --lib a"),
        ("go build ./x", "go build ./y"),
        ("gh pr view 1", "gh pr view 2 --comments"),
    ] {
        let program = format!("/usr/bin/{}", shown.split(' ').next().unwrap());
        let offers = DecidedCall::new(vec![run(&program, shown)]).offers().unwrap();
        let covers = |offer: &ApprovalScope| given(&offer.patterns).covers(&run(&program, other));
        assert!(offers.iter().any(covers), "{other}: {offers:?}");
    }
}

/// `find . -name '*.o' -delete` and similar: the effect names the directory, but means something beneath it.
fn somewhere(line: &str, effect: Effect) -> DecidedCall {
    let program = format!("/usr/bin/{}", line.split(' ').next().unwrap());
    let mut scene = DecidedCall::new(vec![run(&program, line), effect.clone()]);
    scene.plan.partial_effects = vec![effect];
    scene
}

// req: R5
#[test]
fn something_beneath_a_directory_is_offered_as_the_very_same_command_only() {
    let shown = somewhere("find . -name *.o -delete", delete("/w"));
    let offers = shown.offers().unwrap();
    let [offer] = offers.as_slice() else { panic!("{offers:?}") };
    assert_eq!(offer.width, ScopeWidth::Exact);
    assert_eq!(
        offer.description,
        "exactly this command: run `/usr/bin/find . -name '*.o' -delete`; delete something beneath `/w`"
    );
    assert!(!shown.asks_under(&offer.patterns), "the very same is spared");
    assert_eq!(covers_question(&shown.sheet(), &offer.patterns), Ok(()));
    for (other, why) in [
        (somewhere("find . -delete", delete("/w")), "other words"),
        (somewhere("find . -name *.o -delete", delete("/w/src")), "another place"),
        (somewhere("find . -name *.o -delete", write("/w")), "another effect"),
        (DecidedCall::new(vec![delete("/w")]), "the whole directory"),
        (
            DecidedCall::new(vec![run("/usr/bin/rm", "rm -r /w"), delete("/w")]),
            "the whole directory, by another program",
        ),
    ] {
        assert!(other.asks_under(&offer.patterns), "{why}");
    }
    let mut more = somewhere("find . -name *.o -delete", delete("/w"));
    more.plan.effects.push(write("/w/x"));
    assert!(more.asks_under(&offer.patterns), "and something else");
}

// req: R5
#[test]
fn what_the_words_do_not_tell_apart_is_not_offered_at_all() {
    // A word that is known only at run time can differ the next time.
    let unknown = somewhere("find . -name … -delete", delete("/w"));
    assert!(matches!(unknown.offers(), Err(NotCoverableError::NotExpressible(_))));
    // A tool whose effects do not include its arguments.
    let mut silent = DecidedCall::new(vec![delete("/w/a")]);
    silent.plan.partial_effects = vec![delete("/w/a")];
    assert!(matches!(silent.offers(), Err(NotCoverableError::NotExpressible(_))));
    let mut long = somewhere("find . -delete", delete("/w"));
    long.plan.effects.extend((0..300).map(|number| delete(&format!("/w/{number}"))));
    assert!(matches!(long.offers(), Err(NotCoverableError::NotExpressible(_))));
}

// A standing approval from before effects were marked, or for a path that has since become a directory.
// req: R5
#[test]
fn a_path_alone_covers_nothing_beneath_it() {
    let scene = somewhere("find a -delete", delete("/w/a"));
    let run = Pattern::Run(vec!["find".into()]);
    for (globs, spared) in [
        (&["/w/a"][..], false),
        (&["/w/*"], false),
        (&["/w/a", "/w/a/*"], false),
        (&["/w/**/a"], false),
        (&["/w/a/**"], false),
        (&["/w/a", "/w/a/**"], true),
        (&["/w/**"], true),
        (&["/**"], true),
    ] {
        let mut scope = vec![run.clone()];
        scope.extend(globs.iter().map(|glob| Pattern::Delete((*glob).into())));
        assert_eq!(!scene.asks_under(&scope), spared, "{globs:?}");
        assert_eq!(covers_question(&scene.sheet(), &scope).is_ok(), spared, "{globs:?}");
    }
    let named = DecidedCall::new(vec![delete("/w/a")]);
    assert!(!named.asks_under(&[Pattern::Delete("/w/a".into())]), "a directory that was named");
}

#[test]
fn where_a_leave_would_not_help_it_is_said_why() {
    let mut scene = DecidedCall::new(vec![write("/w/a")]);
    let check = |sheet: &QuestionView, wanted: NotCoverableError| {
        assert_eq!(approval_scopes(sheet).unwrap_err(), wanted)
    };
    let mut question = scene.sheet();
    question.question.kind = QuestionKind::Checkpoint;
    check(&question, NotCoverableError::Checkpoint);
    question.question.kind = QuestionKind::Release;
    check(&question, NotCoverableError::OutputRelease);
    let mut held = scene.sheet();
    held.notes =
        vec![ReviewNote { reviewer: "r".into(), outcome: ReviewOutcome::Held, reason: None, cached: false }];
    check(&held, NotCoverableError::HeldByReviewer("r".into()));
    scene.plan.irreversible = true;
    assert!(matches!(scene.offers(), Err(NotCoverableError::Cause { cause: AskCause::Irreversible, .. })));
    scene.plan.irreversible = false;
    scene.plan.dangers = vec![Danger { id: "d".into(), reason: "it burns".into(), denied: false }];
    let said = scene.offers().unwrap_err().to_string();
    assert_eq!(said, "a call that could do great harm is asked about every time: it burns");
    let scene = DecidedCall::new(vec![write("/w/a"), write("/w/b")]);
    let narrow = covers_question(&scene.sheet(), &[Pattern::Write("/w/a".into())]);
    assert_eq!(narrow, Err(NotCoverableError::NotCovered("write /w/b".into())));
    for effects in [
        vec![Effect::Unknown { reason: "x".into() }],
        vec![Effect::Unconfined { guarantee: "x".into() }],
        vec![],
        vec![run("/usr/bin/git", "git push …")],
        vec![reach("example.org", 0)],
        vec![run("nowhere", "nowhere x")],
    ] {
        let scene = DecidedCall::new(effects);
        let said = scene.offers();
        assert!(said.is_err(), "{:?}: {said:?}", scene.plan);
    }
}

const PATHS: &[&str] =
    &["/w/a", "/w/a/b", "/w/a/c", "/w/d[1]/{x}*", "/w/a\\b", "/v/a/b", "/v/a", "/", "/w", "/w/é", "/w/.x"];
const LINES: &[&str] = &[
    "git push",
    "git push origin",
    "git push --force x",
    "git status",
    "rm a",
    "rm -rf a",
    "cargo build",
    "cargo run x",
    "npm run build",
    "npm run build more",
    "npm run other",
    "sh build",
    "tool a",
];
const PROGRAMS: &[&str] = &["/usr/bin/", "/w/bin/", "/home/u/.cargo/bin/"];

fn an_effect() -> impl Strategy<Value = Effect> {
    let path = || select(PATHS).prop_map(str::to_owned);
    prop_oneof![
        3 => (select(PROGRAMS), select(LINES)).prop_map(|(dir, line)| {
            run(&format!("{dir}{}", line.split(' ').next().unwrap()), line)
        }),
        1 => select(LINES).prop_map(|line| run("/usr/bin/busybox", line)),
        2 => path().prop_map(|path| Effect::Read { path }),
        3 => path().prop_map(|path| Effect::Write { path }),
        2 => path().prop_map(|path| Effect::Delete { path }),
        1 => (select(&["example.org", "a.example.org", "::1", "10.0.0.1"][..]), select(&[443_u16, 80, 22][..]))
            .prop_map(|(host, port)| reach(host, port)),
        1 => (select(&["example.org", "a.example.org", "::1"][..]), select(&[443_u16, 22][..]))
            .prop_map(|(host, port)| Effect::Send { host: host.into(), port }),
        1 => select(&["t", "u"][..]).prop_map(|tool| Effect::Invoke { tool: tool.to_owned() }),
    ]
}

fn a_scene() -> impl Strategy<Value = DecidedCall> {
    let rules = vec((an_effect(), select(vec![Verdict::Ask, Verdict::Allow]), 0..4_u8), 0..4);
    let manifest = (
        select(vec![None, Some(true), Some(false)]),
        select(vec![PermissionClass::Bash, PermissionClass::Generic]),
    );
    let modes = select(vec![Mode::ConfirmSensitive, Mode::ConfirmAll, Mode::ConfirmDangerous]);
    (vec(an_effect(), 0..5), rules, manifest, modes, prop::bool::weighted(0.1)).prop_map(
        |(effects, rules, (sensitive, permission_class), mode, irreversible)| {
            let mut scene = DecidedCall::new(effects);
            let rules = (0..).zip(rules).filter_map(|(number, (effect, verdict, mark))| {
                let pattern = match effect {
                    Effect::Run { argv, .. } => Pattern::Run(argv),
                    Effect::Write { path } if path.starts_with("/w/a") => Pattern::Write("/w/**".into()),
                    Effect::Reach { host, .. } => Pattern::Reach(host),
                    Effect::Send { host, .. } => Pattern::Send(host),
                    _ => return None,
                };
                let rule = Rule::new(format!("r{number}"), Layer::User, verdict, vec![pattern]);
                let asks = verdict == Verdict::Ask;
                Some(Rule { firm: asks && mark == 1, dangerous: asks && mark == 2, ..rule })
            });
            scene.policy = Arc::new(Policy::new(rules.collect()).unwrap());
            scene.manifest.sensitive = sensitive;
            scene.manifest.permission_class = permission_class;
            scene.mode = mode;
            scene.plan.irreversible = irreversible;
            scene
        },
    )
}

/// Tests whether an offer's text mentions an effect, independently of its patterns.
fn is_said(offer: &ApprovalScope, plan: &Plan, effect: &Effect) -> bool {
    let same = |one: &Effect| one == effect;
    if plan.effects.iter().any(same) {
        return true;
    }
    let parent = |path: &str| path.rsplit_once('/').map(|(dir, _)| dir.to_owned());
    let alike = |one: &Effect| match (one, effect) {
        // Two words in common, for a program with subcommands.
        (Effect::Run { argv: a, .. }, Effect::Run { argv: b, .. }) => {
            let known = ["git", "cargo", "npm", "tool"].contains(&a[0].as_str());
            let wide = offer
                .description
                .contains(&format!("{} …`", a.iter().take(2).cloned().collect::<Vec<_>>().join(" ")))
                || offer
                    .description
                    .contains(&format!("{} …`", a.iter().take(3).cloned().collect::<Vec<_>>().join(" ")));
            known && wide && a.len() > 1 && b.len() > 1 && a[..2] == b[..2]
        }
        // A port of this machine is the same under its three names. The words are "reach and send to".
        (
            Effect::Reach { host: a, port: p } | Effect::Send { host: a, port: p },
            Effect::Reach { host: b, port: q } | Effect::Send { host: b, port: q },
        ) if [a, b].iter().all(|host| ["localhost", "127.0.0.1", "::1"].contains(&host.as_str())) => {
            p == q || offer.width >= ScopeWidth::Host
        }
        (Effect::Reach { host: a, .. }, Effect::Reach { host: b, .. }) => {
            a == b && offer.width >= ScopeWidth::Host
        }
        // The words are "reach and send to".
        (
            Effect::Send { host: a, port: p },
            Effect::Reach { host: b, port: q } | Effect::Send { host: b, port: q },
        ) => a == b && (p == q || offer.width >= ScopeWidth::Host),
        (Effect::Invoke { .. }, _) => false,
        (a, b) => match (a.path(), b.path()) {
            (Some(a_path), Some(b_path)) if a.kind() == b.kind() => {
                let dir = offer.width == ScopeWidth::Directory && parent(a_path) == parent(b_path);
                let all = [ScopeWidth::Workspace, ScopeWidth::Tool].contains(&offer.width)
                    && a_path.starts_with("/w/")
                    && b_path.starts_with("/w/");
                dir || all
            }
            _ => false,
        },
    };
    plan.effects.iter().any(alike)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_offer_spares_the_same_question(scene in a_scene()) {
        prop_assume!(scene.ruled(&[]).verdict == Verdict::Ask);
        match scene.offers() {
            Ok(offers) => {
                prop_assert!(!offers.is_empty());
                for offer in offers {
                    prop_assert!(!scene.asks_under(&offer.patterns), "{offer:?}");
                    prop_assert_eq!(covers_question(&scene.sheet(), &offer.patterns), Ok(()));
                }
            }
            Err(NotCoverableError::NotExpressible(_)) => {}
            Err(why) => {
                // The policy agrees: not even a standing approval for everything is enough.
                let mut scope: Vec<Pattern> = vec![Pattern::Read("/**".into()), Pattern::Write("/**".into())];
                scope.extend([Pattern::Delete("/**".into()), Pattern::Send("*:*".into()), Pattern::Invoke("*".into())]);
                for effect in &scene.plan.effects {
                    if let Effect::Run { program, .. } = effect {
                        scope.push(Pattern::Run(vec![program.clone()]));
                    }
                }
                prop_assert!(scene.asks_under(&scope), "{why}");
            }
        }
    }

    #[test]
    fn no_offer_is_wider_than_its_words(scene in a_scene(), others in vec(an_effect(), 30)) {
        let Ok(offers) = scene.offers() else { return Ok(()) };
        let exact = offers.first().map(|offer| given(&offer.patterns));
        for offer in &offers {
            let leave = given(&offer.patterns);
            for effect in &others {
                prop_assert!(!leave.covers(effect) || is_said(offer, &scene.plan, effect), "{effect}\n{offer:?}");
                // Every offer covers at least what the narrowest covers.
                let narrow = exact.as_ref().is_some_and(|exact| exact.covers(effect));
                prop_assert!(!narrow || leave.covers(effect), "{effect}\n{offer:?}");
            }
        }
        prop_assert!(offers.is_sorted_by_key(|offer| offer.width));
    }
}

impl std::fmt::Debug for DecidedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?} {:?}", self.mode, self.manifest.sensitive, self.plan)
    }
}
