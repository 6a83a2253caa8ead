// SPDX-License-Identifier: Apache-2.0
//! The bare loop: the least that any shuffle service has to do. Bytes from sockets are appended to
//! as many files as there are partitions; chunks go from files to sockets with `sendfile`. No
//! merging, no index, no checks: this is the most that the machine can do with the same connections
//! and bytes.
//!
//! In memory the loop keeps bodies as they are, and copies them to sockets: `sendfile` copies
//! nothing, but pages that a socket still refers to cannot take other data.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use lodestone_wire::frame::{ChunkId, chunk_fetch_success_head};
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::{Frame, FrameDecoder, Limits, Message};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};

use crate::dialect::CHUNK_BYTES;
use crate::dialect::bare::Request;
use crate::measure::locked;

/// Bytes that are read from a socket, and written to a file, at once: sockets seldom hold more, and
/// processors' caches do not.
const BUFFER_BYTES: usize = 256 << 10;

const LIMITS: Limits = Limits {
    frame_bytes: 1 << 20,
    meta_bytes: 1 << 10,
    upload_bytes: 1 << 30,
};

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER_BYTES]);
}

/// The files, by shuffle and number.
#[derive(Debug)]
struct Files {
    /// None: in memory.
    dir: Option<PathBuf>,
    open: Mutex<HashMap<(u32, u32), SharedFile>>,
}

type SharedFile = Arc<Mutex<Appended>>;

/// A file that grows, or what would be in it.
#[derive(Debug)]
struct Appended {
    data: Data,
    end: u64,
    /// Where chunks end.
    cuts: Vec<u64>,
}

#[derive(Clone, Debug)]
enum Data {
    File(Arc<File>),
    /// Bodies, with their places.
    Memory(Vec<(u64, Bytes)>),
}

/// Serves until the task is dropped: from files below `dir`, or else from memory.
pub async fn serve(listener: TcpListener, dir: Option<PathBuf>) -> io::Result<()> {
    let open = Mutex::default();
    let files = Arc::new(Files { dir, open });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let connection = Connection {
            files: Arc::clone(&files),
            decoder: FrameDecoder::new(LIMITS),
            begun: BytesMut::new(),
            body: None,
        };
        tokio::spawn(async move {
            if let Err(error) = connection.run(stream).await {
                // Without stderr there is no way to report this. The client sees its connection
                // closed.
                let _ = writeln!(io::stderr(), "a connection: {error}");
            }
        });
    }
}

impl Files {
    fn path(&self, shuffle: u32, file: u32) -> Option<PathBuf> {
        let dir = self.dir.as_ref()?;
        Some(dir.join(format!("{shuffle}-{file}")))
    }

    fn data(&self, shuffle: u32, file: u32) -> io::Result<Data> {
        let Some(path) = self.path(shuffle, file) else {
            return Ok(Data::Memory(Vec::new()));
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Data::File(Arc::new(options.open(path)?)))
    }

    fn get(&self, shuffle: u32, file: u32) -> io::Result<SharedFile> {
        let mut open = locked(&self.open);
        if let Some(appended) = open.get(&(shuffle, file)) {
            return Ok(Arc::clone(appended));
        }
        let appended = Arc::new(Mutex::new(Appended {
            data: self.data(shuffle, file)?,
            end: 0,
            cuts: Vec::new(),
        }));
        open.insert((shuffle, file), Arc::clone(&appended));
        Ok(appended)
    }

    fn remove(&self, shuffle: u32) -> io::Result<()> {
        let mut gone = Vec::new();
        locked(&self.open).retain(|(of, file), _| {
            let stays = *of != shuffle;
            if !stays {
                gone.push(*file);
            }
            stays
        });
        let mut files = gone.into_iter().filter_map(|file| self.path(shuffle, file));
        files.try_for_each(std::fs::remove_file)
    }
}

