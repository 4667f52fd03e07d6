//! Byleave runs exactly what was approved. The tests change the world between the yes on the screen and its Enter. Then either exactly what
//! was shown becomes final, or nothing does.

use std::fs;
use std::os::unix::fs::symlink;

use byleave_gate::approver::Reply;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::question::{ApproverIdentity, Assurance};
use byleave_gate::gate::{AnswerError, SubmittedAnswer};
use byleave_gate::review::{Opinion, input_reviewer};
use byleave_gate::settings::GateSettings;
use serde_json::{Value, json};

use super::own::{WindowGate, call, ending, policy};
use super::reading::whole;
use super::surface::Surface;
use super::{CaseProof, CorpusCase, stage};

const CHANGED: CaseProof = "the program; the world is changed between the yes and its Enter: refused, or what was seen is committed and not run again";
const REUSED: CaseProof =
    "the program; no approval can be presented by a caller, and an id is one call: the other is refused";

pub(super) fn examine(case: &CorpusCase, surface: Surface) -> CaseProof {
    match case.id.as_str() {
        "script-rewritten-after-approval" => changed(
            case,
            surface,
            || stage::script("/ws/x.sh", "#!/bin/sh\ntouch approved\n"),
            || stage::script("/ws/x.sh", &stage::marking()),
        ),
        "script-runner-not-recognised" => {
            // An unknown script runner, in a place where `npx` finds it.
            stage::script("/ws/node_modules/.bin/tsx", "#!/bin/sh\n. \"$1\"\n");
            stage::script("/ws/bin/npx", "#!/bin/sh\nexec /ws/node_modules/.bin/\"$@\"\n");
            changed(
                case,
                surface,
                || stage::script("/ws/x.ts", "touch approved\n"),
                || stage::script("/ws/x.ts", &stage::marking()),
            )
        }
        "interpreter-operand-unbindable" => {
            stage::script("/ws/pkg/__init__.py", "");
            stage::script("/ws/pkg/main.py", "open('approved', 'w')\n");
            let marks = "open('/ws/gate-marker', 'w')\nopen('/tmp/gate-marker', 'w')\n";
            // Without a copy nothing can bind the module, and the card says that nothing was tried.
            changed_with_copy(case, surface, || stage::script("/ws/pkg/main.py", marks));
            CHANGED
        }
        "binary-replaced-after-approval" => changed(
            case,
            surface,
            || stage::script("/ws/tool", "#!/bin/sh\ntouch approved\n"),
            || stage::script("/ws/tool", &stage::marking()),
        ),
        "path-lookup-changes" => {
            let nearer = "/ws/node_modules/.bin/prettier";
            stage::script("/ws/bin/prettier", "#!/bin/sh\ntouch approved\n");
            let prepare = || {
                if fs::exists(nearer).unwrap() {
                    fs::remove_file(nearer).unwrap();
                }
            };
            changed(case, surface, prepare, || stage::script(nearer, &stage::marking()))
        }
        "file-changed-since-diff-shown" => file(case, surface),
        "symlink-retarget-after-approval" => link(case, surface),
        "argv-changed-between" => argv(case, surface),
        "env-changed-on-reuse" => reused(surface, &["--session", "s"], "GIT_DIR=/ws/evilgit git status"),
        "approval-id-other-session" => reused(surface, &["--session", "other"], "echo a >> log"),
        "approval-id-replayed" => replayed(surface),
        "internal-approval-fields-injected" => injected(case),
        "hook-rewrites-input-after-check" => rewritten(case, surface),
        "stale-prompt-answers-new-call" => stale(surface),
        "mode-switched-while-pending" => loosened(surface),
        "parallel-calls-one-answer" => parallel(case, surface),
        "long-delay-then-execute" => delayed(surface),
        "retry-outside-sandbox-on-old-approval" => retried(case, surface),
        other => panic!("nobody knows {other}"),
    }
}

/// Shows the question to its end, chooses yes, changes the world, and confirms.
fn approved_while(case: &CorpusCase, surface: Surface, change: impl FnOnce()) -> (Option<i32>, String) {
    let (code, seen) = approved_with_copy(case, surface, true, change);
    // What runs after the yes is bound only by what the plan names.
    assert!(!seen.contains("not tried on a copy"), "there was no copy: {seen}");
    (code, seen)
}

