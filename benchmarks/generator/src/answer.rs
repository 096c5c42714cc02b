//! Answers: counted by a glance at their headers, decoded whole where more of them is needed.

use std::collections::HashMap;

use crate::failure::{Failure, Result};

const RESPONSE: u64 = 1;
const SUCCESS: &[u8] = b"{\"code\":0,";
const OPAQUE: &[u8] = b"\"opaque\":";
/// Frames above this are no answer but a sign that bytes were lost.
const LARGEST: usize = 64 << 20;

pub struct Answer<'a> {
    pub code: i64,
    pub opaque: u32,
    header: &'a [u8],
    binary: bool,
    pub body: &'a [u8],
}

/// Everything in a header.
pub struct Whole {
    code: i64,
    flag: u64,
    opaque: u32,
    pub remark: String,
    pub fields: HashMap<String, String>,
}

/// Bytes of the first frame with its length field, or None while its length has not come.
pub fn frame_size(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(length) = bytes.get(..4) else { return Ok(None) };
    let size = 4 + u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
    if !(8..=LARGEST).contains(&size) {
        return Err(Failure::new(format!("an answer has {size} bytes")));
    }
    Ok(Some(size))
}

impl<'a> Answer<'a> {
    /// The answer in a whole frame.
    pub fn parse(frame: &'a [u8]) -> Result<Self> {
        let kind = frame[4];
        let header_length = u32::from_be_bytes([0, frame[5], frame[6], frame[7]]) as usize;
        if header_length > frame.len() - 8 || kind > 1 {
            return Err(Failure::new(format!("an answer of {} bytes has a header of {header_length}", frame.len())));
        }
        let (header, body) = frame[8..].split_at(header_length);
        let mut answer = Answer { code: 0, opaque: 0, header, binary: kind == 1, body };
        match glance(header, answer.binary) {
            Some(opaque) => answer.opaque = opaque,
            None => {
                let whole = answer.whole()?;
                (answer.code, answer.opaque) = (whole.code, whole.opaque);
            }
        }
        Ok(answer)
    }

    /// Decodes the whole header.
    pub fn whole(&self) -> Result<Whole> {
        let decoded = if self.binary { decode_binary(self.header) } else { decode_json(self.header) };
        let whole = decoded.ok_or_else(|| {
            Failure::new(format!("an answer has no valid header: {}", String::from_utf8_lossy(self.header)))
        })?;
        if whole.flag & RESPONSE == 0 {
            return Err(Failure::new(format!("request {} came where an answer was awaited", whole.code)));
        }
        Ok(whole)
    }

    /// The failure that tells what was answered instead of what was wanted.
    pub fn refused(&self, what: &str) -> Failure {
        let text = String::from_utf8_lossy(self.header);
        let remark = self.whole().map(|whole| whole.remark).unwrap_or_default();
        Failure::new(format!("{what} answered code {} ({remark}): {text}", self.code))
    }
}

impl Whole {
    /// A field that must be there.
    pub fn text(&self, name: &str) -> Result<&str> {
        match self.fields.get(name) {
            Some(value) => Ok(value),
            None => Err(Failure::new(format!("an answer has no field {name}, only {:?}", self.fields))),
        }
    }

    pub fn number(&self, name: &str) -> Result<u64> {
        let text = self.text(name)?;
        text.parse().map_err(|_| Failure::new(format!("field {name} of an answer is {text:?} and no number")))
    }
}

/// The number of a request that succeeded, if the header looks as both brokers write it.
fn glance(header: &[u8], binary: bool) -> Option<u32> {
    if binary || !header.starts_with(SUCCESS) {
        return None;
    }
    // From the end: a quotation mark inside a text is escaped, so this can only be the header's own.
    let at = header.windows(OPAQUE.len()).rposition(|word| word == OPAQUE)? + OPAQUE.len();
    let digits = header[at..].iter().take_while(|sign| sign.is_ascii_digit());
    let opaque = digits.fold(0u64, |value, sign| (value * 10 + u64::from(sign - b'0')).min(u64::from(u32::MAX)));
    u32::try_from(opaque).ok()
}

