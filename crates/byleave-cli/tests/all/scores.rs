//! The page of scores: a section must match the measured results. `BYLEAVE_SCORES=write` writes it.

use std::path::Path;

/// Compares the text between two marks of docs/security/scores.md with the measured results.
pub(crate) fn check(begins: &str, ends: &str, section: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security/scores.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let parts = page.split_once(begins).and_then(|(before, rest)| Some((before, rest.split_once(ends)?)));
    if std::env::var("BYLEAVE_SCORES").is_ok_and(|what| what == "write") {
        let page = match parts {
            Some((before, (_, after))) => format!("{before}{begins}{section}{ends}{after}"),
            None => format!("{page}\n{begins}{section}{ends}"),
        };
        std::fs::write(&path, page).unwrap();
        return;
    }
    let written = parts.map(|(_, (written, _))| written);
    assert!(written == Some(section), "docs/security/scores.md is not what was seen:\n{section}");
}
