//! The workspace boundary: no mode lets a tool touch files outside without a question, however the path leads
//! there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use byleave_gate::core::call::Mode;
use byleave_gate::core::decision::AskCause;
use byleave_gate::core::policy::{PathVariables, Policy};
use byleave_gate::gate::Gate;
use byleave_gate::result::CallOutcome;
use byleave_gate::review::{ReviewScope, input_reviewer};
use byleave_gate::settings::GateSettings;
use serde_json::{Value, json};

use crate::world::{CallObservation, ToolTestWorld, tree, yes};

const MARKER: &str = "GATE_OUTSIDE_MARKER";

/// A call of a tool with a path argument.
struct BoundaryCase {
    tool: &'static str,
    arguments: fn(&str) -> Value,
    /// The argument is the directory, not the file.
    directory: bool,
}

const fn row(tool: &'static str, directory: bool, arguments: fn(&str) -> Value) -> BoundaryCase {
    BoundaryCase { tool, arguments, directory }
}

fn patch(body: &str) -> Value {
    json!({ "patch": format!("*** Begin Patch\n{body}\n*** End Patch") })
}

const ROWS: &[BoundaryCase] = &[
    row("read_file", false, |path| json!({ "path": path })),
    row("list_dir", true, |path| json!({ "path": path })),
    row("list_files", true, |path| json!({ "path": path })),
    row("glob", true, |path| json!({ "path": path, "pattern": "**" })),
    row("grep", true, |path| json!({ "path": path, "pattern": "GATE" })),
    row("grep", false, |path| json!({ "path": path, "pattern": "GATE" })),
    row("write_file", false, |path| json!({ "path": path, "content": "planted" })),
    row("write_file", false, |path| json!({ "path": path, "content": "more", "mode": "append" })),
    row("edit", false, |path| json!({ "path": path, "old": "MARKER", "new": "planted" })),
    row(
        "multi_edit",
        false,
        |path| json!({ "path": path, "edits": [{ "old": "MARKER", "new": "planted" }] }),
    ),
    row("delete_file", false, |path| json!({ "path": path })),
    row("apply_patch", false, |path| patch(&format!("*** Delete File: {path}"))),
    row("apply_patch", true, |path| patch(&format!("*** Add File: {path}/new.txt\n+planted"))),
    row("apply_patch", false, |path| patch(&format!("*** Update File: {path}\n@@\n-{MARKER}\n+planted"))),
    row("apply_patch", true, |path| {
        patch(&format!("*** Update File: own.txt\n*** Move to: {path}/moved.txt\n@@\n-own\n+planted"))
    }),
];

/// Files outside, and every path from the workspace to the file and to its directory.
fn world(rules: &str, settings: GateSettings) -> (ToolTestWorld, Vec<[String; 2]>) {
    let world = ToolTestWorld::with(rules, settings);
    fill(&world);
    let outside = world.beside("outside").to_str().unwrap().to_owned();
    symlink(&outside, world.at("door")).unwrap();
    symlink(format!("{outside}/f.txt"), world.at("link.txt")).unwrap();
    symlink("door", world.at("second")).unwrap();
    symlink("..", world.at("up")).unwrap();
    let ways = [
        ["../../outside/f.txt", "../../outside"],
        ["src/../../../outside/f.txt", "src/../../../outside"],
        [&format!("{outside}/f.txt"), &outside],
        ["link.txt", "door"],
        ["door/f.txt", "door"],
        ["second/f.txt", "second"],
        ["up/../outside/f.txt", "up/../outside"],
    ];
    (world, ways.iter().map(|way| way.map(str::to_owned)).collect())
}

/// Restores the files outside and inside.
fn fill(world: &ToolTestWorld) {
    fs::write(world.beside("outside/f.txt"), format!("{MARKER}\n")).unwrap();
    for made in ["outside/new.txt", "outside/moved.txt"] {
        let gone = fs::remove_file(world.beside(made));
        assert!(gone.is_ok() || !world.beside(made).exists());
    }
    world.write("own.txt", "own\n");
}

