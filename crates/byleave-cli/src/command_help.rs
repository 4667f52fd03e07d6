//! The help text of the program: the commands in groups, and the options of every command.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// The visible commands, in groups.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Everyday", &["inbox", "rehearse", "undo", "diff", "log"]),
    ("Policy and audit", &["explain", "policy", "halt", "audit"]),
    ("Setup", &["init", "doctor", "config", "sandbox"]),
    ("Agent and server", &["agent", "serve"]),
];

/// The options that clap adds itself. It does so only when it builds every command, which a start has no time for.
const CLAP_OPTIONS: [(&str, &str); 2] = [("-h, --help", "Print help"), ("-V, --version", "Print version")];

/// Adds the help text to the command of the program. Help texts of its subcommands stay as they are.
pub(crate) fn with_grouped_help(command: Command) -> Command {
    let text = help_text(&command);
    command.override_help(text)
}

/// Rejects options of `log` and `serve` that are given together with a subcommand, which would ignore them.
///
/// clap can do so itself, but then it also rejects the options of every command in that place, as in `log --json show`.
pub(crate) fn check_conflicts(command: &mut Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((name @ ("log" | "serve"), matches)) = matches.subcommand() else { return Ok(()) };
    let (Some(command), Some(inner)) = (command.find_subcommand_mut(name), matches.subcommand_name()) else {
        return Ok(());
    };
    let is_typed = |option: &&Arg| {
        !option.is_global_set()
            && matches.try_contains_id(option.get_id().as_str()).is_ok_and(|known| known)
            && matches.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let Some(option) = command.get_arguments().find(is_typed) else { return Ok(()) };
    let option = option.get_long().unwrap_or_default();
    let what = format!("the option '--{option}' cannot be used with the subcommand '{inner}'");
    Err(command.error(ErrorKind::ArgumentConflict, what))
}

fn help_text(command: &Command) -> String {
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut lines = vec![about(command), String::new(), "Usage: byleave [OPTIONS] [COMMAND]".to_owned()];
    for (group, names) in GROUPS {
        let mut commands = names.iter().filter_map(|name| command.find_subcommand(name)).peekable();
        if commands.peek().is_some() {
            lines.extend([String::new(), format!("{group}:")]);
        }
        lines.extend(commands.map(|command| format!("  {:<10} {}", command.get_name(), about(command))));
    }
    let hidden = command.get_subcommands().filter(|command| command.is_hide_set());
    let hidden: Vec<&str> = hidden.map(Command::get_name).collect();
    lines.extend([String::new(), "For agents and scripts:".to_owned(), format!("  {}", hidden.join(", "))]);
    lines.extend([String::new(), "Options for every command:".to_owned()]);
    let options = command
        .get_arguments()
        .map(|option| (option_name(option), option.get_help().map(ToString::to_string).unwrap_or_default()));
    let added = CLAP_OPTIONS.map(|(name, about)| (name.to_owned(), about.to_owned()));
    lines.extend(options.chain(added).map(|(name, about)| format!("  {name:<20} {about}")));
    let more = "`byleave` alone shows the status. `byleave man` explains the exit codes.";
    lines.extend([String::new(), more.to_owned(), String::new()]);
    lines.join("\n")
}

/// Returns an option as it is typed.
fn option_name(option: &Arg) -> String {
    let short = option.get_short().map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
    let long = option.get_long().unwrap_or_default();
    let takes_value = option.get_action().takes_values();
    let value = option.get_value_names().unwrap_or_default().first().filter(|_| takes_value);
    match value {
        Some(value) => format!("{short}--{long} <{value}>"),
        None => format!("{short}--{long}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::command::Args;

    #[test]
    fn every_visible_command_is_in_one_group_and_there_are_at_most_fifteen() {
        let command = Args::command();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut visible: Vec<&str> = visible.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        if cfg!(all(feature = "agent", feature = "serve")) {
            assert_eq!(visible, grouped);
        }
        assert!(visible.len() <= 15);
    }

    #[test]
    fn the_help_fits_on_a_screen_of_80_by_40() {
        let mut command = with_grouped_help(Args::command());
        let text = command.render_long_help().to_string();
        assert!(text.lines().count() <= 40, "{} lines\n{text}", text.lines().count());
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}
