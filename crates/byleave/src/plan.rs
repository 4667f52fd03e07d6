//! Plans: what a draft would do, worked out from the tool's permission class (T6), and what of the world it rests on.
//!
//! Looks at the file system to resolve paths and to read what an approval binds; changes nothing.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use byleave_core::digest::Digest;
use byleave_core::effect::{Bound, BoundState, Effect, Plan};
use byleave_core::manifest::{Class, Manifest, Role};
use byleave_core::refusal::{Code, Refusal};
use serde_json::Value;

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
        Role::Url => plan.effects.push(reach(text)),
        Role::Command => {
            plan.effects.push(Effect::Run {
                program: "sh".into(),
                argv: vec!["sh".into(), "-c".into(), text.clone()],
            });
            plan.effects.push(Effect::Unknown { why: "what the command does has not been read".into() });
        }
    }
    Ok(())
}

fn reach(url: &str) -> Effect {
    let parsed = reqwest::Url::parse(url).ok().and_then(|url| {
        let web = matches!(url.scheme(), "http" | "https");
        let port = url.port_or_known_default()?;
        url.host_str().filter(|_| web).map(|host| Effect::Reach { host: host.to_owned(), port })
    });
    parsed.unwrap_or_else(|| Effect::Unknown { why: format!("`{url}` is not a web address") })
}

/// The absolute path that a path names, links followed as far as it exists.
pub fn resolve(path: &str, site: &Site) -> Result<String, ToolFault> {
    if path.is_empty() || path.contains('\0') {
        return Err(ToolFault(format!("`{}` is not a path", path.escape_debug())));
    }
    let mut existing = site.cwd.join(path);
    let mut missing: Vec<std::ffi::OsString> = Vec::new();
    let resolved = loop {
        match fs::canonicalize(&existing) {
            Ok(base) => break missing.iter().rev().fold(base, |path, part| path.join(part)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A dangling link names something that is not beneath its parent: nobody can say what.
                if existing.symlink_metadata().is_ok() {
                    return Err(ToolFault(format!(
                        "`{path}` leads through a link to something that is not there"
                    )));
                }
                match existing.components().next_back() {
                    Some(Component::Normal(part)) => missing.push(part.to_owned()),
                    _ => return Err(ToolFault(format!("`{path}` cannot be resolved"))),
                }
                existing = existing.parent().map(Path::to_path_buf).unwrap_or_default();
            }
            Err(error) => return Err(ToolFault(format!("`{path}` cannot be resolved: {error}"))),
        }
    };
    into_text(resolved)
}

fn into_text(path: PathBuf) -> Result<String, ToolFault> {
    path.into_os_string()
        .into_string()
        .map_err(|path| ToolFault(format!("`{}` is not readable as text", path.to_string_lossy())))
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
        check(
            Class::Webfetch,
            json!({"url": "file:///etc/passwd"}),
            &["unknown: `file:///etc/passwd` is not a web address"],
        );
        check(Class::Generic, json!({"path": "b"}), &["invoke t"]);
        check(Class::Undeclared, json!({}), &["invoke t"]);
        check(Class::File, json!({}), &["unknown: `t` names no argument of its class"]);
        let bash = planned(Class::Bash, &json!({"command": "ls"}), &cwd).unwrap();
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
