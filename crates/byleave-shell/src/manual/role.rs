//! The roles of words: what a program does with a word.

/// The role of a word in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordRole {
    /// Text that has no effect: text, a number, a pattern, a name.
    Text,
    /// A word that may name a path or a host, if it looks like one. Rules against that path or host apply.
    Word,
    /// The same, or a host and a path without a scheme: `example.org/module`.
    Locator,
    /// The suffix of the files that it makes beside those that it writes.
    Suffix,
    /// A setting `NAME=value` of a build: a plain value has no effect.
    Define,
    /// A file or directory that it reads.
    Read,
    /// A file that it creates or changes.
    Write,
    /// A file that it reads and changes.
    Edit,
    /// A path that it removes.
    Delete,
    /// A path that it moves to another place.
    Move,
    /// A program that it runs with words of its own.
    Exec,
    /// Text that it passes to a shell.
    Shell,
    /// The first word of a command that it runs. All further words belong to it.
    Argv,
    /// Text in another language that is not analyzed.
    Code,
    /// A file with code, which it runs.
    Script,
    /// A file or directory of a project whose code it builds and runs.
    Project,
    /// A URL, or a host and a path.
    Url,
    /// A host, with an optional port.
    Host,
    /// `[user@]host:path`, or a path that it reads.
    RemoteRead,
    /// `[user@]host:path`, or a path that it writes.
    RemoteWrite,
    /// A repository: a URL, `host:path`, a path, or a name whose address is configured elsewhere.
    Repository,
    /// A revision, `REV:path`, or a path.
    Revision,
    /// A refspec to push: `+x` forces, `:x` deletes.
    Refspec,
    /// Text, in which `@file` is read.
    Data,
    /// Text, in which the file of `name@file` is read, unless a `=` precedes it.
    Encoded,
    /// An output format after a `+`.
    Format,
    /// `name=text`, in which the files of `name=@file` and `name=<file` are read.
    Form,
    /// `NAME=value` for the environment.
    Assign,
    /// The name of a variable and nothing else.
    Name,
    /// A sed program.
    Sed,
    /// An awk program.
    Awk,
    /// A format of Git's own, or the name of one. It may run the program for signatures.
    GitFormat,
    /// The name of a field of Git's own. It may run the program for signatures.
    GitField,
    /// An object of a Git repository by its hash, or a revision.
    GitObject,
    /// A commit that Git merges. A signed tag is verified by a program from the settings.
    GitMerged,
    /// A commit that Git amends later: `reword:` opens an editor.
    GitFixed,
    /// An option for how Git merges. `subtree=` names a directory that is written.
    GitStrategy,
    /// A refspec that Git fetches. It may replace a branch.
    GitFetched,
    /// A number. Where another version of the program takes no value there, the word is something else.
    LineLength,
    /// A pattern over names of files that are read beneath the directory.
    NameGlob,
    /// A jq program.
    Jq,
    /// An unknown word: anything like a path may be read and written.
    Any,
    /// A word with unknown effects.
    Unknown,
}

impl WordRole {
    /// Returns the role with this name in a manual.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "text" | "number" | "pattern" => Self::Text,
            "word" => Self::Word,
            "locator" => Self::Locator,
            "suffix" => Self::Suffix,
            "define" => Self::Define,
            "read" | "directory" => Self::Read,
            "write" => Self::Write,
            "edit" => Self::Edit,
            "delete" => Self::Delete,
            "move" => Self::Move,
            "exec" => Self::Exec,
            "shell" => Self::Shell,
            "argv" => Self::Argv,
            "code" => Self::Code,
            "script" => Self::Script,
            "project" => Self::Project,
            "url" => Self::Url,
            "host" | "network" => Self::Host,
            "remote-read" => Self::RemoteRead,
            "remote-write" => Self::RemoteWrite,
            "repository" => Self::Repository,
            "revision" => Self::Revision,
            "refspec" => Self::Refspec,
            "data" => Self::Data,
            "encoded" => Self::Encoded,
            "format" => Self::Format,
            "form" => Self::Form,
            "assign" => Self::Assign,
            "name" => Self::Name,
            "sed" => Self::Sed,
            "awk" => Self::Awk,
            "git-format" => Self::GitFormat,
            "git-field" => Self::GitField,
            "object" => Self::GitObject,
            "commit-to-merge" => Self::GitMerged,
            "commit-to-fix" => Self::GitFixed,
            "strategy-option" => Self::GitStrategy,
            "fetched-ref" => Self::GitFetched,
            "line-length" => Self::LineLength,
            "name-glob" => Self::NameGlob,
            "jq" => Self::Jq,
            "any" => Self::Any,
            "unknown" => Self::Unknown,
            _ => return None,
        })
    }
}
