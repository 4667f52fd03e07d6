//! Hostile requests. Each is refused with a problem response, and nothing is disclosed.

use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_server::openapi;
use byleave_server::principal::{AccessScope, PrincipalKind};
use byleave_server::tokens::NewToken;
use serde_json::{Value, json};

use crate::stage::ServerFixture;

/// Lists every operation, with a path that names nothing.
fn operations() -> Vec<(String, String)> {
    let document = serde_json::to_value(openapi()).unwrap();
    let nothing = "00000000-0000-7000-8000-000000000000";
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let path = ["{call}", "{question}", "{approval}", "{name}"]
            .iter()
            .fold(path.clone(), |path, id| path.replace(id, nothing));
        for method in item
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| ["get", "post", "put", "delete"].contains(&key.as_str()))
        {
            all.push((method.to_uppercase(), path.clone()));
        }
    }
    assert!(all.len() >= 20, "{all:?}");
    all
}

/// Returns a body that the operation accepts, so that the request is not refused for its body.
fn body(path: &str) -> Option<Value> {
    let digest = "0".repeat(64);
    match path {
        "/v1/calls" => Some(json!({"tool": "echo"})),
        "/v1/halt" => Some(json!({"reason": "x"})),
        "/v1/policy/explain" => Some(json!({"tool": "echo"})),
        "/v1/policy/replay" => Some(json!({"policy": ""})),
        path if path.ends_with("/claim") || path.ends_with("/report") => {
            Some(json!({"claim": "0123456789abcdef"}))
        }
        path if path.starts_with("/v1/client-tools/") => Some(json!({"description": "", "input_schema": {}})),
        path if path.ends_with("/answer") => Some(json!({"digest": digest, "answer": {"kind": "yes"}})),
        _ => None,
    }
}

// req: R4
#[tokio::test(flavor = "multi_thread")]
async fn without_a_good_token_nothing_is_learned() {
    let stage = ServerFixture::new().await;
    let wanted = NewToken {
        tenant: "local".parse().unwrap(),
        name: "old".parse().unwrap(),
        kind: PrincipalKind::Agent,
        scopes: [AccessScope::Submit, AccessScope::Answer, AccessScope::Read].into(),
        lifetime_ms: 1_000,
    };
    let (_, expired) = stage.tokens().add(wanted, SystemClock.now() - 10_000).unwrap();
    let expired = String::from_utf8(expired.expose().to_vec()).unwrap();
    let good = stage.agent("bot");
    let nowhere = stage.token_in("nobody", "bot", PrincipalKind::Agent, &[AccessScope::Submit]);
    let mut forged = good.clone();
    forged.replace_range(forged.len() - 1.., if good.ends_with('0') { "1" } else { "0" });
    let removed = stage.agent("gone");
    let id =
        stage.tokens().list().unwrap().into_iter().find(|token| token.name.as_str() == "gone").unwrap().id;
    stage.tokens().remove(&id).unwrap();
    let mut all = operations();
    all.extend([
        ("GET".into(), "/nothing".into()),
        ("GET".into(), "/v1/nothing".into()),
        ("PATCH".into(), "/v1/calls".into()),
    ]);
    let first = stage.ask("", "GET", "/v1/health", None).await;
    first.is_problem(401, "unauthenticated");
    assert_eq!(first.headers["www-authenticate"], "Bearer");
    for token in [expired, nowhere, forged, removed, "byl_".to_owned(), "x".repeat(5_000)] {
        let heard = stage.ask(&token, "GET", "/v1/health", None).await;
        assert_eq!((heard.status, &heard.text), (401, &first.text));
    }
    for (method, path) in all {
        let heard = stage.ask("", &method, &path, None).await;
        assert_eq!((heard.status, &heard.text), (401, &first.text), "{method} {path}");
    }
    // A valid token in the wrong place is not accepted.
    let cookie = [("cookie", format!("token={good}"))];
    let cookie: Vec<(&str, &str)> = cookie.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(stage.ask_with("", "GET", "/v1/health", None, &cookie).await.status, 401);
    assert_eq!(stage.ask("", "GET", &format!("/v1/health?access_token={good}"), None).await.status, 401);
    assert_eq!(stage.ask(&good, "GET", "/v1/health", None).await.status, 200);
    // Two tokens are refused, because it is unclear which one is meant.
    let two = [("authorization", "Bearer x")];
    assert_eq!(stage.ask_with(&good, "GET", "/v1/health", None, &two).await.status, 401);
}