impl Appended {
    /// Chunks hold complete bodies: a cut comes after the first body that makes the chunk large
    /// enough.
    fn cut(&mut self, is_last: bool) {
        let begin = self.cuts.last().copied().unwrap_or_default();
        let bytes = self.end - begin;
        if bytes >= CHUNK_BYTES || (is_last && bytes > 0) {
            self.cuts.push(self.end);
        }
    }

    fn chunk(&self, index: i32) -> Option<(u64, u64)> {
        let index = usize::try_from(index).ok()?;
        let begin = match index.checked_sub(1) {
            Some(before) => *self.cuts.get(before)?,
            None => 0,
        };
        Some((begin, *self.cuts.get(index)?))
    }

    /// The data of a chunk, which begins and ends with a body.
    fn data(&self, begin: u64, end: u64) -> Data {
        match &self.data {
            Data::File(file) => Data::File(Arc::clone(file)),
            Data::Memory(bodies) => {
                let of_chunk = bodies.iter().filter(|(at, _)| (begin..end).contains(at));
                let mut of_chunk: Vec<_> = of_chunk.cloned().collect();
                of_chunk.sort_unstable_by_key(|(at, _)| *at);
                Data::Memory(of_chunk)
            }
        }
    }
}

/// The answer of a connection.
enum Answer {
    Frame(Frame),
    Chunk {
        id: ChunkId,
        data: Data,
        begin: u64,
        end: u64,
    },
}

/// An upload whose bytes arrive. Others may come into the same file meanwhile, behind it.
struct Body {
    to: SharedFile,
    /// None: the bytes stay in memory.
    file: Option<Arc<File>>,
    bytes: Vec<u8>,
    begin: u64,
    at: u64,
    left: u64,
    request_id: i64,
}

impl Body {
    /// Takes its place in the file.
    fn new(to: SharedFile, left: u64, request_id: i64) -> Self {
        let mut appended = locked(&to);
        let begin = appended.end;
        appended.end += left;
        appended.cut(false);
        let file = match &appended.data {
            Data::File(file) => Some(Arc::clone(file)),
            Data::Memory(_) => None,
        };
        drop(appended);
        let bytes = Vec::with_capacity(match file {
            Some(_) => 0,
            None => usize::try_from(left).unwrap_or_default(),
        });
        Self {
            to,
            file,
            bytes,
            begin,
            at: begin,
            left,
            request_id,
        }
    }
}

struct Connection {
    files: Arc<Files>,
    decoder: FrameDecoder,
    begun: BytesMut,
    body: Option<Body>,
}

