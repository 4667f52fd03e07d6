//! Every refusal code has its page in docs/refusals/, and there are no other pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use byleave_core::refusal::Code;

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/refusals")
}

fn page(code: Code) -> String {
    let path = pages().join(format!("{code}.md"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("no page for `{code}`: {error}"))
}

// req: A1
#[test]
fn every_code_has_a_page_that_says_what_to_do() {
    for code in Code::ALL {
        let page = page(*code);
        let mut lines = page.lines();
        assert_eq!(
            lines.next(),
            Some(format!("# `{code}`").as_str()),
            "the page of `{code}` has another title"
        );
        let means = lines.find(|line| !line.trim().is_empty()).unwrap_or_default();
        assert!(
            !means.is_empty() && !means.starts_with('#'),
            "the page of `{code}` does not say what it means"
        );
        for section in ["## Why it happens", "## What to do"] {
            let mut below = page.lines().skip_while(|line| *line != section).skip(1);
            let first = below.find(|line| !line.trim().is_empty()).unwrap_or_default();
            assert!(
                !first.is_empty() && !first.starts_with('#'),
                "the page of `{code}` says nothing under `{section}`"
            );
        }
    }
}

#[test]
fn no_page_is_left_over() {
    let codes: BTreeSet<String> = Code::ALL.iter().map(|code| format!("{code}.md")).collect();
    for item in fs::read_dir(pages()).unwrap() {
        let name = item.unwrap().file_name().into_string().unwrap();
        assert!(
            name == "README.md" || codes.contains(&name),
            "`docs/refusals/{name}` is the page of no code"
        );
    }
}

#[test]
fn the_index_names_every_code_once_and_in_its_own_words() {
    let index = fs::read_to_string(pages().join("README.md")).unwrap();
    for code in Code::ALL {
        let row = format!("| [`{code}`]({code}.md) | {} |", code.meaning().trim().trim_end_matches('.'));
        let times = index.lines().filter(|line| *line == row).count();
        assert_eq!(times, 1, "docs/refusals/README.md should have this line once: {row}");
    }
    let rows = index.lines().filter(|line| line.starts_with("| [`")).count();
    assert_eq!(rows, Code::ALL.len(), "the index names something that is no code");
}
