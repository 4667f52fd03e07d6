//! A push with a key of the person, from a question in the inbox.
//!
//! `ssh` is a stand-in that the person set, which runs the service on this machine. `byleave-tools` tests the same with a real `sshd`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{DoorFixture, args, bash, text, workspace};

const RULE: &str = r#"
[[rule]]
id = "repositories"
verdict = "ask"
send = "git.example"
lend = ["git"]
reason = "my repositories"
"#;
/// Runs the last word, as a server does. A file beside it shows how it was called.
const SSH: &str =
    "#!/bin/sh\necho \"$@\" >> \"$HOME/ssh-calls\"\nfor word; do last=$word; done\nexec sh -c \"$last\"\n";

fn git(arguments: &[&str], directory: &Path) -> String {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(directory).env("HOME", "/nonexistent");
    for name in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{name}_NAME"), "ann").env(format!("GIT_{name}_EMAIL"), "ann@git.example");
    }
    // The directories belong to the user of the test.
    git.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
    let ended = git.output().unwrap();
    assert!(ended.status.success(), "{arguments:?}: {ended:?}");
    text(&ended.stdout).trim().to_owned()
}

fn give_all(doors: &DoorFixture, path: &Path) {
    doors.stand.desk.give(path);
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give_all(doors, &entry.unwrap().path());
        }
    }
}

// req: E7, R5
// door: program
#[test]
fn a_yes_in_the_inbox_pushes_what_it_shows() {
    let doors = DoorFixture::new("", RULE);
    doors.put_program("../ssh", SSH);
    let ssh = doors.home().join("ssh");
    doors.put("../.gitconfig", &format!("[core]\n\tsshCommand = {}\n", ssh.display()));
    let (bare, work) = (doors.home().join("app.git"), workspace(&doors));
    git(&["init", "-q", "--bare", "-b", "main", bare.to_str().unwrap()], Path::new("/"));
    git(&["init", "-q", "-b", "main", "."], &work);
    git(&["remote", "add", "origin", &format!("git@git.example:{}", bare.display())], &work);
    git(&["commit", "-q", "--allow-empty", "-m", "a"], &work);
    let new = git(&["rev-parse", "HEAD"], &work);
    give_all(&doors, &bare);
    give_all(&doors, &work);
    let listed: Value = doors.stand.json(&["policy", "show", "--json"]);
    assert!(listed.to_string().contains(r#""lend":["git"]"#), "{listed}");
    let waits =
        doors.run(&["call", "bash", "--ask", "inbox", "--args", &args(&bash("git push origin main"))]);
    assert_eq!(waits.status.code(), Some(4), "{waits:?}");
    let question = doors.stand.question();
    let shown = text(&doors.run(&["inbox", "show", &question]).stdout);
    let expected = format!("Pushes to ssh://git@git.example{}", bare.display());
    assert!(shown.contains(&expected), "{shown}");
    assert!(shown.contains("with your SSH key: main is new at"), "{shown}");
    assert_eq!(git(&["for-each-ref"], &bare), "", "something was pushed before the answer");
    let answered = doors.run(&["inbox", "answer", &question, "yes"]);
    assert_eq!(answered.status.code(), Some(0), "{answered:?}");
    assert_eq!(git(&["rev-parse", "main"], &bare), new, "{answered:?}");
    let calls = std::fs::read_to_string(doors.home().join("ssh-calls")).unwrap();
    assert!(calls.lines().all(|call| call.contains("BatchMode=yes") && call.contains("ForwardAgent=no")));
    assert!(calls.contains("-l git -- git.example git-receive-pack"), "{calls}");
}
