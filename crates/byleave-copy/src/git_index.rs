//! The path names in Git's index. The index is read, and never locked or written. An unreadable index has no names. That is the
//! safe answer, because then no path is considered to be stored safely in the repository.
//!
//! An agent can write the index. So the index is read piece by piece, and none of its fields decides how much memory is used. The
//! names are in one buffer of limited length, and a directory is found by the names below it.

use std::io::{BufRead, Read};
use std::ops::RangeInclusive;

use byleave_core::digest::Digest;

/// The length of an entry before its name, with hashes of 20 bytes. Its last two bytes are flags.
const FIXED_ENTRY_LEN: usize = 62;
/// The length of an entry before its name, with the second word of flags.
const ENTRY_FIELDS_LEN: usize = FIXED_ENTRY_LEN + 2;
/// The place of the mode in an entry.
const MODE_FIELD: RangeInclusive<usize> = 24..=27;
/// The place of the object and of the flags in an entry.
const OBJECT_AND_FLAGS_FIELDS: RangeInclusive<usize> = 40..=ENTRY_FIELDS_LEN - 1;
/// The length of the checksum at the end of an index.
const CHECKSUM_LEN: usize = 20;
/// The longest path that Linux opens.
const NAME_BYTES_MAX: u64 = 4_096;

/// The names in an index.
#[derive(Debug, Default)]
pub(crate) struct GitIndexNames {
    /// All names, one after the other, in the order of the index: sorted by bytes.
    text: Vec<u8>,
    /// The end of each name.
    ends: Vec<u32>,
    /// The positions of the names whose changes Git does not show, in order.
    hidden: Vec<u32>,
}

impl GitIndexNames {
    /// Reads an index of version 2, 3 or 4 with hashes of 20 bytes. Returns `None` for any other or damaged index, or if the names
    /// exceed `bytes_max`.
    pub(crate) fn parse(mut index: impl BufRead, bytes_max: usize) -> Option<Self> {
        let mut header = [0; 12];
        index.read_exact(&mut header).ok()?;
        let [b'D', b'I', b'R', b'C', 0, 0, 0, version @ 2..=4, count @ ..] = header else { return None };
        // Allocated once, so that it is never moved. Pages that are not written use no memory.
        let mut names = Self { text: Vec::with_capacity(bytes_max), ends: Vec::new(), hidden: Vec::new() };
        let (mut name, mut fields) = (Vec::new(), [0; ENTRY_FIELDS_LEN]);
        for _ in 0..u32::from_be_bytes(count) {
            if read_entry(&mut index, version, &mut name, &mut fields)? {
                names.hidden.push(u32::try_from(names.ends.len()).ok()?);
            }
            if name.len() > bytes_max.saturating_sub(names.text.len()) {
                return None;
            }
            names.text.extend_from_slice(&name);
            names.ends.push(u32::try_from(names.text.len()).ok()?);
        }
        names.text.shrink_to_fit();
        Some(names)
    }

    /// Checks whether the index contains a path, or something below it.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let at_or_after = |wanted: &[u8]| self.name(self.position(wanted));
        let beneath = format!("{path}/");
        at_or_after(path.as_bytes()).is_some_and(|name| name == path.as_bytes())
            || at_or_after(beneath.as_bytes()).is_some_and(|name| name.starts_with(beneath.as_bytes()))
    }

    /// Returns the names whose changes Git does not show: those that are assumed to be unchanged, or not to be in the working tree.
    pub(crate) fn hidden_names(&self) -> impl Iterator<Item = &[u8]> {
        self.hidden.iter().filter_map(|place| self.name(*place as usize))
    }

    /// Returns the total length of the names.
    pub(crate) const fn byte_len(&self) -> usize {
        self.text.len()
    }

    /// Returns the position of the first name that is not less than `wanted`.
    fn position(&self, wanted: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.name(middle) {
                Some(name) if name < wanted => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    fn name(&self, place: usize) -> Option<&[u8]> {
        let end = *self.ends.get(place)? as usize;
        let start =
            place.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize);
        self.text.get(start..end)
    }
}

