//! Writes records as a gate does, without a gate.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::core::admin_action::{AdminAction, AdminActionKind};
use byleave_gate::core::call::Mode;
use byleave_gate::core::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use byleave_gate::core::digest::{ContentRef, Digest, RecordKey};
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::entry::{CallHeader, Entry, Limits, RecordEvent, ResolvedTool, ValidDraft};
use byleave_gate::core::hash_chain::ChainedEntry;
use byleave_gate::core::id::{
    AdminActionId, AgentId, AttemptId, CallId, OwnerId, QuestionId, SessionId, StandingApprovalId, TenantId,
};
use byleave_gate::core::outcome::{ExecutionEnd, ExecutionStatus};
use byleave_gate::core::pattern::Pattern;
use byleave_gate::core::pipeline::{NextStep, RECORD_VERSION, Task, next_step};
use byleave_gate::core::question::{Answer, ApproverIdentity, Assurance, Question, RecordedAnswer};
use byleave_gate::core::record::{Attempt, Record};
use byleave_gate::core::review::Review;
use byleave_gate::core::standing_approval::StandingApproval;
use byleave_gate::ledger::{
    AppendError, AttemptStart, Batch, CallSummary, Ledger, PendingQuestion, RecordContent,
};
use uuid::Uuid;

/// A clock that only these tests advance.
static CLOCK: AtomicU64 = AtomicU64::new(1_000_000);

pub(crate) fn now() -> u64 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

pub(crate) fn unsealed() -> SqliteOptions {
    SqliteOptions { seal_every: None, ..SqliteOptions::default() }
}

pub(crate) fn open(dir: &Path) -> SqliteLedger {
    SqliteLedger::open(dir, &unsealed()).unwrap()
}

