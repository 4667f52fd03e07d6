# A project as people have them: a git repository with a history, and small Rust, Node, Python, C and Gradle projects in it, with
# everything that the everyday commands of the corpus name. Run once, in an empty /ws; each command gets a copy of what it leaves.
set -eu
cat >~/.gitconfig <<'EOF'
[user]
	name = Ana
	email = ana@example.com
[init]
	defaultBranch = main
EOF
mkdir -p src tests examples crates/core/src web scripts docs node_modules/.bin shared

# Rust
cat >Cargo.toml <<'EOF'
[package]
name = "app"
version = "0.1.0"
edition = "2021"

[workspace]
members = ["crates/core"]

[dependencies]
app_core = { path = "crates/core", package = "core" }
EOF
cat >crates/core/Cargo.toml <<'EOF'
[package]
name = "core"
version = "0.1.0"
edition = "2021"

[lib]
name = "app_core"
EOF
cat >crates/core/src/lib.rs <<'EOF'
pub fn twice(n: u32) -> u32 {
    n * 2
}

#[cfg(test)]
mod tests {
    #[test]
    fn doubles() {
        assert_eq!(super::twice(2), 4);
    }
}
EOF
cat >src/lib.rs <<'EOF'
//! foo, and what it is for. TODO: say more.

pub mod parser {
    pub struct Token(pub String);

    /// Reads foo.
    pub fn parse(text: &str) -> Vec<Token> {
        text.split_whitespace()
            .map(|word| Token(word.to_owned()))
            .collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn words() {
            println!("parsing");
            assert_eq!(parse("a b").len(), 2);
        }
    }
}

pub fn four() -> u32 {
    app_core::twice(2)
}
EOF
printf 'fn main() {\n    println!("{}", app::four());\n}\n' >src/main.rs
printf 'fn main() {\n    println!("demo {}", app::four());\n}\n' >examples/demo.rs
printf '#[test]\nfn all() {\n    assert_eq!(app::four(), 4);\n}\n' >tests/all.rs
echo '// Prints with --output.' >src/cli.rs
echo '// A.' >src/a.rs
echo '// Weird.' >'src/weird name; x.rs'
echo 'export const foo = 1;' >src/index.ts

# Node. The tools in node_modules/.bin stand in for the real ones, which would have to be fetched.
cat >package.json <<'EOF'
{
  "name": "app",
  "version": "0.1.0",
  "scripts": {
    "test": "node scripts/check.js",
    "build": "node scripts/build.js",
    "lint": "eslint src"
  },
  "dependencies": {}
}
EOF
cat >package-lock.json <<'EOF'
{
  "name": "app",
  "version": "0.1.0",
  "lockfileVersion": 3,
  "requires": true,
  "packages": { "": { "name": "app", "version": "0.1.0" } }
}
EOF
echo 'require("assert").strictEqual(1 + 1, 2); console.log("ok");' >scripts/check.js
echo 'const fs = require("fs"); fs.mkdirSync("dist", { recursive: true }); fs.writeFileSync("dist/app.js", "1");' >scripts/build.js
for tool in tsc eslint; do
    printf '#!/usr/bin/env node\nrequire("fs").readdirSync("src"); console.log("no problems");\n' >node_modules/.bin/$tool
    chmod +x node_modules/.bin/$tool
done
echo '{"name": "web", "scripts": {"test": "node -e 1"}}' >web/package.json

# Python
touch tests/__init__.py
cat >tests/test_api.py <<'EOF'
import unittest


class Api(unittest.TestCase):
    def test_login(self):
        self.assertEqual(1 + 1, 2)
EOF

# C, by make
printf 'int main(void) { return 0; }\n' >hello.c
printf 'build: build/hello\nbuild/hello: hello.c\n\tmkdir -p build\n\t$(CC) -o $@ $<\ntest: build\n\t./build/hello\n.PHONY: build test\n' >Makefile

# Gradle: what the wrapper leaves behind, without what it would have to fetch.
echo 'tasks.register("test")' >build.gradle
printf '#!/bin/sh\nmkdir -p .gradle/8.0\necho 1 >.gradle/8.0/gc.properties\necho BUILD SUCCESSFUL\n' >gradlew
chmod +x gradlew

# Maven
cat >pom.xml <<'EOF'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId>
  <artifactId>app</artifactId>
  <version>1</version>
</project>
EOF

# Texts and data
printf '# App\n\nRun `cargo test`.\n' >README.md
printf 'Never curl | sh.\nNo sudo.\n' >docs/guide.md
printf '#!/bin/sh\necho "$(date)"\n' >scripts/run.sh
printf 'b\na\na\n' >names.txt
printf 'x\t2\ny\t1\n' >data.tsv
printf 'name,a,n\nx,1,2\ny,3,4\n' >data.csv
printf 'x 1\ny 2\n' >data.txt
printf 'a/b\nc/d\n' >paths.txt
printf 'a\nb\n' >a.txt
printf 'a\nc\n' >b.txt
printf 'a\0b' >a.bin
printf 'a\0c' >b.bin
printf 'warn: one\nerror: two\n' >build.log
echo spaces >'file with spaces.txt'
echo dash >./-dash-file
echo '{}' >shared/config.json
python3 -c 'import zipfile; zipfile.ZipFile("archive.zip", "w").writestr("a", "a")'
printf -- '--- a/README.md\n+++ b/README.md\n@@ -1,3 +1,3 @@\n-# App\n+# The app\n \n Run `cargo test`.\n' >fix.patch
printf 'target/\nnode_modules/\nbuild/\ndist/\n__pycache__/\n.gradle/\n' >.gitignore
if command -v cargo >/dev/null; then
    cargo generate-lockfile --offline -q
    cargo build -q
    mkdir -p target/release
    cp target/debug/app target/release/app
fi
mkdir -p target/debug/incremental
touch Cargo.lock target/test.log

# A history
git init -q .
git add -A
git commit -q -m 'the beginning'
git tag v0.1
for change in one two three; do
    echo "$change" >>docs/changes.md
    git add -A
    git commit -q -m "docs: $change"
done
git branch feature/parser
git checkout -q -b abc1234
echo picked >docs/picked.md
git add -A
git commit -q -m 'docs: picked'
git checkout -q feature/parser
echo parser >docs/parser.md
git add -A
git commit -q -m 'docs: parser'
git checkout -q -b work main
echo work >docs/work.md
git add -A
git commit -q -m 'docs: work'
git remote add origin https://git.example/app.git
echo stashed >>paths.txt
git stash -q
# What is being worked on: something staged, something not, something new.
sed -i 's/say more/say more of foo/' src/lib.rs
git add src/lib.rs
echo '// More. TODO' >>src/cli.rs
echo new >docs/new.md
