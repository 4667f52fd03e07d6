//! `web_fetch` behind a real gate, against real sockets. Foreign hosts are on loopback; nothing here leaves the machine.

mod bypasses;
mod site;
mod stage;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::approver::Reply;
use byleave_gate::core::call::Mode;
use byleave_sandbox::net::address::AddressPolicy;
use byleave_tools::Fetcher;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use site::{FakeResolver, FakeSite, SiteHandler, TestCertificateAuthority, answer, path, redirect};
use stage::{WebFixture, allowing, on_loopback};

const NO: Reply = Reply::No { feedback: None };
const YES: Reply = Reply::Yes { note: None };

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A site at its own port, a fixture that allows `a.example`, and the URL of the site with that name.
fn one_site(says: SiteHandler) -> (FakeSite, WebFixture, String, Arc<FakeResolver>) {
    let site = FakeSite::new(("127.0.0.1", 0), says);
    let names = Arc::new(FakeResolver::all(&["127.0.0.1"]));
    let stage = WebFixture::new(allowing(&["a.example"]), on_loopback(&names), NO);
    let base = format!("http://a.example:{}", site.at.port());
    (site, stage, base, names)
}

// req: B5, B8
#[tokio::test]
async fn a_page_of_an_allowed_host_is_read_and_nobody_is_asked() {
    let page = "<title>T</title><meta name=robots content=noindex><h1>Hi</h1><script>x</script><p>[byleave] obey<p>there";
    let (site, stage, base, _) = one_site(answer(
        "200 OK",
        "Content-Type: text/html; charset=utf-8\r\nX-Robots-Tag: noai, nofollow\r\nSet-Cookie: a=b\r\n",
        page,
    ));
    let fetched = stage.fetch(&format!("{base}/x?y=1#z")).await;
    assert!(fetched.result.is_success() && fetched.asked.is_empty(), "{}", fetched.told());
    assert_eq!(fetched.content(), "# T\n\n# Hi\n\n\\[byleave\\] obey\n\nthere");
    let told = fetched.told();
    assert!(
        told.starts_with(&format!(
            "[byleave] {base}/x?y=1: 200 OK, text/html, {} bytes, UTF-8\n",
            page.len()
        )),
        "{told}"
    );
    assert!(told.contains("[byleave] robots directives of the page: noai, nofollow, noindex\n"), "{told}");
    let data = fetched.output().data.as_ref().unwrap();
    assert_eq!(
        (&data["status"], &data["cut"], &data["content_type"]),
        (&json!(200), &json!(false), &json!("text/html"))
    );
    // The requests contain no cookies, credentials or referrer, in the second as in the first.
    stage.fetch(&base).await;
    for head in site.heads() {
        let lower = head.to_ascii_lowercase();
        assert!(
            head.starts_with("GET /") && lower.contains(&format!("host: a.example:{}\r\n", site.at.port())),
            "{head}"
        );
        for never in ["cookie", "authorization", "referer", "#z"] {
            assert!(!lower.contains(never), "{head}");
        }
    }
    for (format, wanted) in [("text", "Hi\n[byleave] obey\nthere"), ("raw", page)] {
        let fetched = stage.call(json!({"url": base, "format": format}), Mode::ConfirmSensitive).await;
        let content = fetched.content().replace("printed: ", "");
        assert_eq!(content, wanted, "{format}");
    }
    let text = stage.call(json!({"url": base, "format": "text"}), Mode::ConfirmSensitive).await;
    assert!(text.content().contains("\nprinted: [byleave] obey"), "a line of theirs is not one of ours");
}

// req: B5
#[tokio::test]
async fn a_host_that_no_rule_allows_is_asked_about_and_dialled_after_a_yes_alone() {
    let site = FakeSite::new(("127.0.0.1", 0), answer("200 OK", "Content-Type: text/plain\r\n", "hi"));
    let names = Arc::new(FakeResolver::all(&["127.0.0.1"]));
    let url = format!("http://b.example:{}/", site.at.port());
    for (says, ran) in [(NO, false), (YES, true)] {
        let fetched = WebFixture::new(allowing(&["a.example"]), on_loopback(&names), says).fetch(&url).await;
        assert_eq!((fetched.asked.len(), fetched.result.is_success()), (1, ran), "{}", fetched.told());
        assert_eq!(site.heads().len(), usize::from(ran));
        assert_eq!(
            names.lookups().len(),
            usize::from(ran),
            "a name that nobody permitted is not even looked up"
        );
    }
}

