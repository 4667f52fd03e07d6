//! The approver that asks on the screen of the chat.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use byleave_gate::approver::{Approver, ApproverError, Reply};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::id::QuestionId;
use byleave_gate::core::question::Assurance;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::Rendering;
use byleave_terminal::chat::ChatEvent;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::app_context::AppContext;
use crate::console::prose;
use crate::drive_call::closing_words;
use crate::resolved_options::ResolvedOptions;
use crate::time::now;
use crate::{notify, undo_target};

/// The person at the chat.
pub(super) struct ChatApprover {
    options: ResolvedOptions,
    house: AppContext,
    tell: Sender<ChatEvent>,
    answers: AnswerWaiters,
}

/// The senders that wait for an answer.
#[derive(Clone, Default)]
pub(super) struct AnswerWaiters(Arc<Mutex<HashMap<QuestionId, oneshot::Sender<Reply>>>>);

impl AnswerWaiters {
    /// Hands an answer to its waiter, and returns whether there is one.
    pub(super) fn deliver(&self, question: QuestionId, reply: Reply) -> bool {
        self.at().remove(&question).is_some_and(|waiting| waiting.send(reply).is_ok())
    }

    fn at(&self) -> MutexGuard<'_, HashMap<QuestionId, oneshot::Sender<Reply>>> {
        self.0.lock()
    }
}

impl ChatApprover {
    pub(super) fn new(
        options: &ResolvedOptions,
        house: &AppContext,
        tell: Sender<ChatEvent>,
        answers: AnswerWaiters,
    ) -> Self {
        Self { options: options.clone(), house: house.clone(), tell, answers }
    }

    async fn put(&self, sheet: &QuestionView) -> Result<Reply, ApproverError> {
        let undo = undo_target::last_change(&self.house, &self.options).await.ok().flatten();
        let (give, given) = oneshot::channel();
        self.answers.at().insert(sheet.question.id, give);
        let mut withdrawn = WithdrawQuestionGuard { at: self, sheet, is_answered: false };
        let asked = ChatEvent::QuestionAsked(Box::new(sheet.clone()), undo.map(|last| last.description));
        if self.tell.send(asked).is_err() {
            return nobody().await;
        }
        // A failed notification is ignored, because the question is on the screen.
        notify::try_notify(&self.options.settings, &sheet.question, &notify::short_text(sheet))
            .unwrap_or_default();
        let left = Duration::from_millis(sheet.question.expires_at.saturating_sub(now()));
        tokio::select! {
            reply = given => match reply {
                Ok(reply) => {
                    withdrawn.is_answered = true;
                    Ok(reply)
                }
                Err(_) => nobody().await,
            },
            () = tokio::time::sleep(left) => Err(failed("the time to answer is over")),
        }
    }
}

impl Approver for ChatApprover {
    fn name(&self) -> &str {
        &self.options.person.name
    }
    fn assurance(&self) -> Assurance {
        Assurance::Terminal
    }
    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        rendering: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        Box::pin(async move {
            if !rendering.complete {
                return Err(failed("the question cannot be shown in full on a terminal"));
            }
            self.put(sheet).await
        })
    }
}

/// Removes a question from the screen when nobody waits for its answer any more.
struct WithdrawQuestionGuard<'a> {
    at: &'a ChatApprover,
    sheet: &'a QuestionView,
    /// The person at this screen answered.
    is_answered: bool,
}

impl Drop for WithdrawQuestionGuard<'_> {
    fn drop(&mut self) {
        let question = self.sheet.question.id;
        self.at.answers.at().remove(&question);
        // If the screen is gone, so is the question.
        drop(self.at.tell.send(ChatEvent::Withdrawn(question)));
        if let (false, Ok(runtime)) = (self.is_answered, Handle::try_current()) {
            let (house, tell, call) = (self.at.house.clone(), self.at.tell.clone(), self.sheet.call);
            runtime.spawn(async move {
                if let Some(answer) = closing_words(&house, call, question).await {
                    drop(tell.send(ChatEvent::Message(format!("answered elsewhere: {}", prose(&answer)))));
                }
            });
        }
    }
}

/// Waits forever after the person has left. The question stays open for their return; a no would be final.
async fn nobody() -> Result<Reply, ApproverError> {
    std::future::pending().await
}

fn failed(why: &str) -> ApproverError {
    ApproverError::Failed(why.to_owned())
}
