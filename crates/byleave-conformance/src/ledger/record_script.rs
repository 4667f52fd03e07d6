//! Valid records for tests: a script plays one call entry by entry into batches.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::call::{Millis, Mode};
use byleave_core::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use byleave_core::digest::{ContentRef, Digest, RecordKey};
use byleave_core::effect::{Effect, Plan};
use byleave_core::entry::{CallHeader, Entry, Limits, RecordEvent, ResolvedTool, ValidDraft};
use byleave_core::grant::GrantedBy;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{
    AdminActionId, AgentId, AttemptId, CallId, OwnerId, QuestionId, SessionId, StandingApprovalId, TenantId,
};
use byleave_core::outcome::{ExecutionEnd, ExecutionStatus};
use byleave_core::pipeline::{NextStep, RECORD_VERSION, Task, next_step};
use byleave_core::question::{Answer, ApproverIdentity, Assurance, Question, QuestionKind, RecordedAnswer};
use byleave_core::record::Record;
use byleave_core::refusal::{Code, Refusal};
use byleave_core::review::Review;
use byleave_core::standing_approval::StandingApproval;
use uuid::Uuid;

use super::ConformanceError;
use byleave_gate::ledger::{AttemptStart, Batch, CallSummary, Ledger, PendingQuestion, RecordContent};

/// The time at which the scripts play.
pub const NOW: Millis = 1_700_000_000_000;
/// How long questions stay open, from [`NOW`] on.
pub const QUESTION_MS: Millis = 1_000_000;

/// The kind of call that a script plays.
#[derive(Clone, Debug)]
pub struct ScriptSettings {
    pub tenant: &'static str,
    pub session: &'static str,
    pub tool: &'static str,
    /// The caller as shown in lists.
    pub agent: &'static str,
    pub summary: &'static str,
    /// Whether the call runs alone in its session.
    pub exclusive: bool,
    /// Whether an attempt may be repeated.
    pub idempotent: bool,
    /// Whether the tool requires a checkpoint.
    pub checkpoint: bool,
    pub verdict: Verdict,
    /// The standing approval that covers the call, with the limit that the gate assumes.
    pub standing_approval: Option<(StandingApprovalId, Option<u32>)>,
    pub effects: Vec<Effect>,
    pub received_at: Millis,
}

impl Default for ScriptSettings {
    fn default() -> Self {
        Self {
            tenant: "local",
            session: "s",
            tool: "t",
            agent: "agent",
            summary: "does something",
            exclusive: true,
            idempotent: false,
            checkpoint: false,
            verdict: Verdict::Allow,
            standing_approval: None,
            effects: vec![Effect::Write { path: "/w/a".into() }],
            received_at: NOW,
        }
    }
}

impl ScriptSettings {
    /// Returns settings for a call that a person is asked about.
    pub fn asking() -> Self {
        Self { verdict: Verdict::Ask, ..Self::default() }
    }

    /// Returns settings for a concurrency-safe call on a standing approval.
    pub fn with_approval(leave: &StandingApproval) -> Self {
        Self { exclusive: false, standing_approval: Some((leave.id, leave.max_uses)), ..Self::default() }
    }
}

/// One call, played entry by entry. Clones are writers with the same knowledge of the record.
#[derive(Clone, Debug)]
pub struct CallScript {
    pub setting: ScriptSettings,
    pub record: Record,
    pub key: RecordKey,
    call_summary: CallSummary,
    at: Millis,
    from: (u32, Digest),
    chained_entries: Vec<ChainedEntry>,
    entries: Vec<Entry>,
    contents: Vec<RecordContent>,
    pending_question: Option<PendingQuestion>,
    attempt_start: Option<AttemptStart>,
}

impl CallScript {
    /// Creates a call without entries.
    pub fn new(setting: ScriptSettings) -> Result<Self, ConformanceError> {
        let record = Record::new(CallId::new(Uuid::now_v7()));
        let listing = CallSummary {
            tenant: TenantId::new(setting.tenant)?,
            session: SessionId::new(setting.session)?,
            agent: setting.agent.into(),
            tool: setting.tool.into(),
            operation: "op".into(),
            summary: setting.summary.into(),
        };
        Ok(Self {
            key: new_record_key(),
            from: (record.len(), record.head()),
            at: setting.received_at,
            setting,
            record,
            call_summary: listing,
            chained_entries: Vec::new(),
            entries: Vec::new(),
            contents: Vec::new(),
            pending_question: None,
            attempt_start: None,
        })
    }

