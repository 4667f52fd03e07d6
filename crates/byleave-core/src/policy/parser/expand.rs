//! Expands `~`, `{workspace}` and similar variables in patterns to the directories that they name.

use crate::pattern::escape_glob;
use crate::policy::path_variables::PathVariables;

/// The expander of path variables.
#[derive(Clone, Copy)]
pub(super) struct VariableExpander<'a> {
    pub(super) places: &'a PathVariables<'a>,
    pub(super) built_in: bool,
}

/// The expansion of a text.
pub(super) enum Expansion {
    /// The expanded texts.
    Texts(Vec<String>),
    /// A path in a directory that is not known. Only built-in rules may contain one.
    UnknownDirectory,
    /// An error, and what to do.
    Invalid(String, String),
}

impl<'a> VariableExpander<'a> {
    /// Expands a glob over paths. A variable at its start is replaced. A relative path is beneath the workspace. With `/` at its end it is
    /// the directory and everything in it.
    pub(super) fn expand_path(&self, text: &str) -> Expansion {
        if text.is_empty() {
            return invalid("an empty path can never match", "name a path");
        }
        let (start, rest) = match self.split_variable(text) {
            Ok(Some((place, rest))) => (escape_glob(place.trim_end_matches('/')), rest),
            Ok(None) if text.starts_with('/') || text.starts_with("**") => (String::new(), text),
            Ok(None) if text.starts_with('{') => (String::new(), text),
            Ok(None) => match self.places.workspace {
                Some(workspace) => (
                    format!("{}/", escape_glob(workspace.trim_end_matches('/'))),
                    text.trim_start_matches("./"),
                ),
                None if self.built_in => return Expansion::UnknownDirectory,
                None => {
                    return invalid(
                        format!("`{text}` is relative to a workspace, but there is no workspace"),
                        "begin the path with `/`, `~/`, or `**/` for any directory",
                    );
                }
            },
            Err(expanded) => return expanded,
        };
        let whole = format!("{start}{rest}");
        match whole.strip_suffix('/') {
            Some("") => Expansion::Texts(vec!["/".to_owned(), "/**".to_owned()]),
            Some(directory) => Expansion::Texts(vec![directory.to_owned(), format!("{directory}/**")]),
            // The variable is the root directory.
            None if whole.is_empty() => Expansion::Texts(vec!["/".to_owned()]),
            None => Expansion::Texts(vec![whole]),
        }
    }

    /// Expands a program: a name, or a path with a variable at its start. `./` is the workspace.
    pub(super) fn expand_program(&self, text: &str) -> Expansion {
        if !text.contains('/') {
            return Expansion::Texts(vec![text.to_owned()]);
        }
        match self.split_variable(text) {
            Ok(Some((place, rest))) => {
                Expansion::Texts(vec![format!("{}{rest}", place.trim_end_matches('/'))])
            }
            Ok(None) if text.starts_with('/') => Expansion::Texts(vec![text.to_owned()]),
            Ok(None) => match self.places.workspace {
                Some(workspace) => {
                    let inner = text.trim_start_matches("./");
                    Expansion::Texts(vec![format!("{}/{inner}", workspace.trim_end_matches('/'))])
                }
                None => invalid(
                    format!("`{text}` is relative to a workspace, but there is no workspace"),
                    "name the program by its absolute path",
                ),
            },
            Err(expanded) => expanded,
        }
    }

    /// Expands the same variables in an example, without escaping. `None` if a directory of a built-in rule is not known.
    pub(super) fn expand_example(&self, text: &str, path: bool) -> Option<String> {
        let (kind, target) = match text.split_once(':') {
            Some((kind @ ("read" | "write" | "delete"), target)) => (format!("{kind}:"), target.trim_start()),
            _ if path => (String::new(), text),
            _ => return Some(text.to_owned()),
        };
        match self.split_variable(target) {
            Ok(Some((place, rest))) => Some(format!("{kind}{}{rest}", place.trim_end_matches('/'))),
            Ok(None) if target.starts_with('/') => Some(text.to_owned()),
            Ok(None) => {
                let workspace = self.places.workspace.unwrap_or_default().trim_end_matches('/');
                Some(format!("{kind}{workspace}/{target}"))
            }
            Err(Expansion::UnknownDirectory) => None,
            Err(_) => Some(text.to_owned()),
        }
    }

    /// Returns the directory of the variable at the start of a text, and the rest.
    fn split_variable<'t>(&self, text: &'t str) -> Result<Option<(&'a str, &'t str)>, Expansion> {
        let PathVariables { workspace, home, state, config } = *self.places;
        let places = [
            ("~", "home directory", home),
            ("{home}", "home directory", home),
            ("{workspace}", "workspace", workspace),
            ("{state}", "state directory", state),
            ("{config}", "configuration directory", config),
        ];
        for (name, what, place) in places {
            let Some(rest) = text.strip_prefix(name) else { continue };
            if !rest.is_empty() && !rest.starts_with('/') {
                if name == "~" {
                    return Err(invalid(
                        format!("`{text}` is the home directory of another user"),
                        "write the full path",
                    ));
                }
                continue;
            }
            return match place {
                Some(place) => Ok(Some((place, rest))),
                None if self.built_in => Err(Expansion::UnknownDirectory),
                None => Err(invalid(
                    format!("cannot expand `{text}`: the {what} is not known"),
                    "write the full path",
                )),
            };
        }
        Ok(None)
    }
}

fn invalid(what: impl Into<String>, todo: impl Into<String>) -> Expansion {
    Expansion::Invalid(what.into(), todo.into())
}
