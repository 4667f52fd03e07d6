//! Shows a standing approval as a policy rule: what it allows, and its limits in words.
//!
//! The text is for people to read before and after they give one. It must not contain anything that acts on a terminal. Parsed as a policy
//! file, it matches exactly the effects that the standing approval covers.

use std::fmt::Write as _;

use super::StandingApproval;
use crate::call::Millis;
use crate::effect::Effect;
use crate::escape::{EscapeLevel, is_printable, make_visible};
use crate::pattern::{Pattern, escape_glob};
use crate::time_format::{format_duration, format_utc};

impl StandingApproval {
    /// Returns the equivalent rule as it would be in a policy file. Comments say what a rule cannot express.
    pub fn to_rule_toml(&self, now: Millis) -> String {
        let mut text = if self.is_for_any_tool() {
            "# a standing approval, whichever tool does it\n".to_owned()
        } else {
            format!("# a standing approval for calls of the tool {}\n", quote_toml(&self.tool))
        };
        for effects in self.scope.iter().filter_map(plan_effects) {
            text.push_str("# for exactly this call, which no rule can express:\n");
            for effect in effects {
                text.push_str(&format!("#   {}\n", make_visible(&effect.to_string(), EscapeLevel::Name)));
            }
        }
        let keys = patterns_to_toml(&self.scope);
        if !keys.is_empty() {
            text.push_str("[[rule]]\nverdict = \"allow\"\n");
            for line in keys {
                text.push_str(&line);
                text.push('\n');
            }
            if let Some(session) = &self.session {
                text.push_str(&format!(
                    "when = {{ session = {} }}\n",
                    quote_toml(&escape_glob(session.as_str()))
                ));
            }
        }
        text.push_str(&format!("# valid {}\n", self.describe_limits(now)));
        text.push_str("# never for calls that are dangerous, cannot be undone or were not understood, and never against a deny\n");
        text
    }

    /// Returns the scope in words: `write /w/notes/**`. Not escaped.
    pub fn describe_scope(&self) -> String {
        let describe = |pattern: &Pattern| match pattern {
            Pattern::Run(words) => format!("run {}", words.join(" ")),
            Pattern::RunExact(words) => format!("run exactly {}", words.join(" ")),
            Pattern::Read(glob) => format!("read {glob}"),
            Pattern::Write(glob) => format!("write {glob}"),
            Pattern::Delete(glob) => format!("delete {glob}"),
            Pattern::Reach(host) => format!("reach {host}"),
            Pattern::Send(host) => format!("send to {host}"),
            Pattern::Invoke(tool) => format!("use {tool}"),
            Pattern::Plan(_) => "exactly this call".to_owned(),
        };
        self.scope.iter().map(describe).collect::<Vec<_>>().join(", ")
    }

    /// Returns the limits in words: the session, the time, the number of uses.
    pub fn describe_limits(&self, now: Millis) -> String {
        let session = match &self.session {
            Some(session) => format!("only in the session {}", quote_toml(session.as_str())),
            None => "in every session".to_owned(),
        };
        let time = match self.expires_at.map(|until| (until, until.checked_sub(now).filter(|left| *left > 0)))
        {
            Some((until, Some(left))) => {
                format!("until {} (left: {})", format_utc(until), format_duration(left))
            }
            Some((until, None)) => format!("until {}, which has passed", format_utc(until)),
            None => "with no time limit".to_owned(),
        };
        let uses = match self.max_uses {
            Some(1) => "once".to_owned(),
            Some(max) => format!("at most {max} times"),
            None => "any number of times".to_owned(),
        };
        format!("{session}, {time}, {uses}")
    }
}

/// Returns the effects of a whole plan, if the pattern is for one.
fn plan_effects(pattern: &Pattern) -> Option<&[Effect]> {
    match pattern {
        Pattern::Plan(effects) => Some(effects),
        _ => None,
    }
}

