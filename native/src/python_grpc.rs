//! The Python interface of what is for calls of gRPC.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::acks::{self, Entry};
use crate::calls::{Single, Target, read, run};
use crate::hpack::{Decoder, Fault, Huffman, Maker};
use crate::popped::{Names, Pop, response};
use crate::python::{Sends, calm};

// -- header blocks

struct Tuples<'py>(Python<'py>);

impl Maker for Tuples<'_> {
    type Header = PyResult<Py<PyTuple>>;

    fn make(&self, name: &[u8], value: &[u8]) -> Self::Header {
        let pair = [PyBytes::new(self.0, name), PyBytes::new(self.0, value)];
        Ok(PyTuple::new(self.0, pair)?.unbind())
    }

    fn again(&self, header: &Self::Header) -> Self::Header {
        match header {
            Ok(tuple) => Ok(tuple.clone_ref(self.0)),
            Err(error) => Err(error.clone_ref(self.0)),
        }
    }
}

/// What all decoders of header blocks know; see ``rocketmq_py.accelerator``.
#[pyclass(frozen, module = "rocketmq_py_native", name = "HeaderTables")]
pub(crate) struct HeaderTables {
    known: Vec<(Vec<u8>, Vec<u8>)>,
    huffman: Arc<Huffman>,
    table_size: usize,
}

#[pymethods]
impl HeaderTables {
    #[new]
    #[pyo3(signature = (known, lengths, table_size, /))]
    fn new(
        known: Vec<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>,
        lengths: Vec<u32>,
        table_size: usize,
    ) -> PyResult<Self> {
        calm(|| {
            let huffman = Huffman::new(&lengths)
                .ok_or_else(|| PyValueError::new_err("these are no lengths of a code"))?;
            Ok(HeaderTables {
                known: known
                    .iter()
                    .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                    .collect(),
                huffman: Arc::new(huffman),
                table_size,
            })
        })
    }

    /// Return a decoder for a new connection.
    #[pyo3(signature = (max_list, /))]
    fn decoder(&self, py: Python<'_>, max_list: usize) -> PyResult<HeaderDecoder> {
        calm(|| {
            let decoder = Decoder::new(&Tuples(py), &self.known, self.table_size, max_list);
            Ok(HeaderDecoder {
                decoder,
                huffman: Arc::clone(&self.huffman),
            })
        })
    }
}

/// Decodes the header blocks of one connection.
#[pyclass(module = "rocketmq_py_native", name = "HeaderDecoder")]
pub(crate) struct HeaderDecoder {
    decoder: Decoder<PyResult<Py<PyTuple>>>,
    huffman: Arc<Huffman>,
}

#[pymethods]
impl HeaderDecoder {
    /// Return the headers of a block, the size of a list that is too large, or None if the block is malformed.
    #[pyo3(signature = (block, /))]
    fn decode<'py>(
        &mut self,
        py: Python<'py>,
        block: &Bound<'py, PyBytes>,
    ) -> PyResult<Bound<'py, PyAny>> {
        calm(|| {
            let found = self
                .decoder
                .decode(&Tuples(py), &self.huffman, block.as_bytes());
            match found {
                Ok(headers) => {
                    let headers = headers.into_iter().collect::<PyResult<Vec<_>>>()?;
                    Ok(PyList::new(py, headers)?.into_any())
                }
                Err(Fault::TooLarge(size)) => Ok(size.into_pyobject(py)?.into_any()),
                Err(Fault::Malformed) => Ok(py.None().into_bound(py)),
            }
        })
    }
}

// -- sends

/// Sends of one read by gRPC; see ``CallSends`` in ``rocketmq_py.accelerator``.
#[pyclass(frozen, module = "rocketmq_py_native")]
pub(crate) struct CallSends {
    requests: Vec<Py<PyBytes>>,
    singles: Vec<Option<(Single, usize)>>,
    kinds: Vec<Vec<u8>>,
}

type Texts<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);
type CallTarget<'py> = (Bound<'py, PyBytes>, i32, Texts<'py>, i32, i32);

#[pymethods]
impl CallSends {
    /// Return the number of the kind of each request; None for requests that are not plain.
    fn kinds_of(&self) -> Vec<Option<usize>> {
        self.singles
            .iter()
            .map(|single| single.as_ref().map(|(_, kind)| *kind))
            .collect()
    }

