//! Encodes the records of a run of sends or of a batch, and the responses to the sends.

use std::ops::Range;

use crate::batch::Message;
use crate::record::{BORN_HOST_V6, CRC_MASK, FIXED_SIZE, STORE_HOST_V6};
use crate::sends::{Run, Send};

/// How to store the sends of a kind.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Index of the queue in the list of queues.
    pub queue: usize,
    pub sys_flag: i32,
    pub tags_code: i64,
    /// The queue id of the responses.
    pub answered_queue: i32,
    pub half: Option<Half<'a>>,
}

/// Encoded properties that are appended to all others of a half message: its own, with the unique key between `before`
/// and `after`, and its later `place`.
#[derive(Clone, Copy)]
pub struct Half<'a> {
    pub before: &'a [u8],
    pub after: &'a [u8],
    pub place: &'a [u8],
}

impl<'a> Half<'a> {
    fn parts(&self, run: &'a Run, send: &Send) -> [&'a [u8]; 3] {
        [self.before, run.text_of(&send.uniq_key), self.after]
    }

    /// Returns the properties of a message without its later place.
    pub fn own(&self, run: &'a Run, send: &Send, suffix: &'a [u8]) -> Vec<u8> {
        let [before, uniq_key, after] = self.parts(run, send);
        [
            run.text_of(&send.properties),
            suffix,
            before,
            uniq_key,
            after,
        ]
        .concat()
    }
}

impl Target<'_> {
    /// Number of bytes of the properties of a message with `own` bytes of them.
    fn properties_size(&self, own: usize, uniq_key: usize, suffix: usize) -> usize {
        let added = self.half.map_or(0, |half| {
            half.before.len() + uniq_key + half.after.len() + half.place.len()
        });
        own + suffix + added
    }
}

/// A queue to append to, with the queue offset of the next message.
pub struct Queue<'a> {
    pub queue_id: i32,
    pub magic: i32,
    pub topic_part: &'a [u8],
    pub next_offset: i64,
}

/// Packed addresses, 8 or 20 bytes each.
#[derive(Clone, Copy)]
pub struct Hosts<'a> {
    pub born: &'a [u8],
    pub store: &'a [u8],
}

impl Hosts<'_> {
    pub fn are_legal(&self) -> bool {
        matches!(self.born.len(), 8 | 20) && matches!(self.store.len(), 8 | 20)
    }

    /// Number of bytes of a record before its body.
    fn fixed_size(&self) -> usize {
        FIXED_SIZE - 16 + self.born.len() + self.store.len()
    }
}

/// The fields of a record that differ within one call.
struct Head {
    size: usize,
    flag: i32,
    queue_offset: i64,
    physical: i64,
    sys_flag: i32,
    born_timestamp: i64,
    reconsume_times: i32,
}

/// The arguments that apply to all records of a run.
pub struct Common<'a> {
    pub hosts: Hosts<'a>,
    /// Encoded properties that are appended to those of each message.
    pub suffix: &'a [u8],
    /// Store timestamp in milliseconds.
    pub now: i64,
    /// Commit log offset of the first record.
    pub physical: i64,
    /// Maximum bytes of all records.
    pub room: usize,
    pub max_body: usize,
    pub max_properties: usize,
}

