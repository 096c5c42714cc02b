//! Keys that wait for an index file, and the file: header, slots, and entries of
//! `hash 4 | physical offset 8 | seconds 4 | previous entry of the slot 4`.

use crate::hash::key_hash;

/// Number of bytes of a packed key: hash 4, commit log offset 8, store timestamp 8, with the lowest byte first.
pub const KEY: usize = 20;
const HEADER: usize = 40;
const ENTRY: usize = 20;

/// Keys whose hashes are known, packed one after the other.
#[derive(Default)]
pub struct Keys {
    pub packed: Vec<u8>,
}

impl Keys {
    /// Adds a key, given the hash of `topic#`.
    pub fn add(&mut self, topic: i64, key: &[u8], physical: i64, timestamp: i64) {
        self.packed
            .extend_from_slice(&key_hash(topic as u32, key).to_le_bytes());
        self.packed.extend_from_slice(&physical.to_le_bytes());
        self.packed.extend_from_slice(&timestamp.to_le_bytes());
    }

    /// Adds keys that are separated by blanks.
    pub fn add_words(&mut self, topic: i64, words: &[u8], physical: i64, timestamp: i64) {
        words
            .split(|byte| *byte == b' ')
            .filter(|key| !key.is_empty())
            .for_each(|key| self.add(topic, key, physical, timestamp));
    }
}

/// The bytes of an index file, to which other processes may write.
pub trait File {
    fn size(&self) -> usize;
    /// Returns the bytes at a position, which are within the file.
    fn read(&self, at: usize) -> [u8; 4];
    /// Writes bytes to a position; they are within the file.
    fn write(&mut self, at: usize, bytes: &[u8]);
}

/// Adds packed keys to an index file, and points its slots to them; returns how many slots were empty.
///
/// `number` is that of the first entry, and `begin` the store timestamp of entry 1, in milliseconds. Returns None,
/// without a change, if the keys are not whole or their entries are not within the file.
pub fn put(file: &mut impl File, slots: u32, number: u32, begin: i64, keys: &[u8]) -> Option<u32> {
    let count = keys.len() / KEY;
    number.checked_add(u32::try_from(count).ok()?)?;
    let table = HEADER as u64 + 4 * u64::from(slots);
    let first = table + ENTRY as u64 * u64::from(number);
    let end = first + (count * ENTRY) as u64;
    if slots == 0 || keys.len() != count * KEY || end > file.size() as u64 {
        return None;
    }
    let mut empty = 0;
    let places = (first as usize..).step_by(ENTRY);
    for ((key, at), number) in keys.chunks_exact(KEY).zip(places).zip(number..) {
        let hash = u32::from_le_bytes(key[..4].try_into().ok()?);
        let timestamp = i64::from_le_bytes(key[12..].try_into().ok()?);
        let seconds = timestamp
            .saturating_sub(begin)
            .div_euclid(1000)
            .clamp(0, i64::from(i32::MAX)) as i32;
        let slot = HEADER + 4 * (hash % slots) as usize;
        let previous = file.read(slot);
        file.write(slot, &number.to_be_bytes());
        empty += u32::from(previous == [0; 4]);
        let mut entry = [0; ENTRY];
        entry[..4].copy_from_slice(&hash.to_be_bytes());
        entry[4..12].copy_from_slice(&key[4..12]);
        entry[4..12].reverse();
        entry[12..16].copy_from_slice(&seconds.to_be_bytes());
        entry[16..].copy_from_slice(&previous);
        file.write(at, &entry);
    }
    Some(empty)
}
