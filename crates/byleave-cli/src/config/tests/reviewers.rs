//! The tables `[[reviewer]]`.

use std::time::Duration;

use byleave_gate::core::policy::Layer;

use super::{load, load_layers};
use crate::config::reviewer::{ReviewStages, ReviewerKind};
use crate::config::{Config, ConfigError};

const ALL: &str = r#"
mode = "confirm-all"

[[reviewer]]
name = "one"
kind = "program"
tools = ["*"]
on = "both"
command = ["/usr/local/bin/review", "--strict"]
timeout = "10s"

[[reviewer]]
name = "two"
kind = "webhook"
tools = ["mcp_github_*", "bash"]
on = "input"
url = "https://reviews.example/byleave?key=hidden"
secret_file = "/etc/byleave/review.secret"

[[reviewer]]
name = "three"
kind = "secrets"
tools = ["bash"]

[[reviewer]]
name = "four"
kind = "drop_fields"
tools = ["bash"]
on = "output"
fields = ["password", "token"]

[[reviewer]]
name = "five"
kind = "strip"
tools = ["query"]
argument = "sql"
remove = [";", "--"]
"#;

fn names(config: &Config) -> Vec<&str> {
    config.reviewers().iter().map(|reviewer| reviewer.name.as_str()).collect()
}

// req: R12
#[test]
fn every_kind_of_reviewer_is_read_in_order() {
    let config = load(ALL, "", &[]).unwrap();
    assert_eq!(names(&config), ["one", "two", "three", "four", "five"]);
    let all = config.reviewers();
    let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let program = ReviewerKind::Program {
        program: "/usr/local/bin/review".into(),
        arguments: texts(&["--strict"]),
        on: ReviewStages::Both,
        timeout: Some(Duration::from_secs(10)),
    };
    assert_eq!((&all[0].kind, all[0].line), (&program, 4));
    let webhook = ReviewerKind::Webhook {
        url: "https://reviews.example/byleave?key=hidden".into(),
        secret_file: "/etc/byleave/review.secret".into(),
        on: ReviewStages::Input,
        timeout: None,
    };
    assert_eq!((&all[1].kind, &all[1].tools), (&webhook, &texts(&["mcp_github_*", "bash"])));
    assert_eq!(all[2].kind, ReviewerKind::Secrets);
    assert_eq!(all[3].kind, ReviewerKind::DropFields { fields: texts(&["password", "token"]) });
    let strip = ReviewerKind::Strip { argument: "sql".into(), remove: texts(&[";", "--"]) };
    assert_eq!((&all[4].kind, all[4].kind.stages()), (&strip, ReviewStages::Input));
    // The path and the query of a URL may be secret.
    let shown = all[1].json();
    assert_eq!(shown["url"], "https://reviews.example", "{shown}");
    assert_eq!(shown["origin"]["kind"], "user", "{shown}");
    assert_eq!(all[0].json()["command"][0], "/usr/local/bin/review");
}

// req: R12
#[test]
fn reviewers_of_the_organisation_come_first_and_all_apply() {
    let own = "[[reviewer]]\nname = \"mine\"\nkind = \"secrets\"\ntools = [\"*\"]\n";
    let shared = own.replace("mine", "ours");
    let config = load_layers(&[(Layer::Organisation, &shared), (Layer::User, own)], &[]).unwrap();
    assert_eq!(names(&config), ["ours", "mine"]);
    let again = load_layers(&[(Layer::Organisation, own), (Layer::User, own)], &[]).unwrap_err();
    let again = again.to_string();
    assert!(again.contains("own.toml") && again.contains("organisation.toml:1"), "{again}");
    assert!(again.contains("line 2, column 8") && again.contains("rename one of them"), "{again}");
}

// req: R12, P8
#[test]
fn a_project_has_no_reviewers() {
    let project = "# one\n[[reviewer]]\nname = \"x\"\nkind = \"secrets\"\ntools = [\"*\"]\n";
    let fault = load("", project, &[]).unwrap_err();
    let fault = fault.downcast_ref::<ConfigError>().unwrap();
    assert_eq!(fault.diagnostics.len(), 1);
    assert_eq!(fault.diagnostics[0].line, 2);
    let told = fault.to_string();
    assert!(told.contains("may not have reviewers") && told.contains("run programs"), "{told}");
    assert!(told.contains("byleave config edit"), "{told}");
}

/// Returns a reviewer of this kind, with these lines in addition.
fn table(kind: &str, lines: &str) -> String {
    format!("[[reviewer]]\nname = \"x\"\ntools = [\"bash\"]\nkind = \"{kind}\"\n{lines}\n")
}

