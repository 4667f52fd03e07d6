//! Logins at HTTP servers, with a fake on this machine: the whole flow, what is refused, and the life of tokens.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use byleave_mcp::upstream::ServerStatus;
use byleave_mcp::upstream::login::{LoginDestination, LoginError, LoginOptions, PendingLogin};
use byleave_mcp::upstream::login_store::{LoginStatus, LoginStore};
use byleave_mcp::upstream::server_definition::{Launch, ServerDefinition, ServerName};
use serde_json::{Value, json};

use crate::fixture::UpstreamFixture;
use byleave_testkit::oauth::{FakeOAuthServers, SECRET, browse, fetch, in_query};

const WAIT: Duration = Duration::from_secs(120);

fn definition(url: &str) -> ServerDefinition {
    let launch = Launch::Http { url: url.into(), headers: BTreeMap::new() };
    ServerDefinition::new(ServerName::new("h").unwrap(), launch)
}

async fn begun(fake: &FakeOAuthServers) -> PendingLogin {
    destination(fake).await.unwrap().start().await.unwrap()
}

async fn destination(fake: &FakeOAuthServers) -> Result<LoginDestination, LoginError> {
    LoginDestination::discover(&definition(&fake.url), LoginOptions::default()).await
}

/// The person logs in, and the browser is redirected back.
async fn logged_in(fake: &FakeOAuthServers, state: &Path) {
    let begun = begun(fake).await;
    let address = begun.address().to_owned();
    let browser = tokio::task::spawn_blocking(move || browse(&address));
    begun.finish(WAIT, &LoginStore::in_state_dir(state)).await.unwrap();
    let (status, page) = browser.await.unwrap();
    assert!(status == 200 && !page.contains(SECRET), "{status} {page}");
}

/// A gate with the server behind it, whose tools are accepted, after login.
async fn stage(fake: &FakeOAuthServers) -> UpstreamFixture {
    let folder = tempfile::tempdir().unwrap();
    logged_in(fake, folder.path()).await;
    let stage = UpstreamFixture::beside(definition(&fake.url), folder);
    stage.upstream.accept_without_asking(&stage.server).await.unwrap();
    stage
}

fn standing(stage: &UpstreamFixture, fake: &FakeOAuthServers) -> LoginStatus {
    LoginStore::in_state_dir(stage.folder.path()).status(&definition(&fake.url)).unwrap()
}

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_logs_in_and_the_server_is_reached() {
    let fake = FakeOAuthServers::start();
    let stage = stage(&fake).await;
    let result = stage.settle("mcp_h_hello", json!({})).await;
    assert_eq!(result.to_text(), "reached");
    assert_eq!(standing(&stage, &fake), LoginStatus::LoggedIn { issuer: fake.issuer.clone() });
    // The token was sent only to the server.
    let shared = fake.shared();
    for seen in &shared.seen {
        let carried = seen.authorization.is_some();
        assert!(!carried || seen.path == "/mcp", "{seen:?}");
    }
    drop(shared);
    let directory = stage.folder.path().join("mcp-logins");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&directory.join("h.json"))), (0o700, 0o600));
    assert_eq!(mode(&directory.join("h.lock")), 0o600);
    assert!(std::fs::read_to_string(directory.join("h.json")).unwrap().contains(SECRET));
    // Logout.
    let logins = LoginStore::in_state_dir(stage.folder.path());
    assert!(logins.forget(&stage.server).unwrap() && !logins.forget(&stage.server).unwrap());
    assert!(!directory.join("h.json").exists());
}

