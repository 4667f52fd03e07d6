//! A port of this machine that a rule opened, for an agent with a hook.

use std::io::Write as _;
use std::net::TcpListener;

use byleave_hook::AgentKind;

use super::{DoorFixture, bash, text, workspace};
use crate::hooks::{is_denied, rewritten, said};

// req: E7
// door: hook
#[test]
fn an_agent_with_a_hook_reaches_a_port_that_a_rule_opened_and_no_control_port() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = service.accept() {
            stream.write_all(b"ready").unwrap();
        }
    });
    let rule = format!("[[rule]]\nverdict = \"allow\"\nreach = \"localhost:{port}\"\n");
    let doors = DoorFixture::new("mode = \"yolo\"\n", &rule);
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let _gate = doors.stand.serve();
    let ask = |command: &str| {
        let asks = said(AgentKind::ClaudeCode, &cwd, "Bash", &bash(command), None);
        doors.stand.asks_until_judged(AgentKind::ClaudeCode, &asks)
    };
    let connect = |port| format!("exec 3<>/dev/tcp/localhost/{port}; head -c 5 <&3");
    let told = ask(&connect(port));
    let line = rewritten(AgentKind::ClaudeCode, &told).unwrap_or_else(|| panic!("{told:?}"));
    let ran = doors.stand.shell(&line);
    assert!(ran.status.success() && text(&ran.stdout).contains("ready"), "{ran:?}");
    let told = ask(&connect(2375));
    assert!(is_denied(AgentKind::ClaudeCode, &told), "{told:?}");
    assert!(text(&told.stderr).contains("nothing can open"), "{told:?}");
}
