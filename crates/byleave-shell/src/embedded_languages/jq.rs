//! Scans jq programs. They only compute, except for a few words.

use super::ScriptEffect;

/// Returns the effects of a jq program besides computing. Modules are files, so words that load them are reported. The
/// environment may hold secrets. `input` only reads on.
pub(crate) fn jq(text: &str) -> Vec<ScriptEffect> {
    let mut deeds = Vec::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '$')) {
        match word {
            "import" | "include" | "modulemeta" | "get_search_list" => {
                deeds.push(ScriptEffect::Unknown(format!("jq program: `{word}` loads other files")));
            }
            "env" | "$ENV" => {
                deeds.push(ScriptEffect::Unknown(format!("jq program: `{word}` prints the environment")))
            }
            _ => {}
        }
    }
    deeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_files() {
        assert_eq!(jq(".dependencies | keys[]"), []);
        assert_ne!(jq("import \"a\" as a; ."), []);
        assert_ne!(jq("env.TOKEN"), []);
        assert_ne!(jq("include \"/ws/x\"; ."), []);
    }
}
