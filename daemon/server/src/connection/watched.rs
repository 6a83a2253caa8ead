// SPDX-License-Identifier: Apache-2.0
//! The socket of a connection, watched for bytes that move.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BufMut;
use lodestone_store::Part;

use super::socket::Socket;
use super::table::Entry;

/// A socket that notes when bytes move.
#[derive(Debug)]
pub(super) struct Watched {
    socket: Arc<dyn Socket>,
    entry: Arc<Entry>,
}

impl Watched {
    pub(super) fn new(socket: Arc<dyn Socket>, entry: Arc<Entry>) -> Self {
        Self { socket, entry }
    }

    /// Waits for the client or for memory.
    pub(super) async fn wait<T>(&self, awaited: impl Future<Output = T>) -> T {
        self.entry.wait(awaited).await
    }

    /// Waits until the client takes bytes of an answer.
    pub(super) async fn wait_to_send<T>(&self, awaited: impl Future<Output = T>) -> T {
        self.wait(self.entry.taking.wait(awaited)).await
    }

    /// Waits until the client sends bytes of a request.
    pub(super) async fn wait_to_read<T>(&self, awaited: impl Future<Output = T>) -> T {
        self.wait(self.entry.sending.wait(awaited)).await
    }

    /// The daemon waits for the client, which takes its answers too slowly for their memory.
    pub(super) fn takes_slowly(&self) -> bool {
        self.entry.taking.is_behind()
    }

    /// Answers of the client have memory from now on.
    pub(super) fn holds_answers(&self) {
        self.entry.taking.holds();
    }

    /// There is nothing to be sent.
    pub(super) fn sent_all(&self) {
        self.entry.taking.done();
    }

    /// The client has sent all of its requests so far.
    pub(super) fn read_all(&self) {
        self.entry.sending.done();
    }

    fn noted(&self, moved: io::Result<usize>) -> io::Result<usize> {
        moved.inspect(|_| self.entry.bytes_moved())
    }

    fn noted_sent(&self, sent: io::Result<usize>) -> io::Result<usize> {
        self.noted(sent).inspect(|count| self.entry.took(*count))
    }
}

impl Socket for Watched {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_readable(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_writable(context)
    }

    fn try_read(&self, into: &mut dyn BufMut) -> io::Result<usize> {
        self.noted(self.socket.try_read(into))
            .inspect(|count| self.entry.sent(*count))
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.noted_sent(self.socket.try_write(slices))
    }

    fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
        self.noted_sent(self.socket.try_send(pieces))
    }

    fn try_flush(&self) -> io::Result<()> {
        self.socket.try_flush()
    }
}
