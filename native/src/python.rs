//! The Python interface of the crate.

use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOSError, PyOverflowError, PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyList, PyString, PyTuple};

use crate::answers;
use crate::append::{
    Batch, Common, Half, Hosts, Plan, Queue, Stored, Target, answers as encode_answers,
};
use crate::batch::{Fields, split};
use crate::calls::answer;
use crate::columns::{Column, Kind, Maker, Refusal, Rows, Texts, Wanted};
use crate::files::{Part, write_parts as write};
use crate::frames::Frame;
use crate::gather::{Expected, HEAD, Places};
use crate::header::Overtaken;
use crate::index::{self, Keys};
use crate::messages::{Origin, plain_records};
use crate::outgoing::{OVERHEAD, write_json, write_message, write_numbers, write_property};
use crate::revive::{self, Entry, Pop};
use crate::sends::{Item, Kind as SentKind, Run, Telling, cut};
use crate::signing::SigningKey;

/// Version of the interface, which the Python package checks; see `rocketmq_py.accelerator`.
const FORMAT: i32 = 15;

pub(crate) const HOSTS: &str = "a packed host has 8 or 20 bytes";

/// Returns the result of `work`; a panic becomes an ordinary Python exception.
pub(crate) fn calm<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(PyRuntimeError::new_err(
            "rocketmq-py-native failed; this is a bug of it",
        ))
    })
}

// -- columns

struct Bytes<'py>(Python<'py>);

impl<'py> Maker for Bytes<'py> {
    type Buffer = PyResult<Bound<'py, PyBytes>>;

    fn make(&self, length: usize, fill: impl FnOnce(&mut [u8])) -> Self::Buffer {
        PyBytes::new_with(self.0, length, |to| {
            fill(to);
            Ok(())
        })
    }

    fn join<'a>(
        &self,
        length: usize,
        mut pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Self::Buffer> {
        let mut filling = match Filling::new(self.0, length) {
            Ok(filling) => filling,
            Err(error) => return Some(Err(error)),
        };
        let fit = pieces.all(|piece| filling.add(piece));
        filling.filled().filter(|_| fit).map(Ok)
    }
}

/// A new object of bytes, which are not filled with zeros beforehand.
struct Filling<'py> {
    object: Bound<'py, PyBytes>,
    place: *mut u8,
    left: usize,
}

#[allow(unsafe_code)]
impl<'py> Filling<'py> {
    fn new(py: Python<'py>, total: usize) -> PyResult<Self> {
        let size = ffi::Py_ssize_t::try_from(total)?;
        // SAFETY: the object has one owner, which gives it to nobody before it is filled, so its bytes may be written.
        unsafe {
            let object = ffi::PyBytes_FromStringAndSize(ptr::null(), size);
            let object = Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>();
            let place = ffi::PyBytes_AsString(object.as_ptr()).cast::<u8>();
            Ok(Filling {
                object,
                place,
                left: total,
            })
        }
    }

    /// Copies `length` bytes behind those that are there; returns false if there is no space for them.
    ///
    /// # Safety
    /// They must be readable.
    unsafe fn add_from(&mut self, from: *const u8, length: usize) -> bool {
        if length > self.left {
            return false;
        }
        // SAFETY: `left` bytes from `place` on are of the new object, to which nobody has a reference.
        unsafe {
            ptr::copy_nonoverlapping(from, self.place, length);
            self.place = self.place.add(length);
        }
        self.left -= length;
        true
    }

    fn add(&mut self, piece: &[u8]) -> bool {
        // SAFETY: the bytes of a slice are readable.
        unsafe { self.add_from(piece.as_ptr(), piece.len()) }
    }

    /// Returns the object if all its bytes are written.
    fn filled(self) -> Option<Bound<'py, PyBytes>> {
        (self.left == 0).then_some(self.object)
    }
}

fn pair<'py>(
    py: Python<'py>,
    texts: Texts<PyResult<Bound<'py, PyBytes>>>,
) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, [texts.0?, texts.1?])
}

fn column<'py>(
    py: Python<'py>,
    found: Column<PyResult<Bound<'py, PyBytes>>>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match found {
        Column::Fixed(values) => values?.into_any(),
        Column::Texts(valid, texts) => (valid.transpose()?, pair(py, texts)?)
            .into_pyobject(py)?
            .into_any(),
        Column::Maps(firsts, names, values) => (firsts?, pair(py, names)?, pair(py, values)?)
            .into_pyobject(py)?
            .into_any(),
    })
}

fn kinds_of(names: &Bound<'_, PyTuple>) -> PyResult<Vec<Kind>> {
    let mut kinds = Vec::with_capacity(names.len());
    for name in names {
        let name: String = name.extract()?;
        let kind = Kind::of(&name)
            .ok_or_else(|| PyValueError::new_err(format!("there is no column {name}")))?;
        if kinds.contains(&kind) {
            return Err(PyValueError::new_err(format!(
                "column {name} is named twice"
            )));
        }
        kinds.push(kind);
    }
    Ok(kinds)
}