#[tokio::test]
async fn what_others_can_read_is_not_used() {
    let (fake, folder) = (FakeOAuthServers::start(), tempfile::tempdir().unwrap());
    logged_in(&fake, folder.path()).await;
    let file = folder.path().join("mcp-logins/h.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let fault = LoginStore::in_state_dir(folder.path()).status(&definition(&fake.url)).unwrap_err();
    assert!(fault.to_string().contains("other users may have read it"), "{fault}");
    // Errors about the file do not quote its content.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, format!("{{\"server\":\"h\",\"{SECRET}\":1}}")).unwrap();
    let fault = LoginStore::in_state_dir(folder.path()).status(&definition(&fake.url)).unwrap_err();
    assert!(!format!("{fault} {fault:?}").contains(SECRET), "{fault}");
}

#[tokio::test]
async fn the_hosts_that_have_a_part_in_it_are_named_first() {
    let fake = FakeOAuthServers::start();
    fake.shared().metadata.insert("token_endpoint".into(), json!("https://tokens.example/token"));
    let destination = destination(&fake).await.unwrap();
    let hosts: Vec<String> = destination.other_hosts().into_iter().map(|(host, _)| host).collect();
    assert_eq!(hosts, [fake.issuer.strip_prefix("http://").unwrap(), "tokens.example"]);
    assert_eq!(destination.scopes(), ["tools"]);
    // Nothing was sent yet.
    assert_eq!((fake.asked("/register"), fake.asked("/authorize"), fake.asked("/token")), (0, 0, 0));
}

// req: M1
#[tokio::test]
async fn an_endpoint_that_is_not_sound_is_refused_and_nothing_is_sent() {
    for endpoint in [
        "file:/c:/windows/system32/calc.exe",
        "javascript:alert(1)",
        "ms-msdt:/id",
        "--help",
        "http://auth.example/x",
        "https://user:pass@auth.example/x",
        "https://auth.example/$(touch x)",
        "https://auth.example/\nx",
        "https://169.254.169.254/x",
        "",
    ] {
        for which in ["authorization_endpoint", "token_endpoint", "registration_endpoint"] {
            let fake = FakeOAuthServers::start();
            fake.shared().metadata.insert(which.into(), json!(endpoint));
            let Err(fault) = destination(&fake).await else { panic!("{which} {endpoint:?}") };
            assert!(matches!(fault, LoginError::Endpoint(_)), "{which} {endpoint:?}: {fault}");
            assert_eq!(fake.shared().seen.iter().filter(|seen| seen.method != "GET").count(), 0);
            assert_eq!(fake.asked("/authorize"), 0);
        }
    }
}

#[tokio::test]
async fn an_authorization_server_that_cannot_be_used_is_refused() {
    // A different issuer, no issuer, or no PKCE.
    for (which, said) in [
        ("issuer", json!("https://auth.example")),
        ("issuer", Value::Null),
        ("code_challenge_methods_supported", json!(["plain"])),
        ("code_challenge_methods_supported", Value::Null),
    ] {
        let fake = FakeOAuthServers::start();
        fake.shared().metadata.insert(which.into(), said.clone());
        let Err(fault) = destination(&fake).await else { panic!("{which} {said}") };
        assert!(
            matches!(fault, LoginError::NoAuthorizationServer(_) | LoginError::Unsupported(_)),
            "{which} {said}: {fault}"
        );
    }
    // An authorization server with plain http, a file URL or a private address is refused.
    for named in ["http://auth.example/", "file:///etc/passwd", "https://10.0.0.1/"] {
        let fake = FakeOAuthServers::start();
        fake.shared().resource.insert("authorization_servers".into(), json!([named]));
        assert!(destination(&fake).await.is_err(), "{named}");
    }
    // Metadata for another server's resource is refused.
    let fake = FakeOAuthServers::start();
    fake.shared().resource.insert("resource".into(), json!("https://other.example/mcp"));
    assert!(destination(&fake).await.is_err());
    // An endpoint that already sets a parameter that belongs to the client.
    let fake = FakeOAuthServers::start();
    let endpoint = format!("{}/authorize?state=theirs", fake.issuer);
    fake.shared().metadata.insert("authorization_endpoint".into(), json!(endpoint));
    assert!(destination(&fake).await.unwrap().start().await.is_err());
}

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_state_or_issuer_exchanges_nothing() {
    let (fake, folder) = (FakeOAuthServers::start(), tempfile::tempdir().unwrap());
    let logins = LoginStore::in_state_dir(folder.path());
    let begun_here = begun(&fake).await;
    let back = in_query(begun_here.address(), "redirect_uri");
    let knock = tokio::task::spawn_blocking(move || {
        // Other requests than the redirect are ignored.
        assert_eq!(fetch(&back.replace("/byleave/login", "/favicon.ico")).0, 404);
        fetch(&format!("{back}?code=x&state=another")).0
    });
    let fault = begun_here.finish(WAIT, &logins).await.unwrap_err();
    assert!(matches!(fault, LoginError::WrongState), "{fault}");
    assert_eq!((knock.await.unwrap(), fake.asked("/token")), (400, 0));

    fake.shared().iss = Some("https://other.example".into());
    let begun_here = begun(&fake).await;
    let address = begun_here.address().to_owned();
    let browser = tokio::task::spawn_blocking(move || browse(&address));
    let fault = begun_here.finish(WAIT, &logins).await.unwrap_err();
    assert!(matches!(fault, LoginError::NotExchanged(_)), "{fault}");
    browser.await.unwrap();
    assert_eq!(fake.asked("/token"), 0);

    // The person denies access.
    let begun_here = begun(&fake).await;
    let (back, state) =
        (in_query(begun_here.address(), "redirect_uri"), in_query(begun_here.address(), "state"));
    let no = tokio::task::spawn_blocking(move || fetch(&format!("{back}?error=access_denied&state={state}")));
    let fault = begun_here.finish(WAIT, &logins).await.unwrap_err();
    assert!(fault.to_string().contains("access_denied"), "{fault}");
    no.await.unwrap();

    // Nobody completes the login.
    let fault = begun(&fake).await.finish(Duration::from_millis(50), &logins).await.unwrap_err();
    assert!(matches!(fault, LoginError::Timeout(_)), "{fault}");
    assert_eq!(logins.status(&definition(&fake.url)).unwrap(), LoginStatus::NotNeeded);
}

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_of_the_token_endpoint_is_not_followed_and_no_secret_is_in_what_is_said() {
    let (fake, elsewhere, folder) =
        (FakeOAuthServers::start(), FakeOAuthServers::start(), tempfile::tempdir().unwrap());
    for (status, body) in [
        (307, String::new()),
        (400, format!("{{\"error\":\"invalid_client\",\"error_description\":\"{SECRET}\"}}")),
        (400, format!("{{\"error\":\"{SECRET}\"}}")),
        (200, format!("{{\"access_token\":{{\"x\":\"{SECRET}\"}},\"token_type\":\"Bearer\"}}")),
    ] {
        let location = format!("{}/token", elsewhere.issuer);
        fake.shared().token_answer = Some((status, location, body));
        let begun = begun(&fake).await;
        let address = begun.address().to_owned();
        let browser = tokio::task::spawn_blocking(move || browse(&address));
        let fault = begun.finish(WAIT, &LoginStore::in_state_dir(folder.path())).await.unwrap_err();
        browser.await.unwrap();
        assert!(!format!("{fault} {fault:?}").contains(SECRET), "{status}: {fault}");
    }
    assert_eq!(elsewhere.shared().seen.len(), 0);
}

// req: M2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_a_login_costs_an_error_that_says_so() {
    let fake = FakeOAuthServers::start();
    let stage = UpstreamFixture::new(definition(&fake.url));
    let why = stage.upstream.accept_without_asking(&stage.server).await.unwrap_err();
    assert!(why.contains("`byleave mcp login h`"), "{why}");
    assert_eq!(standing(&stage, &fake), LoginStatus::Needed);
    // Repeated attempts do not add a delay, because a missing login is not a failure.
    for _ in 0..3 {
        let ServerStatus::Unavailable(why) = stage.look().await else { panic!() };
        assert!(why.contains("`byleave mcp login h`"), "{why}");
    }
    // After login, the server is available at once.
    logged_in(&fake, stage.folder.path()).await;
    stage.upstream.accept_without_asking(&stage.server).await.unwrap();
    assert_eq!(stage.settle("mcp_h_hello", json!({})).await.to_text(), "reached");
    // All tokens are revoked in the middle.
    fake.shared().access.clear();
    fake.shared().refresh.clear();
    let said = stage.settle("mcp_h_hello", json!({})).await;
    let said = said.error().unwrap_or_else(|| said.to_text());
    assert!(said.contains("`byleave mcp login h`") && !said.contains(SECRET), "{said}");
    assert_eq!(standing(&stage, &fake), LoginStatus::Needed);
    let kept = std::fs::read_to_string(stage.folder.path().join("mcp-logins/h.json")).unwrap();
    assert!(!kept.contains(SECRET), "what is no good is not kept");
}

