//! Decodes header blocks of HTTP/2 (HPACK, RFC 7541); as `rocketmq_py.wire.http2.hpack`.
//!
//! A client decides what is in a block. What it can make the decoder remember is limited by the size of the table, what
//! it can make it build by `max_list`.

use std::collections::VecDeque;

/// What RFC 7541 adds to the lengths of name and value for the size of a header.
const OVERHEAD: usize = 32;
/// Numbers of more continuation bytes are refused.
const MOST_SHIFT: u32 = 28;
/// The symbol of the end of a string, which is never sent.
const END: usize = 256;
const MOST_PADDING: u32 = 7;

/// Makes the headers that a decoder returns.
pub trait Maker {
    type Header;

    fn make(&self, name: &[u8], value: &[u8]) -> Self::Header;

    fn again(&self, header: &Self::Header) -> Self::Header;
}

#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    Malformed,
    /// The list has so many bytes; the decoder's state is right.
    TooLarge(usize),
}

type Result<T> = std::result::Result<T, Fault>;

struct Entry<H> {
    name: Vec<u8>,
    size: usize,
    header: H,
}

impl<H> Entry<H> {
    fn of(maker: &impl Maker<Header = H>, name: &[u8], value: &[u8]) -> Self {
        let size = name.len() + value.len() + OVERHEAD;
        Entry {
            name: name.to_vec(),
            size,
            header: maker.make(name, value),
        }
    }
}

/// The decoder of one connection.
pub struct Decoder<H> {
    known: Vec<Entry<H>>,
    dynamic: VecDeque<Entry<H>>,
    size: usize,
    limit: usize,
    table_size: usize,
    max_list: usize,
    texts: [Vec<u8>; 2],
}

impl<H> Decoder<H> {
    /// `known` is the static table.
    pub fn new(
        maker: &impl Maker<Header = H>,
        known: &[(Vec<u8>, Vec<u8>)],
        table_size: usize,
        max_list: usize,
    ) -> Self {
        Decoder {
            known: known
                .iter()
                .map(|(name, value)| Entry::of(maker, name, value))
                .collect(),
            dynamic: VecDeque::new(),
            size: 0,
            limit: table_size,
            table_size,
            max_list,
            texts: [Vec::new(), Vec::new()],
        }
    }

    /// Returns the headers of a block. After `Fault::Malformed` the decoder cannot be used any more.
    pub fn decode(
        &mut self,
        maker: &impl Maker<Header = H>,
        huffman: &Huffman,
        block: &[u8],
    ) -> Result<Vec<H>> {
        let mut headers = Vec::with_capacity(16);
        let mut total = 0;
        let mut reader = Reader { block, at: 0 };
        let [mut name, mut value] = std::mem::take(&mut self.texts);
        while let Some(first) = block.get(reader.at).copied() {
            let size;
            let header;
            if first & 0x80 != 0 {
                let entry = self.entry(reader.number(0x7F)?)?;
                (size, header) = (entry.size, maker.again(&entry.header));
            } else if first & 0x60 == 0x20 {
                if !headers.is_empty() {
                    return Err(Fault::Malformed);
                }
                self.limit = reader.number(0x1F)?;
                if self.limit > self.table_size {
                    return Err(Fault::Malformed);
                }
                self.evict(0);
                continue;
            } else {
                let is_added = first & 0x40 != 0;
                name.clear();
                value.clear();
                match reader.number(if is_added { 0x3F } else { 0x0F })? {
                    0 => reader.text(huffman, &mut name)?,
                    index => name.extend_from_slice(&self.entry(index)?.name),
                }
                reader.text(huffman, &mut value)?;
                size = name.len() + value.len() + OVERHEAD;
                if is_added {
                    self.evict(size);
                    let entry = Entry::of(maker, &name, &value);
                    header = maker.again(&entry.header);
                    if size <= self.limit {
                        self.size += size;
                        self.dynamic.push_front(entry);
                    }
                } else {
                    header = maker.make(&name, &value);
                }
            }
            total += size;
            if total <= self.max_list {
                headers.push(header);
            }
        }
        self.texts = [name, value];
        if total > self.max_list {
            return Err(Fault::TooLarge(total));
        }
        Ok(headers)
    }

