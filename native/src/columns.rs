//! Decodes the records in pull responses to the buffers of Arrow columns.
//!
//! The columns equal those that `rocketmq_py.arrow.decode` makes with NumPy. It takes one pass over the records and one
//! over the columns. Compressed bodies, inner batches, inconsistent lengths and text that is not UTF-8 are refused: the
//! caller then decodes the records in Python, which reports errors.

use crate::properties::Entries;
use crate::record::Record;

/// Maximum number of properties of one record for the column `properties`, as each name is compared with the others.
const MOST_PAIRS: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Topic,
    QueueId,
    QueueOffset,
    Body,
    Born,
    Stored,
    Reconsumed,
    Properties,
    Tags,
    Keys,
    MsgId,
}

const KINDS: [(&str, Kind); 11] = [
    ("topic", Kind::Topic),
    ("queueId", Kind::QueueId),
    ("queueOffset", Kind::QueueOffset),
    ("body", Kind::Body),
    ("bornTimestamp", Kind::Born),
    ("storeTimestamp", Kind::Stored),
    ("reconsumeTimes", Kind::Reconsumed),
    ("properties", Kind::Properties),
    ("tags", Kind::Tags),
    ("keys", Kind::Keys),
    ("msgId", Kind::MsgId),
];

impl Kind {
    pub fn of(name: &str) -> Option<Self> {
        KINDS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, kind)| *kind)
    }

    /// The column that is made from the message property with this name.
    fn of_property(name: &[u8]) -> Option<Self> {
        match name {
            b"TAGS" => Some(Kind::Tags),
            b"KEYS" => Some(Kind::Keys),
            b"UNIQ_KEY" => Some(Kind::MsgId),
            _ => None,
        }
    }

    fn is_property(self) -> bool {
        matches!(self, Kind::Tags | Kind::Keys | Kind::MsgId)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The records are not plain, so Python must decode them.
    Irregular,
    /// A column would be larger than 2 GiB.
    TooLarge,
}

/// Allocates the buffers of columns.
pub trait Maker {
    type Buffer;
    /// Makes a buffer of `length` bytes; `fill` receives it with zeros.
    fn make(&self, length: usize, fill: impl FnOnce(&mut [u8])) -> Self::Buffer;
    /// Makes a buffer of `length` bytes of `pieces`, one behind the other; None if together they are not that long.
    fn join<'a>(
        &self,
        length: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Self::Buffer>;
}

/// Buffers of texts: offsets and bytes.
pub struct Texts<B>(pub B, pub B);

pub enum Column<B> {
    Fixed(B),
    /// Validity bits of the rows (None if no row is null), and the texts.
    Texts(Option<B>, Texts<B>),
    /// For each row the index of its first property, then the names and the values of all properties.
    Maps(B, Texts<B>, Texts<B>),
}

/// The pull bodies of one queue in order, and the queue offsets wanted: the first, and the one after the last.
pub type Wanted<'a> = (Vec<&'a [u8]>, i64, i64);

/// The records in some pull bodies, with the properties that the requested columns need.
pub struct Rows<'a> {
    records: Vec<Record<'a>>,
    counts: Vec<usize>,
    kinds: Vec<Kind>,
    /// Whether bodies are compared with their checksums when they are copied, while they are in the cache.
    checks_copied: bool,
    named: Vec<Vec<Option<&'a [u8]>>>,
    pairs: Vec<(&'a [u8], &'a [u8])>,
    firsts: Vec<i32>,
}

