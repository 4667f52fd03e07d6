//! Webhooks: a real server sends questions to a fake receiver on a real socket.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave_server::ServerLimits;
use byleave_server::principal::{AccessScope, PrincipalKind};
use byleave_server::webhooks::{WebhookFormat, WebhookStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::stage::{SOON, ServerFixture, ServerTestSettings};

/// How a fake receiver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiverBehavior {
    Takes,
    /// Fails for the first two messages, then succeeds.
    FailsTwice,
    Fails,
    /// Reads, and never responds.
    Hangs,
    /// Redirects every request.
    Redirects,
    /// Answers with a head and an endless body.
    Floods,
}

/// A received message.
#[derive(Clone, Debug)]
struct ReceivedMessage {
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl ReceivedMessage {
    fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let (_, value) = found.next().unwrap_or_else(|| panic!("no {name} in {self:?}"));
        assert!(found.next().is_none());
        value
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Verifies the signature with the library of the scheme's authors.
    fn is_believed(&self, secret: &str, body: &str) -> bool {
        let mut headers = axum::http::HeaderMap::new();
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            headers.insert(name, self.header(name).parse().unwrap());
        }
        standardwebhooks::Webhook::new(secret).unwrap().verify(body.as_bytes(), &headers).is_ok()
    }
}

struct FakeReceiver {
    url: String,
    came: mpsc::UnboundedReceiver<ReceivedMessage>,
    all: Arc<Mutex<Vec<ReceivedMessage>>>,
}

impl FakeReceiver {
    async fn start(manner: ReceiverBehavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/services/T0/secret-path", listener.local_addr().unwrap());
        let (send, came) = mpsc::unbounded_channel();
        let all: Arc<Mutex<Vec<ReceivedMessage>>> = Arc::default();
        let kept = Arc::clone(&all);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(talk(stream, manner, send.clone(), Arc::clone(&kept)));
            }
        });
        Self { url, came, all }
    }

    async fn next(&mut self) -> ReceivedMessage {
        tokio::time::timeout(SOON, self.came.recv()).await.expect("a message comes").unwrap()
    }

    fn all(&self) -> Vec<ReceivedMessage> {
        self.all.lock().unwrap().clone()
    }
}

async fn talk(
    mut stream: TcpStream,
    manner: ReceiverBehavior,
    send: mpsc::UnboundedSender<ReceivedMessage>,
    all: Arc<Mutex<Vec<ReceivedMessage>>>,
) {
    loop {
        let mut heard = Vec::new();
        let came = loop {
            let mut buffer = [0_u8; 4096];
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => heard.extend_from_slice(&buffer[..read]),
            }
            if let Some(came) = whole(&heard) {
                break came;
            }
        };
        let number = {
            let mut all = all.lock().unwrap();
            all.push(came.clone());
            all.len()
        };
        let said = match manner {
            ReceiverBehavior::FailsTwice if number <= 2 => "HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n",
            ReceiverBehavior::Takes | ReceiverBehavior::FailsTwice => "HTTP/1.1 204 x\r\n\r\n",
            ReceiverBehavior::Fails => "HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n",
            ReceiverBehavior::Redirects => {
                "HTTP/1.1 307 x\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"
            }
            ReceiverBehavior::Hangs => "",
            ReceiverBehavior::Floods => "HTTP/1.1 200 x\r\ncontent-length: 100000000\r\n\r\n",
        };
        drop(send.send(came));
        if manner == ReceiverBehavior::Hangs {
            tokio::time::sleep(SOON).await;
        }
        if stream.write_all(said.as_bytes()).await.is_err() {
            return;
        }
        if manner == ReceiverBehavior::Floods {
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
            return;
        }
    }
}

fn whole(heard: &[u8]) -> Option<ReceivedMessage> {
    let text = std::str::from_utf8(heard).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let pair =
        |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: Vec<_> = lines.filter_map(pair).collect();
    let length: usize = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    (body.len() == length).then(|| ReceivedMessage { path, headers, body: body.to_owned() })
}

fn setup() -> ServerTestSettings {
    let usual = ServerTestSettings::default();
    let limits = ServerLimits {
        webhook_timeout: Duration::from_millis(500),
        webhook_retry_delays: vec![Duration::from_millis(50); 3],
        ..usual.limits
    };
    ServerTestSettings { limits, ..usual }
}

fn add(webhooks: &WebhookStore, tenant: &str, form: WebhookFormat, url: &str) -> (String, String) {
    let (made, secret) = webhooks.add(tenant.parse().unwrap(), form, url.to_owned(), 0).unwrap();
    (made.id, String::from_utf8(secret.expose().to_vec()).unwrap())
}

