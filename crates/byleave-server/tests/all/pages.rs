//! The pages, used by an attacker. Nothing is visible without signing in. An answer is accepted once, only from Byleave's own page, and
//! only from the person who was shown the question. `tests/browser` tests the pages in a browser.

use std::sync::atomic::Ordering;
use std::time::Duration;

use byleave_server::principal::{AccessScope, PrincipalKind};

use crate::stage::{ServerFixture, TestResponse};

/// A person with a browser.
pub(crate) struct Browser<'a> {
    stage: &'a ServerFixture,
    origin: String,
    cookie: String,
}

impl<'a> Browser<'a> {
    pub(crate) async fn sign_in(stage: &'a ServerFixture, token: &str) -> Self {
        let origin = format!("http://{}", stage.address);
        let heard = stage.browse("/sign-in", &[("origin", &origin)], Some(&format!("token={token}"))).await;
        assert_eq!((heard.status, heard.headers["location"].as_str()), (303, "/"), "{}", heard.text);
        let set = &heard.headers["set-cookie"];
        assert!(
            set.contains("; HttpOnly") && set.contains("; SameSite=Lax") && set.contains("; Path=/"),
            "{set}"
        );
        let cookie = set.split(';').next().unwrap().to_owned();
        Self { stage, origin, cookie }
    }

    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.stage.browse(path, &[("cookie", &self.cookie)], None).await
    }

    async fn post(&self, path: &str, form: &str) -> TestResponse {
        self.stage.browse(path, &[("cookie", &self.cookie), ("origin", &self.origin)], Some(form)).await
    }

    /// Returns the CSRF token and the digest from the page of a question.
    async fn reads(&self, question: &str) -> (String, String) {
        let page = self.get(&format!("/questions/{question}")).await;
        assert_eq!(page.status, 200, "{}", page.text);
        (field(&page.text, "csrf_token"), field(&page.text, "digest"))
    }
}

/// Returns the first value of a hidden field.
fn field(page: &str, name: &str) -> String {
    let from = page.split_once(&format!("name=\"{name}\" value=\"")).expect("a field").1;
    from.split_once('"').unwrap().0.to_owned()
}

