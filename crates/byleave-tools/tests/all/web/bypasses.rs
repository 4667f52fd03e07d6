//! Every corpus case about `web_fetch`, through the real tool behind a real gate, in its own network. Nothing leaves it, and
//! listeners wait at the forbidden addresses.
//!
//! Each runs twice. First with the rules of the case. Then as if every rule allowed it and a person had said yes, while every name
//! resolves to a forbidden address. In the second run only the tool can prevent access.

use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::approver::Reply;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::pattern::Pattern;
use byleave_gate::core::policy::{Layer, Policy, Rule};
use byleave_gate::core::render::render;
use byleave_gate::result::CallOutcome;
use byleave_sandbox::net::address::AddressPolicy;
use byleave_tools::Fetcher;

use super::packed;
use super::site::{FakeResolver, FakeSite, SiteHandler, TestCertificateAuthority, answer, path, redirect};
use super::stage::{FetchOutcome, WebFixture, on_loopback};
use byleave_testkit::corpus::{Case, lines, policy_of};
use byleave_testkit::user::passes;

const AGAIN: &str = "BYLEAVE_TEST_IN_A_NETWORK";
const NO: Reply = Reply::No { feedback: None };
const YES: Reply = Reply::Yes { note: None };

/// The address of public hosts in the network of the test.
const PUBLIC: &str = "127.9.0.1";
/// The forbidden addresses.
const INNER: [&str; 9] = [
    "127.0.0.1",
    "10.0.0.1",
    "10.0.0.5",
    "169.254.169.254",
    "100.100.100.200",
    "100.64.0.1",
    "::1",
    "fd00::1",
    "fd00:ec2::254",
];
const PORTS: [u16; 8] = [22, 80, 443, 2375, 3128, 6379, 8080, 9222];

/// The host names of the cases, for the certificate.
const HOSTS: [&str; 12] = [
    "public.example",
    "allowed.example",
    "elsewhere.example",
    "search.example",
    "victim.example",
    "gist.example",
    "api.example",
    "translate.example",
    "trusted.example",
    "rebind.attacker.example",
    "docs.python.org",
    "other.example",
];

/// Cases about the second step. The first is public, and may be made.
const SECOND_STEP: [&str; 4] =
    ["redirect-to-metadata", "redirect-from-citation", "meta-refresh-redirect", "second-hop-websocket-url"];

/// With fewer, the corpus has lost cases.
const CASES_MIN: usize = 64;

// req: B5
#[test]
fn every_case_of_the_corpus_holds() {
    in_a_network("web::bypasses::every_case_of_the_corpus_holds", async |case, network| {
        by_its_rules(case, network).await
    });
}

// req: B5
#[test]
fn every_case_of_the_corpus_holds_when_it_is_approved_and_leads_inside() {
    in_a_network(
        "web::bypasses::every_case_of_the_corpus_holds_when_it_is_approved_and_leads_inside",
        async |case, network| as_approved(case, network).await,
    );
}

/// Checks every case in a temporary network.
fn in_a_network(test: &str, check: impl AsyncFn(&Case, &FakeNetwork) -> Result<(), String>) {
    if std::env::var_os(AGAIN).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(every_case(check));
    }
    assert!(rustix::process::geteuid().is_root(), "needs root, to make a network that is thrown away");
    let mut again = Command::new("unshare");
    let addresses =
        INNER.map(|one| format!("ip addr add {one}/{} dev lo", if one.contains(':') { 128 } else { 32 }));
    let script = format!(
        "ip link set lo up; {}; exec \"$0\" \"$@\"",
        addresses.map(|one| format!("{one} 2>/dev/null")).join("; ")
    );
    again.args(["--net", "sh", "-c", &script]).arg(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(AGAIN, "1");
    // A client that used these variables would connect to the proxy, which is a trap.
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        again.env(name, "http://127.0.0.1:3128");
    }
    passes(&mut again, test);
}

/// The network: public hosts at one address, traps at all others.
struct FakeNetwork {
    web: Vec<FakeSite>,
    traps: Vec<TcpListener>,
    authority: TestCertificateAuthority,
}

