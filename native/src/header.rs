//! The header of a send (SEND_MESSAGE_V2), in its plain forms.

use crate::json::{Reader, Text, whole};

const CODE: i16 = 310;
const JSON_START: &[u8] = br#"{"code":310,"#;
const RESPONSE: i32 = 1;
const ONEWAY: i32 = 2;

/// Header fields by their letters, `a` to `n`.
type Letters<'a> = [Option<Text<'a>>; 14];

const ACCESS_KEY: &[u8] = b"AccessKey";
const SIGNATURE: &[u8] = b"Signature";

/// All header fields of a request; reused for the next request, to save allocations.
#[derive(Default)]
pub struct Fields<'a> {
    letters: Letters<'a>,
    others: Vec<(&'a [u8], Text<'a>)>,
}

impl<'a> Fields<'a> {
    fn clear(&mut self) {
        self.letters = Letters::default();
        self.others.clear();
    }

    /// Appends the signed content except the body: the values of the fields in the order of their names.
    ///
    /// Returns None if the request is not signed, or a field is not plain.
    pub fn signed_content(&self, to: &mut Vec<u8>) -> Option<Signed<'a>> {
        if self.others.is_empty() {
            return None;
        }
        const LETTERS: &[u8; 14] = b"abcdefghijklmn";
        let letters = self.letters.iter().enumerate();
        let mut all: Vec<(&[u8], Text)> = letters
            .filter_map(|(i, value)| value.map(|value| (&LETTERS[i..=i], value)))
            .collect();
        all.extend(&self.others);
        all.sort_unstable_by_key(|(name, _)| *name);
        if all.windows(2).any(|two| two[0].0 == two[1].0) {
            return None;
        }
        let (mut access_key, mut signature) = (None, None);
        for (name, value) in all {
            match name {
                SIGNATURE => {
                    signature = value.plain();
                    continue;
                }
                ACCESS_KEY => access_key = value.plain(),
                _ => {}
            }
            value.unescape(to)?;
        }
        Some(Signed {
            access_key: access_key.filter(|key| !key.is_empty())?,
            signature: signature?,
        })
    }

    /// Stores a field; returns None if a one-letter field occurs twice.
    fn note(&mut self, name: &'a [u8], value: Text<'a>) -> Option<()> {
        match name {
            [letter @ b'a'..=b'n'] => once(&mut self.letters[usize::from(letter - b'a')], value),
            _ => {
                if value.is_escaped {
                    value.unescape(&mut Vec::new())?; // it must be well-formed, although nobody reads it
                }
                self.others.push((name, value));
                Some(())
            }
        }
    }
}

/// Access key and signature of a signed request.
pub struct Signed<'a> {
    pub access_key: &'a [u8],
    pub signature: &'a [u8],
}

pub struct Header<'a> {
    pub opaque: i32,
    pub is_oneway: bool,
    pub topic: &'a [u8],
    pub queue_id: i32,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub flag: i32,
    pub properties: Text<'a>,
    pub reconsume_times: i32,
}

impl<'a> Header<'a> {
    /// Parses the header of a send; returns None if it is of another request, or not plain.
    ///
    /// `kind` is the serialize type, 0 (JSON) or 1 (ROCKETMQ). `fields` receives the header fields.
    pub fn read(kind: u8, header: &'a [u8], fields: &mut Fields<'a>) -> Option<Self> {
        fields.clear();
        match kind {
            0 if header.starts_with(JSON_START) => read_json(header, fields),
            1 => {
                let (opaque, flag) = binary_numbers(header, CODE, fields)?;
                Header::of(opaque, flag, fields)
            }
            _ => None,
        }
    }

    fn of(opaque: i32, flag: i32, fields: &Fields<'a>) -> Option<Self> {
        let [
            group,
            topic,
            default_topic,
            queues,
            queue_id,
            sys_flag,
            born,
            message_flag,
            properties,
            times,
            unit,
            most,
            batch,
            name,
        ] = &fields.letters;
        // What is required or has a type must be there or of it, although it is not used.
        group.as_ref()?.plain()?;
        default_topic.as_ref()?.plain()?;
        optional(name, Some)?;
        whole::<i32>(queues.as_ref()?.plain()?)?;
        optional(most, whole::<i32>)?;
        optional(unit, boolean)?;
        let is_batch = optional(batch, boolean)?.unwrap_or(false);
        if flag & RESPONSE != 0 || is_batch {
            return None;
        }
        Some(Header {
            opaque,
            is_oneway: flag & ONEWAY != 0,
            topic: topic.as_ref()?.plain()?,
            queue_id: whole(queue_id.as_ref()?.plain()?)?,
            sys_flag: whole(sys_flag.as_ref()?.plain()?)?,
            born_timestamp: whole(born.as_ref()?.plain()?)?,
            flag: whole(message_flag.as_ref()?.plain()?)?,
            properties: (*properties)?,
            reconsume_times: optional(times, whole)?.unwrap_or(0),
        })
    }
}

