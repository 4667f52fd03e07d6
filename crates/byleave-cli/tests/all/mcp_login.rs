//! `byleave mcp login`, the real program, against a fake server on this machine: what it opens, prints and stores. Also tests that `mcp
//! list` and `show` start nothing.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use byleave_mcp::upstream::pins::{LaunchPin, PinFile};
use byleave_mcp::upstream::server_definition::{Launch, ServerDefinition, ServerName};
use serde_json::{Value, json};

use crate::world::CliTestWorld;
use byleave_testkit::oauth::{FakeOAuthServers, SECRET, browse, in_query};

/// A test world with the fake server behind the gate.
fn world(fake: &FakeOAuthServers) -> CliTestWorld {
    let world = CliTestWorld::new();
    let added = world.quietly(&["mcp", "add", "far", "--url", &fake.url], "");
    assert!(added.status.success(), "{}", said(&added));
    world
}

/// Writes a script that replaces the browser.
fn opener(world: &CliTestWorld, script: &str) -> PathBuf {
    let path = world.workspace().join("opener");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Returns the program on a machine with a display, with this script as its browser.
fn shown(world: &CliTestWorld, opener: &Path, words: &[&str]) -> Command {
    let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
    command.args(words).env("DISPLAY", ":0").env("BROWSER", opener);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

/// Returns the address that the program prints.
fn printed(child: &mut Child) -> (String, BufReader<std::process::ChildStderr>) {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "no address was printed");
        if line.contains("/authorize?") && line.starts_with("http") {
            return (line.trim().to_owned(), lines);
        }
    }
}

fn definition(fake: &FakeOAuthServers) -> ServerDefinition {
    let launch = Launch::Http { url: fake.url.clone(), headers: Default::default() };
    ServerDefinition::new(ServerName::new("far").unwrap(), launch)
}

/// Accepts the start of a server, as the user does at a terminal.
fn accepted(world: &CliTestWorld, definition: &ServerDefinition) {
    let mut directory = std::fs::DirBuilder::new();
    directory.recursive(true).mode(0o700).create(world.state()).unwrap();
    let pin = LaunchPin::now(definition, "/usr/bin:/bin").unwrap();
    PinFile::in_state_dir(&world.state())
        .update(&definition.name, |pinned| pinned.launch = Some(pin))
        .unwrap();
}

/// Returns all files below a directory, except the logins.
fn kept(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("mcp-logins") {
            found.extend(kept(&path));
        } else if path.is_file() {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found
}

// req: M1
#[test]
fn a_person_logs_in_and_no_secret_is_said_or_written_down() {
    let fake = FakeOAuthServers::start();
    let world = world(&fake);
    accepted(&world, &definition(&fake));
    let before = world.quietly(&["mcp", "test", "far"], "");
    assert!(said(&before).contains("`byleave mcp login far`"), "{}", said(&before));
    let listed = said(&world.quietly(&["mcp", "list"], ""));
    assert!(listed.contains("needs `byleave mcp login far`"), "{listed}");

    // The browser gets one argument, which the test then follows.
    let pipe = world.workspace().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let opener = opener(&world, &format!("printf '%s\\n' \"$#\" \"$@\" > '{}'", pipe.display()));
    let mut login =
        shown(&world, &opener, &["-vvv", "mcp", "login", "far", "--yes", "--json"]).spawn().unwrap();
    let (address, mut rest) = printed(&mut login);
    let opened = std::fs::read_to_string(&pipe).unwrap();
    assert_eq!(opened, format!("1\n{address}\n"));
    let challenge = in_query(&address, "code_challenge_method");
    assert_eq!((challenge.as_str(), in_query(&address, "resource")), ("S256", fake.url.clone()));
    assert_eq!(browse(&address).0, 200);
    let mut words = String::new();
    rest.read_to_string(&mut words).unwrap();
    let output = login.wait_with_output().unwrap();
    assert!(output.status.success(), "{words}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value, json!({ "server": "far", "login": { "state": "at", "issuer": fake.issuer } }));

    let mut all = vec![words, said(&output)];
    for words in [
        &["mcp", "list"][..],
        &["mcp", "list", "--json"],
        &["mcp", "show", "far"],
        &["mcp", "show", "far", "--json"],
        &["-vvv", "mcp", "test", "far", "--json"],
    ] {
        let asked = fake.shared().seen.len();
        let output = said(&world.quietly(words, ""));
        if words.contains(&"test") {
            // The server was reached. Its tools were not accepted yet, so they are suspended.
            assert!(output.contains("hello"), "{output}");
        } else {
            assert!(output.contains(&fake.issuer), "{output}");
            assert_eq!(fake.shared().seen.len(), asked, "{words:?} asks nobody");
        }
        all.push(output);
    }
    assert!(all.iter().all(|text| !text.contains(SECRET)), "{all:#?}");
    let holds = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    for (path, bytes) in kept(world.state().parent().unwrap()) {
        assert!(!holds(&bytes), "{}", path.display());
    }
    let directory = world.state().join("mcp-logins");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&directory.join("far.json"))), (0o700, 0o600));
    assert!(holds(&std::fs::read(directory.join("far.json")).unwrap()));

    let out = world.quietly(&["mcp", "logout", "far"], "");
    assert!(out.status.success() && !directory.join("far.json").exists());
    assert!(!said(&world.quietly(&["mcp", "list"], "")).contains("logged in"));
    assert!(said(&world.quietly(&["mcp", "test", "far"], "")).contains("`byleave mcp login far`"));
}

