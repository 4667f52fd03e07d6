//! Resolves paths: finds the file that a text names. It reads the file system to follow links, and must not change anything.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::tool::ToolError;

/// Detects spellings of paths that a later expansion would turn into another file.
fn expansion_problem(path: &str) -> Option<&'static str> {
    let variable = |rest: &str| rest.starts_with(|c: char| c.is_ascii_uppercase() || matches!(c, '{' | '('));
    let drive = |path: &str| matches!(path.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    if path == "~" || path.starts_with('~') && path.contains('/') {
        Some("begins with `~`, which only a shell expands; write the full path")
    } else if path.strip_prefix('$').is_some_and(variable) {
        Some("begins with a variable, which only a shell expands; write the full path")
    } else if path.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:")) {
        Some("is a URL; write a path")
    } else if path.starts_with("\\") || drive(path) {
        Some("is a path of another operating system")
    } else {
        None
    }
}

/// Checks whether a path depends on the process that opens it, so that the tool may open another file than Byleave sees.
fn is_process_specific(path: &Path) -> bool {
    let mut steps = path.components().filter_map(|step| match step {
        Component::Normal(step) => step.to_str(),
        _ => None,
    });
    let of = ["root", "cwd", "exe", "fd", "fdinfo", "map_files", "mem", "environ", "task"];
    steps.next() == Some("proc")
        && steps.next().is_some()
        && steps.next().is_some_and(|what| of.contains(&what))
}

/// Checks whether a path is another name for a descriptor.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"].iter().any(|name| path.starts_with(name))
}

/// Returns a path in three forms: as written, with `..` resolved textually, and with links before its last component followed.
fn spellings(path: &str, cwd: &Path) -> Vec<PathBuf> {
    let written = cwd.join(path);
    let mut by_text = PathBuf::new();
    for step in written.components() {
        match step {
            Component::ParentDir => drop(by_text.pop()),
            step => by_text.push(step),
        }
    }
    let followed = written.parent().zip(written.file_name());
    let followed = followed.and_then(|(parent, name)| Some(fs::canonicalize(parent).ok()?.join(name)));
    [written, by_text].into_iter().chain(followed).collect()
}

/// Returns the absolute path that a tool argument names. Rejects a path that a shell, another system or another process
/// would read as another file, and one that cannot be shown on one line.
pub fn resolve_argument(path: &str, cwd: &Path) -> Result<String, ToolError> {
    let wrong = |why: &str| Err(ToolError(format!("`{}` {why}", path.escape_debug())));
    if path.is_empty() {
        return wrong("is not a path");
    }
    if path.chars().any(char::is_control) {
        return wrong("contains control characters, so it cannot be shown exactly; rename the file");
    }
    if let Some(why) = expansion_problem(path) {
        return wrong(why);
    }
    if spellings(path, cwd).iter().any(|path| is_descriptor(path)) {
        return wrong("is a file descriptor of the process that opens it, not a file");
    }
    let resolved = resolve(path, cwd)?;
    if spellings(path, cwd).iter().chain([&PathBuf::from(&resolved)]).any(|path| is_process(path)) {
        return wrong("is about a process, not a file");
    }
    if spellings(path, cwd).iter().chain([&PathBuf::from(&resolved)]).any(|path| is_kernel_secret(path)) {
        return wrong("may hold secrets of the kernel or of a session");
    }
    Ok(resolved)
}

/// The files of `/proc` that describe the machine, and hold nothing of a person or a process.
const MACHINE_FACTS: [&str; 23] = [
    "cpuinfo",
    "meminfo",
    "version",
    "version_signature",
    "uptime",
    "loadavg",
    "stat",
    "filesystems",
    "partitions",
    "modules",
    "devices",
    "diskstats",
    "swaps",
    "vmstat",
    "cgroups",
    "crypto",
    "interrupts",
    "softirqs",
    "sys",
    "pressure",
    "mdstat",
    "misc",
    "buddyinfo",
];

/// Checks whether a path holds secrets of the kernel or of a session: keys, memory, connections. Tools run outside the sandbox, so only the
/// files of `/proc` that are known to hold none are read.
fn is_kernel_secret(path: &Path) -> bool {
    let mut steps = path.components().filter_map(|step| match step {
        Component::Normal(step) => step.to_str(),
        _ => None,
    });
    steps.next() == Some("proc") && steps.next().is_some_and(|file| !MACHINE_FACTS.contains(&file))
}

