//! Java's `String.hashCode`, the hash behind tags codes and index keys.

/// Number of characters whose products do not wait for each other.
const LANES: usize = 8;
/// Powers of 31: the first one is that of the first of so many characters.
const POWERS: [u32; LANES] = {
    let mut powers = [1u32; LANES];
    let mut at = LANES - 1;
    while at > 0 {
        powers[at - 1] = powers[at].wrapping_mul(31);
        at -= 1;
    }
    powers
};

fn next(hash: u32, unit: u32) -> u32 {
    hash.wrapping_mul(31).wrapping_add(unit)
}

/// Returns the hash of a text that ends with `text`, given the hash of the part before it.
pub fn java_hash(before: u32, text: &str) -> u32 {
    if text.is_ascii() {
        ascii_hash(before, text.as_bytes())
    } else {
        text.encode_utf16()
            .fold(before, |hash, unit| next(hash, u32::from(unit)))
    }
}

fn ascii_hash(before: u32, text: &[u8]) -> u32 {
    let chunks = text.chunks_exact(LANES);
    let rest = chunks.remainder();
    let hash = chunks.fold(before, |hash, chunk| {
        let sum = chunk.iter().zip(POWERS).fold(0u32, |sum, (byte, power)| {
            sum.wrapping_add(power.wrapping_mul(u32::from(*byte)))
        });
        hash.wrapping_mul(POWERS[0].wrapping_mul(31))
            .wrapping_add(sum)
    });
    rest.iter()
        .fold(hash, |hash, byte| next(hash, u32::from(*byte)))
}

/// Returns the tags code of consume queues: the hash of the tags, 0 without tags.
pub fn tags_code(tags: &str) -> i64 {
    i64::from(java_hash(0, tags) as i32)
}

/// Returns the hash of a key in an index file, given the hash of `topic#`; invalid UTF-8 counts as U+FFFD.
pub fn key_hash(topic: u32, key: &[u8]) -> u32 {
    let hash = if key.is_ascii() {
        ascii_hash(topic, key)
    } else {
        java_hash(topic, &String::from_utf8_lossy(key))
    } as i32;
    hash.checked_abs().unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(tags_code("TagA"), 2_598_919);
        assert_eq!(tags_code(""), 0);
        let long = "a text of more than two times eight characters";
        for end in 0..long.len() {
            let one_by_one = long[..end].bytes().fold(7, |h, b| next(h, u32::from(b)));
            assert_eq!(java_hash(7, &long[..end]), one_by_one);
        }
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
