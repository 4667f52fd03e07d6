//! The facts about the machine that the analysis of a command needs. This crate only asks for them and never looks them up.

/// The environment in which a command would run.
pub trait ShellEnv {
    /// Returns the name of the shell that would run it. Only bash is supported: the meaning of the text in other shells is unknown.
    fn shell(&self) -> &str {
        "bash"
    }

    /// Returns the starting directory, absolute and resolved.
    fn cwd(&self) -> &str;

    /// Returns the home directory, if it is known.
    fn home(&self) -> Option<&str>;

    /// Returns the value of an environment variable, if it is certain to have that value when the command runs.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the file of a program, with symlinks followed, or `None` if it is not found.
    fn find_program(&self, name: &str) -> Option<String>;

    /// Resolves a path, absolute or relative to `cwd`: `.`, `..` and symlinks. A path that does not exist is resolved as far as it
    /// exists. Returns `None` if that cannot be determined.
    fn resolve(&self, cwd: &str, path: &str) -> Option<String>;

    /// Returns the sorted names in a directory, with hidden ones, or `None` if they are unknown or too many.
    fn list_directory(&self, directory: &str) -> Option<Vec<String>>;

    /// Checks whether a path is a directory.
    fn is_directory(&self, path: &str) -> bool;

    /// Returns the text of a small file that the command would run (`source`, a script), or `None` if it is unknown.
    fn read_script(&self, path: &str) -> Option<String>;

    /// Returns the text of a symbolic link, or `None` if the path is none. The directory of the path is resolved already.
    fn link_target(&self, _path: &str) -> Option<String> {
        None
    }

    /// Returns the other paths of the same file (hard links, and symbolic links that lead to it), as far as they are known. Most files have
    /// none.
    fn other_names(&self, _path: &str) -> Vec<String> {
        Vec::new()
    }
}
