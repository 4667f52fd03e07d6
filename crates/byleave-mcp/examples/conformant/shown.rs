//! Static data of the server: definitions, and results that never change.

use serde_json::{Value, json};

/// One red pixel.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";
/// An empty sound file.
const SOUND: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// The tools: name, description and input schema.
pub(crate) fn tools() -> Vec<Value> {
    let bare = || json!({ "type": "object", "properties": {} });
    let takes = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    [
        ("echo", "says it back, for those who measure", takes("text")),
        ("test_simple_text", "answers with text", bare()),
        ("test_image_content", "answers with a picture", bare()),
        ("test_audio_content", "answers with a sound", bare()),
        ("test_embedded_resource", "answers with a resource inside", bare()),
        ("test_multiple_content_types", "answers with text, a picture and a resource", bare()),
        ("test_error_handling", "always fails", bare()),
        ("test_tool_with_logging", "logs while it works", bare()),
        ("test_logging_tool", "logs where the request asked for it", bare()),
        ("test_tool_with_progress", "says how far it has come", bare()),
        ("test_reconnection", "takes a moment", bare()),
        ("test_sampling", "asks the client's model", takes("prompt")),
        ("test_elicitation", "asks the person", takes("message")),
        ("test_elicitation_sep1034_defaults", "asks the person, with defaults", bare()),
        ("test_elicitation_sep1330_enums", "asks the person to choose", bare()),
        ("test_trigger_tool_change", "tells those who listen that the tools have changed", bare()),
        ("test_trigger_prompt_change", "tells those who listen that the prompts have changed", bare()),
        ("test_missing_capability", "needs a client that samples", bare()),
        ("test_streaming_elicitation", "wants input", bare()),
        ("test_input_required_result_elicitation", "wants an answer of the person", bare()),
        ("test_input_required_result_sampling", "wants an answer of the model", bare()),
        ("test_input_required_result_list_roots", "wants the roots", bare()),
        ("test_input_required_result_request_state", "wants its state back", bare()),
        ("test_input_required_result_tampered_state", "wants its state back untouched", bare()),
        ("test_input_required_result_multiple_inputs", "wants three answers at once", bare()),
        ("test_input_required_result_multi_round", "wants two answers in turn", bare()),
        ("test_input_required_result_capabilities", "wants what the client is able to answer", bare()),
        (
            "test_custom_header",
            "takes an argument that travels as a header too",
            json!({ "type": "object", "properties": { "value": { "type": "string", "x-mcp-header": "Value" } },
                    "required": ["value"] }),
        ),
        (
            "json_schema_2020_12_tool",
            "has a schema with the newer keywords",
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "$defs": { "address": { "$anchor": "address", "type": "object",
                    "properties": { "street": { "type": "string" }, "city": { "type": "string" } } } },
                "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
                "allOf": [{ "anyOf": [{ "required": ["name"] }, { "required": ["address"] }] }],
                "if": { "required": ["address"] },
                "then": { "properties": { "address": { "required": ["street"] } } },
                "else": { "required": ["name"] },
                "additionalProperties": false
            }),
        ),
    ]
    .into_iter()
    .map(|(name, description, schema)| json!({ "name": name, "description": description, "inputSchema": schema }))
    .collect()
}

/// The result of a tool with a constant answer.
pub(crate) fn answer(tool: &str) -> Option<Value> {
    let resource = |uri: &str, mime: &str, text: &str| json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime, "text": text } });
    let picture = || json!({ "type": "image", "data": PICTURE, "mimeType": "image/png" });
    let content = match tool {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([picture()]),
        "test_audio_content" => json!([{ "type": "audio", "data": SOUND, "mimeType": "audio/wav" }]),
        "test_embedded_resource" => {
            json!([resource(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content."
            )])
        }
        "test_multiple_content_types" => json!([
            text("Multiple content types test:"),
            picture(),
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ]),
        "test_error_handling" => {
            let said = text("This tool intentionally returns an error for testing");
            return Some(whole(json!({ "content": [said], "isError": true })));
        }
        _ => return None,
    };
    Some(whole(json!({ "content": content })))
}

/// The listed resources.
pub(crate) fn resources() -> Value {
    json!([
        { "uri": "test://static-text", "name": "text", "description": "always the same text", "mimeType": "text/plain" },
        { "uri": "test://watched-resource", "name": "watched", "description": "can be subscribed to", "mimeType": "text/plain" },
        { "uri": "test://static-binary", "name": "picture", "description": "always the same picture",
          "mimeType": "image/png" },
    ])
}

/// The only template.
pub(crate) fn templates() -> Value {
    json!([{ "uriTemplate": "test://template/{id}/data", "name": "by number", "description": "text made from the address",
             "mimeType": "application/json" }])
}

/// The content of a resource.
pub(crate) fn resource(uri: &str) -> Option<Value> {
    let content = match uri {
        "test://static-text" => {
            json!({ "uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource." })
        }
        "test://watched-resource" => json!({ "uri": uri, "mimeType": "text/plain", "text": "nothing new" }),
        "test://static-binary" => json!({ "uri": uri, "mimeType": "image/png", "blob": PICTURE }),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let text =
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string();
            json!({ "uri": uri, "mimeType": "application/json", "text": text })
        }
    };
    Some(whole(json!({ "contents": [content] })))
}

/// The listed prompts.
pub(crate) fn prompts() -> Value {
    json!([
        { "name": "test_simple_prompt", "description": "takes nothing" },
        { "name": "test_prompt_with_arguments", "description": "takes two words", "arguments": [
            { "name": "arg1", "description": "the first", "required": true },
            { "name": "arg2", "description": "the second", "required": false } ] },
        { "name": "test_prompt_with_embedded_resource", "description": "has a resource inside", "arguments": [
            { "name": "resourceUri", "description": "which", "required": true } ] },
        { "name": "test_prompt_with_image", "description": "has a picture inside" },
        { "name": "test_input_required_result_prompt", "description": "asks the person first" },
    ])
}

/// A prompt with its arguments filled in.
pub(crate) fn prompt(name: &str, argument: &dyn Fn(&str) -> String) -> Option<Value> {
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let inside = json!({ "uri": argument("resourceUri"), "mimeType": "text/plain",
                                 "text": "Embedded resource content for testing." });
            vec![
                json!({ "type": "resource", "resource": inside }),
                text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => vec![
            json!({ "type": "image", "data": PICTURE, "mimeType": "image/png" }),
            text("Please analyze the image above."),
        ],
        _ => return None,
    };
    let messages: Vec<Value> =
        contents.into_iter().map(|content| json!({ "role": "user", "content": content })).collect();
    Some(whole(json!({ "messages": messages })))
}

/// Marks a result as complete, as the newer protocol requires.
pub(crate) fn whole(mut result: Value) -> Value {
    if let Some(fields) = result.as_object_mut() {
        fields.insert("resultType".to_owned(), json!("complete"));
    }
    result
}

/// A block of text.
pub(crate) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}
