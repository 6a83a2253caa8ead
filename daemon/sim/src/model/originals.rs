// SPDX-License-Identifier: Apache-2.0
//! Blocks of executors: the files that they wrote, and the bytes that readers of a block must get.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use lodestone_model::Code;
use lodestone_server::handler::Answer;
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::originals::{FetchShuffleBlocks, OpenBlocks};

use super::refusal::{Judged, agree, breach};
use super::{Chunk, Model, Source, Stream, decoded};
use crate::client::{Deed, path_of};

/// Bytes of one offset in an index file.
const OFFSET_BYTES: usize = 8;

/// A block of an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Partitions of a map output.
    Output {
        shuffle: i64,
        map: i64,
        reduces: Range<u32>,
    },
    /// A persisted block.
    Rdd { rdd: i64, split: i64 },
}

/// What a reader may get in place of a block of an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Original {
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// A refusal.
    Refused(Code),
}

/// The files of executors.
#[derive(Debug, Default)]
pub(super) struct Files {
    by_path: BTreeMap<PathBuf, Vec<u8>>,
    /// By index file: what it contained before, since the data file took its name. The daemon may
    /// have kept it.
    former: BTreeMap<PathBuf, BTreeSet<Vec<u8>>>,
    /// Files that a removal names which the daemon began.
    pub(super) removing: BTreeSet<PathBuf>,
    /// Directories that are gone.
    gone: BTreeSet<String>,
}

impl Files {
    /// Returns true if none of these directories exists.
    pub(super) fn are_gone(&self, dirs: &[String]) -> bool {
        dirs.iter().all(|dir| self.gone.contains(dir))
    }

    fn write(&mut self, deed: Deed) {
        let is_made = |dir: &String| deed.written().any(|(path, _)| path.starts_with(dir));
        self.gone.retain(|dir| !is_made(dir));
        match deed {
            Deed::Make(dirs) => dirs.iter().for_each(|dir| {
                self.gone.remove(dir);
            }),
            Deed::Rdd(path, bytes) => {
                self.by_path.insert(path, bytes);
            }
            Deed::Output {
                index,
                data,
                offsets,
                blocks,
            } => {
                if let Some(offsets) = offsets {
                    let before = self.by_path.insert(index.clone(), offsets);
                    self.former.entry(index.clone()).or_default().extend(before);
                }
                if let Some(blocks) = blocks {
                    self.by_path.insert(data, blocks);
                    self.former.remove(&index);
                }
            }
        }
    }

    /// A directory is gone, with all that was in it.
    fn vanish(&mut self, dir: &str) {
        self.gone.insert(dir.to_owned());
        self.keep(|path| !path.starts_with(dir));
    }

    /// Forgets the files that are not kept. What they contained, the daemon may still know.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&Path) -> bool) {
        let removed: Vec<_> = self
            .by_path
            .extract_if(.., |path, _| !is_kept(path))
            .collect();
        for (path, bytes) in removed {
            self.former.entry(path).or_default().insert(bytes);
        }
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.by_path.contains_key(path)
    }

    /// Returns what a block may be if it is in these directories.
    fn block(&self, dirs: &[String], block: &Block) -> Vec<Original> {
        let missing = Original::Refused(Code::UnknownPartition);
        match block {
            Block::Rdd { rdd, split } => {
                let path = path_of(dirs, &format!("rdd_{rdd}_{split}"));
                let bytes = self.by_path.get(&path).cloned();
                vec![bytes.map_or(missing, Original::Bytes)]
            }
            Block::Output {
                shuffle,
                map,
                reduces,
            } => {
                let path = |end| path_of(dirs, &format!("shuffle_{shuffle}_{map}_0.{end}"));
                let Some(data) = self.by_path.get(&path("data")) else {
                    return vec![missing];
                };
                let index = path("index");
                let cut = |offsets: &Vec<u8>| cut(data, offsets, reduces);
                let now = self.by_path.get(&index).map_or(missing, cut);
                let former = self.former.get(&index).into_iter().flatten();
                // The daemon keeps no offsets in which it found no partition. It may keep others
                // that end too early, or beyond the data file.
                let former = former.filter(|offsets| offsets.len() >= 2 * OFFSET_BYTES);
                former.map(cut).chain([now]).collect()
            }
        }
    }
}

/// The bytes of some partitions, by the offsets of an index file.
fn cut(data: &[u8], offsets: &[u8], reduces: &Range<u32>) -> Original {
    let (offsets, _) = offsets.as_chunks();
    let at = |reduce: u32| {
        let offset = offsets.get(reduce as usize)?;
        usize::try_from(u64::from_be_bytes(*offset)).ok()
    };
    let range = at(reduces.start).zip(at(reduces.end));
    let bytes = range.and_then(|(start, end)| data.get(start..end));
    match bytes {
        Some(bytes) => Original::Bytes(bytes.to_vec()),
        None => Original::Refused(Code::DiskFailed),
    }
}

