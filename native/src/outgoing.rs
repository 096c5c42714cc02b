//! What producers send: properties as text, header fields as JSON, and the bodies of batches.

use std::io::Write;

use crate::properties::{ENTRY_END, NAME_END};

/// Bytes of a message of a batch beside its body and properties.
pub const OVERHEAD: usize = 22;

/// Append properties in their stored form; None if a separator is in one of them.
pub fn write_property(to: &mut Vec<u8>, name: &str, value: &str) -> Option<()> {
    if has_separator(name) || has_separator(value) {
        return None;
    }
    to.extend_from_slice(name.as_bytes());
    to.push(NAME_END);
    to.extend_from_slice(value.as_bytes());
    to.push(ENTRY_END);
    Some(())
}

fn has_separator(text: &str) -> bool {
    memchr::memchr2(NAME_END, ENTRY_END, text.as_bytes()).is_some()
}

/// Append a text as a JSON string: what must be escaped is, and nothing else.
pub fn write_json(to: &mut Vec<u8>, text: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    to.push(b'"');
    let mut plain = 0;
    for (at, byte) in text.iter().enumerate() {
        if *byte >= 0x20 && *byte != b'"' && *byte != b'\\' {
            continue;
        }
        to.extend_from_slice(&text[plain..at]);
        plain = at + 1;
        match byte {
            b'"' | b'\\' => to.extend([b'\\', *byte]),
            8 => to.extend(b"\\b"),
            9 => to.extend(b"\\t"),
            10 => to.extend(b"\\n"),
            12 => to.extend(b"\\f"),
            13 => to.extend(b"\\r"),
            _ => {
                to.extend(b"\\u00");
                to.extend([
                    DIGITS[usize::from(byte >> 4)],
                    DIGITS[usize::from(byte & 15)],
                ]);
            }
        }
    }
    to.extend_from_slice(&text[plain..]);
    to.push(b'"');
}

/// Write the part of a send's header between its fields and its constant end; return the bytes written.
pub fn write_numbers(to: &mut [u8; 48], flag: i32, opaque: i32) -> &[u8] {
    let mut rest = &mut to[..];
    // 20 characters and two numbers of at most 11 fit.
    let done = write!(rest, "}},\"flag\":{flag},\"opaque\":{opaque},");
    debug_assert!(done.is_ok());
    let left = rest.len();
    &to[..48 - left]
}

/// Append a message of a batch; None if its lengths cannot be written.
pub fn write_message(to: &mut Vec<u8>, flag: i32, body: &[u8], properties: &[u8]) -> Option<()> {
    let size = OVERHEAD
        .checked_add(body.len())?
        .checked_add(properties.len())?;
    let size = i32::try_from(size).ok()?;
    let length = u16::try_from(properties.len()).ok()?;
    to.extend(size.to_be_bytes());
    to.extend([0; 8]);
    to.extend(flag.to_be_bytes());
    to.extend((body.len() as i32).to_be_bytes());
    to.extend_from_slice(body);
    to.extend(length.to_be_bytes());
    to.extend_from_slice(properties);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::split;
    use crate::json::Reader;

    #[test]
    fn texts_are_read_as_they_were() {
        let text: Vec<u8> = (0..=127).chain("\u{e4}\u{20ac}".bytes()).collect();
        let (mut json, mut found) = (Vec::new(), Vec::new());
        write_json(&mut json, &text);
        let read = Reader::new(&json)
            .string()
            .and_then(|one| one.unescape(&mut found));
        assert_eq!((read, found), (Some(()), text));
    }

    #[test]
    fn separators_are_refused() {
        let mut to = Vec::new();
        assert_eq!(write_property(&mut to, "a", "b"), Some(()));
        assert_eq!(write_property(&mut to, "c", ""), Some(()));
        assert_eq!(to, b"a\x01b\x02c\x01\x02");
        for (name, value) in [("a\x01", "b"), ("a", "\x02")] {
            assert_eq!(write_property(&mut to, name, value), None);
        }
    }

    #[test]
    fn the_longest_numbers_fit() {
        let mut room = [0; 48];
        let found = write_numbers(&mut room, i32::MIN, i32::MIN);
        assert_eq!(found, br#"},"flag":-2147483648,"opaque":-2147483648,"#);
        assert_eq!(write_numbers(&mut room, 2, 7), br#"},"flag":2,"opaque":7,"#);
    }

    #[test]
    fn a_batch_is_split_into_its_messages() {
        let mut to = Vec::new();
        for body in [&b"one"[..], b"two!"] {
            assert_eq!(write_message(&mut to, 7, body, b"a\x01b\x02"), Some(()));
        }
        let messages = split(&to).unwrap_or_default();
        assert_eq!(messages.len(), 2);
        assert_eq!(&to[messages[1].body.clone()], b"two!");
        assert_eq!(write_message(&mut to, 7, b"", &[0; 65_536]), None);
    }
}
