// SPDX-License-Identifier: Apache-2.0
//! The daemon: sockets, limits, and the way from a frame to the store and back.
//!
//! ```text
//! serve        accept, admit, drain                    one task
//! connection/  reader: bytes -> frames -> requests     one task per connection
//!              writer: answers and chunks -> bytes     one task per connection
//! handler/     message -> store -> message             on the blocking pool
//! ```
//!
//! Network threads never touch a disk and never wait for the store. Memory for what is on its way is
//! taken from two pools ([`service::Pool`]) before the bytes are read or made.

pub mod admin;
pub mod cli;
pub mod config;
pub mod connection;
pub mod explain;
pub mod handler;
pub mod metrics;
pub mod process;
pub mod serve;
pub mod service;
