//! The account of a call: the headline, the steps, the answer with its reason, and times on the person's clock.
// req: A1, R5

use std::collections::HashMap;

use byleave_core::digest::ContentRef;
use byleave_core::entry::RecordEvent;
use byleave_core::file_change::{FileChange, FileChanges, GitStatus};
use byleave_core::grant::GrantedBy;
use byleave_core::id::StandingApprovalId;
use byleave_core::outcome::{ExecutionStatus, Output};
use byleave_core::pattern::Pattern;
use byleave_core::question::{Answer, ApproverIdentity, Assurance, RecordedAnswer};
use byleave_core::record::Record;
use byleave_core::rehearsal::Rehearsal;
use byleave_core::render::{AccountSource, AgentReport, CallAccount, ChangesState, LineRole, Rendering};
use byleave_core::standing_approval::StandingApproval;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::render::{seen, text_of};
use crate::words::{CALL, NOW, entry, held};

/// A record and its contents.
#[derive(Default)]
struct Story {
    contents: HashMap<ContentRef, Vec<u8>>,
    changes: Option<(FileChanges, ChangesState)>,
    report: Option<AgentReport>,
    approvals: Vec<(StandingApprovalId, String)>,
}

impl Story {
    fn of(command: &str) -> Self {
        Self::default().with("arguments", &json!({ "command": command, "timeout_ms": 5 }))
    }

    fn with(mut self, name: &str, content: &Value) -> Self {
        self.contents.insert(held(name), content.to_string().into_bytes());
        self
    }

    fn account(&self, record: &Record) -> CallAccount {
        CallAccount::new(&AccountSource {
            record,
            content: &|content| self.contents.get(&content).map(Vec::as_slice),
            changes: self.changes.as_ref().map(|(changes, state)| (changes, *state)),
            report: self.report.clone(),
            approvals: &self.approvals,
        })
    }

    fn told(&self, record: &Record) -> Rendering {
        self.account(record).to_rendering(&|_| 3_600)
    }
}

/// Makes the record of these words. `change` is called with each word and its event.
fn record(words: &str, change: impl Fn(&str, &mut RecordEvent)) -> Record {
    let mut record = Record::new(CALL);
    for (word, seconds) in words.split_whitespace().zip(0..) {
        let mut entry = entry(&record, word);
        entry.at = NOW + seconds * 10;
        change(word, &mut entry.event);
        if word.starts_with("received") {
            let RecordEvent::Received(header) = &mut entry.event else { panic!("{entry:?}") };
            header.tool = "bash".into();
        }
        if let RecordEvent::Resolved(Ok(resolved)) = &mut entry.event {
            resolved.tool = "bash".into();
        }
        record.push(entry).unwrap();
    }
    record
}

fn answered(event: &mut RecordEvent) -> &mut RecordedAnswer {
    match event {
        RecordEvent::Answered(answered) => answered,
        other => panic!("{other:?}"),
    }
}

const ASKED: &str = "received resolved validated planned:a permitted:ask reviewed asked";

fn one_edit() -> FileChanges {
    let change = FileChange {
        path: "/w/price.py".into(),
        before: text_of(10, 0o644),
        after: text_of(11, 0o644),
        git_status: GitStatus::Tracked,
        diff: Some("@@ -1 +1 @@\n-vat=0.19\n+vat=0.21\n".into()),
    };
    FileChanges { list: vec![change], ..FileChanges::default() }
}

#[test]
fn a_call_that_a_person_allowed_is_told_from_the_command_to_the_result() {
    let output = Output { data: Some(json!({ "exit": 3 })), ..Output::failure("exit status 3") };
    let story = Story {
        changes: Some((one_edit(), ChangesState::Made)),
        ..Story::of("sed -i s/0.19/0.21/ price.py && make").with("output", &json!(output))
    };
    let words = format!("{ASKED} answered:yes begun ended:failed output settled");
    let record = record(&words, |_, event| match event {
        RecordEvent::Answered(answered) => {
            answered.answer = Answer::Yes { note: Some("but only this once".into()) };
        }
        RecordEvent::Ended { end, .. } => {
            (end.duration_ms, end.output) = (1_234, held("output"));
            end.status = ExecutionStatus::Failed;
        }
        _ => {}
    });
    let told = story.told(&record);
    insta::assert_snapshot!("a_call_that_a_person_allowed", told.to_text());
    assert_eq!(told.lines[0].role, LineRole::Headline);
    let short = story.account(&record).short_text();
    assert_eq!(short, "$ sed -i s/0.19/0.21/ price.py && make  (M price.py +1 −1)");
}

#[test]
fn an_answer_always_says_what_was_answered() {
    let scope = StandingApproval {
        id: StandingApprovalId::new(Uuid::from_u128(9)),
        tool: "*".into(),
        scope: vec![Pattern::Write("/w/notes/**".into()), Pattern::Run(vec!["git".into(), "add".into()])],
        session: None,
        expires_at: None,
        max_uses: None,
    };
    let no = |feedback: Option<&str>| Answer::No { feedback: feedback.map(str::to_owned) };
    let cases = [
        (Answer::Yes { note: None }, "yes by p"),
        (no(None), "no by p"),
        (no(Some("use the journal\nand more")), "no by p: use the journal"),
        (no(Some("a \u{202e}trick")), "no by p: a ⟨U+202E⟩trick"),
        (Answer::Abort, "abort by p"),
        (
            Answer::StandingApproval(scope),
            "yes, with a standing approval by p: write /w/notes/**, run git add",
        ),
    ];
    for (answer, wanted) in cases {
        let record = record(&format!("{ASKED} answered:yes"), |_, event| {
            if let RecordEvent::Answered(answered) = event {
                answered.answer = answer.clone();
            }
        });
        let told = Story::of("true").told(&record).to_text();
        assert!(told.contains(&format!("  answered   {wanted}\n")), "{wanted}: {told}");
    }
    let place = |assurance| {
        let record = record(&format!("{ASKED} answered:yes"), |_, event| {
            if let RecordEvent::Answered(answered) = event {
                answered.approver = ApproverIdentity { name: "ann".into(), assurance };
            }
        });
        Story::of("true").told(&record).to_text()
    };
    assert!(place(Assurance::Web).contains("yes by ann in a browser"));
    assert!(place(Assurance::ClientAttested).contains("yes by ann in the agent's own window"));
    assert!(place(Assurance::Program).contains("yes by ann (a program)"));
}

