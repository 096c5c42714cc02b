//! The body of a batch: `size 4 | magic 4 | crc 4 | flag 4 | body length 4 | body | properties length 2 | properties`.

use std::ops::Range;

use crate::hash::tags_code;
use crate::properties::Entries;
use crate::record::{u16_at, u32_at};

const HEAD: usize = 20;

pub struct Message {
    pub flag: i32,
    pub body: Range<usize>,
    pub properties: Range<usize>,
}

/// Returns the messages of a batch; None if its lengths are inconsistent, or it has no messages.
pub fn split(data: &[u8]) -> Option<Vec<Message>> {
    let mut messages = Vec::new();
    let mut position = 0;
    while position < data.len() {
        let size = u32_at(data, position)? as usize;
        let flag = u32_at(data, position + 12)? as i32;
        let length = usize::try_from(u32_at(data, position + 16)? as i32).ok()?;
        let body = position + HEAD..(position + HEAD).checked_add(length)?;
        let properties_length = usize::from(u16_at(data, body.end)?);
        let properties = body.end + 2..body.end + 2 + properties_length;
        if properties.end > data.len() || properties.end - position != size {
            return None;
        }
        position = properties.end;
        messages.push(Message {
            flag,
            body,
            properties,
        });
    }
    (!messages.is_empty()).then_some(messages)
}

/// The values of a message's properties that its consume queue entry and index entries need.
#[derive(Default)]
pub struct Fields<'a> {
    pub tags_code: i64,
    pub uniq_key: Option<&'a [u8]>,
    pub keys: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// None for tags that are not UTF-8.
    pub fn of(properties: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::default();
        let mut tags: &[u8] = b"";
        for (name, value) in Entries::of(properties) {
            match name {
                b"TAGS" => tags = value,
                b"UNIQ_KEY" => fields.uniq_key = Some(value),
                b"KEYS" => fields.keys = Some(value),
                _ => {}
            }
        }
        fields.tags_code = tags_code(std::str::from_utf8(tags).ok()?);
        Some(fields)
    }
}
