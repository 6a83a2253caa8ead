// SPDX-License-Identifier: Apache-2.0
//! Executors of an application for which the daemon is the external shuffle service: they register,
//! now and then with other directories, write map outputs and persisted blocks, read each other's,
//! and Spark removes some of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lodestone_model::{AppId, MapId, ReduceId, ShuffleId};
use lodestone_wire::Message;
use lodestone_wire::spark::originals::{FetchShuffleBlocks, OpenBlocks};
use lodestone_wire::spark::register::{GetLocalDirsForExecutors, RegisterExecutor};
use lodestone_wire::spark::remove::RemoveBlocks;

use super::{Asked, Clients};
use crate::dice::Dice;
use crate::network::{Network, Packet};

/// The application whose executors register. No simulated driver belongs to it, so it has no lease.
pub const EXECUTOR_APP: &str = "app-20261121-0002";
const EXECUTORS: usize = 3;

/// The disks of executors. The daemon has no directory there.
pub const EXECUTOR_DISKS: [&str; 2] = ["/local0", "/local1"];

/// Every directory that an executor may have.
pub const EXECUTOR_DIRS: [&str; 3] = [
    "/local0/blockmgr-a",
    "/local1/blockmgr-b",
    "/local0/blockmgr-c",
];

/// Subdirectories in each, over which files are spread.
const SUB_DIRS: u32 = 64;

/// Shuffles, the map attempts of each on one executor, and persisted blocks of each.
const SHUFFLES: usize = 2;
const MAPS: usize = 2;
const RDD_BLOCKS: usize = 2;

/// Files that are written together at most.
const FILES: usize = 3;

/// The bytes of one block: some have none.
const BLOCK_BYTES: usize = 400;

/// What an executor does in its directories.
#[derive(Debug)]
pub enum Deed {
    /// These directories exist from now on.
    Make(Vec<String>),
    /// A map output: its index file, and its data file. One of them may come later.
    Output {
        /// The index file.
        index: PathBuf,
        /// The data file.
        data: PathBuf,
        /// Offsets, if the index file is renamed to its name now.
        offsets: Option<Vec<u8>>,
        /// Blocks, if the data file is.
        blocks: Option<Vec<u8>>,
    },
    /// A persisted block.
    Rdd(PathBuf, Vec<u8>),
}

impl Deed {
    /// The files that get their names now, and their bytes.
    pub fn written(&self) -> impl Iterator<Item = (&PathBuf, &Vec<u8>)> {
        let files = match self {
            Self::Make(_) => [None, None],
            Self::Output {
                index,
                data,
                offsets,
                blocks,
            } => [
                offsets.as_ref().map(|offsets| (index, offsets)),
                blocks.as_ref().map(|blocks| (data, blocks)),
            ],
            Self::Rdd(path, bytes) => [Some((path, bytes)), None],
        };
        files.into_iter().flatten()
    }
}

/// The executors, as they know themselves.
#[derive(Debug, Default)]
pub(super) struct Executors {
    dirs: BTreeMap<usize, Vec<String>>,
    /// The second half of a map output that was written in two steps.
    half: Option<Deed>,
    deeds: Vec<Deed>,
}

fn app() -> AppId {
    match AppId::new(EXECUTOR_APP) {
        Ok(app) => app,
        Err(_) => unreachable!("a plain name"),
    }
}

/// Where a file is: `<dir>/<two hex digits>/<name>`, both by the hash of the name in Java.
pub fn path_of(dirs: &[String], name: &str) -> PathBuf {
    let hash = name.bytes().fold(0_i32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(byte))
    });
    let number = hash.checked_abs().unwrap_or(0) as usize;
    let dir = dirs.get(number % dirs.len().max(1));
    let sub_dir = number / dirs.len().max(1) % SUB_DIRS as usize;
    let dir = dir.map_or("", String::as_str);
    PathBuf::from(format!("{dir}/{sub_dir:02x}/{name}"))
}

fn output_name(shuffle: usize, map: usize, end: &str) -> String {
    format!("shuffle_{shuffle}_{map}_0.{end}")
}

/// Partitions of a shuffle of executors.
fn partitions(shuffle: usize) -> usize {
    1 + 4 * shuffle
}