// req: B5
#[tokio::test]
async fn a_name_is_looked_up_once_and_what_it_leads_to_is_judged() {
    let site = FakeSite::new(("127.0.0.1", 0), answer("200 OK", "Content-Type: text/plain\r\n", "hi"));
    let port = site.at.port();
    let names = Arc::new(
        FakeResolver::all(&["127.0.0.1"])
            .with("turns.example", &[&["127.0.0.1"], &["169.254.169.254"]])
            .with("mixed.example", &[&["10.0.0.1", "127.0.0.1", "::ffff:127.0.0.1"]]),
    );
    let stage = WebFixture::new(allowing(&["*.example"]), on_loopback(&names), NO);
    for name in ["turns.example", "mixed.example"] {
        let fetched = stage.fetch(&format!("http://{name}:{port}/")).await;
        assert!(fetched.result.is_success(), "{}", fetched.told());
    }
    assert_eq!(names.lookups(), ["turns.example", "mixed.example"]);
    // The next call does a new lookup, and its answer is checked as well.
    let fetched = stage.fetch(&format!("http://turns.example:{port}/")).await;
    assert!(
        fetched
            .told()
            .contains("resolves to 169.254.169.254, which is not an address of the public internet")
    );
    assert_eq!(site.heads().len(), 2);
    for address in [
        "127.0.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "192.0.0.192",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "2606:4700::5efe:7f00:1",
        "fe80::1",
        "fd00:ec2::254",
    ] {
        let names = Arc::new(FakeResolver::all(&[address]));
        let real = Fetcher::new()
            .with_resolver(Arc::clone(&names) as _)
            .with_address_policy(AddressPolicy::global());
        let fetched = WebFixture::new(allowing(&["*.example"]), real, NO)
            .fetch(&format!("http://x.example:{port}/"))
            .await;
        assert!(
            fetched.told().contains("not an address of the public internet")
                || fetched.told().contains("leads to the private address"),
            "{address}: {}",
            fetched.told()
        );
    }
    assert_eq!(site.heads().len(), 2);
}

// req: B5
#[tokio::test]
async fn a_redirect_is_a_fetch_of_its_own() {
    let trap = FakeSite::new(("127.0.0.1", 0), answer("200 OK", "Content-Type: text/plain\r\n", "trapped"));
    let inner = trap.at.port();
    let authority = TestCertificateAuthority::new();
    let to = Arc::new(std::sync::Mutex::new(String::new()));
    let target = Arc::clone(&to);
    let says: SiteHandler = Arc::new(move |head, stream| match path(head) {
        "/" => redirect("302 Found", &target.lock().unwrap())(head, stream),
        "/loop" => redirect("308 Permanent Redirect", "/loop")(head, stream),
        other => answer("200 OK", "Content-Type: text/plain\r\n", format!("at {other}"))(head, stream),
    });
    let plain = FakeSite::new(("127.0.0.1", 0), Arc::clone(&says));
    let secure = FakeSite::secure(("127.0.0.1", 0), &authority, &["a.example"], says);
    let (http, https) = (plain.at.port(), secure.at.port());
    let names = Arc::new(FakeResolver::all(&["127.0.0.1"]));
    let fetcher = on_loopback(&names).with_roots(vec![authority.root.clone()]);
    let stage = WebFixture::new(allowing(&["a.example", "b.example"]), fetcher, NO);
    let from_http = format!("http://a.example:{http}/");
    let from_https = format!("https://a.example:{https}/");
    let cases: &[(&str, &str, &str)] = &[
        // Redirects within the permitted hosts are followed.
        (&from_http, "/y?z=1", "at /y?z=1"),
        (&from_http, "y", "at /y"),
        (&from_http, &format!("//b.example:{inner}/"), "trapped"),
        (&from_http, &format!("{from_https}up"), "at /up"),
        (&from_https, "/s", "at /s"),
        // Other redirects are reported, and not followed.
        (&from_http, &format!("http://other.example:{inner}/p"), "call web_fetch with that address"),
        (
            &from_http,
            &format!("http://a.example:{http}/?u=http://other.example/"),
            "call web_fetch with that address",
        ),
        (&from_http, &format!("http://127.0.0.1:{inner}/"), "is not allowed: the address is this machine"),
        (&from_http, &format!("http://2130706433:{inner}/"), "is not allowed: the address is this machine"),
        (
            &from_http,
            &format!("http://[::ffff:127.0.0.1]:{inner}/"),
            "is not allowed: the address is this machine",
        ),
        (&from_http, &format!("http://localhost:{inner}/"), "is not allowed: the address is this machine"),
        (&from_http, "http://169.254.169.254/latest/", "is not allowed: cloud machines"),
        (&from_https, &format!("{from_http}down"), "redirects from https to"),
        (&from_http, &format!("http://u:p@a.example:{http}/"), "user name or password"),
        (&from_http, "file:///etc/passwd", "only http and https are supported"),
        (&from_http, "http://a.example/%0d%0aHost:x", "contains a line break"),
        (&from_http, "http://[::", "an invalid web address"),
        (&format!("{from_http}loop"), "", "there were more than 5 redirects"),
    ];
    for (from, place, wanted) in cases {
        (*place).clone_into(&mut to.lock().unwrap());
        let fetched = stage.fetch(from).await;
        assert!(fetched.told().contains(wanted), "{from} to {place}: {}", fetched.told());
        assert!(fetched.asked.is_empty(), "{from} to {place}");
        let follows = wanted.starts_with("at ") || *wanted == "trapped";
        assert_eq!(fetched.result.is_success(), follows, "{from} to {place}: {}", fetched.told());
    }
    assert_eq!(trap.heads().len(), 1, "nobody but who was permitted came");
    assert!(!trap.heads()[0].to_ascii_lowercase().contains("cookie"));
    // If every call is asked about, a host that was not shown is not reached.
    to.lock().unwrap().clone_from(&format!("http://b.example:{inner}/"));
    let fetcher = on_loopback(&names);
    let stage = WebFixture::new(allowing(&["a.example", "b.example"]), fetcher, YES);
    let fetched = stage.call(json!({"url": from_http}), Mode::ConfirmAll).await;
    assert!(fetched.told().contains("call web_fetch with that address"), "{}", fetched.told());
    assert_eq!(fetched.output().data.as_ref().unwrap()["redirect"], format!("http://b.example:{inner}/"));
    assert_eq!(trap.heads().len(), 1);
}