fn code(played: &CallObservation) -> String {
    match &played.result.outcome {
        CallOutcome::Refused(refusal) => refusal.code.to_string(),
        other => other.as_str().to_owned(),
    }
}

impl BoundaryCase {
    fn call(&self, way: &[String; 2]) -> Value {
        (self.arguments)(&way[usize::from(self.directory)])
    }
}

// req: P2, P4, B7
#[tokio::test(flavor = "multi_thread")]
async fn no_mode_lets_a_tool_out_of_the_workspace_unasked() {
    let (world, ways) = world("", GateSettings::default());
    let before = tree(&world.beside("outside"));
    for row in ROWS {
        for way in &ways {
            for mode in [Mode::ConfirmDangerous, Mode::Yolo] {
                let played = world.call(row.tool, row.call(way), &[yes()], mode).await;
                let told = format!("{} {way:?} {mode:?}: {}", row.tool, played.text());
                assert_eq!(code(&played), "outside-workspace", "{told}");
                assert!(played.asked.is_empty() && !played.text().contains(MARKER), "{told}");
                assert_eq!(tree(&world.beside("outside")), before, "{told}");
                assert_eq!(world.read("own.txt"), "own\n", "{told}");
            }
        }
    }
}

// req: P4, R7
#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_asks_asks_a_person() {
    let (world, ways) = world("", GateSettings::default());
    for (number, row) in ROWS.iter().enumerate() {
        for (at, way) in ways.iter().enumerate() {
            let mode = [Mode::ConfirmSensitive, Mode::ConfirmAll][at % 2];
            let before = tree(&world.beside("outside"));
            // A session is not asked again about a declined call.
            let ([no, yes_said], arguments) =
                (["no", "yes"].map(|said| format!("{said}-{number}-{at}")), row.call(way));
            let played = world.call_in(&no, row.tool, arguments.clone(), &[], mode).await;
            let told = format!("{} {way:?} {mode:?}: {}", row.tool, played.text());
            assert_eq!((code(&played).as_str(), played.asked.len()), ("declined", 1), "{told}");
            assert!(played.asked[0].decision.causes().contains(&AskCause::OutsideWorkspace), "{told}");
            assert_eq!(tree(&world.beside("outside")), before, "{told}");
            let played = world.call_in(&yes_said, row.tool, arguments, &[yes()], mode).await;
            assert_eq!(code(&played), "completed", "{}: {}", told, played.text());
            fill(&world);
        }
    }
}

// req: P4, B7
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_allows_a_place_outside_in_every_mode() {
    // The fixture's directory has a different name in each run, so the rule uses a wildcard.
    let (world, ways) =
        world("[[rule]]\nverdict = \"allow\"\ntouch = [\"/var/tmp/*/outside/\"]\n", GateSettings::default());
    for row in ROWS {
        for (way, mode) in ways.iter().zip([Mode::ConfirmDangerous, Mode::Yolo].into_iter().cycle()) {
            let played = world.call(row.tool, row.call(way), &[], mode).await;
            let told = format!("{} {way:?} {mode:?}: {}", row.tool, played.text());
            assert_eq!((code(&played).as_str(), played.asked.len()), ("completed", 0), "{told}");
            fill(&world);
        }
    }
    // It allows only that directory.
    fs::create_dir_all(world.beside("outside2")).unwrap();
    let near = world.call("list_dir", json!({ "path": "../../outside2" }), &[], Mode::Yolo).await;
    assert_eq!(code(&near), "outside-workspace");
}

// req: P4
#[tokio::test(flavor = "multi_thread")]
async fn the_refusal_says_which_rule_allows_it() {
    let (world, _) = world("", GateSettings::default());
    let path = world.beside("outside/f.txt");
    let edit = json!({ "path": path, "old": "MARKER", "new": "planted" });
    let told = world.call("edit", edit.clone(), &[], Mode::Yolo).await.text();
    let lines = told.split('`').filter(|line| line.contains(['[', '='])).collect::<Vec<_>>().join("\n");
    assert_eq!(
        lines,
        format!("[[rule]]\nverdict = \"allow\"\nread = [{path:?}]\nwrite = [{path:?}]"),
        "{told}"
    );
}

