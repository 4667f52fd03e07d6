//! Entry point of the analysis: parses a text, applies the manuals, and parses the scripts that they find inside.

use crate::commands::{ParsedCommands, WorkingDir};
use crate::display_tree::{CommandTree, TreeBuilder};
use crate::effects::{CommandEffects, Script, unwrap_all, unwrap_watched};
use crate::interpreter::read;
use crate::shell_env::ShellEnv;

/// Returns all effects of a command, including those of nested commands.
pub fn tell(text: &str, scene: &dyn ShellEnv) -> CommandEffects {
    unwrap_all(&read(text, scene), scene, &|script| read_inside(script, scene))
}

/// Returns the effects, and the tree that shows how the command was read.
pub fn tell_in_full(text: &str, scene: &dyn ShellEnv) -> (CommandEffects, CommandTree) {
    let mut grower = TreeBuilder::new(text);
    let account =
        unwrap_watched(&read(text, scene), scene, &|script| read_inside(script, scene), &mut grower);
    (account, grower.tree())
}

/// Parses a nested script in its working directory.
fn read_inside(script: &Script, scene: &dyn ShellEnv) -> ParsedCommands {
    match &script.place {
        WorkingDir::At(cwd) => read(&script.text, &WithCwd { scene, cwd }),
        WorkingDir::Unknown(why) => {
            let mut reading = read(&script.text, scene);
            // The starting directory is unknown, so the directory of each command is unknown too.
            for command in &mut reading.commands {
                command.place = WorkingDir::Unknown(why.clone());
            }
            reading
        }
    }
}

/// The same environment with another working directory.
struct WithCwd<'a> {
    scene: &'a dyn ShellEnv,
    cwd: &'a str,
}

impl ShellEnv for WithCwd<'_> {
    fn shell(&self) -> &str {
        self.scene.shell()
    }

    fn cwd(&self) -> &str {
        self.cwd
    }

    fn home(&self) -> Option<&str> {
        self.scene.home()
    }

    fn variable(&self, name: &str) -> Option<String> {
        if name == "PWD" { Some(self.cwd.to_owned()) } else { self.scene.variable(name) }
    }

    fn program(&self, name: &str) -> Option<String> {
        self.scene.program(name)
    }

    fn resolve(&self, cwd: &str, path: &str) -> Option<String> {
        self.scene.resolve(cwd, path)
    }

    fn list(&self, directory: &str) -> Option<Vec<String>> {
        self.scene.list(directory)
    }

    fn is_directory(&self, path: &str) -> bool {
        self.scene.is_directory(path)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.scene.text(path)
    }
}
