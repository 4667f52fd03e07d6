//! The server's telemetry: traces and metrics over OTLP to a collector with the real protocol. Also a dashboard for the metrics that
//! Prometheus gets.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use regex::Regex;
use serde_json::{Value, json};

use crate::serve::{HttpServerProcess, request, said, token};
use crate::world::CliTestWorld;

/// The bodies that a collector received, with their paths.
type CollectorRequests = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Starts a collector on loopback that stores what it receives and always reports success.
fn collector() -> (String, CollectorRequests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, sent) =
        (format!("http://{}", listener.local_addr().unwrap()), CollectorRequests::default());
    let kept = Arc::clone(&sent);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, kept) = (stream.unwrap(), Arc::clone(&kept));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                loop {
                    let (mut first, mut length) = (String::new(), 0);
                    if reader.read_line(&mut first).unwrap_or(0) == 0 {
                        return;
                    }
                    loop {
                        let mut line = String::new();
                        reader.read_line(&mut line).unwrap();
                        let line = line.trim().to_ascii_lowercase();
                        if line.is_empty() {
                            break;
                        }
                        if let Some(given) = line.strip_prefix("content-length: ") {
                            length = given.parse().unwrap();
                        }
                    }
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    kept.lock().unwrap().push((first.split(' ').nth(1).unwrap().to_owned(), body));
                    let well = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
                    stream.write_all(well.as_bytes()).unwrap();
                }
            });
        }
    });
    (address, sent)
}

fn start(world: &CliTestWorld, collector: &str) -> HttpServerProcess {
    HttpServerProcess::start_with(
        world,
        &[],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", collector),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "40"),
        ],
    )
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.as_str(), text(attribute))).collect()
}