impl Clients {
    pub(super) fn executor(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        if let Some(half) = self.executors.half.take() {
            self.executors.deeds.push(half);
            return;
        }
        let exec = dice.below(EXECUTORS);
        let body = match dice.weighted(&[12, 6, 35, 12, 12, 12, 11]) {
            0 => self.register_executor(exec, dice),
            1 => ask_for(app(), exec.to_string()),
            2 => {
                for _ in 0..1 + dice.below(FILES) {
                    self.executors.write(exec, self.large, dice);
                }
                return;
            }
            3 => open_blocks(exec, dice),
            4 => fetch_blocks(exec, dice),
            5 => fetch_batches(exec, dice),
            _ => remove_blocks(exec, dice),
        };
        let asked = Some(Asked::Originals);
        self.send(connection, Packet::Rpc(body), asked, dice, network);
    }

    /// Takes what executors have done in their directories.
    pub fn take_deeds(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.executors.deeds)
    }

    fn register_executor(&mut self, exec: usize, dice: &mut Dice) -> bytes::Bytes {
        let known = self.executors.dirs.get(&exec).cloned();
        let local_dirs = known.filter(|_| dice.chance(60)).unwrap_or_else(|| {
            let first = dice.below(EXECUTOR_DIRS.len());
            let dirs = EXECUTOR_DIRS.iter().cycle().skip(first);
            let dirs = dirs.take(1 + dice.below(2));
            dirs.map(|dir| (*dir).to_owned()).collect()
        });
        self.executors.dirs.insert(exec, local_dirs.clone());
        self.executors.deeds.push(Deed::Make(local_dirs.clone()));
        RegisterExecutor {
            app: app(),
            exec_id: exec.to_string(),
            local_dirs,
            sub_dirs_per_local_dir: SUB_DIRS,
            shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
        }
        .to_bytes()
    }
}

impl Executors {
    /// An executor writes a file, or one again under its old name.
    fn write(&mut self, exec: usize, large: bool, dice: &mut Dice) {
        let Some(dirs) = self.dirs.get(&exec) else {
            return;
        };
        if dice.chance(25) {
            let name = rdd_name(exec, dice);
            let length = dice.below(2 * BLOCK_BYTES);
            let deed = Deed::Rdd(path_of(dirs, &name), dice.bytes(length));
            self.deeds.push(deed);
            return;
        }
        let (shuffle, map) = (dice.below(SHUFFLES), some_map(exec, dice));
        let (mut offsets, mut blocks) = (0_u64.to_be_bytes().to_vec(), Vec::new());
        for _ in 0..partitions(shuffle) {
            let most = match large && dice.chance(10) {
                true => 500 * BLOCK_BYTES,
                false => BLOCK_BYTES,
            };
            let length = dice.below(most) * usize::from(dice.chance(80));
            blocks.extend(dice.bytes(length));
            offsets.extend((blocks.len() as u64).to_be_bytes());
        }
        spoil(&mut offsets, &mut blocks, dice);
        let place = |end| path_of(dirs, &output_name(shuffle, map, end));
        let deed = |offsets, blocks| Deed::Output {
            index: place("index"),
            data: place("data"),
            offsets,
            blocks,
        };
        if dice.chance(20) && self.half.is_none() {
            let first = deed(Some(offsets), None);
            self.half = Some(deed(None, Some(blocks)));
            self.deeds.push(first);
        } else {
            let both = deed(Some(offsets), Some(blocks));
            self.deeds.push(both);
        }
    }
}

/// Now and then a file lost its end, or offsets make no sense.
fn spoil(offsets: &mut Vec<u8>, blocks: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(30) {
        0 => offsets.truncate(dice.below(offsets.len())),
        1 => blocks.truncate(dice.below(blocks.len().max(1))),
        2 => offsets.reverse(),
        _ => {}
    }
}

/// A map attempt of an executor, by its id; sometimes one that wrote nothing.
fn some_map(exec: usize, dice: &mut Dice) -> usize {
    100 * exec + dice.below(MAPS)
}

fn rdd_name(exec: usize, dice: &mut Dice) -> String {
    format!("rdd_{exec}_{}", dice.below(RDD_BLOCKS))
}