#[test]
fn a_part_and_an_edit_say_what_became_of_the_call() {
    let words = "received resolved:rehearsed validated planned:a permitted:ask reviewed rehearsing rehearsed \
                 asked answered:part";
    let run = Rehearsal { changes: one_edit(), ..seen(vec![]) };
    let story = Story::of("make").with("paths", &json!(["/w/price.py", "/w/a b"]));
    let part = record(words, |_, event| {
        if let RecordEvent::RehearsalFinished(byleave_core::rehearsal::RehearsalOutcome::Ran(ran)) = event {
            ran.rehearsal = held("run");
        }
    });
    let told = story.with("run", &json!(run)).told(&part).to_text();
    assert!(told.contains("tried      on a copy it changed 1 file"), "{told}");
    assert!(told.contains("yes to a part by p\n") && told.contains("only price.py, “a b”"), "{told}");
    assert!(told.contains("on the copy only:") && told.contains("M price.py +1 −1"), "{told}");

    let edited = record(&format!("{ASKED} answered:edit"), |word, event| {
        if word == "answered:edit" {
            answered(event).answer = Answer::Edit { content: held("edited"), note: None };
        }
    });
    let story = Story::of("rm -rf build").with("edited", &json!({ "command": "rm -rf build/cache" }));
    let told = story.told(&edited).to_text();
    assert!(told.starts_with("$ rm -rf build/cache\n"), "{told}");
    assert!(
        told.contains("yes, with changes by p\n") && told.contains("instead of $ rm -rf build\n"),
        "{told}"
    );
}

#[test]
fn without_a_question_it_says_what_allowed_the_call() {
    let words = "received resolved validated planned:a permitted:leave reviewed begun";
    let approved = record(words, |_, _| {});
    let RecordEvent::Started(Ok(claim)) = &approved.entries().last().unwrap().event else { panic!() };
    let GrantedBy::StandingApproval(id) = claim.granted_by else { panic!("{claim:?}") };
    let mut story = Story::of("true");
    assert!(story.told(&approved).to_text().contains(&format!("allowed    by the standing approval {id}")));
    story.approvals = vec![(id, "ann: write /w/**".into())];
    let told = story.told(&approved).to_text();
    assert!(told.contains("allowed    by a standing approval of ann: write /w/**"), "{told}");

    let words = "received resolved validated planned:a permitted:allow reviewed begun interrupted settled";
    let told = Story::of("true").told(&record(words, |_, _| {}));
    insta::assert_snapshot!("a_call_whose_process_is_gone", told.to_text());
    let warnings = told.lines.iter().filter(|line| line.role == LineRole::Warning).count();
    assert_eq!(warnings, 2);
}

#[test]
fn a_refusal_says_why_and_a_forgotten_call_says_that_it_is_forgotten() {
    let denied = record("received resolved validated planned:a permitted:deny settled", |_, _| {});
    let told = Story::of("cat .env").told(&denied).to_text();
    assert!(told.contains("refused    why (denied)"), "{told}");
    let told = Story::default().told(&denied).to_text();
    assert!(told.starts_with("  Call “bash”\n") && told.contains("were forgotten"), "{told}");
    // A call of which nothing but its receipt is recorded.
    let begun = record("received", |_, _| {});
    assert!(Story::of("true").told(&begun).to_text().starts_with("$ true\n"));
    assert_eq!(Story::default().told(&Record::new(CALL)).lines.len(), 2);
}

#[test]
fn the_report_of_the_agent_is_part_of_its_call() {
    let words = "received resolved validated planned:a permitted:allow reviewed begun ended output settled";
    let record = record(words, |_, _| {});
    let mut story = Story::of("true");
    story.report = Some(AgentReport { at: NOW + 86_400_000, different: None });
    let told = story.told(&record).to_text();
    assert!(told.contains("  1970-01-02 01:16:40  reported   by the agent: it is done"), "{told}");
    story.report = Some(AgentReport { at: NOW, different: Some("it wrote other bytes".into()) });
    let told = story.told(&record);
    let line = told.lines.iter().find(|line| line.text.contains("other bytes")).unwrap();
    assert_eq!(line.role, LineRole::Warning);
}

#[test]
fn a_long_command_is_one_short_line_in_a_list() {
    let begun = record("received", |_, _| {});
    let long = format!("echo {}\nrm -rf /", "x".repeat(1_000));
    let short = Story::of(&long).account(&begun).short_text();
    assert!(short.starts_with("$ echo xxx") && short.ends_with("x…"), "{short}");
    assert_eq!(short.chars().count(), 161);
    let short = Story::of("one\ntwo").account(&begun).short_text();
    assert_eq!(short, "$ one ⏎ two");
}
