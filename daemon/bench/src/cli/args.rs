// SPDX-License-Identifier: Apache-2.0
//! Flags.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use lodestone_units::size;

use crate::server::Wanted;
use crate::workload::BlockSize;

/// Drives shuffle services with pushes and fetches, checks every byte, and measures.
#[derive(Debug, Parser)]
#[command(name = "lodestone-bench", version, arg_required_else_help = true)]
pub struct Command {
    /// The command to run.
    #[command(subcommand)]
    pub verb: BenchVerb,
}

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum BenchVerb {
    /// Push blocks from many connections, and finalize, or commit each map
    ///
    /// Example: lodestone-bench push --server lodestone --server spark=$SPARK_HOME/jars --block 10k
    Push(PushArgs),
    /// Prepare a shuffle on the server, and read it back as reducers do: merged, and block by block
    ///
    /// Every byte is compared with what was pushed.
    /// Example: lodestone-bench fetch --block 10k --hdd
    Fetch(FetchArgs),
    /// The most that this machine can do: the same bytes over the same connections with nothing in
    /// between
    ///
    /// Sockets to files in large writes, and files to sockets with sendfile. A bound for the other
    /// verbs; --server limit measures it beside other servers.
    Limit(LimitArgs),
    /// The table of Magnet's paper (section 5.2.1): push and fetch with blocks of 10 KB, 100 KB and
    /// 1 MB
    ///
    /// Several servers side by side in one run, in turn, with medians, spread and ratios. Example:
    /// lodestone-bench table --server lodestone --server spark=$SPARK_HOME/jars --server limit
    Table(TableArgs),
    /// The bare loop that `limit` measures
    #[command(hide = true)]
    ServeLimit {
        /// Folder for its files [default: in memory]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// Arguments of `push`.
#[derive(Debug, Args)]
pub struct PushArgs {
    #[command(flatten)]
    pub(super) servers: ServerArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) trouble: TroubleArgs,
    #[command(flatten)]
    pub(super) slow: SlowArgs,
}

/// Arguments of `fetch`.
#[derive(Debug, Args)]
pub struct FetchArgs {
    /// The data to read: merged chunks, the original blocks of map tasks, or both
    #[arg(long, value_name = "WHAT", default_value = "both")]
    pub(super) from: From,
    #[command(flatten)]
    pub(super) servers: ServerArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) disk: DiskArgs,
    #[command(flatten)]
    pub(super) trouble: TroubleArgs,
    #[command(flatten)]
    pub(super) slow: SlowArgs,
}

/// Arguments of `limit`.
#[derive(Debug, Args)]
pub struct LimitArgs {
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) disk: DiskArgs,
}

/// Arguments of `table`.
#[derive(Debug, Args)]
pub struct TableArgs {
    #[command(flatten)]
    pub(super) servers: ServerArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) disk: DiskArgs,
}

/// The data that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum From {
    Merged,
    Originals,
    Both,
}

/// Which servers.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// The servers to measure, in this order; ratios are to the first. lodestone: this daemon, in
    /// its own protocol. lodestone-spark: this daemon, in Spark's protocol. spark=JARS: Spark's own
    /// service, from the jars of a Spark installation (needs java). limit: the bare loop, from
    /// files. limit-memory: the bare loop, from memory. HOST:PORT or spark@HOST:PORT: a running
    /// server, on this host if its original blocks are fetched
    #[arg(long = "server", value_name = "SERVER", default_value = "lodestone")]
    pub(super) servers: Vec<Wanted>,
    /// Process of a running server, to measure what it uses
    #[arg(long, value_name = "PID")]
    pub(super) pid: Option<u32>,
    /// Memory of each server that is started, such as 512m or 1g: --memory of the daemon, -Xmx of
    /// Java [default: 512MiB of the daemon, 1g of Java]
    #[arg(long, value_name = "SIZE")]
    pub(super) memory: Option<String>,
    /// The daemon to start [default: lodestone, in the folder of this program]
    #[arg(long, value_name = "FILE")]
    pub(super) daemon: Option<PathBuf>,
}

/// How much work.
#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// Size of blocks, such as 10k, or mixed (1 KiB to 1 MiB); several are measured one after the
    /// other [default: 10000b; table: the sizes of the paper, 10000b,100000b,1000000b]
    #[arg(long, value_name = "SIZE[,SIZE...]", value_delimiter = ',')]
    pub(super) block: Vec<BlockSize>,
    /// Bytes of all blocks; not used if both --maps and --partitions are given
    #[arg(long, value_name = "SIZE", default_value = "256m", value_parser = size)]
    pub(super) total: u64,
    /// Connections [default: 100; table and limit: 1000]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(super) connections: Option<u32>,
    /// Map tasks [default: about as many as partitions]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) maps: Option<u32>,
    /// Reduce partitions [default: about as many as maps]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) partitions: Option<u32>,
    /// Shuffles at once; the bytes and the connections are divided among them. Not if originals are
    /// fetched
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) shuffles: u32,
    /// Bytes that one connection sends, or asks for, before it waits for answers
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = size)]
    pub(super) window: u64,
    /// Rounds that count; medians are over these
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Rounds before those, which do not count: Java is slow until it is warm
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(super) warmup: u32,
    /// Folder for the data of servers and map tasks, in a folder of its own that is deleted at the
    /// end [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Give up when no byte has moved for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) timeout: u64,
    /// Write everything, round by round, into this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// The disk.
#[derive(Debug, Args)]
pub(super) struct DiskArgs {
    /// Let the page cache forget the data before each fetch
    #[arg(long)]
    pub(super) cold: bool,
    /// A disk with a head: the servers may read 150 times a second. Implies --cold. Reads only, and
    /// so fetches only: pushes go to the disk as it is. Needs root and control groups; skipped with
    /// a note if there are none
    #[arg(long)]
    pub(super) hdd: bool,
}

/// The slow connections.
#[derive(Debug, Args)]
pub(super) struct SlowArgs {
    /// Connections beside the others that push slowly (a part of a batch, a pause, and so on; to a
    /// shuffle of their own), or read slowly, repeatedly, as long as the others work. They do not
    /// count as work
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(super) slow: u32,
    /// Bytes that each of those sends, or reads, in a second
    #[arg(long, value_name = "SIZE", default_value = "100k", value_parser = size)]
    pub(super) slow_rate: u64,
}

/// The trouble.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct TroubleArgs {
    /// Kill the server when half of the bytes have moved, and report what was lost and how clients
    /// saw it. One server, one block size, one round
    #[arg(long)]
    pub(super) kill: bool,
    /// Stop the server for this many seconds when half of the bytes have moved
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) pause: Option<u64>,
}
