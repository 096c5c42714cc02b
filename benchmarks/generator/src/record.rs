//! Stored messages as pulls and pops bring them: counted on every answer, decoded whole on some.
//!
//! Layout: MessageExtEncoder and MessageDecoder of Apache RocketMQ, versions V1 and V2.

use crate::fail;
use crate::failure::{Failure, Result};

const MAGIC_V1: u32 = 0xDAA3_20A7;
const MAGIC_V2: u32 = 0xDAA3_20AB;
const BORN_HOST_V6: u32 = 0x10;
const STORE_HOST_V6: u32 = 0x20;
/// Bytes up to the queue offset and with it: all that counting looks at.
const HEAD: usize = 28;

/// What the records of one answer must be.
pub struct Wanted<'a> {
    pub topic: &'a str,
    pub queue: u32,
    pub first_offset: u64,
    pub count: usize,
}

/// Walks over the records of an answer: as many as wanted, of the queue, offset after offset, to the last byte.
///
/// `whole` also compares topics, checks CRCs and looks for the unique key.
pub fn check(body: &[u8], wanted: &Wanted, whole: bool) -> Result<()> {
    let count = count(body, wanted.topic, wanted.queue, wanted.first_offset, whole)?;
    if count != wanted.count {
        fail!(
            "an answer of queue {} from {} on has {count} messages, wanted were {}",
            wanted.queue,
            wanted.first_offset,
            wanted.count
        );
    }
    Ok(())
}

/// As `check`, for an answer of any number of messages, which it returns.
pub fn count(body: &[u8], topic: &str, queue: u32, first_offset: u64, whole: bool) -> Result<usize> {
    let (mut position, mut count) = (0, 0);
    while position < body.len() {
        let rest = &body[position..];
        if rest.len() < HEAD {
            fail!("{} bytes are left over after {count} messages", rest.len());
        }
        let size = u32_at(rest, 0) as usize;
        let (found, offset) = (u32_at(rest, 12), u64_at(rest, 20));
        if size < HEAD || size > rest.len() || !matches!(u32_at(rest, 4), MAGIC_V1 | MAGIC_V2) {
            fail!("message {count} of the answer is none: {size} bytes, magic {:#x}", u32_at(rest, 4));
        }
        if found != queue || offset != first_offset + count as u64 {
            fail!(
                "message {count} of the answer is {found}:{offset}, wanted was queue {queue} from {first_offset} on"
            );
        }
        if whole {
            check_whole(&rest[..size], topic)
                .ok_or_else(|| Failure::new(format!("message {queue}:{offset} is corrupt, or of another topic")))?;
        }
        position += size;
        count += 1;
    }
    Ok(count)
}

/// None when a length, the CRC, the topic or the unique key is wrong.
fn check_whole(record: &[u8], topic: &str) -> Option<()> {
    let flags = u32::from_be_bytes(record.get(36..40)?.try_into().ok()?);
    let hosts = [BORN_HOST_V6, STORE_HOST_V6].iter().map(|bit| if flags & bit == 0 { 8 } else { 20 }).sum::<usize>();
    let (body, rest) = counted(record.get(68 + hosts..)?, 4)?;
    let stored = u32_at(record, 8);
    let topic_length = if u32_at(record, 4) == MAGIC_V1 { 1 } else { 2 };
    let (found, rest) = counted(rest, topic_length)?;
    let (properties, rest) = counted(rest, 2)?;
    let keyed = properties.windows(9).any(|word| word == b"UNIQ_KEY\x01");
    let right = crc32fast::hash(body) & 0x7FFF_FFFF == stored & 0x7FFF_FFFF
        && found == topic.as_bytes()
        && keyed
        && rest.is_empty();
    right.then_some(())
}

/// The bytes behind a length of `width` bytes, and what follows them.
fn counted(bytes: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let length = bytes.get(..width)?.iter().fold(0usize, |value, byte| value << 8 | usize::from(*byte));
    let rest = &bytes[width..];
    (length <= rest.len()).then(|| rest.split_at(length))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(queue: u32, offset: u64, body: &[u8]) -> Vec<u8> {
        let (topic, properties) = (b"T", b"UNIQ_KEY\x010\x02");
        let mut bytes = vec![0; 88];
        bytes[4..8].copy_from_slice(&MAGIC_V1.to_be_bytes());
        bytes[8..12].copy_from_slice(&(crc32fast::hash(body) & 0x7FFF_FFFF).to_be_bytes());
        bytes[12..16].copy_from_slice(&queue.to_be_bytes());
        bytes[20..28].copy_from_slice(&offset.to_be_bytes());
        bytes[84..88].copy_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes.push(topic.len() as u8);
        bytes.extend_from_slice(topic);
        bytes.extend_from_slice(&(properties.len() as u16).to_be_bytes());
        bytes.extend_from_slice(properties);
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        bytes
    }

    fn wanted(count: usize) -> Wanted<'static> {
        Wanted { topic: "T", queue: 3, first_offset: 7, count }
    }

    #[test]
    fn right_answers_pass_and_wrong_ones_are_told_apart() {
        let good = [record(3, 7, b"one"), record(3, 8, b"two")].concat();
        check(&good, &wanted(2), true).unwrap();
        assert!(check(&good, &wanted(3), false).is_err());
        assert!(check(&good[..good.len() - 1], &wanted(2), false).is_err());
        assert!(check(&[record(3, 7, b"one"), record(3, 9, b"two")].concat(), &wanted(2), false).is_err());
        assert!(check(&[record(4, 7, b"one"), record(3, 8, b"two")].concat(), &wanted(2), false).is_err());
    }

    #[test]
    fn a_changed_body_or_topic_is_found_when_decoded_whole() {
        for at in [88, 92] {
            let mut bytes = record(3, 7, b"one");
            bytes[at] ^= 1;
            check(&bytes, &wanted(1), false).unwrap();
            assert!(check(&bytes, &wanted(1), true).is_err(), "{at}");
        }
    }
}
