//! Protocol Buffers: the fields of a message, and encoding of fields.

use std::ops::Range;

/// Wire types of fields.
pub const VARINT: u64 = 0;
pub const BYTES: u64 = 2;

/// A field of a message.
pub struct Field {
    /// Number and kind.
    pub tag: u64,
    /// The value of a number.
    pub number: u64,
    /// Where the value of other fields is.
    pub place: Range<usize>,
    /// The field with its tag.
    pub all: Range<usize>,
}

/// The fields between two places of a message.
pub struct Fields<'a> {
    data: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    pub fn of(data: &'a [u8], place: Range<usize>) -> Self {
        Fields {
            data,
            at: place.start,
            end: place.end,
        }
    }

    /// Returns the next field; None at the end, and if it is malformed.
    pub fn take(&mut self) -> Option<Field> {
        let begin = self.at;
        let tag = self.number()?;
        if tag >> 3 == 0 {
            return None;
        }
        let (mut number, mut size) = (0, 0);
        match tag & 7 {
            0 => number = self.number()?,
            1 => size = 8,
            2 => size = usize::try_from(self.number()?).ok()?,
            5 => size = 4,
            _ => return None,
        }
        let place = self.at..self.at.checked_add(size)?;
        if place.end > self.end {
            return None;
        }
        self.at = place.end;
        Some(Field {
            tag,
            number,
            place,
            all: begin..self.at,
        })
    }

    /// Whether no field follows.
    pub fn is_done(&self) -> bool {
        self.at >= self.end
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = *self.data.get(self.at).filter(|_| self.at < self.end)?;
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None // negative numbers
    }
}

/// Appends a number.
pub fn put_number(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 & 0x7F | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends a field that is a number.
pub fn put_varint(to: &mut Vec<u8>, field: u64, value: u64) {
    put_number(to, field << 3 | VARINT);
    put_number(to, value);
}

/// Appends a field that is a text, bytes or a message.
pub fn put_bytes(to: &mut Vec<u8>, field: u64, value: &[u8]) {
    put_number(to, field << 3 | BYTES);
    put_number(to, value.len() as u64);
    to.extend_from_slice(value);
}
