//! Entry point of the analysis: parses a text, applies the manuals, and parses the scripts that they find inside.

use crate::commands::{ParsedCommands, WorkingDir};
use crate::display_tree::{CommandTree, TreeBuilder};
use crate::effects::{CommandEffects, Script, analyze_all, analyze_observed};
use crate::interpreter::parse_commands;
use crate::shell_env::ShellEnv;

/// Returns all effects of a command, including those of nested commands.
pub fn analyze(text: &str, scene: &dyn ShellEnv) -> CommandEffects {
    analyze_all(&parse_commands(text, scene), scene, &|script| parse_nested(script, scene))
}

/// Returns the effects, and the tree that shows how the command was read.
pub fn analyze_with_tree(text: &str, scene: &dyn ShellEnv) -> (CommandEffects, CommandTree) {
    let mut grower = TreeBuilder::new(text);
    let account = analyze_observed(
        &parse_commands(text, scene),
        scene,
        &|script| parse_nested(script, scene),
        &mut grower,
    );
    (account, grower.into_tree())
}

/// Parses a nested script in its working directory.
fn parse_nested(script: &Script, scene: &dyn ShellEnv) -> ParsedCommands {
    match &script.working_dir {
        WorkingDir::At(cwd) => parse_commands(&script.text, &WithCwd { env: scene, cwd }),
        WorkingDir::Unknown(why) => {
            let mut reading = parse_commands(&script.text, scene);
            // The starting directory is unknown, so the directory of each command is unknown too.
            for command in &mut reading.commands {
                command.working_dir = WorkingDir::Unknown(why.clone());
            }
            reading
        }
    }
}

/// The same environment with another working directory.
struct WithCwd<'a> {
    env: &'a dyn ShellEnv,
    cwd: &'a str,
}

impl ShellEnv for WithCwd<'_> {
    fn shell(&self) -> &str {
        self.env.shell()
    }

    fn cwd(&self) -> &str {
        self.cwd
    }

    fn home(&self) -> Option<&str> {
        self.env.home()
    }

    fn variable(&self, name: &str) -> Option<String> {
        if name == "PWD" { Some(self.cwd.to_owned()) } else { self.env.variable(name) }
    }

    fn find_program(&self, name: &str) -> Option<String> {
        self.env.find_program(name)
    }

    fn resolve(&self, cwd: &str, path: &str) -> Option<String> {
        self.env.resolve(cwd, path)
    }

    fn list_directory(&self, directory: &str) -> Option<Vec<String>> {
        self.env.list_directory(directory)
    }

    fn is_directory(&self, path: &str) -> bool {
        self.env.is_directory(path)
    }

    fn read_script(&self, path: &str) -> Option<String> {
        self.env.read_script(path)
    }

    fn link_target(&self, path: &str) -> Option<String> {
        self.env.link_target(path)
    }

    fn other_names(&self, path: &str) -> Vec<String> {
        self.env.other_names(path)
    }
}