impl Model {
    /// An executor did this.
    pub fn executor_did(&mut self, deed: Deed) {
        self.files.write(deed);
    }

    /// A directory of executors vanished.
    pub fn vanish(&mut self, dir: &str) {
        self.files.vanish(dir);
    }

    /// Files that are on the disks of executors must be those that they wrote there.
    pub fn check_files(&self, found: &BTreeMap<PathBuf, Vec<u8>>) -> Judged {
        for path in self.files.by_path.keys() {
            if !found.contains_key(path) {
                return breach(format!("{} of an executor is missing", path.display()));
            }
        }
        match found == &self.files.by_path {
            true => Ok(()),
            false => breach("files of executors are not as these wrote them"),
        }
    }

    pub(super) fn open_blocks(
        &mut self,
        connection: u64,
        request: &[u8],
        answer: &Answer,
    ) -> Judged {
        let request: OpenBlocks = decoded(request)?;
        let blocks = request.block_ids.iter().map(|name| named(name));
        let blocks = blocks.collect::<Option<Vec<_>>>();
        let exec = (request.app.as_str(), request.exec_id.as_str());
        self.open_originals(connection, exec, blocks, answer)
    }

    pub(super) fn fetch_blocks(
        &mut self,
        connection: u64,
        request: &[u8],
        answer: &Answer,
    ) -> Judged {
        let request: FetchShuffleBlocks = decoded(request)?;
        let mut blocks = Some(Vec::new());
        for (map, reduces) in &request.blocks {
            let block = |reduces: Range<u32>| Block::Output {
                shuffle: request.shuffle_id.0.into(),
                map: map.0,
                reduces,
            };
            match (request.batch, reduces.as_slice()) {
                (false, each) => {
                    let each = each.iter().map(|reduce| block(reduce.0..reduce.0 + 1));
                    blocks.iter_mut().for_each(|all| all.extend(each.clone()));
                }
                (true, [start, end]) => {
                    let batch = block(start.0..end.0);
                    blocks.iter_mut().for_each(|all| all.push(batch.clone()));
                }
                (true, _) => blocks = None,
            }
        }
        let exec = (request.app.as_str(), request.exec_id.as_str());
        self.open_originals(connection, exec, blocks, answer)
    }

    /// `blocks`: nothing if the request is malformed.
    fn open_originals(
        &mut self,
        connection: u64,
        (app, exec): (&str, &str),
        blocks: Option<Vec<Block>>,
        answer: &Answer,
    ) -> Judged {
        let known = self.executors.of(app, exec);
        let Answer::Response(bytes) = answer else {
            agree("answer", &matches!(answer, Answer::Failure(_)), &true)?;
            // The refusal of a malformed request says nothing of the executor.
            return match blocks.is_none() || known.narrow(Option::is_none) {
                true => Ok(()),
                false => breach(format!("executor {exec} must be known")),
            };
        };
        let Some(blocks) = blocks else {
            return breach("a malformed request was not refused");
        };
        if !known.narrow(Option::is_some) {
            return breach(format!("executor {exec} must not be known"));
        }
        let handle: StreamHandle = decoded(bytes)?;
        agree("chunks", &(handle.num_chunks as usize), &blocks.len())?;
        let fresh = self.stream_ids.insert(handle.stream_id);
        agree("a stream id that no stream had", &fresh, &true)?;
        if !blocks.is_empty() {
            let (app, exec) = (app.to_owned(), exec.to_owned());
            let stream = Stream {
                source: Source::Originals { app, exec, blocks },
                next: 0,
            };
            self.streams.insert((connection, handle.stream_id), stream);
        }
        Ok(())
    }

    /// Returns what a block of an executor must be.
    pub(super) fn original(&mut self, (app, exec): (&str, &str), block: &Block) -> Chunk {
        if let Block::Output { reduces, .. } = block
            && reduces.is_empty()
        {
            return Chunk::Original(vec![Original::Refused(Code::Malformed)]);
        }
        let mut possible = Vec::new();
        for dirs in &self.executors.of(app, exec).now {
            match dirs {
                Some(dirs) => possible.append(&mut self.files.block(dirs, block)),
                None => {
                    possible.push(Original::Refused(Code::UnknownApplication));
                }
            }
        }
        Chunk::Original(possible)
    }
}

/// `shuffle_S_M_R` or `rdd_R_P`.
fn named(name: &str) -> Option<Block> {
    let (kind, numbers) = name.split_once('_')?;
    let numbers = numbers.split('_').map(|number| number.parse().ok());
    let numbers: Vec<i64> = numbers.collect::<Option<_>>()?;
    match (kind, numbers.as_slice()) {
        ("rdd", &[rdd, split]) => Some(Block::Rdd { rdd, split }),
        ("shuffle", &[shuffle, map, reduce]) => {
            let reduce = u32::try_from(reduce).ok()?;
            Some(Block::Output {
                shuffle,
                map,
                reduces: reduce..reduce + 1,
            })
        }
        _ => None,
    }
}
