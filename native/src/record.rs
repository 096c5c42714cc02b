//! Stored messages: the layout of a record (V1 and V2, IPv4 and IPv6 hosts).

pub const MAGIC_V1: u32 = 0xDAA3_20A7;
pub const MAGIC_V2: u32 = 0xDAA3_20AB;
pub const COMPRESSED: u32 = 0x01;
pub const BORN_HOST_V6: u32 = 0x10;
pub const STORE_HOST_V6: u32 = 0x20;
pub const NEED_UNWRAP: u32 = 0x40;
pub const INNER_BATCH: u32 = 0x80;

pub const BODY_CRC_AT: usize = 8;
pub const QUEUE_ID_AT: usize = 12;
pub const FLAG_AT: usize = 16;
pub const QUEUE_OFFSET_AT: usize = 20;
pub const PHYSICAL_OFFSET_AT: usize = 28;
pub const SYS_FLAG_AT: usize = 36;
pub const BORN_TIME_AT: usize = 40;
pub const BORN_HOST_AT: usize = 48;
/// Mask of stored checksums, which are never negative.
pub const CRC_MASK: u32 = 0x7FFF_FFFF;
/// Number of bytes before the body in a record with two IPv4 hosts.
pub const FIXED_SIZE: usize = 88;
pub const MIN_SIZE: usize = FIXED_SIZE + 1 + 2;

/// Returns the big-endian number at a position; None if it lies beyond the end.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(
        bytes.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

/// A plain record: it is neither compressed nor a batch, and its lengths are consistent.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    pub magic: u32,
    pub body_crc: u32,
    pub queue_id: u32,
    pub flag: u32,
    pub queue_offset: i64,
    pub physical_offset: u64,
    pub sys_flag: u32,
    pub born_time: u64,
    pub born_host: &'a [u8],
    pub store_time: u64,
    pub store_host: &'a [u8],
    pub reconsume_times: u32,
    pub prepared_offset: u64,
    pub body: &'a [u8],
    pub topic: &'a [u8],
    pub properties: &'a [u8],
    pub size: usize,
}

impl<'a> Record<'a> {
    /// Parses the record at the beginning of `input`; returns None if there is no plain record.
    pub fn read(input: &'a [u8]) -> Option<Self> {
        let size = u32_at(input, 0)? as usize;
        let magic = u32_at(input, 4)?;
        let flags = u32_at(input, SYS_FLAG_AT)?;
        if size < MIN_SIZE || flags & (COMPRESSED | NEED_UNWRAP | INNER_BATCH) != 0 {
            return None;
        }
        let all = input.get(..size)?;
        let prefix = match magic {
            MAGIC_V1 => 1,
            MAGIC_V2 => 2,
            _ => return None,
        };
        let born_host = if flags & BORN_HOST_V6 != 0 { 20 } else { 8 };
        let store_host = if flags & STORE_HOST_V6 != 0 { 20 } else { 8 };
        let stored_at = BORN_HOST_AT + born_host;
        let after_host = stored_at + 8 + store_host;
        let fixed = after_host + 16;
        let body_length = usize::try_from(u32_at(all, fixed - 4)? as i32).ok()?;
        let topic_at = fixed.checked_add(body_length)?;
        let body = all.get(fixed..topic_at)?;
        let topic_length = match prefix {
            1 => usize::from(*all.get(topic_at)?),
            _ => usize::from(u16_at(all, topic_at)?),
        };
        let topic_begin = topic_at + prefix;
        let topic_end = topic_begin + topic_length;
        let topic = all.get(topic_begin..topic_end)?;
        let properties_length = usize::from(u16_at(all, topic_end)?);
        let properties = all.get(topic_end + 2..)?;
        if properties.len() != properties_length {
            return None;
        }
        Some(Record {
            magic,
            body_crc: u32_at(all, BODY_CRC_AT)?,
            queue_id: u32_at(all, QUEUE_ID_AT)?,
            flag: u32_at(all, FLAG_AT)?,
            queue_offset: u64_at(all, QUEUE_OFFSET_AT)? as i64,
            physical_offset: u64_at(all, PHYSICAL_OFFSET_AT)?,
            sys_flag: flags,
            born_time: u64_at(all, BORN_TIME_AT)?,
            born_host: all.get(BORN_HOST_AT..stored_at)?,
            store_time: u64_at(all, stored_at)?,
            store_host: all.get(stored_at + 8..after_host)?,
            reconsume_times: u32_at(all, after_host)?,
            prepared_offset: u64_at(all, after_host + 4)?,
            body,
            topic,
            properties,
            size,
        })
    }

    /// Whether the body, as it is stored, has the checksum that is stored with it.
    pub fn is_intact(&self) -> bool {
        crc32fast::hash(self.body) & CRC_MASK == self.body_crc
    }
}
