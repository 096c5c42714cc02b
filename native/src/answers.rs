//! Splits bytes read from a socket into frames, and reads the headers of plain answers to requests.

use std::ops::Range;

use crate::frames::{Cut, Frame};
use crate::json::Reader;

const RESPONSE: i32 = 1;

/// The numbers of an answer's header, and the ranges of its parts in the bytes that were read.
pub struct Answer {
    pub code: i32,
    pub opaque: i32,
    pub flag: i32,
    pub version: i32,
    /// The JSON object of the header fields; None if there is none.
    pub fields: Option<Range<usize>>,
    pub body: Range<usize>,
}

pub enum Item {
    Answer(Answer),
    Frame(Frame),
}

/// Splits bytes read from a socket into frames, of which plain answers are read.
pub fn cut(data: &[u8], max_frame: usize) -> Cut<Item> {
    let mut found = Cut::default();
    while let Some(frame) = found.next(data, max_frame) {
        let plain = (frame.serialize_type == 0)
            .then(|| read(data, frame.header.clone(), frame.body.clone()));
        found.items.push(match plain.flatten() {
            Some(answer) => Item::Answer(answer),
            None => Item::Frame(frame),
        });
    }
    found
}

/// Reads the JSON header of an answer; None if it is not plain, has a remark, or is that of a request.
fn read(data: &[u8], header: Range<usize>, body: Range<usize>) -> Option<Answer> {
    let (start, bytes) = (header.start, &data[header]);
    std::str::from_utf8(bytes).ok()?;
    let mut reader = Reader::new(bytes);
    reader.expect(b'{')?;
    let (mut code, mut opaque, mut flag, mut version) = (None, None, None, None);
    let (mut language, mut form, mut fields) = (None, None, None);
    loop {
        let name = reader.string()?.plain()?;
        reader.expect(b':')?;
        match name {
            b"code" => once(&mut code, reader.number::<i32>()?)?,
            b"opaque" => once(&mut opaque, reader.number::<i32>()?)?,
            b"flag" => once(&mut flag, reader.number::<i32>()?)?,
            b"version" => once(&mut version, reader.number::<i32>()?)?,
            b"language" => once(&mut language, reader.string()?.plain()?)?,
            b"serializeTypeCurrentRPC" => once(&mut form, reader.string()?.plain()?)?,
            b"extFields" => {
                let begin = start + reader.position();
                read_fields(&mut reader)?;
                once(&mut fields, begin..start + reader.position())?;
            }
            _ => return None,
        }
        if !reader.has_more()? {
            break;
        }
    }
    let flag = flag?;
    if !reader.is_at_end() || flag & RESPONSE == 0 {
        return None;
    }
    Some(Answer {
        code: code?,
        opaque: opaque?,
        flag,
        version: version.unwrap_or(0),
        fields,
        body,
    })
}

/// Reads an object whose values are strings without escapes.
fn read_fields(reader: &mut Reader) -> Option<()> {
    reader.expect(b'{')?;
    loop {
        reader.string()?.plain()?;
        reader.expect(b':')?;
        reader.string()?.plain()?;
        if !reader.has_more()? {
            return Some(());
        }
    }
}

/// Stores a value; returns None if there is one already.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
        let mut to = Vec::new();
        to.extend((4 + header.len() as u32 + body.len() as u32).to_be_bytes());
        to.extend((u32::from(kind) << 24 | header.len() as u32).to_be_bytes());
        to.extend_from_slice(header);
        to.extend_from_slice(body);
        to
    }

    #[test]
    fn a_plain_answer_is_read() {
        let header = br#"{"code":-3,"opaque":7,"extFields":{"a":"b"},"flag":1,"language":"JAVA","version":9}"#;
        let data = frame(0, header, b"body");
        let found = cut(&data, 1 << 20);
        assert_eq!((found.position, found.missing), (data.len(), 8));
        let [Item::Answer(answer)] = &found.items[..] else {
            panic!("no answer");
        };
        let numbers = (answer.code, answer.opaque, answer.flag, answer.version);
        assert_eq!(numbers, (-3, 7, 1, 9));
        assert_eq!(&data[answer.body.clone()], b"body");
        let fields = answer.fields.clone().map(|fields| &data[fields]);
        assert_eq!(fields, Some(&br#"{"a":"b"}"#[..]));
    }

    #[test]
    fn others_are_left_to_python() {
        for header in [
            &br#"{"code":0,"opaque":7,"flag":0}"#[..],
            br#"{"code":0,"opaque":7,"flag":1,"remark":"no"}"#,
            br#"{"code":0,"opaque":7,"flag":1,"code":1}"#,
            br#"{"code":0,"opaque":7,"flag":1,"extFields":{}}"#,
            br#"{"code":0,"opaque":7,"flag":1,"extFields":{"a":1}}"#,
            br#"{"code":0,"opaque":7,"flag":1,"extFields":{"a":"\n"}}"#,
            br#"{"code":0,"opaque":7,"flag":1} "#,
            br#"{"code":0,"flag":1}"#,
            b"{\"code\":0,\"opaque\":7,\"flag\":1,\"language\":\"\xff\"}",
            b"",
        ] {
            let data = frame(0, header, b"");
            let found = cut(&data, 1 << 20);
            assert!(
                matches!(&found.items[..], [Item::Frame(one)] if one.serialize_type == 0),
                "{header:?}"
            );
        }
        let data = frame(1, br#"{"code":0,"opaque":7,"flag":1}"#, b"");
        let found = cut(&data, 99);
        assert!(matches!(&found.items[..], [Item::Frame(one)] if one.serialize_type == 1));
    }

    #[test]
    fn parts_and_faults_of_frames() {
        let data = frame(0, b"{}", b"x");
        let found = cut(&data[..10], 99);
        assert_eq!((found.position, found.missing), (0, data.len()));
        assert_eq!(cut(&data, 6).fault, Some((7, 2)));
        assert_eq!(cut(&[0, 0, 0, 3, 0, 0, 0, 0], 99).fault, Some((3, 0)));
        assert_eq!(cut(&[0, 0, 0, 4, 0, 0, 0, 1], 99).fault, Some((4, 1)));
    }
}
