//! The reason for a call in a question: the model's own words before the call, if the call states none.

use std::sync::{Arc, Mutex};

use byleave_agent::agent_loop::RunOutcome;
use byleave_agent::model::{ModelResponse, ToolCall};
use byleave_gate::approver::callback;
use byleave_gate::core::question_view::QuestionView;
use serde_json::Map;

use crate::agent_fixture::{AgentFixture, DONE};
use crate::fake::{KINDS, ReplyPart};

// req: R5, L5
#[tokio::test]
async fn the_words_before_a_call_are_its_reason() {
    const ONE: ReplyPart = ReplyPart::Call("write", &["{\"path\": \"a\"}"]);
    const TWO: ReplyPart = ReplyPart::Call("write", &["{\"path\": \"b\"}"]);
    for kind in KINDS {
        let explains: &[ReplyPart] =
            &[ReplyPart::Thought("Hm."), ReplyPart::Text(" The file is missing.\n"), ONE];
        let silent: &[ReplyPart] = &[ReplyPart::Thought("Hm."), TWO];
        let stage = AgentFixture::says(kind, &[explains, silent, DONE]).await;
        let asked: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
        let keeps = Arc::clone(&asked);
        let ann = callback("ann", move |sheet: &QuestionView| {
            keeps.lock().unwrap().push(sheet.reason.clone());
            true
        });
        assert_eq!(stage.task(Some(Arc::new(ann))).await, RunOutcome::Done, "{kind:?}");
        let expected = [Some("The file is missing.".to_owned()), None];
        assert_eq!(*asked.lock().unwrap(), expected, "{kind:?}");
    }
}

// req: R5
#[test]
fn a_stated_reason_goes_first_and_later_words_are_none() {
    let call = |reason: Option<&str>, text_before: usize| ToolCall {
        id: "1".into(),
        name: "write".into(),
        args: Map::new(),
        reason: reason.map(str::to_owned),
        text_before,
        provider_data: None,
    };
    let said = |text: &str| ModelResponse { text: text.into(), ..ModelResponse::default() };
    let text = "I write. Written!";
    assert_eq!(said(text).reason_for(&call(Some("to see"), 8)).as_deref(), Some("to see"));
    assert_eq!(said(text).reason_for(&call(None, 8)).as_deref(), Some("I write."));
    assert_eq!(said(text).reason_for(&call(None, 0)), None);
    // A length that does not fit the text: a reviewer masked some of it.
    assert_eq!(said(text).reason_for(&call(None, 999)).as_deref(), Some(text));

    let exact = "é".repeat(2_000);
    assert_eq!(said(&exact).reason_for(&call(None, exact.len())), Some(exact.clone()));
    let long = format!("{exact}é");
    let cut = said(&long).reason_for(&call(None, long.len())).unwrap();
    assert_eq!((cut.chars().count(), cut.chars().last()), (2_000, Some('…')));
    assert!(exact.starts_with(cut.trim_end_matches('…')));
}
