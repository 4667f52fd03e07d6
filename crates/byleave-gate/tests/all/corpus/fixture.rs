//! The fixture of the corpus: a temporary directory with its own `/ws`, `/outside` and `/home/u`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use byleave_gate::core::policy::{PathVariables, Rule, SkipExamples};
use byleave_gate::policy_case::CaseEnvironment;
use byleave_gate::policy_files;
use byleave_shell::shell_env::ShellEnv;
use regex::{Captures, Regex};

use byleave_testkit::corpus::Case;

/// The directories of programs, on every machine.
const SYSTEM: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];

/// Their programs, as far as the cases need them.
const PROGRAMS: [&str; 10] = ["bash", "cat", "curl", "env", "git", "ls", "rm", "sh", "touch", "wget"];

/// A temporary root directory. Paths begin there, and nothing outside is read.
pub(super) struct Fixture {
    root: tempfile::TempDir,
    /// The shell that would run a command.
    shell: &'static str,
    cwd: String,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["ws", "outside", "home/u", "tmp", "dev"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        Self { root, shell: "bash", cwd: "/ws".to_owned() }
    }

    /// The fixture of a case.
    pub(super) fn of(case: &Case) -> Self {
        let mut fixture = Self::new();
        fixture.prepare(&case.setup);
        let notes = case.policy_notes.join(" ") + &case.setup;
        let shells = [("zsh", "zsh"), ("cmd.exe", "cmd.exe"), ("PowerShell", "powershell")];
        let other = shells.iter().find(|(word, _)| notes.contains(word));
        fixture.shell = other.map_or("bash", |(_, shell)| shell);
        if let Some(cwd) = case.input.get("cwd").and_then(serde_json::Value::as_str) {
            fixture.cwd = fixture.follow(cwd).unwrap();
        }
        fixture
    }

    /// A small project, for everyday work.
    pub(super) fn project() -> Self {
        let fixture = Self::new();
        for file in [
            "README.md",
            "Cargo.toml",
            "Cargo.lock",
            "package.json",
            "src/main.rs",
            "src/lib.rs",
            "tests/all.rs",
            "scripts/run.sh",
            "docs/guide.md",
            "fix.patch",
        ] {
            fixture.write(&format!("/ws/{file}"), "");
        }
        fixture
    }

    pub(super) fn write(&self, path: &str, content: &str) {
        let path = self.real(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The rules that apply here.
    pub(super) fn loaded(&self) -> Vec<Rule> {
        let (workspace, home) = (self.real("/ws"), self.real("/home/u"));
        let config = home.join(".config/byleave");
        let places = PathVariables {
            workspace: workspace.to_str(),
            home: home.to_str(),
            state: None,
            config: config.to_str(),
        };
        let mut files = policy_files::candidate_files(&places, None);
        files.retain(|file| file.path.starts_with(self.root.path()));
        policy_files::load(&files, &places, &SkipExamples).unwrap().policy.rules().cloned().collect()
    }

    /// Runs the setup of a case, as far as it consists of commands.
    fn prepare(&self, setup: &str) {
        if setup.starts_with("an alias or wrapper named safe-tool") {
            fs::create_dir_all(self.real("/ws/bin")).unwrap();
            std::os::unix::fs::symlink("/usr/bin/touch", self.real("/ws/bin/safe-tool")).unwrap();
        }
        let Some(commands) = setup.strip_prefix("sh:") else { return };
        let ended = Command::new("bash")
            .args(["--norc", "-c", &self.inside(commands)])
            .current_dir(self.root.path().join("ws"))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.root.path().join("home/u"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null())
            .output();
        // Some end in a prose remark. The commands before it have run.
        ended.unwrap();
    }

    /// Replaces the paths of the fixture in a text with the real ones.
    pub(super) fn inside(&self, text: &str) -> String {
        // Only at the beginning of a path: `/ws/outside-link` is one path.
        let places = Regex::new(r"(^|[^\w./-])/(ws|outside|home/u|tmp)\b").unwrap();
        let root = self.root.path().to_str().unwrap();
        places
            .replace_all(text, |found: &Captures<'_>| format!("{}{root}/{}", &found[1], &found[2]))
            .into_owned()
    }

    pub(super) fn real(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// The environment of the fixture, without the additions for cases.
    fn world(&self) -> CaseEnvironment {
        CaseEnvironment::new(self.root.path(), &self.cwd, Some("/home/u"))
    }

    /// Follows every link, as the kernel would. A missing path is used as it is written.
    fn follow(&self, path: &str) -> Option<String> {
        self.world().resolve("/", path)
    }
}

impl ShellEnv for Fixture {
    fn cwd(&self) -> &str {
        &self.cwd
    }

    fn shell(&self) -> &str {
        self.shell
    }

    fn home(&self) -> Option<&str> {
        Some("/home/u")
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.world().variable(name)
    }

    fn find_program(&self, name: &str) -> Option<String> {
        let own = format!("/ws/bin/{name}");
        if name == "safe-tool" && self.real(&own).symlink_metadata().is_ok() {
            return self.follow(&own);
        }
        self.world().find_program(name)
    }

    fn resolve(&self, cwd: &str, path: &str) -> Option<String> {
        self.world().resolve(cwd, path)
    }

    fn list_directory(&self, directory: &str) -> Option<Vec<String>> {
        let directory = self.follow(directory)?;
        // The system directories are not in the fixture, but a command may name their content.
        if SYSTEM.contains(&directory.as_str()) {
            return Some(PROGRAMS.iter().map(|name| (*name).to_owned()).collect());
        }
        let above = |names: [&str; 2]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        match directory.as_str() {
            "/" => return above(["bin", "usr"]),
            "/usr" => return above(["bin", "local"]),
            _ => {}
        }
        self.world().list_directory(&directory)
    }

    fn is_directory(&self, path: &str) -> bool {
        let is_system = |path: &str| SYSTEM.contains(&path) || matches!(path, "/" | "/usr");
        self.follow(path).is_some_and(|path| is_system(&path) || self.real(&path).is_dir())
    }

    fn read_script(&self, path: &str) -> Option<String> {
        self.world().read_script(path)
    }

    fn link_target(&self, path: &str) -> Option<String> {
        self.world().link_target(path)
    }

    fn other_names(&self, path: &str) -> Vec<String> {
        self.world().other_names(path)
    }
}