    /// Return the distinct kinds of the requests.
    fn kinds<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.kinds
            .iter()
            .map(|kind| PyBytes::new(py, kind))
            .collect()
    }

    /// Return some of the requests as a run; see ``rocketmq_py.accelerator``.
    #[pyo3(signature = (numbers, targets, turn, /))]
    fn run(
        &self,
        py: Python<'_>,
        numbers: Vec<usize>,
        targets: Vec<Option<CallTarget<'_>>>,
        turn: i64,
    ) -> PyResult<Sends> {
        calm(|| {
            let mut places = vec![None; self.kinds.len()];
            let mut found = Vec::new();
            for (kind, target) in targets.iter().enumerate().take(places.len()) {
                let Some((topic, sys_flag, (before, middle, after), queue_id, queues)) = target
                else {
                    continue;
                };
                places[kind] = Some(found.len());
                found.push(Target {
                    topic: topic.as_bytes().to_vec(),
                    sys_flag: *sys_flag,
                    parts: [before, middle, after].map(|part| part.as_bytes().to_vec()),
                    queue_id: *queue_id,
                    queues: *queues,
                });
            }
            let mut singles = Vec::with_capacity(numbers.len());
            for number in numbers {
                let chosen = self.singles.get(number).and_then(Option::as_ref);
                let chosen = chosen
                    .and_then(|(single, kind)| places[*kind].map(|place| (single, place)))
                    .ok_or_else(|| PyValueError::new_err("this request has no target"))?;
                let request = self.requests[number].bind(py).as_bytes();
                singles.push((chosen.0, request, chosen.1));
            }
            let (run, data) = run(&singles, &found, turn);
            Ok(Sends::of(PyBytes::new(py, &data), run))
        })
    }
}

/// Read requests of gRPC that send one message each; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (requests, most, /))]
pub(crate) fn call_sends(requests: Vec<Bound<'_, PyBytes>>, most: usize) -> PyResult<CallSends> {
    calm(|| {
        let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
        let (mut kinds, mut kind) = (Vec::new(), Vec::new());
        let mut singles = Vec::with_capacity(requests.len());
        for request in &requests {
            kind.clear();
            let single = read(request.as_bytes(), most, &mut kind);
            singles.push(single.map(|single| {
                let number = known.get(&kind).copied().unwrap_or_else(|| {
                    kinds.push(kind.clone());
                    known.insert(kind.clone(), kinds.len() - 1);
                    kinds.len() - 1
                });
                (single, number)
            }));
        }
        Ok(CallSends {
            requests: requests.into_iter().map(Bound::unbind).collect(),
            singles,
            kinds,
        })
    })
}

// -- popped messages

/// Encodes popped messages; see ``rocketmq_py.accelerator``.
#[pyclass(frozen, module = "rocketmq_py_native", name = "PoppedMessages")]
pub(crate) struct PoppedMessages {
    names: Names,
}

type PopParts<'py> = (
    Bound<'py, PyBytes>,
    Vec<(u32, i64)>,
    Bound<'py, PyBytes>,
    u64,
);
type PlaceParts = (String, i64, u32, i64, u64);
type Responses<'py> = (Vec<Bound<'py, PyBytes>>, usize, Vec<PlaceParts>);

