//! Computes plans: the effects of a draft from the tool's permission class (T6), and the files that the plan depends on.
//!
//! It reads the file system to resolve paths and to bind their content. It must not change anything.

mod argument_scan;
mod git_objects;
mod hosts;
mod patch;
mod schema_urls;
mod stored_content;

use byleave_core::effect::{Danger, Effect, Plan};
use byleave_core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_shell::danger::DangerSeverity;
use byleave_shell::display_tree::CommandTree;
use byleave_shell::repository::repository_names;
use byleave_shell::shell_env::ShellEnv;
use serde_json::Value;

pub use argument_scan::add_argument_effects;
pub use stored_content::name_stored_content;

use crate::local_shell_env::LocalShellEnv;
use crate::path_resolution::resolve_argument;
use crate::plan_bindings::capture_binding;
use crate::tool::{ToolContext, ToolError};

/// Predicts the effects of a draft from the permission class and the roles in the manifest.
pub fn plan_by_class(manifest: &Manifest, arguments: &Value, site: &ToolContext) -> Result<Plan, ToolError> {
    let mut plan = Plan::default();
    let roles = argument_roles(manifest, arguments);
    for (role, value) in &roles {
        add_argument(&mut plan, *role, value, site)?;
    }
    if roles.iter().any(|(role, _)| *role != ArgumentRole::Command) {
        add_other_names(&mut plan, site);
    }
    add_undeclared_arguments(&mut plan, manifest, arguments);
    if manifest.permission_class == PermissionClass::Undeclared && manifest.roles.is_empty() {
        add_argument_effects(&mut plan, arguments, site, false);
    }
    if plan.effects.iter().any(|effect| matches!(effect, Effect::Write { .. })) {
        schema_urls::add_schema_hosts(&mut plan, arguments);
    }
    let reads = plan.effects.iter().all(|effect| matches!(effect, Effect::Read { .. }));
    match manifest.permission_class {
        // The class says that it only reads. Reads are evaluated by path if the arguments name one.
        PermissionClass::Readonly if reads => {
            plan.read_only = true;
            if plan.effects.is_empty() {
                plan.effects.push(Effect::Invoke { tool: manifest.name.clone() });
            }
        }
        PermissionClass::File if !roles.is_empty() => plan.read_only = reads,
        PermissionClass::Bash | PermissionClass::Webfetch if !roles.is_empty() => {}
        PermissionClass::File | PermissionClass::Bash | PermissionClass::Webfetch => {
            plan.effects.push(Effect::Unknown {
                reason: format!(
                    "the tool `{}` declares no argument with a role for its class",
                    manifest.name
                ),
            })
        }
        PermissionClass::Readonly | PermissionClass::Generic | PermissionClass::Undeclared => {
            plan.effects.push(Effect::Invoke { tool: manifest.name.clone() });
        }
    }
    plan.deny_control_ports();
    Ok(plan)
}

