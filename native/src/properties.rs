//! Properties of a message as they are stored: `name 0x01 value 0x02`, again and again.

use memchr::memchr;

pub const NAME_END: u8 = 1;
pub const ENTRY_END: u8 = 2;

/// Iterates over the entries that have a name and a value; like Java, it skips the others.
pub struct Entries<'a> {
    left: &'a [u8],
}

impl<'a> Entries<'a> {
    pub fn of(properties: &'a [u8]) -> Self {
        Entries { left: properties }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.left.is_empty() {
            let end = memchr(ENTRY_END, self.left).unwrap_or(self.left.len());
            let (entry, rest) = self.left.split_at(end);
            self.left = rest.get(1..).unwrap_or_default();
            if let Some(at) = memchr(NAME_END, entry) {
                let (name, value) = (&entry[..at], &entry[at + 1..]);
                if !name.is_empty() && !value.is_empty() {
                    return Some((name, value));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_without_name_or_value_are_dropped() {
        let found: Vec<_> = Entries::of(b"a\x01b\x02\x01x\x02c\x01\x02d\x02e\x01f\x01g").collect();
        assert_eq!(found, vec![(&b"a"[..], &b"b"[..]), (b"e", b"f\x01g")]);
    }
}
