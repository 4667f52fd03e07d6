//! Slash commands: instructions to the program rather than to the model. They begin with `/`.

/// A slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlashCommand {
    /// Show the help.
    Help,
    /// Undo the last change of this conversation.
    Undo,
    /// Show the standing approvals, or revoke one.
    Approvals {
        /// The standing approval to revoke.
        revoke: Option<String>,
    },
    /// Show the policy in force.
    Policy,
    /// Export the conversation to a file.
    Export {
        /// The format.
        format: String,
        /// The file. If absent, a name is made up.
        file: Option<String>,
    },
    /// Choose another conversation.
    Sessions,
    /// Begin another conversation.
    New,
    /// Continue where the conversation stopped.
    Continue,
    /// Quit the chat.
    Quit,
}

impl SlashCommand {
    /// Checks whether nothing may be running when the command is carried out.
    pub(super) const fn requires_idle(&self) -> bool {
        matches!(self, Self::Sessions | Self::New | Self::Continue | Self::Undo)
    }
}

/// The parsed text of the input field.
pub(super) enum ChatInput {
    /// No input.
    Nothing,
    /// A message for the model.
    Message(String),
    /// A slash command.
    Command(SlashCommand),
    /// An unknown slash command, with advice.
    Unknown(String),
}

/// Each slash command: its name, its arguments and its description.
pub(super) const SLASH_COMMANDS: [(&str, &str, &str); 9] = [
    ("/undo", "", "undoes the last change of this conversation"),
    ("/approvals", "[revoke ID]", "lists standing approvals, or revokes one"),
    ("/policy", "", "shows the rules in force"),
    ("/export", "[markdown|json|html] [FILE]", "exports the conversation to a file"),
    ("/sessions", "", "switches to another conversation"),
    ("/new", "", "starts a new conversation"),
    ("/again", "", "continues after a stop"),
    ("/help", "", "shows this help"),
    ("/quit", "", "quits; the conversation stays in the audit log"),
];

/// The keys and their descriptions.
const KEYS: [(&str, &str); 10] = [
    ("Enter", "sends the message; while the model works, queues it"),
    ("Alt-Enter", "starts a new line; so does \\ before Enter"),
    ("Up, Down", "recalls previous messages"),
    ("Ctrl-G", "opens your editor"),
    ("PageUp, PageDown", "scrolls"),
    ("Ctrl-O", "shows the full output of tools, or only its end"),
    ("Esc", "takes back a queued message; twice, stops the model"),
    ("Tab", "opens a question that was closed with Esc; completes a command"),
    ("Ctrl-C", "stops the model; quits if the model does nothing"),
    ("Ctrl-D", "quits"),
];

/// Returns the help text.
pub(super) fn help() -> String {
    let mut help = String::new();
    for (key, does) in KEYS {
        help.push_str(&format!("{key:<40}{does}\n"));
    }
    help.push('\n');
    for (order, what, does) in SLASH_COMMANDS {
        help.push_str(&format!("{:<40}{does}\n", format!("{order} {what}")));
    }
    help.push_str(
        "\nTo send a message that begins with a slash, type two slashes: //etc is not a command.\n\
         To give a standing approval, press l at a question. The rules and your answers control\n\
         everything that the model does, and the audit log records all of it.\n",
    );
    help
}