// req: R4
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_wants_its_scope() {
    let stage = ServerFixture::new().await;
    let needs = |method: &str, path: &str| -> &'static [AccessScope] {
        use AccessScope::{Administer, Answer, Read, Submit};
        match (method, path) {
            ("POST", "/v1/calls") => &[Submit],
            (_, path) if path.ends_with("/cancel") => &[Submit, Administer],
            (_, path) if path.ends_with("/claim") || path.ends_with("/report") => &[Submit],
            (_, path) if path.starts_with("/v1/client-tools/") => &[Submit],
            ("PUT" | "DELETE", _) | (_, "/v1/metrics" | "/v1/policy/replay") => &[Administer],
            ("GET", "/v1/questions") => &[Answer, Read],
            (_, path) if path.starts_with("/v1/questions/") => &[Answer],
            (_, path) if path.starts_with("/v1/calls/") => &[Submit, Read],
            (_, "/v1/tools" | "/v1/policy/explain") => &[Submit, Read],
            (_, "/v1/health" | "/v1/openapi.json" | "/v1/halt") => &AccessScope::ALL,
            _ => &[Read],
        }
    };
    for scope in AccessScope::ALL {
        let kind = if scope == AccessScope::Work { PrincipalKind::Agent } else { PrincipalKind::Person };
        let token = stage.token_in("local", &format!("p-{}", scope.as_str()), kind, &[scope]);
        for (method, path) in operations() {
            let heard = stage
                .ask_with(&token, &method, &path, body(&path).as_ref(), &[("idempotency-key", "k")])
                .await;
            if needs(&method, &path).contains(&scope) {
                let metrics = path == "/v1/metrics";
                assert!(heard.status != 403 || metrics, "{} {method} {path}: {}", scope.as_str(), heard.text);
            } else {
                heard.is_problem(403, "forbidden");
            }
        }
    }
}

// req: R4
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_others_and_other_names_are_refused() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let port = stage.address.port();
    let refused = [
        ("origin", "https://evil.example".to_owned(), "foreign-origin"),
        ("origin", "null".to_owned(), "foreign-origin"),
        ("origin", format!("http://127.0.0.1:{}", port.wrapping_add(1)), "foreign-origin"),
        ("origin", format!("https://127.0.0.1:{port}"), "foreign-origin"),
        ("origin", format!("http://127.0.0.1.evil.example:{port}"), "foreign-origin"),
        ("sec-fetch-site", "cross-site".to_owned(), "foreign-origin"),
        ("sec-fetch-site", "same-site".to_owned(), "foreign-origin"),
    ];
    for (name, value, code) in refused {
        stage.ask_with(&bot, "GET", "/v1/health", None, &[(name, &value)]).await.is_problem(403, code);
    }
    let ours = format!("http://localhost:{port}");
    assert_eq!(stage.ask_with(&bot, "GET", "/v1/health", None, &[("origin", &ours)]).await.status, 200);
    let ask = |line: String, host: &str| {
        format!("{line} HTTP/1.1\r\n{host}authorization: Bearer {bot}\r\nconnection: close\r\n\r\n")
            .into_bytes()
    };
    for host in [
        "host: evil.example\r\n",
        "host: 127.0.0.1@evil.example\r\n",
        "host: \r\n",
        "host: 127.0.0.1\r\nhost: evil.example\r\n",
    ] {
        let heard = stage.say(&ask("GET /v1/health".into(), host)).await;
        assert!(matches!(heard.status, 400 | 421), "{host}: {} {}", heard.status, heard.text);
    }
    // Without a host name, and with a foreign host name in the request target.
    assert!(matches!(stage.say(&ask("GET /v1/health".into(), "")).await.status, 400 | 421));
    let absolute = stage.say(&ask("GET http://evil.example/v1/health".into(), "host: localhost\r\n")).await;
    assert!(matches!(absolute.status, 400 | 421), "{}", absolute.text);
    assert_eq!(stage.say(&ask("GET /v1/health".into(), "host: localhost\r\n")).await.status, 200);
}

