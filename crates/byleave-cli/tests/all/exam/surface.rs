//! The surfaces on which a question is answered. Only this module knows how a question gets to a screen. Everything else reads the screen
//! and presses keys, which are the same everywhere.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use byleave_gate::approver::{Approver, ApproverError, Reply};
use byleave_gate::audit_log::{Cursor, QuestionItem};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::id::{QuestionId, TenantId};
use byleave_gate::core::question::Assurance;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::Rendering;
use byleave_gate::gate::GateBuilder;
use byleave_gate::ledger::CallSummary;
use byleave_terminal::inbox::{InboxBackend, InboxExit, InboxItem, run_one};
use byleave_terminal::palette::Palette;
use byleave_terminal::{Prompt, PromptSettings, QuestionBackend};

use super::stage;
use crate::sitting::TerminalSession;
use crate::window::TestWindow;

/// The surface on which a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surface {
    /// Drawn in place, in the terminal where `byleave call` runs.
    Inline,
    /// Kept open, and answered on the screen of the inbox.
    Inbox,
}

/// Makes a call that keeps its question open, and opens the question in the inbox. Ends as the call does.
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

    /// Checks whether one key answers there what is not grave, because the person opened the screen to answer.
    pub(crate) const fn has_one_key_answers(self) -> bool {
        matches!(self, Self::Inbox)
    }

    /// Returns the text that is drawn when an answered question about `exec` closes.
    pub(crate) fn parting(self, answer: &str) -> String {
        match self {
            Self::Inline => format!("asked about exec: {answer}"),
            Self::Inbox => "\u{1b}[?1049l".to_owned(),
        }
    }

    /// Makes a call with the program at a terminal.
    pub(crate) fn call(self, words: &[&str]) -> TerminalSession {
        self.call_with(words, |_| {})
    }

    /// Makes a call in a changed environment.
    pub(crate) fn call_with(self, words: &[&str], change: impl FnOnce(&mut Command)) -> TerminalSession {
        let mut command = stage::program("setsid");
        command.args(["--ctty", "--wait"]).env("TERM", "xterm-256color");
        match self {
            Self::Inline => command.arg(stage::PROGRAM).args(words),
            Self::Inbox => command.args(["sh", "-c", LEFT_OPEN, "sh", stage::PROGRAM]).args(words),
        };
        change(&mut command);
        TerminalSession::before(command)
    }

    /// Routes the questions of a gate to the screen of this window.
    pub(crate) fn asks(
        self,
        builder: GateBuilder,
        window: &TestWindow,
        backing: Arc<dyn QuestionBackend>,
    ) -> GateBuilder {
        let manner =
            PromptSettings { palette: Palette::Plain, min_read_time_percent: 100, editor: Vec::new() };
        match self {
            Self::Inline => {
                let prompt: Arc<dyn Approver> =
                    Arc::new(Prompt::open("ann", &window.path, manner, backing).unwrap());
                builder.approver(prompt)
            }
            Self::Inbox => builder.approver(Arc::new(InboxApprover {
                manner,
                path: window.path.clone(),
                turn: Arc::default(),
            }) as Arc<dyn Approver>),
        }
    }
}

/// Shows the questions of a gate on the screen of the inbox.
struct InboxApprover {
    manner: PromptSettings,
    path: PathBuf,
    /// Held by the question that is on the screen.
    turn: Arc<Mutex<()>>,
}

impl Approver for InboxApprover {
    fn name(&self) -> &str {
        "ann"
    }

    fn assurance(&self) -> Assurance {
        Assurance::Terminal
    }

    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        _rendering: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        let (manner, path, id) = (self.manner.clone(), self.path.clone(), sheet.question.id);
        let turn = Arc::clone(&self.turn);
        let clerk: Arc<dyn InboxBackend> = Arc::new(SingleQuestionInbox(sheet.clone()));
        Box::pin(async move {
            let ends = Arc::new(AtomicBool::new(false));
            let _ends = WithdrawOnDrop(Arc::clone(&ends));
            let shown = tokio::task::spawn_blocking(move || {
                let _turn = turn.lock().unwrap();
                run_one(&path, &manner, &clerk, &ends, id)
            });
            match shown.await.unwrap().unwrap() {
                InboxExit::Answered(_, reply) => Ok(reply),
                left => Err(ApproverError::Failed(format!("{left:?}"))),
            }
        })
    }
}

/// Sets a flag when dropped: nobody waits for the question any more.
struct WithdrawOnDrop(Arc<AtomicBool>);

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct SingleQuestionInbox(QuestionView);

impl QuestionBackend for SingleQuestionInbox {}

impl InboxBackend for SingleQuestionInbox {
    fn version(&self) -> u64 {
        0
    }

    fn open(&self) -> Result<Vec<InboxItem>, String> {
        let sheet = &self.0;
        Ok(vec![InboxItem::from(&QuestionItem {
            question: sheet.question.id,
            cursor: Cursor(0),
            kind: sheet.question.kind,
            call: sheet.call,
            call_summary: CallSummary {
                tenant: TenantId::new("local").unwrap(),
                session: sheet.session.clone(),
                agent: sheet.agent.as_str().into(),
                tool: sheet.resolved_tool.tool.clone(),
                operation: sheet.resolved_tool.operation.clone(),
                summary: String::new(),
            },
            asked_at: 0,
            expires_at: sheet.question.expires_at,
        })])
    }

    fn question_view(&self, _question: QuestionId) -> Result<QuestionView, String> {
        Ok(self.0.clone())
    }

    fn answer(&self, _sheet: &QuestionView, _reply: Reply) -> Result<String, String> {
        Err("the gate has it".into())
    }
}
