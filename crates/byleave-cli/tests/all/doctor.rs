//! `byleave doctor` on the machine that runs the test.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::world::CliTestWorld;

const UID: u32 = 61_002;

fn doctor(world: &CliTestWorld, program: &Path, unprivileged: bool, words: &[&str]) -> Output {
    let mut command = world.command(program);
    command.arg("doctor").args(words).env("BYLEAVE_STATE", program.with_file_name("state"));
    if unprivileged && rustix::process::geteuid().as_raw() == 0 {
        command.uid(UID).gid(UID).current_dir("/").env("TMPDIR", "/tmp");
    }
    command.output().unwrap()
}

/// Needs a backend: unprivileged user namespaces, bwrap or Landlock.
// req: E7
#[test]
fn the_doctor_says_what_this_machine_can_confine_with_for_root_as_well() {
    let world = CliTestWorld::new();
    // Another user must be able to run the program.
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let state = place.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&state, Some(UID), Some(UID)).unwrap();
    }
    let program = place.path().join("byleave");
    std::fs::copy(env!("CARGO_BIN_EXE_byleave"), &program).unwrap();
    let told = doctor(&world, &program, true, &["--json"]);
    let value: Value = serde_json::from_slice(&told.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&told.stderr)));
    assert_eq!(told.status.code(), Some(0), "{value:#}");
    let level = value["level"].as_str().unwrap();
    let standing =
        value["backends"].as_array().unwrap().iter().find(|backend| backend["available"] == true).unwrap();
    assert_eq!(standing["backend"], level);
    assert_eq!(standing["guarantees"]["environment-clean"]["enforcement"], "full");
    let copies = &value["copies"];
    assert_eq!(copies["available"] == true, copies["reason"].is_null() && level == "native", "{value:#}");
    let text = doctor(&world, &program, true, &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    // The result comes first, and the table that explains it after it.
    assert!(text.starts_with("ok  commands") && text.contains("network-confined"), "{text}");
    assert!(text.contains(&format!("\n\n{level}: ")), "{text}");
    if rustix::process::geteuid().as_raw() == 0 {
        let told = doctor(&world, &program, false, &[]);
        let text = [told.stdout, told.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        assert_eq!(told.status.code(), Some(0), "{text}");
        assert!(text.contains("\n\nnative:") && text.contains("run as another user"), "{text}");
    }
}

// req: E7, P8
#[test]
fn what_is_not_well_is_named_with_what_to_do() {
    let world = CliTestWorld::new();
    let well = world.json(&["doctor", "--json"]);
    let of = |told: &Value, about: &str| {
        told["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["subject"] == about)
            .unwrap()
            .clone()
    };
    for about in ["settings", "rules", "state", "terminal", "notify", "hooks"] {
        assert_eq!(of(&well, about)["ok"], true, "{well:#}");
    }
    world.quietly(&["call", "echo", "--args", r#"{"text":"x"}"#], "");
    let book = of(&world.json(&["doctor", "--json"]), "audit log");
    assert!(book["ok"] == true && book["message"].as_str().unwrap().contains("SQLite 3."), "{book}");

    let own = world.workspace().join(".byleave");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("config.toml"), "mode = \"yolo\"\n").unwrap();
    std::fs::write(own.join("policy.toml"), "[[rule]]\n").unwrap();
    std::fs::set_permissions(world.state(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(world.state().join("audit.sqlite"), "no book").unwrap();
    let told = world.quietly(&["doctor", "--json"], "");
    assert_eq!(told.status.code(), Some(1));
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    for (about, what, hint) in [
        ("settings", "only tighten", "byleave config edit"),
        ("rules", "policy.toml", "byleave policy check"),
        ("state", "open to others (mode 755)", "chmod 700"),
        ("audit log", "not a database", "restore a backup"),
    ] {
        let finding = of(&told, about);
        assert_eq!(finding["ok"], false, "{finding}");
        assert!(finding["message"].as_str().unwrap().contains(what), "{finding}");
        assert!(finding["hint"].as_str().unwrap().contains(hint), "{finding}");
    }
    let text = String::from_utf8(world.quietly(&["doctor"], "").stdout).unwrap();
    assert!(text.contains("BAD settings") && text.contains("ok  notify"), "{text}");
}
