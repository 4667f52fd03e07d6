//! Plans: what a draft would do, worked out from the tool's permission class (T6), and what of the world it rests on.
//!
//! Looks at the file system to resolve paths and to read what an approval binds; changes nothing.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use byleave_core::digest::Digest;
use byleave_core::effect::{Bound, BoundState, Danger, Effect, Plan};
use byleave_core::host;
use byleave_core::manifest::{Class, Manifest, Role};
use byleave_core::refusal::{Code, Refusal};
use byleave_shell::danger::Grade;
use byleave_shell::scene::Scene;
use reqwest::Url;
use serde_json::Value;

pub use crate::paths::resolve;

use crate::paths::into_text;
use crate::scene::Here;
use crate::tool::{Site, ToolFault};

/// Files larger than this are not bound by content; a plan that would have to is refused.
const BOUND_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Works out what a draft would do, from the class and the roles that the manifest declares.
pub fn by_class(manifest: &Manifest, arguments: &Value, site: &Site) -> Result<Plan, ToolFault> {
    let mut plan = Plan::default();
    let roles = roles(manifest, arguments);
    for (role, value) in &roles {
        add(&mut plan, *role, value, site)?;
    }
    let reads = plan.effects.iter().all(|effect| matches!(effect, Effect::Read { .. }));
    match manifest.permission_class {
        // The class says that it only reads; what it reads is judged by path where the arguments tell.
        Class::Readonly if reads => {
            plan.reads_only = true;
            if plan.effects.is_empty() {
                plan.effects.push(Effect::Invoke { tool: manifest.name.clone() });
            }
        }
        Class::File if !roles.is_empty() => plan.reads_only = reads,
        Class::Bash | Class::Webfetch if !roles.is_empty() => {}
        Class::File | Class::Bash | Class::Webfetch => plan
            .effects
            .push(Effect::Unknown { why: format!("`{}` names no argument of its class", manifest.name) }),
        Class::Readonly | Class::Generic | Class::Undeclared => {
            plan.effects.push(Effect::Invoke { tool: manifest.name.clone() });
        }
    }
    Ok(plan)
}

/// The arguments that mean something: as declared, and where nothing is declared, as the class expects them.
fn roles<'a>(manifest: &Manifest, arguments: &'a Value) -> Vec<(Role, &'a Value)> {
    let declared =
        manifest.roles.iter().filter_map(|(pointer, role)| Some((*role, arguments.pointer(pointer)?)));
    let declared: Vec<_> = declared.collect();
    if !manifest.roles.is_empty() {
        return declared;
    }
    let expected: &[(&str, Role)] = match manifest.permission_class {
        Class::Bash => &[("command", Role::Command)],
        Class::File => &[("path", Role::EditPath), ("file", Role::EditPath), ("file_path", Role::EditPath)],
        Class::Webfetch => &[("url", Role::Url)],
        Class::Readonly => {
            &[("path", Role::ReadPath), ("file", Role::ReadPath), ("file_path", Role::ReadPath)]
        }
        Class::Generic | Class::Undeclared => &[],
    };
    expected.iter().filter_map(|(name, role)| Some((*role, arguments.get(name)?))).collect()
}

/// Adds the effects of one argument; a list is all of its items.
fn add(plan: &mut Plan, role: Role, value: &Value, site: &Site) -> Result<(), ToolFault> {
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text,
        Value::Array(items) => return items.iter().try_for_each(|item| add(plan, role, item, site)),
        other => return Err(ToolFault(format!("expected a text, got `{other}`"))),
    };
    match role {
        Role::ReadPath => plan.effects.push(Effect::Read { path: resolve(text, site)? }),
        Role::WritePath => plan.effects.push(Effect::Write { path: resolve(text, site)? }),
        Role::DeletePath => plan.effects.push(Effect::Delete { path: resolve(text, site)? }),
        Role::EditPath => {
            let path = resolve(text, site)?;
            plan.bound.push(bind(&path)?);
            plan.effects.push(Effect::Read { path: path.clone() });
            plan.effects.push(Effect::Write { path });
        }
        Role::Url => plan.effects.extend(reach(text)?),
        Role::Command => {
            let here = Here::at(site)
                .ok_or_else(|| ToolFault("the working directory is not readable as text".into()))?;
            command(plan, text, &here);
        }
    }
    Ok(())
}

/// Adds what a shell command would do: its effects, and what about it is dangerous.
pub fn command(plan: &mut Plan, text: &str, scene: &dyn Scene) {
    let account = byleave_shell::tell(text, scene);
    plan.effects.extend(account.effects);
    plan.dangers.extend(account.dangers.into_iter().map(|danger| Danger {
        id: danger.id.clone(),
        why: danger.why.clone(),
        denied: danger.grade == Grade::Deny,
    }));
}

