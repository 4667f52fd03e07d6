//! Asks the person behind a client, by a form that the client shows or a page that it opens.
//!
//! If a server has a page for the question and the client can open one, the person answers there, signed in. Nothing that the
//! client itself then says is an answer. Otherwise the client shows a form.
//!
//! The form shows the same question as everywhere else. Its choices are to allow the call once or not. It must never be used
//! for a question that a plain yes must not answer. The answer is recorded as reported by the client, and anything but a
//! plain yes is not a yes.
//!
//! A client of the newer protocol is asked through the result of its call, and repeats the call with the answer. The state
//! that it returns is sealed, and valid only for that question about that call.

use std::time::Duration;

use byleave_gate::approver::{Reply, RiskLevel};
use byleave_gate::core::call::Millis;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::{CallId, QuestionId};
use byleave_gate::core::question::QuestionKind;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::render;
use rmcp::model::{
    ClientCapabilities, CustomNotification, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, InputRequest, InputRequests, InputRequiredResult, InputResponses, RequestStateCodec,
    RequestStateError, SealOptions, ServerNotification,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The maximum size of a form's message. A longer question is not asked by a form, because a client might show only a part of
/// it.
const MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// The name of our question among the input requests to a client.
const OURS: &str = "byleave";

/// The notification for clients of the older protocol that a page is done.
const CLOSED: &str = "notifications/elicitation/complete";

/// The prefix of our states, which distinguishes them from those of servers.
const SEALED: &str = "byleave.";

/// The state that a client returns with its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ElicitationState {
    /// The call that waits.
    pub(super) call: CallId,
    /// The question that the client was asked.
    pub(super) question: QuestionId,
    /// The digest of the question.
    pub(super) digest: Digest,
    /// The time at which the client was asked.
    pub(super) asked_at: Millis,
    /// Whether the question is answered on a page, and never by the client.
    pub(super) on_page: bool,
    /// The state for the server in the original call.
    pub(super) state: Option<String>,
    /// The answers for the server in the original call.
    pub(super) responses: Option<InputResponses>,
}

/// Checks whether a client can show a form.
pub(super) fn supports_form(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    // A client that names no kind supports forms, because earlier versions had nothing else.
    elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// Checks whether a client offers forms, but ends its whole session if nobody is at its terminal. Its questions stay in the inbox.
pub(super) fn ends_at_form(client: &str) -> bool {
    client.to_ascii_lowercase().starts_with("goose")
}

/// Checks whether a client can open a page.
pub(super) fn supports_url(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    elicitation.is_some_and(|elicitation| elicitation.url.is_some())
}

/// Creates the request to open the page of a question.
pub(super) fn url_elicitation(question: QuestionId, tool: &str, url: String) -> ElicitRequestParams {
    let message = format!(
        "Byleave: `{tool}` waits for your answer. Open the page to see the whole call and to answer; agreeing here only opens the page."
    );
    ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message,
        url,
        elicitation_id: question.to_string(),
    }
}

/// Checks whether the request opens a page. Nothing that the client says is then an answer.
pub(super) const fn is_page(asking: &ElicitRequestParams) -> bool {
    matches!(asking, ElicitRequestParams::UrlElicitationParams { .. })
}

/// Creates the notification for a client of the older protocol that a page is done.
pub(super) fn completion_notification(question: QuestionId) -> ServerNotification {
    let params = json!({ "elicitationId": question.to_string() });
    ServerNotification::CustomNotification(CustomNotification::new(CLOSED, Some(params)))
}

/// Creates the form for a question, if a form may be used.
pub(super) fn form_elicitation(sheet: &QuestionView) -> Option<ElicitRequestParams> {
    let is_plain = sheet.question.kind == QuestionKind::Approval
        && !sheet.needs_challenge()
        && RiskLevel::for_question(sheet).confirmation_phrase(sheet.question.kind).is_none();
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
                "description": "once: run exactly this call, now. deny: do not run it.",
                "enum": ["once", "deny"],
            },
            "reason": {
                "type": "string",
                "title": "Reason",
                "description": "A message for the agent (optional).",
                "maxLength": 1000,
            },
        },
        "required": ["decision"],
    });
    let requested_schema = serde_json::from_value(schema).ok()?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Returns the person's answer as reported by the client; `None` if there was no answer.
