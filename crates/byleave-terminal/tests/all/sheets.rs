//! Question views of every risk level.

use byleave_core::call::{Millis, Mode};
use byleave_core::decision::{PolicyDecision, Verdict};
use byleave_core::digest::Digest;
use byleave_core::effect::{Effect, Plan};
use byleave_core::entry::{Limits, ResolvedTool};
use byleave_core::id::{AgentId, CallId, QuestionId, SessionId};
use byleave_core::question::{Question, QuestionKind};
use byleave_core::question_view::QuestionView;
use serde_json::json;
use uuid::Uuid;

/// Returns one question of each risk level, and one about a result.
pub(crate) fn all() -> [QuestionView; 5] {
    let ordinary = sheet(QuestionKind::Approval, vec![Effect::Write { path: "/ws/a".into() }]);
    let grave = sheet(QuestionKind::Approval, vec![Effect::Delete { path: "/ws/a".into() }]);
    let mut is_final = ordinary.clone();
    is_final.plan.irreversible = true;
    let mut release = sheet(QuestionKind::Release, Vec::new());
    release.output = Some(byleave_core::outcome::Output::text("a result"));
    [ordinary, grave, is_final, sheet(QuestionKind::Checkpoint, Vec::new()), release]
}

fn sheet(kind: QuestionKind, effects: Vec<Effect>) -> QuestionView {
    QuestionView {
        question: Question {
            id: QuestionId::new(Uuid::from_u128(7)),
            kind,
            binding: Digest::compute(b"plan"),
            expires_at: Millis::MAX,
        },
        call: CallId::new(Uuid::from_u128(1)),
        session: SessionId::new("work").unwrap(),
        agent: AgentId::new("coder").unwrap(),
        lineage: Vec::new(),
        cwd: "/ws".into(),
        mode: Mode::ConfirmSensitive,
        resolved_tool: ResolvedTool {
            tool: "write_file".into(),
            manifest: Digest::compute(b"manifest"),
            operation: "write".into(),
            read_only: false,
            destructive: false,
            concurrency_safe: false,
            idempotent: false,
            checkpoint: kind == QuestionKind::Checkpoint,
            rehearsal: None,
            challenge: byleave_core::entry::ChallengeTerms::default(),
            limits: Limits::default(),
        },
        draft: 1,
        arguments: json!({"path": "/ws/a", "content": "x"}),
        first_arguments: None,
        reason: None,
        plan: Plan { effects, ..Plan::default() },
        decision: PolicyDecision {
            verdict: Verdict::Ask,
            reasons: Vec::new(),
            policy: Digest::compute(b"policy"),
            standing_approval: None,
            guarantees: Vec::new(),
            challenge: None,
            cached: false,
        },
        notes: Vec::new(),
        challenge: None,
        rehearsal: None,
        output: None,
    }
}
