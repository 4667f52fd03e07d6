//! The pipeline, case by case: a record written as words, and the next step.

use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::pipeline::{NextStep, next_step};
use byleave_core::question::Assurance;
use byleave_core::record::Record;

use crate::words::{CALL, entry, record, said};

#[track_caller]
fn check(words: &str, expected: &str) {
    assert_eq!(said(&next_step(&record(words))), expected, "{words}");
}

const JUDGED: &str = "received resolved validated planned:a";

// req: E1
#[test]
fn stages_come_in_order() {
    check("received", "resolve");
    check("received resolved", "validate");
    check("received resolved validated", "plan");
    check(JUDGED, "permit");
    check(&format!("{JUDGED} permitted:allow"), "review input");
    check(&format!("{JUDGED} permitted:allow reviewed"), "begin");
    check(&format!("{JUDGED} permitted:allow reviewed begun"), "execute");
    check(&format!("{JUDGED} permitted:allow reviewed begun ended"), "review output");
    check(&format!("{JUDGED} permitted:allow reviewed begun ended output"), "completed");
    check(&format!("{JUDGED} permitted:allow reviewed begun ended:failed output"), "failed");
    // The outcome is unknown, so there is nothing to review or release.
    check(&format!("{JUDGED} permitted:allow reviewed begun ended:lost"), "unknown interrupted");
}

#[test]
fn what_is_refused_stops_there() {
    check("received resolved:no", "refused tool-unknown");
    check("received resolved validated:no", "refused arguments-invalid");
    check("received resolved validated planned:no", "refused plan-failed");
    check(&format!("{JUDGED} permitted:deny"), "refused denied");
    check(&format!("{JUDGED} permitted:no"), "refused policy-failed");
    check(&format!("{JUDGED} permitted:allow reviewed:no"), "refused review-denied");
    check(&format!("{JUDGED} permitted:allow reviewed begun:no"), "refused policy-stricter");
    check(&format!("{JUDGED} permitted:allow reviewed begun ended output:no"), "withheld output-denied");
}

// req: R5
#[test]
fn a_person_is_asked_once_and_the_answer_counts() {
    let asked = format!("{JUDGED} permitted:ask reviewed asked");
    check(&format!("{JUDGED} permitted:ask reviewed"), "ask approval");
    check(&format!("{JUDGED} permitted:ask reviewed asked:no"), "refused no-approver");
    check(&asked, "wait approval");
    check(&format!("{asked} answered:yes"), "begin");
    check(&format!("{asked} answered:leave"), "begin");
    check(&format!("{asked} answered:no"), "refused declined");
    check(&format!("{asked} answered:abort"), "refused aborted");
    check(&format!("{asked} expired"), "refused unanswered");
    check(&format!("{asked} unasked"), "refused approver-failed");
    check(&format!("{asked} cancelled"), "refused cancelled");
}

// req: R2
#[test]
fn a_changed_draft_is_judged_again() {
    check(&format!("{JUDGED} permitted:allow reviewed:change"), "validate");
    check(
        &format!("{JUDGED} permitted:allow reviewed:change validated planned:b permitted:deny"),
        "refused denied",
    );
    let twice = "validated planned:a permitted:allow reviewed:change";
    check(&format!("received resolved {twice} {twice}"), "refused too-many-drafts");
}

#[test]
fn an_edit_that_shows_nothing_new_is_consent() {
    let edited =
        "received resolved validated planned:ab permitted:ask reviewed asked answered:edit validated";
    check(edited, "plan");
    check(&format!("{edited} planned:a permitted:ask reviewed"), "begin");
    check(&format!("{edited} planned:a permitted:allow reviewed"), "begin");
    check(&format!("{edited} planned:a permitted:deny"), "refused denied");
}

#[test]
fn an_edit_that_shows_something_new_asks_again() {
    let edited = "received resolved validated planned:a permitted:ask reviewed asked answered:edit validated";
    check(&format!("{edited} planned:ab permitted:ask reviewed"), "ask approval");
    check(&format!("{edited} planned:a permitted:danger reviewed"), "ask approval");
    check(&format!("{edited} planned:a permitted:ask reviewed:hold"), "ask approval");
    check(&format!("{edited} planned:ab permitted:ask reviewed asked answered:yes"), "begin");
}

