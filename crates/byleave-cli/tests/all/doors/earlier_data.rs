//! The data of a result reaches the client tools that ask for it.

use serde_json::{Value, json};

use super::{DoorFixture, text};
use crate::serve::HttpServerProcess;

const CLAIM: &str = "0123456789abcdef";

/// A reviewer that removes a field from every result.
const SETTINGS: &str = r#"
[[reviewer]]
name = "no-passwords"
kind = "drop_fields"
tools = ["client.*"]
fields = ["password"]
"#;

/// A client with tools of its own.
struct Client<'a> {
    served: &'a HttpServerProcess,
    token: String,
}

impl Client<'_> {
    /// Registers a tool. Returns the status and the response.
    fn register(&self, name: &str, more: &Value) -> (u16, Value) {
        let mut body = json!({
            "description": "Works on orders.", "input_schema": {"type": "object"}, "class": "readonly", "sensitive": false,
        });
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        self.served.ask(&self.token, "PUT", &format!("/v1/client-tools/{name}"), &body)
    }

    /// Waits while the server processes a call.
    fn until_still(&self, mut status: Value) -> Value {
        while status["state"] == "running" {
            let path = format!("/v1/calls/{}?wait=60", status["call"].as_str().unwrap());
            status = self.served.ask(&self.token, "GET", &path, &Value::Null).1;
        }
        status
    }

    fn submit(&self, key: &str, tool: &str, session: &str) -> Value {
        let body = json!({"tool": tool, "arguments": {}, "session": session});
        let path = "/v1/calls?wait=60";
        let heard = crate::serve::request(&self.served.address, &self.token, key, "POST", path, &body);
        self.until_still(heard.unwrap().1)
    }

    fn claim(&self, call: &Value) -> Value {
        let path = format!("/v1/calls/{}/claim?wait=60", call.as_str().unwrap());
        let claimed = self.served.ask(&self.token, "POST", &path, &json!({"claim": CLAIM})).1;
        assert_eq!(claimed["state"], "claimed", "{claimed}");
        claimed
    }

    fn report(&self, call: &Value, data: &Value) -> Value {
        let path = format!("/v1/calls/{}/report?wait=60", call.as_str().unwrap());
        let body = json!({"claim": CLAIM, "text": "done", "data": data});
        self.until_still(self.served.ask(&self.token, "POST", &path, &body).1)
    }

    /// Makes a call that runs at once. Returns its claim.
    fn run(&self, key: &str, tool: &str, session: &str, data: &Value) -> Value {
        let ready = self.submit(key, tool, session);
        assert_eq!(ready["state"], "ready", "{ready}");
        let claimed = self.claim(&ready["call"]);
        let settled = self.report(&ready["call"], data);
        assert_eq!(settled["result"]["outcome"], "completed", "{settled}");
        claimed
    }
}

// req: T4
// door: http
#[test]
fn a_client_tool_is_given_the_data_that_was_approved() {
    let doors = DoorFixture::new(SETTINGS, "");
    let (bot, other) = (doors.token(&["bot"]), doors.token(&["other"]));
    let served = doors.serve();
    let (bot, other) = (Client { served: &served, token: bot }, Client { served: &served, token: other });
    let wants = json!({"wants_data": ["client.bot.look"]});

    // A tool must exist before another one wants its data. A tool of another principal counts as unknown.
    let (status, problem) = bot.register("apply", &wants);
    assert_eq!(status, 422, "{problem}");
    assert!(
        problem["detail"].as_str().unwrap().contains("`wants_data` names `client.bot.look`"),
        "{problem}"
    );
    assert_eq!(bot.register("look", &json!({})).0, 200);
    assert_eq!(bot.register("apply", &wants).0, 200);
    let careful = json!({"wants_data": ["client.bot.look"], "needs_approval": true});
    assert_eq!(bot.register("careful", &careful).0, 200);
    let (status, problem) = other.register("apply", &wants);
    assert_eq!(status, 422, "{problem}");
    assert!(!problem["detail"].as_str().unwrap().contains("did you mean"), "{problem}");

    let empty = bot.run("apply-1", "client.bot.apply", "orders", &Value::Null);
    assert_eq!(empty.get("data"), None, "{empty}");
    let first = bot.run("look-1", "client.bot.look", "orders", &json!({"order": 1, "password": "p"}));
    assert_eq!(first.get("data"), None, "it did not ask: {first}");
    let released = |call: &Value, order: u32| {
        // A reviewer of the settings has removed the password.
        json!({"client.bot.look": {"call": call["call"], "data": {"order": order}}})
    };
    let given = bot.run("apply-2", "client.bot.apply", "orders", &Value::Null);
    assert_eq!(given["data"], released(&first, 1), "{given}");
    let elsewhere = bot.run("apply-3", "client.bot.apply", "invoices", &Value::Null);
    assert_eq!(elsewhere.get("data"), None, "{elsewhere}");

    // The person approves the data that the question names. A result that comes in between is newer, and is not given.
    let careful = json!({"tool": "client.bot.careful", "arguments": {}, "session": "orders"});
    let waits = served.asked_about(&bot.token, "careful-1", &careful);
    let question = doors.stand.question();
    let shown = text(&doors.run(&["inbox", "show", &question]).stdout);
    let line = format!("the tool is given the data that call {} of", first["call"].as_str().unwrap());
    assert!(shown.contains(&line) && shown.contains("client.bot.look"), "{shown}");
    let second = bot.run("look-2", "client.bot.look", "orders", &json!({"order": 2, "password": "p"}));
    let yes = doors.run(&["inbox", "answer", &question, "yes"]);
    assert!(!text(&yes.stderr).contains("error:"), "{yes:?}");
    let mut ready = waits;
    while ready["state"] != "ready" {
        let path = format!("/v1/calls/{}?wait=5", ready["call"].as_str().unwrap());
        ready = served.ask(&bot.token, "GET", &path, &Value::Null).1;
        assert_ne!(ready["state"], "settled", "{ready}");
    }
    let claimed = bot.claim(&ready["call"]);
    assert_eq!(claimed["data"], released(&first, 1), "{claimed}");
    bot.report(&ready["call"], &Value::Null);
    let newer = bot.run("apply-4", "client.bot.apply", "orders", &Value::Null);
    assert_eq!(newer["data"], released(&second, 2), "{newer}");
    served.stop();
}
