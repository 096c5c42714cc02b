//! Whatever bytes arrive, nothing panics, and whatever is found lies within its input.
//!
//! Valid input with some bytes changed, cut off or repeated, from a fixed seed: a million calls of what parses.

use _native::append::{Common, Half, Hosts, Plan, Queue, Target, answers};
use _native::batch::{self, split};
use _native::calls;
use _native::columns::{Kind, Maker, Refusal, Rows};
use _native::hash::key_hash;
use _native::header::{Fields, Header, Overtaken};
use _native::hpack;
use _native::messages::{Origin, plain_records};
use _native::record::{MAGIC_V1, Record};
use _native::sends::{Item, Run, cut};

const ROUNDS: usize = 200_000;

/// xorshift64*: numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Some bytes changed, cut off, or repeated; sometimes none.
    fn mutate(&mut self, input: &[u8]) -> Vec<u8> {
        const ODD: [u8; 14] = *b"\"\\{}:,0-9u\x00\x01\x02\xff";
        let mut bytes = input.to_vec();
        for _ in 0..self.below(5) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] = self.next() as u8,
                1 if !bytes.is_empty() => bytes[at] = ODD[self.below(ODD.len())],
                2 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                3 => bytes.truncate(at),
                4 => bytes.insert(at, ODD[self.below(ODD.len())]),
                _ => {
                    let end = at + self.below(bytes.len() - at);
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        bytes
    }
}

fn frame(kind: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + header.len() + body.len()) as u32)
        .to_be_bytes()
        .to_vec();
    bytes.extend((u32::from(kind) << 24 | header.len() as u32).to_be_bytes());
    bytes.extend(header);
    bytes.extend(body);
    bytes
}

fn json(properties: &str) -> Vec<u8> {
    format!(
        concat!(
            r#"{{"code":310,"extFields":{{"a":"g","b":"t","c":"TBW102","d":"8","e":"3","f":"0","g":"1700000000000","#,
            r#""h":"0","i":"{}","j":"0","k":"false","m":"false","n":"b","more":"x\n","AccessKey":"root","Signature":"AAAA"}},"flag":0,"language":"JAVA","#,
            r#""opaque":77,"serializeTypeCurrentRPC":"JSON","version":513}}"#
        ),
        properties
    )
    .into_bytes()
}

