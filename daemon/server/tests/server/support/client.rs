// SPDX-License-Identifier: Apache-2.0
//! A blocking client that sends and receives frames.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lodestone_model::{
    AppAttempt, AppId, Code, Crc32c, GenerationId, LaidSegment, Ledger, MapId, MapIndex, Mode,
    ReduceId, Segment, SegmentRun, ShuffleId, ShuffleKey, ShuffleSpec,
};
use lodestone_wire::extension::commit::CommitMap;
use lodestone_wire::extension::fetch::{
    FetchSegments, SegmentLayout, SegmentLayoutReply, WantedChunk,
};
use lodestone_wire::extension::hello::Hello;
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::status::{Done, Refused};
use lodestone_wire::extension::{PROTOCOL_VERSION, ShuffleAddress};
use lodestone_wire::frame::{ChunkId, StreamId};
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::{Frame, FrameDecoder, Limits, Message};

use super::cipher::Cipher;
use super::daemon::{Daemon, TEST_TIMEOUT};

pub(crate) const ALL_MAPS: (u32, u32) = (0, i32::MAX as u32);

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    buffer: BytesMut,
    next_request: i64,
    cipher: Cipher,
}

pub(crate) fn app() -> AppId {
    AppId::new("app-1").unwrap()
}

pub(crate) fn hello() -> Hello {
    Hello {
        protocol_version: PROTOCOL_VERSION,
        client_name: String::new(),
    }
}

pub(crate) fn generation(shuffle_id: i32) -> ShuffleKey {
    ShuffleKey {
        app: app(),
        attempt: Some(AppAttempt::NONE),
        shuffle: ShuffleId(shuffle_id),
        generation: GenerationId(0),
    }
}

pub(crate) fn key(daemon: &Daemon, shuffle_id: i32) -> ShuffleAddress {
    ShuffleAddress {
        shuffle: generation(shuffle_id),
        incarnation: daemon.incarnation(),
    }
}

/// No answer of a test comes near them.
pub(crate) const LIMITS: Limits = Limits {
    frame_bytes: 1 << 30,
    meta_bytes: 1 << 30,
    upload_bytes: 1 << 30,
};

/// The batch for segments of these partitions and bytes, and its body.
pub(crate) fn batch(
    key: &ShuffleAddress,
    map_index: u32,
    map_id: i64,
    parts: &[(u32, &[u8])],
) -> (PushBatch, Vec<u8>) {
    let segment = |(reduce_id, bytes): &(u32, &[u8])| Segment {
        reduce_id: ReduceId(*reduce_id),
        sequence: 1,
        length: bytes.len() as u32,
        records: 1,
        crc32c: Crc32c(crc32c::crc32c(bytes)),
    };
    let segments = parts.iter().map(segment).collect();
    let bodies: Vec<_> = parts.iter().map(|(_, bytes)| *bytes).collect();
    (
        PushBatch {
            key: key.clone(),
            map_index: MapIndex(map_index),
            map_id: MapId(map_id),
            first_segment: 0,
            is_whole: false,
            segments,
        },
        bodies.concat(),
    )
}

/// Returns the commit of a writer that got an answer for each of these batches.
pub(crate) fn commit_of(batches: &[PushBatch]) -> CommitMap {
    let ledgers = batches.iter().map(PushBatch::ledger);
    CommitMap {
        key: batches[0].key.clone(),
        map_index: batches[0].map_index,
        map_id: batches[0].map_id,
        pushed: ledgers.fold(Ledger::default(), Ledger::and),
    }
}

impl Client {
    pub(crate) fn connect(daemon: &Daemon) -> Self {
        Self::over(TcpStream::connect(daemon.address()).unwrap())
    }

    pub(crate) fn over(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self {
            socket,
            buffer: BytesMut::new(),
            next_request: 1,
            cipher: Cipher::Plain,
        }
    }

    /// Encrypts from now on.
    pub(crate) fn through(&mut self, cipher: Cipher) {
        self.cipher = cipher;
    }

    pub(crate) fn send(&mut self, frame: &Frame) {
        self.write(&frame.to_bytes());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.cipher.write(&mut self.socket, bytes).unwrap();
    }

