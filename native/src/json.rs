//! A parser for a simple subset of JSON: without white space, with whole numbers only, without escaped surrogates.
//!
//! Other JSON is rare; the functions return None for it, and Python parses it.

/// The undecoded text of a JSON string, without its quotation marks.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub raw: &'a [u8],
    pub is_escaped: bool,
}

impl<'a> Text<'a> {
    /// Returns the characters of a string without escapes; None if it has escapes.
    pub fn plain(self) -> Option<&'a [u8]> {
        (!self.is_escaped).then_some(self.raw)
    }

    /// Appends the decoded characters in UTF-8; returns None for an unsupported escape.
    pub fn unescape(self, to: &mut Vec<u8>) -> Option<()> {
        if !self.is_escaped {
            to.extend_from_slice(self.raw);
            return Some(());
        }
        let mut left = self.raw;
        while let Some(at) = left.iter().position(|byte| *byte == b'\\') {
            to.extend_from_slice(&left[..at]);
            let kind = *left.get(at + 1)?;
            left = &left[at + 2..];
            match kind {
                b'"' | b'\\' | b'/' => to.push(kind),
                b'b' => to.push(8),
                b'f' => to.push(12),
                b'n' => to.push(b'\n'),
                b'r' => to.push(b'\r'),
                b't' => to.push(b'\t'),
                b'u' => {
                    let (digits, rest) = left.split_first_chunk::<4>()?;
                    left = rest;
                    let code = digits
                        .iter()
                        .try_fold(0u32, |code, digit| Some(code << 4 | hex(*digit)?))?;
                    if code < 0x80 {
                        to.push(code as u8);
                    } else {
                        let mut room = [0; 4];
                        to.extend_from_slice(
                            char::from_u32(code)?.encode_utf8(&mut room).as_bytes(),
                        );
                    }
                }
                _ => return None,
            }
        }
        to.extend_from_slice(left);
        Some(())
    }
}

fn hex(digit: u8) -> Option<u32> {
    match digit {
        b'0'..=b'9' => Some(u32::from(digit - b'0')),
        b'a'..=b'f' => Some(u32::from(digit - b'a' + 10)),
        b'A'..=b'F' => Some(u32::from(digit - b'A' + 10)),
        _ => None,
    }
}

/// Maximum number of digits of a number; longer ones may not fit into 64 bits.
const MOST_DIGITS: usize = 18;

/// Parses a whole number without plus sign and leading zeros; returns None for others.
pub fn whole<T: TryFrom<i64>>(digits: &[u8]) -> Option<T> {
    let (is_negative, unsigned) = match digits {
        [b'-', unsigned @ ..] => (true, unsigned),
        _ => (false, digits),
    };
    match unsigned {
        [] => return None,
        [b'0', ..] if digits.len() > 1 => return None,
        _ if unsigned.len() > MOST_DIGITS => return None,
        _ => {}
    }
    let mut number = 0i64;
    for digit in unsigned {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + i64::from(digit - b'0');
    }
    T::try_from(if is_negative { -number } else { number }).ok()
}

pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// Reads one character; returns None if it is not `wanted`.
    pub fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.take()? == wanted).then_some(())
    }

    fn take(&mut self) -> Option<u8> {
        let found = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(found)
    }

    /// Returns the position of the next character.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Reads a string, from its first quotation mark on.
    pub fn string(&mut self) -> Option<Text<'a>> {
        self.expect(b'"')?;
        let text = self.bytes.get(self.at..)?;
        let mut is_escaped = false;
        let mut at = 0;
        loop {
            match *text.get(at)? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    at += 2;
                }
                0..0x20 => return None,
                _ => at += 1,
            }
        }
        self.at += at + 1;
        Some(Text {
            raw: &text[..at],
            is_escaped,
        })
    }

    /// Reads a whole number.
    pub fn number<T: TryFrom<i64>>(&mut self) -> Option<T> {
        let left = self.bytes.get(self.at..)?;
        let length = left
            .iter()
            .position(|byte| !(byte.is_ascii_digit() || *byte == b'-'))?;
        self.at += length;
        whole(&left[..length])
    }

    /// Reads the character after a member: true for a comma, false for the end of the object, None for others.
    pub fn has_more(&mut self) -> Option<bool> {
        match self.take()? {
            b',' => Some(true),
            b'}' => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
        let mut found = Vec::new();
        let mut reader = Reader::new(text);
        reader.string()?.unescape(&mut found)?;
        reader.is_at_end().then_some(found)
    }

    #[test]
    fn strings() {
        assert_eq!(
            unescaped(br#""a\u0001b\n\"\\\/\u00e4""#),
            Some(b"a\x01b\n\"\\/\xc3\xa4".to_vec())
        );
        for bad in [
            &br#""\x""#[..],
            br#""\u12"#,
            br#""\ud800""#,
            br#""a"#,
            br#""a\"#,
            br#""\"#,
            b"\"\x01\"",
            b"",
        ] {
            assert_eq!(unescaped(bad), None);
        }
    }

    #[test]
    fn whole_numbers() {
        assert_eq!(whole::<i32>(b"-12"), Some(-12));
        assert_eq!(whole::<i32>(b"0"), Some(0));
        for bad in [
            &b"-0"[..],
            b"01",
            b"",
            b"-",
            b"+1",
            b"1.0",
            b" 1",
            b"2147483648",
            b"1-1",
        ] {
            assert_eq!(whole::<i32>(bad), None);
        }
    }
}
