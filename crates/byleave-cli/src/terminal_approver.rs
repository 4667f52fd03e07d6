//! The person at this terminal: the prompt as approver of the gate, and its backend on the audit log.

use std::collections::HashMap;
use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use anyhow::Result;
use byleave_gate::approver::{Approver, Reply, TerminalApprover};
use byleave_gate::audit_log::{AuditLog as _, PageRequest, QuestionFilter, QuestionItem};
use byleave_gate::core::call::Millis;
use byleave_gate::core::id::QuestionId;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::QuestionCard;
use byleave_gate::core::standing_approval::StandingApproval;
use byleave_gate::gate::{Gate, SubmittedAnswer};
use byleave_gate::recorded_calls::find_covered;
use byleave_gate::settings::GateSettings;
use byleave_terminal::inbox::{InboxBackend, InboxItem};
use byleave_terminal::palette::Palette;
use byleave_terminal::{Prompt, PromptSettings, QuestionBackend};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::call_display::{format_status, past_words};
use crate::console::one_line;
use crate::drive_call::{closing_words, record_waivers};
use crate::error::CliError;
use crate::hook::{self, AttendedCalls};
use crate::notify;
use crate::resolved_options::ResolvedOptions;
use crate::resume_call;
use crate::short_ids::short;
use crate::time::now;
use crate::undo_target;

/// The maximum number of open questions in the list.
const QUESTIONS_MAX: usize = 100_000;
/// The maximum number of questions that are read from their records for one look at the list.
const SHORT_TEXTS_MAX: usize = 200;
/// The interval at which the list is read again even if nothing was written.
const STALE_MS: u64 = 5_000;

/// Builds the gate for calls in this directory, with this destination for questions.
pub(crate) fn gate(
    house: &AppContext,
    options: &ResolvedOptions,
    workspace: &str,
    ask: AskArg,
    settings: GateSettings,
) -> Result<Gate> {
    gate_with(house, options, workspace, ask, settings, || at_terminal(options, house))
}

/// Builds the same gate with another approver at the terminal.
pub(crate) fn gate_with(
    house: &AppContext,
    options: &ResolvedOptions,
    workspace: &str,
    ask: AskArg,
    settings: GateSettings,
    person: impl FnOnce() -> Result<Arc<dyn Approver>>,
) -> Result<Gate> {
    let mut builder = house.builder(options, workspace, ask, settings)?;
    if ask == AskArg::Terminal {
        builder = builder.approver(person()?);
    }
    Ok(builder.build()?)
}

/// Returns the approver at this terminal: drawn in place, or line by line if nothing can be drawn.
pub(crate) fn at_terminal(options: &ResolvedOptions, house: &AppContext) -> Result<Arc<dyn Approver>> {
    let wrong = |error: std::io::Error| {
        CliError::new(format!("cannot ask at the terminal: {error}"))
            .hint("leave the question open with `--ask inbox` and answer it with `byleave inbox`")
    };
    let name = &options.person.name;
    if is_dumb_terminal() {
        return Ok(Arc::new(TerminalApprover::open(name).map_err(wrong)?));
    }
    let behind = Arc::new(LocalBackend::new(options, house));
    let prompt = Prompt::open(name, "/dev/tty", prompt_settings(options), behind);
    Ok(Arc::new(prompt.map_err(wrong)?))
}

/// Returns the prompt settings of this person.
pub(crate) fn prompt_settings(options: &ResolvedOptions) -> PromptSettings {
    PromptSettings {
        palette: if options.use_color { Palette::Colours } else { Palette::Plain },
        min_read_time_percent: options.settings.min_read_time_percent(),
        editor: options.editor.clone(),
    }
}

/// Checks whether the terminal can only print lines, or the person wants that.
pub(crate) fn is_dumb_terminal() -> bool {
    env::var("TERM").map_or(true, |term| term.is_empty() || term == "dumb")
}

/// Returns the questions in one line each, as their cards say it. A question that cannot be read has none.
pub(crate) async fn short_texts(
    house: &AppContext,
    options: &ResolvedOptions,
    questions: &[QuestionId],
) -> HashMap<QuestionId, String> {
    let mut texts = HashMap::new();
    if questions.is_empty() {
        return texts;
    }
    let gate = house.gate(options, &options.cwd, AskArg::Inbox, options.settings.gate());
    let Ok(gate) = gate else { return texts };
    for question in questions {
        if let Ok(sheet) = gate.question_view(*question).await {
            texts.insert(*question, QuestionCard::new(&sheet).short_text());
        }
    }
    texts
}

/// Returns the text of a question in lists. Cards are escaped already.
pub(crate) fn question_text(texts: &HashMap<QuestionId, String>, item: &QuestionItem) -> String {
    texts.get(&item.question).cloned().unwrap_or_else(|| one_line(&item.call_summary.summary))
}

/// The backend of the prompt and the inbox: the audit log, and a gate for each answer.
pub(crate) struct LocalBackend {
    options: ResolvedOptions,
    house: AppContext,
    handle: Handle,
    /// The questions in one line each, as far as they are known.
    short_texts: Mutex<HashMap<QuestionId, String>>,
}

