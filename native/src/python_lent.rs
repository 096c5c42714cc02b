//! The Python interface of queues that are lent.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::append::{Common, Hosts, Plan};
use crate::lent::{Arrival, Lent};
use crate::python::{Answers, HOSTS, Sends, calm, packed, text};

/// Queues that runs of sends are appended to by the accelerator alone; see ``rocketmq_py.accelerator``.
#[pyclass(module = "rocketmq_py_native")]
pub(crate) struct SendQueues {
    lent: Lent,
}

type Counted = (String, i64, i64, i64);

fn known<T>(found: Option<T>) -> PyResult<T> {
    found.ok_or_else(|| PyValueError::new_err("there is no such place"))
}

#[pymethods]
impl SendQueues {
    #[new]
    fn new() -> Self {
        SendQueues {
            lent: Lent::default(),
        }
    }

    #[pyo3(signature = (queue_id, magic, topic_part, key_hash, /))]
    fn add(
        &mut self,
        queue_id: i32,
        magic: i32,
        topic_part: &[u8],
        key_hash: i64,
    ) -> PyResult<usize> {
        calm(|| Ok(self.lent.add(queue_id, magic, topic_part, key_hash)))
    }

    #[pyo3(signature = (place, next_offset, /))]
    fn lend(&mut self, place: usize, next_offset: i64) -> PyResult<()> {
        calm(|| known(self.lent.lend(place, next_offset)))
    }

    #[pyo3(signature = (place, /))]
    fn bring<'py>(&mut self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyBytes>> {
        calm(|| Ok(PyBytes::new(py, &known(self.lent.bring(place))?)))
    }

    #[pyo3(signature = (place, /))]
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        place: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyList>)> {
        calm(|| {
            let (readable, pending) = known(self.lent.take(place))?;
            Ok((PyBytes::new(py, &readable), PyList::new(py, pending)?))
        })
    }

    #[pyo3(signature = (place, /))]
    fn retire(&mut self, place: usize) -> PyResult<()> {
        calm(|| known(self.lent.retire(place)))
    }

    #[pyo3(signature = (run, number, place, sys_flag, tags_code, /))]
    fn learn(
        &mut self,
        run: &Bound<'_, Sends>,
        number: usize,
        place: usize,
        sys_flag: i32,
        tags_code: i64,
    ) -> PyResult<()> {
        calm(|| {
            let kind = known(run.get().run.kinds.get(number))?;
            known(self.lent.learn(kind, place, sys_flag, tags_code))
        })
    }

    fn forget(&mut self) {
        self.lent.forget();
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (run, begin, hosts, suffix, place, limits, /))]
    fn append<'py>(
        &mut self,
        run: &Bound<'py, Sends>,
        begin: usize,
        hosts: (Bound<'py, PyBytes>, Bound<'py, PyBytes>),
        suffix: &Bound<'py, PyBytes>,
        place: (i64, i64, usize),
        limits: (usize, usize),
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        calm(|| {
            let py = run.py();
            let Sends { data, run: sends } = run.get();
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
            let mut resolved = match self.lent.resolve(sends, begin) {
                Ok(resolved) => resolved,
                Err(missing) => return Ok(Some(PyList::new(py, missing)?.into_any())),
            };
            let mut queues = self.lent.queues(&mut resolved);
            let plan = Plan::of(sends, begin, &resolved.targets, &mut queues, &common);
            let Some(last) = plan.records.last() else {
                return Ok(None);
            };
            let stop = last.send + 1;
            let chunk = PyBytes::new_with(py, plan.total, |to| {
                plan.write(data, sends, &resolved.targets, &queues, &common, to);
                Ok(())
            })?;
            let hashes = self.lent.key_hashes(&resolved);
            let keys = packed(py, sends, &plan, &hashes, common.now);
            let answers = Bound::new(py, Answers::of(run, sends, &plan, &resolved.targets))?;
            let found = (stop, chunk, keys, answers).into_pyobject(py)?.into_any();
            self.lent.take_in(&plan, &resolved);
            Ok(Some(found))
        })
    }

    #[pyo3(signature = (tells, /))]
    fn commit<'py>(&mut self, py: Python<'py>, tells: bool) -> PyResult<Bound<'py, PyTuple>> {
        calm(|| {
            let found = self.lent.commit(tells);
            let arrivals: Vec<Arrival> = found.arrivals;
            (found.messages, found.long, arrivals).into_pyobject(py)
        })
    }

    fn counted(&mut self) -> PyResult<(i64, Vec<Counted>)> {
        calm(|| {
            let (turns, found) = self.lent.counted();
            let named = found
                .into_iter()
                .map(|(topic, messages, bytes, times)| {
                    Ok((text(&topic)?.to_owned(), messages, bytes, times))
                })
                .collect::<PyResult<_>>()?;
            Ok((turns, named))
        })
    }
}