fn open_blocks(exec: usize, dice: &mut Dice) -> bytes::Bytes {
    let count = 1 + dice.below(4);
    let name = |dice: &mut Dice| match dice.below(100) {
        0 => "shuffle_1_2".to_owned(),
        1..40 => rdd_name(exec, dice),
        _ => {
            let (shuffle, map) = (dice.below(SHUFFLES), some_map(exec, dice));
            let reduce = some_reduce(shuffle, dice);
            format!("shuffle_{shuffle}_{map}_{reduce}")
        }
    };
    OpenBlocks {
        app: app(),
        exec_id: exec.to_string(),
        block_ids: (0..count).map(|_| name(dice)).collect(),
    }
    .to_bytes()
}

/// Now and then one that there is not.
fn some_reduce(shuffle: usize, dice: &mut Dice) -> usize {
    let beyond = usize::from(dice.chance(5));
    dice.below(partitions(shuffle) + beyond)
}

fn fetch_blocks(exec: usize, dice: &mut Dice) -> bytes::Bytes {
    let shuffle = dice.below(SHUFFLES);
    let same = dice.chance(50).then(|| some_reduce(shuffle, dice));
    let block = |dice: &mut Dice| {
        let reduces = match same {
            Some(reduce) => vec![reduce],
            None => (0..dice.below(4))
                .map(|_| some_reduce(shuffle, dice))
                .collect(),
        };
        (some_map(exec, dice), reduces)
    };
    let blocks = (0..1 + dice.below(4)).map(|_| block(dice)).collect();
    fetch(exec, shuffle, blocks, false)
}

/// Several partitions of each output, as one block.
fn fetch_batches(exec: usize, dice: &mut Dice) -> bytes::Bytes {
    let shuffle = dice.below(SHUFFLES);
    let most = partitions(shuffle);
    let block = |dice: &mut Dice| {
        let start = dice.below(most);
        let end = start + 1 + dice.below(most - start);
        let reduces = match dice.below(100) {
            0 => vec![start, end, end],
            1..4 => vec![end, start],
            _ => vec![start, end],
        };
        (some_map(exec, dice), reduces)
    };
    let blocks = (0..1 + dice.below(4)).map(|_| block(dice)).collect();
    fetch(exec, shuffle, blocks, true)
}

fn fetch(
    exec: usize,
    shuffle: usize,
    blocks: Vec<(usize, Vec<usize>)>,
    batch: bool,
) -> bytes::Bytes {
    let reduces = |all: Vec<usize>| all.into_iter().map(|one| ReduceId(one as u32)).collect();
    let named = |(map, all): (usize, Vec<usize>)| (MapId(map as i64), reduces(all));
    FetchShuffleBlocks {
        app: app(),
        exec_id: exec.to_string(),
        shuffle_id: ShuffleId(shuffle as i32),
        blocks: blocks.into_iter().map(named).collect(),
        batch,
    }
    .to_bytes()
}

/// Some of the names are of no block.
fn remove_blocks(exec: usize, dice: &mut Dice) -> bytes::Bytes {
    let mut names = Vec::new();
    for _ in 0..1 + dice.below(3) {
        let (shuffle, map) = (dice.below(SHUFFLES), some_map(exec, dice));
        match dice.below(12) {
            0 => names.push("../00/shuffle_0_0_0.data".to_owned()),
            1 => names.push("temp_shuffle_0".to_owned()),
            2..5 => names.push(rdd_name(exec, dice)),
            5 => names.push(output_name(shuffle, map, "index")),
            _ => names.extend(["data", "index"].map(|end| output_name(shuffle, map, end))),
        }
    }
    RemoveBlocks {
        app: app(),
        exec_id: exec.to_string(),
        block_ids: names,
    }
    .to_bytes()
}

fn ask_for(app: AppId, exec_id: String) -> bytes::Bytes {
    let exec_ids = vec![exec_id];
    GetLocalDirsForExecutors { app, exec_ids }.to_bytes()
}

/// Questions for every executor that there may be, and for all of their blocks.
pub fn every_executor() -> Vec<bytes::Bytes> {
    let mut questions = Vec::new();
    for exec in 0..EXECUTORS {
        questions.push(ask_for(app(), exec.to_string()));
        for shuffle in 0..SHUFFLES {
            let all: Vec<_> = (0..partitions(shuffle)).collect();
            let maps = (0..MAPS).map(|map| (100 * exec + map, all.clone()));
            questions.push(fetch(exec, shuffle, maps.collect(), false));
        }
    }
    questions
}
