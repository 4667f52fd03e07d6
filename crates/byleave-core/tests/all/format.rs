//! The description of the stored format is what this program writes.
//!
//! A change of a stored name or shape fails here. Write the description again with
//! `BYLEAVE_FORMAT=write cargo nextest run --workspace -E 'test(format::the_description)'`: its digest changes, and state
//! directories of the former draft are refused.

use std::path::Path;

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::call::Mode;
use byleave_core::challenge::{Challenge, ChallengeVerdict};
use byleave_core::digest::{ContentRef, Digest};
use byleave_core::effect::{Binding, BindingState, Danger, EarlierDataRef, Effect, Plan};
use byleave_core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind, FileRename, GitStatus};
use byleave_core::git_settings::GitSettingsChange;
use byleave_core::git_transport::{GitRefUpdate, GitService, GitTransport};
use byleave_core::id::{AdminActionId, AgentId, CallId, SessionId, StandingApprovalId, TenantId};
use byleave_core::outcome::{ExecutionStatus, Output};
use byleave_core::pattern::Pattern;
use byleave_core::pipeline::next_step;
use byleave_core::record::Record;
use byleave_core::rehearsal::{BeforeImageRoom, BlockedHost, NewWorktree, Rehearsal};
use byleave_core::session::{Ceiling, SessionNode};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::words::{CALL, NOW, WORDS, entry_for};

fn effects() -> Vec<Effect> {
    vec![
        Effect::Run { program: "/bin/ls".into(), argv: vec!["ls".into()] },
        Effect::Read { path: "/w/a".into() },
        Effect::Write { path: "/w/a".into() },
        Effect::Delete { path: "/w/a".into() },
        Effect::Reach { host: "example.com".into(), port: 443 },
        Effect::Send { host: "example.com".into(), port: 443 },
        Effect::Invoke { tool: "t".into() },
        Effect::Unconfined { guarantee: "network".into() },
        Effect::Unknown { reason: "r".into() },
    ]
}

fn plan() -> Plan {
    let binding = |path: &str, state| Binding { path: path.into(), state };
    Plan {
        effects: effects(),
        partial_effects: vec![Effect::Read { path: "/w".into() }],
        tentative_effects: vec![Effect::Write { path: "/w/a".into() }],
        contained_effects: vec![Effect::Delete { path: "/w/a".into() }],
        bindings: vec![
            binding("/w/a", BindingState::Missing),
            binding("/w/b", BindingState::Content(Digest::compute(b"b"))),
            binding("/w", BindingState::Directory { device: 1, inode: 2 }),
            binding("localhost:5432", BindingState::Listener { program: "p".into() }),
        ],
        read_only: true,
        irreversible: true,
        names_all_hosts: true,
        has_session_tmp: true,
        dangers: vec![Danger { id: "d".into(), reason: "r".into(), denied: true }],
        data: vec![EarlierDataRef {
            tool: "t".into(),
            call: CallId::new(Uuid::from_u128(8)),
            output: ContentRef { digest: Digest::compute(b"b"), size: 1 },
        }],
    }
}

fn output() -> Output {
    Output {
        text: "text".into(),
        is_error: true,
        error: Some("e".into()),
        data: Some(json!({})),
        truncated: true,
        execution_time_ms: 1,
        undo: Some(json!({})),
        outcome_unknown: false,
    }
}