/// Longer than the time for which a question must be visible.
const READ: Duration = Duration::from_millis(2_600);

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_signed_in_sees_the_way_in_and_nothing_else() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let (_, question, _) = stage.waiting(&bot, "k").await;
    for path in [
        "/",
        "/log",
        "/session?name=s",
        "/policy",
        "/approvals",
        "/stats",
        "/live",
        &format!("/questions/{question}"),
    ] {
        let heard = stage.browse(path, &[], None).await;
        assert_eq!(heard.status, 303, "{path}: {}", heard.text);
        assert!(heard.headers["location"].starts_with("/sign-in?next=%2F"), "{path}");
        // A token in a header or an address is for programs, and a cookie is for browsers. Neither is accepted in place of the other.
        let bearer = format!("Bearer {bot}");
        assert_eq!(stage.browse(path, &[("authorization", &bearer)], None).await.status, 303, "{path}");
    }
    let made_up = format!("byleave-{}={}", stage.address.port(), "0".repeat(64));
    assert_eq!(stage.browse("/", &[("cookie", &made_up)], None).await.status, 303);
    let way_in = stage.browse("/sign-in", &[], None).await;
    assert_eq!(way_in.status, 200);
    let policy = &way_in.headers["content-security-policy"];
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(way_in.headers["x-frame-options"], "DENY");
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn only_people_sign_in_and_an_end_is_an_end() {
    let stage = ServerFixture::new().await;
    let origin = format!("http://{}", stage.address);
    for (token, why) in [(stage.agent("bot"), "agent"), ("byl_no".to_owned(), "token is not valid")] {
        let heard = stage.browse("/sign-in", &[("origin", &origin)], Some(&format!("token={token}"))).await;
        assert!(heard.status == 403 && heard.text.contains(why), "{}", heard.text);
        assert!(!heard.headers.contains_key("set-cookie"));
    }
    let ann = stage.person("ann", &[AccessScope::Answer, AccessScope::Read]);
    // Not from a foreign page, and not without an origin.
    let form = format!("token={ann}");
    for headers in [&[("origin", "http://evil.example")][..], &[("origin", "null")], &[]] {
        let heard = stage.browse("/sign-in", headers, Some(&form)).await;
        assert!(heard.status == 403 && !heard.headers.contains_key("set-cookie"), "{headers:?}");
    }
    let browser = Browser::sign_in(&stage, &ann).await;
    assert_eq!(browser.get("/").await.status, 200);
    // The cookie gives access to the pages, but not to the API.
    let api = stage.browse("/v1/questions", &[("cookie", &browser.cookie)], None).await;
    api.is_problem(401, "unauthenticated");
    // With two cookies of this name, one may come from somebody else.
    let twice = format!("{0}; {0}", browser.cookie);
    assert_eq!(stage.browse("/", &[("cookie", &twice)], None).await.status, 303);
    // Removing a token ends the sessions that began with it.
    let id =
        stage.tokens().list().unwrap().into_iter().find(|token| token.name.as_str() == "ann").unwrap().id;
    stage.tokens().remove(&id).unwrap().unwrap();
    assert_eq!(browser.get("/").await.status, 303);
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_from_a_page_of_ours_and_from_who_was_shown_it() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Answer, AccessScope::Read]));
    let (call, question, _) = stage.waiting(&bot, "k").await;
    let browser = Browser::sign_in(&stage, &ann).await;
    let other = Browser::sign_in(&stage, &stage.person("bea", &[AccessScope::Answer])).await;
    let (mark, digest) = browser.reads(&question).await;
    let path = format!("/questions/{question}/answer");
    let yes = format!("csrf_token={mark}&digest={digest}&answer=yes");
    // The answer comes too quickly for the question to have been read.
    let quick = browser.post(&path, &yes).await;
    assert!(quick.status == 429 && quick.text.contains("too fast"), "{}", quick.text);
    tokio::time::sleep(READ).await;
    let (cookie, origin) = (browser.cookie.as_str(), browser.origin.as_str());
    for (headers, form) in [
        // From another page, with a null origin, or without an origin.
        (vec![("cookie", cookie), ("origin", "http://evil.example")], yes.clone()),
        (vec![("cookie", cookie), ("origin", "null")], yes.clone()),
        (vec![("cookie", cookie)], yes.clone()),
        (vec![("cookie", cookie), ("origin", origin), ("sec-fetch-site", "cross-site")], yes.clone()),
        // Without the CSRF token, or with a wrong one.
        (vec![("cookie", cookie), ("origin", origin)], format!("digest={digest}&answer=yes")),
        (
            vec![("cookie", cookie), ("origin", origin)],
            format!("csrf_token={}&digest={digest}&answer=yes", "0".repeat(64)),
        ),
        (vec![("cookie", cookie), ("origin", origin)], format!("csrf_token={mark}&{yes}")),
        // The session of another person, who was not shown the question.
        (vec![("cookie", &other.cookie), ("origin", origin)], yes.clone()),
        // With the digest of something else.
        (
            vec![("cookie", cookie), ("origin", origin)],
            format!("csrf_token={mark}&digest={}&answer=yes", "0".repeat(64)),
        ),
        (
            vec![("cookie", cookie), ("origin", origin)],
            format!("csrf_token={mark}&digest={digest}&answer=maybe"),
        ),
    ] {
        let heard = stage.browse(&path, &headers, Some(&form)).await;
        assert!((400..500).contains(&heard.status), "{headers:?} {form}: {}", heard.text);
    }
    // Only a form is accepted, not JSON and not a link.
    let (body, from) = (serde_json::json!({"kind": "yes"}), [("cookie", cookie), ("origin", origin)]);
    assert_eq!(stage.ask_with("", "POST", &path, Some(&body), &from).await.status, 400);
    assert_eq!(browser.get(&format!("{path}?{yes}")).await.status, 405);
    assert_eq!(stage.notes.load(Ordering::SeqCst), 0);
    // The person who was shown the question can answer it, once.
    let heard = browser.post(&path, &yes).await;
    assert_eq!(heard.status, 303, "{}", heard.text);
    stage.settled(&bot, &call).await;
    assert!(matches!(browser.post(&path, &yes).await.status, 404 | 409));
    assert_eq!(stage.notes.load(Ordering::SeqCst), 1);
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn pages_are_of_one_tenant_and_for_who_may() {
    let stage = ServerFixture::new().await;
    let bot = stage.agent("bot");
    let (call, question, digest) = stage.waiting(&bot, "k").await;
    let eve = stage.token_in(
        "other",
        "eve",
        PrincipalKind::Person,
        &[AccessScope::Submit, AccessScope::Answer, AccessScope::Read, AccessScope::Administer],
    );
    let eve = Browser::sign_in(&stage, &eve).await;
    for path in [
        format!("/questions/{question}"),
        format!("/log/{call}"),
        format!("/answer-several?question={question}"),
    ] {
        assert_eq!(eve.get(&path).await.status, 404, "{path}");
    }
    assert!(!eve.get("/").await.text.contains(&question));
    let mark = field(&eve.get("/").await.text, "csrf_token");
    let path = format!("/questions/{question}/answer");
    let heard = eve.post(&path, &format!("csrf_token={mark}&digest={digest}&answer=no")).await;
    assert_eq!(heard.status, 404, "{}", heard.text);
    // A person who may only read does not see questions in full and cannot answer them.
    let rob = Browser::sign_in(&stage, &stage.person("rob", &[AccessScope::Read])).await;
    assert_eq!(rob.get("/").await.status, 200);
    assert_eq!(rob.get(&format!("/questions/{question}")).await.status, 403);
    let mark = field(&rob.get("/").await.text, "csrf_token");
    assert_eq!(rob.post(&path, &format!("csrf_token={mark}&digest={digest}&answer=no")).await.status, 403);
    assert_eq!(rob.post("/halt", &format!("csrf_token={mark}&why=x")).await.status, 403);
    // Nobody can answer a question about their own call.
    let sam = stage.person("sam", &[AccessScope::Submit, AccessScope::Answer]);
    let (_, own, digest) = stage.waiting(&sam, "own").await;
    let sam = Browser::sign_in(&stage, &sam).await;
    let page = sam.get(&format!("/questions/{own}")).await;
    assert!(page.text.contains("about your own call"), "{}", page.text);
    let mark = field(&page.text, "csrf_token");
    let heard = sam
        .post(&format!("/questions/{own}/answer"), &format!("csrf_token={mark}&digest={digest}&answer=no"))
        .await;
    assert_eq!(heard.status, 403, "{}", heard.text);
    assert_eq!(stage.notes.load(Ordering::SeqCst), 0);
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn a_link_leads_in_from_anywhere_and_changes_nothing() {
    let stage = ServerFixture::new().await;
    let ann = Browser::sign_in(&stage, &stage.person("ann", &[AccessScope::Answer, AccessScope::Read])).await;
    let cookie = ("cookie", ann.cookie.as_str());
    let link = [
        cookie,
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    assert_eq!(stage.browse("/", &link, None).await.status, 200);
    // The page does not load in a frame of another page, or as a resource that a foreign script could read.
    for dest in ["iframe", "image", "script", "empty"] {
        let within = [
            cookie,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", dest),
        ];
        assert_eq!(stage.browse("/", &within, None).await.status, 403, "{dest}");
    }
    let read = [
        cookie,
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "cors"),
        ("sec-fetch-dest", "document"),
    ];
    assert_eq!(stage.browse("/live", &read, None).await.status, 403);
    let elsewhere = [cookie, ("host", "evil.example")];
    assert_eq!(stage.browse("/", &elsewhere, None).await.status, 421);
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn the_card_of_a_question_comes_before_its_details_and_the_answers() {
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Answer, AccessScope::Read]));
    let (_, question, _) = stage.waiting(&bot, "k").await;
    let browser = Browser::sign_in(&stage, &ann).await;
    let page = browser.get(&format!("/questions/{question}")).await.text;
    let places = ["<h1 class=\"command\"", "Asks: ", "Arguments, in full", "id=\"answers\"", "class=\"bar\""];
    let places = places.map(|part| page.find(part).unwrap_or_else(|| panic!("no {part}: {page}")));
    assert!(places.is_sorted(), "{places:?}: {page}");
    // The list says the question as the card does, in one line.
    let heading = page.split_once("<title>").unwrap().1.split_once(" · Byleave").unwrap().0.to_owned();
    let list = browser.get("/").await.text;
    assert!(list.contains(&format!("<span class=\"summary\">{heading}")), "{heading}: {list}");
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn the_policy_page_takes_forms_of_its_own_pages_only_and_replays_for_administrators() {
    let stage = ServerFixture::new().await;
    let ann = stage.person("ann", &[AccessScope::Answer, AccessScope::Read]);
    let browser = Browser::sign_in(&stage, &ann).await;
    let page = browser.get("/policy").await;
    assert!(page.status == 200 && !page.text.contains("/policy/replay"), "{}", page.text);
    let token = field(&page.text, "csrf_token");
    let explained =
        |token: &str| format!("csrf_token={token}&tool=note&arguments=%7B%22text%22%3A%22%3Cb%3E%22%7D");
    assert_eq!(browser.post("/policy/explain", &explained("made-up")).await.status, 403);
    let found = browser.post("/policy/explain", &explained(&token)).await;
    assert!(found.status == 200 && found.text.contains("A person would be asked"), "{}", found.text);
    assert!(!found.text.contains("<b>"), "{}", found.text);
    assert_eq!(stage.notes.load(Ordering::SeqCst), 0, "nothing ran");
    let replay = format!("csrf_token={token}&rules=");
    assert_eq!(browser.post("/policy/replay", &replay).await.status, 403);
}