impl LocalBackend {
    /// Creates the backend. Must be called within the runtime, because its users are threads without one.
    pub(crate) fn new(options: &ResolvedOptions, house: &AppContext) -> Self {
        Self {
            options: options.clone(),
            house: house.clone(),
            handle: Handle::current(),
            short_texts: Mutex::default(),
        }
    }

    /// Returns the questions as lines of a list. The newest ones that were not listed before are read from their records.
    async fn items(&self, listed: &[QuestionItem]) -> Vec<InboxItem> {
        let unknown = |item: &&QuestionItem| !self.short_texts.lock().contains_key(&item.question);
        let new: Vec<QuestionId> =
            listed.iter().filter(unknown).take(SHORT_TEXTS_MAX).map(|item| item.question).collect();
        let texts = short_texts(&self.house, &self.options, &new).await;
        let mut known = self.short_texts.lock();
        known.extend(texts);
        let item = |item: &QuestionItem| match known.get(&item.question) {
            Some(text) => InboxItem::from(item).with_short_text(text.clone()),
            None => InboxItem::from(item),
        };
        listed.iter().map(item).collect()
    }

    async fn answered(&self, sheet: &QuestionView, reply: Reply) -> Result<String> {
        let workspace = self.house.workspace_of(sheet.call).await?;
        // Further questions, for example after an edit, go to the inbox as well.
        let gate = self.house.gate(&self.options, &workspace, AskArg::Inbox, self.options.settings.gate())?;
        record_waivers(&gate, &self.options).await?;
        let (question, digest) = (sheet.question.id, sheet.question.digest());
        let given = SubmittedAnswer { question, digest, reply, approver: self.options.person.clone() };
        let call = gate.answer(given).await.map_err(CliError::from)?;
        let came = resume_call::resume(&gate, &self.house, call, &self.options).await;
        Ok(format!("{} {}: {}", sheet.resolved_tool.tool, short(&call), format_status(&came)))
    }
}

impl QuestionBackend for LocalBackend {
    fn notify_waiting(&self, sheet: &QuestionView) {
        // The question is on the screen, so a failed notification is ignored.
        notify::try_notify(&self.options.settings, &sheet.question, &notify::short_text(sheet))
            .unwrap_or_default();
    }

    fn covered_calls(&self, leave: &StandingApproval) -> Vec<String> {
        let found = find_covered(&*self.house.audit_log, &self.options.tenant, leave, now());
        match self.handle.block_on(found) {
            Ok(past) => past_words(&past, leave),
            Err(fault) => vec![format!("cannot read past calls: {fault}")],
        }
    }

    fn agent_waits_until(&self, sheet: &QuestionView) -> Option<Millis> {
        AttendedCalls::new(&self.options).waits_until(sheet.call)
    }

    fn answered_elsewhere(&self, sheet: &QuestionView) -> Option<String> {
        self.handle.block_on(closing_words(&self.house, sheet.call, sheet.question.id))
    }

    fn last_change(&self) -> Option<String> {
        let last = self.handle.block_on(undo_target::last_change(&self.house, &self.options)).ok().flatten();
        last.map(|last| last.description)
    }

    fn undo(&self) -> String {
        let undone = self.handle.block_on(undo_target::undo_newest(&self.house, &self.options));
        undone.unwrap_or_else(|error| error.to_string())
    }
}

impl InboxBackend for LocalBackend {
    fn version(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for name in ["audit.sqlite", "audit.sqlite-wal"] {
            let found = std::fs::metadata(self.options.state.join(name)).ok();
            found.map(|found| (found.len(), found.modified().ok())).hash(&mut hasher);
        }
        // Questions expire without a write to the audit log.
        (now() / STALE_MS).hash(&mut hasher);
        hasher.finish()
    }

    fn open(&self) -> Result<Vec<InboxItem>, String> {
        if let Err(error) = self.handle.block_on(hook::end_abandoned(&self.house, &self.options)) {
            tracing::debug!("cannot end the calls whose agents are gone: {error:#}");
        }
        let listed =
            self.house.audit_log.questions(QuestionFilter::default(), PageRequest::with_limit(QUESTIONS_MAX));
        let listed = self.handle.block_on(listed).map_err(|fault| fault.to_string())?;
        let now = now();
        let listed: Vec<QuestionItem> = listed.into_iter().filter(|item| item.expires_at > now).collect();
        Ok(self.handle.block_on(self.items(&listed)))
    }

    fn question_view(&self, question: QuestionId) -> Result<QuestionView, String> {
        let gate =
            self.house.gate(&self.options, &self.options.cwd, AskArg::Inbox, self.options.settings.gate());
        let gate = gate.map_err(|error| error.to_string())?;
        self.handle.block_on(gate.question_view(question)).map_err(|fault| fault.to_string())
    }

    fn answer(&self, sheet: &QuestionView, reply: Reply) -> Result<String, String> {
        self.handle.block_on(self.answered(sheet, reply)).map_err(|error| error.to_string())
    }
}