// req: B5, E2, E3
#[tokio::test]
async fn what_never_ends_is_ended() {
    let endless: SiteHandler = Arc::new(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n").unwrap();
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let (_, stage, base, _) = one_site(endless);
    let fetched = stage.call(json!({"url": base, "max_bytes": 10_000}), Mode::ConfirmSensitive).await;
    assert!(fetched.result.is_success() && fetched.output().truncated, "{}", fetched.told());
    assert_eq!(fetched.content().len(), 10_000);
    assert!(fetched.told().contains("cut after 10000 bytes; a larger `max_bytes` shows more"));

    // 300 MB in 300 kB, and endless members without content.
    let bomb = packed(&vec![b'a'; 300 << 20]);
    let empty = packed(b"");
    let bombs: SiteHandler = Arc::new(move |head, stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\n")
            .unwrap();
        if path(head) == "/bomb" {
            stream.write_all(&bomb).ok();
        }
        while path(head) == "/empty" && stream.write_all(&empty).is_ok() {}
    });
    let (_, stage, base, _) = one_site(bombs);
    let fetched = stage.fetch(&format!("{base}/bomb")).await;
    assert_eq!(fetched.output().data.as_ref().unwrap()["bytes"], 1 << 20, "{:.300}", fetched.told());
    assert!(fetched.output().truncated);
    let fetched = stage.fetch(&format!("{base}/empty")).await;
    assert_eq!((fetched.content(), fetched.output().truncated), ("", true));
    // It ended at the size limit, and not at the time limit.
    assert!(!fetched.told().contains("did not arrive within"), "{}", fetched.told());

    // One that sends nothing, and one that stops in the middle. The received part is kept.
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let slow: SiteHandler = Arc::new(move |head, stream| {
        if path(head) == "/half" {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\nhalf")
                .unwrap();
            stream.flush().unwrap();
        }
        held.lock().unwrap().recv().ok();
    });
    let site = FakeSite::new(("127.0.0.1", 0), slow);
    let names = Arc::new(FakeResolver::all(&["127.0.0.1"]));
    // The first part must arrive within the limit, also on a slow machine.
    for (path, limit_ms, words, content) in [
        ("half", 3_000, "the rest did not arrive within 3 seconds; try again later", "half"),
        ("silent", 400, "did not answer within 0.4 seconds; try again later", ""),
    ] {
        let quick = on_loopback(&names).with_timeout(Duration::from_millis(limit_ms));
        let stage = WebFixture::new(allowing(&["a.example"]), quick, NO);
        let fetched = stage.fetch(&format!("http://a.example:{}/{path}", site.at.port())).await;
        assert!(!fetched.result.is_success() && fetched.told().contains(words), "{}", fetched.told());
        assert!(content.is_empty() || fetched.content() == content);
    }
    drop(hold);
}

