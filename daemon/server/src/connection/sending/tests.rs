// SPDX-License-Identifier: Apache-2.0
//! Tests of open chunks, and of clients that take them slowly.

use std::io::IoSlice;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes};
use lodestone_model::{AppId, GenerationId, ReduceId, ShuffleId};
use lodestone_store::fs::fake::FakeFs;
use lodestone_store::fs::{Fs, Open};
use lodestone_wire::frame::ChunkId;
use tokio::sync::Semaphore;

use super::super::{ChunkHead, Hold};
use super::*;
use crate::metrics::stopwatch::Stopwatch;
use crate::streams::items::Items;
use crate::streams::source::Source;
use crate::streams::{SharedStreams, StreamItem};

/// A client that takes so many bytes.
#[derive(Debug)]
struct Client {
    room: Mutex<usize>,
}

impl Socket for Client {
    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn try_read(&self, _: &mut dyn BufMut) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn try_write(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
        let mut room = self.room.lock().unwrap();
        let all: u64 = pieces.iter().map(Part::length).sum();
        let sent = (all as usize).min(*room);
        *room -= sent;
        match sent {
            0 => Err(ErrorKind::WouldBlock.into()),
            sent => Ok(sent),
        }
    }
}

/// The requests for the chunks of one stream.
fn wanted(count: i32) -> Vec<Wanted> {
    wanted_of(count, |split| StreamItem::Rdd { rdd: 1, split })
}

fn wanted_of(count: i32, item: impl Fn(i32) -> StreamItem) -> Vec<Wanted> {
    let source = Source {
        app: AppId::new("app").unwrap(),
        attempt: None,
        exec: String::new(),
        items: Items::Mixed((0..count).map(item).collect()),
    };
    all_wanted(source, count)
}

/// The requests for so many chunks of a stream.
pub(in super::super) fn all_wanted<W: FromIterator<Wanted>>(source: Source, count: i32) -> W {
    let streams = SharedStreams::default();
    let memory = |_: &AppId, _| Some(Box::new(()) as _);
    streams.open(1, source, memory).unwrap();
    let permits = Arc::new(Semaphore::new(count as usize));
    let one = |chunk_index| Wanted {
        head: ChunkHead::Fetch(ChunkId {
            stream_id: 1,
            chunk_index,
        }),
        job: streams.take(1, chunk_index).unwrap(),
        found: None,
        begun: None,
        _hold: Hold {
            _permit: Arc::clone(&permits).try_acquire_owned().unwrap(),
            memory: Vec::new(),
        },
        stopwatch: Stopwatch::start(),
    };
    (0..count).map(one).collect()
}

fn index(wanted: &Wanted) -> i32 {
    match &wanted.head {
        ChunkHead::Fetch(chunk) => chunk.chunk_index,
        ChunkHead::Stream(name) => panic!("{name}"),
    }
}