/// Decode the records of ranges of queues to the buffers of Arrow columns.
///
/// :param ranges: for each range the bodies of its pull responses in order, the queue offset of the first record
///     wanted, and the queue offset after the last one.
/// :param columns: names of columns, of those in rocketmq_py.arrow.decode.COLUMNS.
/// :param check_crc: whether to refuse records whose bodies do not have their stored checksums.
/// :returns: the number of rows of each range, and a tuple of the columns, which is empty if there are no rows. A column
///     of numbers is the bytes of the values in native byte order, with times in microseconds. ``body``, ``tags``, ``keys`` and ``msgId`` are the validity bits of the
///     rows (None if no row is null) and a pair of offsets and bytes. ``properties`` is the index of the first property
///     of each row, then such a pair for the names and one for the values. ``topic`` is the bytes of the only topic.
///     None for records that Python must decode: compressed bodies, inner batches, several topics, a property name that
///     occurs twice if ``properties`` is requested, text that is not UTF-8, inconsistent lengths.
/// :raises ValueError: a column does not exist, or is requested twice.
/// :raises OverflowError: a column would be larger than 2 GiB.
#[pyfunction]
#[pyo3(signature = (ranges, columns, check_crc, /))]
fn decode<'py>(
    py: Python<'py>,
    ranges: Vec<(Vec<Bound<'py, PyBytes>>, i64, i64)>,
    columns: &Bound<'py, PyTuple>,
    check_crc: bool,
) -> PyResult<Option<(Vec<usize>, Bound<'py, PyTuple>)>> {
    calm(|| {
        let kinds = kinds_of(columns)?;
        let slices: Vec<Wanted> = ranges
            .iter()
            .map(|(bodies, start, stop)| {
                let bodies = bodies.iter().map(|body| body.as_bytes()).collect();
                (bodies, *start, *stop)
            })
            .collect();
        let rows = match py.detach(|| Rows::read(&slices, &kinds, check_crc)) {
            Ok(rows) if rows.is_empty() => {
                return Ok(Some((rows.counts().to_vec(), PyTuple::empty(py))));
            }
            Ok(rows) => rows,
            Err(_) => return Ok(None),
        };
        match rows.columns(&Bytes(py)) {
            Ok(found) => {
                let made: Vec<_> = found
                    .into_iter()
                    .map(|one| column(py, one))
                    .collect::<PyResult<_>>()?;
                Ok(Some((rows.counts().to_vec(), PyTuple::new(py, made)?)))
            }
            Err(Refusal::TooLarge) => Err(PyOverflowError::new_err("a column of more than 2 GiB")),
            Err(Refusal::Irregular) => Ok(None),
        }
    })
}

// -- messages

type Messages<'py> = (Bound<'py, PyList>, usize);

/// Bytes that are often those of the record before: the same object then.
struct Repeated<'a, 'py>(&'a [u8], Bound<'py, PyBytes>);

impl<'a, 'py> Repeated<'a, 'py> {
    fn new(py: Python<'py>) -> Self {
        Repeated(&[], PyBytes::new(py, &[]))
    }

    fn object(&mut self, bytes: &'a [u8]) -> Bound<'py, PyBytes> {
        if bytes != self.0 {
            *self = Repeated(bytes, PyBytes::new(self.1.py(), bytes));
        }
        self.1.clone()
    }
}

/// The plain records at the begin of a pull's body; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (body, origin, reads, check_crc, broker_name, /))]
fn plain_messages<'py>(
    body: &Bound<'py, PyBytes>,
    origin: Option<(Bound<'py, PyString>, i64, i64, i64)>,
    reads: bool,
    check_crc: bool,
    broker_name: &Bound<'py, PyString>,
) -> PyResult<Messages<'py>> {
    calm(|| {
        let py = body.py();
        let topic = match &origin {
            None => None,
            Some(origin) => match origin.0.to_cow() {
                Ok(topic) => Some(topic),
                Err(_) => return Ok((PyList::empty(py), 0)), // no topic of a record is like that
            },
        };
        let origin = origin
            .as_ref()
            .zip(topic.as_ref())
            .map(|(origin, topic)| Origin {
                topic: topic.as_bytes(),
                queue_id: origin.1,
                start: origin.2,
                stop: origin.3,
            });
        let (records, position) = plain_records(body.as_bytes(), origin, check_crc);
        let (mut born, mut store) = (Repeated::new(py), Repeated::new(py));
        let (mut topic, mut name) = (&b""[..], PyString::new(py, ""));
        let empty = PyBytes::new(py, &[]);
        let mut rows = Vec::with_capacity(records.len());
        for record in &records {
            if record.topic != topic {
                (topic, name) = (record.topic, PyString::new(py, text(record.topic)?));
            }
            let head = PyTuple::new(
                py,
                [
                    (record.size as i32).into_pyobject(py)?.into_any(),
                    (record.magic as i32).into_pyobject(py)?.into_any(),
                    record.body_crc.into_pyobject(py)?.into_any(),
                    (record.queue_id as i32).into_pyobject(py)?.into_any(),
                    (record.flag as i32).into_pyobject(py)?.into_any(),
                    record.queue_offset.into_pyobject(py)?.into_any(),
                    (record.physical_offset as i64)
                        .into_pyobject(py)?
                        .into_any(),
                    (record.sys_flag as i32).into_pyobject(py)?.into_any(),
                    (record.born_time as i64).into_pyobject(py)?.into_any(),
                    born.object(record.born_host).into_any(),
                    (record.store_time as i64).into_pyobject(py)?.into_any(),
                    store.object(record.store_host).into_any(),
                    (record.reconsume_times as i32)
                        .into_pyobject(py)?
                        .into_any(),
                    (record.prepared_offset as i64)
                        .into_pyobject(py)?
                        .into_any(),
                    (record.body.len() as i32).into_pyobject(py)?.into_any(),
                ],
            )?;
            let kept = if reads {
                PyBytes::new(py, record.body)
            } else {
                empty.clone()
            };
            let properties = PyBytes::new(py, record.properties);
            rows.push(
                (head, name.clone(), kept, properties, broker_name.clone()).into_pyobject(py)?,
            );
        }
        Ok((PyList::new(py, rows)?, position))
    })
}

// -- sends

/// Consecutive plain sends from one read of a socket; see ``SendRun`` in ``rocketmq_py.accelerator``.
#[pyclass(frozen, module = "rocketmq_py_native")]
pub(crate) struct Sends {
    pub(crate) data: Py<PyBytes>,
    pub(crate) run: Run,
}

impl Sends {
    pub(crate) fn of(data: Bound<'_, PyBytes>, run: Run) -> Self {
        Sends {
            data: data.unbind(),
            run,
        }
    }
}

