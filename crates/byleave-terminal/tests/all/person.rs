//! A person at a real terminal: the other end of a pseudo-terminal.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The person's end, and the path of the program's end.
pub(crate) struct TestTerminal {
    pub(crate) end: File,
    pub(crate) path: PathBuf,
}

impl TestTerminal {
    pub(crate) fn sit_down(columns: u16, rows: u16) -> Self {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&end).unwrap();
        unlockpt(&end).unwrap();
        let name = ptsname(&end, Vec::new()).unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).to_path_buf();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&end, size).unwrap();
        Self { end: end.into(), path }
    }

    /// Opens the program's end.
    pub(crate) fn program(&self) -> File {
        let noctty = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap();
        OpenOptions::new().read(true).write(true).custom_flags(noctty).open(&self.path).unwrap()
    }

    /// Reads and discards all output.
    pub(crate) fn looks_away(&self) {
        let mut eyes = self.end.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok(1..) = eyes.read(&mut buffer) {}
        });
    }
}
