//! Orders: what a person tells the program rather than the model. They begin with a stroke.

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlashCommand {
    /// Say what there is.
    Help,
    /// Take back what this conversation changed last.
    Undo,
    /// Show the leaves that were given, or end one.
    Leave {
        /// The one to be ended.
        revoke: Option<String>,
    },
    /// Show the rules in force.
    Policy,
    /// Write the conversation into a file.
    Export {
        /// As what.
        form: String,
        /// Which file; else one is named for it.
        file: Option<String>,
    },
    /// Choose another conversation.
    Sessions,
    /// Begin another conversation.
    New,
    /// Go on where it stopped.
    Again,
    /// Leave.
    Quit,
}

impl SlashCommand {
    /// Whether nothing may be at work when it is carried out.
    pub(super) const fn ends_the_work(&self) -> bool {
        matches!(self, Self::Sessions | Self::New | Self::Again | Self::Undo)
    }
}

/// What stands in the field.
pub(super) enum ChatInput {
    /// Nothing.
    Nothing,
    /// A word for the model.
    Word(String),
    /// An order.
    Order(SlashCommand),
    /// Something like an order that is none, and what to do.
    Unknown(String),
}

/// Each order: its name, what may follow, and what it does.
pub(super) const ORDERS: [(&str, &str, &str); 9] = [
    ("/undo", "", "takes back what this conversation changed last"),
    ("/leave", "[revoke ID]", "shows the leaves that were given, or ends one"),
    ("/policy", "", "shows the rules in force"),
    ("/export", "[markdown|json|html] [FILE]", "writes the conversation into a file"),
    ("/sessions", "", "goes to another conversation"),
    ("/new", "", "begins another conversation"),
    ("/again", "", "goes on where it stopped"),
    ("/help", "", "says what there is"),
    ("/quit", "", "leaves; the conversation stays in the book"),
];

/// The keys, and what they do.
const KEYS: [(&str, &str); 10] = [
    ("Enter", "sends what is written; while the model works, it is said when it rests"),
    ("Alt-Enter", "begins a new line; so does a \\ before Enter"),
    ("Up, Down", "what was said before"),
    ("Ctrl-G", "writes in your editor"),
    ("PageUp, PageDown", "scrolls"),
    ("Ctrl-O", "shows what tools put out in full, or its end"),
    ("Esc", "takes back what is not said yet; twice, calls off what the model does"),
    ("Tab", "opens a question that was put away with Esc; completes an order"),
    ("Ctrl-C", "calls off what the model does; with nothing at work, leaves"),
    ("Ctrl-D", "leaves"),
];

/// What there is to know.
pub(super) fn help() -> String {
    let mut help = String::new();
    for (key, does) in KEYS {
        help.push_str(&format!("{key:<40}{does}\n"));
    }
    help.push('\n');
    for (order, what, does) in ORDERS {
        help.push_str(&format!("{:<40}{does}\n", format!("{order} {what}")));
    }
    help.push_str(
        "\nA word of yours that begins with a stroke is written with two: //etc is not an order.\n\
         A leave is given at a question, with l. Nothing that the model does happens but by the rules and\n\
         your answers, and all of it is in the book.\n",
    );
    help
}

/// Reads what was typed.
pub(super) fn read(text: &str) -> ChatInput {
    let text = text.trim();
    if text.is_empty() {
        return ChatInput::Nothing;
    }
    let Some(rest) = text.strip_prefix('/') else { return ChatInput::Word(text.to_owned()) };
    if rest.starts_with('/') {
        return ChatInput::Word(rest.to_owned());
    }
    let mut words = rest.split_whitespace();
    let name = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    let order = match (name, words.as_slice()) {
        ("help", []) => SlashCommand::Help,
        ("undo", []) => SlashCommand::Undo,
        ("leave" | "leaves", []) => SlashCommand::Leave { revoke: None },
        ("leave" | "leaves", ["revoke", id]) => SlashCommand::Leave { revoke: Some((*id).to_owned()) },
        ("policy", []) => SlashCommand::Policy,
        ("export", []) => SlashCommand::Export { form: "markdown".to_owned(), file: None },
        ("export", [file]) if form_of(file).is_some() => SlashCommand::Export {
            form: form_of(file).unwrap_or("markdown").to_owned(),
            file: Some((*file).to_owned()),
        },
        ("export", [form @ ("markdown" | "json" | "html"), rest @ ..]) if rest.len() < 2 => {
            SlashCommand::Export {
                form: (*form).to_owned(),
                file: rest.first().map(|file| (*file).to_owned()),
            }
        }
        ("sessions", []) => SlashCommand::Sessions,
        ("new", []) => SlashCommand::New,
        ("again", []) => SlashCommand::Again,
        ("quit" | "exit", []) => SlashCommand::Quit,
        _ => return ChatInput::Unknown(unknown(name)),
    };
    ChatInput::Order(order)
}

/// The form of a file, by how its name ends.
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
    let known = ORDERS.iter().find(|(order, ..)| order.strip_prefix('/') == Some(name));
    match known {
        Some((order, what, _)) => format!("it is written {order} {what}"),
        None => {
            "there is no such order: /help names them; for the model, write it with two strokes".to_owned()
        }
    }
}

/// The orders that what is typed may become.
pub(super) fn fitting(text: &str) -> Vec<&'static (&'static str, &'static str, &'static str)> {
    if !text.starts_with('/') || text.contains(char::is_whitespace) {
        return Vec::new();
    }
    ORDERS.iter().filter(|(order, ..)| order.starts_with(text)).collect()
}

/// What is typed, completed as far as it is the only one.
pub(super) fn completed(text: &str) -> Option<String> {
    match fitting(text).as_slice() {
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
        let order = |text: &str| match read(text) {
            ChatInput::Order(order) => Some(order),
            _ => None,
        };
        for (name, ..) in &ORDERS {
            assert!(order(name).is_some(), "{name}");
        }
        let revoke = |id: &str| SlashCommand::Leave { revoke: Some(id.to_owned()) };
        assert_eq!(order("/leave revoke a1b2"), Some(revoke("a1b2")));
        let html = SlashCommand::Export { form: "html".to_owned(), file: Some("a.html".to_owned()) };
        assert_eq!(order("/export html a.html"), Some(html));
        for text in
            ["/etc/passwd is wrong", "/undo everything", "/export html a b", "/", "undo", "//undo", " "]
        {
            assert_eq!(order(text), None, "{text}");
        }
    }

    #[test]
    fn what_looks_like_an_order_is_never_said_to_the_model() {
        for text in ["/undoo", "/etc/passwd", "/leave them"] {
            assert!(matches!(read(text), ChatInput::Unknown(_)), "{text}");
        }
        assert!(matches!(read("//etc/passwd"), ChatInput::Word(word) if word == "/etc/passwd"));
    }

    #[test]
    fn an_order_is_completed_where_it_is_the_only_one() {
        assert_eq!(completed("/und").as_deref(), Some("/undo"));
        assert_eq!(completed("/ex").as_deref(), Some("/export "));
        assert_eq!((completed("/"), completed("u")), (None, None));
    }
}