#[pymethods]
impl PoppedMessages {
    #[new]
    #[pyo3(signature = (names, /))]
    fn new(names: Vec<(Bound<'_, PyBytes>, i32)>) -> PyResult<Self> {
        calm(|| {
            let names = names
                .iter()
                .map(|(name, field)| (name.as_bytes().to_vec(), *field));
            let names = Names::of(names)
                .ok_or_else(|| PyValueError::new_err("a property has no such field"))?;
            Ok(PoppedMessages { names })
        })
    }

    /// Return the responses with the plain records from a position on; see ``rocketmq_py.accelerator``.
    #[pyo3(signature = (body, begin, pop, tags, most_attempts, places, /))]
    #[allow(clippy::too_many_arguments)]
    fn responses<'py>(
        &self,
        py: Python<'py>,
        body: &Bound<'py, PyBytes>,
        begin: usize,
        pop: PopParts<'py>,
        tags: Option<Vec<Bound<'py, PyBytes>>>,
        most_attempts: u32,
        places: bool,
    ) -> PyResult<Responses<'py>> {
        calm(|| {
            let (topic, starts, middle, invisible_ms) = &pop;
            let pop = Pop {
                topic: topic.as_bytes(),
                starts: starts.clone(),
                middle: middle.as_bytes(),
                invisible_ms: *invisible_ms,
                tags: tags
                    .as_ref()
                    .map(|tags| tags.iter().map(|tag| tag.as_bytes()).collect()),
                most_attempts,
            };
            let (mut found, mut told, mut position) = (Vec::new(), Vec::new(), begin);
            let body = body.as_bytes();
            while let Some((encoded, place, size)) = body
                .get(position..)
                .and_then(|left| response(left, &self.names, &pop))
            {
                position += size;
                found.push(PyBytes::new(py, &encoded));
                if places {
                    told.push((
                        place.handle,
                        place.start,
                        place.queue_id,
                        place.queue_offset,
                        place.physical_offset,
                    ));
                }
            }
            Ok((found, position, told))
        })
    }
}

// -- acknowledgements

/// A plain acknowledgement; see ``CallAck`` in ``rocketmq_py.accelerator``.
#[pyclass(frozen, module = "rocketmq_py_native")]
pub(crate) struct CallAck {
    request: Py<PyBytes>,
    entries: Vec<Entry>,
    /// Name of the group.
    #[pyo3(get)]
    group: String,
    /// Name of the topic.
    #[pyo3(get)]
    topic: String,
    #[pyo3(get)]
    pops: Py<PyList>,
}

#[pymethods]
impl CallAck {
    /// Return the texts of the handles.
    fn handles(&self, py: Python<'_>) -> Vec<String> {
        let request = self.request.bind(py).as_bytes();
        self.entries
            .iter()
            .map(|entry| String::from_utf8_lossy(&request[entry.handle.clone()]).into_owned())
            .collect()
    }

    /// Return the answer; see ``rocketmq_py.accelerator``.
    #[pyo3(signature = (status, statuses, /))]
    fn answer<'py>(
        &self,
        py: Python<'py>,
        status: &Bound<'py, PyBytes>,
        statuses: Option<Vec<Bound<'py, PyBytes>>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        calm(|| {
            let request = self.request.bind(py).as_bytes();
            let status = status.as_bytes();
            let answer = match &statuses {
                None => {
                    let alike = std::iter::repeat(status);
                    acks::answer(request, &self.entries, status, alike)
                }
                Some(statuses) if statuses.len() == self.entries.len() => {
                    let each = statuses.iter().map(|status| status.as_bytes());
                    acks::answer(request, &self.entries, status, each)
                }
                Some(_) => return Err(PyValueError::new_err("one status for each entry")),
            };
            Ok(PyBytes::new(py, &answer))
        })
    }
}

/// Read a request of gRPC that acknowledges messages; see ``rocketmq_py.accelerator``.
#[pyfunction]
#[pyo3(signature = (request, most_distance, orderly, /))]
pub(crate) fn call_ack(
    request: Bound<'_, PyBytes>,
    most_distance: i64,
    orderly: i64,
) -> PyResult<Option<CallAck>> {
    calm(|| {
        let py = request.py();
        let Some(ack) = acks::read(
            request.as_bytes(),
            acks::Usual {
                most_distance,
                orderly,
            },
        ) else {
            return Ok(None);
        };
        let mut numbers = vec![(Vec::new(), Vec::new()); ack.pops.len()];
        for (number, entry) in ack.entries.iter().enumerate() {
            numbers[entry.pop].0.push(entry.offset);
            numbers[entry.pop].1.push(number);
        }
        let pops = PyList::empty(py);
        for (pop, (offsets, numbers)) in ack.pops.iter().zip(numbers) {
            let parts = (
                pop.start,
                pop.pop_time,
                pop.invisible_ms,
                pop.revive_queue,
                pop.retry,
                pop.broker,
                pop.queue_id,
            );
            pops.append((parts, offsets, numbers))?;
        }
        let (group, topic) = (ack.group.to_owned(), ack.topic.to_owned());
        Ok(Some(CallAck {
            entries: ack.entries,
            group,
            topic,
            pops: pops.unbind(),
            request: request.unbind(),
        }))
    })
}