/// Responses to the sends that one call of `Sends.append` encoded.
#[pyclass(frozen, module = "rocketmq_py_native")]
pub(crate) struct Answers {
    stored: Vec<Stored>,
    sends: Py<Sends>,
    opaques: Vec<i32>,
}

type SendKind<'a> = (&'a str, i32, i32, &'a str, &'a str);
type HalfParts<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);
type Place<'py> = Option<(usize, i32, i64, i32, Option<HalfParts<'py>>)>;
/// Kind, commit log offset and queue offset; body, own properties, unique key and keys; flag, born timestamp, reconsume
/// times.
type StoredHalf<'py> = (
    (usize, i64, i64),
    (
        Bound<'py, PyBytes>,
        Bound<'py, PyBytes>,
        &'py str,
        Option<&'py str>,
    ),
    (i32, i64, i32),
);
type Destination<'py> = (i32, i32, Bound<'py, PyBytes>, i64, i64);

#[pymethods]
impl Sends {
    fn __len__(&self) -> usize {
        self.run.sends.len()
    }

    /// Topic, queue id, sysFlag, properties without unique key and keys, and access key of each kind of sends.
    fn kinds(&self) -> PyResult<Vec<SendKind<'_>>> {
        self.run.kinds.iter().map(kind_fields).collect()
    }

    /// Return one of the kinds.
    #[pyo3(signature = (number, /))]
    fn kind(&self, number: usize) -> PyResult<SendKind<'_>> {
        let kind = self.run.kinds.get(number);
        kind_fields(kind.ok_or_else(|| PyValueError::new_err("there is no such kind"))?)
    }

    /// Return a copy of the run in which ``append`` stops before each send that is not signed with the key of its kind.
    #[pyo3(signature = (keys, /))]
    fn verified(&self, py: Python<'_>, keys: Vec<Option<Bound<'_, PyBytes>>>) -> PyResult<Self> {
        calm(|| {
            let keys: Vec<Option<&[u8]>> = keys
                .iter()
                .map(|key| key.as_ref().map(|key| key.as_bytes()))
                .collect();
            let run = self.run.verified(self.data.bind(py).as_bytes(), &keys);
            Ok(Sends {
                data: self.data.clone_ref(py),
                run,
            })
        })
    }

    /// Return serialize type, header and body of the frame of a send.
    #[pyo3(signature = (number, /))]
    fn frame<'py>(
        &self,
        py: Python<'py>,
        number: usize,
    ) -> PyResult<(u8, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let send = self
            .run
            .sends
            .get(number)
            .ok_or_else(|| PyValueError::new_err("there is no such send"))?;
        let data = self.data.bind(py).as_bytes();
        let (header, body) = (send.frame.start + 8..send.body.start, send.body.clone());
        let kind = data.get(send.frame.start + 4).copied().unwrap_or_default();
        Ok((
            kind,
            PyBytes::new(py, data.get(header).unwrap_or_default()),
            PyBytes::new(py, data.get(body).unwrap_or_default()),
        ))
    }

    /// Encode the records of the sends from index ``begin`` on; see ``rocketmq_py.accelerator``.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (begin, targets, queues, hosts, suffix, place, limits, /))]
    fn append<'py>(
        slf: &Bound<'py, Self>,
        begin: usize,
        targets: Vec<Place<'py>>,
        queues: Vec<Destination<'py>>,
        hosts: (Bound<'py, PyBytes>, Bound<'py, PyBytes>),
        suffix: &Bound<'py, PyBytes>,
        place: (i64, i64, usize),
        limits: (usize, usize),
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        calm(|| {
            let py = slf.py();
            let Sends { data, run } = slf.get();
            let data = data.bind(py).as_bytes();
            let common = Common {
                hosts: Hosts {
                    born: hosts.0.as_bytes(),
                    store: hosts.1.as_bytes(),
                },
                suffix: suffix.as_bytes(),
                now: place.0,
                physical: place.1,
                room: place.2,
                max_body: limits.0,
                max_properties: limits.1.min(usize::from(u16::MAX)),
            };
            if !common.hosts.are_legal() {
                return Err(PyValueError::new_err(HOSTS));
            }
            let targets: Vec<Option<Target>> = targets
                .iter()
                .map(|one| {
                    one.as_ref().map(
                        |(queue, sys_flag, tags_code, answered_queue, half)| Target {
                            queue: *queue,
                            sys_flag: *sys_flag,
                            tags_code: *tags_code,
                            answered_queue: *answered_queue,
                            half: half.as_ref().map(|(before, after, place)| Half {
                                before: before.as_bytes(),
                                after: after.as_bytes(),
                                place: place.as_bytes(),
                            }),
                        },
                    )
                })
                .collect();
            let mut places: Vec<Queue> = queues
                .iter()
                .map(|(queue_id, magic, topic_part, next_offset, _)| Queue {
                    queue_id: *queue_id,
                    magic: *magic,
                    topic_part: topic_part.as_bytes(),
                    next_offset: *next_offset,
                })
                .collect();
            let plan = Plan::of(run, begin, &targets, &mut places, &common);
            let Some(last) = plan.records.last() else {
                return Ok(None);
            };
            let stop = last.send + 1;
            let chunk = PyBytes::new_with(py, plan.total, |to| {
                plan.write(data, run, &targets, &places, &common, to);
                Ok(())
            })?;
            let hashes: Vec<i64> = queues.iter().map(|queue| queue.4).collect();
            let keys = packed(py, run, &plan, &hashes, common.now);
            let entries = entries(py, &plan, queues.len())?;
            let answers = Answers::of(slf, run, &plan, &targets);
            let halves = stored_halves(py, data, run, &plan, &targets, common.suffix)?;
            let found = (stop, chunk, entries, keys, Bound::new(py, answers)?, halves);
            Ok(Some(found.into_pyobject(py)?))
        })
    }
}