fn rehearsal() -> Rehearsal {
    let node = |kind| Some(FileNode { kind, mode: 0o644, modified_ns: 1 });
    let change = |path: &str, before, after, git_status| FileChange {
        path: path.into(),
        before,
        after,
        git_status,
        diff: Some("-a\n+b\n".into()),
    };
    let file = FileNodeKind::File { size: 1, digest: Some(Digest::compute(b"f")) };
    let link = FileNodeKind::Link { target: "a".into() };
    let special = FileNodeKind::Special { kind: "fifo".into() };
    Rehearsal {
        changes: FileChanges {
            list: vec![
                change("/w/a", node(file), node(FileNodeKind::Directory), GitStatus::Tracked),
                change("/w/b", node(link), node(special), GitStatus::Ignored),
                change("/w/c", None, None, GitStatus::Untracked),
                change("/w/.git", None, None, GitStatus::Repository),
            ],
            renames: vec![FileRename { from: "/w/a".into(), to: "/w/b".into() }],
            caveats: vec!["c".into()],
        },
        scratch_files: 1,
        blocked_hosts: vec![BlockedHost { host: Some("example.com".into()), port: 443 }],
        git_transports: vec![GitTransport {
            url: "ssh://git.example/a".into(),
            host: "git.example".into(),
            port: 22,
            service: GitService::ReceivePack,
            updates: vec![GitRefUpdate {
                name: "refs/heads/a".into(),
                old: Some("1".into()),
                new: Some("2".into()),
            }],
            problem: Some("p".into()),
        }],
        leftover_processes: 1,
        reached_hosts: Vec::new(),
        run_by_git: Vec::new(),
        linked_names: vec!["/w/.github/ci.yml".into()],
        hidden_from_git: vec!["/w/lib.rs".into()],
        new_repositories: Vec::new(),
        git_settings: vec![GitSettingsChange {
            path: "/w/.git/config".into(),
            keys: vec!["user.name".into()],
            notes: vec!["n".into()],
            asks: vec!["a".into()],
        }],
        new_worktrees: vec![NewWorktree { repository: "/w/.git".into(), files: vec!["/w/t/.git".into()] }],
        before_image_room: BeforeImageRoom::Displaces,
        missing_guarantees: vec!["network".into()],
        status: ExecutionStatus::Succeeded,
        output: output(),
    }
}

fn admin_actions() -> Vec<AdminAction> {
    let approval = StandingApprovalId::new(Uuid::from_u128(7));
    let node = SessionNode {
        session: SessionId::new("child").unwrap(),
        parent: Some(SessionId::new("parent").unwrap()),
        agent: AgentId::new("a").unwrap(),
        ceiling: Ceiling {
            mode: Mode::ReadOnly,
            deny: vec![Pattern::Read("/w/**".into())],
            ask: vec![Pattern::Invoke("t".into())],
        },
    };
    let kinds = [
        AdminActionKind::Halt { reason: "r".into() },
        AdminActionKind::Lift,
        AdminActionKind::Revoke { standing_approval: approval },
        AdminActionKind::OpenSession(node),
        AdminActionKind::Forget { call: CallId::new(Uuid::from_u128(8)) },
        AdminActionKind::Waive { guarantees: vec!["network".into()], reason: "r".into() },
    ];
    let action = |kind| AdminAction {
        id: AdminActionId::new(Uuid::from_u128(9)),
        at: NOW,
        tenant: TenantId::new("local").unwrap(),
        actor: "ann".into(),
        kind,
    };
    kinds.map(action).into()
}

fn line(kind: &str, stored: &impl Serialize) -> String {
    let value: Value = serde_json::to_value(stored).unwrap();
    format!("{}\n", json!([kind, value]))
}

fn description() -> String {
    let record = Record::new(CALL);
    let next = next_step(&record);
    let mut text: String = WORDS.iter().map(|word| line("entry", &entry_for(&record, &next, word))).collect();
    text += &line("plan", &plan());
    text += &line("output", &output());
    text += &line("rehearsal", &rehearsal());
    let challenge = Challenge {
        assumptions: vec!["a".into()],
        failure_scenarios: vec!["f".into()],
        verdict: ChallengeVerdict::Stop,
        reason: "r".into(),
    };
    text += &line("challenge", &challenge);
    text + &admin_actions().iter().map(|action| line("admin action", action)).collect::<String>()
}

// req: A1
#[test]
fn the_description_of_the_format_is_what_is_stored() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/format-2-draft.jsonl");
    let text = description();
    if std::env::var("BYLEAVE_FORMAT").is_ok_and(|how| how == "write") {
        std::fs::write(&file, &text).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap();
    for (stored, described) in text.lines().zip(written.lines()) {
        assert_eq!(stored, described, "the stored format has changed");
    }
    assert_eq!(text.lines().count(), written.lines().count(), "the stored format has changed");
}
