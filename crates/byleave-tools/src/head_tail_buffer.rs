//! A buffer that keeps the beginning and the end of an output.
//!
//! It never uses more memory than its limit, and it never cuts within a character.

use std::collections::VecDeque;

use memchr::{memchr, memchr_iter, memrchr};

/// The beginning and the end of an output.
#[derive(Clone, Debug)]
pub(crate) struct HeadTailBuffer {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    /// The omitted part between the two.
    lost: OmittedOutput,
}

/// The size of the omitted output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OmittedOutput {
    pub(crate) bytes: u64,
    /// The number of line ends in it.
    pub(crate) lines: u64,
}

impl HeadTailBuffer {
    /// Creates an empty buffer with this capacity: half for the beginning, half for the end.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let tail_max = bytes_max / 2;
        Self::of(bytes_max - tail_max, tail_max)
    }

    /// Creates an empty buffer that keeps only the end.
    pub(crate) fn tail_only(bytes_max: usize) -> Self {
        Self::of(0, bytes_max)
    }

    fn of(head_max: usize, tail_max: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), head_max, tail_max, lost: OmittedOutput::default() }
    }

    /// Adds output.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let room = self.head_max.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // Bytes that would be dropped at once are not copied.
        let (passing, staying) = rest.split_at(rest.len().saturating_sub(self.tail_max));
        let over = (self.tail.len() + staying.len()).saturating_sub(self.tail_max).min(self.tail.len());
        self.drop_tail_front(over);
        self.lost.add(passing);
        self.tail.extend(staying);
    }

    /// Checks whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.lost.bytes == 0
    }

    /// Returns the size of the omitted output.
    pub(crate) const fn omitted(&self) -> OmittedOutput {
        self.lost
    }

    /// Returns the content and empties the buffer. Unless the output has ended, an incomplete character at the end stays in the buffer.
    pub(crate) fn take(&mut self, ended: bool) -> Self {
        let mut taken = std::mem::replace(self, Self::of(self.head_max, self.tail_max));
        let unfinished = if ended { 0 } else { taken.unfinished() };
        for _ in 0..unfinished {
            let byte = taken.tail.pop_back().or_else(|| taken.head.pop());
            // At most three bytes, before the next output.
            match (byte, self.head_max) {
                (Some(byte), 0) => self.tail.push_front(byte),
                (Some(byte), _) => self.head.insert(0, byte),
                (None, _) => {}
            }
        }
        taken
    }

    /// Drops this many bytes from the front of the kept end.
    pub(crate) fn drop_tail_front(&mut self, bytes: usize) {
        let bytes = bytes.min(self.tail.len());
        let (one, two) = self.tail.as_slices();
        let at = bytes.min(one.len());
        let (of_one, of_two) = (one.split_at(at).0, two.split_at(bytes - at).0);
        self.lost.add(of_one);
        self.lost.add(of_two);
        self.tail.drain(..bytes);
    }

    /// Returns the number of bytes of the kept end.
    pub(crate) fn tail_len(&self) -> usize {
        self.tail.len()
    }

    /// Returns the kept parts as text, and the omitted size. It cuts between lines if a line end is near, otherwise between characters.
    pub(crate) fn into_parts(mut self) -> (String, OmittedOutput, String) {
        if self.lost.bytes == 0 {
            self.head.extend(self.tail.drain(..));
            return (lossy(self.head), OmittedOutput::default(), String::new());
        }
        let head_cut = match memrchr(b'\n', &self.head) {
            Some(at) if at >= self.head.len() / 2 => at + 1,
            _ => self.head.len() - unfinished(&self.head),
        };
        self.lost.add(self.head.split_at(head_cut).1);
        self.head.truncate(head_cut);
        let tail: &[u8] = self.tail.make_contiguous();
        let tail_cut = match memchr(b'\n', tail) {
            Some(at) if at < tail.len() / 2 => at + 1,
            // The rest of a character whose beginning was dropped.
            _ => tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count(),
        };
        self.drop_tail_front(tail_cut);
        (lossy(self.head), self.lost, lossy(self.tail.into()))
    }

    /// Returns how many bytes at the end are an incomplete character. The character may have begun before the kept end.
    fn unfinished(&self) -> usize {
        let before = self.head.iter().rev().take(if self.lost.bytes == 0 { 3 } else { 0 });
        let mut last: Vec<u8> = self.tail.iter().rev().chain(before).take(3).copied().collect();
        last.reverse();
        unfinished(&last)
    }
}

