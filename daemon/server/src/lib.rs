// SPDX-License-Identifier: Apache-2.0
//! The daemon: sockets, limits, and the way from a frame to the store and back.
//!
//! ```text
//! serve/       start, accept, admit, end               one task
//! connection/  reader: bytes -> frames -> requests     one task per connection
//!              writer: answers and chunks -> bytes     one task per connection
//! handler/     message -> store -> message             at once, or on the lanes of the service
//! streams/     the chunks that readers have opened
//! process/     log, memory, leases, disks, stop        a task or thread each
//! service/     what they share: the store, memory for bytes on their way, lanes (threads)
//! operator/    the admin endpoint; the programs `lodestone drain`, `explain`, `plan`
//! ```
//!
//! Network threads never touch a disk, not even for the log, and never wait for the store: they
//! carry out short requests that need memory only, if no lock of the store that is held during disk
//! work is in the way, and hand all others over (`handler::rpc_now`, `handler::upload_now`). Memory
//! for bytes on their way is taken from pools ([`service::pool::Pool`]) before the bytes are read.

pub mod cli;
pub mod config;
pub mod connection;
pub mod handler;
pub mod metrics;
pub mod operator;
pub mod process;
pub mod serve;
pub mod service;
pub mod streams;
