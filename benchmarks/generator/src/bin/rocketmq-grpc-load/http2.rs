//! As much of HTTP/2 as a client of gRPC needs: calls of one message, and the messages of their answers.
//!
//! Header blocks are written without a dynamic table, and those of answers are not decoded: the outcome of a call is in
//! its message.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::fail;
use crate::failure::{Failure, Result};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const HEAD: usize = 9;
const FIRST_WINDOW: i64 = 65_535;
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
const LARGEST_FRAME: usize = 16_384;
const BUFFER: usize = 256 << 10;

/// The end of a call, or a message of one that goes on.
pub struct Answer {
    pub stream: u32,
    pub messages: Vec<Vec<u8>>,
}

pub struct Connection {
    stream: TcpStream,
    authority: String,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Answers that came with others and are not taken yet, the last one first.
    ended: Vec<Answer>,
    data: HashMap<u32, Vec<u8>>,
    next: u32,
    window: i64,
    unacknowledged: u32,
}

impl Connection {
    pub fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).map_err(|e| Failure::new(format!("{address}: {e}")))?;
        stream.set_nodelay(true)?;
        let mut output = PREFACE.to_vec();
        let mut settings = vec![0, 4];
        settings.extend(LARGEST_WINDOW.to_be_bytes());
        frame(&mut output, SETTINGS, 0, 0, &settings);
        frame(&mut output, WINDOW_UPDATE, 0, 0, &(LARGEST_WINDOW - FIRST_WINDOW as u32).to_be_bytes());
        Ok(Connection {
            stream,
            authority: address.to_owned(),
            input: vec![],
            output,
            ended: vec![],
            data: HashMap::new(),
            next: 1,
            window: FIRST_WINDOW,
            unacknowledged: 0,
        })
    }

    /// Whether the server takes a message of this size now.
    pub fn has_room(&self, size: usize) -> bool {
        self.window >= size as i64 + 5
    }

    /// Writes a call with one message, whose number is returned; `whole` if it is the only one.
    pub fn begin(&mut self, name: &str, message: &[u8], whole: bool) -> u32 {
        let stream = self.next;
        self.next += 2;
        let request = format!("{stream:032x}");
        let path = format!("/apache.rocketmq.v2.MessagingService/{name}");
        let mut block = vec![0x83, 0x86]; // POST, http
        for (name, value) in [
            (":path", path.as_str()),
            (":authority", &self.authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "grpc-load"),
            ("grpc-timeout", "30S"),
            ("x-mq-client-id", "load@1@0@abc"),
            ("x-mq-language", "JAVA"),
            ("x-mq-client-version", "5.2.0"),
            ("x-mq-protocol", "v2"),
            ("x-mq-request-id", &request),
            ("x-mq-date-time", "20260101T000000Z"),
        ] {
            block.push(0);
            text(&mut block, name);
            text(&mut block, value);
        }
        frame(&mut self.output, HEADERS, END_HEADERS, stream, &block);
        let mut data = vec![0];
        data.extend((message.len() as u32).to_be_bytes());
        data.extend(message);
        let pieces = data.len().div_ceil(LARGEST_FRAME);
        for (number, piece) in data.chunks(LARGEST_FRAME).enumerate() {
            let end = if whole && number + 1 == pieces { END } else { 0 };
            frame(&mut self.output, DATA, end, stream, piece);
        }
        self.window -= data.len() as i64;
        stream
    }

    /// Waits for the next answer: the end of a call, or, unless `ends`, a message.
    pub fn answer(&mut self, ends: bool) -> Result<Answer> {
        loop {
            if let Some(answer) = self.ended.pop() {
                return Ok(answer);
            }
            self.stream.write_all(&self.output)?;
            self.output.clear();
            let filled = self.input.len();
            self.input.resize(filled + BUFFER, 0);
            let read = self.stream.read(&mut self.input[filled..])?;
            if read == 0 {
                fail!("the server has closed the connection");
            }
            self.input.truncate(filled + read);
            self.frames(ends)?;
            self.ended.reverse();
        }
    }

    fn frames(&mut self, ends: bool) -> Result<()> {
        let input = std::mem::take(&mut self.input);
        let mut used = 0;
        while let Some(head) = input.get(used..used + HEAD) {
            let size = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let stream = number(&head[5..9]) & LARGEST_WINDOW;
            let Some(payload) = input.get(used + HEAD..used + HEAD + size) else { break };
            used += HEAD + size;
            self.take(kind, flags, stream, payload, ends)?;
        }
        self.input = input[used..].to_vec();
        if self.unacknowledged > 1 << 20 {
            frame(&mut self.output, WINDOW_UPDATE, 0, 0, &self.unacknowledged.to_be_bytes());
            self.unacknowledged = 0;
        }
        Ok(())
    }

    fn take(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8], ends: bool) -> Result<()> {
        match kind {
            DATA => {
                self.unacknowledged += payload.len() as u32;
                if flags & PADDED != 0 {
                    fail!("the server has padded its data");
                }
                self.data.entry(stream).or_default().extend(payload);
                if !ends || flags & END != 0 {
                    self.end(stream)?;
                }
            }
            HEADERS if flags & END != 0 => self.end(stream)?,
            SETTINGS if flags & END == 0 => frame(&mut self.output, SETTINGS, END, 0, &[]),
            PING if flags & END == 0 => frame(&mut self.output, PING, END, 0, payload),
            WINDOW_UPDATE if stream == 0 => self.window += i64::from(number(payload)),
            RST_STREAM => fail!("the server has ended call {stream} with error {}", number(payload)),
            GOAWAY => fail!("the server has said goodbye: {}", String::from_utf8_lossy(payload)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, stream: u32) -> Result<()> {
        let data = self.data.remove(&stream).unwrap_or_default();
        let mut messages = vec![];
        let mut rest = &data[..];
        while rest.len() >= 5 {
            let size = number(&rest[1..5]) as usize;
            let Some(message) = rest.get(5..5 + size) else { break };
            messages.push(message.to_vec());
            rest = &rest[5 + size..];
        }
        if !rest.is_empty() {
            fail!("the answer to call {stream} ends within a message");
        }
        self.ended.push(Answer { stream, messages });
        Ok(())
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |value, byte| value << 8 | u32::from(*byte))
}

/// A text of a header block that is not compressed.
fn text(block: &mut Vec<u8>, value: &str) {
    assert!(value.len() < 127, "longer texts are not needed");
    block.push(value.len() as u8);
    block.extend(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_kind_flags_and_stream() {
        let mut out = vec![];
        frame(&mut out, DATA, END, 5, b"abc");
        assert_eq!(out, b"\0\0\x03\0\x01\0\0\0\x05abc");
        assert_eq!(number(&[0, 0, 1, 2, 9]), 258);
    }
}