#[test]
fn a_client_that_takes_blocks_slowly_holds_one_open_file() {
    let fs = FakeFs::default();
    fs.add_file(Path::new("/file"), b"block");
    let mut sending = Sending::default();
    for wanted in wanted(4) {
        let file = fs.open(Path::new("/file"), Open::Read).unwrap();
        let data = Part::File {
            file,
            offset: 0,
            length: 5,
        };
        let head = Part::Memory(Bytes::from_static(b"head"));
        let chunk = OpenChunk::new(wanted, vec![1], Ok(5));
        sending.add(chunk, [head, data].into_iter());
    }
    // The first block, and a part of the second one.
    let client = Client { room: 12.into() };
    let mut done = Vec::new();
    let sent = sending.send(&client, 100, |chunk| done.push(index(&chunk.wanted)));
    assert_eq!((sent.unwrap(), done), (12, vec![0]));
    assert_eq!(fs.open_files().0, 3);
    let closed = sending.close_unbegun();
    assert_eq!(closed.iter().map(index).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(fs.open_files().0, 1);
    *client.room.lock().unwrap() = 100;
    assert_eq!(
        sending.send(&client, 100, |_| {}).unwrap(),
        6,
        "the rest of it"
    );
    assert!(sending.is_empty() && sending.has_room());
    assert_eq!((sending.bytes, fs.open_files().0), (0, 0));
}

#[test]
fn the_rest_of_a_merged_chunk_is_opened_again_and_that_of_a_file_that_may_change_is_not() {
    let merged = |chunk: i32| StreamItem::Merged {
        shuffle: ShuffleId(1),
        generation: GenerationId(0),
        reduce: ReduceId(0),
        chunk: chunk as u32,
    };
    let pieces = || ["head", "bytes", "more"].map(|bytes| Part::Memory(bytes.into()));
    let rest = |wanted: Wanted| {
        let mut sending = Sending::default();
        let chunk = OpenChunk::new(wanted, Vec::new(), Ok(9));
        sending.add(chunk, pieces().into_iter());
        let client = Client { room: 6.into() };
        assert_eq!(sending.send(&client, 100, |_| {}).unwrap(), 6);
        let aside = sending.set_aside();
        assert_eq!(sending.is_empty(), aside.is_some());
        assert_eq!(sending.bytes, if aside.is_some() { 0 } else { 7 });
        aside
    };
    assert!(rest(wanted(1).remove(0)).is_none());

    let mut again = rest(wanted_of(1, merged).remove(0)).unwrap();
    let begun = again.begun.take().unwrap();
    let mut sending = Sending::default();
    let chunk = OpenChunk::new(again, Vec::new(), Ok(9));
    sending.go_on(chunk, pieces().into_iter(), &begun).unwrap();
    let client = Client { room: 100.into() };
    let mut done = 0;
    assert_eq!(sending.send(&client, 100, |_| done += 1).unwrap(), 7);
    assert_eq!((done, sending.bytes, sending.is_empty()), (1, 0, true));

    let other = OpenChunk::new(wanted_of(1, merged).remove(0), Vec::new(), Ok(8));
    assert!(
        sending.go_on(other, pieces().into_iter(), &begun).is_err(),
        "it has another length"
    );
}

#[test]
fn a_chunk_of_which_nothing_was_sent_may_still_be_refused_when_it_is_opened_again() {
    let head = || Part::Memory("head".into());
    let file = Part::File {
        file: Arc::new(FakeFs::with_dirs(["/"]))
            .open(Path::new("/file"), Open::Create)
            .unwrap(),
        offset: 0,
        length: 5,
    };
    for (bytes, is_held) in [(Part::Memory("bytes".into()), true), (file, false)] {
        let item = StreamItem::Segments {
            shuffle: ShuffleId(1),
            generation: GenerationId(0),
            reduce: ReduceId(0),
            slots: Box::default(),
        };
        let wanted = wanted_of(1, |_| item.clone()).remove(0);
        let mut sending = Sending::default();
        sending.add(
            OpenChunk::new(wanted, Vec::new(), Ok(5)),
            [head(), bytes].into_iter(),
        );
        let aside = sending.set_aside();
        assert_eq!(aside.is_some(), is_held);
        assert!(aside.is_none_or(|wanted| wanted.begun.is_none()));
    }
}

#[test]
fn a_client_that_takes_blocks_slowly_holds_the_memory_of_one_chunk() {
    let mut sending = Sending::default();
    for (wanted, places) in wanted(4).into_iter().zip([vec![], vec![], vec![0], vec![]]) {
        let chunk = OpenChunk::new(wanted, places, Ok(4));
        let bytes = Part::Memory(Bytes::from_static(b"all of it"));
        sending.add(chunk, std::iter::once(bytes));
    }
    assert_eq!(sending.places(), [0]);
    let closed = sending.close_unbegun();
    assert_eq!(closed.iter().map(index).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((sending.chunks.len(), sending.bytes), (1, 9));
    assert!(sending.close_unbegun().is_empty());
}
