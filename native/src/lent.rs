//! Queues that are lent: runs of sends are appended to them without the interpreter.
//!
//! Whoever owns a queue lends it with the offset of its next message, and gets back the entries that were added. One
//! send touches a place, a topic and a kind here: a few lines of the processor's cache, however many queues there are.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use crate::append::{Plan, Queue, Target};
use crate::sends::{Kind, Run};

/// Number of bytes of an entry: commit log offset, size and tags code.
pub const ENTRY: usize = 20;
/// So many kinds are known at most; with one more, all are forgotten.
const MOST_KINDS: usize = 400_000;
/// Number of bytes of entries from which on a queue is told to be long.
const LONG: usize = 16 * 1024;

/// Number of entries in a block.
const BLOCK: usize = 4096;
/// Stands for no entry.
const NONE: u32 = u32::MAX;

/// An entry as it is in a consume queue, and the number of the one before it in its queue.
#[derive(Clone, Copy)]
struct Stored {
    bytes: [u8; ENTRY],
    before: u32,
}

/// The entries of all queues, one after the other in the order in which they came.
///
/// So the next entry lies beside the last one, which is in the processor's cache, whatever their queues are. A block is
/// used again when all its entries were taken.
#[derive(Default)]
struct Entries {
    blocks: Vec<Vec<Stored>>,
    /// Number of entries in each block that were not taken.
    left: Vec<usize>,
    free: Vec<usize>,
    current: Option<usize>,
}

impl Entries {
    fn add(&mut self, bytes: [u8; ENTRY], before: u32) -> u32 {
        let block = match self.current {
            Some(block) if self.blocks[block].len() < BLOCK => block,
            _ => self.next_block(),
        };
        self.blocks[block].push(Stored { bytes, before });
        self.left[block] += 1;
        (block * BLOCK + self.blocks[block].len() - 1) as u32
    }

    fn next_block(&mut self) -> usize {
        if let Some(full) = self.current.take() {
            self.recycle(full);
        }
        let block = self.free.pop().unwrap_or_else(|| {
            self.blocks.push(Vec::with_capacity(BLOCK));
            self.left.push(0);
            self.blocks.len() - 1
        });
        self.current = Some(block);
        block
    }

    fn recycle(&mut self, block: usize) {
        if self.left[block] == 0 && self.current != Some(block) {
            self.blocks[block].clear();
            self.free.push(block);
        }
    }

    fn get(&self, number: u32) -> &Stored {
        &self.blocks[number as usize / BLOCK][number as usize % BLOCK]
    }

    /// Returns the bytes of the last `count` entries of a chain, the oldest first.
    fn read(&self, mut last: u32, count: usize) -> Vec<u8> {
        let mut found = vec![0; count * ENTRY];
        for place in found.chunks_exact_mut(ENTRY).rev() {
            let stored = self.get(last);
            place.copy_from_slice(&stored.bytes);
            last = stored.before;
        }
        found
    }

    /// Returns the sum of the sizes in the last `count` entries of a chain.
    fn sizes(&self, mut last: u32, count: usize) -> i64 {
        let mut sum = 0;
        for _ in 0..count {
            let stored = self.get(last);
            sum += size_of(&stored.bytes);
            last = stored.before;
        }
        sum
    }

    /// As `read`; the entries, which must be all of the chain, are removed.
    fn take(&mut self, mut last: u32, count: usize) -> Vec<u8> {
        let found = self.read(last, count);
        for _ in 0..count {
            let block = last as usize / BLOCK;
            last = self.get(last).before;
            self.left[block] -= 1;
            self.recycle(block);
        }
        found
    }
}

/// Takes a hash as it is.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A kind of sends, and what its messages become. Queue id and topic are those of the place.
#[derive(Clone, Copy)]
struct Known {
    sys_flag: i32,
    others: u32,
    access_key: u32,
    place: u32,
    /// How often the place had been given to another queue when the kind was learned.
    generation: u32,
    stored_flag: i32,
    tags_code: i64,
}

struct Topic {
    /// Length and name, as records have them.
    part: Box<[u8]>,
    magic: i32,
    key_hash: i64,
    places: u32,
    /// Of what was appended since it was told last: messages, bytes, and turns of its queues.
    messages: i64,
    bytes: i64,
    times: i64,
}

struct Place {
    next_offset: i64,
    /// Number of the last entry, and number of entries, since the queue was lent or they were taken.
    last: u32,
    count: u32,
    /// Number of them that are readable.
    readable: u32,
    topic: u32,
    queue_id: i32,
    generation: u32,
    /// Index of the queue in the present run, plus one.
    mark: u32,
    is_lent: bool,
    is_in_turn: bool,
}

