//! Asking the person behind a client: a form that the client shows and what comes back, or a page that it opens.
//!
//! Where a server has a page for the question and the client can open one, the person answers there, signed in; whatever the client
//! itself then says is no answer. Otherwise it is a form.
//!
//! The form is the question as everyone sees it, and its choices are to let it happen once or not. It is never used for what a
//! plain yes must not answer. What comes back is the client's word and is recorded as that; whatever is not plainly yes is not yes.
//!
//! A client of the newer protocol is asked by the result of its call, and makes the call again with the answer. The state that it
//! brings back is sealed, and good for that question about that call only.

use std::time::Duration;

use byleave::approver::{Reply, RiskLevel};
use byleave::core::digest::Digest;
use byleave::core::id::{CallId, QuestionId};
use byleave::core::question::QuestionKind;
use byleave::core::question_view::QuestionView;
use byleave::core::render::render;
use rmcp::model::{
    ClientCapabilities, CustomNotification, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, InputRequest, InputRequests, InputRequiredResult, InputResponses, RequestStateCodec,
    RequestStateError, SealOptions, ServerNotification,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What does not fit is not asked so: nobody knows how much of it a client would show.
const MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// What our question is called among those that a client is asked.
const OURS: &str = "byleave";

/// What a client of the older protocol is told when nothing is left to do on a page.
const CLOSED: &str = "notifications/elicitation/complete";

/// What our states begin with, to tell them from those of the servers.
const SEALED: &str = "byleave.";

/// What a client brings back with its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ElicitationState {
    /// The call that waits.
    pub(super) call: CallId,
    /// The question that it was asked.
    pub(super) question: QuestionId,
    /// What that question asks.
    pub(super) digest: Digest,
    /// It is answered on a page, and never by the client.
    pub(super) on_page: bool,
    /// What a server wanted back in the call as it was first made.
    pub(super) state: Option<String>,
    /// What it was given with it.
    pub(super) responses: Option<InputResponses>,
}

/// Whether a client says that it can show a form.
pub(super) fn can_show(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    // One that names no kind means forms: there was nothing else then.
    elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// Whether a client says that it can open a page.
pub(super) fn can_open(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    elicitation.is_some_and(|elicitation| elicitation.url.is_some())
}

/// The page of a question, to be opened.
pub(super) fn page(question: QuestionId, tool: &str, url: String) -> ElicitRequestParams {
    let message = format!(
        "Byleave: `{tool}` waits for your answer. Open the page to see all of it and to answer; agreeing here only opens the page."
    );
    ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message,
        url,
        elicitation_id: question.to_string(),
    }
}

/// Whether it is a page: then nothing that the client says is an answer.
pub(super) const fn is_page(asking: &ElicitRequestParams) -> bool {
    matches!(asking, ElicitRequestParams::UrlElicitationParams { .. })
}

/// Tells a client of the older protocol that nothing is left to do on a page.
pub(super) fn closed(question: QuestionId) -> ServerNotification {
    let params = json!({ "elicitationId": question.to_string() });
    ServerNotification::CustomNotification(CustomNotification::new(CLOSED, Some(params)))
}

/// The form for a question, where one may be used.
pub(super) fn form(sheet: &QuestionView) -> Option<ElicitRequestParams> {
    let is_plain = sheet.question.kind == QuestionKind::Approval
        && RiskLevel::of(sheet).words(sheet.question.kind).is_none();
    let rendering = render(sheet);
    if !is_plain || !rendering.complete {
        return None;
    }
    let message = rendering.to_text();
    if message.len() > MESSAGE_BYTES_MAX {
        return None;
    }
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "once: do exactly this, now. deny: do not.",
                "enum": ["once", "deny"],
            },
            "reason": {
                "type": "string",
                "title": "Reason",
                "description": "What the agent is told, if anything.",
                "maxLength": 1000,
            },
        },
        "required": ["decision"],
    });
    let requested_schema = serde_json::from_value(schema).ok()?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// What a client says that the person said. Nothing: nobody answered.
pub(super) fn reply(result: &ElicitResult) -> Option<Reply> {
    let of =
        |name: &str| result.content.as_ref().and_then(|content| content.get(name)).and_then(Value::as_str);
    let words = of("reason").map(str::trim).filter(|words| !words.is_empty()).map(str::to_owned);
    match (&result.action, of("decision")) {
        (ElicitationAction::Accept, Some("once")) => Some(Reply::Yes { note: words }),
        (ElicitationAction::Accept, Some("deny")) | (ElicitationAction::Decline, _) => {
            Some(Reply::No { feedback: words })
        }
        _ => None,
    }
}

