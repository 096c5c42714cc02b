//! The Python interface of what is for calls of gRPC.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::calls::{Single, Target, read, run};
use crate::hpack::{Decoder, Fault, Huffman, Maker};
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