/// Parses an optional field: Some(None) if it is missing, None if it is not plain.
fn optional<'a, T>(
    field: &Option<Text<'a>>,
    read: impl Fn(&'a [u8]) -> Option<T>,
) -> Option<Option<T>> {
    match field {
        None => Some(None),
        Some(text) => Some(Some(read(text.plain()?)?)),
    }
}

fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

/// One-way requests of a code, whose handling may wait until later sends of the read are handled.
pub struct Overtaken {
    code: i16,
    json_start: Vec<u8>,
}

impl Overtaken {
    pub fn of(code: i16) -> Self {
        Overtaken {
            code,
            json_start: format!("{{\"code\":{code},").into_bytes(),
        }
    }

    /// Returns true if a header, of serialize type `kind`, is that of such a request, in a plain form.
    pub fn has<'a>(&self, kind: u8, header: &'a [u8], fields: &mut Fields<'a>) -> bool {
        fields.clear();
        let numbers = match kind {
            0 if header.starts_with(&self.json_start) => {
                json_numbers(header, self.json_start.len(), fields)
            }
            1 => binary_numbers(header, self.code, fields),
            _ => None,
        };
        numbers.is_some_and(|(_, flag)| flag & (ONEWAY | RESPONSE) == ONEWAY)
    }
}

fn read_json<'a>(header: &'a [u8], fields: &mut Fields<'a>) -> Option<Header<'a>> {
    let (opaque, flag) = json_numbers(header, JSON_START.len(), fields)?;
    Header::of(opaque, flag, fields)
}

/// Parses the members of a JSON header from `start` on; returns opaque and flag.
fn json_numbers<'a>(header: &'a [u8], start: usize, fields: &mut Fields<'a>) -> Option<(i32, i32)> {
    std::str::from_utf8(header).ok()?;
    let mut reader = Reader::new(&header[start..]);
    let (mut opaque, mut flag, mut version, mut ext) = (None, None, None, None);
    let (mut language, mut form) = (None, None);
    loop {
        let name = reader.string()?.plain()?;
        reader.expect(b':')?;
        match name {
            b"opaque" => once(&mut opaque, reader.number::<i32>()?)?,
            b"flag" => once(&mut flag, reader.number::<i32>()?)?,
            b"version" => once(&mut version, reader.number::<i32>()?)?,
            b"language" => once(&mut language, reader.string()?.plain()?)?,
            b"serializeTypeCurrentRPC" => once(&mut form, reader.string()?.plain()?)?,
            b"extFields" => once(&mut ext, read_fields(&mut reader, fields)?)?,
            _ => return None,
        }
        if !reader.has_more()? {
            break;
        }
    }
    if !reader.is_at_end() {
        return None;
    }
    ext?;
    Some((opaque.unwrap_or(0), flag.unwrap_or(0)))
}

/// Stores a value; returns None if there is one already.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

fn read_fields<'a>(reader: &mut Reader<'a>, fields: &mut Fields<'a>) -> Option<()> {
    reader.expect(b'{')?;
    loop {
        let name = reader.string()?.plain()?;
        reader.expect(b':')?;
        let value = reader.string()?;
        fields.note(name, value)?;
        if !reader.has_more()? {
            return Some(());
        }
    }
}

/// `code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4 | fields length 4 | fields`.
///
/// Returns opaque and flag.
fn binary_numbers<'a>(header: &'a [u8], code: i16, fields: &mut Fields<'a>) -> Option<(i32, i32)> {
    if header.len() < 21 {
        return None;
    }
    if i16::from_be_bytes(header[..2].try_into().ok()?) != code || header[13..17] != [0; 4] {
        return None;
    }
    let opaque = i32::from_be_bytes(header[5..9].try_into().ok()?);
    let flag = i32::from_be_bytes(header[9..13].try_into().ok()?);
    let length = usize::try_from(i32::from_be_bytes(header[17..21].try_into().ok()?)).ok()?;
    let mut left = &header[21..];
    if left.len() != length {
        return None;
    }
    while !left.is_empty() {
        let (size, rest) = left.split_first_chunk::<2>()?;
        let (name, rest) =
            rest.split_at_checked(usize::try_from(i16::from_be_bytes(*size)).ok()?)?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let (raw, rest) =
            rest.split_at_checked(usize::try_from(i32::from_be_bytes(*size)).ok()?)?;
        left = rest;
        if name.is_empty()
            || raw.is_empty()
            || std::str::from_utf8(name).is_err()
            || std::str::from_utf8(raw).is_err()
        {
            return None;
        }
        fields.note(
            name,
            Text {
                raw,
                is_escaped: false,
            },
        )?;
    }
    Some((opaque, flag))
}