/// Asks a client of the newer protocol, whose call ends with that.
pub(super) fn asked(
    codec: &RequestStateCodec,
    key: &Digest,
    state: &ElicitationState,
    form: ElicitRequestParams,
    left: Duration,
) -> Result<InputRequiredResult, RequestStateError> {
    let options = SealOptions::new().associated_data(key.as_bytes()).ttl(left);
    let sealed = codec.seal_json_with(state, &options)?;
    let mut requests = InputRequests::new();
    requests.insert(OURS.into(), InputRequest::Elicitation(ElicitRequest::new(form)));
    Ok(InputRequiredResult::new(Some(requests), Some(format!("{SEALED}{sealed}"))))
}

/// What a client brings back, if it is ours: the state, and what it says that the person said.
pub(super) fn brought_back(
    codec: &RequestStateCodec,
    key: &Digest,
    state: Option<&str>,
    responses: Option<&InputResponses>,
) -> Option<Result<(ElicitationState, Option<Reply>), RequestStateError>> {
    let sealed = state?.strip_prefix(SEALED)?;
    let opened = codec.open_json_with::<ElicitationState>(sealed, key.as_bytes());
    let said = responses.and_then(|responses| responses.get(OURS));
    let said = said.and_then(|said| ElicitResult::deserialize(said).ok());
    Some(opened.map(|state| {
        let said = said.as_ref().filter(|_| !state.on_page).and_then(reply);
        (state, said)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &Value, expected: Option<&Reply>) {
        let result: ElicitResult = serde_json::from_value(said.clone()).unwrap();
        assert_eq!(reply(&result).as_ref(), expected, "{said}");
    }

    // req: R5
    #[test]
    fn only_a_plain_yes_is_one() {
        let yes = |note: Option<&str>| Reply::Yes { note: note.map(str::to_owned) };
        let no = |feedback: Option<&str>| Reply::No { feedback: feedback.map(str::to_owned) };
        check(&json!({"action": "accept", "content": {"decision": "once"}}), Some(&yes(None)));
        check(
            &json!({"action": "accept", "content": {"decision": "once", "reason": " fine "}}),
            Some(&yes(Some("fine"))),
        );
        check(
            &json!({"action": "accept", "content": {"decision": "deny", "reason": "not now"}}),
            Some(&no(Some("not now"))),
        );
        check(&json!({"action": "decline"}), Some(&no(None)));
        for not_yes in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"decision": "always"}}),
            json!({"action": "accept", "content": {"decision": true}}),
            json!({"action": "accept", "content": "once"}),
            json!({"action": "cancel", "content": {"decision": "once"}}),
        ] {
            check(&not_yes, None);
        }
    }

    // req: R5
    #[test]
    fn a_state_is_good_for_its_own_call_only() {
        let codec = RequestStateCodec::try_new([7_u8; 32]).unwrap();
        let (key, other) = (Digest::of(b"this call"), Digest::of(b"another call"));
        let (call, question) =
            (CallId::new(byleave::clock::fresh_id()), QuestionId::new(byleave::clock::fresh_id()));
        let digest = Digest::of(b"asked");
        let state = ElicitationState { call, question, digest, on_page: false, state: None, responses: None };
        let seal = |state: &ElicitationState| {
            let options = SealOptions::new().associated_data(key.as_bytes());
            format!("{SEALED}{}", codec.seal_json_with(state, &options).unwrap())
        };
        let sealed = seal(&state);
        let opened = brought_back(&codec, &key, Some(&sealed), None).unwrap().unwrap();
        assert_eq!((opened.0.call, opened.1), (call, None));
        assert!(brought_back(&codec, &other, Some(&sealed), None).unwrap().is_err());
        assert!(brought_back(&codec, &key, Some("a state of a server"), None).is_none());
        let changed = sealed.replace("rs1.", "rs1.A");
        assert!(brought_back(&codec, &key, Some(&changed), None).unwrap().is_err());
        // What was to be answered on a page is not answered by the client, whatever it says.
        for (on_page, answered) in [(false, true), (true, false)] {
            let sealed = seal(&ElicitationState { on_page, ..state.clone() });
            for said in
                [json!({"action": "accept", "content": {"decision": "once"}}), json!({"action": "decline"})]
            {
                let responses = serde_json::from_value(json!({ OURS: said })).unwrap();
                let back = brought_back(&codec, &key, Some(&sealed), Some(&responses)).unwrap().unwrap();
                assert_eq!(back.1.is_some(), answered, "{said}");
            }
        }
    }
}
