//! Servers that nobody accepted are not started. Running servers cannot leave their profile, and their arguments are not
//! interpreted by a shell.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use byleave_mcp::upstream::server_definition::{DirectoryAccess, Launch};
use byleave_mcp::upstream::{ServerStatus, config_file};
use serde_json::json;

use super::bench::{CaseDirectory, bounded, called, no, yes};
use super::{CaseTest, CorpusCase, shown_by};
use crate::fixture::{example, is_there};

// req: M1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_started_that_nobody_accepted() {
    for case in shown_by(CaseTest::NotStarted) {
        let place = CaseDirectory::of(&case);
        match case.id.as_str() {
            "mcp-headers-helper" => no_helper(&place),
            "plugin-config-substitution" => words(&place, &case).await,
            id => not_started(&place, &case, id == "mcp-list-command-spawns").await,
        }
    }
}

async fn not_started(place: &CaseDirectory, case: &CorpusCase, only_listed: bool) {
    let marker = place.marker();
    let words = ["starts", marker.to_str().unwrap()];
    // The repository declares itself approved.
    let server = json!({ "command": "hostile", "args": words });
    let ws = place.root().join("ws");
    std::fs::write(ws.join(".mcp.json"), json!({ "mcpServers": { "repo": server } }).to_string()).unwrap();
    std::fs::create_dir(ws.join(".agent")).unwrap();
    std::fs::write(ws.join(".agent/settings.json"), r#"{"enableAllProjectMcpServers": true}"#).unwrap();

    let bench = place.bench(place.policy(case, ""), no(), vec![place.hostile("repo", &words)]);
    assert_eq!(bench.upstream.statuses()[0].1, ServerStatus::NotConnected);
    bounded(bench.upstream.refresh_all()).await;
    assert_eq!(bench.upstream.statuses()[0].1, ServerStatus::NotAccepted);
    if !only_listed {
        assert!(bench.ask("repo").await.is_err() && bench.person.asked() == 1);
        bounded(bench.upstream.refresh_all()).await;
    }
    assert!(!is_there(&marker) && bench.offered().is_empty(), "{}", case.id);

    let bench = place.bench(place.policy(case, ""), yes(), vec![place.hostile("repo", &words)]);
    bench.ask("repo").await.unwrap();
    assert!(is_there(&marker) && !bench.offered().is_empty(), "{}", case.id);
}

/// A definition has no key for a program that generates headers.
fn no_helper(place: &CaseDirectory) {
    let plain = "[server.repo]\nurl = \"https://a.example/mcp\"\nheaders = { A = \"$(id)\" }\n";
    let Launch::Http { headers, .. } = &config_file::parse_servers(plain).unwrap()[0].launch else {
        panic!()
    };
    assert_eq!(headers["A"], "$(id)");
    let helper = format!("{plain}headersHelper = \"touch {}\"\n", place.marker().display());
    let fault = config_file::parse_servers(&helper).unwrap_err();
    assert!(fault.line == 4 && fault.to_string().contains("headersHelper"), "{fault}");
}

/// The arguments of a definition are passed on unchanged, one by one.
async fn words(place: &CaseDirectory, case: &CorpusCase) {
    let value = place.meant(case.input["arguments"]["user_config.name"].as_str().unwrap());
    let mut server = place.hostile("plugin", &["env", &value]);
    let Launch::Child { env, .. } = &mut server.launch else { panic!() };
    env.insert("NAME".into(), value.clone());
    let bench = place.accepted(place.policy(case, ""), yes(), vec![server.clone()]).await;
    let said = bench.call(&called("plugin", "go"), json!({})).await.result.to_text();
    assert!(said.contains(&format!("argv {value}")) && said.contains(&format!("NAME={value}")), "{said}");
    assert!(!is_there(&place.marker()));
    // A variable must be in the user's environment, or the server is not started.
    let Launch::Child { env, .. } = &mut server.launch else { panic!() };
    env.insert("NAME".into(), "${user_config.name}".into());
    let bench = place.bench(place.policy(case, ""), yes(), vec![server]);
    let fault = bench.ask("plugin").await.unwrap_err();
    assert!(fault.contains("user_config.name"), "{fault}");
}

const ROLE: &str = "BYLEAVE_TEST_CONFINED";
const UID: u32 = 61_003;

// req: M1
#[test]
fn a_server_does_nothing_outside_its_profile() {
    use std::os::unix::fs::PermissionsExt as _;
    if std::env::var_os(ROLE).is_some() || !rustix::process::geteuid().is_root() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.unwrap().block_on(confined());
    }
    // The sandbox refuses root, so another user runs this, with programs that it can read.
    let folder = tempfile::tempdir().unwrap();
    let open =
        |path: &PathBuf| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    open(&folder.path().to_owned());
    for (directory, program) in [("deps", std::env::current_exe().unwrap()), ("examples", example("hostile"))]
    {
        let directory = folder.path().join(directory);
        std::fs::create_dir(&directory).unwrap();
        let copy = directory.join(program.file_name().unwrap());
        std::fs::copy(&program, &copy).unwrap();
        open(&directory);
        open(&copy);
    }
    let tmp = folder.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    std::os::unix::fs::chown(&tmp, Some(UID), Some(UID)).unwrap();
    let test = folder.path().join("deps").join(std::env::current_exe().unwrap().file_name().unwrap());
    let mut again = Command::new(test);
    again.args(["--exact", "corpus::started::a_server_does_nothing_outside_its_profile", "--nocapture"]);
    again.env(ROLE, "1").env("TMPDIR", &tmp).env("HOME", &tmp).current_dir(&tmp).uid(UID).gid(UID);
    let output = again.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Rules and approver allow the call, so that only the sandbox can prevent it.
async fn confined() {
    for case in shown_by(CaseTest::Confined) {
        for bare in [true, false] {
            let place = CaseDirectory::of(&case);
            let mut server = place.hostile("git", &["writes"]);
            server.profile.workspace = DirectoryAccess::Write;
            server.profile.read.push(example("hostile").parent().unwrap().to_owned());
            let bench = place.bench_in(place.policy(&case, ""), yes(), vec![server], bare);
            bench.ask("git").await.unwrap();
            let inside = place.root().join("ws/inside");
            let said = bench.call(&called("git", "go"), json!({ "path": inside })).await.result;
            assert!(is_there(&inside), "{bare}: {said:?}");
            let said = bench.call(&called("git", "go"), json!({ "path": place.marker() })).await.result;
            assert_eq!(is_there(&place.marker()), bare, "{said:?}");
        }
    }
}
