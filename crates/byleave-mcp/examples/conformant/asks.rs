//! The server's requests for input: in the newer protocol a result that names the missing input, in the older one a request of
//! its own.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ElicitRequest, ElicitRequestParams,
    InputRequest, InputRequests, InputRequiredResult, InputResponses, ListRootsRequest, RequestStateCodec,
};
use rmcp::model::{CreateMessageRequest, CreateMessageRequestParams, SamplingMessage};
use serde_json::{Value, json};

use crate::{broken, said};

/// A public key, because a fixture has no secrets.
const KEY: &[u8] = b"a key that everyone may read, 32+";

/// Handles a call of a tool that needs input: asks for the missing input, and answers once it is there.
pub(crate) fn round(
    call: &CallToolRequestParams,
    can: &ClientCapabilities,
) -> Result<CallToolResponse, ErrorData> {
    let codec = RequestStateCodec::try_new(KEY.to_vec()).map_err(broken)?;
    let seal = |stage: &str| codec.seal_json(&json!(stage)).map_err(broken);
    let stage = match call.request_state.as_deref() {
        Some(sealed) => codec
            .open_json::<String>(sealed)
            .map_err(|_| ErrorData::invalid_params("the state is not the one that was given out", None))?,
        None => String::new(),
    };
    let given = call.input_responses.as_ref();
    let has = |names: &[&str]| names.iter().all(|name| response(given, name).is_some());
    let word = |name: &str, at: &str| {
        response(given, name).and_then(|value| value.pointer(at)?.as_str()).unwrap_or("nobody").to_owned()
    };
    let all =
        || [("user_name", name()), ("greeting", sampling("Generate a greeting")), ("client_roots", roots())];

    match call.name.strip_prefix("test_input_required_result_").unwrap_or("streaming") {
        "elicitation" if has(&["user_name"]) => {
            Ok(said(&format!("Hello, {}!", word("user_name", "/content/name"))))
        }
        "elicitation" => Ok(wanted([("user_name", name())], None)),
        "sampling" if has(&["capital_question"]) => {
            Ok(said(&format!("the model said: {}", word("capital_question", "/content/text"))))
        }
        "sampling" => Ok(wanted([("capital_question", sampling("What is the capital of France?"))], None)),
        "list_roots" if has(&["client_roots"]) => {
            Ok(said(&format!("the first root: {}", word("client_roots", "/roots/0/uri"))))
        }
        "list_roots" => Ok(wanted([("client_roots", roots())], None)),
        "request_state" | "tampered_state" if stage == "confirm" => Ok(said("Confirmed: state-ok")),
        "request_state" | "tampered_state" => {
            Ok(wanted([("confirm", form("Please confirm", "ok", "boolean"))], Some(seal("confirm")?)))
        }
        "multiple_inputs" if stage == "gather" && has(&["user_name", "greeting", "client_roots"]) => {
            Ok(said("all three are here"))
        }
        "multiple_inputs" => Ok(wanted(all(), Some(seal("gather")?))),
        "multi_round" if stage == "second" => Ok(said("both rounds are done")),
        "multi_round" if stage == "first" => Ok(wanted(
            [("step2", form("Step 2: What is your favorite color?", "color", "string"))],
            Some(seal("second")?),
        )),
        "multi_round" => Ok(wanted(
            [("step1", form("Step 1: What is your name?", "name", "string"))],
            Some(seal("first")?),
        )),
        "capabilities" if given.is_some() => Ok(said("asked for no more than the client can")),
        "capabilities" => {
            let able = [can.elicitation.is_some(), can.sampling.is_some(), can.roots.is_some()];
            let asked: Vec<_> =
                all().into_iter().zip(able).filter(|(_, able)| *able).map(|(ask, _)| ask).collect();
            Ok(if asked.is_empty() {
                said("there is nothing that this client can be asked")
            } else {
                wanted(asked, None)
            })
        }
        "streaming" => {
            Ok(wanted([("streaming_elicitation", form("Provide a value", "value", "string"))], None))
        }
        other => Err(ErrorData::invalid_params(format!("there is no tool `{other}`"), None)),
    }
}

/// The input request of the one prompt that needs input.
pub(crate) fn before_prompt() -> InputRequiredResult {
    let ask = form("What context should the prompt use?", "context", "string");
    InputRequiredResult::from_input_requests(InputRequests::from_iter([("user_context".to_owned(), ask)]))
}

/// Returns a response of the client. Anything but an object is ignored.
pub(crate) fn response<'a>(given: Option<&'a InputResponses>, name: &str) -> Option<&'a Value> {
    given?.get(name).filter(|value| value.is_object())
}

/// The forms of the older protocol by tool: the message and the fields.
pub(crate) fn legacy_form(tool: &str, message: String) -> Option<ElicitRequestParams> {
    let choice = |with: Value| {
        let mut field = json!({ "type": "string" });
        for (key, value) in with.as_object()? {
            field.as_object_mut()?.insert(key.clone(), value.clone());
        }
        Some(field)
    };
    let titled = |count: usize| -> Vec<Value> {
        (1..=count).map(|n| json!({ "const": format!("value{n}"), "title": format!("Choice {n}") })).collect()
    };
    let options = json!(["option1", "option2", "option3"]);
    let (message, fields, required) = match tool {
        "test_elicitation" => (
            message,
            json!({ "username": { "type": "string", "description": "what to call you" },
                    "email": { "type": "string", "description": "where to write to" } }),
            json!(["username", "email"]),
        ),
        "test_elicitation_sep1034_defaults" => (
            "every field has a default".to_owned(),
            json!({
                "name": { "type": "string", "description": "a name", "default": "John Doe" },
                "age": { "type": "integer", "description": "an age", "default": 30 },
                "score": { "type": "number", "description": "a score", "default": 95.5 },
                "status": { "type": "string", "description": "a state", "enum": ["active", "inactive", "pending"],
                            "default": "active" },
                "verified": { "type": "boolean", "description": "whether it was checked", "default": true },
            }),
            json!([]),
        ),
        "test_elicitation_sep1330_enums" => (
            "every way to choose".to_owned(),
            json!({
                "untitledSingle": choice(json!({ "enum": options }))?,
                "titledSingle": choice(json!({ "oneOf": titled(3) }))?,
                "legacyEnum": choice(json!({ "enum": ["opt1", "opt2", "opt3"],
                                             "enumNames": ["Option One", "Option Two", "Option Three"] }))?,
                "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
                "titledMulti": { "type": "array", "items": { "anyOf": titled(3) } },
            }),
            json!([]),
        ),
        _ => return None,
    };
    let schema = json!({ "type": "object", "properties": fields, "required": required });
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: serde_json::from_value(schema).ok()?,
    })
}

fn wanted<'a>(
    asks: impl IntoIterator<Item = (&'a str, InputRequest)>,
    state: Option<String>,
) -> CallToolResponse {
    let requests = asks.into_iter().map(|(name, ask)| (name.to_owned(), ask)).collect::<InputRequests>();
    InputRequiredResult::new(Some(requests), state).into()
}

fn name() -> InputRequest {
    form("What is your name?", "name", "string")
}

fn form(message: &str, field: &str, kind: &str) -> InputRequest {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    InputRequest::Elicitation(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.into(),
        requested_schema: serde_json::from_value(schema).expect("a schema of ours"),
    }))
}

fn sampling(prompt: &str) -> InputRequest {
    let ask = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    InputRequest::CreateMessage(CreateMessageRequest::new(ask))
}

fn roots() -> InputRequest {
    InputRequest::ListRoots(ListRootsRequest::default())
}