/// Asks one more question and waits for its message. All earlier messages have come by then, and are returned.
async fn is_last(stage: &ServerFixture, bot: &str, fake: &mut FakeReceiver) -> Vec<Value> {
    let (_, question, _) = stage.waiting(bot, "last").await;
    let mut before = Vec::new();
    loop {
        let came = fake.next().await.json();
        if came["data"]["question"] == json!(question) {
            return before;
        }
        before.push(came);
    }
}

// req: A1
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_told_once_signed_and_without_what_is_secret() {
    let stage = ServerFixture::with(setup()).await;
    let (mut fake, mut slack) = (
        FakeReceiver::start(ReceiverBehavior::Takes).await,
        FakeReceiver::start(ReceiverBehavior::Takes).await,
    );
    let (_, secret) = add(&stage.webhooks(), "local", WebhookFormat::Generic, &fake.url);
    add(&stage.webhooks(), "local", WebhookFormat::Slack, &slack.url);
    let bot = stage.agent("bot");
    // The question may be open before the webhooks are known. Then the message about open questions includes it.
    let first = stage.waiting(&bot, "warm").await;
    assert!(
        ["question.asked", "questions.open"].contains(&fake.next().await.json()["type"].as_str().unwrap())
    );
    slack.next().await;

    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let text = format!("<!channel> <https://evil.example|x> {token}");
    let call = json!({"tool": "note", "arguments": {"text": text}, "session": "s"});
    assert_eq!(stage.call(&bot, "one", 0, &call).await.status, 202);
    let came = fake.next().await;
    let said = came.json();
    let data = &said["data"];
    assert_eq!(
        (&said["type"], &data["tool"], &data["agent"]),
        (&json!("question.asked"), &json!("note"), &json!("bot"))
    );
    assert_eq!((&data["kind"], &data["tenant"]), (&json!("approval"), &json!("local")));
    let question = data["question"].as_str().unwrap();
    assert_eq!(data["link"], format!("http://{}/questions/{question}", stage.address));
    assert!(data["expires_at"].as_u64() > data["asked_at"].as_u64());
    assert!(!data["summary"].as_str().unwrap().is_empty());
    assert_eq!(came.header("content-type"), "application/json");
    assert_eq!(came.header("webhook-id"), format!("question_{question}"));
    assert!(came.is_believed(&secret, &came.body));
    assert!(!came.is_believed(&secret, &came.body.replace("note", "nota")), "another body");
    assert!(!came.is_believed("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &came.body), "another secret");
    let moved = ReceivedMessage {
        headers: came
            .headers
            .iter()
            .map(|(name, value)| match name.as_str() {
                "webhook-id" => (name.clone(), "question_other".to_owned()),
                _ => (name.clone(), value.clone()),
            })
            .collect(),
        ..came.clone()
    };
    assert!(!moved.is_believed(&secret, &came.body), "another id");

    let told = slack.next().await;
    let text = told.json()["text"].as_str().unwrap().to_owned();
    assert_eq!(told.json().as_object().unwrap().len(), 1);
    let link = format!("<http://{}/questions/{question}>", stage.address);
    assert!(text.contains(&link), "{text}");
    assert!(!text.replace(&link, "").contains('<'), "{text}");

    // One message only: neither an answer nor idle time leads to another.
    let ann = stage.person("ann", &[AccessScope::Answer]);
    let answer = json!({"digest": first.2, "answer": {"kind": "no"}});
    stage.ask(&ann, "POST", &format!("/v1/questions/{}/answer", first.1), Some(&answer)).await;
    assert_eq!(is_last(&stage, &bot, &mut fake).await, Vec::<Value>::new());
    for came in fake.all().iter().chain(&slack.all()) {
        let whole = format!("{came:?}");
        assert!(!whole.contains(token) && !whole.contains(&secret) && !whole.contains(&bot), "{whole}");
    }
}

// req: A1
#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_already_is_told_in_one_message_and_another_tenants_is_not() {
    let stage = ServerFixture::with(setup()).await;
    let (bot, theirs) =
        (stage.agent("bot"), stage.token_in("other", "bot", PrincipalKind::Agent, &[AccessScope::Submit]));
    for key in ["a", "b", "c"] {
        stage.waiting(&bot, key).await;
    }
    stage.waiting(&theirs, "theirs").await;
    let mut fake = FakeReceiver::start(ReceiverBehavior::Takes).await;
    add(&stage.webhooks(), "local", WebhookFormat::Generic, &fake.url);
    let came = fake.next().await;
    assert_eq!(came.path, "/services/T0/secret-path");
    let said = came.json();
    assert_eq!((&said["type"], &said["data"]["count"]), (&json!("questions.open"), &json!(3)), "{said}");
    assert_eq!(said["data"]["link"], format!("http://{}/", stage.address));
    let (_, known, _) = stage.waiting(&theirs, "theirs-too").await;
    assert_eq!(is_last(&stage, &bot, &mut fake).await, Vec::<Value>::new());
    assert!(fake.all().iter().all(|came| !came.body.contains(&known) && !came.body.contains("\"other\"")));
    // The same again after a restart: one message for the four questions.
    let stage = stage.again_with(setup()).await;
    assert_eq!(fake.next().await.json()["data"]["count"], 4);
    let (_, last, _) = stage.waiting(&bot, "after").await;
    assert_eq!(fake.next().await.json()["data"]["question"], json!(last));
}

// req: A1
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_slow_dead_or_hostile_holds_up_nobody() {
    // In parallel, because each waits between its attempts.
    tokio::join!(
        holds_up_nobody(ReceiverBehavior::Fails),
        holds_up_nobody(ReceiverBehavior::Hangs),
        holds_up_nobody(ReceiverBehavior::Redirects),
        holds_up_nobody(ReceiverBehavior::Floods)
    );
}

async fn holds_up_nobody(manner: ReceiverBehavior) {
    let stage = ServerFixture::with(setup()).await;
    let (mut bad, mut good) =
        (FakeReceiver::start(manner).await, FakeReceiver::start(ReceiverBehavior::Takes).await);
    let (id, _) = add(&stage.webhooks(), "local", WebhookFormat::Generic, &bad.url);
    add(&stage.webhooks(), "local", WebhookFormat::Generic, "http://127.0.0.1:1/nobody");
    add(&stage.webhooks(), "local", WebhookFormat::Generic, &good.url);
    let bot = stage.agent("bot");
    stage.waiting(&bot, "first").await;
    good.next().await;
    let (_, question, _) = stage.waiting(&bot, "second").await;
    assert_eq!(good.next().await.json()["data"]["question"], json!(question));
    bad.next().await;
    let until = tokio::time::Instant::now() + SOON;
    loop {
        let standing = stage.webhooks().statuses().unwrap();
        let standing = standing.get(&id).cloned().unwrap_or_default();
        match manner {
            // The status is good, and the rest of the response is not read.
            ReceiverBehavior::Floods if standing.delivered > 0 => break assert!(standing.is_healthy()),
            ReceiverBehavior::Floods => {}
            _ if standing.given_up > 0 => {
                assert!(
                    standing.delivered == 0 && !standing.is_healthy() && standing.failed >= 4,
                    "{standing:?}"
                );
                let why = standing.failure_reason.unwrap();
                assert!(!why.contains("secret-path"), "{why}");
                break;
            }
            _ => {}
        }
        assert!(tokio::time::Instant::now() < until, "{manner:?} {standing:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(bad.all().iter().all(|came| came.path == "/services/T0/secret-path"), "{manner:?}");
}

// req: A1
#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_taken_is_said_again_as_the_same() {
    let stage = ServerFixture::with(setup()).await;
    let mut fake = FakeReceiver::start(ReceiverBehavior::FailsTwice).await;
    let (_, secret) = add(&stage.webhooks(), "local", WebhookFormat::Generic, &fake.url);
    let bot = stage.agent("bot");
    stage.waiting(&bot, "one").await;
    let all = [fake.next().await, fake.next().await, fake.next().await];
    assert!(
        all.iter()
            .all(|came| came.body == all[0].body && came.header("webhook-id") == all[0].header("webhook-id"))
    );
    assert!(all.iter().all(|came| came.is_believed(&secret, &came.body)));
    assert_eq!(is_last(&stage, &bot, &mut fake).await, Vec::<Value>::new());
}

// req: A1
#[tokio::test(flavor = "multi_thread")]
async fn who_is_removed_is_told_nothing_more_and_of_two_servers_one_tells() {
    let stage = ServerFixture::with(setup()).await;
    let second = stage.beside(setup()).await;
    let mut fake = FakeReceiver::start(ReceiverBehavior::Takes).await;
    let (id, _) = add(&stage.webhooks(), "local", WebhookFormat::Generic, &fake.url);
    let bot = stage.agent("bot");
    stage.waiting(&bot, "one").await;
    fake.next().await;
    let (_, question, _) = second.waiting(&bot, "two").await;
    assert_eq!(fake.next().await.json()["data"]["question"], json!(question));
    assert_eq!(is_last(&stage, &bot, &mut fake).await, Vec::<Value>::new());
    // One server stops. From then on the other sends the messages, first about the open questions.
    drop(stage);
    let said = fake.next().await.json();
    assert_eq!((&said["type"], &said["data"]["count"]), (&json!("questions.open"), &json!(3)));
    assert_eq!(said["data"]["link"], format!("http://{}/", second.address));
    let mut other = FakeReceiver::start(ReceiverBehavior::Takes).await;
    second.webhooks().remove(&id).unwrap().unwrap();
    add(&second.webhooks(), "local", WebhookFormat::Generic, &other.url);
    assert_eq!(other.next().await.json()["type"], "questions.open");
    // The list is read as a whole, so a server that knows the new webhook has dropped the old one.
    second.waiting(&bot, "four").await;
    other.next().await;
    assert_eq!(fake.all().len(), 4);
}
