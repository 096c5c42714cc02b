//! Splits bytes read from a socket into frames.

use std::ops::Range;

use crate::record::u32_at;

/// A frame: serialize type, and the ranges of header and body in the bytes that were read.
pub struct Frame {
    pub serialize_type: u8,
    pub header: Range<usize>,
    pub body: Range<usize>,
}

/// What was found in the bytes of a read, and where the next read goes on.
pub struct Cut<T> {
    pub items: Vec<T>,
    /// Position after the last complete frame.
    pub position: usize,
    /// Number of bytes that the frame at this position needs.
    pub missing: usize,
    /// Length and header length of the frame at this position, if it is corrupt.
    pub fault: Option<(u32, u32)>,
}

impl<T> Default for Cut<T> {
    fn default() -> Self {
        Cut {
            items: Vec::new(),
            position: 0,
            missing: 8,
            fault: None,
        }
    }
}

impl<T> Cut<T> {
    /// Returns the next frame, and moves behind it; None at the end, or at a frame that is incomplete or corrupt.
    pub fn next(&mut self, data: &[u8], max_frame: usize) -> Option<Frame> {
        let begin = self.position;
        let length = u32_at(data, begin)?;
        let packed = u32_at(data, begin + 4)?;
        let (size, header_length) = (length as usize, (packed & 0xFF_FFFF) as usize);
        if size > max_frame || size < 4 || header_length > size - 4 {
            self.fault = Some((length, header_length as u32));
            return None;
        }
        let end = begin + 4 + size;
        if end > data.len() {
            self.missing = end - begin;
            return None;
        }
        self.position = end;
        let header = begin + 8..begin + 8 + header_length;
        Some(Frame {
            serialize_type: (packed >> 24) as u8,
            body: header.end..end,
            header,
        })
    }
}