fn kind_fields(kind: &SentKind) -> PyResult<SendKind<'_>> {
    Ok((
        text(&kind.topic)?,
        kind.queue_id,
        kind.sys_flag,
        text(&kind.others)?,
        text(&kind.access_key)?,
    ))
}

pub(crate) fn text(bytes: &[u8]) -> PyResult<&str> {
    std::str::from_utf8(bytes).map_err(|_| PyValueError::new_err("a text is not UTF-8"))
}

/// Returns, for each queue, a flat list of commit log offset, size and tags code of each record.
fn entries<'py>(py: Python<'py>, plan: &Plan, queues: usize) -> PyResult<Vec<Bound<'py, PyList>>> {
    let mut flat: Vec<Vec<i64>> = vec![Vec::new(); queues];
    for record in &plan.records {
        flat[record.queue].extend([record.physical, record.size as i64, record.tags_code]);
    }
    flat.into_iter().map(|one| PyList::new(py, one)).collect()
}

/// Returns the half messages among the records.
fn stored_halves<'py>(
    py: Python<'py>,
    data: &[u8],
    run: &Run,
    plan: &Plan,
    targets: &[Option<Target<'_>>],
    suffix: &[u8],
) -> PyResult<Bound<'py, PyList>> {
    let found = PyList::empty(py);
    for record in &plan.records {
        let send = &run.sends[record.send];
        let Some(half) = targets[send.kind].and_then(|target| target.half) else {
            continue;
        };
        let keys = send.keys.as_ref().map(|keys| text(run.text_of(keys)));
        let stored: StoredHalf = (
            (send.kind, record.physical, record.queue_offset),
            (
                PyBytes::new(py, &data[send.body.clone()]),
                PyBytes::new(py, &half.own(run, send, suffix)),
                text(run.text_of(&send.uniq_key))?,
                keys.transpose()?,
            ),
            (send.flag, send.born_timestamp, send.reconsume_times),
        );
        found.append(stored)?;
    }
    Ok(found)
}

/// Returns the packed index keys of the records.
///
/// :param hashes: the topic hash of each queue.
pub(crate) fn packed<'py>(
    py: Python<'py>,
    run: &Run,
    plan: &Plan,
    hashes: &[i64],
    now: i64,
) -> Bound<'py, PyBytes> {
    let mut keys = Keys::default();
    for record in &plan.records {
        let (send, topic) = (&run.sends[record.send], hashes[record.queue]);
        keys.add(topic, run.text_of(&send.uniq_key), record.physical, now);
        if let Some(words) = &send.keys {
            keys.add_words(topic, run.text_of(words), record.physical, now);
        }
    }
    PyBytes::new(py, &keys.packed)
}

impl Answers {
    pub(crate) fn of(
        sends: &Bound<'_, Sends>,
        run: &Run,
        plan: &Plan,
        targets: &[Option<Target<'_>>],
    ) -> Self {
        let mut found = Answers {
            stored: Vec::new(),
            sends: sends.clone().unbind(),
            opaques: Vec::new(),
        };
        for record in &plan.records {
            let send = &run.sends[record.send];
            if send.is_oneway {
                continue;
            }
            found.opaques.push(send.opaque);
            found.stored.push(Stored {
                opaque: send.opaque,
                physical: record.physical,
                queue_id: targets[send.kind].map_or(0, |target| target.answered_queue),
                queue_offset: record.queue_offset,
                uniq_key: send.uniq_key.clone(),
            });
        }
        found
    }
}

#[pymethods]
impl Answers {
    /// Return the opaque of each request to answer.
    fn opaques(&self) -> Vec<i32> {
        self.opaques.clone()
    }

    /// Return the responses of gRPC; see ``rocketmq_py.accelerator``.
    #[pyo3(signature = (status, /))]
    fn messages<'py>(
        &self,
        py: Python<'py>,
        status: &Bound<'py, PyBytes>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        calm(|| {
            let run = &self.sends.get().run;
            let all = self.stored.iter();
            Ok(all
                .map(|one| {
                    let id = run.text_of(&one.uniq_key);
                    PyBytes::new(py, &answer(status.as_bytes(), id, one.queue_offset))
                })
                .collect())
        })
    }

    /// Return the frames of all responses; see ``rocketmq_py.accelerator``.
    #[pyo3(signature = (pieces, host, /))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        pieces: [Bound<'py, PyBytes>; 6],
        host: &Bound<'py, PyBytes>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        calm(|| {
            let pieces = pieces.each_ref().map(|piece| piece.as_bytes());
            Ok(PyBytes::new(
                py,
                &encode_answers(
                    &self.stored,
                    &self.sends.get().run.text,
                    &pieces,
                    host.as_bytes(),
                ),
            ))
        })
    }
}

// -- batches

/// Topic, group, queue id, first offset, time and broker of a pop.
type PopKey<'py> = (
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    i64,
    i64,
    i64,
    Bound<'py, PyString>,
);

/// Record and unique key of an entry of the revive log.
type ReviveRecord<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Encode the record of a check-point; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (pop, invisible, born, queue, host, place, limits, /))]
fn check_point_record<'py>(
    pop: PopKey<'py>,
    invisible: (i64, Vec<i64>),
    born: i64,
    queue: Destination<'py>,
    host: Bound<'py, PyBytes>,
    place: (i64, i64, usize),
    limits: (usize, usize),
) -> PyResult<Option<ReviveRecord<'py>>> {
    calm(|| {
        let py = host.py();
        let entry =
            popped(&pop).map(|pop| Entry::check_point(&pop, invisible.0, &invisible.1, born));
        stored_entry(py, entry, born, &queue, &host, place, limits)
    })
}