// req: M2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_over_is_refreshed_and_kept() {
    let fake = FakeOAuthServers::start();
    let stage = stage(&fake).await;
    let file = stage.folder.path().join("mcp-logins/h.json");
    let before = std::fs::read_to_string(&file).unwrap();
    // The server revoked the token before it expired.
    fake.shared().access.clear();
    assert_eq!(stage.settle("mcp_h_hello", json!({})).await.to_text(), "reached");
    let after = std::fs::read_to_string(&file).unwrap();
    assert!(before != after && fake.asked("/token") == 2);
    let token =
        serde_json::from_str::<Value>(&after).unwrap()["login"]["credentials"]["token_response"].clone();
    assert!(fake.shared().refresh.contains(token["refresh_token"].as_str().unwrap()), "the newest is kept");
    assert_eq!(standing(&stage, &fake), LoginStatus::LoggedIn { issuer: fake.issuer.clone() });
    // If the token endpoint is unavailable, a new login is not necessary.
    fake.shared().access.clear();
    fake.shared().token_answer = Some((503, String::new(), format!("{{\"x\":\"{SECRET}\"}}")));
    let said = stage.settle("mcp_h_hello", json!({})).await;
    let said = said.error().unwrap_or_else(|| said.to_text());
    assert!(said.contains("its stored login cannot be used now") && !said.contains(SECRET), "{said}");
    fake.shared().token_answer = None;
    assert_eq!(stage.settle("mcp_h_hello", json!({})).await.to_text(), "reached");
}