impl<'a> Rows<'a> {
    /// Parses the records of the ranges, all of one topic; the queue offsets of each range ascend.
    ///
    /// With `check_crc`, the bodies of all records must have their stored checksums, also outside the wanted offsets;
    /// `columns` checks those that it copies.
    pub fn read(ranges: &[Wanted<'a>], kinds: &[Kind], check_crc: bool) -> Result<Self, Refusal> {
        let checks_copied = check_crc && kinds.contains(&Kind::Body);
        let mut records = Vec::with_capacity(expected(ranges));
        let mut counts = Vec::with_capacity(ranges.len());
        for range in ranges {
            let before = records.len();
            read_range(range, check_crc, checks_copied, &mut records)?;
            counts.push(records.len() - before);
        }
        let mut rows = Rows {
            records,
            counts,
            kinds: kinds.to_vec(),
            checks_copied,
            named: Vec::new(),
            pairs: Vec::new(),
            firsts: Vec::new(),
        };
        rows.read_properties()?;
        Ok(rows)
    }

    /// Returns the number of rows of each range.
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn read_properties(&mut self) -> Result<(), Refusal> {
        let mut named = self.kinds.clone();
        named.retain(|kind| kind.is_property());
        let all = self.kinds.contains(&Kind::Properties);
        if named.is_empty() && !all {
            return Ok(());
        }
        self.named = vec![vec![None; self.records.len()]; named.len()];
        for (row, record) in self.records.iter().enumerate() {
            if all {
                self.firsts
                    .push(i32::try_from(self.pairs.len()).map_err(|_| Refusal::Irregular)?);
            }
            if std::str::from_utf8(record.properties).is_err() {
                return Err(Refusal::Irregular);
            }
            let first = self.pairs.len();
            for (name, value) in Entries::of(record.properties) {
                let kind = Kind::of_property(name);
                if let Some(at) = named.iter().position(|one| kind == Some(*one)) {
                    self.named[at][row] = Some(value);
                }
                if all {
                    // A map must not hold a name twice.
                    if self.pairs.len() - first == MOST_PAIRS
                        || self.pairs[first..].iter().any(|pair| pair.0 == name)
                    {
                        return Err(Refusal::Irregular);
                    }
                    self.pairs.push((name, value));
                }
            }
        }
        if all {
            self.firsts
                .push(i32::try_from(self.pairs.len()).map_err(|_| Refusal::Irregular)?);
        }
        Ok(())
    }

    /// Returns the requested columns in order; there must be at least one record.
    pub fn columns<M: Maker>(&self, maker: &M) -> Result<Vec<Column<M::Buffer>>, Refusal> {
        let mut named = self.named.iter();
        self.kinds
            .iter()
            .map(|kind| match kind {
                Kind::Topic => {
                    let topic = self.records.first().map_or(&b""[..], |record| record.topic);
                    Ok(Column::Fixed(
                        maker.make(topic.len(), |to| to.copy_from_slice(topic)),
                    ))
                }
                Kind::QueueId => Ok(self.int32(maker, |record| record.queue_id)),
                Kind::QueueOffset => Ok(self.int64(maker, |record| record.queue_offset as u64)),
                Kind::Body => Ok(Column::Texts(None, self.bodies(maker)?)),
                Kind::Born => Ok(self.int64(maker, |record| record.born_time.wrapping_mul(1000))),
                Kind::Stored => {
                    Ok(self.int64(maker, |record| record.store_time.wrapping_mul(1000)))
                }
                Kind::Reconsumed => Ok(self.int32(maker, |record| record.reconsume_times)),
                Kind::Properties => self.maps(maker),
                Kind::MsgId => self.ids(maker, named.next().map_or(&[][..], Vec::as_slice)),
                Kind::Tags | Kind::Keys => {
                    nullable(maker, named.next().map_or(&[][..], Vec::as_slice))
                }
            })
            .collect()
    }

    fn int32<M: Maker>(&self, maker: &M, field: impl Fn(&Record) -> u32) -> Column<M::Buffer> {
        Column::Fixed(maker.make(self.records.len() * 4, |to| {
            for (place, record) in to.chunks_exact_mut(4).zip(&self.records) {
                place.copy_from_slice(&field(record).to_ne_bytes());
            }
        }))
    }

    fn int64<M: Maker>(&self, maker: &M, field: impl Fn(&Record) -> u64) -> Column<M::Buffer> {
        Column::Fixed(maker.make(self.records.len() * 8, |to| {
            for (place, record) in to.chunks_exact_mut(8).zip(&self.records) {
                place.copy_from_slice(&field(record).to_ne_bytes());
            }
        }))
    }

    fn bodies<M: Maker>(&self, maker: &M) -> Result<Texts<M::Buffer>, Refusal> {
        let bodies = self.records.iter().map(|record| record.body);
        let mut is_intact = true;
        let checked = self.records.iter().map_while(|record| {
            is_intact = !self.checks_copied || record.is_intact();
            is_intact.then_some(record.body)
        });
        let found = joined(maker, bodies, checked)?;
        // An empty body with a checksum that is not its own leaves no gap.
        is_intact.then_some(found).ok_or(Refusal::Irregular)
    }

    fn maps<M: Maker>(&self, maker: &M) -> Result<Column<M::Buffer>, Refusal> {
        let firsts = maker.make(self.firsts.len() * 4, |to| {
            for (place, first) in to.chunks_exact_mut(4).zip(&self.firsts) {
                place.copy_from_slice(&first.to_ne_bytes());
            }
        });
        let names = texts(maker, self.pairs.iter().map(|pair| pair.0))?;
        Ok(Column::Maps(
            firsts,
            names,
            texts(maker, self.pairs.iter().map(|pair| pair.1))?,
        ))
    }

    /// Column of unique keys; the broker's message id for a message without one (`wire.ids.offset_msg_id`).
    fn ids<M: Maker>(
        &self,
        maker: &M,
        keys: &[Option<&[u8]>],
    ) -> Result<Column<M::Buffer>, Refusal> {
        if keys.iter().all(Option::is_some) {
            return nullable(maker, keys);
        }
        let made: Vec<Vec<u8>> = keys
            .iter()
            .zip(&self.records)
            .map(|(key, record)| {
                if key.is_none() {
                    offset_id(record)
                } else {
                    Vec::new()
                }
            })
            .collect();
        let filled: Vec<Option<&[u8]>> = keys
            .iter()
            .zip(&made)
            .map(|(key, made)| key.or(Some(made)))
            .collect();
        nullable(maker, &filled)
    }
}

/// Returns how many records the ranges have if all are as large as the first.
fn expected(ranges: &[Wanted]) -> usize {
    let bodies = ranges.iter().flat_map(|(bodies, ..)| bodies);
    let first = bodies.clone().find_map(|body| Record::read(body));
    first.map_or(0, |record| {
        bodies.map(|body| body.len()).sum::<usize>() / record.size
    })
}

/// Appends the wanted records of one range to `records`.
///
/// With `checks_copied`, their bodies are not compared with their checksums yet.
fn read_range<'a>(
    (bodies, start, stop): &Wanted<'a>,
    check_crc: bool,
    checks_copied: bool,
    records: &mut Vec<Record<'a>>,
) -> Result<(), Refusal> {
    let mut next = *start;
    for body in bodies {
        let mut left = *body;
        while !left.is_empty() {
            let record = Record::read(left).ok_or(Refusal::Irregular)?;
            left = &left[record.size..];
            let is_next = record.queue_offset >= next;
            let is_wanted = is_next && record.queue_offset < *stop;
            if check_crc && !(is_wanted && checks_copied) && !record.is_intact() {
                return Err(Refusal::Irregular);
            }
            if is_next {
                next = record
                    .queue_offset
                    .checked_add(1)
                    .ok_or(Refusal::Irregular)?;
                if is_wanted {
                    if records
                        .first()
                        .is_some_and(|first| first.topic != record.topic)
                    {
                        return Err(Refusal::Irregular);
                    }
                    records.push(record);
                }
            }
        }
    }
    Ok(())
}

