//! Git's index, as far as names go. Read, never locked, never written; what cannot be read has no names in it, which is the
//! careful answer: nothing is then taken for safe in the repository.

/// The names in an index of version 2, 3 or 4 with hashes of 20 bytes.
pub(crate) fn names(index: &[u8]) -> Option<Vec<String>> {
    const FIXED: usize = 60;
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at.checked_add(4)?)?.try_into().ok()?));
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (number(4)?, number(8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut all = Vec::new();
    let mut last: Vec<u8> = Vec::new();
    let mut at = 12_usize;
    for _ in 0..count {
        let start = at;
        let flags = index.get(start.checked_add(FIXED)?..start.checked_add(FIXED + 2)?)?;
        let is_long = version >= 3 && flags.first()? & 0x40 != 0;
        at = start + FIXED + 2 + if is_long { 2 } else { 0 };
        if version == 4 {
            let (cut, after) = variable(index, at)?;
            last.truncate(last.len().checked_sub(cut)?);
            at = after;
        } else {
            last.clear();
        }
        let rest = index.get(at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        last.extend_from_slice(rest.get(..length)?);
        at += length + 1;
        if version < 4 {
            // Entries are padded to eight bytes, with at least one.
            at = start + (at - start).div_ceil(8) * 8;
        }
        all.push(String::from_utf8_lossy(&last).into_owned());
    }
    Some(all)
}

/// A number of variable length, as in pack files with offsets.
fn variable(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some((value, at + 1))
}
