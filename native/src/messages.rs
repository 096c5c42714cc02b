//! The plain records at the begin of a pull's body, as consumers decode them.

use crate::record::Record;

/// Where the records must come from: one queue, and offsets that ascend from `start` to before `stop`.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    pub topic: &'a [u8],
    pub queue_id: i64,
    pub start: i64,
    pub stop: i64,
}

/// The records that `body` begins with, up to the first that is not plain, is not where it belongs, or (with
/// `check_crc`) has another checksum than its body; and the position after them.
pub fn plain_records<'a>(
    body: &'a [u8],
    origin: Option<Origin>,
    check_crc: bool,
) -> (Vec<Record<'a>>, usize) {
    let mut records: Vec<Record<'a>> = Vec::new();
    let (mut left, mut lowest) = (body, origin.map_or(0, |origin| origin.start));
    let mut topic: Option<&[u8]> = None;
    while let Some(record) = Record::read(left) {
        if topic != Some(record.topic) && std::str::from_utf8(record.topic).is_err() {
            break;
        }
        topic = Some(record.topic);
        if let Some(origin) = &origin
            && (record.topic != origin.topic
                || i64::from(record.queue_id as i32) != origin.queue_id
                || !(lowest..origin.stop).contains(&record.queue_offset))
        {
            break;
        }
        if check_crc && !record.is_intact() {
            break;
        }
        lowest = record.queue_offset.saturating_add(1); // no offset is below `stop` and the highest number
        left = &left[record.size..];
        records.push(record);
    }
    (records, body.len() - left.len())
}
