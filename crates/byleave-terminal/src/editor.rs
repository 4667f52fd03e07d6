//! Runs the person's own editor on a private file.

use std::io::{Read as _, Seek as _, Write as _};
use std::process::Command;

/// Lets the person change a text with this program and its arguments.
pub fn edit(command: &[String], text: &str) -> Result<String, String> {
    let (program, rest) = command.split_first().ok_or("no editor is configured; set $EDITOR")?;
    let broke = |error: std::io::Error| format!("cannot run the editor: {error}");
    let mut file = tempfile::Builder::new().prefix("byleave-").suffix(".json").tempfile().map_err(broke)?;
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(broke)?;
    let tty = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(broke);
    let mut editor = Command::new(program);
    editor.args(rest).arg(file.path());
    let ended = editor.stdin(tty()?).stdout(tty()?).stderr(tty()?).status().map_err(broke)?;
    if !ended.success() {
        return Err(format!("the editor ended with {ended}; its text was discarded"));
    }
    // Most editors replace the file, so it is opened again.
    let mut edited = String::new();
    let mut again = std::fs::File::open(file.path()).map_err(broke)?;
    again.rewind().and_then(|()| again.read_to_string(&mut edited)).map_err(broke)?;
    Ok(edited)
}