fn binary() -> Vec<u8> {
    let fields: [(&str, &str); 9] = [
        ("a", "g"),
        ("b", "t"),
        ("c", "T"),
        ("d", "8"),
        ("e", "3"),
        ("f", "0"),
        ("g", "17"),
        ("h", "0"),
        ("i", "UNIQ_KEY\x01U\x02"),
    ];
    let mut entries = Vec::new();
    for (name, value) in fields {
        entries.extend((name.len() as u16).to_be_bytes());
        entries.extend(name.as_bytes());
        entries.extend((value.len() as u32).to_be_bytes());
        entries.extend(value.as_bytes());
    }
    let mut header = 310u16.to_be_bytes().to_vec();
    header.extend([0, 2, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
    header.extend((entries.len() as u32).to_be_bytes());
    header.extend(entries);
    header
}

fn sends() -> Vec<Vec<u8>> {
    let first = frame(
        0,
        &json(r"UNIQ_KEY\u0001ABC\u0002TAGS\u0001A\u0002KEYS\u0001k1 k2\u0002"),
        b"body",
    );
    let second = frame(
        0,
        &json(r"KEYS\u0001k\u0002UNIQ_KEY\u0001\u00e4\u0002"),
        b"",
    );
    let third = frame(1, &binary(), b"x");
    let other = frame(0, br#"{"code":11,"opaque":1}"#, b"");
    vec![
        first.clone(),
        [first, second, third.clone(), other].concat(),
        third,
    ]
}

/// Store and answer a run, as the broker would.
fn append(run: &Run, data: &[u8], random: &mut Random) {
    let targets: Vec<Option<Target>> = run
        .kinds
        .iter()
        .map(|_| {
            (random.below(8) > 0).then(|| Target {
                queue: random.below(3),
                sys_flag: 0,
                tags_code: 1,
                answered_queue: 2,
                half: (random.below(2) > 0).then_some(Half {
                    before: b"I\x01",
                    after: b"\x02",
                    place: b"T\x01t\x02",
                }),
            })
        })
        .collect();
    let topic = [&b"\x01t"[..], b"\x05topic"];
    let mut queues: Vec<Queue> = topic
        .iter()
        .map(|part| Queue {
            queue_id: 1,
            magic: MAGIC_V1 as i32,
            topic_part: part,
            next_offset: i64::MAX - 2,
        })
        .collect();
    let common = Common {
        hosts: Hosts {
            born: &[1; 8],
            store: &[2; 20],
        },
        suffix: b"R\x01r\x02",
        now: -1,
        physical: i64::MAX - random.below(4000) as i64,
        room: random.below(3000),
        max_body: random.below(100),
        max_properties: 32_767,
    };
    let plan = Plan::of(run, random.below(4), &targets, &mut queues, &common);
    let mut records = vec![0; plan.total];
    plan.write(data, run, &targets, &queues, &common, &mut records);
    let mut left = &records[..];
    for planned in &plan.records {
        let record = Record::read(left).expect("what was written is a record");
        assert_eq!(record.size, planned.size);
        assert_eq!(record.physical_offset as i64, planned.physical);
        assert_eq!(record.body, &data[run.sends[planned.send].body.clone()]);
        left = &left[record.size..];
    }
    assert!(left.is_empty() && records.len() <= common.room);
    assert!(answers(&[], &run.text, &[b""; 6], b"").is_empty());
}

#[test]
fn reads() {
    let mut random = Random(1);
    let seeds = sends();
    let mut runs = 0;
    for round in 0..2 * ROUNDS {
        let data = random.mutate(&seeds[round % seeds.len()]);
        let found = cut(&data, 1 << 16, &[Overtaken::of(11)], None);
        assert!(found.position <= data.len());
        for item in &found.items {
            match item {
                Item::Frame(one) => {
                    assert!(one.header.end <= one.body.start && one.body.end <= found.position)
                }
                Item::Run(run) => {
                    runs += 1;
                    for send in &run.sends {
                        assert!(
                            send.frame.end <= found.position && send.body.end == send.frame.end
                        );
                        assert!(
                            send.uniq_key.end <= run.text.len()
                                && !run.text_of(&send.uniq_key).is_empty()
                        );
                        assert!(send.kind < run.kinds.len());
                    }
                    let keys = vec![Some(&b"secret"[..]); random.below(run.kinds.len() + 1)];
                    assert_eq!(run.verified(&data, &keys).sends.len(), run.sends.len());
                    append(run, &data, &mut random);
                }
            }
        }
    }
    assert!(runs > ROUNDS / 4, "only {runs} runs were plain");
}

#[test]
fn headers() {
    let mut random = Random(2);
    let mut signed = 0;
    let seeds = [
        (
            0,
            json(r"UNIQ_KEY\u0001ABC\u0002TAGS\u0001\u00e4\ud83d\ude00\u0002"),
        ),
        (0, json(r"UNIQ_KEY\u0001ABC\u0002TAGS\u0001\u00e4\u0002")),
        (1, binary()),
    ];
    for round in 0..2 * ROUNDS {
        let (kind, seed) = &seeds[round % seeds.len()];
        let mutated = random.mutate(seed);
        let mut fields = Fields::default();
        if let Some(header) = Header::read(*kind, &mutated, &mut fields) {
            assert!(std::str::from_utf8(header.topic).is_ok());
            let mut content = Vec::new();
            if fields.signed_content(&mut content).is_some() {
                signed += 1;
                assert!(std::str::from_utf8(&content).is_ok());
            }
        }
        key_hash(random.next() as u32, &mutated);
    }
    assert!(signed > ROUNDS / 10, "only {signed} headers were signed");
}

fn batch_body() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (body, properties) in [
        (&b"one"[..], &b"UNIQ_KEY\x01U\x02TAGS\x01A"[..]),
        (b"", b""),
        (b"three", b"KEYS\x01a b\x02"),
    ] {
        bytes.extend(((22 + body.len() + properties.len()) as u32).to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend((body.len() as u32).to_be_bytes());
        bytes.extend(body);
        bytes.extend((properties.len() as u16).to_be_bytes());
        bytes.extend(properties);
    }
    bytes
}

#[test]
fn batches() {
    let mut random = Random(3);
    let seed = batch_body();
    let mut good = 0;
    for _ in 0..ROUNDS {
        let data = random.mutate(&seed);
        let Some(messages) = split(&data) else {
            continue;
        };
        good += 1;
        let mut at = 0;
        for message in &messages {
            assert_eq!(message.body.start, at + 20);
            assert!(message.properties.end <= data.len());
            batch::Fields::of(&data[message.properties.clone()]);
            at = message.properties.end;
        }
        assert_eq!(at, data.len());
    }
    assert!(good > ROUNDS / 10);
}

struct Plain;

impl Maker for Plain {
    type Buffer = Vec<u8>;

    fn make(&self, length: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut bytes = vec![0; length];
        fill(&mut bytes);
        bytes
    }

    fn join<'a>(&self, length: usize, pieces: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
        let bytes = pieces.collect::<Vec<_>>().concat();
        (bytes.len() == length).then_some(bytes)
    }
}

/// The records of the sends above.
fn records() -> Vec<u8> {
    let data = sends().swap_remove(1);
    let Some(Item::Run(run)) = cut(&data, 1 << 16, &[Overtaken::of(11)], None)
        .items
        .into_iter()
        .next()
    else {
        panic!("no run")
    };
    let target = Some(Target {
        queue: 0,
        sys_flag: 0,
        tags_code: 0,
        answered_queue: 0,
        half: None,
    });
    let targets = vec![target; run.kinds.len()];
    let mut queues = [Queue {
        queue_id: 0,
        magic: MAGIC_V1 as i32,
        topic_part: b"\x01t",
        next_offset: 5,
    }];
    let hosts = Hosts {
        born: &[1; 8],
        store: &[2; 8],
    };
    let (max_body, max_properties) = (100, 100);
    let common = Common {
        hosts,
        suffix: b"",
        now: 1,
        physical: 0,
        room: 4096,
        max_body,
        max_properties,
    };
    let plan = Plan::of(&run, 0, &targets, &mut queues, &common);
    let mut bytes = vec![0; plan.total];
    plan.write(&data, &run, &targets, &queues, &common, &mut bytes);
    bytes
}

#[test]
fn pulled_records() {
    let mut random = Random(4);
    let seed = records();
    let kinds: Vec<Kind> = [
        "topic",
        "body",
        "properties",
        "tags",
        "keys",
        "msgId",
        "queueOffset",
    ]
    .iter()
    .filter_map(|n| Kind::of(n))
    .collect();
    let (mut good, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let data = random.mutate(&seed);
        let check_crc = round % 2 == 0;
        let ranges = [(vec![&data[..], &seed[..]], 0, i64::MAX)];
        if let Ok(rows) = Rows::read(&ranges, &kinds, check_crc) {
            good += 1;
            if rows.is_empty() {
                continue;
            }
            // Bodies are checked when they are copied, or, if they are not wanted, when they are read.
            let without_bodies = Rows::read(&ranges, &kinds[2..], check_crc);
            match rows.columns(&Plain) {
                Ok(found) => {
                    assert_eq!(found.len(), kinds.len());
                    assert!(without_bodies.is_ok());
                }
                Err(refusal) => {
                    refused += 1;
                    assert!(check_crc && refusal == Refusal::Irregular);
                    assert!(without_bodies.is_err());
                }
            }
        }
    }
    assert!(
        good > ROUNDS / 10 && refused > ROUNDS / 1_000,
        "{good} {refused}"
    );
}

#[test]
fn records_for_consumers() {
    let mut random = Random(5);
    let seed = [records(), records()].concat();
    let origin = Origin {
        topic: b"t",
        queue_id: 0,
        start: 5,
        stop: 1000,
    };
    let mut good = 0;
    for round in 0..ROUNDS {
        let data = random.mutate(&seed);
        for origin in [None, Some(origin)] {
            let (found, position) = plain_records(&data, origin, round % 2 == 0);
            assert!(position <= data.len());
            let total: usize = found.iter().map(|one| one.size).sum();
            assert_eq!(position, total);
            good += found.len();
        }
    }
    assert!(good > ROUNDS);
}

/// Whatever a request of gRPC has, what is found lies in it.
#[test]
fn requests_of_grpc() {
    let request =
        b"\x0a\x2a\x0a\x03\x12\x01t\x12\x06\x0a\x01a\x12\x01b\x1a\x18\x0a\x01A\x12\x01k\x1a\x04\
        0A0B\x22\x02\x08\x01\x28\x01\x3a\x04\x08\x05\x10\x07\x22\x01b";
    let mut random = Random(7);
    let mut found = 0;
    assert!(calls::read(request, 100, &mut Vec::new()).is_some());
    for _ in 0..ROUNDS {
        let bytes = random.mutate(request);
        let Some(single) = calls::read(&bytes, 100, &mut Vec::new()) else {
            continue;
        };
        found += 1;
        let target = calls::Target {
            topic: b"t".to_vec(),
            sys_flag: 0,
            parts: [b"a\x01b\x02".to_vec(), Vec::new(), Vec::new()],
            queue_id: 1,
            queues: random.below(3) as i32,
        };
        let (run, data) = calls::run(&[(&single, &bytes, 0)], &[target], random.next() as i64);
        assert_eq!(data.len(), run.sends[0].body.len());
        calls::answer(
            b"",
            run.text_of(&run.sends[0].uniq_key),
            random.next() as i64,
        );
    }
    assert!(found > ROUNDS / 10);
}

struct Sizes;

impl hpack::Maker for Sizes {
    type Header = usize;

    fn make(&self, name: &[u8], value: &[u8]) -> usize {
        name.len() + value.len() + 32
    }

    fn again(&self, header: &usize) -> usize {
        *header
    }
}

#[test]
fn header_blocks() {
    let mut lengths = vec![8; 257];
    (lengths[255], lengths[256]) = (9, 9);
    let huffman = hpack::Huffman::new(&lengths).expect("a complete code");
    let known = [(b"name".to_vec(), b"value".to_vec())];
    let block = b"\x81\x40\x81x\x03abc\x82\x41\x02de\x00\x01f\x81g\x42\x82hi";
    let mut random = Random(8);
    let mut found = 0;
    for _ in 0..ROUNDS / 10 {
        let mut decoder = hpack::Decoder::new(&Sizes, &known, 150, 400);
        for _ in 0..10 {
            match decoder.decode(&Sizes, &huffman, &random.mutate(block)) {
                Ok(headers) => assert!(headers.iter().sum::<usize>() <= 400),
                Err(hpack::Fault::TooLarge(size)) => assert!(size > 400),
                Err(hpack::Fault::Malformed) => break,
            }
            found += 1;
        }
    }
    assert!(found > ROUNDS / 20);
}