impl OmittedOutput {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.lines += memchr_iter(b'\n', bytes).count() as u64;
    }
}

/// Returns how many bytes at the end are an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    let begins = |byte: &u8| byte & 0xc0 == 0xc0;
    let Some(back) = bytes.iter().rev().take(3).position(begins) else { return 0 };
    let last = bytes.split_at(bytes.len() - back - 1).1;
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    // Most output is valid text, which is not copied.
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(bytes_max: usize, chunk: usize, printed: &[u8]) -> HeadTailBuffer {
        let mut kept = HeadTailBuffer::new(bytes_max);
        printed.chunks(chunk).for_each(|chunk| kept.add(chunk));
        kept
    }

    // req: E3
    #[test]
    fn beginning_and_end_are_kept_and_what_is_lost_is_counted() {
        let printed: String = (0..5_000).map(|i| format!("line {i} é\n")).collect();
        for chunk in [1, 7, 64, 1_000, 100_000] {
            for bytes_max in [0, 1, 2, 30, 31, 1_000, 4_097, printed.len() - 1, printed.len(), 1 << 20] {
                let (head, lost, tail) = kept(bytes_max, chunk, printed.as_bytes()).into_parts();
                let at = format!("{bytes_max} in steps of {chunk}");
                assert_eq!(
                    head.len() + tail.len() + usize::try_from(lost.bytes).unwrap(),
                    printed.len(),
                    "{at}"
                );
                assert!(head.len() + tail.len() <= bytes_max, "{at}");
                assert!(printed.starts_with(&head) && printed.ends_with(&tail), "{at}");
                let between = printed.get(head.len()..printed.len() - tail.len()).unwrap();
                assert_eq!(lost.lines, between.matches('\n').count() as u64, "{at}");
                assert_eq!(lost == OmittedOutput::default(), bytes_max >= printed.len(), "{at}");
                if bytes_max >= 1_000 && lost.bytes > 0 {
                    assert!(head.ends_with('\n') && tail.starts_with("line "), "between lines: {at}");
                }
            }
        }
    }

    // req: E3
    #[test]
    fn characters_are_never_cut() {
        // No line end to cut at, and characters of every width.
        let printed = "aé€😀".repeat(100);
        for bytes_max in 0..200 {
            let (head, lost, tail) = kept(bytes_max, 13, printed.as_bytes()).into_parts();
            assert!(printed.starts_with(&head) && printed.ends_with(&tail), "{bytes_max}: {head} {tail}");
            assert_eq!(head.len() + tail.len() + usize::try_from(lost.bytes).unwrap(), printed.len());
            assert!(head.len() + tail.len() + 6 >= bytes_max, "{bytes_max}");
        }
    }

    // req: B1
    #[test]
    fn what_is_taken_is_whole_characters_and_together_it_is_everything() {
        let printed = "x😀é€\n".repeat(50);
        for mut kept in [
            HeadTailBuffer::new(1_000),
            HeadTailBuffer::tail_only(1_000),
            HeadTailBuffer::new(4),
            HeadTailBuffer::new(8),
        ] {
            let mut said = String::new();
            for byte in printed.as_bytes() {
                kept.add(&[*byte]);
                let (head, _, tail) = kept.take(false).into_parts();
                said.push_str(&head);
                said.push_str(&tail);
                assert!(!said.contains('\u{fffd}'), "{said}");
            }
            assert_eq!(said, printed);
        }
        // Invalid bytes do not delay the output.
        let mut kept = HeadTailBuffer::new(100);
        kept.add(b"a\xff\xfe");
        assert_eq!(kept.take(false).into_parts().0, "a\u{fffd}\u{fffd}");
        kept.add(b"\xf0\x9f");
        assert!(kept.take(false).is_empty() && !kept.is_empty());
        kept.add(b"x");
        assert_eq!(kept.take(false).into_parts().0, "\u{fffd}x");
    }

    // req: E3
    #[test]
    fn no_more_is_held_than_was_allowed() {
        let mut kept = HeadTailBuffer::new(1 << 16);
        for _ in 0..1_000 {
            kept.add(&[b'x'; 64 << 10]);
            assert!(kept.head.capacity() + kept.tail.capacity() <= 3 << 16, "{}", kept.tail.capacity());
        }
        assert_eq!(kept.omitted().bytes, (1_000 << 16) - (1 << 16));
    }
}