fn approved_with_copy(
    case: &CorpusCase,
    surface: Surface,
    with_copy: bool,
    change: impl FnOnce(),
) -> (Option<i32>, String) {
    let words = case.input["args"].to_string();
    let tool = case.input["tool"].as_str().unwrap();
    let mut sitting =
        surface.call_with(&["call", tool, "--mode", "confirm-all", "--args", &words], |command| {
            command.env("PATH", "/ws/node_modules/.bin:/ws/bin:/usr/local/bin:/usr/bin:/bin");
            command.env("BYLEAVE_REHEARSE", with_copy.to_string());
        });
    assert!(sitting.asks(), "{}", sitting.seen);
    whole(&mut sitting);
    sitting.yes_after(surface.has_one_key_answers(), change);
    sitting.end()
}

/// Changes the world after a question about a run on a copy, and after one without a copy.
fn changed(case: &CorpusCase, surface: Surface, prepare: impl Fn(), change: impl Fn()) -> CaseProof {
    prepare();
    changed_with_copy(case, surface, &change);
    prepare();
    let (code, seen) = approved_with_copy(case, surface, false, &change);
    stage::no_marker();
    // There is no result that could be committed.
    assert!(code == Some(3) && seen.contains("changed"), "{code:?} {seen}");
    CHANGED
}

fn changed_with_copy(case: &CorpusCase, surface: Surface, change: impl FnOnce()) {
    let (code, seen) = approved_while(case, surface, change);
    stage::no_marker();
    // Either the call is refused because something changed, or the result of the rehearsal is committed. The new script would not have
    // produced that result.
    let is_refused = code == Some(3) && seen.contains("changed");
    let is_committed = code == Some(0) && stage::read("/ws/approved").is_some();
    assert!(is_refused || is_committed, "{code:?} {seen}");
}

fn file(case: &CorpusCase, surface: Surface) -> CaseProof {
    let (code, seen) = approved_while(case, surface, || fs::write("/ws/a", "somebody else's x\n").unwrap());
    assert!(code != Some(0), "{seen}");
    assert_eq!(stage::read("/ws/a").unwrap(), "somebody else's x\n");
    CHANGED
}

fn link(case: &CorpusCase, surface: Surface) -> CaseProof {
    fs::create_dir("/ws/real").unwrap();
    symlink("real", "/ws/p").unwrap();
    let (code, seen) = approved_while(case, surface, || {
        fs::remove_file("/ws/p").unwrap();
        symlink("/outside", "/ws/p").unwrap();
    });
    assert!(stage::read("/outside/f").is_none(), "{code:?} {seen}");
    let kept = code == Some(0) && stage::read("/ws/real/f").is_some();
    assert!(kept || code != Some(0), "{code:?} {seen}");
    CHANGED
}

/// The tool receives exactly the words that were on the screen. Nothing in between can change them.
fn argv(case: &CorpusCase, surface: Surface) -> CaseProof {
    let mut own = WindowGate::new(surface);
    let going = own.begin(call("exec", case.input["args"].clone()));
    own.yes();
    assert_eq!(ending(&own.end(going)), None);
    assert_eq!(*own.ran.lock().unwrap(), [["sh", "-c", "ls"].map(str::to_owned).to_vec()]);
    "a gate with such a tool; exactly the words on the screen reached it, and once"
}

/// Makes an approved call under an id, and then another call under the same id.
fn reused(surface: Surface, words: &[&str], command: &str) -> CaseProof {
    let id = uuid::Uuid::new_v4().to_string();
    let first = json!({"command": "echo a >> log"}).to_string();
    let mut sitting = surface.call(&[
        "call",
        "bash",
        "--id",
        &id,
        "--session",
        "s",
        "--mode",
        "confirm-all",
        "--args",
        &first,
    ]);
    assert!(sitting.asks());
    whole(&mut sitting);
    sitting.choose("y", "yes");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    let again = json!({ "command": command }).to_string();
    let mut call = vec!["call", "bash", "--id", &id, "--mode", "confirm-all", "--args", &again];
    call.extend(words);
    let mut sitting = surface.call(&call);
    assert!(!sitting.asks(), "{}", sitting.screen());
    let (code, seen) = sitting.end();
    assert!(code == Some(3) && seen.contains("call-reused"), "{code:?} {seen}");
    assert_eq!(stage::read("/ws/log").as_deref(), Some("a\n"));
    REUSED
}