    /// Creates a call that has gone as far as possible without a question or an attempt.
    pub fn ready(setting: ScriptSettings) -> Result<Self, ConformanceError> {
        let mut script = Self::new(setting)?;
        while script.step()? {}
        Ok(script)
    }

    /// Creates a call that is about to begin, for this owner.
    pub fn beginning(setting: ScriptSettings, owner: OwnerId) -> Result<Self, ConformanceError> {
        let mut script = Self::ready(setting)?;
        script.start(owner)?;
        Ok(script)
    }

    /// Creates a call that is about to wait for a person.
    pub fn waiting(setting: ScriptSettings) -> Result<Self, ConformanceError> {
        let mut script = Self::ready(setting)?;
        script.ask()?;
        Ok(script)
    }

    pub fn call(&self) -> CallId {
        self.record.call()
    }

    pub fn tenant(&self) -> &TenantId {
        &self.call_summary.tenant
    }

    pub fn session(&self) -> &SessionId {
        &self.call_summary.session
    }

    pub const fn call_summary(&self) -> &CallSummary {
        &self.call_summary
    }

    pub fn plan(&self) -> Plan {
        Plan { effects: self.setting.effects.clone(), ..Plan::default() }
    }

    /// Takes the lines since the last batch as a batch.
    pub fn batch(&mut self) -> Batch {
        let (at_len, before) = self.from;
        self.from = (self.record.len(), self.record.head());
        Batch {
            call: self.call(),
            expected_len: at_len,
            prev_link: before,
            chained_entries: std::mem::take(&mut self.chained_entries),
            entries: std::mem::take(&mut self.entries),
            contents: std::mem::take(&mut self.contents),
            key: (at_len == 0).then(|| self.key.clone()),
            call_summary: self.call_summary.clone(),
            pending_question: self.pending_question.take(),
            attempt_start: self.attempt_start.take(),
            is_final: self.record.outcome().is_some(),
        }
    }

    /// Records an event, one millisecond after the last.
    pub fn push(&mut self, fact: RecordEvent) -> Result<(), ConformanceError> {
        let entry = Entry { at: self.at, event: fact };
        self.chained_entries.push(self.record.push(entry.clone())?);
        self.entries.push(entry);
        self.at += 1;
        Ok(())
    }

    /// Sets the time of the next entry.
    pub fn later(&mut self, at: Millis) {
        self.at = at;
    }

    /// Stores a content with the next batch.
    pub fn content_ref(&mut self, bytes: &[u8]) -> ContentRef {
        let held = self.key.content_ref(bytes);
        self.contents.push(RecordContent { content_ref: held, bytes: bytes.to_vec() });
        held
    }

    /// Records the next event, up to the question or the attempt. Returns whether there was one.
    pub fn step(&mut self) -> Result<bool, ConformanceError> {
        if self.record.is_empty() {
            let heading = self.header()?;
            self.push(RecordEvent::Received(heading))?;
            return Ok(true);
        }
        let fact = match next_step(&self.record) {
            NextStep::Do(Task::Resolve) => RecordEvent::Resolved(Ok(self.resolved_tool())),
            NextStep::Do(Task::Validate) => RecordEvent::Validated(Ok(ValidDraft {})),
            NextStep::Do(Task::Plan) => {
                let content = serde_json::to_vec(&self.plan())?;
                let held = self.content_ref(&content);
                RecordEvent::Planned(Ok(self.plan().summarize(&self.key, held)))
            }
            NextStep::Do(Task::EvaluatePolicy) => RecordEvent::PolicyEvaluated(Ok(self.decision())),
            NextStep::Do(Task::ReviewInput) => RecordEvent::Reviewed(Ok(Review::default())),
            _ => return Ok(false),
        };
        self.push(fact)?;
        Ok(true)
    }

    /// Asks a person.
    pub fn ask(&mut self) -> Result<Question, ConformanceError> {
        let NextStep::Do(Task::Ask(asking)) = next_step(&self.record) else { return Err(self.lost("ask")) };
        let question = Question {
            id: QuestionId::new(Uuid::now_v7()),
            kind: asking.kind,
            binding: asking.binding,
            expires_at: NOW + QUESTION_MS,
        };
        self.push(RecordEvent::Asked(Ok(question.clone())))?;
        let effects = match question.kind {
            QuestionKind::Release => Vec::new(),
            QuestionKind::Approval | QuestionKind::Checkpoint => self.setting.effects.clone(),
        };
        self.pending_question = Some(PendingQuestion { question: question.clone(), effects });
        Ok(question)
    }