// req: R8
#[test]
fn a_checkpoint_is_held_whatever_was_ruled() {
    let judged = "received resolved:checkpoint validated planned:a";
    check(&format!("{judged} permitted:allow reviewed"), "ask checkpoint");
    check(&format!("{judged} permitted:leave reviewed"), "ask checkpoint");
    check(&format!("{judged} permitted:allow reviewed asked answered:no"), "refused checkpoint-refused");
    check(&format!("{judged} permitted:allow reviewed asked answered:yes"), "begin");
    // An edit of a draft that a checkpoint showed must be released again.
    check(
        &format!(
            "{judged} permitted:allow reviewed asked answered:edit validated planned:a permitted:allow reviewed"
        ),
        "ask checkpoint",
    );
    let mut record = record(&format!("{judged} permitted:allow reviewed asked"));
    let leave = entry(&record, "answered:leave");
    assert!(record.push(leave).is_err(), "no leave can release a checkpoint");
}

// req: R9
#[test]
fn a_challenge_comes_where_the_terms_say() {
    let before = "received resolved:before validated planned:a permitted:ask reviewed";
    check(before, "challenge");
    check(&format!("{before} challenged:proceed"), "ask approval");
    check(&format!("{before} challenged:stop"), "refused challenge-stopped");
    check(&format!("{before} challenged:no"), "refused challenge-failed");
    let after = "received resolved:after validated planned:a permitted:ask reviewed";
    check(after, "ask approval");
    check(&format!("{after} asked answered:yes"), "challenge");
    check(&format!("{after} asked answered:yes challenged:proceed"), "begin");
    let stands_in = "received resolved:stands-in validated planned:a permitted:allow reviewed";
    check(stands_in, "challenge");
    check(&format!("{stands_in} challenged:proceed"), "begin");
}

// req: E5
#[test]
fn a_dry_run_needs_no_approver_and_runs_nothing() {
    let judged = "received:dry resolved validated planned:a";
    check(&format!("{judged} permitted:ask reviewed"), "dry-run");
    check(&format!("{judged} permitted:deny"), "refused denied");
    check("received:dry resolved:checkpoint validated planned:a permitted:allow reviewed", "dry-run");
}

#[test]
fn an_interrupted_call_is_unknown_unless_it_may_be_repeated() {
    let begun = "validated planned:a permitted:allow reviewed begun interrupted";
    check(&format!("received resolved {begun}"), "unknown interrupted");
    check(&format!("received resolved:repeatable {begun}"), "begin");
    check(&format!("received resolved:repeatable {begun} begun interrupted"), "unknown interrupted");
    check(&format!("received resolved:repeatable {begun} begun:no"), "unknown interrupted");
    check(&format!("received resolved:repeatable {begun} cancelled"), "unknown interrupted");
}

#[test]
fn a_held_result_waits_for_a_person() {
    let held = format!("{JUDGED} permitted:allow reviewed begun ended output:hold");
    check(&held, "ask release");
    check(&format!("{held} asked"), "wait release");
    check(&format!("{held} asked answered:yes"), "completed");
    check(&format!("{held} asked answered:edit"), "completed");
    check(&format!("{held} asked answered:no"), "withheld output-declined");
    check(&format!("{held} asked expired"), "withheld output-unanswered");
    check(&format!("{held} asked unasked"), "withheld approver-failed");
    check(&format!("{held} asked cancelled"), "withheld cancelled");
    check(&format!("{held} asked:no"), "withheld no-approver");
}

// req: R5
#[test]
fn a_result_of_a_person_takes_the_place_of_the_tool() {
    let answered = format!("{JUDGED} permitted:ask reviewed asked answered:result");
    check(&answered, "review output");
    check(&format!("{answered} output"), "answered");
    check(&format!("{answered} output:change"), "answered");
    check(&format!("{answered} cancelled"), "refused cancelled");
    // The call did not run, so a result that is not released is refused, not withheld.
    check(&format!("{answered} output:no"), "refused output-denied");
    check(&format!("{answered} output:hold"), "ask release");
    check(&format!("{answered} output:hold asked answered:yes"), "answered");
    check(&format!("{answered} output:hold asked answered:edit"), "answered");
    check(&format!("{answered} output:hold asked answered:no"), "refused output-declined");
    check(&format!("{REHEARSED} rehearsed asked answered:result output"), "answered");
    // The tool does not run, so nobody makes the case against it.
    check(
        "received resolved:after validated planned:a permitted:ask reviewed asked answered:result",
        "review output",
    );
    let started = record(&answered);
    assert!(started.check_append(&entry(&started, "begun")).is_err());
}