// req: M1 M2
#[test]
fn no_endpoint_but_a_plain_one_is_opened() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/bypasses.jsonl");
    let corpus = std::fs::read_to_string(corpus).unwrap();
    let case = corpus.lines().find(|line| line.contains("oauth-endpoint-command-injection")).unwrap();
    let case: Value = serde_json::from_str(case).unwrap();
    let named = case["input"]["arguments"]["authorization_endpoint"].as_str().unwrap();
    let others = [
        "javascript:alert(1)",
        "ms-word:ofe|u|https://auth.example/x.docx",
        "-a",
        "http://auth.example/authorize",
        "https://auth.example/$(touch${IFS}x)",
        "https://a@auth.example/",
        "https://auth.example/\u{7}",
    ];
    for endpoint in std::iter::once(named).chain(others) {
        let fake = FakeOAuthServers::start();
        let world = world(&fake);
        fake.shared().metadata.insert("authorization_endpoint".into(), json!(endpoint));
        let marker = world.workspace().join("marker");
        let opener = opener(&world, &format!("touch '{}'", marker.display()));
        let output = shown(&world, &opener, &["mcp", "login", "far", "--yes"]).output().unwrap();
        let words = said(&output);
        assert_eq!(output.status.code(), Some(3), "{endpoint:?}: {words}");
        assert!(
            words.contains("authorization endpoint is refused") && words.contains("nothing was opened"),
            "{words}"
        );
        assert!(!words.contains("log in at this address") && !words.contains('\u{7}'), "{words}");
        // Nothing was sent either. With a valid endpoint, the test sees what is opened.
        assert!(!marker.exists() && fake.shared().seen.iter().all(|seen| seen.method == "GET"));
        fake.shared().metadata.clear();
        let mut login = shown(&world, &opener, &["mcp", "login", "far", "--yes"]).spawn().unwrap();
        let (address, _rest) = printed(&mut login);
        assert_eq!(browse(&address).0, 200);
        assert!(login.wait().unwrap().success());
    }
}

// req: M1
#[test]
fn other_hosts_are_agreed_to_first_and_a_browser_is_opened_only_where_it_is_wanted() {
    let fake = FakeOAuthServers::start();
    let world = world(&fake);
    let marker = world.workspace().join("marker");
    let opener = opener(&world, &format!("touch '{}'", marker.display()));
    let output = shown(&world, &opener, &["mcp", "login", "far"]).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert!(
        words.contains(fake.issuer.strip_prefix("http://").unwrap()) && words.contains("--yes"),
        "{words}"
    );
    assert!(fake.shared().seen.iter().all(|seen| seen.method == "GET") && fake.asked("/authorize") == 0);
    // Nobody comes back, and the program reports that.
    let waiting = ["mcp", "login", "far", "--yes", "--no-browser", "--wait", "1"];
    let output = shown(&world, &opener, &waiting).output().unwrap();
    assert!(output.status.code() == Some(2) && said(&output).contains("within 1 s"), "{}", said(&output));
    let mut blind = shown(&world, &opener, &["mcp", "login", "far", "--yes", "--wait", "1"]);
    let output = blind.env_remove("DISPLAY").output().unwrap();
    assert!(said(&output).contains("log in at this address"), "{}", said(&output));
    assert!(!marker.exists());
}

// req: M1
#[test]
fn list_and_show_start_nothing() {
    let world = CliTestWorld::new();
    let marker = world.workspace().join("marker");
    let program = opener(&world, &format!("touch '{}'", marker.display()));
    let program = program.to_str().unwrap();
    let added = world.quietly(&["mcp", "add", "repo", "--unconfined", "--", program], "");
    assert!(added.status.success(), "{}", said(&added));
    // The repository defines a server of the same name as well, and claims that it is approved.
    let theirs = json!({ "mcpServers": { "repo": { "command": program } } }).to_string();
    std::fs::write(world.workspace().join(".mcp.json"), theirs).unwrap();
    let look = || {
        for words in [
            &["mcp"][..],
            &["mcp", "list"],
            &["mcp", "list", "--json"],
            &["mcp", "show", "repo"],
            &["mcp", "show", "repo", "--json"],
        ] {
            let output = world.quietly(words, "");
            assert!(output.status.success() && said(&output).contains("repo"), "{words:?} {}", said(&output));
            assert!(!marker.exists(), "{words:?}");
        }
    };
    look();
    // They do not start it either after it was accepted. Only a command that names the server starts it.
    let launch =
        Launch::Child { command: program.into(), args: Vec::new(), env: Default::default(), cwd: None };
    let mut definition = ServerDefinition::new(ServerName::new("repo").unwrap(), launch);
    definition.profile.unconfined = true;
    accepted(&world, &definition);
    look();
    let tested = world.quietly(&["mcp", "test", "repo"], "");
    assert!(marker.exists(), "{}", said(&tested));
}