/// Returns the received spans in the order of their start. Checks the service name.
fn spans(sent: &CollectorRequests) -> Vec<Span> {
    let mut spans = Vec::new();
    for (_, body) in sent.lock().unwrap().iter().filter(|(path, _)| path == "/v1/traces") {
        for resource in ExportTraceServiceRequest::decode(body.as_slice()).unwrap().resource_spans {
            let said = resource.resource.unwrap();
            assert_eq!(texts(&said.attributes)["service.name"], "byleave");
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    spans.sort_by_key(|span| (span.start_time_unix_nano, !span.parent_span_id.is_empty()));
    spans
}

// req: A2
#[test]
fn one_trace_from_receipt_to_settlement_also_across_a_person_and_a_restart() {
    let world = CliTestWorld::new();
    let (bot, ann) = (token(&world, &["bot"]), token(&world, &["web-ann", "--person"]));
    let (collector, sent) = collector();
    let served = start(&world, &collector);
    let note = json!({"tool": "append_line", "arguments": {"path": "notes.txt", "line": "a-secret-line"}});
    let standing = served.asked_about(&bot, "k", &note);
    served.stop();
    assert!(spans(&sent).is_empty(), "nothing is settled yet");

    let served = start(&world, &collector);
    let (call, question) = (standing["call"].as_str().unwrap(), &standing["question"]);
    let answer = json!({"digest": question["digest"], "answer": {"kind": "yes"}});
    let path = format!("/v1/questions/{}/answer", question["id"].as_str().unwrap());
    served.ask(&ann, "POST", &path, &answer);
    let settled = served.ask(&bot, "GET", &format!("/v1/calls/{call}?wait=60"), &Value::Null).1;
    assert_eq!(settled["result"]["outcome"], "completed", "{settled}");
    // The server sends the rest before it ends.
    served.stop();

    let spans = spans(&sent);
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["execute_tool append_line", "decision", "question", "run"]);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for span in &spans {
        assert_eq!(hex(&span.trace_id), call.replace('-', ""), "the trace has the id of the call");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        assert!(spans[0].start_time_unix_nano <= span.start_time_unix_nano);
        assert!(span.end_time_unix_nano <= spans[0].end_time_unix_nano);
        let parent = if span.name == spans[0].name { Vec::new() } else { spans[0].span_id.clone() };
        assert_eq!(span.parent_span_id, parent, "{}", span.name);
    }
    let said = texts(&spans[0].attributes);
    for (key, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "append_line"),
        ("gen_ai.tool.call.id", call),
        ("gen_ai.agent.name", "bot"),
        ("byleave.tenant", "local"),
        ("byleave.outcome", "completed"),
    ] {
        assert_eq!(said.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(texts(&spans[1].attributes)["byleave.verdict"], "ask");
    assert_eq!(texts(&spans[2].attributes)["byleave.answer"], "yes");
    let sent = sent.lock().unwrap();
    let holds = |body: &[u8], text: &str| body.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(!sent.iter().any(|(_, body)| holds(body, "a-secret-line") || holds(body, "notes.txt")));

    let metrics = sent.iter().filter(|(path, _)| path == "/v1/metrics");
    let metrics = metrics.flat_map(|(_, body)| {
        let resources = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap().resource_metrics;
        resources.into_iter().flat_map(|one| one.scope_metrics).flat_map(|one| one.metrics)
    });
    let counts: BTreeMap<String, u64> = metrics
        .filter_map(|one| match one.data? {
            metric::Data::Histogram(told) => {
                Some((one.name, told.data_points.iter().map(|point| point.count).sum()))
            }
            _ => None,
        })
        .collect();
    let count = |name: &str| counts.get(name).copied();
    assert_eq!(count("gen_ai.execute_tool.duration"), Some(1), "{counts:?}");
    assert_eq!(count("byleave.question.duration"), Some(1), "{counts:?}");
}

// req: A2
#[test]
fn a_call_is_part_of_the_trace_that_its_client_brings() {
    let world = CliTestWorld::new();
    let bot = token(&world, &["bot"]);
    let (collector, sent) = collector();
    let served = start(&world, &collector);
    let bearer = format!("Bearer {bot}");
    // The client's request not to be sampled is ignored: a watched client does not decide who watches.
    for (key, parent) in [
        ("a", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"),
        ("b", "00-00000000000000000000000000000000-b7ad6b7169203331-01"),
    ] {
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", key), ("traceparent", parent)];
        let echo = json!({"tool": "echo", "arguments": {"text": "hi"}});
        let (status, made) = said(&served.address, &headers, "POST", "/v1/calls?wait=30", &echo).unwrap();
        assert_eq!(status, 200, "{made}");
    }
    served.stop();
    let spans = spans(&sent);
    let calls: Vec<&Span> = spans.iter().filter(|span| span.name == "execute_tool echo").collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let theirs: Vec<&&Span> =
        calls.iter().filter(|span| hex(&span.trace_id) == "0af7651916cd43dd8448eb211c80319c").collect();
    assert_eq!((calls.len(), theirs.len()), (2, 1), "what is no trace is passed over");
    assert_eq!(hex(&theirs[0].parent_span_id), "b7ad6b7169203331");
    let beneath = spans.iter().filter(|span| span.parent_span_id == theirs[0].span_id);
    assert!(beneath.clone().count() >= 2 && beneath.clone().all(|span| span.trace_id == theirs[0].trace_id));
}

// req: A2
#[test]
fn nothing_that_a_model_or_a_file_says_is_told() {
    let world = CliTestWorld::new();
    let bot = token(&world, &["bot"]);
    let (collector, sent) = collector();
    let served = start(&world, &collector);
    let tokens = world.state().join("tokens.json");
    let make = |key: &str, tool: &str, arguments: Value| {
        let call = json!({"tool": tool, "arguments": arguments, "reason": "a-secret-reason"});
        let made = request(&served.address, &bot, key, "POST", "/v1/calls?wait=30", &call).unwrap().1;
        made["result"]["outcome"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    };
    assert_eq!(make("a", "echo", json!({"text": "a-secret-text"})), "completed");
    assert_eq!(make("b", "read_file", json!({"path": tokens})), "refused");
    assert_eq!(make("c", "read_file", json!({"path": "a-secret-file"})), "failed");
    assert_eq!(make("d", "a-secret-tool", json!({})), "refused");
    served.stop();
    let spans = spans(&sent);
    let calls: Vec<&Span> = spans.iter().filter(|span| span.name.starts_with("execute_tool")).collect();
    let names: Vec<&str> = calls.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        ["execute_tool echo", "execute_tool read_file", "execute_tool read_file", "execute_tool"]
    );
    let errors: Vec<Option<String>> =
        calls.iter().map(|span| texts(&span.attributes).remove("error.type")).collect();
    let errors: Vec<Option<&str>> = errors.iter().map(Option::as_deref).collect();
    assert_eq!(errors, [None, Some("denied"), Some("failed"), Some("tool-unknown")]);
    for (path, body) in sent.lock().unwrap().iter() {
        let holds = |text: &str| body.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!holds("a-secret-") && !holds("tokens.json"), "{path}");
    }
}

// req: A2
#[test]
fn a_collector_that_is_gone_or_says_nothing_holds_no_call_up() {
    const CALLS: usize = 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mute = listener.local_addr().unwrap();
    // Holds every connection open and never replies.
    let held: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let holds = Arc::clone(&held);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            holds.lock().unwrap().push(stream.unwrap());
        }
    });
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for collector in [mute, gone] {
        let world = CliTestWorld::new();
        let bot = token(&world, &["bot"]);
        let served = start(&world, &format!("http://{collector}"));
        let echo = json!({"tool": "echo", "arguments": {"text": "hi"}});
        for key in 0..CALLS {
            let key = key.to_string();
            let made = request(&served.address, &bot, &key, "POST", "/v1/calls?wait=30", &echo).unwrap().1;
            assert_eq!(made["result"]["outcome"], "completed", "{made}");
        }
        // If calls waited for the silent collector, each would have had at least one failed connection to it.
        assert!(held.lock().unwrap().len() < CALLS, "as many connections as calls");
        // The server ends, although it cannot send the remaining data.
        served.stop();
    }
    assert!(!held.lock().unwrap().is_empty(), "nothing was told to the mute one");
}

