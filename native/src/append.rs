//! The records of a run of sends, and the answers to it.

use std::ops::Range;

use crate::record::{FIXED_SIZE, STORE_HOST_V6};
use crate::sends::{Run, Send};

const CRC_MASK: u32 = 0x7FFF_FFFF;

/// Where sends of a kind go.
#[derive(Clone, Copy)]
pub struct Target {
    /// The number of its queue among those given.
    pub queue: usize,
    pub sys_flag: i32,
    pub tags_code: i64,
}

/// A queue, with the offset of its next message.
pub struct Queue<'a> {
    pub queue_id: i32,
    pub magic: i32,
    pub topic_part: &'a [u8],
    pub next_offset: i64,
}

/// What is the same for all records of a run.
pub struct Common<'a> {
    /// 8 bytes.
    pub born_host: &'a [u8],
    /// 8 or 20 bytes.
    pub store_host: &'a [u8],
    pub suffix: &'a [u8],
    pub now: i64,
    /// The place of the first record in the log.
    pub physical: i64,
    /// Bytes there may be.
    pub room: usize,
    pub max_body: usize,
    pub max_properties: usize,
}

/// A record to be written.
pub struct Planned {
    pub send: usize,
    pub queue: usize,
    pub tags_code: i64,
    pub queue_offset: i64,
    pub physical: i64,
    pub size: usize,
}

pub struct Plan {
    pub records: Vec<Planned>,
    pub total: usize,
}

impl Plan {
    /// The records of the sends from `begin` on, up to the first that has no target, breaks a limit or finds no room.
    pub fn of(
        run: &Run,
        begin: usize,
        targets: &[Option<Target>],
        queues: &mut [Queue],
        common: &Common,
    ) -> Self {
        let mut plan = Plan {
            records: Vec::new(),
            total: 0,
        };
        for (number, send) in run.sends.iter().enumerate().skip(begin) {
            let Some(Some(target)) = targets.get(send.kind) else {
                break;
            };
            let Some(queue) = queues.get_mut(target.queue) else {
                break;
            };
            let (body, properties) = (send.body.len(), send.properties.len() + common.suffix.len());
            let fixed = FIXED_SIZE - 8 + common.store_host.len();
            let size = fixed + body + queue.topic_part.len() + 2 + properties;
            let is_legal =
                body > 0 && body <= common.max_body && properties <= common.max_properties;
            let (Some(physical), Some(next)) = (
                common.physical.checked_add(plan.total as i64),
                queue.next_offset.checked_add(1),
            ) else {
                break;
            };
            if !is_legal || size > common.room - plan.total {
                break;
            }
            let (tags_code, queue_offset) = (target.tags_code, queue.next_offset);
            plan.records.push(Planned {
                send: number,
                queue: target.queue,
                tags_code,
                queue_offset,
                physical,
                size,
            });
            queue.next_offset = next;
            plan.total += size;
        }
        plan
    }

    /// Write the records; `to` has `total` bytes.
    pub fn write(
        &self,
        data: &[u8],
        run: &Run,
        targets: &[Option<Target>],
        queues: &[Queue],
        common: &Common,
        to: &mut [u8],
    ) {
        let mut left = to;
        for planned in &self.records {
            let (place, rest) = left.split_at_mut(planned.size);
            left = rest;
            let send = &run.sends[planned.send];
            let sys_flag = targets[send.kind].map_or(0, |target| target.sys_flag);
            let body = &data[send.body.clone()];
            let queue = &queues[planned.queue];
            let mut record = Writer { left: place };
            record.head(planned, send, sys_flag, queue, common, body);
            record.put(body);
            record.put(queue.topic_part);
            record.put(&((send.properties.len() + common.suffix.len()) as u16).to_be_bytes());
            record.put(run.text_of(&send.properties));
            record.put(common.suffix);
        }
    }
}

/// Fills a slice from its beginning.
struct Writer<'a> {
    left: &'a mut [u8],
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (place, rest) = std::mem::take(&mut self.left).split_at_mut(bytes.len());
        place.copy_from_slice(bytes);
        self.left = rest;
    }

    fn head(
        &mut self,
        at: &Planned,
        send: &Send,
        sys_flag: i32,
        queue: &Queue,
        common: &Common,
        body: &[u8],
    ) {
        let host_flag = if common.store_host.len() > 8 {
            STORE_HOST_V6 as i32
        } else {
            0
        };
        self.put(&(at.size as i32).to_be_bytes());
        self.put(&queue.magic.to_be_bytes());
        self.put(&(crc32fast::hash(body) & CRC_MASK).to_be_bytes());
        self.put(&queue.queue_id.to_be_bytes());
        self.put(&send.flag.to_be_bytes());
        self.put(&at.queue_offset.to_be_bytes());
        self.put(&at.physical.to_be_bytes());
        self.put(&(sys_flag | host_flag).to_be_bytes());
        self.put(&send.born_timestamp.to_be_bytes());
        self.put(common.born_host);
        self.put(&common.now.to_be_bytes());
        self.put(common.store_host);
        self.put(&send.reconsume_times.to_be_bytes());
        self.put(&0i64.to_be_bytes());
        self.put(&(body.len() as i32).to_be_bytes());
    }
}

/// What an answer needs of a stored send.
pub struct Stored {
    pub opaque: i32,
    pub physical: i64,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub uniq_key: Range<usize>,
}

/// The frames of the answers.
///
/// `pieces` are the parts of an answer's header around its number, message id, queue id, queue offset and unique key;
/// `host` begins every message id.
pub fn answers(stored: &[Stored], text: &[u8], pieces: &[&[u8]; 6], host: &[u8]) -> Vec<u8> {
    let constant: usize = pieces.iter().map(|piece| piece.len()).sum::<usize>() + host.len();
    let mut to = Vec::with_capacity(stored.len() * (constant + 120));
    for one in stored {
        let begin = to.len();
        to.extend_from_slice(&[0; 8]);
        to.extend_from_slice(pieces[0]);
        decimal(&mut to, i64::from(one.opaque));
        to.extend_from_slice(pieces[1]);
        to.extend_from_slice(host);
        hexadecimal(&mut to, one.physical as u64);
        to.extend_from_slice(pieces[2]);
        decimal(&mut to, i64::from(one.queue_id));
        to.extend_from_slice(pieces[3]);
        decimal(&mut to, one.queue_offset);
        to.extend_from_slice(pieces[4]);
        to.extend_from_slice(text.get(one.uniq_key.clone()).unwrap_or_default());
        to.extend_from_slice(pieces[5]);
        let size = (to.len() - begin - 8) as u32;
        to[begin..begin + 4].copy_from_slice(&(size + 4).to_be_bytes());
        to[begin + 4..begin + 8].copy_from_slice(&size.to_be_bytes());
    }
    to
}

fn decimal(to: &mut Vec<u8>, number: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        to.push(b'-');
    }
    to.extend_from_slice(&digits[at..]);
}

fn hexadecimal(to: &mut Vec<u8>, number: u64) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    to.extend(
        (0..16)
            .rev()
            .map(|place| DIGITS[(number >> (4 * place) & 15) as usize]),
    );
}