/// Encode the record of an ack; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (pop, offsets, born, queue, host, place, limits, /))]
fn ack_record<'py>(
    pop: PopKey<'py>,
    offsets: Bound<'py, PyAny>,
    born: i64,
    queue: Destination<'py>,
    host: Bound<'py, PyBytes>,
    place: (i64, i64, usize),
    limits: (usize, usize),
) -> PyResult<Option<ReviveRecord<'py>>> {
    calm(|| {
        let py = host.py();
        let entry = match (popped(&pop), offsets.extract::<Vec<i64>>()) {
            (Some(pop), Ok(offsets)) => Entry::ack(&pop, &offsets, born),
            _ => None, // a name with lone surrogates, or an offset beyond 64 bits
        };
        stored_entry(py, entry, born, &queue, &host, place, limits)
    })
}

fn popped<'a>(key: &'a PopKey<'_>) -> Option<Pop<'a>> {
    Some(Pop {
        topic: key.0.to_str().ok()?,
        group: key.1.to_str().ok()?,
        queue_id: key.2,
        start_offset: key.3,
        pop_time: key.4,
        broker: key.5.to_str().ok()?,
    })
}

fn stored_entry<'py>(
    py: Python<'py>,
    entry: Option<Entry>,
    born: i64,
    queue: &Destination<'py>,
    host: &Bound<'py, PyBytes>,
    place: (i64, i64, usize),
    limits: (usize, usize),
) -> PyResult<Option<ReviveRecord<'py>>> {
    let (queue_id, magic, ref topic_part, next_offset, _) = *queue;
    let queue = Queue {
        queue_id,
        magic,
        topic_part: topic_part.as_bytes(),
        next_offset,
    };
    let place = revive::Place {
        now: place.0,
        physical: place.1,
        room: place.2,
        max_body: limits.0,
        max_properties: limits.1.min(usize::from(u16::MAX)),
    };
    let Some(entry) = entry else {
        return Ok(None);
    };
    let Some((batch, total)) = entry.stored(queue, host.as_bytes(), born, &place) else {
        return Ok(None);
    };
    let record = PyBytes::new_with(py, total, |to| {
        batch.write(to);
        Ok(())
    })?;
    Ok(Some((record, PyBytes::new(py, entry.uniq_key()))))
}

/// Encode the records of the messages of a batch; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (data, queue, hosts, head, place, limits, /))]
fn encode_batch<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    queue: Destination<'py>,
    hosts: (Bound<'py, PyBytes>, Bound<'py, PyBytes>),
    head: (i32, i64, i32),
    place: (i64, i64, usize),
    limits: (usize, usize),
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    calm(|| {
        let (queue_id, magic, topic_part, next_offset, topic_hash) = queue;
        let data = data.as_bytes();
        let Some(messages) = split(data) else {
            return Ok(None);
        };
        let batch = Batch {
            data,
            messages,
            queue: Queue {
                queue_id,
                magic,
                topic_part: topic_part.as_bytes(),
                next_offset,
            },
            hosts: Hosts {
                born: hosts.0.as_bytes(),
                store: hosts.1.as_bytes(),
            },
            sys_flag: head.0,
            born_timestamp: head.1,
            reconsume_times: head.2,
            now: place.0,
            physical: place.1,
        };
        if !batch.hosts.are_legal() {
            return Err(PyValueError::new_err(HOSTS));
        }
        let total = match batch.total(limits.0, limits.1.min(usize::from(u16::MAX))) {
            Some(total) if total <= place.2 => total,
            _ => return Ok(None),
        };
        let mut keys = Keys::default();
        let mut entries: Vec<i64> = Vec::with_capacity(batch.messages.len() * 3);
        let mut physical = batch.physical;
        for message in &batch.messages {
            let Some(fields) = Fields::of(&data[message.properties.clone()]) else {
                return Ok(None);
            };
            let size = batch.size_of(message) as i64;
            entries.extend([physical, size, fields.tags_code]);
            if let Some(key) = fields.uniq_key {
                keys.add(topic_hash, key, physical, batch.now);
            }
            if let Some(words) = fields.keys {
                keys.add_words(topic_hash, words, physical, batch.now);
            }
            physical += size;
        }
        let records = PyBytes::new_with(py, total, |to| {
            batch.write(to);
            Ok(())
        })?;
        Ok(Some(
            (
                records,
                PyList::new(py, entries)?,
                PyBytes::new(py, &keys.packed),
            )
                .into_pyobject(py)?,
        ))
    })
}

// -- what producers send

/// Properties in their stored form; None if they are no strings, have a separator, or have more than `most` bytes.
fn stored_properties(to: &mut Vec<u8>, properties: &Bound<'_, PyAny>, most: usize) -> Option<()> {
    to.clear();
    for (name, value) in properties.cast_exact::<PyDict>().ok()?.iter() {
        add_property(to, &name, &value)?;
    }
    (to.len() <= most).then_some(())
}

/// Append a property; None if name and value are no strings, or have a separator.
fn add_property(to: &mut Vec<u8>, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Option<()> {
    let name = name.cast_exact::<PyString>().ok()?;
    let value = value.cast_exact::<PyString>().ok()?;
    let (name, value) = (name.to_cow().ok()?, value.to_cow().ok()?);
    write_property(to, &name, &value)
}

/// The body of a batch; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (messages, most, /))]
fn encode_messages<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyList>,
    most: usize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    calm(|| {
        let (mut found, mut properties) = (Vec::new(), Vec::new());
        for message in messages.iter() {
            if add_message(&mut found, &mut properties, &message, most).is_none() {
                return Ok(None);
            }
        }
        Ok(Some(PyBytes::new(py, &found)))
    })
}

/// One message of a batch; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (flag, body, properties, most, /))]
fn encode_message<'py>(
    py: Python<'py>,
    flag: &Bound<'py, PyAny>,
    body: &Bound<'py, PyAny>,
    properties: &Bound<'py, PyAny>,
    most: usize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    calm(|| {
        let mut text = Vec::with_capacity(256);
        let (Ok(flag), Ok(body)) = (flag.extract(), body.cast_exact::<PyBytes>()) else {
            return Ok(None);
        };
        let body = body.as_bytes();
        if stored_properties(&mut text, properties, most).is_none() {
            return Ok(None);
        }
        Ok(message_of(py, flag, body, &text))
    })
}