// req: R5, R8
#[test]
fn only_a_person_answers_in_the_place_of_the_tool_and_never_a_checkpoint() {
    let asked = record(&format!("{JUDGED} permitted:ask reviewed asked"));
    for assurance in [Assurance::Terminal, Assurance::Web, Assurance::ClientAttested, Assurance::Program] {
        let mut given = entry(&asked, "answered:result");
        let RecordEvent::Answered(answered) = &mut given.event else { panic!("{given:?}") };
        answered.approver.assurance = assurance;
        assert_eq!(asked.check_append(&given).is_ok(), assurance.is_person(), "{assurance:?}");
    }
    for words in [
        "received resolved:checkpoint validated planned:a permitted:allow reviewed asked".to_owned(),
        format!("{JUDGED} permitted:allow reviewed begun ended output:hold asked"),
    ] {
        let record = record(&words);
        assert!(record.check_append(&entry(&record, "answered:result")).is_err(), "{words}");
    }
}

#[test]
fn cancelling_something_that_runs_does_not_unmake_it() {
    check(&format!("{JUDGED} permitted:allow reviewed begun cancelled"), "execute");
    check(&format!("{JUDGED} permitted:allow reviewed begun cancelled ended:failed output"), "failed");
}

#[test]
fn an_answer_counts_only_for_its_own_question_and_in_time() {
    let asked = record(&format!("{JUDGED} permitted:ask reviewed asked"));
    let Entry { event: RecordEvent::Answered(answered), .. } = entry(&asked, "answered:yes") else {
        panic!()
    };

    let mut other = answered.clone();
    other.digest = byleave_core::digest::Digest::compute(b"another call's");
    assert!(asked.clone().push(Entry { at: 1, event: RecordEvent::Answered(other) }).is_err());

    let NextStep::Wait(question) = next_step(&asked) else { panic!() };
    let late = Entry { at: question.expires_at + 1, event: RecordEvent::Answered(answered.clone()) };
    assert!(asked.clone().push(late).is_err());
    let early = Entry { at: question.expires_at - 1, event: RecordEvent::Expired { question: question.id } };
    assert!(asked.clone().push(early).is_err());

    let mut answered_once = asked.clone();
    answered_once.push(Entry { at: 1, event: RecordEvent::Answered(answered.clone()) }).unwrap();
    assert!(
        answered_once.push(Entry { at: 1, event: RecordEvent::Answered(answered) }).is_err(),
        "first wins"
    );
}

#[test]
fn a_grant_is_single_use_bound_and_expires() {
    let ready = record(&format!("{JUDGED} permitted:ask reviewed asked answered:yes"));
    let begun = entry(&ready, "begun");
    let mut once = ready.clone();
    once.push(begun.clone()).unwrap();
    assert_eq!(once.push(begun.clone()).unwrap_err().code().as_str(), "grant-used");

    let late = Entry {
        at: begun.at + byleave_core::entry::Limits::default().grant_lifetime_ms + 1,
        ..begun.clone()
    };
    assert_eq!(ready.clone().push(late).unwrap_err().code().as_str(), "grant-expired");

    let other_plan =
        record("received resolved validated planned:ab permitted:ask reviewed asked answered:yes");
    assert!(other_plan.clone().push(begun).is_err(), "a claim on another plan's grant");
}

#[test]
fn a_record_of_another_walk_is_not_guessed_at() {
    let Entry { at, event: RecordEvent::Received(mut heading) } = entry(&Record::new(CALL), "received")
    else {
        panic!()
    };
    heading.record_version += 1;
    let mut foreign = Record::new(CALL);
    let first = foreign.push(Entry { at, event: RecordEvent::Received(heading) }).unwrap();
    assert_eq!(said(&next_step(&foreign)), "refused record-version-unknown");
    // The record continues in an unknown version, so its outcome is unknown.
    let body = serde_json::to_string(&entry(&record("received"), "resolved")).unwrap();
    let link = byleave_core::hash_chain::compute_link(CALL, &first.link(), 1, &body);
    let read = Record::from_stored_entries(CALL, &[first, ChainedEntry::from_stored(1, body, link)]);
    assert_eq!(said(&next_step(&read)), "unknown record-broken");
}