    /// Answers the question.
    pub fn answer(&mut self, answer: Answer) -> Result<(), ConformanceError> {
        let NextStep::Wait(question) = next_step(&self.record) else { return Err(self.lost("answer")) };
        self.pending_question = None;
        self.push(RecordEvent::Answered(RecordedAnswer {
            question: question.id,
            digest: question.digest(),
            answer,
            approver: ApproverIdentity { name: "ada".into(), assurance: Assurance::Terminal },
        }))
    }

    /// Lets the question expire.
    pub fn expire(&mut self) -> Result<(), ConformanceError> {
        let NextStep::Wait(question) = next_step(&self.record) else { return Err(self.lost("expire")) };
        self.later(question.expires_at);
        self.push(RecordEvent::Expired { question: question.id })
    }

    /// Closes the question because the approver failed.
    pub fn fail_approver(&mut self) -> Result<(), ConformanceError> {
        let NextStep::Wait(question) = next_step(&self.record) else { return Err(self.lost("unask")) };
        let refusal = Refusal::new(Code::ApproverFailed, "it broke");
        self.push(RecordEvent::ApproverFailed { question: question.id, refusal })
    }

    /// Claims an attempt.
    pub fn start(&mut self, owner: OwnerId) -> Result<AttemptId, ConformanceError> {
        let NextStep::Do(Task::Start(grant)) = next_step(&self.record) else {
            return Err(self.lost("begin"));
        };
        let attempt = AttemptId::new(Uuid::now_v7());
        self.push(RecordEvent::Started(Ok(grant.claim(attempt, owner))))?;
        let leave = self
            .setting
            .standing_approval
            .filter(|(id, _)| grant.granted_by() == GrantedBy::StandingApproval(*id));
        self.attempt_start =
            Some(AttemptStart { attempt, exclusive: self.setting.exclusive, standing_approval: leave });
        Ok(attempt)
    }

    /// Ends the attempt.
    pub fn end(&mut self) -> Result<ContentRef, ConformanceError> {
        let NextStep::Do(Task::Execute { attempt, .. }) = next_step(&self.record) else {
            return Err(self.lost("end"));
        };
        let output = self.content_ref(format!("the output of {attempt}").as_bytes());
        let end = ExecutionEnd {
            status: ExecutionStatus::Succeeded,
            output,
            duration_ms: 1,
            truncated: false,
            undoable: false,
            read_foreign: self.setting.effects.iter().any(|effect| effect.host().is_some()),
            observed: None,
        };
        self.push(RecordEvent::Ended { attempt, end })?;
        self.attempt_start = None;
        Ok(output)
    }

    /// Settles the call with the outcome that the record requires.
    pub fn settle(&mut self) -> Result<(), ConformanceError> {
        if matches!(next_step(&self.record), NextStep::Do(Task::ReviewOutput)) {
            self.push(RecordEvent::OutputReviewed(Ok(Review::default())))?;
        }
        let NextStep::Settle(outcome) = next_step(&self.record) else { return Err(self.lost("settle")) };
        self.push(RecordEvent::Settled(outcome))
    }

    /// Continues from the record in the ledger.
    pub async fn reload(&mut self, ledger: &dyn Ledger) -> Result<(), ConformanceError> {
        self.record = loaded(ledger, self.call()).await?;
        self.from = (self.record.len(), self.record.head());
        self.chained_entries.clear();
        self.entries.clear();
        self.contents.clear();
        (self.pending_question, self.attempt_start) = (None, None);
        Ok(())
    }

