//! Any text as a command: it is parsed quickly, and the result can be shown and evaluated.
#![no_main]

use std::sync::LazyLock;

use byleave_core::policy::Policy;
use byleave_core::decision::Verdict;
use byleave_fuzz::{PLACES, World, judge, plan};
use byleave_shell::parse_commands;
use libfuzzer_sys::fuzz_target;

static BUILTIN: LazyLock<Policy> = LazyLock::new(|| Policy::builtin(&PLACES).expect("the built-in rules"));

fuzz_target!(|text: &str| {
    let reading = parse_commands(text, &World);
    // A screen marks these positions in the text. A NUL is removed before.
    if !text.contains('\0') {
        let spans = reading.commands.iter().map(|command| &command.span);
        for span in spans.chain(reading.unresolved.iter().map(|riddle| &riddle.span)) {
            assert!(text.get(span.clone()).is_some(), "{span:?} is no place in the text");
        }
    }
    let plan = plan(text);
    // A plan without effects is never allowed.
    assert!(!plan.effects.is_empty() || judge(&BUILTIN, &plan) != Verdict::Allow);
});