/// Parses the typed text.
pub(super) fn parse_input(text: &str) -> ChatInput {
    let text = text.trim();
    if text.is_empty() {
        return ChatInput::Nothing;
    }
    let Some(rest) = text.strip_prefix('/') else { return ChatInput::Message(text.to_owned()) };
    if rest.starts_with('/') {
        return ChatInput::Message(rest.to_owned());
    }
    let mut words = rest.split_whitespace();
    let name = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    let order = match (name, words.as_slice()) {
        ("help", []) => SlashCommand::Help,
        ("undo", []) => SlashCommand::Undo,
        ("approvals", []) => SlashCommand::Approvals { revoke: None },
        ("approvals", ["revoke", id]) => SlashCommand::Approvals { revoke: Some((*id).to_owned()) },
        ("policy", []) => SlashCommand::Policy,
        ("export", []) => SlashCommand::Export { format: "markdown".to_owned(), file: None },
        ("export", [file]) if form_of(file).is_some() => SlashCommand::Export {
            format: form_of(file).unwrap_or("markdown").to_owned(),
            file: Some((*file).to_owned()),
        },
        ("export", [form @ ("markdown" | "json" | "html"), rest @ ..]) if rest.len() < 2 => {
            SlashCommand::Export {
                format: (*form).to_owned(),
                file: rest.first().map(|file| (*file).to_owned()),
            }
        }
        ("sessions", []) => SlashCommand::Sessions,
        ("new", []) => SlashCommand::New,
        ("again", []) => SlashCommand::Continue,
        ("quit" | "exit", []) => SlashCommand::Quit,
        _ => return ChatInput::Unknown(unknown(name)),
    };
    ChatInput::Command(order)
}

/// Returns the export format for the extension of a file name.
fn form_of(file: &str) -> Option<&'static str> {
    let (_, end) = file.rsplit_once('.')?;
    match end {
        "md" => Some("markdown"),
        "json" => Some("json"),
        "html" => Some("html"),
        _ => None,
    }
}

fn unknown(name: &str) -> String {
    let known = SLASH_COMMANDS.iter().find(|(order, ..)| order.strip_prefix('/') == Some(name));
    match known {
        Some((order, what, _)) => format!("usage: {order} {what}"),
        None => "unknown command; try /help, or begin with // to send the text to the model".to_owned(),
    }
}

/// Returns the slash commands that match the typed beginning.
pub(super) fn matching_commands(text: &str) -> Vec<&'static (&'static str, &'static str, &'static str)> {
    if !text.starts_with('/') || text.contains(char::is_whitespace) {
        return Vec::new();
    }
    SLASH_COMMANDS.iter().filter(|(order, ..)| order.starts_with(text)).collect()
}

/// Returns the typed text completed, if only one command matches.
pub(super) fn complete_command(text: &str) -> Option<String> {
    match matching_commands(text).as_slice() {
        [(order, "", _)] => Some((*order).to_owned()),
        [(order, ..)] => Some(format!("{order} ")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_only_as_it_is_written() {
        let order = |text: &str| match parse_input(text) {
            ChatInput::Command(order) => Some(order),
            _ => None,
        };
        for (name, ..) in &SLASH_COMMANDS {
            assert!(order(name).is_some(), "{name}");
        }
        let revoke = |id: &str| SlashCommand::Approvals { revoke: Some(id.to_owned()) };
        assert_eq!(order("/approvals revoke a1b2"), Some(revoke("a1b2")));
        let html = SlashCommand::Export { format: "html".to_owned(), file: Some("a.html".to_owned()) };
        assert_eq!(order("/export html a.html"), Some(html));
        for text in
            ["/etc/passwd is wrong", "/undo everything", "/export html a b", "/", "undo", "//undo", " "]
        {
            assert_eq!(order(text), None, "{text}");
        }
    }

    #[test]
    fn what_looks_like_an_order_is_never_said_to_the_model() {
        for text in ["/undoo", "/etc/passwd", "/approvals them"] {
            assert!(matches!(parse_input(text), ChatInput::Unknown(_)), "{text}");
        }
        assert!(matches!(parse_input("//etc/passwd"), ChatInput::Message(word) if word == "/etc/passwd"));
    }

    #[test]
    fn an_order_is_completed_where_it_is_the_only_one() {
        assert_eq!(complete_command("/und").as_deref(), Some("/undo"));
        assert_eq!(complete_command("/ex").as_deref(), Some("/export "));
        assert_eq!((complete_command("/"), complete_command("u")), (None, None));
    }
}