const REHEARSED: &str = "received resolved:rehearsed validated planned:a permitted:ask reviewed rehearsing";

// req: E5
#[test]
fn a_rehearsal_comes_where_a_question_is_due_and_nowhere_else() {
    let judged = "received resolved:rehearsed validated planned:a";
    check(&format!("{judged} permitted:allow reviewed"), "begin");
    check(&format!("{judged} permitted:leave reviewed"), "begin");
    check(&format!("{judged} permitted:deny"), "refused denied");
    check(&format!("{judged} permitted:ask reviewed"), "open rehearsal");
    check(&format!("{judged} permitted:allow reviewed:hold"), "open rehearsal");
    check(REHEARSED, "rehearse");
    check(&format!("{REHEARSED} rehearsed"), "ask approval");
    check(&format!("{REHEARSED} rehearsed:not"), "ask approval");
    check(&format!("{REHEARSED} rehearsed:wants"), "ask approval");
    check(&format!("{REHEARSED} rehearsed:deny"), "refused denied");
    check(&format!("{REHEARSED} rehearsed asked answered:no"), "refused declined");
    check(&format!("{REHEARSED} cancelled"), "refused cancelled");
}

// req: E5
#[test]
fn what_did_nothing_is_spared_unless_it_could_do_harm() {
    check(&format!("{REHEARSED} rehearsed:quiet"), "begin");
    let judged = "received resolved:rehearsed validated planned:a";
    check(&format!("{judged} permitted:danger reviewed rehearsing rehearsed:quiet"), "ask approval");
    check(&format!("{judged} permitted:ask reviewed:hold rehearsing rehearsed:quiet"), "ask approval");
    check(&format!("{judged} permitted:allow reviewed:hold rehearsing rehearsed:quiet"), "ask approval");
}

// req: E6
#[test]
fn a_commit_is_finished_and_never_unknown() {
    let begun = format!("{REHEARSED} rehearsed asked answered:yes begun");
    check(&begun, "execute");
    check(&format!("{begun} interrupted"), "begin");
    check(&format!("{begun} interrupted begun interrupted begun interrupted"), "begin");
    check(&format!("{begun} cancelled interrupted"), "begin");
    check(&format!("{REHEARSED} rehearsed:quiet begun interrupted"), "begin");
    check(&format!("{REHEARSED} rehearsed asked answered:part begun interrupted"), "begin");
    // A second run with network access is not a commit.
    check(
        &format!("{REHEARSED} rehearsed:wants asked answered:yes begun interrupted"),
        "unknown interrupted",
    );
}

// req: E5
#[test]
fn a_copy_that_is_gone_is_asked_about_again() {
    let lost = format!("{REHEARSED} rehearsed asked answered:yes lost");
    check(&lost, "validate");
    let again = format!("{lost} validated planned:a permitted:ask reviewed rehearsing rehearsed");
    check(&again, "ask approval");
    check(&format!("{again} asked answered:yes begun"), "execute");
    // Once the commit has begun, the copy cannot be recorded as lost.
    let begun = record(&format!("{REHEARSED} rehearsed asked answered:yes begun interrupted"));
    assert!(begun.check_append(&entry(&begun, "lost")).is_err());
    // Only a valid rehearsal can be committed in parts.
    for words in ["rehearsed:wants asked", "rehearsed:not asked"] {
        let record = record(&format!("{REHEARSED} {words}"));
        assert!(record.check_append(&entry(&record, "answered:part")).is_err(), "{words}");
    }
}

// req: E5, R2
#[test]
fn a_grant_binds_what_was_seen() {
    let bound = |words: &str| match next_step(&record(&format!("{REHEARSED} {words}"))) {
        NextStep::Do(byleave_core::pipeline::Task::Start(grant)) => grant.binding(),
        other => panic!("{}", said(&other)),
    };
    let (whole, part) = (bound("rehearsed asked answered:yes"), bound("rehearsed asked answered:part"));
    assert_ne!(whole, part);
    assert_ne!(whole, bound("rehearsed:not asked answered:yes"));
}
