//! The picture of a chat.

use serde_json::json;

use super::{COLUMNS, draw};
use crate::task::ProjectFixture;

// req: E5, L7
#[test]
fn the_picture_shows_the_chat() {
    let edit = json!({"path": "src/lib.rs", "old": "a - b", "new": "a + b"});
    let project = ProjectFixture::new(vec![
        ("I look at what the test is about.", Some(("read_file", json!({"path": "src/lib.rs"})))),
        ("It subtracts where it should add. I mend that.", Some(("edit", edit))),
        ("It is mended.", None),
    ]);
    let mut sitting = project.sitting_at(COLUMNS, 52, &["--color", "always", "agent", "chat"]);
    sitting.await_shown("Describe the task.");
    sitting.press("Mend the failing test.\r");
    sitting.await_ready();
    draw(&project.desk, &sitting, "chat");
    sitting.choose("n", "no");
    sitting.await_shown("instead?");
    sitting.press("\r");
    sitting.await_shown("It is mended.");
    sitting.await_shown("3 turns");
    sitting.press("\u{4}");
    assert_eq!(sitting.end().0, Some(0));
}
