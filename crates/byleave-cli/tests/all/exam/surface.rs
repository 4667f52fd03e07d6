//! Where a question is answered: the one place that knows how a question comes to a screen. Everything else reads the screen and
//! presses keys, which are the same everywhere.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use byleave::approve::{Approver, ApproverFault, Reply};
use byleave::book::{Cursor, QuestionItem};
use byleave::core::id::{QuestionId, TenantId};
use byleave::core::question::Grade;
use byleave::core::render::Rendering;
use byleave::core::sheet::Sheet;
use byleave::gate::GateBuilder;
use byleave::ledger::Listing;
use byleave::pending::Pending;
use byleave_terminal::colour::Palette;
use byleave_terminal::inbox::{Clerk, Item, Left, run_one};
use byleave_terminal::{Backing, Manner, Prompt};

use super::stage;
use crate::sitting::Sitting;
use crate::window::Window;

/// Where a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surface {
    /// Drawn in place, where `byleave call` runs.
    Inline,
    /// Left open, and answered on the screen of the inbox.
    Inbox,
}

/// Makes a call that leaves its question open, and opens that in the inbox; ends as the call does.
const LEFT_OPEN: &str = r#"asked=$("$@" --ask inbox); code=$?; [ $code = 4 ] || { printf '%s\n' "$asked"; exit $code; }
exec "$1" inbox open "$asked""#;

impl Surface {
    pub(crate) const ALL: [Self; 2] = [Self::Inline, Self::Inbox];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Inbox => "inbox",
        }
    }

    /// What is drawn when a question about `exec` that was answered so goes away.
    pub(crate) fn parting(self, answer: &str) -> String {
        match self {
            Self::Inline => format!("asked about exec: {answer}"),
            Self::Inbox => "\u{1b}[?1049l".to_owned(),
        }
    }

    /// Makes a call with the program at a terminal.
    pub(crate) fn call(self, words: &[&str]) -> Sitting {
        self.call_with(words, |_| {})
    }

    /// The same, in an environment that is changed first.
    pub(crate) fn call_with(self, words: &[&str], change: impl FnOnce(&mut Command)) -> Sitting {
        let mut command = stage::program("setsid");
        command.args(["--ctty", "--wait"]).env("TERM", "xterm-256color");
        match self {
            Self::Inline => command.arg(stage::PROGRAM).args(words),
            Self::Inbox => command.args(["sh", "-c", LEFT_OPEN, "sh", stage::PROGRAM]).args(words),
        };
        change(&mut command);
        Sitting::before(command)
    }

    /// Has the questions of a gate come to the screen of this window.
    pub(crate) fn asks(
        self,
        builder: GateBuilder,
        window: &Window,
        backing: Arc<dyn Backing>,
    ) -> GateBuilder {
        let manner = Manner { palette: Palette::Plain, dwell_percent: 100, editor: Vec::new() };
        match self {
            Self::Inline => {
                let prompt: Arc<dyn Approver> =
                    Arc::new(Prompt::open("ann", &window.path, manner, backing).unwrap());
                builder.approver(prompt)
            }
            Self::Inbox => {
                builder
                    .approver(Arc::new(ByInbox { manner, path: window.path.clone(), turn: Arc::default() })
                        as Arc<dyn Approver>)
            }
        }
    }
}

/// Puts the questions of a gate on the screen of the inbox.
struct ByInbox {
    manner: Manner,
    path: PathBuf,
    /// Taken by the question that is on the screen.
    turn: Arc<Mutex<()>>,
}

impl Approver for ByInbox {
    fn name(&self) -> &str {
        "ann"
    }

    fn grade(&self) -> Grade {
        Grade::Terminal
    }

    fn ask<'a>(
        &'a self,
        sheet: &'a Sheet,
        _rendering: &'a Rendering,
    ) -> Pending<'a, Result<Reply, ApproverFault>> {
        let (manner, path, id) = (self.manner.clone(), self.path.clone(), sheet.question.id);
        let turn = Arc::clone(&self.turn);
        let clerk: Arc<dyn Clerk> = Arc::new(One(sheet.clone()));
        Box::pin(async move {
            let ends = Arc::new(AtomicBool::new(false));
            let _ends = Ends(Arc::clone(&ends));
            let shown = tokio::task::spawn_blocking(move || {
                let _turn = turn.lock().unwrap();
                run_one(&path, &manner, &clerk, &ends, id)
            });
            match shown.await.unwrap().unwrap() {
                Left::Answered(_, reply) => Ok(reply),
                left => Err(ApproverFault::Failed(format!("{left:?}"))),
            }
        })
    }
}

/// Says that nobody waits any more.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An inbox with one question in it.
struct One(Sheet);

impl Backing for One {}

impl Clerk for One {
    fn stamp(&self) -> u64 {
        0
    }

    fn open(&self) -> Result<Vec<Item>, String> {
        let sheet = &self.0;
        Ok(vec![Item::from(&QuestionItem {
            question: sheet.question.id,
            cursor: Cursor(0),
            kind: sheet.question.kind,
            call: sheet.call,
            listing: Listing {
                tenant: TenantId::new("local").unwrap(),
                session: sheet.session.clone(),
                agent: sheet.agent.as_str().into(),
                tool: sheet.terms.tool.clone(),
                operation: sheet.terms.operation.clone(),
                summary: String::new(),
            },
            asked_at: 0,
            expires_at: sheet.question.expires_at,
        })])
    }

    fn sheet(&self, _question: QuestionId) -> Result<Sheet, String> {
        Ok(self.0.clone())
    }

    fn answer(&self, _sheet: &Sheet, _reply: Reply) -> Result<String, String> {
        Err("the gate has it".into())
    }
}