/// A record to be written; `send` is the index of its send in the run.
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
    /// Plans the records of the sends from index `begin` on, up to the first that has no target, breaks a limit or does
    /// not fit.
    pub fn of(
        run: &Run,
        begin: usize,
        targets: &[Option<Target<'_>>],
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
            let body = send.body.len();
            let properties = target.properties_size(
                send.properties.len(),
                send.uniq_key.len(),
                common.suffix.len(),
            );
            let fixed = common.hosts.fixed_size();
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

    /// Writes the records to `to`, which has `total` bytes; `data` are the bytes that were read.
    pub fn write(
        &self,
        data: &[u8],
        run: &Run,
        targets: &[Option<Target<'_>>],
        queues: &[Queue],
        common: &Common,
        to: &mut [u8],
    ) {
        let mut left = to;
        for planned in &self.records {
            let (place, rest) = left.split_at_mut(planned.size);
            left = rest;
            let send = &run.sends[planned.send];
            let Some(target) = targets[send.kind] else {
                continue;
            };
            let properties = target.properties_size(
                send.properties.len(),
                send.uniq_key.len(),
                common.suffix.len(),
            );
            let body = &data[send.body.clone()];
            let queue = &queues[planned.queue];
            let mut record = Writer { left: place };
            let head = Head {
                size: planned.size,
                flag: send.flag,
                queue_offset: planned.queue_offset,
                physical: planned.physical,
                sys_flag: target.sys_flag,
                born_timestamp: send.born_timestamp,
                reconsume_times: send.reconsume_times,
            };
            record.head(&head, queue, &common.hosts, common.now, body);
            record.put(body);
            record.put(queue.topic_part);
            record.put(&(properties as u16).to_be_bytes());
            record.put(run.text_of(&send.properties));
            record.put(common.suffix);
            if let Some(half) = target.half {
                half.parts(run, send)
                    .into_iter()
                    .for_each(|part| record.put(part));
                record.put(half.place);
            }
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

    fn head(&mut self, head: &Head, queue: &Queue, hosts: &Hosts, now: i64, body: &[u8]) {
        let born_flag = if hosts.born.len() > 8 {
            BORN_HOST_V6 as i32
        } else {
            0
        };
        let store_flag = if hosts.store.len() > 8 {
            STORE_HOST_V6 as i32
        } else {
            0
        };
        self.put(&(head.size as i32).to_be_bytes());
        self.put(&queue.magic.to_be_bytes());
        self.put(&(crc32fast::hash(body) & CRC_MASK).to_be_bytes());
        self.put(&queue.queue_id.to_be_bytes());
        self.put(&head.flag.to_be_bytes());
        self.put(&head.queue_offset.to_be_bytes());
        self.put(&head.physical.to_be_bytes());
        self.put(&(head.sys_flag | born_flag | store_flag).to_be_bytes());
        self.put(&head.born_timestamp.to_be_bytes());
        self.put(hosts.born);
        self.put(&now.to_be_bytes());
        self.put(hosts.store);
        self.put(&head.reconsume_times.to_be_bytes());
        self.put(&0i64.to_be_bytes());
        self.put(&(body.len() as i32).to_be_bytes());
    }
}

/// A batch whose messages are stored as records with consecutive offsets in one queue.
pub struct Batch<'a> {
    pub data: &'a [u8],
    pub messages: Vec<Message>,
    pub queue: Queue<'a>,
    pub hosts: Hosts<'a>,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub reconsume_times: i32,
    pub now: i64,
    pub physical: i64,
}

impl Batch<'_> {
    pub fn size_of(&self, message: &Message) -> usize {
        self.hosts.fixed_size()
            + message.body.len()
            + self.queue.topic_part.len()
            + 2
            + message.properties.len()
    }

    /// Returns the number of bytes of all records; None if a message breaks a limit or an offset would overflow.
    pub fn total(&self, max_body: usize, max_properties: usize) -> Option<usize> {
        let is_legal =
            |one: &Message| one.body.len() <= max_body && one.properties.len() <= max_properties;
        if !self.messages.iter().all(is_legal) {
            return None;
        }
        let total: usize = self
            .messages
            .iter()
            .map(|message| self.size_of(message))
            .sum();
        self.physical.checked_add(i64::try_from(total).ok()?)?;
        self.queue
            .next_offset
            .checked_add(i64::try_from(self.messages.len()).ok()?)?;
        Some(total)
    }

    /// Writes the records to `to`, which has `total` bytes.
    pub fn write(&self, to: &mut [u8]) {
        let mut left = to;
        let (mut physical, mut queue_offset) = (self.physical, self.queue.next_offset);
        for message in &self.messages {
            let size = self.size_of(message);
            let (place, rest) = left.split_at_mut(size);
            left = rest;
            let body = &self.data[message.body.clone()];
            let head = Head {
                size,
                flag: message.flag,
                queue_offset,
                physical,
                sys_flag: self.sys_flag,
                born_timestamp: self.born_timestamp,
                reconsume_times: self.reconsume_times,
            };
            let mut record = Writer { left: place };
            record.head(&head, &self.queue, &self.hosts, self.now, body);
            record.put(body);
            record.put(self.queue.topic_part);
            record.put(&(message.properties.len() as u16).to_be_bytes());
            record.put(&self.data[message.properties.clone()]);
            physical += size as i64;
            queue_offset += 1;
        }
    }
}

/// The values of a stored send that its response contains.
pub struct Stored {
    pub opaque: i32,
    pub physical: i64,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub uniq_key: Range<usize>,
}

/// Returns the frames of the responses, one after the other.
///
/// `pieces` are the constant parts of a response's JSON header; opaque, message id, queue id, queue offset and unique
/// key are inserted between them. A message id is `host` and the commit log offset, in hexadecimal digits.
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

/// Appends a number in decimal digits.
pub fn decimal(to: &mut Vec<u8>, number: i64) {
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