// req: M2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_refresh_at_once_none_loses_what_the_other_was_given() {
    let fake = FakeOAuthServers::start();
    // Tokens expire immediately: every request refreshes, and every refresh token is valid once.
    fake.shared().lasts_s = 1;
    let one = stage(&fake).await;
    let other = UpstreamFixture::sharing(definition(&fake.url), one.folder.path());
    other.look().await;
    let calls = |stage: &UpstreamFixture| {
        let calls: Vec<_> = (0..10).map(|_| stage.call("mcp_h_hello", json!({}))).collect();
        let gate = stage.gate.clone();
        async move {
            for call in calls {
                let result = gate.settle(call).await;
                assert_eq!(result.to_text(), "reached", "{:?}", result.error());
            }
        }
    };
    tokio::join!(calls(&one), calls(&other));
    assert!(fake.asked("/token") > 20, "{}", fake.asked("/token"));
    assert_eq!(fake.shared().refresh.len(), 1, "each was used once");
}

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_was_changed_does_not_get_the_token() {
    let (fake, elsewhere, folder) =
        (FakeOAuthServers::start(), FakeOAuthServers::start(), tempfile::tempdir().unwrap());
    logged_in(&fake, folder.path()).await;
    for url in [elsewhere.url.clone(), format!("{}/other", fake.url), format!("{}?x=1", fake.url)] {
        let before = fake.shared().seen.len();
        let stage = UpstreamFixture::sharing(definition(&url), folder.path());
        let why = stage.upstream.accept_without_asking(&stage.server).await.unwrap_err();
        assert!(why.contains("`byleave mcp login h`"), "{why}");
        assert_eq!(
            LoginStore::in_state_dir(folder.path()).status(&definition(&url)).unwrap(),
            LoginStatus::Needed
        );
        let seen = |fake: &FakeOAuthServers, from: usize| fake.shared().seen[from..].to_vec();
        for seen in seen(&fake, before).into_iter().chain(seen(&elsewhere, 0)) {
            assert!(seen.authorization.is_none() && !seen.body.contains(SECRET), "{seen:?}");
        }
    }
    // With the original definition, the login is valid again.
    let at = LoginStatus::LoggedIn { issuer: fake.issuer.clone() };
    assert_eq!(LoginStore::in_state_dir(folder.path()).status(&definition(&fake.url)).unwrap(), at);
}

#[tokio::test]
async fn a_server_that_is_told_who_we_are_or_is_a_program_needs_no_login() {
    let fake = FakeOAuthServers::start();
    let launch =
        Launch::Http { url: fake.url.clone(), headers: [("authorization".into(), "Bearer x".into())].into() };
    let sent = ServerDefinition::new(ServerName::new("h").unwrap(), launch);
    assert!(matches!(
        LoginDestination::discover(&sent, LoginOptions::default()).await,
        Err(LoginError::AlreadyAuthorized(_))
    ));
    let child = Launch::Child { command: "true".into(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
    let child = ServerDefinition::new(ServerName::new("h").unwrap(), child);
    assert!(matches!(
        LoginDestination::discover(&child, LoginOptions::default()).await,
        Err(LoginError::NotRemote(_))
    ));
    assert_eq!(fake.shared().seen.len(), 0);
}