// req: A2
#[test]
fn the_dashboard_is_over_metrics_that_there_are() {
    let world = CliTestWorld::new();
    let admin = token(&world, &["ann", "--person", "--scope", "submit,read,administer"]);
    let served = HttpServerProcess::start(&world, &[]);
    for (key, call) in
        [("a", json!({"tool": "echo", "arguments": {"text": "hi"}})), ("b", json!({"tool": "nothing"}))]
    {
        request(&served.address, &admin, key, "POST", "/v1/calls?wait=60", &call).unwrap();
    }
    let note = json!({"tool": "append_line", "arguments": {"path": "x", "line": "y"}});
    served.asked_about(&admin, "c", &note);
    let bearer = format!("Bearer {admin}");
    let headers = [("authorization", bearer.as_str())];
    let offered = said(&served.address, &headers, "GET", "/v1/metrics", &Value::Null).unwrap().1;
    let dashboard = include_str!("../../../../packaging/grafana/byleave.json");
    let parsed: Value = serde_json::from_str(dashboard).unwrap();
    let panels = parsed["panels"].as_array().unwrap();
    let asked: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(asked.len() >= 6, "{asked:?}");
    let name = Regex::new(r"byleave_[a-z_]+").unwrap();
    for asked in asked {
        for found in name.find_iter(asked) {
            let is_there = |line: &str| {
                line.strip_prefix(found.as_str()).is_some_and(|rest| rest.starts_with(['{', ' ']))
            };
            assert!(offered.lines().any(is_there), "{} is not offered: {offered}", found.as_str());
        }
    }
    served.stop();
}
