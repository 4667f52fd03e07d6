use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use super::*;

const MAX: u64 = 1_000;

fn why(path: &Path, links: LinkPolicy) -> String {
    read(path, links, MAX).unwrap_err().to_string()
}

/// A directory whose path has no links in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

// req: B7
#[test]
fn only_a_regular_file_is_read_and_nobody_is_waited_for() {
    let (_folder, place) = place();
    let at = |name: &str| place.join(name);
    fs::write(at("file"), "text").unwrap();
    fs::create_dir(at("directory")).unwrap();
    rustix::fs::mknodat(CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = UnixListener::bind(at("socket")).unwrap();
    symlink("/dev/zero", at("zero")).unwrap();
    symlink("pipe", at("to-pipe")).unwrap();
    for links in [LinkPolicy::Never, LinkPolicy::FollowParents, LinkPolicy::Follow] {
        assert_eq!(read(&at("file"), links, MAX).unwrap(), b"text");
        for name in ["directory", "pipe", "socket"] {
            assert_eq!(why(&at(name), links), "the path is not a regular file", "{name}");
        }
        assert!(read(&at("nothing"), links, MAX).unwrap_err().is_missing());
    }
    for name in ["zero", "to-pipe"] {
        assert_eq!(why(&at(name), LinkPolicy::Follow), "the path is not a regular file", "{name}");
        for links in [LinkPolicy::Never, LinkPolicy::FollowParents] {
            assert_eq!(why(&at(name), links), "the path is a symbolic link", "{name}");
        }
    }
}

// req: B7
#[test]
fn no_more_is_read_than_was_said() {
    let (_folder, place) = place();
    let path = place.join("file");
    fs::write(&path, vec![b'a'; 1_000]).unwrap();
    assert_eq!(read(&path, LinkPolicy::Never, MAX).unwrap().len(), 1_000);
    fs::write(&path, vec![b'a'; 1_001]).unwrap();
    assert_eq!(why(&path, LinkPolicy::Never), "the file has more than 1000 bytes");
    File::options().write(true).open(&path).unwrap().set_len(900 << 20).unwrap();
    assert_eq!(why(&path, LinkPolicy::Never), "the file has more than 1000 bytes");
    // It grew after it was opened.
    fs::write(&path, "a").unwrap();
    let opened = open(&path, LinkPolicy::Never).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(900 << 20).unwrap();
    assert_eq!(opened.read(MAX).unwrap_err().to_string(), "the file has more than 1000 bytes");
    fs::write(&path, [0xff]).unwrap();
    assert_eq!(
        read_text(&path, LinkPolicy::Never, MAX).unwrap_err().to_string(),
        "the file is not UTF-8 text"
    );
}

// req: B7
#[test]
fn links_above_are_followed_only_where_that_was_said() {
    let (_folder, place) = place();
    let at = |name: &str| place.join(name);
    fs::create_dir(at("real")).unwrap();
    fs::write(at("real/file"), "text").unwrap();
    symlink("real", at("linked")).unwrap();
    symlink("real/file", at("to-file")).unwrap();
    let read = |name: &str, links: LinkPolicy| read(&at(name), links, MAX).is_ok();
    assert!(!read("linked/file", LinkPolicy::Never) && !read("to-file", LinkPolicy::Never));
    assert!(read("linked/file", LinkPolicy::FollowParents) && !read("to-file", LinkPolicy::FollowParents));
    assert!(read("linked/file", LinkPolicy::Follow) && read("to-file", LinkPolicy::Follow));
    // The same without the kernel's own system call for it.
    let steps = |path: &Path| open_step_by_step(CWD, path).is_ok();
    assert!(steps(&at("real/file")) && steps(&at("real/../real/./file")));
    assert!(!steps(&at("linked/file")) && !steps(&at("to-file")) && !steps(&at("nothing/file")));
    let directory = own::open(at("real")).unwrap();
    assert!(open_at(&directory, Path::new("file"), LinkPolicy::Never).is_ok());
    assert!(open_step_by_step(directory.as_fd(), Path::new("file")).is_ok());
}