/// Returns the other names of these files, by which rules may know them: the links that lead to them.
pub fn other_names<'a>(paths: impl IntoIterator<Item = &'a str>, site: &ToolContext) -> Vec<String> {
    let Some(env) = LocalShellEnv::for_context(site) else { return Vec::new() };
    let mut names: Vec<String> = paths.into_iter().flat_map(|path| env.other_names(path)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Adds the other names of the files of a tool: its hard links, and the name that rules know if it belongs to a repository without `.git`.
/// A tool that changes a file replaces it, so only rules against the change of another name apply.
fn add_other_names(plan: &mut Plan, site: &ToolContext) {
    let Some(env) = LocalShellEnv::for_context(site) else { return };
    let mut other: Vec<Effect> = Vec::new();
    for effect in &plan.effects {
        match effect {
            Effect::Read { path } => {
                other.extend(env.other_names(path).into_iter().map(|path| Effect::Read { path }));
            }
            Effect::Write { path } => {
                let links = env.other_names(path).into_iter();
                let names = links.chain(repository_names(&env, path, &[]));
                other.extend(names.map(|path| Effect::Write { path }));
            }
            _ => {}
        }
    }
    let tentative = other.clone();
    plan.add_predicted(other, &tentative);
}

/// Marks arguments that are not in the schema as unknown effects. Otherwise they would reach the tool without evaluation.
fn add_undeclared_arguments(plan: &mut Plan, manifest: &Manifest, arguments: &Value) {
    let known = manifest.input_schema.get("properties").and_then(Value::as_object);
    let (Some(known), Some(given)) = (known, arguments.as_object()) else { return };
    if matches!(manifest.permission_class, PermissionClass::Generic | PermissionClass::Undeclared) {
        return;
    }
    for name in given.keys().filter(|name| !known.contains_key(*name)) {
        let why =
            format!("the tool `{}` does not declare its argument `{}`", manifest.name, name.escape_debug());
        plan.effects.push(Effect::Unknown { reason: why });
    }
}

/// Returns the arguments with a role: as declared or, if nothing is declared, as the class expects them.
fn argument_roles<'a>(manifest: &Manifest, arguments: &'a Value) -> Vec<(ArgumentRole, &'a Value)> {
    let declared =
        manifest.roles.iter().filter_map(|(pointer, role)| Some((*role, arguments.pointer(pointer)?)));
    let declared: Vec<_> = declared.collect();
    if !manifest.roles.is_empty() {
        return declared;
    }
    let expected: &[(&str, ArgumentRole)] = match manifest.permission_class {
        PermissionClass::Bash => &[("command", ArgumentRole::Command)],
        PermissionClass::File => &[
            ("path", ArgumentRole::EditPath),
            ("file", ArgumentRole::EditPath),
            ("file_path", ArgumentRole::EditPath),
            ("patch", ArgumentRole::Patch),
        ],
        PermissionClass::Webfetch => &[("url", ArgumentRole::Url)],
        PermissionClass::Readonly => &[
            ("path", ArgumentRole::ReadPath),
            ("file", ArgumentRole::ReadPath),
            ("file_path", ArgumentRole::ReadPath),
        ],
        PermissionClass::Generic | PermissionClass::Undeclared => &[],
    };
    expected.iter().filter_map(|(name, role)| Some((*role, arguments.get(name)?))).collect()
}

/// Adds the effects of one argument. A list has the effects of all its items.
pub fn add_argument(
    plan: &mut Plan,
    role: ArgumentRole,
    value: &Value,
    site: &ToolContext,
) -> Result<(), ToolError> {
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text,
        Value::Array(items) => return items.iter().try_for_each(|item| add_argument(plan, role, item, site)),
        other => return Err(ToolError(format!("expected a string, got `{other}`"))),
    };
    match role {
        ArgumentRole::ReadPath => {
            plan.effects.push(Effect::Read { path: resolve_argument(text, &site.cwd)? })
        }
        ArgumentRole::WritePath => {
            plan.effects.push(Effect::Write { path: resolve_argument(text, &site.cwd)? })
        }
        ArgumentRole::DeletePath => {
            plan.effects.push(Effect::Delete { path: resolve_argument(text, &site.cwd)? })
        }
        ArgumentRole::EditPath => {
            let path = resolve_argument(text, &site.cwd)?;
            plan.bindings.push(capture_binding(&path)?);
            plan.effects.push(Effect::Read { path: path.clone() });
            plan.effects.push(Effect::Write { path });
        }
        ArgumentRole::Patch => patch::add_patch(plan, text, &site.cwd)?,
        ArgumentRole::Url => plan.effects.extend(hosts::url_effects(text)?),
        ArgumentRole::Command => {
            let here = LocalShellEnv::for_context(site)
                .ok_or_else(|| ToolError("the path of the working directory is not valid UTF-8".into()))?;
            let bound = add_command(plan, text, &here);
            // A program that appears nearer in the search path would run instead of the one that was found.
            for file in bound.into_iter().chain(here.shadowing_files()) {
                // A file that cannot be bound may have changed by the time the call runs.
                match capture_binding(&file) {
                    Ok(bound) => plan.bindings.push(bound),
                    Err(fault) => plan.effects.push(Effect::Unknown { reason: fault.to_string() }),
                }
            }
        }
    }
    Ok(())
}

/// Parses the commands of a draft, to show them beside its plan. It uses the same parser in the same directory.
pub fn command_trees(manifest: &Manifest, arguments: &Value, site: &ToolContext) -> Vec<CommandTree> {
    let Some(here) = LocalShellEnv::for_context(site) else { return Vec::new() };
    let commands =
        argument_roles(manifest, arguments).into_iter().filter(|(role, _)| *role == ArgumentRole::Command);
    let texts = commands.flat_map(|(_, value)| match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        value => value.as_str().into_iter().collect::<Vec<_>>(),
    });
    texts.map(|text| byleave_shell::analyze_with_tree(text, &here).1).collect()
}