/// Returns the patterns as keys of a rule in a policy file, one line for each kind. A rule cannot match a whole plan.
pub fn patterns_to_toml(patterns: &[Pattern]) -> Vec<String> {
    let mut keys: Vec<(&str, Vec<String>)> = Vec::new();
    for pattern in patterns {
        let text = match pattern {
            Pattern::Run(words) => quote_toml(&words.join(" ")),
            Pattern::RunExact(words) => {
                let words: Vec<String> = words.iter().map(|word| quote_toml(word)).collect();
                format!("[{}]", words.join(", "))
            }
            Pattern::Read(text) | Pattern::Write(text) | Pattern::Delete(text) => quote_toml(text),
            Pattern::Reach(text) | Pattern::Send(text) | Pattern::Invoke(text) => quote_toml(text),
            Pattern::Plan(_) => continue,
        };
        match keys.iter_mut().find(|(known, _)| *known == pattern.kind()) {
            Some((_, texts)) if texts.contains(&text) => {}
            Some((_, texts)) => texts.push(text),
            None => keys.push((pattern.kind(), vec![text])),
        }
    }
    keys.into_iter().map(|(key, texts)| format!("{key} = [{}]", texts.join(", "))).collect()
}

/// Quotes a text for TOML. The result contains nothing that acts on a terminal.
fn quote_toml(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            // Writing to a string cannot fail.
            c => write!(out, "\\U{:08x}", u32::from(c)).unwrap_or_default(),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{SessionId, StandingApprovalId};
    use crate::policy::{Layer, PathVariables, RuleFile, SkipExamples, load_rules};

    fn leave(scope: Vec<Pattern>) -> StandingApproval {
        let id = StandingApprovalId::new(uuid::Uuid::from_u128(1));
        StandingApproval { id, tool: "bash".into(), scope, session: None, expires_at: None, max_uses: None }
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    // req: R5
    #[test]
    fn the_rule_is_about_what_the_leave_covers() {
        let scope = vec![
            Pattern::Run(words(&["git", "push"])),
            Pattern::RunExact(words(&["/usr/bin/git", "commit", "-m", "a \"b\"\n\u{1b}[2J c", "$(x)"])),
            Pattern::Write("/w/a b[*]".into()),
            Pattern::Reach("example.org:443".into()),
            Pattern::Send("example.org:443".into()),
            Pattern::Invoke("mcp_a_x".into()),
        ];
        let mut given = leave(scope.clone());
        given.session = SessionId::new("s[1]").ok();
        given.tool = "two\nlines".into();
        let text = given.to_rule_toml(0);
        assert!(text.chars().all(|c| c == '\n' || is_printable(c)), "{text:?}");
        let file = RuleFile { name: "leave", layer: Layer::User, text: &text };
        let mut rules = load_rules(&file, &PathVariables::default(), &SkipExamples).unwrap().rules;
        let rule = rules.pop().unwrap();
        assert!(rules.is_empty());
        let sorted = |mut patterns: Vec<Pattern>| {
            patterns.sort_by_key(|pattern| format!("{pattern:?}"));
            patterns
        };
        assert_eq!(sorted(rule.patterns), sorted(scope));
        assert_eq!(rule.when.session.as_deref(), Some("s[[]1[]]"));
    }

    // req: R5
    #[test]
    fn a_leave_for_one_plan_is_no_rule() {
        let delete = Effect::Delete { path: "/w/a\n[[rule]]".into() };
        let text = leave(vec![Pattern::Plan(vec![delete])]).to_rule_toml(0);
        assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
        assert!(text.contains("delete /w/a"), "{text}");
    }

    #[test]
    fn bounds_are_said_in_words() {
        let mut given = leave(Vec::new());
        assert_eq!(given.describe_limits(0), "in every session, with no time limit, any number of times");
        given.session = SessionId::new("s").ok();
        given.expires_at = Some(7_200_000);
        given.max_uses = Some(3);
        let wanted = "only in the session \"s\", until 1970-01-01 02:00:00Z (left: 2 h), at most 3 times";
        assert_eq!(given.describe_limits(0), wanted);
        assert!(given.describe_limits(7_200_000).contains("which has passed"));
    }
}