pub(crate) fn tenant() -> TenantId {
    TenantId::new("local").unwrap()
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn act(deed: AdminActionKind) -> AdminAction {
    AdminAction {
        id: AdminActionId::new(Uuid::now_v7()),
        at: now(),
        tenant: tenant(),
        actor: "ada".into(),
        kind: deed,
    }
}

pub(crate) fn write_to(path: &str) -> Vec<Effect> {
    vec![Effect::Write { path: path.into() }]
}

/// One call and the entries written for it.
pub(crate) struct RecordWriter {
    pub(crate) call: CallId,
    pub(crate) record: Record,
    pub(crate) key: RecordKey,
    pub(crate) session: SessionId,
    pub(crate) summary: String,
    pub(crate) concurrency_safe: bool,
    pub(crate) question_ms: u64,
    pub(crate) uses_max: Option<u32>,
    plan: Plan,
    written: (u32, Digest),
    lines: Vec<ChainedEntry>,
    entries: Vec<Entry>,
    contents: Vec<RecordContent>,
}

impl RecordWriter {
    pub(crate) fn new(in_session: &str, effects: Vec<Effect>) -> Self {
        let call = CallId::new(Uuid::now_v7());
        let mut key = [0; 32];
        getrandom::fill(&mut key).unwrap();
        Self {
            call,
            record: Record::new(call),
            key: RecordKey::from_bytes(key),
            session: session(in_session),
            summary: "writes a line".into(),
            concurrency_safe: false,
            question_ms: 60_000,
            uses_max: None,
            plan: Plan { effects, ..Plan::default() },
            written: (0, byleave_gate::core::hash_chain::GENESIS),
            lines: Vec::new(),
            entries: Vec::new(),
            contents: Vec::new(),
        }
    }

    pub(crate) fn hold(&mut self, bytes: &[u8]) -> ContentRef {
        let held = self.key.content_ref(bytes);
        self.contents.push(RecordContent { content_ref: held, bytes: bytes.to_vec() });
        held
    }

    pub(crate) fn put(&mut self, fact: RecordEvent) -> &mut Self {
        let entry = Entry { at: now(), event: fact };
        self.lines.push(self.record.push(entry.clone()).unwrap());
        self.entries.push(entry);
        self
    }

    /// From the start to the question or the claim.
    pub(crate) fn ruled(&mut self, verdict: Verdict, leave: Option<StandingApprovalId>) -> &mut Self {
        let arguments = self.hold(br#"{"path":"/w/secret-path"}"#);
        let plan = serde_json::to_vec(&self.plan).unwrap();
        let held = self.hold(&plan);
        let head = self.plan.summarize(&self.key, held);
        self.put(RecordEvent::Received(CallHeader {
            record_version: RECORD_VERSION,
            tenant: tenant(),
            session: self.session.clone(),
            agent: AgentId::new("agent").unwrap(),
            lineage: Vec::new(),
            tool: "append_line".into(),
            arguments,
            reason: None,
            cwd: "/w".into(),
            mode: Mode::default(),
            dry_run: false,
        }));
        self.put(RecordEvent::Resolved(Ok(ResolvedTool {
            tool: "append_line".into(),
            manifest: Digest::compute(b"manifest"),
            operation: "write".into(),
            read_only: false,
            destructive: false,
            concurrency_safe: self.concurrency_safe,
            idempotent: true,
            checkpoint: false,
            rehearsal: None,
            challenge: byleave_gate::core::entry::ChallengeTerms::default(),
            limits: Limits::default(),
        })));
        self.put(RecordEvent::Validated(Ok(ValidDraft {})));
        self.put(RecordEvent::Planned(Ok(head)));
        self.put(RecordEvent::PolicyEvaluated(Ok(PolicyDecision {
            verdict,
            reasons: vec![DecisionReason {
                verdict,
                cause: (verdict == Verdict::Ask).then_some(AskCause::Default),
                rule: None,
                origin: None,
                effects: Vec::new(),
                message: "because".into(),
            }],
            policy: Digest::compute(b"policy"),
            standing_approval: leave,
            guarantees: Vec::new(),
            challenge: None,
            cached: false,
        })));
        if verdict == Verdict::Deny {
            return self;
        }
        self.put(RecordEvent::Reviewed(Ok(Review::default())))
    }

    pub(crate) fn ask(&mut self) -> Question {
        let NextStep::Do(Task::Ask(asking)) = next_step(&self.record) else { panic!("no question is due") };
        let question = Question {
            id: QuestionId::new(Uuid::now_v7()),
            kind: asking.kind,
            binding: asking.binding,
            expires_at: now() + self.question_ms,
        };
        self.put(RecordEvent::Asked(Ok(question.clone())));
        question
    }

    pub(crate) fn answer(&mut self, question: &Question, answer: Answer) -> &mut Self {
        self.put(RecordEvent::Answered(RecordedAnswer {
            question: question.id,
            digest: question.digest(),
            answer,
            approver: ApproverIdentity { name: "ada".into(), assurance: Assurance::Terminal },
        }))
    }

    pub(crate) fn begin(&mut self, owner: OwnerId) -> AttemptId {
        let NextStep::Do(Task::Start(grant)) = next_step(&self.record) else {
            panic!("{:?}", next_step(&self.record))
        };
        let attempt = AttemptId::new(Uuid::now_v7());
        self.put(RecordEvent::Started(Ok(grant.claim(attempt, owner))));
        attempt
    }

    pub(crate) fn end(&mut self, attempt: AttemptId) -> &mut Self {
        let output = self.hold(b"{\"text\":\"the true output\"}");
        let end = ExecutionEnd {
            status: ExecutionStatus::Succeeded,
            output,
            duration_ms: 3,
            truncated: false,
            undoable: false,
            read_foreign: false,
            observed: None,
        };
        self.put(RecordEvent::Ended { attempt, end });
        self.put(RecordEvent::OutputReviewed(Ok(Review::default())));
        self.settle()
    }

    pub(crate) fn settle(&mut self) -> &mut Self {
        let NextStep::Settle(outcome) = next_step(&self.record) else {
            panic!("{:?}", next_step(&self.record))
        };
        self.put(RecordEvent::Settled(outcome))
    }

    /// The entries since the last batch.
    pub(crate) fn batch(&mut self) -> Batch {
        let (at_len, before) = self.written;
        self.written = (self.record.len(), self.record.head());
        let waits = match next_step(&self.record) {
            NextStep::Wait(question) => {
                Some(PendingQuestion { question, effects: self.plan.effects.clone() })
            }
            _ => None,
        };
        let begun = self.entries.iter().any(|entry| matches!(entry.event, RecordEvent::Started(Ok(_))));
        let begins = match self.record.attempt() {
            Some(Attempt::Open(claim)) if begun => Some(AttemptStart {
                attempt: claim.attempt,
                exclusive: !self.concurrency_safe,
                standing_approval: match claim.granted_by {
                    byleave_gate::core::grant::GrantedBy::StandingApproval(leave) => {
                        Some((leave, self.uses_max))
                    }
                    _ => None,
                },
            }),
            _ => None,
        };
        Batch {
            call: self.call,
            expected_len: at_len,
            prev_link: before,
            chained_entries: std::mem::take(&mut self.lines),
            entries: std::mem::take(&mut self.entries),
            contents: std::mem::take(&mut self.contents),
            key: (at_len == 0).then(|| self.key.clone()),
            call_summary: CallSummary {
                tenant: tenant(),
                session: self.session.clone(),
                agent: "agent".into(),
                tool: "append_line".into(),
                operation: "write".into(),
                summary: self.summary.clone(),
            },
            pending_question: waits,
            attempt_start: begins,
            is_final: self.record.outcome().is_some(),
        }
    }

    pub(crate) async fn append(&mut self, book: &SqliteLedger) -> Result<(), AppendError> {
        book.append(self.batch()).await
    }
}

/// A call that is allowed, run and settled in one batch.
pub(crate) async fn whole(book: &SqliteLedger, in_session: &str) -> RecordWriter {
    let mut scribe = RecordWriter::new(in_session, write_to("/w/a"));
    scribe.ruled(Verdict::Allow, None);
    let attempt = scribe.begin(book.owner());
    scribe.end(attempt);
    scribe.append(book).await.unwrap();
    scribe
}

/// A call in two batches: one up to its start, one with its end.
pub(crate) async fn stepwise(book: &SqliteLedger, in_session: &str) -> RecordWriter {
    let mut scribe = RecordWriter::new(in_session, write_to("/w/a"));
    scribe.ruled(Verdict::Allow, None);
    let attempt = scribe.begin(book.owner());
    scribe.append(book).await.unwrap();
    scribe.end(attempt);
    scribe.append(book).await.unwrap();
    scribe
}

/// A call that waits for a person.
pub(crate) async fn waiting(
    book: &SqliteLedger,
    in_session: &str,
    effects: Vec<Effect>,
) -> (RecordWriter, Question) {
    let mut scribe = RecordWriter::new(in_session, effects);
    scribe.ruled(Verdict::Ask, None);
    let question = scribe.ask();
    scribe.append(book).await.unwrap();
    (scribe, question)
}

/// A call that was answered with a standing approval, and settled.
pub(crate) async fn gives_leave(book: &SqliteLedger, uses_max: Option<u32>) -> StandingApprovalId {
    let (mut scribe, question) = waiting(book, "leaves", write_to("/w/a")).await;
    let id = StandingApprovalId::new(Uuid::now_v7());
    let leave = StandingApproval {
        id,
        tool: "append_line".into(),
        scope: vec![Pattern::Write("/w/**".into())],
        session: None,
        expires_at: None,
        max_uses: uses_max,
    };
    scribe.answer(&question, Answer::StandingApproval(leave));
    let attempt = scribe.begin(book.owner());
    scribe.append(book).await.unwrap();
    scribe.end(attempt);
    scribe.append(book).await.unwrap();
    id
}
