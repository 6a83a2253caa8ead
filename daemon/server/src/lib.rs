// SPDX-License-Identifier: Apache-2.0
//! The daemon: sockets, limits, and the way from a frame to the store and back.
//!
//! ```text
//! serve        accept, admit, end                      one task
//! connection/  reader: bytes -> frames -> requests     one task per connection
//!              writer: answers and chunks -> bytes     one task per connection
//! handler/     message -> store -> message             on the blocking pool
//! operator/    `lodestone drain`, `lodestone explain`  programs of their own
//! ```
//!
//! Network threads never touch a disk, not even for the log, and never wait for the store. Memory
//! for bytes on their way is taken from two pools ([`service::Pool`]) before the bytes are read or
//! made.

pub mod cli;
pub mod config;
pub mod connection;
pub mod handler;
pub mod metrics;
pub mod operator;
pub mod process;
pub mod serve;
pub mod service;
