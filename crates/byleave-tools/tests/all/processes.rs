//! Tools run outside the sandbox, so they must not show anything about the processes of this machine.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::bare::ToolFixture;

/// A word on the command line of a process.
const CANARY: &str = "TOKEN-ON-A-COMMAND-LINE";

// req: B7
#[tokio::test]
async fn no_tool_reads_or_walks_the_file_system_of_processes() {
    let folder = tempfile::tempdir().unwrap();
    let bare = ToolFixture::new(folder.path(), &folder.path().join("kept"));
    let mut process = Command::new("sh");
    process.args(["-c", "read line", CANARY]).stdin(Stdio::piped());
    let mut process = process.spawn().unwrap();
    let directory = format!("/proc/{}", process.id());
    for path in
        ["/proc", &directory, "/proc/self", &format!("{directory}/cmdline"), &format!("{directory}/status")]
    {
        for (tool, arguments) in [
            ("grep", json!({"pattern": "TOKEN", "path": path, "all": true})),
            ("glob", json!({"pattern": "**", "path": path, "all": true})),
            ("list_files", json!({"path": path, "all": true})),
            ("list_dir", json!({"path": path, "recursive": 3, "all": true})),
            ("read_file", json!({"path": path})),
        ] {
            let output = bare.read(tool, path, arguments).await;
            let text = format!("{}{:?}{:?}", output.text, output.error, output.data);
            assert!(output.is_error && !text.contains(CANARY), "{tool} {path}: {text}");
        }
    }
    let allowed = bare.read("read_file", "/proc/version", json!({"path": "/proc/version"})).await;
    assert!(!allowed.is_error, "{allowed:?}");
    drop(process.stdin.take());
    process.wait().unwrap();
}
