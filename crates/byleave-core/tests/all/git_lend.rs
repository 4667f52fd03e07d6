//! `lend` in rules, and a rehearsal that wanted a Git transport.

use byleave_core::effect::{Effect, Plan};
use byleave_core::file_change::FileChanges;
use byleave_core::git_transport::{GitService, GitTransport, GitUrl};
use byleave_core::outcome::{ExecutionStatus, Output};
use byleave_core::policy::{Layer, PathVariables, PolicyFileError, Rule, RuleFile, SkipExamples, load_rules};
use byleave_core::rehearsal::Rehearsal;

fn load(layer: Layer, rule: &str) -> Result<Vec<Rule>, PolicyFileError> {
    let places = PathVariables { workspace: Some("/w"), home: Some("/h"), ..PathVariables::default() };
    let text = &format!("[[rule]]\nid = \"r\"\nreason = \"x\"\n{rule}");
    load_rules(&RuleFile { name: "r.toml", layer, text }, &places, &SkipExamples).map(|file| file.rules)
}

// req: P1, E7
#[test]
fn only_a_rule_of_a_person_about_named_hosts_lends() {
    for rule in [
        "verdict = \"ask\"\nsend = \"git.example\"\nlend = [\"git\"]",
        "verdict = \"allow\"\nreach = [\"git.example:22\", \"git.example\"]\nlend = \"git\"",
    ] {
        assert!(load(Layer::User, rule).unwrap()[0].lends_git, "{rule}");
        let error = load(Layer::Project, rule).unwrap_err().to_string();
        assert!(error.contains("project"), "{rule}: {error}");
    }
    for (rule, told) in [
        (
            "verdict = \"deny\"\nsend = \"git.example\"\nlend = [\"git\"]",
            "valid only on an `allow` or an `ask`",
        ),
        ("verdict = \"ask\"\nrun = \"git push\"\nlend = [\"git\"]", "valid only on an `allow` or an `ask`"),
        ("verdict = \"ask\"\nsend = \"*\"\nlend = [\"git\"]", "named one by one"),
        ("verdict = \"ask\"\nsend = \"*.git.example\"\nlend = [\"git\"]", "named one by one"),
        ("verdict = \"ask\"\nsend = \"git.example\"\nlend = [\"ssh\"]", "`ssh` cannot be lent"),
        ("verdict = \"ask\"\nsend = \"git.example\"\nlend = []", "the list is empty"),
        ("verdict = \"ask\"\nsend = \"git.example\"\nlend = true", "boolean"),
    ] {
        let error = load(Layer::User, rule).unwrap_err().to_string();
        assert!(error.contains(told), "{rule}: {error}");
    }
}

// req: E5, E7
#[test]
fn a_rehearsal_that_wanted_a_transport_is_run_again_and_its_effects_are_judged() {
    let url = GitUrl::parse("git@git.example:app.git").unwrap();
    let rehearsal = |lent: Vec<GitTransport>| Rehearsal {
        git_transports: lent,
        ..Rehearsal::new(FileChanges::default(), ExecutionStatus::Failed, Output::default())
    };
    let lent = |service| GitTransport::new(&url, service);
    let push = rehearsal(vec![lent(GitService::ReceivePack)]);
    assert!(!push.is_committable() && !push.has_no_effects());
    let sends = Effect::Send { host: "git.example".into(), port: 22 };
    assert_eq!(push.observed_plan().effects, [sends]);
    let fetch = rehearsal(vec![lent(GitService::UploadPack)]);
    assert_eq!(fetch.observed_plan().effects, [Effect::Reach { host: "git.example".into(), port: 22 }]);
    assert_eq!(fetch.unusable_git(), None);
    let problem = GitTransport { problem: Some("no key".into()), ..lent(GitService::UploadPack) };
    let told = rehearsal(vec![problem.clone()]).unusable_git();
    assert_eq!(told.as_deref(), Some("Git cannot use ssh://git@git.example/app.git: no key."));
    assert_eq!(rehearsal(vec![problem, lent(GitService::UploadPack)]).unusable_git(), None);
    assert_eq!(rehearsal(Vec::new()).unusable_git(), None);
}

// req: E7
#[test]
fn a_command_that_cannot_work_is_recognized_by_its_run_on_a_copy() {
    let ended = |exit: u64| {
        Rehearsal::new(
            FileChanges::default(),
            ExecutionStatus::Failed,
            Output::failure("failed").with_data(serde_json::json!({ "exit": exit })),
        )
    };
    let plan = |name: &str| Plan {
        effects: vec![Effect::Run { program: format!("/usr/bin/{name}"), argv: vec![name.into()] }],
        ..Plan::default()
    };
    for (exit, name, cannot) in
        [(127, "gh", true), (126, "x", true), (1, "gh", false), (1, "sudo", true), (2, "/usr/bin/sudo", true)]
    {
        assert_eq!(ended(exit).cannot_work(&plan(name)).is_some(), cannot, "{exit} {name}");
    }
    // A yes would give it what it did not have, or there is something to keep.
    let blocked = Rehearsal {
        git_transports: vec![GitTransport::new(
            &GitUrl::parse("git@git.example:app.git").unwrap(),
            GitService::UploadPack,
        )],
        ..ended(127)
    };
    assert_eq!(blocked.cannot_work(&plan("gh")), None);
    assert_eq!(Rehearsal { leftover_processes: 1, ..ended(127) }.cannot_work(&plan("gh")), None);
    assert_eq!(Rehearsal { status: ExecutionStatus::Succeeded, ..ended(127) }.cannot_work(&plan("gh")), None);
    let waived =
        Plan { effects: vec![Effect::Unconfined { guarantee: "network".into() }], ..Plan::default() };
    assert_eq!(ended(127).cannot_work(&waived), None);
}