///
/// A client that declines sooner than a person can (`is_quick`) has nobody to ask: its answer is no one's.
pub(super) fn parse_reply(result: &ElicitResult, is_quick: bool) -> Option<Reply> {
    let of =
        |name: &str| result.content.as_ref().and_then(|content| content.get(name)).and_then(Value::as_str);
    let words = of("reason").map(str::trim).filter(|words| !words.is_empty()).map(str::to_owned);
    match (&result.action, of("decision")) {
        (ElicitationAction::Accept, Some("once")) => Some(Reply::Yes { note: words }),
        (ElicitationAction::Accept, Some("deny")) => Some(Reply::No { feedback: words }),
        (ElicitationAction::Decline, _) if !is_quick => Some(Reply::No { feedback: words }),
        _ => None,
    }
}

/// Creates the result that asks a client of the newer protocol and ends its call.
pub(super) fn input_required(
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

/// Returns our state and the reported answer, if a client returned them.
pub(super) fn parse_returned_state(
    codec: &RequestStateCodec,
    key: &Digest,
    state: Option<&str>,
    responses: Option<&InputResponses>,
    is_quick: impl FnOnce(Millis) -> bool,
) -> Option<Result<(ElicitationState, Option<Reply>), RequestStateError>> {
    let sealed = state?.strip_prefix(SEALED)?;
    let opened = codec.open_json_with::<ElicitationState>(sealed, key.as_bytes());
    let said = responses.and_then(|responses| responses.get(OURS));
    let said = said.and_then(|said| ElicitResult::deserialize(said).ok());
    Some(opened.map(|state| {
        let is_quick = is_quick(state.asked_at);
        let said = said.as_ref().filter(|_| !state.on_page);
        let said = said.and_then(|said| parse_reply(said, is_quick));
        (state, said)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &Value, expected: Option<&Reply>) {
        let result: ElicitResult = serde_json::from_value(said.clone()).unwrap();
        assert_eq!(parse_reply(&result, false).as_ref(), expected, "{said}");
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
        // A client without a person declines at once. A yes or no in the form was chosen.
        for (said, counts) in [
            (json!({"action": "decline"}), false),
            (json!({"action": "accept", "content": {"decision": "deny"}}), true),
        ] {
            let result: ElicitResult = serde_json::from_value(said).unwrap();
            assert_eq!(parse_reply(&result, true).is_some(), counts, "{result:?}");
        }
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
        let (key, other) = (Digest::compute(b"this call"), Digest::compute(b"another call"));
        let (call, question) =
            (CallId::new(byleave_gate::clock::fresh_id()), QuestionId::new(byleave_gate::clock::fresh_id()));
        let digest = Digest::compute(b"asked");
        let state = ElicitationState {
            call,
            question,
            digest,
            asked_at: 0,
            on_page: false,
            state: None,
            responses: None,
        };
        let seal = |state: &ElicitationState| {
            let options = SealOptions::new().associated_data(key.as_bytes());
            format!("{SEALED}{}", codec.seal_json_with(state, &options).unwrap())
        };
        let sealed = seal(&state);
        let opened = parse_returned_state(&codec, &key, Some(&sealed), None, |_| false).unwrap().unwrap();
        assert_eq!((opened.0.call, opened.1), (call, None));
        assert!(parse_returned_state(&codec, &other, Some(&sealed), None, |_| false).unwrap().is_err());
        assert!(parse_returned_state(&codec, &key, Some("a state of a server"), None, |_| false).is_none());
        let changed = sealed.replace("rs1.", "rs1.A");
        assert!(parse_returned_state(&codec, &key, Some(&changed), None, |_| false).unwrap().is_err());
        // The client cannot answer a question that must be answered on a page.
        for (on_page, answered) in [(false, true), (true, false)] {
            let sealed = seal(&ElicitationState { on_page, ..state.clone() });
            for said in
                [json!({"action": "accept", "content": {"decision": "once"}}), json!({"action": "decline"})]
            {
                let responses = serde_json::from_value(json!({ OURS: said })).unwrap();
                let back = parse_returned_state(&codec, &key, Some(&sealed), Some(&responses), |_| false)
                    .unwrap()
                    .unwrap();
                assert_eq!(back.1.is_some(), answered, "{said}");
            }
        }
    }
}