/// One message of a batch, given its encoded properties; None if it is too large.
fn message_of<'py>(
    py: Python<'py>,
    flag: i32,
    body: &[u8],
    properties: &[u8],
) -> Option<Bound<'py, PyBytes>> {
    let mut found = Vec::with_capacity(OVERHEAD + body.len() + properties.len());
    write_message(&mut found, flag, body, properties)?;
    Some(PyBytes::new(py, &found))
}

/// One plain message of a batch, which gets a unique key; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (message, key, unusual, below, most, /))]
fn encode_plain<'py>(
    message: &Bound<'py, PyAny>,
    key: &Bound<'py, PyString>,
    unusual: &Bound<'py, PyFrozenSet>,
    below: usize,
    most: usize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = message.py();
    calm(|| {
        let flag = message.getattr(intern!(py, "flag"))?;
        let body = message.getattr(intern!(py, "body"))?;
        let properties = message.getattr(intern!(py, "properties"))?;
        let (Ok(flag), Ok(body), Ok(properties)) = (
            flag.extract(),
            body.cast_exact::<PyBytes>(),
            properties.cast_exact::<PyDict>(),
        ) else {
            return Ok(None);
        };
        let body = body.as_bytes();
        if body.is_empty() || body.len() >= below {
            return Ok(None);
        }
        let mut text = Vec::with_capacity(256);
        for (name, value) in properties.iter() {
            if unusual.contains(&name)? || add_property(&mut text, &name, &value).is_none() {
                return Ok(None);
            }
        }
        let name = intern!(py, "UNIQ_KEY");
        if add_property(&mut text, name, key).is_none() || text.len() > most {
            return Ok(None);
        }
        let found = message_of(py, flag, body, &text);
        if found.is_some() {
            properties.set_item(name, key)?;
        }
        Ok(found)
    })
}

/// Append a message of a batch, given as flag, body and properties.
fn add_message(
    to: &mut Vec<u8>,
    properties: &mut Vec<u8>,
    message: &Bound<'_, PyAny>,
    most: usize,
) -> Option<()> {
    type Message<'py> = (i32, Bound<'py, PyBytes>, Bound<'py, PyAny>);
    let (flag, body, entries) = message.extract::<Message>().ok()?;
    stored_properties(properties, &entries, most)?;
    write_message(to, flag, body.as_bytes(), properties)
}

type SendFields<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The header fields of a send that depend on its message; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (numbers, properties, more, most, /))]
fn send_fields<'py>(
    py: Python<'py>,
    numbers: &Bound<'py, PyAny>,
    properties: &Bound<'py, PyAny>,
    more: (Bound<'py, PyBytes>, Bound<'py, PyBytes>),
    most: usize,
) -> PyResult<Option<SendFields<'py>>> {
    calm(|| {
        let mut text = Vec::with_capacity(256);
        let Ok((sys_flag, born, flag)) = numbers.extract::<(i64, i64, i64)>() else {
            return Ok(None);
        };
        if stored_properties(&mut text, properties, most).is_none() {
            return Ok(None);
        }
        let mut json = Vec::with_capacity(2 * text.len() + 128);
        write!(
            json,
            "{sys_flag}\",\"g\":\"{born}\",\"h\":\"{flag}\",\"i\":"
        )?;
        write_json(&mut json, &text);
        json.push(b',');
        json.extend_from_slice(more.0.as_bytes());
        let numbers = format!("{sys_flag}{born}{flag}");
        let values = [numbers.as_bytes(), &text, more.1.as_bytes()].concat();
        Ok(Some((PyBytes::new(py, &json), PyBytes::new(py, &values))))
    })
}

/// The frame of a send; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (start, fields, numbers, tail, body, /))]
fn send_frame<'py>(
    py: Python<'py>,
    start: &Bound<'py, PyBytes>,
    fields: &Bound<'py, PyBytes>,
    numbers: (i32, i32),
    tail: &Bound<'py, PyBytes>,
    body: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    calm(|| {
        let Ok(body) = body.cast::<PyBytes>() else {
            return Ok(None);
        };
        let (start, fields) = (start.as_bytes(), fields.as_bytes());
        let (tail, body) = (tail.as_bytes(), body.as_bytes());
        let mut middle = [0; 48];
        let middle = write_numbers(&mut middle, numbers.0, numbers.1);
        let header = start.len() + fields.len() + middle.len() + tail.len();
        let lengths = u32::try_from(header)
            .ok()
            .filter(|header| *header < 1 << 24)
            .zip(u32::try_from(4 + header + body.len()).ok());
        let Some((packed, length)) = lengths else {
            return Ok(None);
        };
        let parts = [
            &length.to_be_bytes()[..],
            &packed.to_be_bytes(),
            start,
            fields,
            middle,
            tail,
            body,
        ];
        let total = parts.iter().map(|part| part.len()).sum();
        let frame = PyBytes::new_with(py, total, |to| {
            let mut rest = to;
            for part in parts {
                let (place, left) = rest.split_at_mut(part.len());
                place.copy_from_slice(part);
                rest = left;
            }
            Ok(())
        })?;
        Ok(Some(frame))
    })
}

/// A secret prepared for many signatures; as ``rocketmq_py.wire.signing.SigningKey``.
#[pyclass(frozen, module = "rocketmq_py_native", name = "SigningKey")]
struct Signer(SigningKey);

#[pymethods]
impl Signer {
    #[new]
    #[pyo3(signature = (secret, before, /))]
    fn new(secret: &Bound<'_, PyBytes>, before: &Bound<'_, PyBytes>) -> PyResult<Self> {
        let (secret, before) = (secret.as_bytes(), before.as_bytes());
        calm(|| Ok(Signer(SigningKey::after(secret, before))))
    }

