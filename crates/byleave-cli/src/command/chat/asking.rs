//! Asks on the screen of the chat.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byleave::approve::{Approver, ApproverFault, Reply};
use byleave::core::id::QuestionId;
use byleave::core::question::Grade;
use byleave::core::render::Rendering;
use byleave::core::sheet::Sheet;
use byleave::pending::Pending;
use byleave_terminal::chat::News;
use tokio::sync::oneshot;

use crate::house::House;
use crate::notify;
use crate::options::Options;
use crate::taking_back;
use crate::time::now;

/// The person at the chat.
pub(super) struct AtChat {
    options: Options,
    house: House,
    tell: Sender<News>,
    answers: Answers,
}

/// Who waits for an answer.
#[derive(Clone, Default)]
pub(super) struct Answers(Arc<Mutex<HashMap<QuestionId, oneshot::Sender<Reply>>>>);

impl Answers {
    /// Hands an answer to who waits for it; returns whether somebody does.
    pub(super) fn give(&self, question: QuestionId, reply: Reply) -> bool {
        self.at().remove(&question).is_some_and(|waiting| waiting.send(reply).is_ok())
    }

    fn at(&self) -> MutexGuard<'_, HashMap<QuestionId, oneshot::Sender<Reply>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AtChat {
    pub(super) fn new(options: &Options, house: &House, tell: Sender<News>, answers: Answers) -> Self {
        Self { options: options.clone(), house: house.clone(), tell, answers }
    }

    async fn put(&self, sheet: &Sheet) -> Result<Reply, ApproverFault> {
        let undo = taking_back::last_change(&self.house, &self.options).await.ok().flatten();
        let (give, given) = oneshot::channel();
        self.answers.at().insert(sheet.question.id, give);
        let _withdrawn = Withdrawn { at: self, question: sheet.question.id };
        let asked = News::Asked(Box::new(sheet.clone()), undo);
        if self.tell.send(asked).is_err() {
            return nobody().await;
        }
        // What cannot be told elsewhere is not told: the question is on the screen.
        notify::told(&self.options.chosen, &sheet.question, &sheet.terms.tool).unwrap_or_default();
        let left = Duration::from_millis(sheet.question.expires_at.saturating_sub(now()));
        tokio::select! {
            reply = given => match reply {
                Ok(reply) => Ok(reply),
                Err(_) => nobody().await,
            },
            () = tokio::time::sleep(left) => Err(failed("the time to answer is over")),
        }
    }
}

impl Approver for AtChat {
    fn name(&self) -> &str {
        &self.options.person.name
    }
    fn grade(&self) -> Grade {
        Grade::Terminal
    }
    fn ask<'a>(
        &'a self,
        sheet: &'a Sheet,
        rendering: &'a Rendering,
    ) -> Pending<'a, Result<Reply, ApproverFault>> {
        Box::pin(async move {
            if !rendering.complete {
                return Err(failed("the question cannot be shown in full on a terminal"));
            }
            self.put(sheet).await
        })
    }
}

/// Takes a question off the screen that nobody waits for any more.
struct Withdrawn<'a> {
    at: &'a AtChat,
    question: QuestionId,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        self.at.answers.at().remove(&self.question);
        // Whoever has left sees no question either.
        drop(self.at.tell.send(News::Withdrawn(self.question)));
    }
}

/// The person has left. The question stays open for who comes back; a no would be one for good.
async fn nobody() -> Result<Reply, ApproverFault> {
    std::future::pending().await
}

fn failed(why: &str) -> ApproverFault {
    ApproverFault::Failed(why.to_owned())
}
