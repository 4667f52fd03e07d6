//! Finds the end of a pack in a stream. A client of `git push` keeps its connection open, so the end of the pack must be found in it.
//!
//! It inflates every object and keeps nothing of it.

use flate2::{Decompress, FlushDecompress, Status};

use super::protocol::ProtocolError;

/// The room for inflated bytes, which are dropped.
const ROOM: usize = 32 << 10;

/// Follows a pack, part by part.
pub(super) struct PackEnd {
    state: State,
    objects_left: u32,
    trailer_bytes: usize,
    inflater: Decompress,
    room: Vec<u8>,
}

enum State {
    /// The first bytes: `PACK`, the version and the number of objects.
    Header(Vec<u8>),
    /// The type and the size of an object.
    ObjectHeader {
        kind: Option<u8>,
    },
    /// The distance to the base of an object.
    Offset,
    /// The name of the base of an object.
    Base {
        left: usize,
    },
    /// The compressed content of an object.
    Content,
    /// The digest of the pack.
    Trailer {
        left: usize,
    },
    Done,
}

impl PackEnd {
    /// Follows a pack whose objects have names of this many bytes.
    pub(super) fn new(id_bytes: usize) -> Self {
        Self {
            state: State::Header(Vec::new()),
            objects_left: 0,
            trailer_bytes: id_bytes,
            inflater: Decompress::new(true),
            room: vec![0; ROOM],
        }
    }

    /// Returns whether the pack is complete.
    pub(super) const fn is_complete(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Takes the next bytes. Returns how many of them belong to the pack.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, ProtocolError> {
        let mut rest = bytes;
        while !self.is_complete() {
            let Some((first, after)) = rest.split_first() else { break };
            match &mut self.state {
                State::Header(header) => {
                    header.push(*first);
                    rest = after;
                    if header.len() == 12 {
                        self.objects_left = object_count(header)?;
                        self.state = self.next_object();
                    }
                }
                State::ObjectHeader { kind } => {
                    rest = after;
                    let kind = *kind.get_or_insert((first >> 4) & 7);
                    if first & 0x80 == 0 {
                        self.inflater.reset(true);
                        self.state = match kind {
                            1..=4 => State::Content,
                            6 => State::Offset,
                            7 => State::Base { left: self.trailer_bytes },
                            _ => return Err(ProtocolError("the pack has an object of an unknown type")),
                        };
                    }
                }
                State::Offset => {
                    rest = after;
                    if first & 0x80 == 0 {
                        self.state = State::Content;
                    }
                }
                State::Base { left } => {
                    let skipped = rest.len().min(*left);
                    rest = rest.get(skipped..).unwrap_or_default();
                    *left = left.saturating_sub(skipped);
                    if *left == 0 {
                        self.state = State::Content;
                    }
                }
                State::Content => rest = self.inflate(rest)?,
                State::Trailer { left } => {
                    let skipped = rest.len().min(*left);
                    rest = rest.get(skipped..).unwrap_or_default();
                    *left = left.saturating_sub(skipped);
                    if *left == 0 {
                        self.state = State::Done;
                    }
                }
                State::Done => break,
            }
        }
        Ok(bytes.len().saturating_sub(rest.len()))
    }

    fn next_object(&mut self) -> State {
        match self.objects_left.checked_sub(1) {
            Some(left) => {
                self.objects_left = left;
                State::ObjectHeader { kind: None }
            }
            None => State::Trailer { left: self.trailer_bytes },
        }
    }

    /// Inflates the content of an object. Returns the bytes after those that were used.
    fn inflate<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], ProtocolError> {
        let broken = ProtocolError("the pack is damaged");
        let (read, wrote) = (self.inflater.total_in(), self.inflater.total_out());
        let status = self.inflater.decompress(bytes, &mut self.room, FlushDecompress::None);
        let status = status.map_err(|_| broken.clone())?;
        let used = usize::try_from(self.inflater.total_in().saturating_sub(read)).unwrap_or(usize::MAX);
        if status == Status::StreamEnd {
            self.state = self.next_object();
        } else if used == 0 && self.inflater.total_out() == wrote {
            return Err(broken);
        }
        bytes.get(used..).ok_or(broken)
    }
}

fn object_count(header: &[u8]) -> Result<u32, ProtocolError> {
    let broken = ProtocolError("this is not a pack");
    let (name, rest) = header.split_first_chunk::<4>().ok_or_else(|| broken.clone())?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(|| broken.clone())?;
    let (count, _) = rest.split_first_chunk::<4>().ok_or_else(|| broken.clone())?;
    match (name, u32::from_be_bytes(*version)) {
        (b"PACK", 2 | 3) => Ok(u32::from_be_bytes(*count)),
        _ => Err(broken),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    /// A pack of Git itself, with a delta.
    fn pack() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str], input: &str| {
            let mut git = Command::new("git");
            git.args(arguments).current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
            for name in ["AUTHOR", "COMMITTER"] {
                git.env(format!("GIT_{name}_NAME"), "a").env(format!("GIT_{name}_EMAIL"), "a@b");
            }
            let mut running = git.spawn().unwrap();
            running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            let ended = running.wait_with_output().unwrap();
            assert!(ended.status.success());
            ended.stdout
        };
        git(&["init", "-q", "."], "");
        let long: String = (0..4_000).map(|line| format!("{line}\n")).collect();
        for change in ["a", "b"] {
            std::fs::write(folder.path().join("file"), format!("{long}{change}")).unwrap();
            git(&["add", "file"], "");
            git(&["commit", "-q", "-m", change], "");
        }
        git(&["pack-objects", "--stdout", "--revs", "--delta-base-offset", "-q"], "HEAD\n")
    }

    // req: E7
    #[test]
    fn the_end_of_a_pack_is_found_however_it_arrives() {
        let pack = pack();
        let more = [&pack[..], b"0000 more"].concat();
        for size in [1, 2, 7, 1_000, more.len()] {
            let (mut end, mut taken) = (PackEnd::new(20), 0);
            for part in more.chunks(size) {
                taken += end.take(part).unwrap();
            }
            assert!(end.is_complete());
            assert_eq!(taken, pack.len(), "in parts of {size}");
        }
        let mut end = PackEnd::new(20);
        end.take(&pack[..pack.len() - 1]).unwrap();
        assert!(!end.is_complete());
        let mut damaged = pack.clone();
        damaged[0] = b'X';
        assert!(PackEnd::new(20).take(&damaged).is_err());
    }

    proptest! {
        #[test]
        fn nothing_that_a_client_sends_breaks_it(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let bytes = [&b"PACK\0\0\0\x02\0\0\0\x02"[..], &bytes].concat();
            let mut end = PackEnd::new(20);
            if let Ok(taken) = end.take(&bytes) {
                prop_assert!(taken <= bytes.len());
            }
        }
    }
}