// req: B7
#[tokio::test(flavor = "multi_thread")]
async fn paths_have_one_spelling() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Read]));
    let heard = stage.call(&bot, "k", 30, &json!({"tool": "echo", "arguments": {"text": "x"}})).await;
    let call = heard.json["call"].as_str().unwrap();
    let braced = format!("/v1/calls/%7B{call}%7D");
    let plain = format!("/v1/calls/{}", call.replace('-', ""));
    let tricks = [
        "//v1/health",
        "/v1//health",
        "/v1/health/",
        "/V1/health",
        "/v1/./health",
        "/v1/../v1/health",
        "/v1/%2e%2e/v1/health",
        "/v1/calls/..%2fhealth",
        "/v1/calls/%00",
        "/v1/calls/%ff",
        "/v1/log/calls/..",
        "/v1/calls/../../etc/passwd",
        &braced,
        &plain,
        "/v1/calls/urn:uuid:00000000-0000-7000-8000-000000000000",
        "/v1/health%20",
        "/v1/health;x",
    ];
    for trick in tricks {
        for token in [&bot, &ann] {
            let heard = stage.ask(token, "GET", trick, None).await;
            assert_eq!(heard.status, 404, "{trick}: {}", heard.text);
            assert_eq!(heard.json["code"], "not-found", "{trick}");
        }
    }
    let heard = stage.ask(&bot, "PATCH", "/v1/calls", None).await;
    heard.is_problem(405, "method-not-allowed");
    assert!(heard.headers["allow"].contains("POST"), "{:?}", heard.headers);
}

// req: R3
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_not_wanted_are_refused_whole() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let send = async |body: &str, media: &str, key: &str| {
        let head = format!(
            "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {bot}\r\n{key}content-type: {media}\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stage.say(head.as_bytes()).await
    };
    let (json, key) = ("application/json", "idempotency-key: k\r\n");
    let good = r#"{"tool":"echo","arguments":{"text":"x"}}"#;
    send(good, "text/plain", key).await.is_problem(415, "not-json");
    send(good, "application/x-www-form-urlencoded", key).await.is_problem(415, "not-json");
    for wrong in [
        "",
        "{",
        "[]",
        "null",
        r#"{"tool":"echo","extra":1}"#,
        r#"{"tool":"echo","tool":"note"}"#,
        r#"{"tool":1}"#,
        r#"{"tool":"echo","arguments":[]}"#,
        r#"{"arguments":{}}"#,
    ] {
        send(wrong, json, key).await.is_problem(400, "malformed");
    }
    let deep =
        format!(r#"{{"tool":"echo","arguments":{{"text":{}1{}}}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    send(&deep, json, key).await.is_problem(400, "malformed");
    for session in ["a/b", "..\u{2044}", "", "a b", &"s".repeat(49)] {
        let body = json!({"tool": "echo", "arguments": {"text": "x"}, "session": session}).to_string();
        send(&body, json, key).await.is_problem(422, "unusable");
    }
    for key in [
        "",
        "idempotency-key: \r\n",
        "idempotency-key: a b\r\n",
        "idempotency-key: a\r\nidempotency-key: b\r\n",
    ] {
        send(good, json, key).await.is_problem(400, "malformed");
    }
    let long = format!("idempotency-key: {}\r\n", "k".repeat(129));
    send(good, json, &long).await.is_problem(400, "malformed");
    // Queries are checked, too.
    for query in ["wait=61", "wait=-1", "wait=x", "wait=1&wait=2", "later=1"] {
        let path = format!("/v1/calls/00000000-0000-7000-8000-000000000000?{query}");
        stage.ask(&bot, "GET", &path, None).await.is_problem(400, "malformed");
    }
    assert_eq!(send(good, "application/json; charset=utf-8", key).await.status / 100, 2);
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_sees_its_own_calls_and_no_others() {
    let stage = ServerFixture::new().await;
    let (bot, spy) = (stage.agent("bot"), stage.agent("spy"));
    let body = json!({"tool": "echo", "arguments": {"text": "mine"}, "session": "s"});
    let call = stage.call(&bot, "k", 30, &body).await.json["call"].as_str().unwrap().to_owned();
    for path in [format!("/v1/calls/{call}"), format!("/v1/calls/{call}/events")] {
        let heard = stage.ask(&spy, "GET", &path, None).await;
        heard.is_problem(404, "not-found");
        let nothing = path.replace(&call, "00000000-0000-7000-8000-000000000000");
        assert_eq!(stage.ask(&spy, "GET", &nothing, None).await.text, heard.text, "as if there were none");
    }
    // The same key and session of another agent are another call in another session.
    let theirs = stage.call(&spy, "k", 30, &body).await;
    assert_ne!(theirs.json["call"], call.as_str());
}
