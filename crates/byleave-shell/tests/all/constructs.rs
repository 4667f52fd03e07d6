//! The parsed commands of each shell construct.

use byleave_shell::commands::{ParsedCommands, RedirectionAccess, WorkingDir};
use byleave_shell::parse_commands;

use crate::stage::FakeShellEnv;

/// Formats each command on one line: words, redirections, input, and the directory if it differs.
fn shown(reading: &ParsedCommands) -> Vec<String> {
    reading
        .commands
        .iter()
        .map(|command| {
            let mut text: Vec<String> =
                command.assignments.iter().map(|(name, value)| format!("{name}={value}")).collect();
            text.extend(command.words.iter().map(ToString::to_string));
            text.extend(command.redirections.iter().map(|redirection| {
                let sign = match redirection.access {
                    RedirectionAccess::Read => "<",
                    RedirectionAccess::Write => ">",
                    RedirectionAccess::ReadWrite => "<>",
                };
                format!("{sign}{}", redirection.target)
            }));
            text.extend(command.input.iter().map(|input| format!("<<{input}")));
            match &command.working_dir {
                WorkingDir::At(at) if at == "/ws" => {}
                WorkingDir::At(at) => text.push(format!("@{at}")),
                WorkingDir::Unknown(_) => text.push("@?".to_owned()),
            }
            if command.is_function {
                text.push("(function)".to_owned());
            }
            text.join(" ")
        })
        .collect()
}

fn check(cases: &[(&str, &[&str])], puzzled: bool) {
    for (text, want) in cases {
        let reading = parse_commands(text, &FakeShellEnv::default());
        let got = shown(&reading);
        assert_eq!(got, *want, "{text}\n{:#?}", reading.unresolved);
        assert_eq!(!reading.unresolved.is_empty(), puzzled, "{text}\n{:#?}", reading.unresolved);
    }
}

// req: P3
#[test]
fn every_command_is_found_wherever_it_stands() {
    check(
        &[
            ("a; b & c\nd", &["a", "b", "c", "d"]),
            ("a && b || c | d |& e", &["a", "b", "c", "d", "e"]),
            ("! a; time -p b", &["a", "b"]),
            ("(a); { b; }", &["a", "b"]),
            ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
            ("while a; do b; done; until c; do d; done", &["a", "b", "c", "d"]),
            ("for i in 1 2; do a $i; done", &["a 1", "a 2"]),
            ("for ((i=0; i<3; i++)); do a; done", &["a"]),
            ("case x in (y|z) a;; *) b;& esac", &["a", "b"]),
            ("f() { a; }; f x", &["a @?", "f x (function)"]),
            ("function git { a; }; git status", &["a @?", "git status (function)"]),
            ("f; f() { a; }", &["f", "a @?"]),
            ("coproc a; wait", &["a", "wait"]),
            ("echo $(a) \"$(b)\" `c` <(d) >(e)", &["a", "b", "c", "d", "e", "echo … … … … …"]),
            ("echo ${x:-$(a)}", &["a", "echo …"]),
            ("cat <<EOF\n$(a)\nEOF\nb", &["a", "cat <<…\n…", "b"]),
            ("cat <<'EOF' | sh\ntouch x\nEOF", &["cat <<touch x\n", "sh"]),
            ("cat <<-EOF\n\tx\n\tEOF\nb", &["cat <<x\n", "b"]),
            ("cat <<'EOF '\nx\nEOF \ntouch y", &["cat <<x\n", "touch y"]),
            ("cat <<A - <<B\n1\nA\n2\nB\nb", &["cat - <<2\n", "b"]),
            ("[[ -f $(a) ]] && b", &["a", "b"]),
            ("trap 'a x' EXIT", &["trap a x EXIT", "a x @?"]),
            (". ./x.sh", &[". ./x.sh", "rm from-x"]),
            ("a # b \\\nc", &["a", "c"]),
            ("echo a#b; '#' c", &["echo a#b", "# c"]),
            ("a\r\nb", &["a\r", "b"]),
            ("a\u{a0}b", &["a\u{a0}b"]),
            ("x=$(a) y=`b` c", &["a", "b", "x=… y=… c"]),
            ("x=(1 $(a)); b", &["a", "x=…", "b"]),
            ("a >$(b) 2>&1", &["b", "a >…"]),
            ("echo $(case a in a) b;; esac) c", &["b", "echo … c"]),
            ("echo $(echo ')') ; a", &["echo )", "echo …", "a"]),
            ("echo \"$\\\n(a)\"", &["a", "echo …"]),
            ("to\\\nuch x", &["touch x"]),
            ("eval \"a b\"; eval c 'd e'", &["eval a b", "a b", "eval c d e", "c d e"]),
        ],
        false,
    );
}