    /// HMAC-SHA1 in base64 of the prefix, ``content`` and ``body``.
    #[pyo3(signature = (content, body, /))]
    fn sign<'py>(
        &self,
        py: Python<'py>,
        content: &Bound<'_, PyBytes>,
        body: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        calm(|| {
            let content = content.as_bytes();
            let signature = match body.cast::<PyBytes>() {
                Ok(body) => self.0.sign(content, body.as_bytes()),
                Err(_) => self
                    .0
                    .sign(content, &PyBuffer::<u8>::get(body)?.to_vec(py)?),
            };
            Ok(PyBytes::new(py, &signature))
        })
    }
}

// -- records of the log

type Gathered<'py> = (usize, usize, usize, Option<Bound<'py, PyBytes>>);

/// Copies parts of a buffer into a new object of `total` bytes, which they fill.
///
/// No reference to the bytes of the buffer is made, since other processes may write to a mapped file.
#[allow(unsafe_code)]
fn copied_parts<'py>(
    py: Python<'py>,
    buffer: &PyBuffer<u8>,
    parts: &[Range<usize>],
    total: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let from = buffer.as_slice_ptr().expect("a contiguous buffer");
    let mut filling = Filling::new(py, total)?;
    for part in parts {
        assert!(part.start <= part.end && part.end <= from.len());
        // SAFETY: the assertion keeps the part within the buffer, which stays where it is until `buffer` is dropped.
        assert!(unsafe {
            filling.add_from(from.cast::<u8>().as_ptr().add(part.start), part.len())
        });
    }
    Ok(filling.filled().expect("parts of this total"))
}

/// Copy the records of entries of a consume queue from a log file; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (buffer, base, entries, most, expected, /))]
fn gather<'py>(
    py: Python<'py>,
    buffer: &Bound<'py, PyAny>,
    base: i64,
    entries: &Bound<'py, PyBytes>,
    most: i64,
    expected: Option<(i32, i32, i64)>,
) -> PyResult<Option<Gathered<'py>>> {
    calm(|| {
        let buffer = PyBuffer::<u8>::get(buffer)?;
        if !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err("the buffer is not contiguous"));
        }
        let most = usize::try_from(most).unwrap_or(0);
        let Some(found) = Places::of(entries.as_bytes(), base, buffer.item_count(), most) else {
            return Ok(None);
        };
        let (count, span) = (found.parts.len(), found.span());
        let body = if span.len() == found.total {
            None
        } else {
            Some(copied_parts(py, &buffer, &found.parts, found.total)?)
        };
        if let Some((magic, queue_id, offset)) = expected {
            let expected = Expected {
                magic,
                queue_id,
                offset,
            };
            if !all_fit(py, &buffer, base, &found, body.as_ref(), expected)? {
                return Ok(None);
            }
        }
        Ok(Some((count, span.start, span.end, body)))
    })
}

/// Whether all records begin with the fields expected; `body` has copies of them, None if they are only in the buffer.
fn all_fit<'py>(
    py: Python<'py>,
    buffer: &PyBuffer<u8>,
    base: i64,
    found: &Places,
    body: Option<&Bound<'py, PyBytes>>,
    expected: Expected,
) -> PyResult<bool> {
    if found.parts.iter().any(|part| part.len() < HEAD) {
        return Ok(false);
    }
    let heads;
    let (bytes, in_body) = match body {
        Some(body) => (body.as_bytes(), true),
        None => {
            let parts = found.parts.iter();
            let parts: Vec<_> = parts.map(|part| part.start..part.start + HEAD).collect();
            heads = copied_parts(py, buffer, &parts, parts.len() * HEAD)?;
            (heads.as_bytes(), false)
        }
    };
    let mut at = 0;
    for (number, part) in found.parts.iter().enumerate() {
        let Some(head) = bytes[at..].first_chunk::<HEAD>() else {
            return Ok(false);
        };
        let place = i64::try_from(part.start).ok();
        let place = place.and_then(|start| base.checked_add(start));
        if !expected.fits(number, part.len(), place, head) {
            return Ok(false);
        }
        at += if in_body { part.len() } else { HEAD };
    }
    Ok(true)
}

// -- the index

/// Return keys packed; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (fields, /))]
fn pack_keys<'py>(fields: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyBytes>> {
    calm(|| {
        let mut keys = Keys::default();
        let mut items = fields.iter();
        while let Some(topic) = items.next() {
            let (Some(key), Some(physical), Some(timestamp)) =
                (items.next(), items.next(), items.next())
            else {
                return Err(PyValueError::new_err("a key has four fields"));
            };
            keys.add(
                topic.extract()?,
                key.cast::<PyBytes>()?.as_bytes(),
                physical.extract()?,
                timestamp.extract()?,
            );
        }
        Ok(PyBytes::new(fields.py(), &keys.packed))
    })
}

/// A mapped file that may be written.
struct Mapped(PyBuffer<u8>);

impl Mapped {
    fn of(buffer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(buffer)?;
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err("the file cannot be written"));
        }
        Ok(Mapped(buffer))
    }

    fn place(&self, at: usize, length: usize) -> *mut u8 {
        assert!(
            at.checked_add(length)
                .is_some_and(|end| end <= self.0.len_bytes())
        );
        self.0.buf_ptr().cast::<u8>().wrapping_add(at)
    }
}

#[allow(unsafe_code)]
impl index::File for Mapped {
    fn size(&self) -> usize {
        self.0.len_bytes()
    }

    fn read(&self, at: usize) -> [u8; 4] {
        let mut found = [0; 4];
        // SAFETY: `place` keeps the bytes within the buffer, which stays where it is until it is released.
        unsafe { ptr::copy_nonoverlapping(self.place(at, 4), found.as_mut_ptr(), 4) };
        found
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let place = self.place(at, bytes.len());
        // SAFETY: the same; `of` refuses buffers that are only read. `bytes` are no part of the file.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
    }
}

