// SPDX-License-Identifier: Apache-2.0
//! A filesystem in memory that tears, shortens and fails writes on request, has disks that fill up,
//! and counts open files.

mod file;
mod gate;
mod joined;

use std::collections::{BTreeMap, HashSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

pub use rustix::io::Errno;

use super::{Access, Dir, DirAccess, Entry, File, Fs, Kind, Lock, Mounts, Open, Space};
use crate::sync::{Mutex, MutexGuard};

pub use joined::JoinedDir;

use file::{Bytes, FakeFile, FakeLock};
use gate::Gate;

/// Size of a disk without a limit.
const UNLIMITED_BYTES: u64 = 1 << 40;

/// The fault of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Only this many bytes are written, and the caller gets this number.
    Short(usize),
    /// This many bytes are written, the caller gets an error.
    Torn(usize, Errno),
}

/// The filesystem.
#[derive(Clone, Debug, Default)]
pub struct FakeFs {
    state: Arc<Mutex<State>>,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<PathBuf, Node>,
    locks: HashSet<PathBuf>,
    /// By number of the write call, counted from the beginning.
    faults: BTreeMap<u64, Fault>,
    broken: BTreeMap<PathBuf, Errno>,
    unreadable: BTreeMap<PathBuf, Errno>,
    capacities: BTreeMap<PathBuf, u64>,
    forced_mode: Option<u32>,
    writes: u64,
    open_files: usize,
    most_open_files: usize,
}

#[derive(Clone, Debug)]
enum Node {
    Directory,
    File(Content),
}

type Content = Arc<Mutex<Bytes>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeFs {
    /// An empty filesystem with these directories and their parents.
    pub fn with_dirs<P: AsRef<Path>>(dirs: impl IntoIterator<Item = P>) -> Self {
        let fs = Self::default();
        dirs.into_iter().for_each(|dir| fs.add_dir(dir.as_ref()));
        fs
    }

    /// Makes a directory and its parents.
    pub fn add_dir(&self, dir: &Path) {
        let mut state = locked(&self.state);
        for dir in dir.ancestors() {
            state.nodes.entry(dir.into()).or_insert(Node::Directory);
        }
    }

    /// Makes a file and its directories.
    pub fn add_file(&self, path: &Path, content: &[u8]) {
        if let Some(parent) = path.parent() {
            self.add_dir(parent);
        }
        let node = Node::File(Arc::new(Mutex::new(Bytes::new(content))));
        locked(&self.state).nodes.insert(path.into(), node);
    }

    /// The content of a file, if there is one.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        match locked(&self.state).nodes.get(path)? {
            Node::File(content) => Some(locked(content).bytes.clone()),
            Node::Directory => None,
        }
    }

    /// Everything below `dir`, in order.
    pub fn below(&self, dir: &Path) -> Vec<PathBuf> {
        let state = locked(&self.state);
        state
            .nodes
            .keys()
            .filter(|p| p.starts_with(dir) && *p != dir)
            .cloned()
            .collect()
    }

    /// Removes `dir` and everything below, as if by hand.
    pub fn wipe(&self, dir: &Path) {
        locked(&self.state)
            .nodes
            .retain(|path, _| !path.starts_with(dir));
    }

    /// Lets the `nth` write call from now go wrong; 0 is the next.
    pub fn fault_at(&self, nth: u64, fault: Fault) {
        let mut state = locked(&self.state);
        let number = state.writes + nth;
        state.faults.insert(number, fault);
    }

    /// Takes back what [`FakeFs::fault_at`] announced.
    pub fn forget_faults(&self) {
        locked(&self.state).faults.clear();
    }

    /// Makes everything fail that changes something below `dir`, until [`FakeFs::mend`].
    pub fn break_dir(&self, dir: &Path, error: Errno) {
        locked(&self.state).broken.insert(dir.into(), error);
    }

    /// Lets a file not be opened for reading, or looked at, until [`FakeFs::mend`].
    pub fn break_reads(&self, file: &Path, error: Errno) {
        locked(&self.state).unreadable.insert(file.into(), error);
    }

    /// Ends what [`FakeFs::break_dir`] or [`FakeFs::break_reads`] began.
    pub fn mend(&self, path: &Path) {
        let mut state = locked(&self.state);
        state.broken.remove(path);
        state.unreadable.remove(path);
    }

    /// Gives the disk at `dir` a size.
    pub fn set_capacity(&self, dir: &Path, bytes: u64) {
        locked(&self.state).capacities.insert(dir.into(), bytes);
    }

    /// Gives all directories this mode, as a mount option may.
    pub fn force_mode(&self, mode: u32) {
        locked(&self.state).forced_mode = Some(mode);
    }

    /// Releases all locks, as the end of a process does.
    pub fn crash(&self) {
        locked(&self.state).locks.clear();
    }

    /// Write calls so far.
    pub fn writes(&self) -> u64 {
        locked(&self.state).writes
    }

    /// Files open now, and the most that ever were.
    pub fn open_files(&self) -> (usize, usize) {
        let state = locked(&self.state);
        (state.open_files, state.most_open_files)
    }
}

impl State {
    fn check(&self, path: &Path) -> io::Result<()> {
        let broken = self.broken.iter().find(|(dir, _)| path.starts_with(dir));
        broken.map_or(Ok(()), |(_, error)| Err((*error).into()))
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        match self.nodes.get(path).ok_or(ErrorKind::NotFound)? {
            Node::Directory => Ok(Kind::Directory),
            Node::File(_) => Ok(Kind::File),
        }
    }