    /// The next frame, `None` when the daemon closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Frame> {
        let decoder = FrameDecoder::new(LIMITS);
        loop {
            if let Some(frame) = decoder.next(&mut self.buffer).unwrap() {
                return Some(frame);
            }
            if self.read_some() == 0 {
                assert!(self.buffer.is_empty(), "closed inside a frame");
                return None;
            }
        }
    }

    fn read_some(&mut self) -> usize {
        match self.cipher.read(&mut self.socket) {
            Ok(bytes) => {
                self.buffer.extend_from_slice(&bytes);
                bytes.len()
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("reading from the daemon: {error}"),
        }
    }

    /// Fails if a byte comes within this time.
    pub(crate) fn assert_silent_for(&mut self, time: Duration) {
        self.socket.set_read_timeout(Some(time)).unwrap();
        let heard = self.socket.peek(&mut [0]);
        assert_eq!(heard.unwrap_err().kind(), ErrorKind::WouldBlock);
        self.socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    }

    /// How many more bytes come until the daemon closes the connection.
    pub(crate) fn receive_to_the_end(&mut self) -> usize {
        while self.read_some() > 0 {}
        self.buffer.len()
    }

    /// The bytes after a `StreamResponse`.
    pub(crate) fn receive_raw(&mut self, count: usize) -> Bytes {
        while self.buffer.len() < count {
            assert_ne!(self.read_some(), 0, "closed inside a body");
        }
        self.buffer.split_to(count).freeze()
    }

    pub(crate) fn send_rpc(&mut self, message: &impl Message) -> i64 {
        let request_id = self.next_request;
        self.next_request += 1;
        self.send(&Frame::RpcRequest {
            request_id,
            body: message.to_bytes(),
        });
        request_id
    }

    pub(crate) fn send_upload(&mut self, meta: &impl Message, body: &[u8]) -> i64 {
        self.begin_upload(meta, body, body.len())
    }

    /// Announces an upload, and sends so many bytes of it.
    pub(crate) fn begin_upload(&mut self, meta: &impl Message, body: &[u8], sent: usize) -> i64 {
        let request_id = self.next_request;
        self.next_request += 1;
        let (meta, body_bytes) = (meta.to_bytes(), body.len() as u64);
        self.send(&Frame::UploadStream {
            request_id,
            meta,
            body_bytes,
        });
        self.write(&body[..sent]);
        request_id
    }

    /// The body of the answer to a request, when no other is under way.
    pub(crate) fn answer_to(&mut self, id: i64) -> Bytes {
        match self.receive() {
            Some(Frame::RpcResponse { request_id, body }) if request_id == id => body,
            other => panic!("instead of the answer to {id}: {other:?}"),
        }
    }

    /// Returns when the answer to a request comes. Leaves out those to others, whatever they are.
    pub(crate) fn await_answer_to(&mut self, id: i64) {
        loop {
            match self.receive() {
                Some(Frame::RpcResponse { request_id, .. }) if request_id == id => return,
                Some(_) => {}
                None => panic!("closed before the answer to {id}"),
            }
        }
    }

    pub(crate) fn failure_of(&mut self, id: i64) -> String {
        match self.receive() {
            Some(Frame::RpcFailure(failure)) if failure.request_id == id => failure.error,
            other => panic!("instead of the failure of {id}: {other:?}"),
        }
    }

    pub(crate) fn ask<A: Message>(&mut self, message: &impl Message) -> A {
        let id = self.send_rpc(message);
        read(&self.answer_to(id))
    }

    pub(crate) fn refusal(&mut self, message: &impl Message) -> Code {
        self.ask::<Refused>(message).code
    }

    pub(crate) fn failure(&mut self, message: &impl Message) -> String {
        let id = self.send_rpc(message);
        self.failure_of(id)
    }

    pub(crate) fn register(&mut self, key: &ShuffleAddress, num_maps: u32, num_partitions: u32) {
        self.register_as(Mode::Merge, key, num_maps, num_partitions);
    }

    pub(crate) fn register_as(
        &mut self,
        mode: Mode,
        key: &ShuffleAddress,
        num_maps: u32,
        num_partitions: u32,
    ) {
        let key = key.clone();
        let spec = ShuffleSpec {
            mode,
            num_maps,
            num_partitions,
            format: "spark-stream".to_owned(),
        };
        let _: Done = self.ask(&RegisterShuffle { key, spec });
    }

    pub(crate) fn push(
        &mut self,
        key: &ShuffleAddress,
        map_index: u32,
        map_id: i64,
        parts: &[(u32, &[u8])],
    ) -> Vec<Code> {
        let (meta, body) = batch(key, map_index, map_id, parts);
        let id = self.send_upload(&meta, &body);
        read::<PushBatchReply>(&self.answer_to(id)).codes
    }

    /// Pushes all of a map output in one batch, and commits it.
    pub(crate) fn output(
        &mut self,
        key: &ShuffleAddress,
        map_index: u32,
        map_id: i64,
        parts: &[(u32, &[u8])],
    ) {
        let (meta, body) = batch(key, map_index, map_id, parts);
        let id = self.send_upload(&meta, &body);
        let codes = read::<PushBatchReply>(&self.answer_to(id)).codes;
        assert!(codes.iter().all(|code| *code == Code::Ok), "{codes:?}");
        let _: Done = self.ask(&commit_of(&[meta]));
    }

    pub(crate) fn layout(
        &mut self,
        key: &ShuffleAddress,
        maps: (u32, u32),
        reduce_ids: &[u32],
    ) -> SegmentLayoutReply {
        let (key, reduce_ids) = (key.clone(), reduce_ids.iter().copied());
        self.ask(&SegmentLayout {
            key,
            map_start: maps.0,
            map_end: maps.1,
            reduce_ids: reduce_ids.map(ReduceId).collect(),
        })
    }

    /// Opens a stream of chunks: partition, and runs of slots (first, count).
    pub(crate) fn open(
        &mut self,
        key: &ShuffleAddress,
        chunks: &[(u32, &[(u32, u32)])],
    ) -> StreamHandle {
        let run = |&(first, count): &(u32, u32)| SegmentRun { first, count };
        let chunk = |&(reduce_id, runs): &(u32, &[(u32, u32)])| WantedChunk {
            reduce_id: ReduceId(reduce_id),
            runs: runs.iter().map(run).collect(),
        };
        self.ask(&FetchSegments {
            key: key.clone(),
            chunks: chunks.iter().map(chunk).collect(),
        })
    }

    /// Opens a stream over all of a partition, with this many segments in a chunk.
    pub(crate) fn open_partition(
        &mut self,
        key: &ShuffleAddress,
        reduce: u32,
        in_a_chunk: u32,
    ) -> (StreamHandle, Vec<Vec<LaidSegment>>) {
        let layout = self.layout(key, ALL_MAPS, &[reduce]);
        let [run] = layout.partitions[0].runs.as_slice() else {
            panic!("all slots follow one another: {layout:?}");
        };
        let chunks: Vec<_> = run.segments.chunks(in_a_chunk as usize).collect();
        let runs: Vec<_> = (0..)
            .zip(&chunks)
            .map(|(at, chunk)| [(at * in_a_chunk, chunk.len() as u32)])
            .collect();
        let wanted: Vec<_> = runs.iter().map(|runs| (reduce, runs.as_slice())).collect();
        let handle = self.open(key, &wanted);
        (handle, chunks.into_iter().map(<[_]>::to_vec).collect())
    }

    /// Makes a partition of 64 MiB and asks for all of it, without reading a byte of the answers.
    pub(crate) fn ask_for_more_than_sockets_hold(&mut self, key: &ShuffleAddress) {
        let block = vec![7; 1 << 20];
        self.register(key, 64, 1);
        for map in 0..64 {
            self.output(key, map, i64::from(map), &[(0, &block)]);
        }
        let (handle, _) = self.open_partition(key, 0, 2);
        let (stream_id, chunks) = (handle.stream_id, handle.num_chunks);
        let request = |chunk_index| {
            let chunk = ChunkId {
                stream_id,
                chunk_index,
            };
            Frame::ChunkFetchRequest(chunk).to_bytes()
        };
        let requests: Vec<_> = (0..chunks.cast_signed()).map(request).collect();
        // In one write, and until the first answer is on its way: the daemon would not have to
        // finish requests that it has not read.
        self.socket.write_all(&requests.concat()).unwrap();
        self.socket.peek(&mut [0]).unwrap();
    }

    /// Takes every chunk of a stream, all asked for at once.
    pub(crate) fn take(&mut self, handle: &StreamHandle) -> Vec<Bytes> {
        let id = |chunk_index| ChunkId {
            stream_id: handle.stream_id,
            chunk_index,
        };
        for index in 0..handle.num_chunks as i32 {
            self.send(&Frame::ChunkFetchRequest(id(index)));
        }
        (0..handle.num_chunks as i32)
            .map(|index| match self.receive() {
                Some(Frame::ChunkFetchSuccess { chunk, body }) if chunk == id(index) => body,
                other => panic!("instead of chunk {index}: {other:?}"),
            })
            .collect()
    }

    /// Takes one chunk as a stream, as Spark does for data that it puts on disk.
    pub(crate) fn download(&mut self, handle: &StreamHandle, index: u32) -> Bytes {
        let wanted = format!("{}_{index}", handle.stream_id);
        self.send(&Frame::StreamRequest(StreamId {
            name: wanted.clone(),
        }));
        match self.receive() {
            Some(Frame::StreamResponse(head)) => {
                assert_eq!(head.name, wanted);
                self.receive_raw(head.byte_count as usize)
            }
            other => panic!("instead of the stream: {other:?}"),
        }
    }

    /// All bytes of a partition by (mapIndex, mapId), each checked against its checksum.
    pub(crate) fn partition(
        &mut self,
        key: &ShuffleAddress,
        reduce: u32,
    ) -> Vec<(u32, i64, Bytes)> {
        let (handle, chunks) = self.open_partition(key, reduce, 3);
        let bodies = self.take(&handle);
        let mut found = Vec::new();
        for (chunk, mut body) in chunks.iter().zip(bodies) {
            for segment in chunk {
                let bytes = body.split_to(segment.length as usize);
                assert_eq!(
                    crc32c::crc32c(&bytes),
                    segment.crc32c.0,
                    "checksum of a segment"
                );
                found.push((segment.map_index.0, segment.map_id.0, bytes));
            }
            assert!(body.is_empty(), "a chunk is longer than its segments");
        }
        found
    }
}

pub(crate) fn read<M: Message>(body: &[u8]) -> M {
    match M::from_bytes(body) {
        Ok(message) => message,
        Err(error) => panic!("{error}; it is {:?}", Refused::from_bytes(body)),
    }
}