// req: P4
#[tokio::test(flavor = "multi_thread")]
async fn an_ask_of_a_rule_does_not_open_the_boundary_and_a_deny_stays_a_deny() {
    let rules = "[[rule]]\nverdict = \"ask\"\ntouch = \"/var/tmp/**/f.txt\"\n\
                 [[rule]]\nid = \"kept\"\nverdict = \"deny\"\ntouch = \"/var/tmp/**/kept\"\n\
                 [[rule]]\nverdict = \"ask\"\ndangerous = true\nwrite = \"/var/tmp/**/outside/\"\n";
    let (world, ways) = world(rules, GateSettings::default());
    let before = tree(&world.beside("outside"));
    for row in ROWS.iter().filter(|row| !row.directory) {
        for mode in [Mode::ConfirmDangerous, Mode::Yolo] {
            let played = world.call(row.tool, row.call(&ways[0]), &[yes()], mode).await;
            assert_eq!(code(&played), "outside-workspace", "{} {mode:?}: {}", row.tool, played.text());
            assert_eq!(tree(&world.beside("outside")), before);
        }
    }
    let denied = world.call("read_file", json!({ "path": "../../outside/kept" }), &[], Mode::Yolo).await;
    assert_eq!(code(&denied), "denied", "{}", denied.text());
    // Inside, the modes ask no more than before.
    let inside = world.call("write_file", json!({ "path": "n", "content": "" }), &[], Mode::Yolo).await;
    assert_eq!(code(&inside), "completed", "{}", inside.text());
}

// req: B7
#[tokio::test(flavor = "multi_thread")]
async fn what_is_swapped_after_the_check_leads_nobody_out() {
    for row in ROWS {
        for swap in [swap_the_link, swap_a_directory] {
            let (mut world, _) = world("", GateSettings::default());
            world.write("src/f.txt", &format!("{}\n", MARKER.to_lowercase()));
            symlink("src", world.at("in")).unwrap();
            let (root, outside) = (world.at(""), world.beside("outside"));
            let before = tree(&outside);
            let places = PathVariables {
                workspace: root.to_str().map(|root| root.trim_end_matches('/')),
                ..PathVariables::default()
            };
            world.gate = Gate::builder()
                .policy(Policy::builtin(&places).unwrap())
                .catalog(world.gate.catalog().clone())
                // Reviewers run after the policy decision, and before the tool runs.
                .review_input(
                    ReviewScope::All,
                    input_reviewer("neighbour", move |_| {
                        swap(&root, &outside);
                        true
                    }),
                )
                .build()
                .unwrap();
            let way = ["in/f.txt".to_owned(), "in".to_owned()];
            let played = world.call(row.tool, row.call(&way), &[], Mode::Yolo).await;
            let told = format!("{}: {}", row.tool, played.text());
            let led_out = |name: &str| fs::read_link(world.at(name)).is_ok_and(|to| to.is_absolute());
            assert!(led_out("in") || led_out("src"), "nothing was swapped: {told}");
            assert!(!told.contains(MARKER) && !told.contains("outside-workspace"), "{told}");
            assert_eq!(tree(&world.beside("outside")), before, "{told}");
        }
    }
}

/// The link that was followed now leads out.
fn swap_the_link(root: &Path, outside: &Path) {
    fs::remove_file(root.join("in")).unwrap();
    symlink(outside, root.join("in")).unwrap();
}

/// A directory on the evaluated path is now a link.
fn swap_a_directory(root: &Path, outside: &Path) {
    fs::rename(root.join("src"), root.join("gone")).unwrap();
    symlink(outside, root.join("src")).unwrap();
}