/// The same call under the same id is answered from the audit log and does not run again.
fn replayed(surface: Surface) -> CaseProof {
    let id = uuid::Uuid::new_v4().to_string();
    let args = json!({"command": "echo a >> log"}).to_string();
    for round in 0..2 {
        let mut sitting =
            surface.call(&["call", "bash", "--id", &id, "--mode", "confirm-all", "--args", &args]);
        assert_eq!(sitting.asks(), round == 0, "{}", sitting.screen());
        if round == 0 {
            whole(&mut sitting);
            sitting.choose("y", "yes");
        }
        let (code, seen) = sitting.end();
        assert_eq!(code, Some(0), "{seen}");
    }
    assert_eq!(stage::read("/ws/log").as_deref(), Some("a\n"));
    "the program; the same call again is answered from the book: nobody is asked, and nothing runs twice"
}

fn injected(case: &CorpusCase) -> CaseProof {
    let mut fields = case.input["args"].clone();
    fields["command"] = json!("touch /ws/gate-marker");
    fields.as_object_mut().unwrap().remove("argv");
    let said = stage::without_terminal(&["call", "bash", "--args", &fields.to_string()], |_| {});
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.code() == Some(3) && words.contains("arguments-invalid"), "{words}");
    let mut own = WindowGate::new(Surface::Inline);
    let result = own.settle(call("exec", case.input["args"].clone()));
    assert_eq!(ending(&result), Some("arguments-invalid"));
    assert!(own.ran.lock().unwrap().is_empty());
    own.window.look(std::time::Duration::from_millis(50));
    assert!(own.window.raw.is_empty(), "{}", own.window.seen);
    "the program, and a gate with such a tool; fields that a tool does not have are refused"
}

fn rewritten(case: &CorpusCase, surface: Surface) -> CaseProof {
    let updated = case.input["hook_updated"].clone();
    let hook = input_reviewer("hook", move |subject: byleave_gate::review::InputSubject<'_>| {
        let is_new = *subject.arguments == updated;
        let value = updated.clone();
        Ok::<_, String>(if is_new { Opinion::Pass } else { Opinion::<Value>::Change { value, reason: None } })
    });
    let rules = "[[rule]]\nid = \"no-touch\"\nverdict = \"deny\"\nrun = \"touch\"\n";
    let mut own = WindowGate::with(surface, rules, GateSettings::default(), |builder| {
        builder.review_input("bash", hook)
    });
    let result = own.settle(call("bash", case.input["args"].clone()));
    assert_eq!(ending(&result), Some("denied"), "{result:?}");
    own.window.look(std::time::Duration::from_millis(50));
    assert!(own.window.raw.is_empty(), "{}", own.window.seen);
    "a gate with such a reviewer; what it makes of the call is judged anew, and denied without a question"
}

/// A question is withdrawn while its yes awaits the Enter. The Enter then reaches the next question and answers nothing.
fn stale(surface: Surface) -> CaseProof {
    let mut own = WindowGate::new(surface);
    let first = call("exec", json!({"argv": ["first"]}));
    let id = first.id;
    let going = own.begin(first);
    whole(&mut own.window);
    own.window.await_ready();
    if !surface.has_one_key_answers() {
        own.window.press("y");
        own.window.await_shown("yes: ");
    }
    own.runtime.block_on(own.gate.cancel(id, "somebody")).unwrap();
    assert_eq!(ending(&own.end(going)), Some("cancelled"));
    let second = call("exec", json!({"argv": ["second"]}));
    let id = second.id;
    let going = own.begin(second);
    own.window.await_shown("second");
    own.window.press("\r");
    own.window.await_shown("⏳");
    own.window.await_ready();
    own.window.press("\r");
    own.window.await_shown("⏳");
    // An answer with the digest of another question is refused.
    let question = own.question_of(id);
    let by = ApproverIdentity { name: "bob".into(), assurance: Assurance::Program };
    let digest = Digest::compute(b"another");
    let given = SubmittedAnswer { question, digest, reply: Reply::Yes { note: None }, approver: by };
    let answered = own.runtime.block_on(own.gate.answer(given));
    assert!(matches!(answered, Err(AnswerError::Mismatch)), "{answered:?}");
    own.no();
    assert_eq!(ending(&own.end(going)), Some("declined"));
    assert!(own.ran.lock().unwrap().is_empty());
    "a gate; a yes that was not confirmed dies with its question, and an answer names the digest of what it answers"
}