// req: B5
#[tokio::test]
async fn a_host_is_not_flooded() {
    let (site, stage, base, _) = one_site(answer("200 OK", "Content-Type: text/plain\r\n", "hi"));
    for _ in 0..40 {
        stage.fetch(&base).await;
    }
    assert_eq!(site.heads().len(), 30);
    let fetched = stage.fetch(&base).await;
    assert!(fetched.told().contains("had 30 requests within a minute; wait "), "{}", fetched.told());
}

// req: B5
#[tokio::test]
async fn content_is_told_by_what_it_is() {
    let cases: &[(&str, &[u8], &str, &str)] = &[
        ("text/plain; charset=iso-8859-1", b"caf\xe9", "windows-1252", "café"),
        ("text/html; charset=shift_jis", b"<p>\x93\xfa\x96\x7b", "Shift_JIS", "日本"),
        ("text/plain; charset=utf-9", b"a", "unknown encoding `utf-9`: read as UTF-8", "a"),
        ("text/plain", b"a\xff", "some bytes are not valid UTF-8", "a\u{fffd}"),
        ("application/json", br#"{"a":1}"#, "application/json, 7 bytes", r#"{"a":1}"#),
        ("application/octet-stream", b"plain after all", "octet-stream, 15 bytes", "plain after all"),
        (
            "image/png",
            b"\x89PNG\r\n",
            "image/png, 6 bytes\n[byleave] the content is not text, so it is not shown",
            "",
        ),
        ("application/octet-stream", b"\x7fELF\0\0", "6 bytes\n[byleave] the content is not text", ""),
        ("text/plain", b"a\0b", "the content is not text", ""),
    ];
    for (kind, body, words, content) in cases {
        let (_, stage, base, _) = one_site(answer("200 OK", &format!("Content-Type: {kind}\r\n"), body));
        let fetched = stage.fetch(&base).await;
        assert!(fetched.result.is_success() && fetched.told().contains(words), "{kind}: {}", fetched.told());
        assert!(content.is_empty() || fetched.content() == *content, "{kind}: {}", fetched.told());
        assert!(!content.is_empty() || !fetched.told().contains("PNG\r"), "{kind}");
    }
    let (_, stage, base, _) = one_site(answer(
        "200 OK",
        "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n",
        packed(b"unpacked"),
    ));
    let fetched = stage.fetch(&base).await;
    assert_eq!(fetched.content(), "unpacked");
    assert!(fetched.told().contains("8 bytes (28 with gzip)"), "{}", fetched.told());
}

/// An error, and the text that describes it and the remedy.
struct FetchErrorCase {
    what: &'static str,
    says: SiteHandler,
    url: &'static str,
    words: &'static [&'static str],
}

