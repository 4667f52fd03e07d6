//! Strips texts from one argument (R11).

use serde_json::Value;

use crate::review::{InputReviewer, InputSubject, Opinion, input_reviewer};

/// Returns a reviewer of arguments that removes all of these texts from the argument with this name.
///
/// It repeats until none is left, because a removal may form a new match. An argument that exists and is not a text is
/// refused, because its content was not checked.
pub fn strip(
    argument: impl Into<String>,
    texts: impl IntoIterator<Item = impl Into<String>>,
) -> impl InputReviewer {
    let argument: String = argument.into();
    let texts: Vec<String> =
        texts.into_iter().map(Into::into).filter(|text: &String| !text.is_empty()).collect();
    input_reviewer("strip", move |subject: InputSubject<'_>| {
        let before = match subject.arguments.get(&argument) {
            None => return Opinion::Pass,
            Some(Value::String(before)) => before,
            Some(_) => return Opinion::deny(format!("`{argument}` is not a string")),
        };
        let after = strip_text(before, &texts);
        if after == *before {
            return Opinion::Pass;
        }
        let mut arguments = subject.arguments.clone();
        if let Some(place) = arguments.get_mut(&argument) {
            *place = Value::String(after);
        }
        let list = texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ");
        Opinion::change(arguments, format!("removed {list} from `{argument}`"))
    })
}

fn strip_text(text: &str, gone: &[String]) -> String {
    let mut text = text.to_owned();
    while let Some(found) = gone.iter().find(|found| text.contains(found.as_str())) {
        text = text.replace(found.as_str(), "");
    }
    text
}