fn loosened(surface: Surface) -> CaseProof {
    let mut own = WindowGate::new(surface);
    // At the path of the corpus it would write to its own `/tmp`, which nobody is asked about.
    let going = own.begin(call("bash", json!({"command": "touch /ws/gate-marker"})));
    whole(&mut own.window);
    own.gate.set_policy(policy(
        "[[rule]]\nid = \"all\"\nverdict = \"allow\"\nrun = \"touch\"\nwrite = \"/**\"\n",
    ));
    own.window.await_ready();
    assert!(!going.is_finished());
    own.no();
    assert_eq!(ending(&own.end(going)), Some("declined"));
    "a gate; looser rules that come while a question is open do not answer it"
}

fn parallel(case: &CorpusCase, surface: Surface) -> CaseProof {
    let mut own = WindowGate::new(surface);
    let mut both = ["a", "b"].map(|session| {
        let mut one = call("exec", json!({"argv": ["touch", session]}));
        one.session = session.parse().unwrap();
        Some(own.begin(one))
    });
    whole(&mut own.window);
    own.window.choose("y", "yes");
    // The other question comes up and needs its own answer.
    own.window.await_text(&surface.parting("yes"));
    own.window.await_shown(crate::window::CARD);
    assert_eq!(own.ran.lock().unwrap().len().max(1), 1);
    whole(&mut own.window);
    own.no();
    let mut endings = both.each_mut().map(|going| ending(&own.end(going.take().unwrap())));
    endings.sort_unstable();
    assert_eq!(endings, [None, Some("declined")]);
    assert_eq!(own.ran.lock().unwrap().len(), 1);
    assert!(case.input.get("also_pending").is_some());
    "a gate with two calls; one answer is taken by the one on the screen, and the other is asked about afterwards"
}

fn delayed(surface: Surface) -> CaseProof {
    let clock = own_clock::LeapingClock::default();
    let later = clock.clone();
    let mut own = WindowGate::with(surface, "", GateSettings::default(), |builder| builder.clock(clock));
    let going = own.begin(call("exec", json!({"argv": ["git", "push"]})));
    whole(&mut own.window);
    // From the answer on, each reading of the clock is more than an hour after the previous one.
    own.window.yes_after(surface.has_one_key_answers(), || later.leaps());
    assert_eq!(ending(&own.end(going)), Some("grant-expired"));
    assert!(own.ran.lock().unwrap().is_empty());
    "a gate whose clock goes on by more than an hour after the yes: refused, and nothing runs"
}

mod own_clock {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{SystemTime, UNIX_EPOCH};

    use byleave_gate::clock::Clock;
    use byleave_gate::core::call::Millis;

    /// A clock that can start to leap.
    #[derive(Clone, Default)]
    pub(super) struct LeapingClock {
        leaps: Arc<AtomicBool>,
        ahead: Arc<AtomicU64>,
    }

    impl LeapingClock {
        pub(super) fn leaps(&self) {
            self.leaps.store(true, Ordering::SeqCst);
        }
    }

    impl Clock for LeapingClock {
        fn now(&self) -> Millis {
            let ahead = match self.leaps.load(Ordering::SeqCst) {
                true => self.ahead.fetch_add(3_700_000, Ordering::SeqCst),
                false => 0,
            };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
            u64::try_from(now).unwrap() + ahead
        }
    }
}

/// A read that the sandbox blocks stays blocked after any approval.
fn retried(case: &CorpusCase, surface: Surface) -> CaseProof {
    let words = case.input["args"].to_string();
    let mut sitting = surface.call(&["call", "bash", "--mode", "confirm-all", "--args", &words]);
    let asked = sitting.asks();
    if asked {
        whole(&mut sitting);
        sitting.choose("y", "yes");
    }
    let (code, seen) = sitting.end();
    assert!(!seen.contains(byleave_testkit::machine::SECRET), "{seen}");
    assert!(code != Some(0), "{seen}");
    "the program; the secret is not there for the command, and nothing tries again without the sandbox"
}
