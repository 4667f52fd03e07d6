//! Effects that mean something beneath a directory are marked. Effects on named paths are not.

use byleave_core::effect::Effect;
use byleave_shell::analyze;

use crate::stage::FakeShellEnv;

/// The marked effects, and the others except runs and reads. Paths beneath `/ws` are shortened.
fn told(command: &str) -> (Vec<String>, Vec<String>) {
    let account = analyze(command, &FakeShellEnv::default());
    for effect in &account.partial_effects {
        assert!(account.effects.contains(effect), "{command}: a mark without an effect: {effect}");
    }
    let short = |effect: &Effect| effect.to_string().replace("/ws", "~");
    let changes = |effect: &&Effect| matches!(effect, Effect::Write { .. } | Effect::Delete { .. });
    let whole =
        account.effects.iter().filter(changes).filter(|effect| !account.partial_effects.contains(effect));
    (account.partial_effects.iter().map(short).collect(), whole.map(short).collect())
}

// req: R5, P8
#[test]
fn what_is_done_to_something_beneath_a_directory_is_marked() {
    for (command, marked) in [
        ("find . -name '*.o' -delete", &["read ~", "delete ~/**/*.o"][..]),
        ("find src /outside -delete", &["read ~/src", "read /outside", "delete ~/src", "delete /outside"]),
        ("find -delete", &["read ~", "delete ~"]),
        ("find . -name '*.o' -exec rm {} +", &["read ~", "delete ~/**/*.o"]),
        ("find . -name '*.o' -exec env rm -f {} \\;", &["read ~", "delete ~/**/*.o"]),
        ("find src -exec sed -i s/a/b/ {} +", &["read ~/src", "write ~/src"]),
        ("find src -exec chmod 777 {} +", &["read ~/src", "write ~/src"]),
        ("find src -exec truncate -s 0 {} \\;", &["read ~/src", "write ~/src"]),
        ("timeout 5 find . -delete", &["read ~", "delete ~"]),
        ("cd src && find . -delete", &["read ~/src", "delete ~/src"]),
        ("for x in src; do find $x -delete; done", &["read ~/src", "delete ~/src"]),
        ("git clean -n", &["delete ~"]),
        ("git clean -fd src", &["delete ~/src"]),
        ("git rm -r src", &["delete ~/src"]),
        ("git rm '*.rs'", &["delete ~/*.rs"]),
        ("git checkout -- src", &["write ~/src"]),
        ("git restore src", &["write ~/src"]),
        ("git restore .", &["write ~"]),
        ("rsync -a --delete /outside/ src/", &["write ~/src"]),
        ("scp /outside/secret.txt src", &["write ~/src"]),
        ("cp -r /outside/src .", &["write ~/src"]),
        ("tar xf a.tar", &["write ~"]),
        ("tar xf a.tar -C src", &["write ~/src"]),
        ("tar xf a.tar src", &["write ~", "write ~/src"]),
        ("unzip a.zip", &["write ~"]),
        ("unzip a.zip -d src", &["write ~", "write ~/src"]),
        ("gzip -r src", &["write ~/src"]),
        ("sed -i s/a/b/ src", &["write ~/src"]),
        ("prettier --write src", &["write ~/src"]),
        ("gofmt -w .", &["write ~"]),
        ("cargo init", &["write ~"]),
        ("git init", &["write ~"]),
        ("curl -O https://example.org/a", &["write ~"]),
        ("wget -P src https://example.org/a", &["write ~", "write ~/src"]),
        ("unheard-of src", &["write ~/src"]),
    ] {
        assert_eq!(told(command).0, marked, "{command}");
    }
}

// req: R5
#[test]
fn what_a_person_names_is_not_marked() {
    for (command, whole) in [
        ("rm -r src", &["delete ~/src"][..]),
        ("rm -rf src a.txt", &["delete ~/src", "delete ~/a.txt"]),
        ("mkdir -p src", &["write ~/src"]),
        ("chmod -R 755 src", &["write ~/src"]),
        ("touch src a.txt", &["write ~/src", "write ~/a.txt"]),
        ("cp a.txt src", &["write ~/src", "write ~/src/a.txt"]),
        ("mv a.txt src", &["delete ~/a.txt", "write ~/src", "write ~/src/a.txt"]),
        ("echo x > a.txt", &["write ~/a.txt"]),
        ("sed -i s/a/b/ a.txt", &["write ~/a.txt"]),
        ("git rm a.txt", &["delete ~/a.txt"]),
        ("git checkout -- a.txt", &["write ~/a.txt"]),
        ("ls -R src", &[]),
        ("grep -r x .", &[]),
    ] {
        assert_eq!(
            told(command),
            (Vec::new(), whole.iter().map(|one| (*one).to_owned()).collect()),
            "{command}"
        );
    }
}

/// If not even the directory is known, the command is not understood, and no standing approval is offered for it.
// req: R5
#[test]
fn what_is_known_only_when_it_runs_is_not_understood() {
    for command in [
        "cat list | xargs rm",
        "fd -e o -x rm",
        "sed -i s/a/b/ $(cat list)",
        "rm nothing-like-*",
        "find $x -delete",
    ] {
        let account = analyze(command, &FakeShellEnv::default());
        let unknown = |effect: &Effect| matches!(effect, Effect::Unknown { .. });
        assert!(account.effects.iter().any(unknown), "{command}: {:?}", account.effects);
    }
}