/// The flag of an entry that is assumed to be unchanged, in the first byte of its flags.
const ASSUME_VALID: u8 = 0x80;
/// The flag of an entry that has a second word of flags.
const EXTENDED: u8 = 0x40;
/// The flag of an entry that need not be in the working tree, in the first byte of its second word of flags.
const SKIP_WORKTREE: u8 = 0x40;

/// Returns a digest of what an index stages: names, modes, objects and flags. It does not depend on the times and numbers of the files, which
/// Git refreshes when it only looks. Returns `None` for an index that is not understood in full.
pub(crate) fn staged_digest(index: &[u8]) -> Option<Digest> {
    let (mut rest, _checksum) = index.split_at_checked(index.len().checked_sub(CHECKSUM_LEN)?)?;
    let mut header = [0; 12];
    rest.read_exact(&mut header).ok()?;
    let [b'D', b'I', b'R', b'C', 0, 0, 0, version @ 2..=4, count @ ..] = header else { return None };
    let (mut name, mut fields) = (Vec::new(), [0; ENTRY_FIELDS_LEN]);
    let mut staged = Vec::new();
    for _ in 0..u32::from_be_bytes(count) {
        read_entry(&mut rest, version, &mut name, &mut fields)?;
        staged.extend_from_slice(fields.get(MODE_FIELD)?);
        staged.extend_from_slice(fields.get(OBJECT_AND_FLAGS_FIELDS)?);
        staged.extend_from_slice(&name);
        staged.push(0);
    }
    while !rest.is_empty() {
        let mut head = [0; 8];
        rest.read_exact(&mut head).ok()?;
        let [kind, _, _, _, length @ ..] = head;
        // Git must understand an extension whose name begins in lower case: it can hold entries.
        if kind.is_ascii_lowercase() {
            return None;
        }
        rest = rest.get(usize::try_from(u32::from_be_bytes(length)).ok()?..)?;
    }
    Some(Digest::compute(&staged))
}

/// Reads one entry: its name, and its fields with the second word of flags. In version 4 the name shares a prefix with the previous one.
/// Returns whether Git does not show its changes.
fn read_entry(
    index: &mut impl BufRead,
    version: u8,
    name: &mut Vec<u8>,
    fields: &mut [u8; ENTRY_FIELDS_LEN],
) -> Option<bool> {
    let (fixed, more) = fields.split_at_mut_checked(FIXED_ENTRY_LEN)?;
    index.read_exact(fixed).ok()?;
    let [.., flags, _] = fixed else { return None };
    let mut length = FIXED_ENTRY_LEN;
    let mut is_hidden = *flags & ASSUME_VALID != 0;
    more.fill(0);
    if version >= 3 && *flags & EXTENDED != 0 {
        index.read_exact(more).ok()?;
        let [first, _] = more else { return None };
        is_hidden |= *first & SKIP_WORKTREE != 0;
        length += 2;
    }
    let kept = if version == 4 { name.len().checked_sub(read_number(index)?)? } else { 0 };
    name.truncate(kept);
    index.by_ref().take(NAME_BYTES_MAX).read_until(0, name).ok()?;
    (name.pop()? == 0 && name.len() as u64 <= NAME_BYTES_MAX).then_some(())?;
    if version < 4 {
        // Entries are padded to eight bytes, with at least one byte, which was read behind the name.
        length += name.len() + 1;
        let padding = length.next_multiple_of(8) - length;
        index.read_exact([0; 8].get_mut(..padding)?).ok()?;
    }
    Some(is_hidden)
}