    fn header(&mut self) -> Result<CallHeader, ConformanceError> {
        let arguments = self.content_ref(br#"{"path":"a"}"#);
        Ok(CallHeader {
            record_version: RECORD_VERSION,
            tenant: self.call_summary.tenant.clone(),
            session: self.call_summary.session.clone(),
            agent: AgentId::new("agent")?,
            lineage: Vec::new(),
            tool: self.setting.tool.into(),
            arguments,
            reason: None,
            cwd: "/w".into(),
            mode: Mode::default(),
            dry_run: false,
        })
    }

    fn resolved_tool(&self) -> ResolvedTool {
        ResolvedTool {
            tool: self.setting.tool.into(),
            manifest: Digest::compute(b"manifest"),
            operation: "op".into(),
            read_only: false,
            destructive: false,
            concurrency_safe: !self.setting.exclusive,
            idempotent: self.setting.idempotent,
            checkpoint: self.setting.checkpoint,
            rehearsal: None,
            challenge: byleave_core::entry::ChallengeTerms::default(),
            limits: Limits::default(),
        }
    }

    fn decision(&self) -> PolicyDecision {
        let verdict = self.setting.verdict;
        let cause = (verdict == Verdict::Ask).then_some(AskCause::Default);
        let why = "so that there is a reason".into();
        PolicyDecision {
            verdict,
            reasons: vec![DecisionReason {
                verdict,
                cause,
                rule: None,
                origin: None,
                effects: Vec::new(),
                message: why,
            }],
            policy: Digest::compute(b"policy"),
            standing_approval: self.setting.standing_approval.map(|(leave, _)| leave),
            guarantees: Vec::new(),
            challenge: None,
            cached: false,
        }
    }

    fn lost(&self, wanted: &str) -> ConformanceError {
        ConformanceError::new(format!("the script cannot {wanted} here: {:?}", next_step(&self.record)))
    }
}

/// Loads the record of a call.
pub async fn loaded(ledger: &dyn Ledger, call: CallId) -> Result<Record, ConformanceError> {
    let loaded = ledger.load(call).await?;
    let record = loaded.ok_or_else(|| ConformanceError::new("the record is missing"))?.record;
    match record.damage() {
        None => Ok(record),
        Some(damage) => Err(ConformanceError::new(format!("the record was damaged by the ledger: {damage}"))),
    }
}

/// Returns an unlimited standing approval for the tool of the default settings.
pub fn standing_approval() -> StandingApproval {
    StandingApproval {
        id: StandingApprovalId::new(Uuid::now_v7()),
        tool: ScriptSettings::default().tool.into(),
        scope: Vec::new(),
        session: None,
        expires_at: None,
        max_uses: None,
    }
}

/// Gives a standing approval in answer to a call with these settings.
pub async fn grant_approval(
    ledger: &dyn Ledger,
    setting: ScriptSettings,
    leave: &StandingApproval,
) -> Result<(), ConformanceError> {
    let mut script = CallScript::waiting(ScriptSettings { verdict: Verdict::Ask, ..setting })?;
    ledger.append(script.batch()).await?;
    script.answer(Answer::StandingApproval(leave.clone()))?;
    ledger.append(script.batch()).await?;
    Ok(())
}

/// Records an admin action.
pub async fn admin_action(
    ledger: &dyn Ledger,
    tenant: &str,
    deed: AdminActionKind,
) -> Result<(), ConformanceError> {
    let id = AdminActionId::new(Uuid::now_v7());
    ledger
        .record_admin_action(AdminAction {
            id,
            at: NOW,
            tenant: TenantId::new(tenant)?,
            actor: "ada".into(),
            kind: deed,
        })
        .await?;
    Ok(())
}

fn new_record_key() -> RecordKey {
    let mut bytes = [0; 32];
    let (front, back) = bytes.split_at_mut(16);
    front.copy_from_slice(Uuid::now_v7().as_bytes());
    back.copy_from_slice(Uuid::now_v7().as_bytes());
    RecordKey::from_bytes(bytes)
}

/// A function that closes a question.
type QuestionCloser = fn(&mut CallScript) -> Result<(), ConformanceError>;

/// All ways to close a question about a plan.
pub const CLOSINGS: &[(&str, QuestionCloser)] = &[
    ("a yes", |script| script.answer(Answer::Yes { note: None })),
    ("a no", |script| script.answer(Answer::No { feedback: None })),
    ("a standing approval", |script| script.answer(Answer::StandingApproval(standing_approval()))),
    ("an edit", |script| {
        let content = script.content_ref(br#"{"path":"b"}"#);
        script.answer(Answer::Edit { content, note: None })
    }),
    ("a result in the place of the tool", |script| {
        let output = script.content_ref(br#"{"text":"known"}"#);
        script.answer(Answer::Result { output })
    }),
    ("an abort", |script| script.answer(Answer::Abort)),
    ("expiry", CallScript::expire),
    ("an approver that broke", CallScript::fail_approver),
    ("a cancel", |script| script.push(RecordEvent::Cancelled { actor: "ada".into() })),
];