fn offset_id(record: &Record) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let physical = record.physical_offset.to_be_bytes();
    let bytes = record.store_host.iter().chain(&physical);
    bytes
        .flat_map(|byte| {
            [
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]
        })
        .collect()
}

fn texts<'a, M: Maker>(
    maker: &M,
    values: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
) -> Result<Texts<M::Buffer>, Refusal> {
    joined(maker, values.clone(), values)
}

/// As `texts`; `checked` ends before a value that must not be used.
fn joined<'a, M: Maker>(
    maker: &M,
    values: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    checked: impl Iterator<Item = &'a [u8]>,
) -> Result<Texts<M::Buffer>, Refusal> {
    let total: usize = values.clone().map(<[u8]>::len).sum();
    if i32::try_from(total).is_err() {
        return Err(Refusal::TooLarge);
    }
    let offsets = maker.make((values.len() + 1) * 4, |to| {
        let mut end = 0i32;
        let lengths = values.map(<[u8]>::len).chain(std::iter::once(0));
        for (place, length) in to.chunks_exact_mut(4).zip(lengths) {
            place.copy_from_slice(&end.to_ne_bytes());
            end += length as i32; // the sum fits
        }
    });
    let bytes = maker.join(total, checked).ok_or(Refusal::Irregular)?;
    Ok(Texts(offsets, bytes))
}

fn nullable<M: Maker>(maker: &M, values: &[Option<&[u8]>]) -> Result<Column<M::Buffer>, Refusal> {
    let valid = values.iter().any(Option::is_none).then(|| {
        maker.make(values.len().div_ceil(8), |to| {
            for (row, _) in values
                .iter()
                .enumerate()
                .filter(|(_, value)| value.is_some())
            {
                to[row / 8] |= 1 << (row % 8);
            }
        })
    });
    Ok(Column::Texts(
        valid,
        texts(maker, values.iter().map(|value| value.unwrap_or_default()))?,
    ))
}