// req: P3
#[test]
fn words_are_what_bash_makes_of_them() {
    check(
        &[
            ("t'ou'ch \\a", &["touch a"]),
            ("to\"\"uch $'\\x74' $\"b\"", &["touch t b"]),
            ("a '' \"\"", &["a  "]),
            ("{touch,/tmp/m}", &["touch /tmp/m"]),
            ("a {1..3} {c..a} x{,y} {} {a}", &["a 1 2 3 c b a x xy {} {a}"]),
            ("a ~/x ~+ p=~/y", &["a /home/u/x /ws p=/home/u/y"]),
            ("a ~root \"~\"", &["a … ~"]),
            ("a *.txt", &["a a.txt b.txt"]),
            ("cat /ws/.e*", &["cat /ws/.env"]),
            ("/???/b?n/t[o]uch m", &["/usr/bin/touch m"]),
            ("a no*such", &["a …no…such…"]),
            ("b; a *.txt", &["b", "a ….txt…"]),
            ("c=touch; $c x", &["c=touch", "touch x"]),
            ("v='a b'; p $v \"$v\"", &["v=a b", "p a b a b"]),
            ("$TOOL x", &["cat x"]),
            ("p $nosuch \"x${y}z\" $1", &["p … …x…z… …"]),
            ("if p; then v=1; fi; p \"$v\"", &["p", "v=1", "p …"]),
            ("v=1; (v=2); p $v", &["v=1", "v=2", "p 1"]),
            ("v=1; export v=2 >/nosuch/f; p \"$v\"", &["v=1", "export v=2 >/nosuch/f", "p …"]),
            ("IFS=,; c='touch,m'; $c", &["IFS=,", "c=touch,m", "…"]),
            ("cat$IFS/ws/.env", &["…"]),
            ("p $x{a,b}", &["p …"]),
            ("set -- a b; \"$@\"", &["set -- a b", "…"]),
            ("echo $((3 * 7))", &["echo …"]),
            ("read -r v <<< 'x'; p \"$v\"", &["read -r v <<x\n", "p …"]),
        ],
        false,
    );
}

// req: P3
#[test]
fn redirections_are_found_in_every_form() {
    check(
        &[
            ("a>f 2>>g <h", &["a >f >g <h"]),
            ("a >|f; b &>g; c &>>h; d >&i", &["a >f", "b >g", "c >h", "d >i"]),
            ("a 1<>f {fd}>g", &["a <>f >g"]),
            ("exec 3>f; a >&3 2>&1 <&-", &["exec >f", "a"]),
            (">f; { a; } >g; (b) <h", &[" >f".trim(), ">g", "a", "<h", "b"]),
            ("a > ~/.bashrc > $HOME/x", &["a >/home/u/.bashrc >/home/u/x"]),
            ("f=/o; a > $f > \"$g/x\"", &["f=/o", "a >/o >…/x…"]),
            ("a > /dev/tcp/h/9", &["a >/dev/tcp/h/9"]),
        ],
        false,
    );
}