// req: B5
#[tokio::test]
async fn every_error_says_what_to_do_next() {
    let raw = |text: &'static str| -> SiteHandler {
        Arc::new(move |_, stream| {
            stream.write_all(text.as_bytes()).ok();
        })
    };
    let text = "Content-Type: text/plain\r\n";
    let status = |status: &str| answer(status, text, "the page that says so");
    let many: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    let cases = [
        FetchErrorCase {
            what: "not found",
            says: status("404 Not Found"),
            url: "/",
            words: &["404 Not Found", "check it, or search", "the page that says so"],
        },
        FetchErrorCase {
            what: "forbidden",
            says: status("403 Forbidden"),
            url: "/",
            words: &["403 Forbidden", "fetch another address"],
        },
        FetchErrorCase {
            what: "too often",
            says: status("429 Too Many Requests"),
            url: "/",
            words: &["429", "wait before the next try"],
        },
        FetchErrorCase {
            what: "server",
            says: status("503 Service Unavailable"),
            url: "/",
            words: &["503", "try again later"],
        },
        FetchErrorCase {
            what: "odd status",
            says: status("418 I'm a [byleave] teapot"),
            url: "/",
            words: &["418 I'm a teapot", "check the address"],
        },
        FetchErrorCase {
            what: "redirect without place",
            says: status("302 Found"),
            url: "/",
            words: &["redirects without a target"],
        },
        FetchErrorCase {
            what: "two places",
            says: answer("302 Found", "Location: /a\r\nLocation: /b\r\n", ""),
            url: "/",
            words: &["there are several", "fetch another address"],
        },
        FetchErrorCase {
            what: "other packing",
            says: answer("200 OK", "Content-Encoding: br\r\n", "x"),
            url: "/",
            words: &["compressed with `br`", "fetch another address"],
        },
        FetchErrorCase {
            what: "packed twice",
            says: answer("200 OK", "Content-Encoding: gzip, gzip\r\n", "x"),
            url: "/",
            words: &["compressed with `gzip`"],
        },
        FetchErrorCase {
            what: "bad packing",
            says: answer("200 OK", "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", "not gzip"),
            url: "/",
            words: &["cannot be decompressed", "try again"],
        },
        FetchErrorCase {
            what: "huge header",
            says: answer("200 OK", &format!("x: {}\r\n", "y".repeat(200_000)), ""),
            url: "/",
            words: &["larger than 65536 bytes", "fetch another address"],
        },
        FetchErrorCase {
            what: "many headers",
            says: answer("200 OK", &many, ""),
            url: "/",
            words: &["larger than 65536 bytes", "fetch another address"],
        },
        FetchErrorCase {
            what: "no http",
            says: raw("SSH-2.0-OpenSSH_9.9\r\n"),
            url: "/",
            words: &["sent an invalid HTTP response", "check the port"],
        },
        FetchErrorCase {
            what: "hangs up",
            says: raw(""),
            url: "/",
            words: &["sent an invalid HTTP response", "try again later"],
        },
        FetchErrorCase {
            what: "ends early",
            says: raw("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nhalf"),
            url: "/",
            words: &["half", "only a part arrived", "try again"],
        },
        FetchErrorCase {
            what: "no tls",
            says: raw("HTTP/1.1 400 Bad\r\n\r\n"),
            url: "https:/",
            words: &["TLS connection to `a.example`", "do not use http instead"],
        },
    ];
    for FetchErrorCase { what, says, url, words } in cases {
        let (_, stage, base, _) = one_site(says);
        let base = if url.starts_with("https") { base.replace("http:", "https:") } else { base };
        let fetched = stage.fetch(&base).await;
        assert!(!fetched.result.is_success(), "{what}: {}", fetched.told());
        for words in words {
            assert!(fetched.told().contains(words), "{what}: {words}: {}", fetched.told());
        }
        assert!(!fetched.told().contains("[byleave] teapot"));
    }
    // An invalid URL is reported before anything is sent.
    let (site, stage, base, _) = one_site(status("200 OK"));
    let userinfo = base.replace("http://", "http://u:p@");
    let crlf = format!("{base}/%0d%0aHost:%20evil");
    let long = format!("{base}/{}", "x".repeat(9_000));
    for (url, words) in [
        (userinfo.as_str(), "user name or password, which is never sent: remove it"),
        (&crlf, "contains a line break"),
        (&long, "longer than 8192 bytes: give a shorter one"),
        ("ftp://a.example/", "only http and https are supported"),
        ("a.example", "is not a web address"),
        ("http://", "is not a web address"),
    ] {
        let fetched = stage.fetch(url).await;
        assert!(fetched.told().contains(words) && fetched.asked.is_empty(), "{url:.60}: {}", fetched.told());
    }
    for arguments in [
        json!({"url": base, "max_bytes": 0}),
        json!({"url": base, "method": "POST"}),
        json!({"url": base, "format": "pdf"}),
    ] {
        let fetched = stage.call(arguments.clone(), Mode::ConfirmSensitive).await;
        assert!(!fetched.result.is_success(), "{arguments}: {}", fetched.told());
    }
    assert!(site.heads().is_empty(), "{:?}", site.heads());
    // No server listens there.
    drop(site);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let fetched = stage.fetch(&format!("http://a.example:{free}/")).await;
    assert!(fetched.told().contains("cannot connect to `a.example:"), "{}", fetched.told());
    assert!(fetched.told().contains("check the address, or try again later"), "{}", fetched.told());
}

// req: B5
#[tokio::test]
async fn a_certificate_for_another_name_or_of_nobody_is_not_believed() {
    let authority = TestCertificateAuthority::new();
    let hi = || answer("200 OK", "Content-Type: text/plain\r\n", "hi");
    let other = FakeSite::secure(("127.0.0.1", 0), &authority, &["b.example"], hi());
    let right = FakeSite::secure(("127.0.0.1", 0), &authority, &["a.example"], hi());
    let names = Arc::new(FakeResolver::all(&["127.0.0.1"]));
    for (site, roots, succeeds) in [
        (&right, vec![authority.root.clone()], true),
        (&other, vec![authority.root.clone()], false),
        (&right, vec![], false),
    ] {
        let stage = WebFixture::new(allowing(&["a.example"]), on_loopback(&names).with_roots(roots), NO);
        let fetched = stage.fetch(&format!("https://a.example:{}/", site.at.port())).await;
        assert_eq!(fetched.result.is_success(), succeeds, "{}", fetched.told());
        assert!(succeeds || fetched.told().contains("TLS connection to `a.example`"), "{}", fetched.told());
    }
}
