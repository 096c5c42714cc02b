//! Requests as bytes: encoded once, then patched for every sending (number, time of birth, unique keys).
//!
//! Layout: RemotingCommand and RocketMQSerializable of Apache RocketMQ.

/// The number of a request has ten digits in every frame; what is added to it stays below 2^31.
pub const FIRST_OPAQUE: u32 = 1_000_000_000;
pub const KEY_LENGTH: usize = 32;
/// Stands where a unique key will, and a time of birth; bodies don't contain these signs.
pub const KEY: &str = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";
pub const BORN: &str = "^^^^^^^^^^^^^";

const VERSION: u16 = 513;
const JAVA: u8 = 0;
const ONE_WAY: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Headers {
    Json,
    Rocketmq,
}

/// A request before it is encoded.
pub struct Command<'a> {
    pub code: u32,
    pub fields: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
    pub one_way: bool,
}

/// What a frame gets when it is sent.
pub struct Stamp<'a> {
    pub opaque: u32,
    pub born: &'a [u8; BORN.len()],
}

/// An encoded request and the places in it that change.
pub struct Template {
    bytes: Vec<u8>,
    opaque_at: usize,
    binary: bool,
    born_at: Vec<usize>,
    keys_at: Vec<usize>,
}

impl Template {
    pub fn new(command: &Command, headers: Headers) -> Self {
        let (header, opaque_in_header) = match headers {
            Headers::Json => json_header(command),
            Headers::Rocketmq => binary_header(command),
        };
        let mut bytes = Vec::with_capacity(8 + header.len() + command.body.len());
        bytes.extend(((4 + header.len() + command.body.len()) as u32).to_be_bytes());
        let kind = u32::from(headers == Headers::Rocketmq) << 24;
        bytes.extend((kind | header.len() as u32).to_be_bytes());
        bytes.extend(header);
        bytes.extend(command.body);
        Template {
            opaque_at: 8 + opaque_in_header,
            binary: headers == Headers::Rocketmq,
            born_at: occurrences(&bytes, BORN.as_bytes()),
            keys_at: occurrences(&bytes, KEY.as_bytes()),
            bytes,
        }
    }

    /// Appends the request; every message in it takes the next key.
    pub fn write(&self, out: &mut Vec<u8>, stamp: &Stamp, keys: &mut Keys) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let frame = &mut out[start..];
        if self.binary {
            frame[self.opaque_at..][..4].copy_from_slice(&stamp.opaque.to_be_bytes());
        } else {
            digits(&mut frame[self.opaque_at..][..10], stamp.opaque.into());
        }
        for at in &self.born_at {
            frame[*at..][..BORN.len()].copy_from_slice(stamp.born);
        }
        for at in &self.keys_at {
            keys.write_next(&mut frame[*at..][..KEY_LENGTH]);
        }
    }
}

/// Unique keys: address and process as Java's clients put them, the time this run began, and a counter.
pub struct Keys {
    head: String,
    next: u32,
}

impl Keys {
    pub fn new(process: u32, started_millis: u64) -> Self {
        Keys { head: format!("7F000001{:04X}{:012X}", process & 0xFFFF, started_millis & 0xFFFF_FFFF_FFFF), next: 0 }
    }

    fn write_next(&mut self, at: &mut [u8]) {
        let head = self.head.len();
        at[..head].copy_from_slice(self.head.as_bytes());
        for (place, digit) in at[head..].iter_mut().enumerate() {
            *digit = b"0123456789ABCDEF"[(self.next >> (28 - 4 * place) & 15) as usize];
        }
        self.next = self.next.checked_add(1).expect("fewer than 2^32 messages in a run");
    }
}

/// Writes a decimal number to fill a place.
pub fn digits(at: &mut [u8], mut value: u64) {
    for digit in at.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// A body of so many printable bytes without the signs that mark places.
pub fn body(size: usize) -> Vec<u8> {
    (0..size)
        .map(|i| match 32 + (i * 7 % 91) as u8 {
            b'@' => b'a',
            b'^' => b'b',
            b'"' => b'\'',
            sign => sign,
        })
        .collect()
}

/// The text of message properties, as it stands in headers and records.
pub fn properties<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    pairs.into_iter().map(|(name, value)| format!("{name}\u{1}{value}\u{2}")).collect()
}

/// A batch of equal messages: size, magic, CRC and flag of zero, body, properties.
pub fn batch(count: usize, body: &[u8], properties: &str) -> Vec<u8> {
    let mut one = Vec::new();
    one.extend(((4 * 5 + body.len() + 2 + properties.len()) as u32).to_be_bytes());
    one.extend([0; 12]);
    one.extend((body.len() as u32).to_be_bytes());
    one.extend(body);
    one.extend((properties.len() as u16).to_be_bytes());
    one.extend(properties.as_bytes());
    one.repeat(count)
}

