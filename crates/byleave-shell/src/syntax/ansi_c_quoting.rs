//! Decodes ANSI-C quoting: `$'…'`.

/// Decodes the text between the quotes. Returns `None` if it is not text, or differs between versions of the shell.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            push(&mut bytes, c);
            continue;
        }
        let Some(escape) = rest.next() else {
            bytes.push(b'\\');
            break;
        };
        match escape {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'e' | 'E' => bytes.push(27),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            '\\' | '\'' | '"' | '?' => push(&mut bytes, escape),
            '0'..='7' => {
                let mut digits = String::from(escape);
                digits.push_str(&take_digits(&mut rest, 8, 2));
                bytes.push(u8::try_from(u32::from_str_radix(&digits, 8).ok()? & 0xff).ok()?);
            }
            'x' => {
                if rest.peek() == Some(&'{') {
                    return None;
                }
                let digits = take_digits(&mut rest, 16, 2);
                if digits.is_empty() {
                    bytes.extend_from_slice(b"\\x");
                } else {
                    bytes.push(u8::from_str_radix(&digits, 16).ok()?);
                }
            }
            'u' | 'U' => {
                let digits = take_digits(&mut rest, 16, if escape == 'u' { 4 } else { 8 });
                if digits.is_empty() {
                    bytes.push(b'\\');
                    push(&mut bytes, escape);
                } else {
                    // Beyond ASCII the result depends on the locale of the shell.
                    let code = u32::from_str_radix(&digits, 16).ok()?;
                    if code > 0x7f {
                        return None;
                    }
                    push(&mut bytes, char::from_u32(code)?);
                }
            }
            'c' => match rest.next() {
                Some(c) if c.is_ascii_alphabetic() => bytes.push(u8::try_from(c).ok()? & 0x1f),
                _ => return None,
            },
            other => {
                bytes.push(b'\\');
                push(&mut bytes, other);
            }
        }
        // Strings of the shell end at a NUL.
        if bytes.last() == Some(&0) {
            bytes.pop();
            break;
        }
    }
    String::from_utf8(bytes).ok()
}

fn push(bytes: &mut Vec<u8>, c: char) {
    let mut buffer = [0; 4];
    bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
}

fn take_digits(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize) -> String {
    let mut digits = String::new();
    while digits.len() < most
        && let Some(c) = rest.next_if(|c| c.is_digit(radix))
    {
        digits.push(c);
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn ansi_quotes_are_decoded_as_bash_does() {
        for (text, want) in [
            ("\\x74ouch", Some("touch")),
            ("\\164\\157\\165\\143\\150", Some("touch")),
            ("a\\tb\\q", Some("a\tb\\q")),
            ("a\\0b", Some("a")),
            ("\\cA", Some("\u{1}")),
            ("\\xff", None),
            ("\\u0041\\'", Some("A'")),
            ("\\xzz", Some("\\xzz")),
        ] {
            assert_eq!(decode(text).as_deref(), want, "{text}");
        }
    }
}
