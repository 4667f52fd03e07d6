//! The person at this terminal: the prompt in front of the gate, and what it needs to know of the book behind it.

use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use anyhow::Result;
use byleave::approve::{Approver, Reply, Terminal};
use byleave::book::{Book as _, Page, QuestionFilter};
use byleave::core::id::QuestionId;
use byleave::core::leave::Leave;
use byleave::core::sheet::Sheet;
use byleave::gate::{Gate, GivenAnswer};
use byleave::past::covered;
use byleave::settings::Settings;
use byleave_terminal::colour::Palette;
use byleave_terminal::inbox::{Clerk, Item};
use byleave_terminal::{Backing, Manner, Prompt};
use tokio::runtime::Handle;

use crate::args::Ask;
use crate::ask::waive;
use crate::complaint::Complaint;
use crate::hook;
use crate::house::House;
use crate::ids::short;
use crate::notify;
use crate::options::Options;
use crate::show::{in_short, past_words};
use crate::taking_back;
use crate::time::now;

/// The most open questions that are listed.
const QUESTIONS_MAX: usize = 100_000;
/// How often the list is read again although nothing was written.
const STALE_MS: u64 = 5_000;

/// The gate for calls in this directory, with questions going there.
pub(crate) fn gate(
    house: &House,
    options: &Options,
    workspace: &str,
    ask: Ask,
    settings: Settings,
) -> Result<Gate> {
    gate_with(house, options, workspace, ask, settings, || at_terminal(options, house))
}

/// The same, with somebody else to ask who is at the terminal.
pub(crate) fn gate_with(
    house: &House,
    options: &Options,
    workspace: &str,
    ask: Ask,
    settings: Settings,
    person: impl FnOnce() -> Result<Arc<dyn Approver>>,
) -> Result<Gate> {
    let mut builder = house.builder(options, workspace, ask, settings)?;
    if ask == Ask::Terminal {
        let person = person()?;
        builder = builder.approver(Arc::clone(&person)).checkpoint(person);
    }
    Ok(builder.build()?)
}

/// The approver that asks at this terminal: drawn in place, or line by line where nothing can be drawn.
fn at_terminal(options: &Options, house: &House) -> Result<Arc<dyn Approver>> {
    let wrong = |error: std::io::Error| {
        Complaint::new(format!("cannot ask at the terminal: {error}"))
            .hint("leave the question open with `--ask inbox` and answer it with `byleave inbox`")
    };
    let name = &options.person.name;
    if is_dumb() {
        return Ok(Arc::new(Terminal::open(name).map_err(wrong)?));
    }
    let behind = Arc::new(Behind::new(options, house));
    let prompt = Prompt::open(name, "/dev/tty", manner(options), behind);
    Ok(Arc::new(prompt.map_err(wrong)?))
}

/// How this person is asked.
pub(crate) fn manner(options: &Options) -> Manner {
    Manner {
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
pub(crate) struct Behind {
    options: Options,
    house: House,
    handle: Handle,
}

impl Behind {
    /// Must be made where the runtime is; it is used on threads that have none.
    pub(crate) fn new(options: &Options, house: &House) -> Self {
        Self { options: options.clone(), house: house.clone(), handle: Handle::current() }
    }

    async fn answered(&self, sheet: &Sheet, reply: Reply) -> Result<String> {
        let workspace = self.house.workspace_of(sheet.call).await?;
        // What comes up on the way, after an edit for one, goes where this question was.
        let gate = self.house.gate(&self.options, &workspace, Ask::Inbox, self.options.chosen.gate())?;
        waive(&gate, &self.options).await?;
        let (question, digest) = (sheet.question.id, sheet.question.digest());
        let given = GivenAnswer { question, digest, reply, by: self.options.person.clone() };
        let call = gate.answer(given).await.map_err(Complaint::from)?;
        let came = hook::resume(&gate, call, &self.options).await;
        Ok(format!("{} {}: {}", sheet.terms.tool, short(&call), in_short(&came)))
    }
}

impl Backing for Behind {
    fn waits(&self, sheet: &Sheet) {
        // Nobody looks at anything but the question now: what cannot be told elsewhere is not told.
        notify::told(&self.options.chosen, &sheet.question, &sheet.terms.tool).unwrap_or_default();
    }

    fn past(&self, leave: &Leave) -> Vec<String> {
        let found = covered(&*self.house.book, &self.options.tenant, leave, now());
        match self.handle.block_on(found) {
            Ok(past) => past_words(&past, leave),
            Err(fault) => vec![format!("past calls cannot be read: {fault}")],
        }
    }

    fn last_change(&self) -> Option<String> {
        self.handle.block_on(taking_back::last_change(&self.house, &self.options)).ok().flatten()
    }

    fn undo(&self) -> String {
        let undone = self.handle.block_on(taking_back::newest(&self.house, &self.options));
        undone.unwrap_or_else(|error| error.to_string())
    }
}

impl Clerk for Behind {
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

    fn open(&self) -> Result<Vec<Item>, String> {
        let listed = self.house.book.questions(QuestionFilter::default(), Page::first(QUESTIONS_MAX));
        let listed = self.handle.block_on(listed).map_err(|fault| fault.to_string())?;
        let now = now();
        Ok(listed.iter().filter(|item| item.expires_at > now).map(Item::from).collect())
    }

    fn sheet(&self, question: QuestionId) -> Result<Sheet, String> {
        let gate = self.house.gate(&self.options, &self.options.cwd, Ask::Inbox, self.options.chosen.gate());
        let gate = gate.map_err(|error| error.to_string())?;
        self.handle.block_on(gate.sheet(question)).map_err(|fault| fault.to_string())
    }

    fn answer(&self, sheet: &Sheet, reply: Reply) -> Result<String, String> {
        self.handle.block_on(self.answered(sheet, reply)).map_err(|error| error.to_string())
    }
}
