//! Roles: what a program does with a word.

/// What a program does with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordRole {
    /// Nothing but looking at it: text, a number, a pattern, a name.
    Text,
    /// A file or directory that it reads.
    Read,
    /// A file that it creates or changes.
    Write,
    /// A file that it reads and changes.
    Edit,
    /// A path that it removes.
    Delete,
    /// A path that it takes away to somewhere else.
    Move,
    /// A program that it runs with words of its own.
    Exec,
    /// Text that it gives to a shell.
    Shell,
    /// The first word of a command that it runs, up to the end.
    Argv,
    /// Text in a language of its own that is not read here.
    Code,
    /// A file with code, which it runs.
    Script,
    /// A URL, or a host and a path.
    Url,
    /// A host, with a port perhaps.
    Host,
    /// `[user@]host:path`, or a path that it reads.
    RemoteRead,
    /// `[user@]host:path`, or a path that it writes.
    RemoteWrite,
    /// A repository: a URL, `host:path`, a path, or a name whose address is elsewhere.
    Repository,
    /// A revision, `REV:path`, or a path.
    Revision,
    /// What is pushed where: `+x` forces, `:x` deletes.
    Refspec,
    /// Text; `@file` is read.
    Data,
    /// Text; in `name@file`, the file is read, unless a `=` stands before it.
    Encoded,
    /// How something is printed, behind a `+`.
    Format,
    /// `name=text`; `name=@file` and `name=<file` are read.
    Form,
    /// `NAME=value` for the environment.
    Assign,
    /// The name of a variable and nothing else.
    Name,
    /// A sed program.
    Sed,
    /// An awk program.
    Awk,
    /// A jq program.
    Jq,
    /// Nothing is known of it: what looks like a path may be read and written.
    Any,
    /// What it leads to is not known here.
    Unknown,
}

impl WordRole {
    /// The role of this name in a manual.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "text" | "number" | "pattern" => Self::Text,
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
            "jq" => Self::Jq,
            "any" => Self::Any,
            "unknown" => Self::Unknown,
            _ => return None,
        })
    }
}
