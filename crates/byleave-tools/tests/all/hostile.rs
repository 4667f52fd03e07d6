//! A hostile neighbour: a thread that changes the directory in which a tool works, as fast as it can. It
//! swaps path components for links that lead out, renames parents, and replaces files with links and pipes.
//!
//! It uses handles of the real directories, so it never changes anything outside by itself. Every change outside was made by a tool.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, mknodat, open, openat, renameat, renameat_with,
    symlinkat, unlinkat,
};

/// The content of every file outside, and a part of the names of files that exist only there.
pub(crate) const MARKER: &str = "GATE_OUTSIDE_MARKER";
/// The content of every file inside.
pub(crate) const INSIDE: &str = "inside";

const TOPS: [&str; 3] = ["a", "b", "c"];
const BELOW: [&str; 2] = ["x", "y"];
const FILES: [&str; 8] = ["f0.txt", "f1.txt", "f2.txt", "f3.txt", "f4.txt", "f5.txt", "f6.txt", "f7.txt"];
/// The directory in the root for swapped-out entries.
const PARK: &str = ".park";

/// The thread while it runs.
pub(crate) struct RenameThread {
    swaps: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RenameThread {
    /// Creates `a/x/y/f0.txt` and similar files in the root, the same with markers outside, and begins to
    /// swap.
    pub(crate) fn start(root: &Path, outside: &Path, seed: u64) -> Self {
        let mut ground = SwapFixture::new(root, outside, seed);
        let (swaps, stopping) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counted, until) = (Arc::clone(&swaps), Arc::clone(&stopping));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                if ground.swap() {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { swaps, stopping, thread: Some(thread) }
    }

    /// The number of swaps so far.
    pub(crate) fn swaps(&self) -> u64 {
        self.swaps.load(Ordering::Relaxed)
    }

    /// Stops the thread and returns the number of swaps.
    pub(crate) fn stop(mut self) -> u64 {
        self.join();
        self.swaps()
    }

    fn join(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for RenameThread {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
    }
}

/// The directories whose names are swapped, relative to the root, from the top down.
pub(crate) fn directories() -> Vec<String> {
    let mut all = Vec::new();
    for top in TOPS {
        let mut path = top.to_owned();
        all.push(path.clone());
        for below in BELOW {
            path = format!("{path}/{below}");
            all.push(path.clone());
        }
    }
    all
}

/// The files that are swapped, relative to the root.
pub(crate) fn files() -> Vec<String> {
    directories().iter().flat_map(|directory| FILES.map(|file| format!("{directory}/{file}"))).collect()
}

/// The number of swaps in a test: `BYLEAVE_SWAPS`, or a small default.
pub(crate) fn swaps_wanted() -> u64 {
    std::env::var("BYLEAVE_SWAPS").ok().map_or(4_000, |count| count.parse().unwrap())
}

/// A directory by its handle, which does not depend on its current name, and the position of its name.
struct SwappedDirectory {
    handle: OwnedFd,
    /// The index of its parent. `None` for a directory in the root.
    above: Option<usize>,
    name: String,
    /// The name of its counterpart in the park directory.
    twin: String,
}

struct SwapFixture {
    root: OwnedFd,
    park: OwnedFd,
    outside: String,
    places: Vec<SwappedDirectory>,
    paths: Vec<String>,
    state: u64,
}

impl SwapFixture {
    fn new(root: &Path, outside: &Path, seed: u64) -> Self {
        fs::create_dir_all(root.join(PARK)).unwrap();
        let paths = directories();
        for path in &paths {
            for (base, text) in [(root, INSIDE), (outside, MARKER)] {
                fs::create_dir_all(base.join(path)).unwrap();
                for file in FILES {
                    fs::write(base.join(path).join(file), format!("{text} {path}\n")).unwrap();
                }
            }
            fs::write(outside.join(path).join(format!("{MARKER}.txt")), MARKER).unwrap();
        }
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = open(root, directory, Mode::empty()).unwrap();
        let park = openat(&handle, PARK, directory, Mode::empty()).unwrap();
        let outside = outside.canonicalize().unwrap().to_str().unwrap().to_owned();
        let places = paths.iter().enumerate().map(|(number, path)| {
            let (above, name) = match path.rsplit_once('/') {
                Some((_, name)) => (Some(number - 1), name),
                None => (None, path.as_str()),
            };
            let twin = format!("{}.link", path.replace('/', "."));
            symlinkat(format!("{outside}/{path}"), &park, &twin).unwrap();
            let handle = open(root.join(path), directory, Mode::empty()).unwrap();
            SwappedDirectory { handle, above, name: name.to_owned(), twin }
        });
        let places = places.collect();
        Self { root: handle, park, outside, places, paths, state: seed | 1 }
    }

    fn random(&mut self, below: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state % below as u64).unwrap()
    }

    /// Makes one swap. Returns false if a tool or an earlier swap prevented it.
    fn swap(&mut self) -> bool {
        let kind = self.random(6);
        let number = self.random(self.places.len());
        let file = FILES[self.random(FILES.len())];
        let other = (number + (BELOW.len() + 1)) % self.places.len();
        let above =
            |place: &SwappedDirectory| place.above.map_or(&self.root, |above| &self.places[above].handle);
        let place = &self.places[number];
        match kind {
            // A directory with a link that leads out.
            0 => exchanged((above(place), &place.name), (&self.park, &place.twin)),
            // Two directories, or the entries that have their names.
            1 => {
                let other = &self.places[other];
                exchanged((above(place), &place.name), (above(other), &other.name))
            }
            // A file with a link that leads out.
            2 | 3 => {
                let twin = format!("{number}.{file}.link");
                let target = format!("{}/{}/{file}", self.outside, self.paths[number]);
                absent(symlinkat(target, &self.park, &twin));
                exchanged((&place.handle, file), (&self.park, &twin))
            }
            // A file with a pipe that nobody writes to.
            4 => {
                let twin = format!("{number}.{file}.pipe");
                absent(mknodat(&self.park, &twin, FileType::Fifo, Mode::from_raw_mode(0o666), 0));
                exchanged((&place.handle, file), (&self.park, &twin))
            }
            // A new file in its place.
            _ => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let Ok(new) = openat(&self.park, "new", flags, Mode::from_raw_mode(0o666)) else {
                    return unlinkat(&self.park, "new", AtFlags::empty()).is_err();
                };
                let text = format!("{INSIDE} {}\n", self.paths[number]);
                rustix::io::write(&new, text.as_bytes()).unwrap();
                renameat(&self.park, "new", &place.handle, file).is_ok()
            }
        }
    }
}

