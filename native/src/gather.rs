//! The records that entries of a consume queue name, in one file of the log.
//!
//! An entry is `offset in the log 8 | size 4 | tags code 8`.

use std::ops::Range;

const ENTRY: usize = 20;
/// Bytes of a record up to the end of its queue offset.
pub const HEAD: usize = 36;

/// What the first fields of a record must be:
/// `size 4 | magic 4 | CRC 4 | queue id 4 | flag 4 | queue offset 8 | physical offset 8`.
#[derive(Clone, Copy)]
pub struct Expected {
    pub magic: i32,
    pub queue_id: i32,
    /// Of the first record; each of the others has the one after the record before it.
    pub offset: i64,
}

impl Expected {
    /// Whether a record of `size` bytes, the `number`th from the first, begins with `head`.
    ///
    /// `at` is the offset in the log at which it is; None for one that no log has.
    pub fn fits(&self, number: usize, size: usize, at: Option<i64>, head: &[u8; HEAD]) -> bool {
        let int = |at: usize| i32::from_be_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| i64::from_be_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        size >= HEAD
            && usize::try_from(int(0)) == Ok(size)
            && int(4) == self.magic
            && int(12) == self.queue_id
            && i64::try_from(number)
                .ok()
                .and_then(|n| self.offset.checked_add(n))
                == Some(long(20))
            && at == Some(long(28))
    }
}

/// Where the records of the leading entries are in the file: ascending, apart from each other or next to each other.
pub struct Places {
    pub parts: Vec<Range<usize>>,
    /// Bytes of all records; they lie next to each other if this is the distance from the first byte to the last.
    pub total: usize,
}

impl Places {
    /// Finds the records of the leading entries that have at most `most` bytes together, at least one.
    ///
    /// None if there is no entry, or if one of these records is not in the file, or not behind the one before.
    ///
    /// `base` is the offset in the log at which the file of `length` bytes begins.
    pub fn of(entries: &[u8], base: i64, length: usize, most: usize) -> Option<Self> {
        let mut found = Self {
            parts: Vec::with_capacity(entries.len() / ENTRY),
            total: 0,
        };
        let mut end = 0;
        for entry in entries.chunks_exact(ENTRY) {
            let (physical, size) = (entry.first_chunk()?, entry[8..].first_chunk()?);
            let size = usize::try_from(i32::from_be_bytes(*size)).ok()?;
            if !found.parts.is_empty() && found.total + size > most {
                break;
            }
            let at = i64::from_be_bytes(*physical).checked_sub(base)?;
            let at = usize::try_from(at).ok()?;
            if size == 0 || at < end || length.checked_sub(at)? < size {
                return None;
            }
            end = at + size;
            found.total += size;
            found.parts.push(at..end);
        }
        (!found.parts.is_empty()).then_some(found)
    }

    /// The part of the file from the first record to the last.
    pub fn span(&self) -> Range<usize> {
        let first = self.parts.first().map_or(0, |part| part.start);
        first..self.parts.last().map_or(first, |part| part.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(places: &[(i64, i32)]) -> Vec<u8> {
        let entry = |(physical, size): &(i64, i32)| {
            [&physical.to_be_bytes()[..], &size.to_be_bytes(), &[7; 8]].concat()
        };
        places.iter().flat_map(entry).collect()
    }

    fn parts(places: &[(i64, i32)], most: usize) -> Option<Vec<Range<usize>>> {
        Places::of(&entries(places), 1000, 100, most).map(|found| found.parts)
    }

    #[test]
    fn records_up_to_so_many_bytes_and_at_least_one() {
        let (places, first) = ([(1000, 10), (1010, 10), (1030, 70)], 0..10);
        assert_eq!(parts(&places, 90), Some(vec![0..10, 10..20, 30..100]));
        assert_eq!(parts(&places, 89), Some(vec![0..10, 10..20]));
        assert_eq!(parts(&places, 20), Some(vec![0..10, 10..20]));
        assert_eq!(parts(&places, 19), Some(vec![first.clone()]));
        assert_eq!(parts(&places, 0), Some(vec![first.clone()]));
        let found = Places::of(&entries(&places), 1000, 100, 90).unwrap();
        assert_eq!((found.total, found.span()), (90, 0..100));
    }

    #[test]
    fn a_record_fits_if_all_five_fields_do() {
        let expected = Expected {
            magic: -7,
            queue_id: 3,
            offset: 40,
        };
        let head = |size: i32, magic: i32, queue_id: i32, offset: i64| -> [u8; HEAD] {
            let fields = [size, magic, 99, queue_id, 98]
                .map(i32::to_be_bytes)
                .concat();
            [&fields[..], &offset.to_be_bytes(), &77i64.to_be_bytes()]
                .concat()
                .try_into()
                .unwrap()
        };
        let at = Some(77);
        assert!(expected.fits(0, 100, at, &head(100, -7, 3, 40)));
        assert!(expected.fits(2, 100, at, &head(100, -7, 3, 42)));
        for odd in [
            head(101, -7, 3, 40),
            head(-100, -7, 3, 40),
            head(100, 7, 3, 40),
            head(100, -7, 4, 40),
        ] {
            assert!(!expected.fits(0, 100, at, &odd));
        }
        assert!(!expected.fits(1, 100, at, &head(100, -7, 3, 40)));
        assert!(expected.fits(0, 36, at, &head(36, -7, 3, 40)));
        assert!(!expected.fits(0, 35, at, &head(35, -7, 3, 40)));
        assert!(!expected.fits(0, 100, Some(78), &head(100, -7, 3, 40)));
        assert!(!expected.fits(0, 100, None, &head(100, -7, 3, 40)));
        let last = Expected {
            offset: i64::MAX,
            ..expected
        };
        assert!(!last.fits(1, 100, at, &head(100, -7, 3, i64::MIN)));
    }

    #[test]
    fn what_is_not_in_the_file_or_not_in_order_is_refused() {
        assert_eq!(parts(&[], 90), None);
        for odd in [
            (999, 5),
            (1000, 101),
            (1100, 1),
            (1001, 100),
            (1000, 0),
            (1000, -1),
            (i64::MIN, 1),
            (i64::MAX, i32::MAX),
        ] {
            assert_eq!(parts(&[odd], 1000), None);
        }
        assert_eq!(parts(&[(1000, 10), (1009, 10)], 90), None);
        assert_eq!(parts(&[(1010, 10), (1000, 10)], 90), None);
        assert_eq!(
            Places::of(&entries(&[(1000, 5)])[..19], 1000, 100, 90).map(|f| f.total),
            None
        );
    }
}
