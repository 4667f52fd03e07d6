//! The scene: what must be known of the world to read a command. Asked, never looked up here.

/// The world as a command would find it.
pub trait ShellEnv {
    /// The shell that would run it, by its name. Only bash is read; what another would make of the text is not known.
    fn shell(&self) -> &str {
        "bash"
    }

    /// The directory it would start in, absolute and resolved.
    fn cwd(&self) -> &str;

    /// The home directory, where it is known.
    fn home(&self) -> Option<&str>;

    /// The value of an environment variable that is certain to be set so when the command runs.
    fn variable(&self, name: &str) -> Option<String>;

    /// The file that a program's name leads to, symlinks followed; `None` where it is not found.
    fn program(&self, name: &str) -> Option<String>;

    /// A path, absolute or beneath `cwd`, with everything resolved: `.`, `..`, symlinks. What does not exist is resolved as
    /// far as it does. `None` where that cannot be told.
    fn resolve(&self, cwd: &str, path: &str) -> Option<String>;

    /// The names in a directory, hidden ones too, in order; `None` where that cannot be told, or there are too many.
    fn list(&self, directory: &str) -> Option<Vec<String>>;

    /// Whether a path is a directory.
    fn is_directory(&self, path: &str) -> bool;

    /// The text of a small file that the command would run (`source`, a script); `None` where it cannot be told.
    fn text(&self, path: &str) -> Option<String>;
}