    fn entry(&self, index: usize) -> Result<&Entry<H>> {
        let place = index.checked_sub(1).ok_or(Fault::Malformed)?;
        let found = match place.checked_sub(self.known.len()) {
            None => self.known.get(place),
            Some(place) => self.dynamic.get(place),
        };
        found.ok_or(Fault::Malformed)
    }

    /// Removes the oldest headers until there is room for `wanted` bytes.
    fn evict(&mut self, wanted: usize) {
        while self.size + wanted > self.limit {
            let Some(oldest) = self.dynamic.pop_back() else {
                break;
            };
            self.size -= oldest.size;
        }
    }
}

struct Reader<'a> {
    block: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8> {
        let found = *self.block.get(self.at).ok_or(Fault::Malformed)?;
        self.at += 1;
        Ok(found)
    }

    /// Reads a number whose first bits are those of `mask` of the next byte.
    fn number(&mut self, mask: u8) -> Result<usize> {
        let first = self.byte()? & mask;
        let mut value = u64::from(first);
        if first == mask {
            let mut shift = 0;
            loop {
                let byte = self.byte()?;
                value += u64::from(byte & 0x7F) << shift;
                if byte < 0x80 {
                    break;
                }
                shift += 7;
                if shift > MOST_SHIFT {
                    return Err(Fault::Malformed);
                }
            }
        }
        usize::try_from(value).map_err(|_| Fault::Malformed)
    }

    /// Reads a string, and appends it to `to`.
    fn text(&mut self, huffman: &Huffman, to: &mut Vec<u8>) -> Result<()> {
        let first = *self.block.get(self.at).ok_or(Fault::Malformed)?;
        let length = self.number(0x7F)?;
        let end = self.at.checked_add(length).ok_or(Fault::Malformed)?;
        let raw = self.block.get(self.at..end).ok_or(Fault::Malformed)?;
        self.at = end;
        if first & 0x80 == 0 {
            to.extend_from_slice(raw);
            return Ok(());
        }
        huffman.decode(raw, to).ok_or(Fault::Malformed)
    }
}

/// The step of a state (a proper prefix of a code) and four bits: no code has less than five.
#[derive(Clone, Copy, Default)]
struct Step {
    next: u8,
    symbol: Option<u8>,
    is_legal: bool,
}

/// The Huffman code of header blocks.
pub struct Huffman {
    steps: Vec<[Step; 16]>,
    /// Whether a string may end in a state: after less than a byte of the first bits of the end's code.
    accepted: Vec<bool>,
}

#[derive(Clone, Copy)]
enum Branch {
    Nothing,
    Node(usize),
    Symbol(usize),
}

impl Huffman {
    /// Returns the canonical code of the bytes 0 to 255 and of the end, given the lengths in bits; None if there is none.
    pub fn new(lengths: &[u32]) -> Option<Self> {
        if lengths.len() != END + 1 || lengths.iter().any(|length| !(5..=30).contains(length)) {
            return None;
        }
        let nodes = Self::tree(lengths)?;
        let mut accepted = vec![false; nodes.len()];
        let mut node = 0;
        accepted[0] = true;
        for _ in 0..MOST_PADDING {
            let Branch::Node(next) = nodes[node][1] else {
                return None;
            };
            node = next;
            accepted[node] = true;
        }
        let steps = (0..nodes.len())
            .map(|node| std::array::from_fn(|nibble| step(&nodes, node, nibble)))
            .collect();
        Some(Huffman { steps, accepted })
    }

    fn tree(lengths: &[u32]) -> Option<Vec<[Branch; 2]>> {
        let mut symbols: Vec<usize> = (0..lengths.len()).collect();
        symbols.sort_by_key(|symbol| (lengths[*symbol], *symbol));
        let mut nodes = vec![[Branch::Nothing; 2]];
        let (mut code, mut length) = (0u64, lengths[symbols[0]]);
        for symbol in symbols {
            code <<= lengths[symbol] - length;
            length = lengths[symbol];
            let mut node = 0;
            for bit in (0..length).rev() {
                let side = (code >> bit & 1) as usize;
                let branch = nodes[node][side];
                match (branch, bit) {
                    (Branch::Nothing, 0) => nodes[node][side] = Branch::Symbol(symbol),
                    (Branch::Nothing, _) => {
                        nodes.push([Branch::Nothing; 2]);
                        let next = nodes.len() - 1;
                        nodes[node][side] = Branch::Node(next);
                        node = next;
                    }
                    (Branch::Node(next), 1..) => node = next,
                    _ => return None,
                }
            }
            code += 1;
        }
        (nodes.len() == END).then_some(nodes)
    }