/// Checks whether a path is about one process. Its command line and its environment can hold secrets, and tools run outside the sandbox.
fn is_process(path: &Path) -> bool {
    let mut steps = path.components().filter_map(|step| match step {
        Component::Normal(step) => step.to_str(),
        _ => None,
    });
    let is_process =
        |step: &str| matches!(step, "self" | "thread-self") || step.bytes().all(|byte| byte.is_ascii_digit());
    steps.next() == Some("proc") && steps.next().is_some_and(is_process)
}

/// Returns the absolute path that a path names. Links are followed as far as the path exists.
pub fn resolve(path: &str, cwd: &Path) -> Result<String, ToolError> {
    if path.is_empty() || path.contains('\0') {
        return Err(ToolError(format!("`{}` is not a path", path.escape_debug())));
    }
    if spellings(path, cwd).iter().any(|path| is_process_specific(path)) {
        let why = "depends on the process that opens it; name the file itself";
        return Err(ToolError(format!("`{}` {why}", path.escape_debug())));
    }
    let mut existing = cwd.join(path);
    let mut missing: Vec<std::ffi::OsString> = Vec::new();
    let resolved = loop {
        match fs::canonicalize(&existing) {
            Ok(base) => break missing.iter().rev().fold(base, |path, part| path.join(part)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A dangling link names something outside its parent, and the target is unknown.
                if existing.symlink_metadata().is_ok() {
                    return Err(ToolError(format!(
                        "`{path}` leads through a link whose target does not exist"
                    )));
                }
                match existing.components().next_back() {
                    Some(Component::Normal(part)) => missing.push(part.to_owned()),
                    _ => return Err(ToolError(format!("cannot resolve `{path}`"))),
                }
                existing = existing.parent().map(Path::to_path_buf).unwrap_or_default();
            }
            Err(error) => return Err(ToolError(format!("cannot resolve `{path}`: {error}"))),
        }
    };
    into_text(resolved)
}

pub(crate) fn into_text(path: PathBuf) -> Result<String, ToolError> {
    path.into_os_string()
        .into_string()
        .map_err(|path| ToolError(format!("`{}` is not valid UTF-8", path.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_and_dangling_ones_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), cwd.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", cwd.join("dangling")).unwrap();
        let real = outside.path().canonicalize().unwrap();
        assert_eq!(resolve("link/x", &cwd).unwrap(), real.join("x").to_str().unwrap());
        // The parent of a missing path is unknown, because it may be created as a link.
        for path in [
            "dangling",
            "dangling/x",
            "",
            "missing/../x",
            "/proc/self/cwd/x",
            "/proc/1/root/etc",
            "../../../../../../../proc/self/cwd/x",
        ] {
            assert!(resolve(path, &cwd).is_err(), "{path}");
        }
        std::os::unix::fs::symlink("/proc/1/cmdline", cwd.join("process")).unwrap();
        for path in [
            "/proc/1/cmdline",
            "/proc/1",
            "/proc/self/status",
            "/proc/thread-self/maps",
            "../../../../../../../proc/1/status",
            "process",
        ] {
            assert!(resolve_argument(path, &cwd).is_err(), "{path}");
        }
        for path in [
            "/proc/keys",
            "/proc/kcore",
            "/proc/kmsg",
            "../../../../../../../proc/kallsyms",
            "/proc/net/unix",
        ] {
            assert!(resolve_argument(path, &cwd).is_err(), "{path}");
        }
        assert!(resolve_argument("/proc/cpuinfo", &cwd).is_ok());
        assert!(resolve_argument("/proc/sys/kernel/ostype", &cwd).is_ok());
        for path in
            ["/dev/fd/0", "/dev/stdin", "../../../../../../../dev/fd/3", "a\n/etc/passwd", "a\u{1b}[2J"]
        {
            assert!(resolve_argument(path, &cwd).is_err(), "{path}");
        }
        assert!(resolve_argument("/dev/null", &cwd).is_ok());
    }
}
