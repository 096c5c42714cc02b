//! Writes parts of many files of fixed size, each of which is opened for it, created if it is missing, and closed.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Error, ErrorKind, Seek, SeekFrom, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

/// A part of a file of `size` bytes; without data the file is only created.
pub struct Part<'a> {
    pub path: PathBuf,
    pub size: u64,
    pub position: u64,
    pub data: &'a [u8],
}

impl Part<'_> {
    fn write(&self) -> Result<(), Error> {
        let mut file = opened(&self.path)?;
        if file.metadata()?.len() != self.size {
            file.set_len(self.size)?;
        }
        if !self.data.is_empty() {
            file.seek(SeekFrom::Start(self.position))?;
            file.write_all(self.data)?;
        }
        Ok(())
    }
}

/// So many parts are worth a second thread.
const MANY: usize = 64;

/// Writes the parts; returns the number of those before the first that failed, and its failure. Of the parts behind it
/// some can be written, too.
pub fn write_parts(parts: &[Part]) -> (usize, Option<Error>) {
    if parts.len() < MANY {
        return write_in_order(parts);
    }
    let (first, last) = parts.split_at(parts.len() / 2);
    thread::scope(|scope| {
        // Without a second thread this one writes all of them.
        let other = thread::Builder::new().spawn_scoped(scope, || write_in_order(last));
        let (done, error) = write_in_order(first);
        let (more, late) = match other {
            Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => write_in_order(last),
        };
        match error {
            Some(error) => (done, Some(error)),
            None => (done + more, late),
        }
    })
}

fn write_in_order(parts: &[Part]) -> (usize, Option<Error>) {
    for (number, part) in parts.iter().enumerate() {
        if let Err(error) = part.write() {
            return (number, Some(error));
        }
    }
    (parts.len(), None)
}

/// Opens a file for writing; makes it, and the folders above it, if they are missing.
fn opened(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
    match (options.open(path), path.parent()) {
        (Err(error), Some(folder)) if error.kind() == ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).create(folder)?;
            options.open(path)
        }
        (found, _) => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn part(path: PathBuf, position: u64, data: &[u8]) -> Part<'_> {
        Part {
            path,
            size: 64,
            position,
            data,
        }
    }

    #[test]
    fn parts_are_written_into_new_and_old_files() {
        let root = folder("written");
        let path = root.join("a").join("b").join("c");
        let (done, error) = write_parts(&[
            part(path.clone(), 4, b"one"),
            part(path.clone(), 60, b"last"),
            part(root.join("empty"), 0, b""),
        ]);
        assert!(error.is_none());
        assert_eq!(done, 3);
        let found = fs::read(&path).unwrap();
        assert_eq!(
            (found.len(), &found[..8], &found[60..]),
            (64, &b"\0\0\0\0one\0"[..], &b"last"[..])
        );
        assert_eq!(fs::read(root.join("empty")).unwrap(), [0; 64]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn many_parts_are_all_written() {
        let root = folder("many");
        let numbers: Vec<[u8; 4]> = (0..1001u32).map(u32::to_be_bytes).collect();
        let mut parts: Vec<Part> = Vec::new();
        for (number, data) in numbers.iter().enumerate() {
            parts.push(part(root.join(format!("{}/{number}", number % 7)), 8, data));
        }
        let (done, error) = write_parts(&parts);
        assert!(error.is_none());
        assert_eq!(done, 1001);
        for part in &parts {
            assert_eq!(&fs::read(&part.path).unwrap()[8..12], part.data);
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn of_many_parts_those_before_the_first_failure_are_written() {
        let root = folder("many-failures");
        for wrong in [0, 99, 100, 150, 199] {
            let mut parts: Vec<Part> = (0..200)
                .map(|number| part(root.join(number.to_string()), 0, b"x"))
                .collect();
            fs::create_dir_all(root.join("folder")).unwrap();
            parts[wrong].path = root.join("folder");
            parts[199].path = root.join("folder");
            let (done, error) = write_parts(&parts);
            assert_eq!((done, error.is_some()), (wrong, true));
            assert!(parts[..wrong].iter().all(|part| part.path.is_file()));
            fs::remove_dir_all(&root).unwrap();
        }
    }

    #[test]
    fn the_first_failure_ends_the_work() {
        let root = folder("failure");
        fs::create_dir_all(root.join("folder")).unwrap();
        let (done, error) = write_parts(&[
            part(root.join("x"), 0, b"1"),
            part(root.join("folder"), 0, b"2"),
            part(root.join("y"), 0, b"3"),
        ]);
        assert_eq!((done, error.is_some()), (1, true));
        assert!(!root.join("y").exists());
        fs::remove_dir_all(root).unwrap();
    }
}
