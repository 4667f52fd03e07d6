//! Scopes of standing approvals as people write them: a kind of effect, a colon and a pattern.

use byleave_gate::core::pattern::{Pattern, PatternMatcher};
use byleave_gate::core::policy::class_judged_by_effects;
use serde_json::json;

use crate::error::CliError;

/// Parses a scope, and checks that it can match something.
pub(crate) fn parse(typed: &str) -> Result<Pattern, CliError> {
    let wrong = |why: &str| CliError::new(format!("cannot use scope `{typed}`: {why}"));
    let shape =
        "write run, run-exact, read, write, delete, reach, send, invoke or plan, a colon, and a pattern";
    let (kind, rest) = typed
        .split_once(':')
        .ok_or_else(|| wrong("the colon is missing").hint(format!("{shape}, as in `write:/w/notes/**`")))?;
    let text = rest.trim().to_owned();
    let pattern = match kind.trim() {
        "run" => Pattern::Run(text.split_whitespace().map(str::to_owned).collect()),
        "run-exact" => Pattern::RunExact(serde_json::from_str(&text).map_err(|_| {
            wrong("the pattern is not a list of words")
                .hint("write it as in `'run-exact:[\"git\", \"push\"]'`")
        })?),
        "read" => Pattern::Read(text),
        "write" => Pattern::Write(text),
        "delete" => Pattern::Delete(text),
        "reach" => Pattern::Reach(text),
        "send" => Pattern::Send(text),
        "invoke" => Pattern::Invoke(text),
        "plan" => Pattern::Plan(
            serde_json::from_str(&text)
                .map_err(|_| wrong("the pattern is not a list of effects as `--json` shows them"))?,
        ),
        other => return Err(wrong(&format!("there is no effect `{other}`")).hint(shape)),
    };
    if let Pattern::Read(glob) | Pattern::Write(glob) | Pattern::Delete(glob) = &pattern
        && !glob.starts_with('/')
        && !glob.starts_with("**/")
    {
        let hint = "begin the pattern with `/`, or with `**/` for any directory";
        return Err(wrong("effects have absolute paths, so the pattern would match nothing").hint(hint));
    }
    if let Pattern::Invoke(tool) = &pattern
        && class_judged_by_effects(tool).is_some()
    {
        let hint = "use run, read, write, delete, reach or send instead";
        return Err(wrong(
            "calls of this tool are evaluated by their effects, so the pattern would match nothing",
        )
        .hint(hint));
    }
    PatternMatcher::new(pattern.clone()).map_err(|bad| wrong(&bad.to_string()))?;
    Ok(pattern)
}

/// Formats a scope as it is written.
pub(crate) fn format(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Run(words) => format!("run:{}", words.join(" ")),
        Pattern::RunExact(words) => format!("run-exact:{}", json!(words)),
        Pattern::Read(glob) => format!("read:{glob}"),
        Pattern::Write(glob) => format!("write:{glob}"),
        Pattern::Delete(glob) => format!("delete:{glob}"),
        Pattern::Reach(host) => format!("reach:{host}"),
        Pattern::Send(host) => format!("send:{host}"),
        Pattern::Invoke(tool) => format!("invoke:{tool}"),
        Pattern::Plan(effects) => format!("plan:{}", json!(effects)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let scopes = [
            "write:/w/**",
            "read:**/a b",
            "delete:/x",
            "run:git log",
            "reach:*.example.org",
            "send:api.example.org:443",
            "invoke:mcp_*",
            r#"run-exact:["git","push","a b"]"#,
            r#"plan:[{"kind":"delete","path":"/w"}]"#,
        ];
        for scope in scopes {
            assert_eq!(format(&parse(scope).unwrap()), scope);
        }
        for wrong in [
            "",
            "write",
            "/w/**",
            "write:notes/**",
            "write:",
            "eat:/w",
            "reach:http://x",
            "run:",
            "write:/[",
            "run-exact:git",
            "run-exact:[]",
            "plan:[]",
            "plan:/w",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