/// Add packed keys to an index file; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (file, slots, number, begin, keys, /))]
fn put_keys(
    file: &Bound<'_, PyAny>,
    slots: u32,
    number: u32,
    begin: i64,
    keys: &Bound<'_, PyBytes>,
) -> PyResult<u32> {
    calm(|| {
        index::put(
            &mut Mapped::of(file)?,
            slots,
            number,
            begin,
            keys.as_bytes(),
        )
        .ok_or_else(|| PyValueError::new_err("the keys do not fit into the file"))
    })
}

// -- files

/// Write parts of many files, without holding the GIL meanwhile; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (parts, /))]
fn write_parts(
    py: Python<'_>,
    parts: Vec<(PathBuf, u64, u64, Bound<'_, PyBytes>)>,
) -> PyResult<(usize, Option<PyErr>)> {
    calm(|| {
        let parts: Vec<Part> = parts
            .iter()
            .map(|(path, size, position, data)| Part {
                path: path.clone(),
                size: *size,
                position: *position,
                data: data.as_bytes(),
            })
            .collect();
        let (done, error) = py.detach(|| write(&parts));
        let error = error.map(|error| {
            let path = &parts[done.min(parts.len() - 1)].path;
            let (number, text) = (error.raw_os_error(), error.to_string());
            PyOSError::new_err((number.unwrap_or(0), text, path.display().to_string()))
        });
        Ok((done, error))
    })
}

// -- reads

type Found<'py> = (Vec<Bound<'py, PyAny>>, usize, usize, Option<(u32, u32)>);

/// The properties by which sends are told apart; see ``rocketmq_py.accelerator``.
#[pyclass(frozen, module = "rocketmq_py_native", name = "TellingProperties")]
struct TellingProperties(Telling);

#[pymethods]
impl TellingProperties {
    #[new]
    #[pyo3(signature = (by_value, by_presence, /))]
    fn new(by_value: Vec<String>, by_presence: Vec<String>) -> PyResult<Self> {
        calm(|| {
            let by_value = by_value.into_iter().map(|name| (name.into_bytes(), true));
            let by_presence = by_presence
                .into_iter()
                .map(|name| (name.into_bytes(), false));
            Ok(TellingProperties(Telling::of(by_value.chain(by_presence))))
        })
    }
}

/// Split bytes read from a socket into frames, with consecutive plain sends combined into runs.
///
/// :param frame: called with serialize type, header and body to build each frame.
/// :param overtaken: codes of one-way requests that come after the run of the sends around them.
/// :param telling: the properties by which sends are told apart; None for all.
/// :returns: frames and runs in order; the position after the last complete frame; the number of bytes that the frame
///     at this position needs; length and header length of that frame if it is corrupt, else None.
#[pyfunction]
#[pyo3(signature = (data, max_frame, frame, overtaken, telling, /))]
fn cut_read<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    max_frame: usize,
    frame: &Bound<'py, PyAny>,
    overtaken: Vec<i16>,
    telling: Option<&TellingProperties>,
) -> PyResult<Found<'py>> {
    calm(|| {
        let bytes = data.as_bytes();
        let overtaken: Vec<Overtaken> = overtaken.into_iter().map(Overtaken::of).collect();
        let found = cut(bytes, max_frame, &overtaken, telling.map(|one| &one.0));
        let mut items = Vec::with_capacity(found.items.len());
        for item in found.items {
            items.push(match item {
                Item::Run(run) => Bound::new(
                    py,
                    Sends {
                        data: data.clone().unbind(),
                        run,
                    },
                )?
                .into_any(),
                Item::Frame(one) => built(frame, bytes, one)?,
            });
        }
        Ok((items, found.position, found.missing, found.fault))
    })
}

/// Builds the Python object of a frame: serialize type, header and body are the arguments of `make`.
fn built<'py>(make: &Bound<'py, PyAny>, bytes: &[u8], frame: Frame) -> PyResult<Bound<'py, PyAny>> {
    let py = make.py();
    make.call1((
        frame.serialize_type,
        PyBytes::new(py, &bytes[frame.header]),
        PyBytes::new(py, &bytes[frame.body]),
    ))
}

/// Split bytes read from a socket into frames, of which plain answers are decoded; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (data, max_frame, frame, reply, /))]
fn cut_answers<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    max_frame: usize,
    frame: &Bound<'py, PyAny>,
    reply: &Bound<'py, PyAny>,
) -> PyResult<Found<'py>> {
    calm(|| {
        let bytes = data.as_bytes();
        let found = answers::cut(bytes, max_frame);
        let mut items = Vec::with_capacity(found.items.len());
        for item in found.items {
            items.push(match item {
                answers::Item::Answer(one) => {
                    let fields = one.fields.map_or(&b"{}"[..], |fields| &bytes[fields]);
                    let fields = PyBytes::new(py, fields);
                    let body = PyBytes::new(py, &bytes[one.body]);
                    let none = py.None();
                    reply.call1((
                        one.code,
                        one.opaque,
                        one.flag,
                        none,
                        fields,
                        body,
                        one.version,
                    ))?
                }
                answers::Item::Frame(one) => built(frame, bytes, one)?,
            });
        }
        Ok((items, found.position, found.missing, found.fault))
    })
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{
        Answers, Sends, Signer, TellingProperties, ack_record, check_point_record, cut_answers,
        cut_read, decode, encode_batch, encode_message, encode_messages, encode_plain, gather,
        pack_keys, plain_messages, put_keys, send_fields, send_frame, write_parts,
    };

    #[pymodule_export]
    use crate::python_grpc::{
        CallAck, CallSends, HeaderDecoder, HeaderTables, PoppedMessages, call_ack, call_sends,
    };

    #[pymodule_export]
    use crate::python_lent::SendQueues;

    #[pymodule_export]
    const FORMAT: i32 = super::FORMAT;
}