/// A kind of a run to which nothing can be appended: its number, and the place of its queue, which is not lent, if that
/// is known.
pub type Missing = (usize, Option<usize>);

/// What a turn has added to a queue: its place, the offsets of the first message and after the last one, the entries.
pub type Arrival = (usize, i64, i64, Vec<i64>);

/// What was appended to a topic: name, messages, bytes, and turns of its queues.
pub type Counted = (Vec<u8>, i64, i64, i64);

/// Where the sends of each kind of a run are stored.
pub struct Resolved {
    pub targets: Vec<Option<Target<'static>>>,
    places: Vec<u32>,
}

/// What has become readable: number of messages; places of queues with many entries; what each queue got, if wanted.
#[derive(Default)]
pub struct Committed {
    pub messages: i64,
    pub long: Vec<usize>,
    pub arrivals: Vec<Arrival>,
}

#[derive(Default)]
pub struct Lent {
    hasher: RandomState,
    kinds: HashMap<u64, Known, BuildHasherDefault<Same>>,
    texts: Vec<Box<[u8]>>,
    numbers_of_texts: HashMap<Box<[u8]>, u32>,
    topics: Vec<Topic>,
    free_topics: Vec<u32>,
    numbers_of_topics: HashMap<Box<[u8]>, u32>,
    places: Vec<Place>,
    entries: Entries,
    free: Vec<u32>,
    /// Places with entries that are not readable yet.
    turn: Vec<u32>,
    turns: i64,
    /// Topics with something to be told.
    changed: Vec<u32>,
    /// What topics without queues have to be told.
    left: Vec<Counted>,
}

/// Returns the name in a length-prefixed topic, whose prefix has two bytes if the name has more than 127.
fn name_of(part: &[u8]) -> &[u8] {
    let prefix = if part.len() <= 128 { 1 } else { 2 };
    part.get(prefix..).unwrap_or_default()
}

impl Lent {
    // -- queues

    /// Returns a place for a queue, which is not lent yet.
    pub fn add(&mut self, queue_id: i32, magic: i32, part: &[u8], key_hash: i64) -> usize {
        let topic = self.topic(magic, part, key_hash);
        self.topics[topic as usize].places += 1;
        let number = self.free.pop().unwrap_or(self.places.len() as u32);
        let generation = self
            .places
            .get(number as usize)
            .map_or(0, |place| place.generation + 1);
        let place = Place {
            next_offset: 0,
            last: NONE,
            count: 0,
            readable: 0,
            topic,
            queue_id,
            generation,
            mark: 0,
            is_lent: false,
            is_in_turn: false,
        };
        match self.places.get_mut(number as usize) {
            Some(freed) => *freed = place,
            None => self.places.push(place),
        }
        number as usize
    }

    fn topic(&mut self, magic: i32, part: &[u8], key_hash: i64) -> u32 {
        if let Some(number) = self.numbers_of_topics.get(part) {
            return *number;
        }
        let topic = Topic {
            part: part.into(),
            magic,
            key_hash,
            places: 0,
            messages: 0,
            bytes: 0,
            times: 0,
        };
        let number = self.free_topics.pop().unwrap_or(self.topics.len() as u32);
        match self.topics.get_mut(number as usize) {
            Some(freed) => *freed = topic,
            None => self.topics.push(topic),
        }
        self.numbers_of_topics.insert(part.into(), number);
        number
    }

    /// Lends a queue; `next_offset` is that of its next message.
    pub fn lend(&mut self, place: usize, next_offset: i64) -> Option<()> {
        let place = self.places.get_mut(place)?;
        place.next_offset = next_offset;
        place.is_lent = true;
        Some(())
    }

    /// Returns the readable entries of a queue, and removes them; the queue stays lent.
    pub fn bring(&mut self, place: usize) -> Option<Vec<u8>> {
        let place = self.places.get_mut(place)?;
        let mut found = self.entries.take(place.last, place.count as usize);
        let rest = found.split_off(place.readable as usize * ENTRY);
        (place.last, place.count, place.readable) = (NONE, 0, 0);
        for entry in rest.chunks_exact(ENTRY) {
            place.last = self
                .entries
                .add(entry.try_into().unwrap_or([0; ENTRY]), place.last);
            place.count += 1;
        }
        Some(found)
    }

    /// Ends the lending of a queue; returns its readable entries and the fields of the others.
    pub fn take(&mut self, place: usize) -> Option<(Vec<u8>, Vec<i64>)> {
        let readable = self.bring(place)?;
        let place = self.places.get_mut(place)?;
        place.is_lent = false;
        let pending = self.entries.take(place.last, place.count as usize);
        (place.last, place.count) = (NONE, 0);
        Some((readable, fields(&pending)))
    }