/// Reads a number of variable length, encoded as the offsets in pack files.
fn read_number(index: &mut impl Read) -> Option<usize> {
    let mut next = || {
        let mut byte = [0];
        index.read_exact(&mut byte).ok()?;
        Some(byte)
    };
    let [mut byte] = next()?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        [byte] = next()?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(index: &[u8]) -> Option<GitIndexNames> {
        GitIndexNames::parse(index, 1 << 20)
    }

    fn header(version: u8, count: u32) -> Vec<u8> {
        [b"DIRC\0\0\0".as_slice(), &[version], &count.to_be_bytes()].concat()
    }

    /// Builds an index of version 2.
    fn index(names: &[String]) -> Vec<u8> {
        let mut bytes = header(2, u32::try_from(names.len()).unwrap());
        for name in names {
            let start = bytes.len();
            bytes.extend([0; FIXED_ENTRY_LEN]);
            bytes.extend(name.as_bytes());
            bytes.push(0);
            bytes.resize(start + (bytes.len() - start).next_multiple_of(8), 0);
        }
        bytes
    }

    // req: E9
    #[test]
    fn names_and_the_directories_above_them_are_found() {
        let names =
            read(&index(&["a".into(), "d-x".into(), "d/e/f".into(), "dz".into(), "s/".into()])).unwrap();
        for there in ["a", "d-x", "d", "d/e", "d/e/f", "dz", "s"] {
            assert!(names.contains(there), "{there}");
        }
        for absent in ["", "b", "d/", "d/e/", "d/e/g", "e", "x", "d/e/f/g"] {
            assert!(!names.contains(absent), "{absent}");
        }
        assert!(!read(&index(&[])).unwrap().contains("a"));
        assert!(read(b"").is_none() && read(&header(5, 0)).is_none() && read(&header(2, 1)).is_none());
    }

    // req: E9
    #[test]
    fn what_an_index_stages_does_not_depend_on_times() {
        let sealed = |index: Vec<u8>| [index, vec![0; CHECKSUM_LEN]].concat();
        let names = ["a".to_owned(), "b/c".to_owned()];
        let plain = sealed(index(&names));
        let staged = staged_digest(&plain);
        assert!(staged.is_some());
        let with = |place: usize| {
            let mut other = plain.clone();
            other[12 + place] = 7;
            staged_digest(&other)
        };
        // Times, numbers and sizes; then the mode, the object and the flags.
        for place in (0..24).chain(28..40) {
            assert_eq!(with(place), staged, "{place}");
        }
        for place in (24..28).chain(40..61) {
            assert_ne!(with(place), staged, "{place}");
        }
        assert_ne!(staged_digest(&sealed(index(&names[..1]))), staged);
        let extended = |kind: &[u8; 4]| {
            sealed([index(&names), kind.to_vec(), 2_u32.to_be_bytes().to_vec(), vec![1, 2]].concat())
        };
        assert_eq!(staged_digest(&extended(b"TREE")), staged);
        assert_eq!(staged_digest(&extended(b"link")), None, "entries may be elsewhere");
        assert_eq!(staged_digest(&plain[..plain.len() - 1]), None);
        assert_eq!(staged_digest(b""), None);
    }

    // req: E9
    #[test]
    fn an_index_cannot_make_more_of_itself() {
        // Every name is as long as the first, but almost none of it is in the file.
        let mut repeating = header(4, 10_000);
        for number in 0..10_000 {
            repeating.extend([0; FIXED_ENTRY_LEN]);
            match number {
                0 => repeating.extend([vec![0], vec![b'a'; 4_000], vec![0]].concat()),
                _ => repeating.extend([1, b'b', 0]),
            }
        }
        assert!(repeating.len() < 1 << 20);
        assert!(GitIndexNames::parse(repeating.as_slice(), 32 << 20).is_none());
        assert!(GitIndexNames::parse(repeating.as_slice(), 40 << 20).is_some());
        // Every name has many directories above it.
        let deep = "a/".repeat(2_000);
        let names: Vec<String> = (0..1_000).map(|number| format!("{number:04}/{deep}x")).collect();
        let read = read(&index(&names)[..]);
        assert!(read.is_none(), "4 MB of names in 1 MiB");
        let read = GitIndexNames::parse(index(&names).as_slice(), 5 << 20).unwrap();
        assert!(
            read.contains(&names[999]) && read.contains("0500/a/a/a") && read.text.capacity() <= 10 << 20
        );
        // A name that no file can have.
        assert!(GitIndexNames::parse(index(&["a".repeat(5_000)]).as_slice(), 1 << 20).is_none());
        // A number that overflows.
        assert!(
            GitIndexNames::parse(
                [header(4, 1), vec![0; FIXED_ENTRY_LEN], vec![0xff; 99]].concat().as_slice(),
                9
            )
            .is_none()
        );
    }
}