/// Adds the effects and dangers of a shell command. Returns the files whose content determines what it does.
pub fn add_command(plan: &mut Plan, text: &str, scene: &dyn ShellEnv) -> Vec<String> {
    let account = byleave_shell::analyze(text, scene);
    let is_other_command = |effect: &Effect| matches!(effect, Effect::Run { .. } | Effect::Unknown { .. });
    let is_first = !plan.effects.iter().any(is_other_command);
    plan.names_all_hosts = !account.may_reach_others && (is_first || plan.names_all_hosts);
    plan.add_predicted(account.effects, &account.tentative_effects);
    plan.partial_effects.extend(account.partial_effects);
    plan.contained_effects.extend(account.contained_effects);
    plan.dangers.extend(account.dangers.into_iter().map(|danger| Danger {
        id: danger.id.clone(),
        reason: danger.why.clone(),
        denied: danger.grade == DangerSeverity::Deny,
    }));
    account.depends_on
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use byleave_core::id::{AgentId, SessionId};
    use serde_json::json;

    fn site(cwd: &Path) -> ToolContext {
        ToolContext {
            tenant: "t".parse().unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("a").unwrap(),
            cwd: cwd.to_path_buf(),
        }
    }

    fn planned(class: PermissionClass, arguments: &Value, cwd: &Path) -> Result<Vec<String>, ToolError> {
        let mut manifest = Manifest::new("t", "", json!({}));
        manifest.permission_class = class;
        let plan = plan_by_class(&manifest, arguments, &site(cwd))?;
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
        check(PermissionClass::File, json!({"path": "a/../b"}), &["read /b", "write /b"]);
        assert!(
            planned(PermissionClass::File, &json!({"path": "nowhere/../b"}), &cwd).is_err(),
            "as the kernel would say"
        );
        check(PermissionClass::Readonly, json!({"path": "b"}), &["read /b"]);
        check(PermissionClass::Readonly, json!({}), &["invoke t"]);
        check(PermissionClass::Webfetch, json!({"url": "https://Example.org/x"}), &["reach example.org:443"]);
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
            check(PermissionClass::Webfetch, json!({"url": url}), wanted);
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
            assert!(planned(PermissionClass::Webfetch, &json!({"url": url}), &cwd).is_err(), "{url}");
        }
        for path in
            ["~/.ssh/id", "~", "~u/x", "$HOME/.ssh/id", "${HOME}/x", "file:///w/.env", "C:\\x", "\\\\?\\x"]
        {
            assert!(planned(PermissionClass::Readonly, &json!({"path": path}), &cwd).is_err(), "{path}");
        }
        check(
            PermissionClass::File,
            json!({"patch": "*** Begin Patch\n*** Add File: a/c\n+x\n*** Delete File: b\n*** End Patch"}),
            &["write /a/c", "delete /b"],
        );
        assert!(planned(PermissionClass::File, &json!({"patch": "nothing"}), &cwd).is_err());
        // The address that an editor fetches when it opens the file.
        for (content, wanted) in [
            ("{\"$schema\": \"https://a.example/?d=x\"}", "reach a.example:443"),
            ("#:schema https://b.example/s.json\nx = 1", "reach b.example:443"),
            ("# yaml-language-server: $schema=http://c.example/s", "reach c.example:80"),
            (
                "{\"$schema\": \"\\u0068ttps://a.example\"}",
                "unknown: the URL of a schema is hidden by escapes",
            ),
        ] {
            let arguments = json!({"path": "d.json", "content": content});
            assert!(
                planned(PermissionClass::File, &arguments, &cwd).unwrap().contains(&wanted.to_owned()),
                "{content}"
            );
        }
        check(PermissionClass::Readonly, json!({"path": "$lib"}), &["read /$lib"]);
        check(PermissionClass::Readonly, json!({"path": "~tmp"}), &["read /~tmp"]);
        check(PermissionClass::Generic, json!({"path": "b"}), &["invoke t"]);
        check(PermissionClass::Undeclared, json!({}), &["invoke t"]);
        check(
            PermissionClass::File,
            json!({}),
            &["unknown: the tool `t` declares no argument with a role for its class"],
        );
        let bash = planned(PermissionClass::Bash, &json!({"command": "cat b && $x"}), &cwd).unwrap();
        assert!(bash.contains(&"read /b".to_owned()), "{bash:?}");
        assert!(bash.iter().any(|effect| effect.starts_with("unknown")), "{bash:?}");
    }

    // req: E4, P1
    #[test]
    fn a_plan_names_all_hosts_only_if_every_program_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        for (command, names_all) in [
            ("ls -l", true),
            ("sed -i s/a/b/ f | sort > g", true),
            ("git commit -m x", true),
            ("find . -name x -exec rm {} +", true),
            ("if true; then echo x; fi", true),
            ("cargo build", false),
            ("python3 x.py", false),
            ("kubectl get pods", false),
            ("./x.sh", false),
            ("nosuchprogram", false),
            ("ls; nosuchprogram", false),
            ("nosuchprogram; ls", false),
            ("find . -exec nosuchprogram {} +", false),
            ("bash -c 'ls; nosuchprogram'", false),
        ] {
            let mut manifest = Manifest::new("t", "", json!({}));
            manifest.permission_class = PermissionClass::Bash;
            manifest.roles.insert("/command".into(), ArgumentRole::Command);
            let plan = plan_by_class(&manifest, &json!({ "command": command }), &site(&cwd)).unwrap();
            assert_eq!(plan.names_all_hosts, names_all, "{command}");
        }
    }

    #[test]
    fn a_command_rests_on_the_scripts_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        fs::write(cwd.join("a.sh"), "ls").unwrap();
        fs::write(cwd.join("b.py"), "print()").unwrap();
        let mut manifest = Manifest::new("t", "", json!({"properties": {"command": {}}}));
        manifest.permission_class = PermissionClass::Bash;
        for command in ["bash a.sh", "source ./a.sh", "python3 b.py", "env -i sh -c '. ./a.sh'"] {
            let plan = plan_by_class(&manifest, &json!({"command": command}), &site(&cwd)).unwrap();
            assert_eq!(plan.bindings.len(), 1, "{command}: {plan:?}");
        }
        let plan = plan_by_class(&manifest, &json!({"command": "ls", "cmd": "rm"}), &site(&cwd)).unwrap();
        assert!(plan.effects.iter().any(|effect| matches!(effect, Effect::Unknown { .. })), "{plan:?}");
    }
}
