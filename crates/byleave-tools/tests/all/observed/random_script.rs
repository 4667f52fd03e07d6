//! Random scripts: what programs do to files, plainly and in ways that reading does not see.

use super::Random;

const NAMES: [&str; 16] = [
    "a.txt",
    "src/b.rs",
    "docs/c.md",
    "docs/d.txt",
    "deep/x/y.txt",
    "deep/x",
    "deep",
    "docs",
    "src",
    "new.txt",
    "new/f.json",
    "link",
    "empty",
    "'with space.txt'",
    "README.md",
    "package.json",
];
/// Places that no run may change, that are protected, or that a build generates.
const GUARDED: [&str; 9] = [
    ".env",
    ".vscode/tasks.json",
    ".git/config",
    ".git/hooks/pre-commit",
    "link/e",
    "/outside/secret.txt",
    "/home/u/x",
    "target/debug/y",
    "many",
];

/// Makes a script of a few commands. Each goes on if the one before fails.
pub(super) fn make(random: &mut Random) -> String {
    let commands: Vec<String> = (0..=random.below(3)).map(|_| command(random)).collect();
    commands.join("\n")
}

fn command(random: &mut Random) -> String {
    let mut name = || if random.once_in(12) { random.pick(&GUARDED) } else { random.pick(&NAMES) };
    let (one, other) = (name(), name());
    let plain = match random.below(30) {
        0 | 1 => format!("echo new > {one}"),
        2 | 3 => format!("echo more >> {one}"),
        4 => format!("rm -f {one}"),
        5 => format!("rm -rf {one}"),
        6 | 7 => format!("mv {one} {other}"),
        8 => format!("cp -a {one} {other}"),
        9 => format!("ln {one} {other}"),
        10 => format!("ln -s {one} {other}"),
        11 => format!("chmod {} {one}", random.pick(&["600", "755", "u+s", "000", "g+s", "+x"])),
        12 => format!("mkdir -p {one}"),
        13 => format!("mkfifo {one}"),
        14 => format!("truncate -s 3 {one}"),
        15 => format!("sed -i s/a/b/ {one}"),
        16 => format!("touch {one}"),
        17 => "for i in $(seq 70); do echo x > f$i.txt; done".to_owned(),
        18 => "find . -name '*.txt' -delete".to_owned(),
        19 => "rm -f many/*".to_owned(),
        20 => format!("mkdir -p s; mv s {one}; mv {other} s"),
        21 => format!(
            "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"{}\")'",
            bare(one)
        ),
        22 => format!("python3 -c 'import os; os.setxattr(\"{}\", \"user.x\", b\"1\")'", bare(one)),
        23 => format!("tar cf t.tar {one}; rm -rf {one}; tar xf t.tar"),
        24 => "git add -A; git -c user.name=t -c user.email=t@t commit -q -m x".to_owned(),
        25 => format!("(sleep 300; echo late > {one}) &"),
        26 => format!("rm -rf {one}; mkdir -p {one}; echo x > {one}/{}", random.pick(&["k.txt", "l.md"])),
        27 => format!("cp -a docs d2; rm -rf docs; mv d2 docs; echo x > {one}"),
        28 => format!("install -m 4755 a.txt {one}"),
        _ => format!("dd if=/dev/zero of={one} bs=1000 count=3 2>/dev/null"),
    };
    match random.below(6) {
        // What reading alone does not see.
        0 => format!("eval \"$(printf '%s' {} | base64 -d)\"", base64(&plain)),
        1 if !plain.contains('\'') => format!("python3 -c 'import os; os.system(\"\"\"{plain}\"\"\")'"),
        2 => format!("x=$(cat <<'END'\n{plain}\nEND\n); bash -c \"$x\""),
        _ => plain,
    }
}

fn bare(name: &str) -> &str {
    name.trim_matches('\'')
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut coded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let number = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (at, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = char::from(DIGITS[(number >> shift & 63) as usize]);
            coded.push(if at > chunk.len() { '=' } else { digit });
        }
    }
    coded
}
