//! Completions in real shells, and manual pages that a formatter accepts.

use std::path::Path;
use std::process::Command;

use crate::world::CliTestWorld;

fn there_is(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Returns the completions of a real bash for a line, from the script that the program prints.
fn offered(world: &CliTestWorld, line: &[&str]) -> Vec<String> {
    let script = world.workspace().join("byleave.bash");
    std::fs::write(&script, world.quietly(&["completions", "bash"], "").stdout).unwrap();
    let asked = r#"
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        complete -p byleave | grep -q -- '-F _byleave' || exit 9
        _byleave byleave "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut command = world.command(Path::new("bash"));
    let told = command.args(["--norc", "-c", asked, "bash"]).arg(&script).args(line).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    String::from_utf8(told.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let world = CliTestWorld::new();
    assert_eq!(offered(&world, &["byleave", "reh"]), ["rehearse"]);
    assert_eq!(offered(&world, &["byleave", "config", "ed"]), ["edit"]);
    assert_eq!(offered(&world, &["byleave", "call", "echo", "--dry"]), ["--dry-run"]);
    assert_eq!(offered(&world, &["byleave", "call", "--mode", "yo"]), ["yolo"]);
}

#[test]
fn every_shell_takes_its_script() {
    let world = CliTestWorld::new();
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = world.workspace().join(shell);
        let told = world.quietly(&["completions", shell], "");
        assert!(told.status.success() && !told.stdout.is_empty(), "{shell}");
        std::fs::write(&script, told.stdout).unwrap();
        if there_is(shell) {
            let told = Command::new(shell).arg(check).arg(&script).output().unwrap();
            assert!(told.status.success(), "{shell}: {told:?}");
        }
    }
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let world = CliTestWorld::new();
    let dir = world.workspace().join("man1");
    let told = world.quietly(&["man", "--dir", dir.to_str().unwrap()], "");
    assert!(told.status.success(), "{told:?}");
    let mut pages: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|page| page.unwrap().path()).collect();
    pages.sort();
    assert!(
        pages.len() > 50 && dir.join("byleave.1").exists() && dir.join("byleave-inbox-answer.1").exists()
    );
    let main = String::from_utf8(world.quietly(&["man"], "").stdout).unwrap();
    assert_eq!(main, std::fs::read_to_string(dir.join("byleave.1")).unwrap());
    assert!(main.contains("EXTRA") || main.contains("Exit codes"), "{main}");
    if there_is("groff") {
        let told = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).args(&pages).output().unwrap();
        assert!(told.status.success(), "{told:?}");
    }
    // Checks whether mandoc exists. `-h` is its only option that does nothing else.
    if Command::new("mandoc").arg("-h").output().is_ok() {
        let told = Command::new("mandoc").args(["-T", "lint", "-W", "error"]).args(&pages).output().unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stdout));
    }
}