    /// Gives up the place of a queue that is not lent.
    pub fn retire(&mut self, number: usize) -> Option<()> {
        self.take(number)?;
        let place = self.places.get_mut(number)?;
        place.generation += 1; // no kind knows it any longer
        self.turn.retain(|one| *one as usize != number);
        self.free.push(number as u32);
        let topic_number = place.topic;
        let topic = self.topics.get_mut(topic_number as usize)?;
        topic.places -= 1;
        if topic.places == 0 {
            let counted = counted(topic);
            if counted.1 > 0 {
                self.left.push(counted);
            }
            self.changed.retain(|one| *one != topic_number);
            let part = std::mem::take(&mut topic.part);
            self.numbers_of_topics.remove(&part);
            self.free_topics.push(topic_number);
        }
        Some(())
    }

    // -- kinds

    fn hash(&self, kind: &Kind) -> u64 {
        self.hasher.hash_one((
            &kind.topic,
            kind.queue_id,
            kind.sys_flag,
            &kind.others,
            &kind.access_key,
        ))
    }

    /// Forgets all kinds.
    pub fn forget(&mut self) {
        self.kinds.clear();
        self.texts.clear();
        self.numbers_of_texts.clear();
    }

    fn text(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.numbers_of_texts.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.into());
        self.numbers_of_texts.insert(text.into(), number);
        number
    }

    /// Notes what the messages of a kind become; it has topic and queue id of the place.
    pub fn learn(
        &mut self,
        kind: &Kind,
        place: usize,
        stored_flag: i32,
        tags_code: i64,
    ) -> Option<()> {
        let generation = self.places.get(place)?.generation;
        if self.kinds.len() >= MOST_KINDS {
            self.forget();
        }
        let known = Known {
            sys_flag: kind.sys_flag,
            others: self.text(&kind.others),
            access_key: self.text(&kind.access_key),
            place: place as u32,
            generation,
            stored_flag,
            tags_code,
        };
        self.kinds.insert(self.hash(kind), known);
        Some(())
    }

    /// Returns what is known of each of some kinds, None for the others.
    ///
    /// Each loop reads one thing of all kinds: the processor then waits for many of them in main memory together.
    fn find(&self, kinds: &[Option<&Kind>]) -> Vec<Option<(Known, &Place)>> {
        let hashes: Vec<Option<u64>> = kinds
            .iter()
            .map(|kind| kind.map(|kind| self.hash(kind)))
            .collect();
        let known: Vec<Option<Known>> = hashes
            .iter()
            .map(|hash| self.kinds.get(hash.as_ref()?).copied())
            .collect();
        let places: Vec<Option<&Place>> = known
            .iter()
            .map(|known| {
                let known = known.as_ref()?;
                let place = self.places.get(known.place as usize)?;
                (known.generation == place.generation).then_some(place)
            })
            .collect();
        let topics: Vec<&[u8]> = places
            .iter()
            .map(|place| place.map_or(&[][..], |place| &self.topics[place.topic as usize].part))
            .collect();
        let of = |number: usize| {
            let (kind, known, place) = (kinds[number]?, known[number]?, places[number]?);
            let is_same = known.sys_flag == kind.sys_flag
                && place.queue_id == kind.queue_id
                && *self.texts[known.others as usize] == *kind.others
                && *self.texts[known.access_key as usize] == *kind.access_key
                && name_of(topics[number]) == kind.topic;
            is_same.then_some((known, place))
        };
        (0..kinds.len()).map(of).collect()
    }

    // -- appending

    /// Returns where to store the sends from index `begin` on; the kinds of which some cannot be, otherwise.
    pub fn resolve(&self, run: &Run, begin: usize) -> Result<Resolved, Vec<Missing>> {
        let mut wanted = vec![begin == 0; run.kinds.len()];
        for send in run.sends.iter().skip(begin) {
            if let Some(one) = wanted.get_mut(send.kind) {
                *one = true;
            }
        }
        let (mut missing, mut targets, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let kinds: Vec<Option<&Kind>> = run
            .kinds
            .iter()
            .zip(&wanted)
            .map(|(kind, wanted)| wanted.then_some(kind))
            .collect();
        let found = self.find(&kinds);
        for (number, kind) in run.kinds.iter().enumerate() {
            if let Some((known, place)) = found[number]
                && place.is_lent
            {
                targets.push(Some(Target {
                    queue: places.len(),
                    sys_flag: known.stored_flag,
                    tags_code: known.tags_code,
                    answered_queue: kind.queue_id,
                    half: None,
                }));
                places.push(known.place);
                continue;
            }
            targets.push(None);
            if wanted[number] {
                let place = found[number].map(|(known, _)| known.place as usize);
                missing.push((number, place));
            }
        }
        if missing.is_empty() {
            Ok(Resolved { targets, places })
        } else {
            Err(missing)
        }
    }

    /// Returns the queues of the kinds; those of several kinds are one queue.
    pub fn queues(&mut self, resolved: &mut Resolved) -> Vec<Queue<'_>> {
        let mut distinct = Vec::with_capacity(resolved.places.len());
        for target in resolved.targets.iter_mut().flatten() {
            let place = resolved.places[target.queue];
            let found = &mut self.places[place as usize];
            if found.mark == 0 {
                distinct.push(place);
                found.mark = distinct.len() as u32;
            }
            target.queue = found.mark as usize - 1;
        }
        resolved.places = distinct;
        let (places, topics) = (&mut self.places, &self.topics);
        let mut queues = Vec::with_capacity(resolved.places.len());
        for place in &resolved.places {
            let place = &mut places[*place as usize];
            place.mark = 0;
            let topic = &topics[place.topic as usize];
            queues.push(Queue {
                queue_id: place.queue_id,
                magic: topic.magic,
                topic_part: &topic.part,
                next_offset: place.next_offset,
            });
        }
        queues
    }

    /// Returns the hashes of the topics of the queues, for index keys.
    pub fn key_hashes(&self, resolved: &Resolved) -> Vec<i64> {
        let of = |place: &u32| self.topics[self.places[*place as usize].topic as usize].key_hash;
        resolved.places.iter().map(of).collect()
    }

    /// Adds the entries of the records; they become readable with the next `commit`.
    pub fn take_in(&mut self, plan: &Plan, resolved: &Resolved) {
        for record in &plan.records {
            let number = resolved.places[record.queue];
            let place = &mut self.places[number as usize];
            if !place.is_in_turn {
                place.is_in_turn = true;
                self.turn.push(number);
            }
            let mut entry = [0; ENTRY];
            entry[..8].copy_from_slice(&record.physical.to_be_bytes());
            entry[8..12].copy_from_slice(&(record.size as i32).to_be_bytes());
            entry[12..].copy_from_slice(&record.tags_code.to_be_bytes());
            place.last = self.entries.add(entry, place.last);
            place.count += 1;
            place.next_offset = record.queue_offset + 1;
        }
    }

    /// Makes all entries readable, since their records are written.
    ///
    /// `tells` returns what each queue got, which is not counted then.
    pub fn commit(&mut self, tells: bool) -> Committed {
        let mut found = Committed::default();
        let before = self.turns;
        for number in std::mem::take(&mut self.turn) {
            let place = &mut self.places[number as usize];
            place.is_in_turn = false;
            let count = i64::from(place.count - place.readable);
            if count == 0 {
                continue; // they were taken, and others count them
            }
            found.messages += count;
            if tells {
                let added = self.entries.read(place.last, count as usize);
                let first = place.next_offset - count;
                found
                    .arrivals
                    .push((number as usize, first, place.next_offset, fields(&added)));
            } else {
                let topic = &mut self.topics[place.topic as usize];
                if topic.messages == 0 {
                    self.changed.push(place.topic);
                }
                topic.messages += count;
                topic.bytes += self.entries.sizes(place.last, count as usize);
                topic.times += 1;
                self.turns = before + 1;
            }
            place.readable = place.count;
            if place.readable as usize * ENTRY >= LONG {
                found.long.push(number as usize);
            }
        }
        found
    }

    /// Returns the number of turns, and what was appended to topics in them, since the last call.
    pub fn counted(&mut self) -> (i64, Vec<Counted>) {
        let mut found = std::mem::take(&mut self.left);
        for topic in std::mem::take(&mut self.changed) {
            found.push(counted(&mut self.topics[topic as usize]));
        }
        (std::mem::take(&mut self.turns), found)
    }
}

fn counted(topic: &mut Topic) -> Counted {
    let found = (
        name_of(&topic.part).to_vec(),
        topic.messages,
        topic.bytes,
        topic.times,
    );
    (topic.messages, topic.bytes, topic.times) = (0, 0, 0);
    found
}

fn size_of(entry: &[u8]) -> i64 {
    i64::from(i32::from_be_bytes(
        entry[8..12].try_into().unwrap_or_default(),
    ))
}

/// Returns commit log offset, size and tags code of each entry.
fn fields(entries: &[u8]) -> Vec<i64> {
    let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().unwrap_or_default());
    entries
        .chunks_exact(ENTRY)
        .flat_map(|entry| [number(&entry[..8]), size_of(entry), number(&entry[12..])])
        .collect()
}