/// The header, and where the number of the request stands in it.
fn json_header(command: &Command) -> (Vec<u8>, usize) {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let fields: Vec<String> =
        command.fields.iter().map(|(name, value)| format!("{}:{}", quoted(name), quoted(value))).collect();
    let flag = if command.one_way { ONE_WAY } else { 0 };
    let before = format!(
        "{{\"code\":{},\"extFields\":{{{}}},\"flag\":{flag},\"language\":\"JAVA\",\"opaque\":",
        command.code,
        fields.join(",")
    );
    let after = format!("{FIRST_OPAQUE},\"serializeTypeCurrentRPC\":\"JSON\",\"version\":{VERSION}}}");
    let opaque_at = before.len();
    ((before + &after).into_bytes(), opaque_at)
}

fn binary_header(command: &Command) -> (Vec<u8>, usize) {
    let mut fields = Vec::new();
    for (name, value) in command.fields {
        fields.extend((name.len() as u16).to_be_bytes());
        fields.extend(name.as_bytes());
        fields.extend((value.len() as u32).to_be_bytes());
        fields.extend(value.as_bytes());
    }
    let mut header = Vec::new();
    header.extend((command.code as u16).to_be_bytes());
    header.push(JAVA);
    header.extend(VERSION.to_be_bytes());
    let opaque_at = header.len();
    header.extend(FIRST_OPAQUE.to_be_bytes());
    header.extend(if command.one_way { ONE_WAY } else { 0 }.to_be_bytes());
    header.extend(0u32.to_be_bytes()); // no remark
    header.extend((fields.len() as u32).to_be_bytes());
    header.extend(fields);
    (header, opaque_at)
}

fn occurrences(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut position = 0;
    while position + wanted.len() <= bytes.len() {
        if bytes[position..].starts_with(wanted) {
            found.push(position);
            position += wanted.len();
        } else {
            position += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(headers: Headers, keys: &mut Keys) -> Vec<u8> {
        let text = properties([("UNIQ_KEY", KEY), ("TAGS", "T")]);
        let command = Command { code: 310, fields: &[("g", BORN), ("i", &text)], body: KEY.as_bytes(), one_way: false };
        let mut out = vec![9];
        Template::new(&command, headers).write(
            &mut out,
            &Stamp { opaque: FIRST_OPAQUE + 7, born: b"1234567890123" },
            keys,
        );
        out.split_off(1)
    }

    #[test]
    fn json_headers_are_written_as_java_does() {
        let frame = written(Headers::Json, &mut Keys::new(1, 2));
        let header = String::from_utf8(frame[8..frame.len() - 32].to_vec()).unwrap();
        assert_eq!(
            header,
            concat!(
                "{\"code\":310,\"extFields\":{\"g\":\"1234567890123\",",
                "\"i\":\"UNIQ_KEY\\u00017F000001000100000000000200000000\\u0002TAGS\\u0001T\\u0002\"},\"flag\":0,",
                "\"language\":\"JAVA\",\"opaque\":1000000007,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}"
            )
        );
        assert_eq!(&frame[frame.len() - 32..], b"7F000001000100000000000200000001");
        assert_eq!(frame[..4], (frame.len() as u32 - 4).to_be_bytes());
        assert_eq!(frame[4..8], (header.len() as u32).to_be_bytes());
    }

    #[test]
    fn binary_headers_are_written_as_java_does() {
        let frame = written(Headers::Rocketmq, &mut Keys::new(1, 2));
        assert_eq!(frame[4], 1);
        assert_eq!(frame[8..10], 310u16.to_be_bytes());
        assert_eq!(frame[10..13], [0, 2, 1]);
        assert_eq!(frame[13..17], (FIRST_OPAQUE + 7).to_be_bytes());
        assert_eq!(frame[17..25], [0; 8]);
        assert_eq!(&frame[29..49], b"\0\x01g\0\0\0\x0d1234567890123");
    }

    #[test]
    fn keys_differ() {
        let mut keys = Keys::new(1, 2);
        let frames: Vec<_> = (0..300).map(|_| written(Headers::Json, &mut keys)).collect();
        let distinct: std::collections::HashSet<_> = frames.iter().map(|frame| &frame[frame.len() - 32..]).collect();
        assert_eq!(distinct.len(), 300);
        assert!(frames[299].ends_with(b"00000257"));
    }

    #[test]
    fn bodies_have_no_marks() {
        let all = body(5000);
        assert!(all.iter().all(|sign| (32..123).contains(sign) && !b"@^\"".contains(sign)));
    }
}