impl FakeNetwork {
    fn new() -> Self {
        let authority = TestCertificateAuthority::new();
        let mut web: Vec<FakeSite> =
            [80, 9222].map(|port| FakeSite::new((PUBLIC, port), Arc::new(public_web))).into();
        web.push(FakeSite::secure((PUBLIC, 443), &authority, &HOSTS, Arc::new(public_web)));
        let places = INNER.iter().flat_map(|inner| PORTS.map(|port| (*inner, port)));
        let traps =
            places.map(|place| TcpListener::bind(place).unwrap_or_else(|error| panic!("{place:?}: {error}")));
        let traps: Vec<_> = traps.collect();
        traps.iter().for_each(|trap| trap.set_nonblocking(true).unwrap());
        Self { web, traps, authority }
    }

    /// The traps that were reached.
    fn trapped(&self) -> Vec<String> {
        let came = self.traps.iter().filter(|trap| trap.accept().is_ok());
        came.map(|trap| trap.local_addr().unwrap().to_string()).collect()
    }

    fn heads(&self) -> Vec<String> {
        self.web.iter().flat_map(FakeSite::heads).collect()
    }

    fn fetcher(&self, names: &Arc<FakeResolver>) -> Fetcher {
        on_loopback(names).with_roots(vec![self.authority.root.clone()])
    }
}

/// The responses of the public hosts, as the setups of the cases describe them.
fn public_web(head: &str, stream: &mut dyn std::io::Write) {
    let says: SiteHandler = match path(head) {
        "/r" => redirect("302 Found", "http://169.254.169.254/latest/meta-data/"),
        "/post" => redirect("307 Temporary Redirect", "https://elsewhere.example/taken"),
        "/cite?u=x" => redirect("302 Found", "http://10.0.0.1/"),
        "/meta" => answer(
            "200 OK",
            "Content-Type: text/html\r\n",
            "<meta http-equiv=refresh content='0;url=http://127.0.0.1/'>public",
        ),
        "/json/version" => answer(
            "200 OK",
            "Content-Type: application/json\r\n",
            r#"{"webSocketDebuggerUrl": "ws://10.0.0.5:9222/devtools"}"#,
        ),
        "/bomb.gz" => {
            let bomb = packed(&vec![0x61; 200 << 20]);
            answer("200 OK", "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", bomb)
        }
        _ => answer("200 OK", "Content-Type: text/plain\r\nSet-Cookie: a=b\r\n", "public"),
    };
    says(head, stream);
}

