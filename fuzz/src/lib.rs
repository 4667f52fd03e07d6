//! Shared by the targets for rules and commands: a small environment for commands, and the evaluation of a plan.

use byleave_core::effect::{Danger, Plan};
use byleave_core::id::{AgentId, SessionId};
use byleave_core::manifest::{PermissionClass, Manifest};
use byleave_core::policy::{PathVariables, Policy, PolicyRequest};
use byleave_core::decision::Verdict;
use byleave_shell::danger::DangerSeverity;
use byleave_shell::shell_env::ShellEnv;

/// The paths of the small environment.
pub const PLACES: PathVariables<'_> = PathVariables {
    workspace: Some("/ws"),
    home: Some("/home/u"),
    state: Some("/home/u/.local/state/byleave"),
    config: Some("/home/u/.config/byleave"),
};

/// An environment with a few files. `x.sh` runs itself.
pub struct World;

const FILES: [(&str, &str); 6] = [
    ("/ws/a.txt", "a"),
    ("/ws/.env", "KEY=1"),
    ("/ws/x.sh", "rm a.txt; . ./x.sh; ./x.sh"),
    ("/ws/src/lib.rs", ""),
    ("/ws/sp ace", ""),
    ("/home/u/.bashrc", "alias ls='rm -rf'"),
];

impl ShellEnv for World {
    fn cwd(&self) -> &str {
        "/ws"
    }

    fn home(&self) -> Option<&str> {
        Some("/home/u")
    }

    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/home/u".into()),
            "PWD" => Some("/ws".into()),
            "FOO" => Some("foo bar".into()),
            _ => None,
        }
    }

    fn find_program(&self, name: &str) -> Option<String> {
        if name.contains('/') {
            let path = self.resolve("/ws", name)?;
            return self.read_script(&path).map(|_| path);
        }
        Some(format!("/usr/bin/{name}"))
    }

    fn resolve(&self, cwd: &str, path: &str) -> Option<String> {
        let whole = if path.starts_with('/') { path.to_owned() } else { format!("{cwd}/{path}") };
        let mut steps = Vec::new();
        for step in whole.split('/') {
            match step {
                "" | "." => {}
                ".." => drop(steps.pop()),
                step => steps.push(step),
            }
        }
        Some(format!("/{}", steps.join("/")))
    }

    fn list_directory(&self, directory: &str) -> Option<Vec<String>> {
        let prefix = if directory == "/" { "/".to_owned() } else { format!("{directory}/") };
        let first_step = |path: &str| path.strip_prefix(&prefix)?.split('/').next().map(str::to_owned);
        let mut names: Vec<String> = FILES.iter().filter_map(|(path, _)| first_step(path)).collect();
        names.sort();
        names.dedup();
        Some(names)
    }

    fn is_directory(&self, path: &str) -> bool {
        path == "/" || FILES.iter().any(|(file, _)| file.starts_with(&format!("{path}/")))
    }

    fn read_script(&self, path: &str) -> Option<String> {
        FILES.iter().find(|(file, _)| *file == path).map(|(_, text)| (*text).to_owned())
    }
}

/// The plan of a command in the small environment.
pub fn plan(command: &str) -> Plan {
    let account = byleave_shell::analyze(command, &World);
    let dangers = account.dangers.iter().map(|danger| Danger {
        id: danger.id.clone(),
        reason: danger.why.clone(),
        denied: danger.grade == DangerSeverity::Deny,
    });
    Plan { effects: account.effects, dangers: dangers.collect(), ..Plan::default() }
}

/// The verdict on a plan of a shell tool.
pub fn judge(policy: &Policy, plan: &Plan) -> Verdict {
    let mut manifest = Manifest::new("bash", "", serde_json::Value::Null);
    (manifest.permission_class, manifest.sensitive) = (PermissionClass::Bash, Some(false));
    let (session, agent) = (SessionId::new("s").expect("a session"), AgentId::new("a").expect("an agent"));
    let request = PolicyRequest::new(&manifest, plan, &session, &agent);
    policy.evaluate(&request).verdict
}
