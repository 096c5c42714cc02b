//! Keys that are added to an index file: slots, links and entries.

use _native::hash::key_hash;
use _native::index::{File, KEY, Keys, put};

const SLOTS: u32 = 3;

struct Memory(Vec<u8>);

impl File for Memory {
    fn size(&self) -> usize {
        self.0.len()
    }

    fn read(&self, at: usize) -> [u8; 4] {
        self.0[at..at + 4].try_into().unwrap()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Memory {
    fn of(entries: usize) -> Self {
        Memory(vec![0; 40 + 4 * SLOTS as usize + 20 * entries])
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.read(at))
    }
}

#[test]
fn entries_are_linked_from_the_newest_to_the_oldest_of_a_slot() {
    let mut keys = Keys::default();
    keys.add(7, b"a", 100, 5_000);
    keys.add_words(7, b" a  b", 200, 8_999);
    let (a, b) = (key_hash(7, b"a"), key_hash(7, b"b"));
    assert_ne!(a % SLOTS, b % SLOTS);
    let mut file = Memory::of(5);
    assert_eq!(put(&mut file, SLOTS, 2, 6_000, &keys.packed), Some(2));
    assert_eq!(file.number(40 + 4 * (a % SLOTS) as usize), 3);
    assert_eq!(file.number(40 + 4 * (b % SLOTS) as usize), 4);
    let fields = [(a, 100, 0, 0), (a, 200, 2, 2), (b, 200, 2, 0)];
    for (at, (hash, physical, seconds, previous)) in (40 + 12 + 40..).step_by(20).zip(fields) {
        let found = [file.number(at), file.number(at + 8), file.number(at + 12)];
        assert_eq!(found, [hash, physical, seconds]);
        assert_eq!(file.number(at + 16), previous);
    }
}

#[test]
fn keys_that_do_not_fit_change_nothing() {
    let mut keys = Keys::default();
    keys.add(7, b"a", 1, 1);
    let packed = &keys.packed;
    for (slots, number, keys) in [
        (SLOTS, 2, &packed[..]),
        (SLOTS, u32::MAX, packed),
        (SLOTS, 1, &packed[..KEY - 1]),
        (0, 0, packed),
        (u32::MAX, 0, packed),
    ] {
        let mut file = Memory::of(2);
        assert_eq!(put(&mut file, slots, number, 0, keys), None);
        assert_eq!(file.0, Memory::of(2).0);
    }
    assert_eq!(put(&mut Memory::of(2), SLOTS, 1, 0, packed), Some(1));
}