fn exchanged((from, name): (&OwnedFd, &str), (to, other): (&OwnedFd, &str)) -> bool {
    renameat_with(from, name, to, other, RenameFlags::EXCHANGE).is_ok()
}

/// Asserts that it was made or already exists.
#[track_caller]
fn absent(made: rustix::io::Result<()>) {
    assert!(matches!(made, Ok(()) | Err(rustix::io::Errno::EXIST)), "{made:?}");
}

#[test]
fn the_neighbour_swaps_and_never_changes_what_is_outside() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let [root, outside] = ["root", "outside"].map(|name| folder.path().join(name));
    let swapper = RenameThread::start(&root, &outside, 7);
    let before = crate::world::tree(&outside);
    let (mut led_out, mut stayed) = (0, 0);
    while swapper.swaps() < 2_000 || led_out == 0 || stayed == 0 {
        for file in files() {
            // Without protection, as a tool must not do. Only the flag prevents blocking.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(found) = openat(CWD, root.join(file), flags, Mode::empty()) else { continue };
            let text = std::io::read_to_string(fs::File::from(found)).unwrap_or_default();
            led_out += u32::from(text.contains(MARKER));
            stayed += u32::from(text.contains(INSIDE));
        }
    }
    assert!(swapper.stop() >= 2_000);
    assert_eq!(crate::world::tree(&outside), before);
}