// req: P3
#[test]
fn the_directory_is_followed_or_lost() {
    check(
        &[
            ("cd src && a", &["cd src", "a @/ws/src"]),
            ("cd src; a", &["cd src", "a @/ws/src"]),
            ("cd nosuch; a", &["cd nosuch", "a @?"]),
            ("cd nosuch && a", &["cd nosuch", "a @?"]),
            ("(cd src; a); b", &["cd src", "a @/ws/src", "b"]),
            ("cd src | a; b", &["cd src", "a", "b"]),
            ("cd - && a", &["cd -", "a @?"]),
            ("cd $x; a", &["cd …", "a @?"]),
            ("if p; then cd src; fi; a", &["p", "cd src", "a @?"]),
            (
                "pushd /outside >/dev/null; a; popd; b",
                &["pushd /outside >/dev/null", "a @/outside", "popd @/outside", "b"],
            ),
            ("pushd /outside && a && popd && b", &["pushd /outside", "a @/outside", "popd @/outside", "b"]),
            ("builtin cd /outside && a", &["builtin cd /outside", "a @/outside"]),
            ("CDPATH=/outside; cd data && a", &["CDPATH=/outside", "cd data", "a @?"]),
            ("cd; a; cd /ws/src/..; b", &["cd", "a @/home/u", "cd /ws/src/.. @/home/u", "b @?"]),
            ("cd src || a", &["cd src", "a"]),
        ],
        false,
    );
}

// req: P3
#[test]
fn what_cannot_be_told_is_said() {
    for text in [
        "test -v 'a[$(x)]'",
        "[ -v 'a[$(x)]' ]",
        "printf -v 'a[$(x)]' y",
        "declare 'a[$(x)]=1'",
        "unset 'a[$(x)]'",
        "read -r 'a[$(x)]' <<<y",
        "let 'a[$(x)]=1'",
        "(( a[$(x)] ))",
        "x='a[$(b)]'; echo $((x))",
        "x='a[$(b)]'; [[ x -eq 1 ]]",
        "x='a[$(b)]'; y=abc; echo ${y:x}",
        "compgen -W '$(x)'",
        "mapfile -C 'touch x #' -c 1 <<< y",
        "PS4='$(x)'; set -x; :",
        "echo \"${x@P}\"",
        "n=x; echo ${!n}",
        "declare -n r='a[$(x)]'; echo $r",
        "shopt -s extglob",
        "alias ls='touch x'",
        "hash -p /ws/evil ls",
        "enable -f /ws/evil.so evil",
        "eval $x",
        "source <(a)",
        ". ./nosuch",
        "trap \"$x\" EXIT",
        "trap 'v=1' DEBUG",
        "PROMPT_COMMAND='touch x'",
        "BASH_ENV=x bash -c true",
        "PATH=/ws/bin:$PATH ls",
        "set -k",
        "select x in a; do b; done",
        "a\n)",
        "a\necho 'x",
        "a\0; b",
        "cat <<EOF\nx",
        "if a; then b",
        "[ $x ]",
    ] {
        let reading = parse_commands(text, &FakeShellEnv::default());
        assert!(!reading.unresolved.is_empty(), "{text}\n{:#?}", shown(&reading));
    }
}

// req: P3
#[test]
fn what_does_not_parse_is_still_swept_for_commands() {
    let long = format!("cat <<'EOF' >/dev/null\n{}EOF\ntouch m", "xxxxxxxx\n".repeat(20_000));
    let deep = format!("{}touch m{}", "( ".repeat(200), " )".repeat(200));
    let many = "true; ".repeat(5000) + "touch m";
    for text in [
        "touch m\n)",
        "touch m\necho 'x",
        "echo 'x\ntouch m",
        "if a; then touch m",
        "echo ok\0; touch m",
        "( touch m",
        "x=1 touch m )",
        "mapfile -C 'touch m' -c 1 <<< x",
        "alias ls='touch m'",
        &long,
        &deep,
        &many,
    ] {
        let reading = parse_commands(text, &FakeShellEnv::default());
        assert!(!reading.unresolved.is_empty(), "{text:.80}");
        assert!(
            shown(&reading).iter().any(|command| command.starts_with("touch m")),
            "{text:.80}\n{:#?}",
            shown(&reading)
        );
    }
}