impl Connection {
    async fn run(mut self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            stream.readable().await?;
            let answers = BUFFER.with_borrow_mut(|buffer| match stream.try_read(buffer) {
                Ok(0) => Ok(None),
                Ok(count) => self.take(buffer.get(..count).unwrap_or_default()).map(Some),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Some(Vec::new())),
                Err(error) => Err(error),
            })?;
            let Some(answers) = answers else {
                return Ok(());
            };
            for answer in answers {
                send(&mut stream, answer).await?;
            }
        }
    }

    /// Writes bodies to their files, here and now: this is the bare loop.
    fn take(&mut self, mut bytes: &[u8]) -> io::Result<Vec<Answer>> {
        let mut answers = Vec::new();
        while !bytes.is_empty() {
            bytes = match self.body.take() {
                Some(body) => self.append(body, bytes, &mut answers)?,
                None => self.head(bytes, &mut answers)?,
            };
        }
        Ok(answers)
    }

    fn append<'a>(
        &mut self,
        mut body: Body,
        bytes: &'a [u8],
        answers: &mut Vec<Answer>,
    ) -> io::Result<&'a [u8]> {
        let here = usize::try_from(body.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (piece, rest) = bytes.split_at(here);
        match &body.file {
            Some(file) => file.write_all_at(piece, body.at)?,
            None => body.bytes.extend_from_slice(piece),
        }
        body.at += here as u64;
        body.left -= here as u64;
        if body.left == 0 {
            if let Data::Memory(bodies) = &mut locked(&body.to).data {
                bodies.push((body.begin, body.bytes.into()));
            }
            answers.push(Answer::Frame(Frame::RpcResponse {
                request_id: body.request_id,
                body: Bytes::new(),
            }));
        } else {
            self.body = Some(body);
        }
        Ok(rest)
    }

    fn head<'a>(&mut self, bytes: &'a [u8], answers: &mut Vec<Answer>) -> io::Result<&'a [u8]> {
        let wanted = |begun: &BytesMut| self.decoder.frame_bytes(begun).map(|w| w.unwrap_or(9));
        let before = wanted(&self.begun).map_err(io::Error::other)?;
        let (taken, rest) = bytes.split_at((before - self.begun.len()).min(bytes.len()));
        self.begun.extend_from_slice(taken);
        let frame = self.decoder.next(&mut self.begun);
        if let Some(frame) = frame.map_err(io::Error::other)? {
            self.frame(frame, answers)?;
        }
        Ok(rest)
    }

    fn frame(&mut self, frame: Frame, answers: &mut Vec<Answer>) -> io::Result<()> {
        let unknown = || io::Error::other("no request of the bare loop");
        match frame {
            Frame::UploadStream {
                request_id,
                meta,
                body_bytes: left,
            } => {
                let Some(Request::Append { shuffle, file }) = Request::from_bytes(&meta) else {
                    return Err(unknown());
                };
                let to = self.files.get(shuffle, file)?;
                self.body = Some(Body::new(to, left, request_id));
            }
            Frame::RpcRequest { request_id, body } => {
                let request = Request::from_bytes(&body).ok_or_else(unknown)?;
                let body = self.answer(request)?;
                answers.push(Answer::Frame(Frame::RpcResponse { request_id, body }));
            }
            Frame::ChunkFetchRequest(id) => {
                let (shuffle, file) = ((id.stream_id >> 32) as u32, id.stream_id as u32);
                let appended = self.files.get(shuffle, file)?;
                let appended = locked(&appended);
                let (begin, end) = appended.chunk(id.chunk_index).ok_or_else(unknown)?;
                let data = appended.data(begin, end);
                answers.push(Answer::Chunk {
                    id,
                    data,
                    begin,
                    end,
                });
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn answer(&self, request: Request) -> io::Result<Bytes> {
        match request {
            Request::Open { shuffle, file } => {
                let appended = self.files.get(shuffle, file)?;
                let mut appended = locked(&appended);
                appended.cut(true);
                let handle = StreamHandle {
                    stream_id: i64::from(shuffle) << 32 | i64::from(file),
                    num_chunks: appended.cuts.len() as u32,
                };
                Ok(handle.to_bytes())
            }
            Request::Remove { shuffle } => {
                self.files.remove(shuffle)?;
                Ok(Bytes::new())
            }
            Request::Append { .. } => Err(io::Error::other("an append without bytes")),
        }
    }
}

async fn send(stream: &mut TcpStream, answer: Answer) -> io::Result<()> {
    let (id, data, begin, end) = match answer {
        Answer::Frame(frame) => return stream.write_all(&frame.to_bytes()).await,
        Answer::Chunk {
            id,
            data,
            begin,
            end,
        } => (id, data, begin, end),
    };
    stream
        .write_all(&chunk_fetch_success_head(id, end - begin))
        .await?;
    match data {
        Data::File(file) => send_file(stream, &file, begin, end).await,
        Data::Memory(bodies) => {
            for (_, body) in bodies {
                stream.write_all(&body).await?;
            }
            Ok(())
        }
    }
}

async fn send_file(stream: &mut TcpStream, file: &File, begin: u64, end: u64) -> io::Result<()> {
    let mut position = begin;
    while position < end {
        stream.writable().await?;
        let left = usize::try_from(end - position).unwrap_or(usize::MAX);
        let sent = stream.try_io(Interest::WRITABLE, || {
            let sent = rustix::fs::sendfile(&*stream, file, Some(&mut position), left)?;
            Ok(sent)
        });
        match sent {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