/// The hosts that an address leads to: its own, and those of addresses carried in it, which its host may pass on.
fn reach(address: &str) -> Result<Vec<Effect>, ToolFault> {
    let wrong = |why: &str| ToolFault(format!("`{}` {why}", address.escape_debug()));
    let url = Url::parse(address).map_err(|_| wrong("is not a web address"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is not a web address: only http and https are fetched"));
    }
    let lower = address.to_ascii_lowercase();
    if lower.contains("%0d") || lower.contains("%0a") {
        return Err(wrong("has a line break in it"));
    }
    let effect = |url: &Url| {
        let host = url.host_str().and_then(host::normal)?;
        Some(Effect::Reach { host, port: url.port_or_known_default()? })
    };
    let mut effects = vec![effect(&url).ok_or_else(|| wrong("names no host"))?];
    for carried in carried(&url) {
        match Url::parse(&carried).ok().as_ref().and_then(effect) {
            Some(effect) if effects.contains(&effect) => {}
            Some(effect) => effects.push(effect),
            None => {
                effects.push(Effect::Unknown { why: "an address inside the address cannot be read".into() })
            }
        }
    }
    Ok(effects)
}

/// The addresses that stand in the path, the query or the fragment of another, however often they are encoded.
fn carried(url: &Url) -> Vec<String> {
    let mut text =
        [Some(url.path()), url.query(), url.fragment()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    // Three times is more than anyone means well.
    for _ in 0..3 {
        let lower = text.to_ascii_lowercase();
        for (at, _) in lower.match_indices("://") {
            let scheme = ["https", "http"]
                .iter()
                .find(|scheme| lower.get(..at).is_some_and(|before| before.ends_with(*scheme)));
            let rest = lower.get(at..).unwrap_or_default();
            let end = rest
                .find(|c: char| c.is_whitespace() || matches!(c, '&' | '"' | '\'' | '<' | '>' | ')'))
                .unwrap_or(rest.len());
            found.extend(scheme.map(|scheme| format!("{scheme}{}", rest.get(..end).unwrap_or_default())));
        }
        let decoded = percent_decoded(&text);
        if decoded == text {
            break;
        }
        text = decoded;
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a path is now, to be held against what it is later.
pub fn bind(path: &str) -> Result<Bound, ToolFault> {
    let fault = |error: io::Error| ToolFault(format!("`{path}` cannot be looked at: {error}"));
    let state = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => BoundState::Missing,
        Err(error) => return Err(fault(error)),
        Ok(found) if found.is_dir() => BoundState::Directory { device: found.dev(), inode: found.ino() },
        Ok(found) if !found.is_file() => return Err(ToolFault(format!("`{path}` is not a file"))),
        Ok(found) if found.len() > BOUND_BYTES_MAX => {
            return Err(ToolFault(format!("`{path}` is too large to be bound ({} bytes)", found.len())));
        }
        Ok(_) => BoundState::Content(Digest::of(&fs::read(path).map_err(fault)?)),
    };
    Ok(Bound { path: path.to_owned(), state })
}

/// Adds the working directory itself to what a plan rests on.
pub(crate) fn bind_directory(plan: &mut Plan, site: &Site) -> Result<(), ToolFault> {
    let cwd = into_text(site.cwd.clone())?;
    let bound = bind(&cwd)?;
    if !matches!(bound.state, BoundState::Directory { .. }) {
        return Err(ToolFault(format!("the working directory `{cwd}` is not there")));
    }
    plan.bound.insert(0, bound);
    Ok(())
}

/// Refuses if anything that the plan rests on is not what it was.
pub(crate) fn still_bound(plan: &Plan) -> Result<(), Refusal> {
    for bound in &plan.bound {
        let code = match bound.state {
            BoundState::Directory { .. } => Code::DirectoryChanged,
            BoundState::Missing | BoundState::Content(_) => Code::ContentChanged,
        };
        match bind(&bound.path) {
            Ok(now) if now == *bound => {}
            Ok(_) => {
                return Err(Refusal::new(
                    code,
                    format!("`{}` has changed since it was approved", bound.path),
                ));
            }
            Err(fault) => return Err(Refusal::new(code, fault.to_string())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use byleave_core::id::{AgentId, SessionId};
    use serde_json::json;

    fn site(cwd: &Path) -> Site {
        Site {
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("a").unwrap(),
            cwd: cwd.to_path_buf(),
        }
    }

    fn planned(class: Class, arguments: &Value, cwd: &Path) -> Result<Vec<String>, ToolFault> {
        let mut manifest = Manifest::new("t", "", json!({}));
        manifest.permission_class = class;
        let plan = by_class(&manifest, arguments, &site(cwd))?;
        let root = cwd.to_str().unwrap();
        Ok(plan.effects.iter().map(|effect| effect.to_string().replace(root, "")).collect())
    }

    // req: T6
    #[test]
    fn every_class_is_planned_by_its_own_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        fs::create_dir(cwd.join("a")).unwrap();
        let check = |class, arguments: Value, expected: &[&str]| {
            assert_eq!(planned(class, &arguments, &cwd).unwrap(), expected, "{class:?} {arguments}");
        };
        check(Class::File, json!({"path": "a/../b"}), &["read /b", "write /b"]);
        assert!(
            planned(Class::File, &json!({"path": "nowhere/../b"}), &cwd).is_err(),
            "as the kernel would say"
        );
        check(Class::Readonly, json!({"path": "b"}), &["read /b"]);
        check(Class::Readonly, json!({}), &["invoke t"]);
        check(Class::Webfetch, json!({"url": "https://Example.org/x"}), &["reach example.org:443"]);
        for (url, wanted) in [
            ("http://127.1:8080/", &["reach 127.0.0.1:8080"][..]),
            ("http://%31%32%37.0.0.1/", &["reach 127.0.0.1:80"]),
            ("http://[::ffff:7f00:1]/", &["reach 127.0.0.1:80"]),
            ("ht\ttp://0x7f000001/", &["reach 127.0.0.1:80"]),
            ("https://docs.example@evil.example/", &["reach evil.example:443"]),
            ("https://evil.example\\@docs.example/", &["reach evil.example:443"]),
            ("https://EVIL.example./", &["reach evil.example:443"]),
            ("https://a.example/?u=https://b.example/x&v=1", &["reach a.example:443", "reach b.example:443"]),
            (
                "https://a.example/?u=http%253A%252F%252F10.0.0.1",
                &["reach a.example:443", "reach 10.0.0.1:80"],
            ),
        ] {
            check(Class::Webfetch, json!({"url": url}), wanted);
        }
        for url in [
            "file:///w/.env",
            " FILE:///w/.env",
            "gopher://x/",
            "data:,x",
            "http+unix://%2Fx/",
            "x",
            "http://a/%0d%0aHost:b",
        ] {
            assert!(planned(Class::Webfetch, &json!({"url": url}), &cwd).is_err(), "{url}");
        }
        for path in
            ["~/.ssh/id", "~", "~u/x", "$HOME/.ssh/id", "${HOME}/x", "file:///w/.env", "C:\\x", "\\\\?\\x"]
        {
            assert!(planned(Class::Readonly, &json!({"path": path}), &cwd).is_err(), "{path}");
        }
        check(Class::Readonly, json!({"path": "$lib"}), &["read /$lib"]);
        check(Class::Readonly, json!({"path": "~tmp"}), &["read /~tmp"]);
        check(Class::Generic, json!({"path": "b"}), &["invoke t"]);
        check(Class::Undeclared, json!({}), &["invoke t"]);
        check(Class::File, json!({}), &["unknown: `t` names no argument of its class"]);
        let bash = planned(Class::Bash, &json!({"command": "cat b && $x"}), &cwd).unwrap();
        assert!(bash.contains(&"read /b".to_owned()), "{bash:?}");
        assert!(bash.iter().any(|effect| effect.starts_with("unknown")), "{bash:?}");
    }

    #[test]
    fn links_are_followed_and_dangling_ones_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), cwd.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", cwd.join("dangling")).unwrap();
        let real = outside.path().canonicalize().unwrap();
        assert_eq!(resolve("link/x", &site(&cwd)).unwrap(), real.join("x").to_str().unwrap());
        assert!(resolve("dangling", &site(&cwd)).is_err());
        assert!(resolve("dangling/x", &site(&cwd)).is_err());
        assert!(resolve("", &site(&cwd)).is_err());
        // What is above something that is not there, nobody can say: it may be made as a link.
        assert!(resolve("missing/../x", &site(&cwd)).is_err());
    }

    #[test]
    fn what_changed_is_no_longer_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let plan =
            |path: &Path| Plan { bound: vec![bind(path.to_str().unwrap()).unwrap()], ..Plan::default() };
        let missing = plan(&path);
        assert!(still_bound(&missing).is_ok());
        fs::write(&path, "1").unwrap();
        assert_eq!(still_bound(&missing).unwrap_err().code, Code::ContentChanged);
        let written = plan(&path);
        fs::write(&path, "2").unwrap();
        assert_eq!(still_bound(&written).unwrap_err().code, Code::ContentChanged);
        let inside = folder.path().join("d");
        fs::create_dir(&inside).unwrap();
        let directory = plan(&inside);
        fs::create_dir(folder.path().join("e")).unwrap();
        fs::remove_dir(&inside).unwrap();
        fs::rename(folder.path().join("e"), &inside).unwrap();
        assert_eq!(still_bound(&directory).unwrap_err().code, Code::DirectoryChanged);
    }
}