fn decode_json(header: &[u8]) -> Option<Whole> {
    let value: serde_json::Value = serde_json::from_slice(header).ok()?;
    let mut fields = HashMap::new();
    if let Some(found) = value.get("extFields").and_then(|found| found.as_object()) {
        for (name, value) in found {
            fields.insert(name.clone(), value.as_str()?.to_owned());
        }
    }
    Some(Whole {
        code: value.get("code")?.as_i64()?,
        flag: value.get("flag")?.as_u64()?,
        opaque: u32::try_from(value.get("opaque")?.as_u64()?).ok()?,
        remark: value.get("remark").and_then(|text| text.as_str()).unwrap_or_default().to_owned(),
        fields,
    })
}

fn decode_binary(header: &[u8]) -> Option<Whole> {
    let mut rest = header;
    let code = i64::from(take(&mut rest, 2)?.iter().fold(0u16, |value, byte| value << 8 | u16::from(*byte)) as i16);
    take(&mut rest, 3)?;
    let opaque = number(&mut rest, 4)? as u32;
    let flag = number(&mut rest, 4)?;
    let remark = counted(&mut rest, 4)?;
    let mut entries = take_counted(&mut rest, 4)?;
    let mut fields = HashMap::new();
    while !entries.is_empty() {
        let name = counted(&mut entries, 2)?;
        fields.insert(name, counted(&mut entries, 4)?);
    }
    rest.is_empty().then_some(Whole { code, flag, opaque, remark, fields })
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let found = bytes.get(..count)?;
    *bytes = &bytes[count..];
    Some(found)
}

fn number(bytes: &mut &[u8], width: usize) -> Option<u64> {
    Some(take(bytes, width)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn take_counted<'a>(bytes: &mut &'a [u8], width: usize) -> Option<&'a [u8]> {
    let length = number(bytes, width)? as usize;
    take(bytes, length)
}

fn counted(bytes: &mut &[u8], width: usize) -> Option<String> {
    String::from_utf8(take_counted(bytes, width)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(header: &[u8], kind: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + header.len() + body.len()) as u32).to_be_bytes().to_vec();
        bytes.extend((header.len() as u32 | u32::from(kind) << 24).to_be_bytes());
        bytes.extend(header);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_success_is_seen_at_a_glance_and_whole() {
        let header = br#"{"code":0,"extFields":{"a":"x \"opaque\":5"},"flag":1,"language":"JAVA","opaque":1000000042,"version":5}"#;
        let bytes = frame(header, 0, b"body");
        assert_eq!(glance(header, false), Some(1_000_000_042));
        let answer = Answer::parse(&bytes).unwrap();
        assert_eq!((answer.code, answer.opaque, answer.body), (0, 1_000_000_042, &b"body"[..]));
        assert_eq!(answer.whole().unwrap().text("a").unwrap(), "x \"opaque\":5");
    }

    #[test]
    fn other_spellings_and_refusals_are_decoded_whole() {
        let bytes = frame(br#"{ "opaque": 7, "flag": 1, "code": 0 }"#, 0, b"");
        assert_eq!(Answer::parse(&bytes).unwrap().opaque, 7);
        let bytes = frame(br#"{"code":2,"flag":1,"opaque":7,"remark":"busy"}"#, 0, b"");
        let answer = Answer::parse(&bytes).unwrap();
        assert_eq!(answer.code, 2);
        assert!(answer.refused("a send").to_string().starts_with("a send answered code 2 (busy)"));
    }

    #[test]
    fn binary_headers_are_decoded() {
        let header = b"\0\x02\0\x02\x01\0\0\0\x07\0\0\0\x01\0\0\0\x02no\0\0\0\x08\0\x01a\0\0\0\x01b";
        let bytes = frame(header, 1, b"");
        let answer = Answer::parse(&bytes).unwrap();
        assert_eq!((answer.code, answer.opaque), (2, 7));
        let whole = answer.whole().unwrap();
        assert_eq!((whole.remark.as_str(), whole.text("a").unwrap()), ("no", "b"));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        assert!(Answer::parse(&frame(br#"{"code":39,"flag":0,"opaque":7}"#, 0, b"")).is_err());
        assert!(Answer::parse(&frame(b"{", 0, b"")).is_err());
        assert!(Answer::parse(&frame(b"\0\0\0", 1, b"")).is_err());
        assert!(frame_size(&[0, 0, 0, 1]).is_err());
        assert!(frame_size(&[0xFF; 4]).is_err());
        assert_eq!(frame_size(&[0, 0]).unwrap(), None);
    }
}
