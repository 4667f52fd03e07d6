//! Strips texts from one argument (R11).

use serde_json::Value;

use crate::review::{InputReviewer, InputSubject, Opinion, input};

/// A reviewer of arguments that takes every one of these texts out of the argument with this name.
///
/// Until none is left: what closes up around a gap is looked at again. An argument that is there and is no text is
/// refused, because what is in it was not looked at.
pub fn strip(
    argument: impl Into<String>,
    texts: impl IntoIterator<Item = impl Into<String>>,
) -> impl InputReviewer {
    let argument: String = argument.into();
    let texts: Vec<String> =
        texts.into_iter().map(Into::into).filter(|text: &String| !text.is_empty()).collect();
    input("strip", move |subject: InputSubject<'_>| {
        let before = match subject.arguments.get(&argument) {
            None => return Opinion::Pass,
            Some(Value::String(before)) => before,
            Some(_) => return Opinion::deny(format!("`{argument}` is no text")),
        };
        let after = stripped(before, &texts);
        if after == *before {
            return Opinion::Pass;
        }
        let mut arguments = subject.arguments.clone();
        if let Some(place) = arguments.get_mut(&argument) {
            *place = Value::String(after);
        }
        let list = texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ");
        Opinion::change(arguments, format!("{list} taken out of `{argument}`"))
    })
}

fn stripped(text: &str, gone: &[String]) -> String {
    let mut text = text.to_owned();
    while let Some(found) = gone.iter().find(|found| text.contains(found.as_str())) {
        text = text.replace(found.as_str(), "");
    }
    text
}