// req: R12
#[test]
fn what_is_wrong_with_a_reviewer_is_told_with_its_place_and_what_to_do() {
    let program = |line: &str| table("program", &format!("on = \"input\"\n{line}"));
    let webhook = |lines: &str| table("webhook", &format!("on = \"input\"\n{lines}"));
    let secret = "secret_file = \"/s\"";
    let wrong: Vec<(String, usize, &str)> = vec![
        ("reviewer = 3".into(), 1, "begin every reviewer with `[[reviewer]]`"),
        ("reviewer = [3]".into(), 1, "begin every reviewer with `[[reviewer]]`"),
        ("[reviewer]\nname = \"x\"".into(), 1, "begin every reviewer with `[[reviewer]]`"),
        ("[[reviewer]]".into(), 1, "this reviewer has no `kind`"),
        (table("secrets", "").replace("name = \"x\"", ""), 1, "this reviewer has no `name`"),
        (table("secrets", "").replace("\"x\"", "\"\""), 2, "`name` is empty"),
        (table("secrets", "").replace("\"x\"", "\"x y\""), 2, "cannot be the name of a reviewer"),
        (table("secrets", "").replace("\"x\"", "3"), 2, "this is a number, not a string"),
        (table("secrets", "").replace("tools = [\"bash\"]", ""), 1, "for all tools `tools = [\"*\"]`"),
        (table("secrets", "").replace("[\"bash\"]", "[]"), 3, "`tools` is empty"),
        (table("secrets", "").replace("\"bash\"", "\"\""), 3, "one of its texts is"),
        (table("secrets", "").replace("\"bash\"", "\"a b\""), 3, "cannot be the name of a tool"),
        (table("secrets", "").replace("[\"bash\"]", "\"bash\""), 3, "not a list"),
        (table("dropfields", ""), 4, "did you mean `drop_fields`?"),
        (table("secrets", "on = \"input\""), 5, "reviews the output only"),
        (table("drop_fields", "fields = [\"a\"]\non = \"both\""), 6, "reviews the output only"),
        (table("strip", "argument = \"a\"\nremove = [\"b\"]\non = \"output\""), 7, "reviews the input only"),
        (table("program", "command = [\"/bin/true\"]"), 1, "this reviewer has no `on`"),
        (table("program", "command = [\"/bin/true\"]\non = \"inputs\""), 6, "did you mean `input`?"),
        (program(""), 1, "this reviewer has no `command`"),
        (program("command = []"), 6, "`command` is empty"),
        (program("command = [\"review\"]"), 6, "not an absolute path"),
        (program("command = \"/bin/true\""), 6, "not a list"),
        (program("command = [\"/bin/true\"]\ntimeout = \"11m\""), 7, "from `1s` to `10m`"),
        (program("command = [\"/bin/true\"]\ntimeout = 3"), 7, "not a string"),
        (webhook(secret), 1, "this reviewer has no `url`"),
        (webhook(&format!("{secret}\nurl = \"reviews.example\"")), 7, "this is not a URL"),
        (webhook("url = \"https://reviews.example\""), 1, "this reviewer has no `secret_file`"),
        (webhook("url = \"https://reviews.example\"\nsecret_file = \"s\""), 7, "not an absolute path"),
        (table("drop_fields", ""), 1, "this reviewer has no `fields`"),
        (table("strip", "remove = [\";\"]"), 1, "this reviewer has no `argument`"),
        (table("strip", "argument = \"/sql\"\nremove = [\";\"]"), 5, "not the name of an argument"),
        (table("strip", "argument = \"sql\""), 1, "this reviewer has no `remove`"),
        (table("strip", "argument = \"sql\"\nremove = [\"\"]"), 6, "`remove` is empty"),
        (table("secrets", "fields = [\"a\"]"), 5, "of the kind `secrets` has no key `fields`"),
        (table("secrets", "filds = [\"a\"]"), 5, "did you mean `fields`?"),
        (table("secrets", "zzzz = 1"), 5, "the keys are `name`, `kind`, `tools`, `on`"),
        (table("secrets", "mode = \"yolo\""), 5, "write it above the first `[[reviewer]]`"),
        (format!("{}{}", table("secrets", ""), table("secrets", "")), 7, "another reviewer has the name `x`"),
    ];
    for (text, line, told) in wrong {
        let fault = load(&text, "", &[]).unwrap_err();
        let fault = fault.downcast_ref::<ConfigError>().unwrap_or_else(|| panic!("{text}: {fault}"));
        let found = fault
            .diagnostics
            .iter()
            .find(|each| each.line == line && (each.message.contains(told) || each.help.contains(told)));
        assert!(found.is_some(), "{text}\n{told}\n{:?}", fault.diagnostics);
    }
}