async fn every_case(check: impl AsyncFn(&Case, &FakeNetwork) -> Result<(), String>) {
    let network = FakeNetwork::new();
    // Control: the traps work.
    std::net::TcpStream::connect("127.0.0.1:8080").unwrap();
    assert_eq!(network.trapped(), ["127.0.0.1:8080"]);
    let cases: Vec<Case> = lines("bypasses.jsonl");
    let cases: Vec<Case> = cases.into_iter().filter(|case| case.tool == "web_fetch").collect();
    assert!(cases.len() >= CASES_MIN, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(check(case, &network).await.err().map(|why| format!("{}: {why}", case.id)));
    }
    println!("{} cases", cases.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The case with its own rules: questions, refusals and reached traps.
async fn by_its_rules(case: &Case, network: &FakeNetwork) -> Result<(), String> {
    let before = network.heads().len();
    let names = Arc::new(
        FakeResolver::all(&[PUBLIC])
            .with("trusted.example", &[&["0.0.0.0"]])
            .with("rebind.attacker.example", &[&[PUBLIC], &["127.0.0.1"]]),
    );
    let approved = case.must == "contained" || SECOND_STEP.contains(&case.id.as_str());
    let policy = policy_of(case).map_err(|fault| fault.to_string())?;
    let stage = WebFixture::new(policy, network.fetcher(&names), if approved { YES } else { NO });
    let fetched = stage.call(case.input.clone(), byleave_gate::core::call::Mode::ConfirmSensitive).await;
    let trapped = network.trapped();
    if !trapped.is_empty() {
        return Err(format!("somebody came to {trapped:?}"));
    }
    let went = network.heads().split_off(before);
    let ran = matches!(fetched.result.outcome, CallOutcome::Completed(_) | CallOutcome::Failed(_));
    let held = match (case.id.as_str(), case.must.as_str()) {
        ("dns-rebinding", _) => {
            // The first answer is an ordinary public address, and the tool does not look it up again.
            names.lookups().len() == 1 && fetched.asked.is_empty()
        }
        ("meta-refresh-redirect", _) => {
            fetched.told().contains("`http://127.0.0.1/`: not followed") && went.len() == 1
        }
        ("second-hop-websocket-url", _) => went.len() == 1,
        ("redirect-to-metadata" | "redirect-from-citation", _) => {
            fetched.told().contains("is not allowed") && went.len() == 1 && fetched.asked.is_empty()
        }
        ("trusted-name-resolves-unspecified", _) => {
            fetched.told().contains("not an address of the public internet") && went.is_empty()
        }
        (_, "deny") => !ran && fetched.asked.is_empty() && went.is_empty() && names.lookups().is_empty(),
        (_, "ask") => !ran && went.is_empty() && names.lookups().is_empty(),
        (_, "shown-in-full") => is_shown(&fetched) && went.is_empty(),
        ("redirect-cross-origin-body-replay", _) => {
            let second = went.iter().find(|head| head.contains("elsewhere.example"));
            second.is_some_and(|head| {
                let lower = head.to_ascii_lowercase();
                head.starts_with("GET /taken ")
                    && !["cookie", "content-", "authorization", "referer"]
                        .iter()
                        .any(|never| lower.contains(never))
            })
        }
        ("proxy-env-defeats-pinning", _) => went.len() == 1 && std::env::var_os("HTTPS_PROXY").is_some(),
        ("gzip-bomb", _) => {
            fetched.output().truncated
                && fetched.output().data.as_ref().is_some_and(|data| data["bytes"] == 1 << 20)
        }
        ("fetch-flood", _) => {
            for _ in 1..1000 {
                stage.call(case.input.clone(), byleave_gate::core::call::Mode::ConfirmSensitive).await;
            }
            network.heads().len() - before == 30
        }
        (id, must) => return Err(format!("nothing says how `{id}` must be {must}")),
    };
    if held {
        Ok(())
    } else {
        Err(format!("{} | asked {} | went {went:?}", fetched.told(), fetched.asked.len()))
    }
}

/// Tests whether the person saw the real name, and not only its appearance.
fn is_shown(fetched: &FetchOutcome) -> bool {
    let [sheet] = fetched.asked.as_slice() else { return false };
    let rendering = render(sheet);
    let text = rendering.to_text();
    rendering.complete && text.contains("xn--") && text.contains("U+043E") && !text.contains("dоcs")
}

/// The tool alone: everything is allowed, somebody said yes, and every name resolves to a forbidden address.
async fn as_approved(case: &Case, network: &FakeNetwork) -> Result<(), String> {
    let all = Rule::new("all", Layer::User, Verdict::Allow, vec![Pattern::Reach("*:*".into())]);
    let names = Arc::new(FakeResolver::all(&[
        "127.0.0.1",
        "::1",
        "10.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
    ]));
    let real = Fetcher::new()
        .with_resolver(Arc::clone(&names) as _)
        .with_address_policy(AddressPolicy::global())
        .with_timeout(Duration::from_secs(10));
    let stage = WebFixture::new(Policy::new(vec![all]).unwrap(), real, YES);
    let fetched = stage.call(case.input.clone(), byleave_gate::core::call::Mode::ConfirmSensitive).await;
    let trapped = network.trapped();
    let is_told = !fetched.result.is_success() && !fetched.told().trim().is_empty();
    match () {
        () if !trapped.is_empty() => Err(format!("somebody came to {trapped:?}")),
        () if !is_told => Err(format!("it went: {}", fetched.told())),
        // It must be refused at once, and not try until the timeout.
        () if fetched.told().contains("did not answer within") => {
            Err(format!("it tried: {}", fetched.told()))
        }
        () => Ok(()),
    }
}
