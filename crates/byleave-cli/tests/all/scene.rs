//! Agents and a person work over HTTP while the server behind them is killed and started again. Afterwards the scenario checks what must be
//! true.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve::{request, token};
use crate::world::CliTestWorld;

pub(crate) const AGENTS: usize = 6;
/// Longer than anything takes that is expected to happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// The address of the server, and the results that clients have received from it.
#[derive(Default)]
pub(crate) struct ClientLoadScenario {
    address: RwLock<String>,
    /// Set when no more calls are made.
    over: AtomicBool,
    /// Set when nobody is left who could ask a question.
    quiet: AtomicBool,
    /// Acknowledged answers: the call of each question.
    answers: Mutex<BTreeMap<String, String>>,
    /// The number of calls that have ended.
    ended: AtomicUsize,
    /// The number of failed requests: broken off, or made while no server listened.
    broken: AtomicUsize,
}

/// A call as its client sees it.
pub(crate) struct ClientCall {
    key: String,
    body: Value,
    call: String,
    /// The file that the call appends to or creates, if it changes anything.
    file: Option<String>,
    result: Value,
}

/// The tokens of the clients that make calls, and of the person who answers.
pub(crate) struct ScenarioTokens {
    bots: Vec<String>,
    ann: String,
}

impl ScenarioTokens {
    pub(crate) fn new(world: &CliTestWorld) -> Self {
        std::fs::write(world.workspace().join("notes.txt"), "hello").unwrap();
        let bots = (0..AGENTS).map(|agent| token(world, &[&format!("bot-{agent}")])).collect();
        Self { bots, ann: token(world, &["web-ann", "--person"]) }
    }
}

/// The result of a scenario.
pub(crate) struct ScenarioReport {
    pub(crate) outcomes: BTreeMap<String, usize>,
    pub(crate) answers: usize,
    pub(crate) broken: usize,
    pub(crate) took: Duration,
}

impl ScenarioReport {
    pub(crate) fn calls(&self) -> usize {
        self.outcomes.values().sum()
    }
}

impl std::fmt::Display for ScenarioReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "in {:.1} s; {} calls, each with one outcome ({:?}); {} accepted answers, none lost; {} requests that came to \
             nothing and were made again",
            self.took.as_secs_f64(),
            self.calls(),
            self.outcomes,
            self.answers,
            self.broken
        )
    }
}

impl ClientLoadScenario {
    pub(crate) fn at(address: &str) -> Self {
        Self { address: RwLock::new(address.to_owned()), ..Self::default() }
    }

    pub(crate) fn moves_to(&self, address: &str) {
        address.clone_into(&mut self.address.write().unwrap());
    }

