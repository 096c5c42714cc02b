//! Java's `String.hashCode`, the hash behind tags codes and index keys.

/// Returns the hash of a text that ends with `text`, given the hash of the part before it.
pub fn java_hash(before: u32, text: &str) -> u32 {
    let next = |hash: u32, unit: u32| hash.wrapping_mul(31).wrapping_add(unit);
    if text.is_ascii() {
        text.bytes()
            .fold(before, |hash, byte| next(hash, u32::from(byte)))
    } else {
        text.encode_utf16()
            .fold(before, |hash, unit| next(hash, u32::from(unit)))
    }
}

/// Returns the tags code of consume queues: the hash of the tags, 0 without tags.
pub fn tags_code(tags: &str) -> i64 {
    i64::from(java_hash(0, tags) as i32)
}

/// Returns the hash of a key in an index file, given the hash of `topic#`; invalid UTF-8 counts as U+FFFD.
pub fn key_hash(topic: u32, key: &[u8]) -> u32 {
    let hash = java_hash(topic, &String::from_utf8_lossy(key)) as i32;
    hash.checked_abs().unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(tags_code("TagA"), 2_598_919);
        assert_eq!(tags_code(""), 0);
        assert_eq!(
            java_hash(0, "ä😀") as i32,
            "ä😀".encode_utf16().fold(0i32, |h, u| h
                .wrapping_mul(31)
                .wrapping_add(i32::from(u as i16 as u16 as i16) & 0xFFFF))
        );
        assert_eq!(
            key_hash(java_hash(0, "t#"), b"k"),
            (java_hash(0, "t#k") as i32).unsigned_abs()
        );
    }
}
