//! Every refusal has a page that says what to do.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use byleave_core::refusal::Code;

fn pages() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/refusals")
}

#[test]
fn every_code_has_a_page_that_says_what_to_do() {
    let index = fs::read_to_string(pages().join("README.md")).unwrap();
    for code in Code::ALL {
        let page = fs::read_to_string(pages().join(format!("{code}.md")))
            .unwrap_or_else(|error| panic!("docs/refusals/{code}.md: {error}"));
        assert!(page.starts_with(&format!("# `{code}`\n")), "{code}: the title is the code");
        assert!(page.contains(code.meaning().trim()), "{code}: the meaning is the one in the code");
        let (_, advice) = page.split_once("\n## What to do\n").unwrap_or_else(|| panic!("{code}: no advice"));
        assert!(advice.lines().any(|line| line.starts_with("- ")), "{code}: no advice");
        assert!(
            index.contains(&format!("| [`{code}`]({code}.md) | {} |", code.meaning().trim())),
            "{code}: not in the index"
        );
    }
}

#[test]
fn no_page_is_left_over_and_no_link_leads_nowhere() {
    let known: BTreeSet<String> =
        Code::ALL.iter().map(|code| format!("{code}.md")).chain(["README.md".into()]).collect();
    for entry in fs::read_dir(pages()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        assert!(known.contains(&name), "docs/refusals/{name} is the page of no code");
        let page = fs::read_to_string(entry.path()).unwrap();
        for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(known.contains(link), "docs/refusals/{name} links to {link}");
        }
    }
}