    /// Appends what a code stands for; None if it has its end in it, or is not padded with its first bits.
    pub fn decode(&self, raw: &[u8], to: &mut Vec<u8>) -> Option<()> {
        let mut state = 0u8;
        for byte in raw {
            for nibble in [byte >> 4, byte & 15] {
                let step = self.steps[usize::from(state)][usize::from(nibble)];
                if !step.is_legal {
                    return None;
                }
                to.extend(step.symbol);
                state = step.next;
            }
        }
        self.accepted[usize::from(state)].then_some(())
    }
}

fn step(nodes: &[[Branch; 2]], mut node: usize, nibble: usize) -> Step {
    let mut symbol = None;
    for bit in (0..4).rev() {
        match nodes[node][nibble >> bit & 1] {
            Branch::Node(next) => node = next,
            Branch::Symbol(found) if found < END => {
                symbol = Some(found as u8);
                node = 0;
            }
            _ => return Step::default(),
        }
    }
    Step {
        next: node as u8,
        symbol,
        is_legal: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;

    impl Maker for Plain {
        type Header = (Vec<u8>, Vec<u8>);

        fn make(&self, name: &[u8], value: &[u8]) -> Self::Header {
            (name.to_vec(), value.to_vec())
        }

        fn again(&self, header: &Self::Header) -> Self::Header {
            header.clone()
        }
    }

    /// A complete code: 255 symbols of eight bits, two of nine.
    fn huffman() -> Huffman {
        let mut lengths = vec![8; END + 1];
        lengths[255] = 9;
        lengths[END] = 9;
        Huffman::new(&lengths).unwrap()
    }

    fn decoder() -> Decoder<(Vec<u8>, Vec<u8>)> {
        Decoder::new(&Plain, &[(b"a".to_vec(), b"b".to_vec())], 100, 200)
    }

    fn header(name: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (name.to_vec(), value.to_vec())
    }

    #[test]
    fn headers_are_remembered_until_there_is_no_room() {
        let (mut decoder, huffman) = (decoder(), huffman());
        let mut decode = |block: &[u8]| decoder.decode(&Plain, &huffman, block);
        assert_eq!(
            decode(b"\x81\x41\x01c"),
            Ok(vec![header(b"a", b"b"), header(b"a", b"c")])
        );
        assert_eq!(
            decode(b"\x82\x40\x01x\x81\x07"),
            Ok(vec![header(b"a", b"c"), header(b"x", b"\x07")])
        );
        assert_eq!(
            decode(b"\x82\x83"),
            Ok(vec![header(b"x", b"\x07"), header(b"a", b"c")])
        );
        assert_eq!(decode(b"\x3f\x03\x82"), Ok(vec![header(b"x", b"\x07")]));
        assert_eq!(decode(b"\x83"), Err(Fault::Malformed));
    }

    #[test]
    fn a_list_that_is_too_large_leaves_the_table_right() {
        let (mut decoder, huffman) = (decoder(), huffman());
        let block = [&b"\x41\x01c"[..], &[0x81; 6]].concat();
        assert_eq!(
            decoder.decode(&Plain, &huffman, &block),
            Err(Fault::TooLarge(7 * 34))
        );
        assert_eq!(
            decoder.decode(&Plain, &huffman, b"\x82"),
            Ok(vec![header(b"a", b"c")])
        );
    }

    #[test]
    fn malformed_blocks_are_refused() {
        let blocks: [&[u8]; 8] = [
            b"\x80",
            b"\x82",
            b"\x41",
            b"\x41\x02c",
            b"\x81\x20",
            b"\x3f\xff\x01",
            b"\xff\xff\xff\xff\xff\xff\x01",
            b"\x01\x81\xff",
        ];
        for block in blocks {
            assert_eq!(
                decoder().decode(&Plain, &huffman(), block),
                Err(Fault::Malformed),
                "{block:?}"
            );
        }
    }

    #[test]
    fn only_complete_codes_of_all_bytes_are_taken() {
        assert!(Huffman::new(&[8; 256]).is_none());
        assert!(Huffman::new(&[8; 257]).is_none());
        assert!(Huffman::new(&[9; 257]).is_none());
        assert!(Huffman::new(&[0; 257]).is_none());
    }
}
