//! Formats short texts with numbers, without a heap.

use core::ffi::CStr;

/// A text of at most 63 bytes. A longer text is cut, and the kernel refuses the result.
pub(super) struct ShortText {
    bytes: [u8; 64],
    length: usize,
}

impl ShortText {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; 64], length: 0 }
    }

    pub(super) fn byte(&mut self, byte: u8) -> &mut Self {
        // The last byte stays the terminating zero.
        if self.length + 1 < self.bytes.len()
            && let Some(place) = self.bytes.get_mut(self.length)
        {
            *place = byte;
            self.length += 1;
        }
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.in_base(number, 10)
    }

    pub(super) fn octal(&mut self, number: u64) -> &mut Self {
        self.in_base(number, 8)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a digit is below ten")]
    fn in_base(&mut self, number: u64, base: u64) -> &mut Self {
        let mut divisor = 1;
        while number / divisor >= base {
            divisor *= base;
        }
        while divisor > 0 {
            self.byte(b'0' + (number / divisor % base) as u8);
            divisor /= base;
        }
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(super) fn text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::ShortText;

    #[test]
    fn numbers_are_written_as_people_write_them() {
        let mut digits = ShortText::new();
        digits.number(0).byte(b' ').number(61_001).byte(b' ').octal(0o1777);
        assert_eq!(digits.text(), c"0 61001 1777");
        let mut digits = ShortText::new();
        digits.number(u64::MAX);
        assert_eq!(digits.bytes(), b"18446744073709551615");
    }
}