    /// Runs all clients while processes are killed. Then compares their results with the record.
    pub(crate) fn play(
        &self,
        world: &CliTestWorld,
        people: &ScenarioTokens,
        dying: impl FnOnce(),
    ) -> ScenarioReport {
        let began = Instant::now();
        let all: Vec<Vec<ClientCall>> = std::thread::scope(|scope| {
            let person = scope.spawn(|| self.person(&people.ann));
            let agents = people.bots.iter().enumerate();
            let agents: Vec<_> = agents.map(|(n, bot)| scope.spawn(move || self.agent(bot, n))).collect();
            let died = catch_unwind(AssertUnwindSafe(dying));
            self.over.store(true, Ordering::Relaxed);
            let all: Vec<_> = agents.into_iter().map(|agent| agent.join()).collect();
            self.quiet.store(true, Ordering::Relaxed);
            person.join().unwrap();
            died.unwrap();
            all.into_iter().map(Result::unwrap).collect()
        });
        let took = began.elapsed();
        // If other processes write the audit log, it may be complete only after a moment.
        let record = |call: &str| {
            let (path, end) = (format!("/v1/log/calls/{call}"), Instant::now() + PATIENCE);
            loop {
                let (status, record) = self.ask(&people.ann, "-", "GET", &path, &Value::Null);
                let mut lines = record["entries"].as_array().into_iter().flatten();
                if status == 200 && lines.any(|line| !line["entry"]["event"]["settled"].is_null()) {
                    return record;
                }
                assert!(Instant::now() < end, "the book does not have the end of {call}: {record}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        for (bot, made) in
            people.bots.iter().zip(&all).flat_map(|(bot, all)| all.iter().map(move |made| (bot, made)))
        {
            self.hears_the_same(bot, made);
            is_as_told(world, made, &record(&made.call));
            *outcomes.entry(text(&made.result["outcome"])).or_default() += 1;
        }
        let answers = self.answers.lock().unwrap().clone();
        for (question, call) in &answers {
            let record = record(call);
            let kept = |line: &Value| line["entry"]["event"]["answered"]["question"] == **question;
            assert!(record["entries"].as_array().unwrap().iter().any(kept), "an answer is lost: {record}");
        }
        ScenarioReport { outcomes, answers: answers.len(), broken: self.broken.load(Ordering::Relaxed), took }
    }

    /// Waits until more calls than this have ended and more answers than this were accepted. Otherwise the test would show nothing.
    pub(crate) fn await_calls(&self, calls: usize, answers: usize) {
        let end = Instant::now() + PATIENCE;
        while self.ended.load(Ordering::Relaxed) <= calls || self.answers.lock().unwrap().len() <= answers {
            assert!(Instant::now() < end, "too few calls end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Repeats a request with the same key until a server answers.
    pub(crate) fn ask(&self, token: &str, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let end = Instant::now() + PATIENCE;
        loop {
            let address = self.address.read().unwrap().clone();
            match request(&address, token, key, method, path, body) {
                // The server did not accept the request and said so. The request is repeated.
                Ok((429 | 503, _)) => {}
                Ok(heard) => return heard,
                Err(_) => drop(self.broken.fetch_add(1, Ordering::Relaxed)),
            }
            assert!(Instant::now() < end, "nobody answers {method} {path}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Makes a call and follows it to its end. After the server has accepted a call, it must always know it.
    fn make(&self, bot: &str, key: String, body: Value, wait: u32) -> ClientCall {
        let (mut status, mut heard) = self.ask(bot, &key, "POST", &format!("/v1/calls?wait={wait}"), &body);
        assert!(matches!(status, 200 | 202), "{key}: {status} {heard}");
        let call = heard["call"].as_str().unwrap().to_owned();
        let end = Instant::now() + PATIENCE;
        while status == 202 {
            assert!(Instant::now() < end, "{key} does not come to an end: {heard}");
            (status, heard) = self.ask(bot, &key, "GET", &format!("/v1/calls/{call}?wait=5"), &Value::Null);
            assert!(matches!(status, 200 | 202), "{key} was accepted and is lost: {status} {heard}");
        }
        let file =
            body["arguments"]["path"].as_str().filter(|_| body["tool"] != "read_file").map(str::to_owned);
        let made = ClientCall { key, body, call, file, result: heard["result"].clone() };
        self.hears_the_same(bot, &made);
        made
    }

    /// Checks that the same key and the same body are the same call, with the same outcome.
    fn hears_the_same(&self, bot: &str, made: &ClientCall) {
        let (status, again) = self.ask(bot, &made.key, "POST", "/v1/calls?wait=60", &made.body);
        assert_eq!((status, &again["call"]), (200, &json!(made.call)), "{}: {again}", made.key);
        assert_eq!(again["result"], made.result, "{}", made.key);
    }

    /// Makes calls of every kind, one after another, until the scenario is over.
    fn agent(&self, bot: &str, agent: usize) -> Vec<ClientCall> {
        let mut made = Vec::new();
        while !self.over.load(Ordering::Relaxed) {
            let number = made.len();
            let key = format!("{agent}-{number}");
            let (append, create) = (format!("lines-{agent}.txt"), format!("new-{key}.txt"));
            let body = match number % 4 {
                0 => json!({"tool": "append_line", "arguments": {"path": append, "line": key}}),
                1 => json!({"tool": "write_file", "arguments": {"path": create, "content": key}}),
                2 => {
                    json!({"tool": "append_line", "arguments": {"path": append, "line": key}, "mode": "confirm-sensitive"})
                }
                _ => json!({"tool": "read_file", "arguments": {"path": "notes.txt"}}),
            };
            // Some clients wait for the end of the call. Others need only its acceptance.
            let wait = if number % 8 < 4 { 0 } else { 30 };
            made.push(self.make(bot, key, body, wait));
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        made
    }

    /// Says yes to every question until nobody is left who could ask one.
    fn person(&self, ann: &str) {
        while !self.quiet.load(Ordering::Relaxed) {
            let open = self.ask(ann, "-", "GET", "/v1/questions", &Value::Null).1;
            for question in open["questions"].as_array().into_iter().flatten() {
                let (id, call) = (text(&question["question"]), text(&question["call"]));
                let path = format!("/v1/questions/{id}");
                let (status, sheet) = self.ask(ann, "-", "GET", &path, &Value::Null);
                // The list of questions may lag behind.
                if status != 200 {
                    assert!(matches!(status, 404 | 409), "{status} {sheet}");
                    continue;
                }
                let answer = json!({"digest": sheet["question"]["digest"], "answer": {"kind": "yes"}});
                match self.ask(ann, "-", "POST", &format!("{path}/answer"), &answer) {
                    (200 | 202, _) => drop(self.answers.lock().unwrap().insert(id, call)),
                    // The question was answered before the server died, which then could not acknowledge the answer.
                    (404 | 409 | 422, _) => {}
                    (status, said) => panic!("{status} {said}"),
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Checks that the record of a call and its effects match the result that its client received.
fn is_as_told(world: &CliTestWorld, made: &ClientCall, record: &Value) {
    let lines = record["entries"].as_array().unwrap();
    let many = |fact: &str| lines.iter().filter(|line| !line["entry"]["event"][fact].is_null()).count();
    assert_eq!((many("received"), many("settled")), (1, 1), "{}: {record}", made.key);
    let outcome = text(&made.result["outcome"]);
    let begun = many("started");
    assert!(begun <= 1, "{} was begun {begun} times: {record}", made.key);
    let Some(file) = &made.file else { return assert_eq!(outcome, "completed", "{}", made.result) };
    let left = std::fs::read_to_string(world.workspace().join(file)).unwrap_or_default();
    let effects = left.lines().filter(|line| *line == made.key).count();
    match outcome.as_str() {
        "completed" => assert_eq!((begun, effects), (1, 1), "{}", made.key),
        // The call was interrupted. It may have run once, and nobody knows more than that.
        "unknown" => assert!(begun == 1 && effects <= 1, "{}: {effects}", made.key),
        // The process that held the call was away for too long to start it.
        "failed" if text(&made.result["error"]).starts_with("the call was not started") => {
            assert_eq!(effects, 0, "{}", made.key);
        }
        _ => panic!("{}: {}", made.key, made.result),
    }
}
