//! Asking the person behind a client: a form that the client shows, and what comes back.
//!
//! The form is the question as everyone sees it, and its choices are to let it happen once or not. It is never used for what a
//! plain yes must not answer. What comes back is the client's word and is recorded as that; whatever is not plainly yes is not yes.
//!
//! A client of the newer protocol is asked by the result of its call, and makes the call again with the answer. The state that it
//! brings back is sealed, and good for that question about that call only.

use std::time::Duration;

use byleave::approve::{Gravity, Reply};
use byleave::core::digest::Digest;
use byleave::core::id::{CallId, QuestionId};
use byleave::core::question::QuestionKind;
use byleave::core::render::render;
use byleave::core::sheet::Sheet;
use rmcp::model::{
    ClientCapabilities, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest,
    InputRequests, InputRequiredResult, InputResponses, RequestStateCodec, RequestStateError, SealOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What does not fit is not asked so: nobody knows how much of it a client would show.
const MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// What our question is called among those that a client is asked.
const OURS: &str = "byleave";

/// What our states begin with, to tell them from those of the servers.
const SEALED: &str = "byleave.";

/// What a client brings back with its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// The call that waits.
    pub(super) call: CallId,
    /// The question that it was asked.
    pub(super) question: QuestionId,
    /// What that question asks.
    pub(super) digest: Digest,
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

/// The form for a question, where one may be used.
pub(super) fn form(sheet: &Sheet) -> Option<ElicitRequestParams> {
    let is_plain = sheet.question.kind == QuestionKind::Approval
        && Gravity::of(sheet).words(sheet.question.kind).is_none();
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
    state: &State,
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
) -> Option<Result<(State, Option<Reply>), RequestStateError>> {
    let sealed = state?.strip_prefix(SEALED)?;
    let opened = codec.open_json_with::<State>(sealed, key.as_bytes());
    let said = responses.and_then(|responses| responses.get(OURS));
    let said = said.and_then(|said| ElicitResult::deserialize(said).ok());
    Some(opened.map(|state| (state, said.as_ref().and_then(reply))))
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
        let state = State { call, question, digest: Digest::of(b"asked"), state: None, responses: None };
        let sealed =
            codec.seal_json_with(&state, &SealOptions::new().associated_data(key.as_bytes())).unwrap();
        let sealed = format!("{SEALED}{sealed}");
        let opened = brought_back(&codec, &key, Some(&sealed), None).unwrap().unwrap();
        assert_eq!((opened.0.call, opened.1), (call, None));
        assert!(brought_back(&codec, &other, Some(&sealed), None).unwrap().is_err());
        assert!(brought_back(&codec, &key, Some("a state of a server"), None).is_none());
        let changed = sealed.replace("rs1.", "rs1.A");
        assert!(brought_back(&codec, &key, Some(&changed), None).unwrap().is_err());
    }
}
