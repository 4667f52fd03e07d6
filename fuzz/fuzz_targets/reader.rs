//! Any text as a command: it is read, soon, and to something that can be shown and judged.
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
    // A screen marks these places in the text; a NUL is taken out before.
    if !text.contains('\0') {
        let spans = reading.commands.iter().map(|command| &command.span);
        for span in spans.chain(reading.unresolved.iter().map(|riddle| &riddle.span)) {
            assert!(text.get(span.clone()).is_some(), "{span:?} is no place in the text");
        }
    }
    let plan = plan(text);
    // Nothing to judge is never a proof.
    assert!(!plan.effects.is_empty() || judge(&BUILTIN, &plan) != Verdict::Allow);
});