    fn parent_is_there(&self, path: &Path) -> io::Result<()> {
        match path.parent().map(|parent| self.kind(parent)) {
            Some(Ok(Kind::Directory)) => Ok(()),
            Some(Ok(_)) => Err(ErrorKind::NotADirectory.into()),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Returns the size of the disk of a path, and the used part of it.
    fn usage(&self, path: &Path) -> (u64, u64) {
        let disk = self
            .capacities
            .iter()
            .find(|(dir, _)| path.starts_with(dir));
        let Some((dir, capacity)) = disk else {
            return (UNLIMITED_BYTES, 0);
        };
        let files = self.nodes.iter().filter(|(path, _)| path.starts_with(dir));
        let used = files.map(|(_, node)| match node {
            Node::Directory => 0,
            Node::File(content) => {
                let content = locked(content);
                content.bytes.len() as u64 - content.punched
            }
        });
        (*capacity, used.sum())
    }
}

impl Fs for FakeFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.gate.pass_by(path);
        let mut state = locked(&self.state);
        match state.unreadable.get(path) {
            Some(error) if how == Open::Read => return Err((*error).into()),
            _ if how != Open::Read => state.check(path)?,
            _ => {}
        }
        let content = match (state.nodes.get(path), how) {
            (Some(Node::Directory), _) => return Err(ErrorKind::IsADirectory.into()),
            (Some(Node::File(content)), _) => {
                if how == Open::Create {
                    locked(content).empty();
                }
                Arc::clone(content)
            }
            (None, Open::Create) => {
                state.parent_is_there(path)?;
                let content = Arc::new(Mutex::new(Bytes::new(&[])));
                state
                    .nodes
                    .insert(path.into(), Node::File(Arc::clone(&content)));
                content
            }
            (None, Open::Read | Open::Write) => return Err(ErrorKind::NotFound.into()),
        };
        state.open_files += 1;
        state.most_open_files = state.most_open_files.max(state.open_files);
        let writable = how != Open::Read;
        Ok(Arc::new(FakeFile {
            fs: self.clone(),
            path: path.into(),
            content,
            writable,
        }))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Dir>> {
        match self.kind(path)? {
            Kind::Directory => Ok(Arc::new(JoinedDir::new(self.clone(), path))),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn create_dir(&self, path: &Path, _access: Access) -> io::Result<()> {
        self.gate.pass_by(path);
        let mut state = locked(&self.state);
        state.check(path)?;
        state.parent_is_there(path)?;
        if state.nodes.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        state.nodes.insert(path.into(), Node::Directory);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.gate.pass_by(path);
        let mut state = locked(&self.state);
        state.check(path)?;
        match state.kind(path)? {
            Kind::Directory => Err(ErrorKind::IsADirectory.into()),
            Kind::File | Kind::Other => {
                state.nodes.remove(path);
                Ok(())
            }
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = locked(&self.state);
        state.check(path)?;
        match state.kind(path)? {
            Kind::Directory if state.nodes.keys().any(|p| p.parent() == Some(path)) => {
                Err(ErrorKind::DirectoryNotEmpty.into())
            }
            Kind::Directory => {
                state.nodes.remove(path);
                Ok(())
            }
            Kind::File | Kind::Other => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.gate.pass_by(path);
        let state = locked(&self.state);
        if state.kind(path)? != Kind::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        let children = state
            .nodes
            .iter()
            .filter(|(child, _)| child.parent() == Some(path));
        let entry = |(child, node): (&PathBuf, &Node)| {
            let kind = if matches!(node, Node::Directory) {
                Kind::Directory
            } else {
                Kind::File
            };
            child.file_name().map(|name| Entry {
                name: name.into(),
                kind,
            })
        };
        Ok(children.filter_map(entry).collect())
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        self.gate.pass_by(path);
        let state = locked(&self.state);
        match state.unreadable.get(path) {
            Some(error) => Err((*error).into()),
            None => state.kind(path),
        }
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.kind(path).map(|_| path.into())
    }

    fn dir_access(&self, path: &Path) -> io::Result<DirAccess> {
        Ok(DirAccess {
            is_own: self.kind(path)? == Kind::Directory,
            mode: locked(&self.state).forced_mode.unwrap_or(0o700),
        })
    }

    /// Each directory of the root is a disk.
    fn mounts(&self) -> Mounts {
        let state = locked(&self.state);
        let roots = state
            .nodes
            .keys()
            .filter(|path| path.components().count() == 2);
        let number = |path: &Path| {
            let bytes = path.as_os_str().as_encoded_bytes().iter();
            bytes.fold(0, |sum: u64, byte| {
                sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
            })
        };
        Mounts::new(roots.map(|path| (path.clone(), number(path))))
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.gate.pass_by(path);
        let (capacity, used) = locked(&self.state).usage(path);
        Ok(Space {
            free: capacity.saturating_sub(used),
            total: capacity,
        })
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        if self.kind(path).is_err() {
            self.open(path, Open::Create)?;
        }
        let fresh = locked(&self.state).locks.insert(path.into());
        Ok(fresh.then(|| {
            Box::new(FakeLock {
                fs: self.clone(),
                path: path.into(),
            }) as Box<_>
        }))
    }
}
