//! The person at this terminal: the prompt in front of the gate, and what it needs to know of the book behind it.

use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use anyhow::Result;
use byleave::approver::{Approver, Reply, TerminalApprover};
use byleave::audit_log::{AuditLog as _, PageRequest, QuestionFilter};
use byleave::core::id::QuestionId;
use byleave::core::question_view::QuestionView;
use byleave::core::standing_approval::StandingApproval;
use byleave::gate::{Gate, SubmittedAnswer};
use byleave::recorded_calls::covered;
use byleave::settings::GateSettings;
use byleave_terminal::inbox::{InboxBackend, InboxItem};
use byleave_terminal::palette::Palette;
use byleave_terminal::{Prompt, PromptSettings, QuestionBackend};
use tokio::runtime::Handle;

use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::call_display::{in_short, past_words};
use crate::drive_call::waive;
use crate::error::CliError;
use crate::hook;
use crate::notify;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::short;
use crate::time::now;
use crate::undo_target;

/// The most open questions that are listed.
const QUESTIONS_MAX: usize = 100_000;
/// How often the list is read again although nothing was written.
const STALE_MS: u64 = 5_000;

/// The gate for calls in this directory, with questions going there.
pub(crate) fn gate(
    house: &AppContext,
    options: &ResolvedOptions,
    workspace: &str,
    ask: AskArg,
    settings: GateSettings,
) -> Result<Gate> {
    gate_with(house, options, workspace, ask, settings, || at_terminal(options, house))
}

/// The same, with somebody else to ask who is at the terminal.
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
        let person = person()?;
        builder = builder.approver(Arc::clone(&person)).checkpoint(person);
    }
    Ok(builder.build()?)
}

/// The approver that asks at this terminal: drawn in place, or line by line where nothing can be drawn.
fn at_terminal(options: &ResolvedOptions, house: &AppContext) -> Result<Arc<dyn Approver>> {
    let wrong = |error: std::io::Error| {
        CliError::new(format!("cannot ask at the terminal: {error}"))
            .hint("leave the question open with `--ask inbox` and answer it with `byleave inbox`")
    };
    let name = &options.person.name;
    if is_dumb() {
        return Ok(Arc::new(TerminalApprover::open(name).map_err(wrong)?));
    }
    let behind = Arc::new(LocalBackend::new(options, house));
    let prompt = Prompt::open(name, "/dev/tty", manner(options), behind);
    Ok(Arc::new(prompt.map_err(wrong)?))
}

/// How this person is asked.
pub(crate) fn manner(options: &ResolvedOptions) -> PromptSettings {
    PromptSettings {
        palette: if options.is_colourful { Palette::Colours } else { Palette::Plain },
        dwell_percent: options.chosen.dwell_percent(),
        editor: options.editor.clone(),
    }
}

/// A terminal that can only write one line after the other, or whose person wants no other.
pub(crate) fn is_dumb() -> bool {
    env::var("TERM").map_or(true, |term| term.is_empty() || term == "dumb")
}

/// What stands behind the prompt and the inbox: the book, and a gate for each answer.
pub(crate) struct LocalBackend {
    options: ResolvedOptions,
    house: AppContext,
    handle: Handle,
}

impl LocalBackend {
    /// Must be made where the runtime is; it is used on threads that have none.
    pub(crate) fn new(options: &ResolvedOptions, house: &AppContext) -> Self {
        Self { options: options.clone(), house: house.clone(), handle: Handle::current() }
    }

    async fn answered(&self, sheet: &QuestionView, reply: Reply) -> Result<String> {
        let workspace = self.house.workspace_of(sheet.call).await?;
        // What comes up on the way, after an edit for one, goes where this question was.
        let gate = self.house.gate(&self.options, &workspace, AskArg::Inbox, self.options.chosen.gate())?;
        waive(&gate, &self.options).await?;
        let (question, digest) = (sheet.question.id, sheet.question.digest());
        let given = SubmittedAnswer { question, digest, reply, by: self.options.person.clone() };
        let call = gate.answer(given).await.map_err(CliError::from)?;
        let came = hook::resume(&gate, call, &self.options).await;
        Ok(format!("{} {}: {}", sheet.terms.tool, short(&call), in_short(&came)))
    }
}

impl QuestionBackend for LocalBackend {
    fn waits(&self, sheet: &QuestionView) {
        // Nobody looks at anything but the question now: what cannot be told elsewhere is not told.
        notify::told(&self.options.chosen, &sheet.question, &sheet.terms.tool).unwrap_or_default();
    }

    fn past(&self, leave: &StandingApproval) -> Vec<String> {
        let found = covered(&*self.house.book, &self.options.tenant, leave, now());
        match self.handle.block_on(found) {
            Ok(past) => past_words(&past, leave),
            Err(fault) => vec![format!("past calls cannot be read: {fault}")],
        }
    }

    fn last_change(&self) -> Option<String> {
        self.handle.block_on(undo_target::last_change(&self.house, &self.options)).ok().flatten()
    }

    fn undo(&self) -> String {
        let undone = self.handle.block_on(undo_target::newest(&self.house, &self.options));
        undone.unwrap_or_else(|error| error.to_string())
    }
}

impl InboxBackend for LocalBackend {
    fn stamp(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for name in ["book.sqlite", "book.sqlite-wal"] {
            let found = std::fs::metadata(self.options.state.join(name)).ok();
            found.map(|found| (found.len(), found.modified().ok())).hash(&mut hasher);
        }
        // Questions grow too old without anybody writing that down.
        (now() / STALE_MS).hash(&mut hasher);
        hasher.finish()
    }

    fn open(&self) -> Result<Vec<InboxItem>, String> {
        let listed = self.house.book.questions(QuestionFilter::default(), PageRequest::first(QUESTIONS_MAX));
        let listed = self.handle.block_on(listed).map_err(|fault| fault.to_string())?;
        let now = now();
        Ok(listed.iter().filter(|item| item.expires_at > now).map(InboxItem::from).collect())
    }

    fn sheet(&self, question: QuestionId) -> Result<QuestionView, String> {
        let gate =
            self.house.gate(&self.options, &self.options.cwd, AskArg::Inbox, self.options.chosen.gate());
        let gate = gate.map_err(|error| error.to_string())?;
        self.handle.block_on(gate.sheet(question)).map_err(|fault| fault.to_string())
    }

    fn answer(&self, sheet: &QuestionView, reply: Reply) -> Result<String, String> {
        self.handle.block_on(self.answered(sheet, reply)).map_err(|error| error.to_string())
    }
}
