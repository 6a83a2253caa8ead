// SPDX-License-Identifier: Apache-2.0
//! The protocol of the bare loop (`server/bare.rs`): Spark's frames with almost nothing in them.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use lodestone_wire::Frame;
use lodestone_wire::spark::fetch::StreamHandle;

use super::{CHUNK_BYTES, Expect, FetchWords, Part, Planned, PushWords, Shuffle, Verdict, read};
use crate::error::{LinkError, Wrong};
use crate::net::link::ask;
use crate::workload::PushRange;

/// Bytes of a request.
const REQUEST_BYTES: usize = 1 + 4 + 4;

/// The commands of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Append the bytes that follow to a file.
    Append { shuffle: u32, file: u32 },
    /// Open a stream over all of a file.
    Open { shuffle: u32, file: u32 },
    /// Delete the files of a shuffle.
    Remove { shuffle: u32 },
}

impl Request {
    pub(crate) fn to_bytes(self) -> Bytes {
        let (kind, shuffle, file) = match self {
            Self::Append { shuffle, file } => (0, shuffle, file),
            Self::Open { shuffle, file } => (1, shuffle, file),
            Self::Remove { shuffle } => (2, shuffle, 0),
        };
        let mut out = BytesMut::with_capacity(REQUEST_BYTES);
        out.put_u8(kind);
        out.put_u32(shuffle);
        out.put_u32(file);
        out.freeze()
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() != REQUEST_BYTES {
            return None;
        }
        let (kind, shuffle, file) = (bytes.get_u8(), bytes.get_u32(), bytes.get_u32());
        match kind {
            0 => Some(Self::Append { shuffle, file }),
            1 => Some(Self::Open { shuffle, file }),
            2 => Some(Self::Remove { shuffle }),
            _ => None,
        }
    }
}

pub(crate) async fn remove(shuffle: &Shuffle) -> Result<(), LinkError> {
    let shuffle_id = shuffle.workload.shuffle;
    let request = Request::Remove {
        shuffle: shuffle_id,
    };
    ask(shuffle.address, request.to_bytes()).await.map(drop)
}

/// Requests about one shuffle.
#[derive(Debug)]
pub struct Words {
    shuffle: u32,
    files: u32,
}

impl Words {
    /// About this one.
    pub fn of(shuffle: &Shuffle) -> Self {
        Self {
            shuffle: shuffle.workload.shuffle,
            files: shuffle.workload.partitions,
        }
    }

    fn open_file(&self, part: Part) -> Bytes {
        let (shuffle, file) = (self.shuffle, part.partition);
        Request::Open { shuffle, file }.to_bytes()
    }
}

impl PushWords for Words {
    fn one_by_one(&self) -> bool {
        false
    }

    fn meta(&self, connection: u32, _range: PushRange) -> Bytes {
        let (shuffle, file) = (self.shuffle, connection % self.files);
        Request::Append { shuffle, file }.to_bytes()
    }

    fn verdicts(&self, range: PushRange, answer: &[u8]) -> Result<Vec<Verdict>, Wrong> {
        if answer.is_empty() {
            Ok(vec![Verdict::Merged; range.blocks().len()])
        } else {
            Err(Wrong::Unexpected("bytes in an empty answer".to_owned()))
        }
    }
}

impl FetchWords for Words {
    fn layout(&self, part: Part, request_id: i64) -> Option<Frame> {
        let body = self.open_file(part);
        Some(Frame::RpcRequest { request_id, body })
    }

    fn planned(&self, _part: Part, answer: Option<Frame>) -> Result<Vec<Planned>, Wrong> {
        let body = match answer {
            Some(Frame::RpcResponse { body, .. }) => body,
            other => return Err(Wrong::Unexpected(format!("{other:?}"))),
        };
        let chunks = read::<StreamHandle>("a stream", &body)?.num_chunks;
        let chunk = |index| Planned {
            index,
            bytes: CHUNK_BYTES,
            expect: Expect::Any,
        };
        Ok((0..chunks).map(chunk).collect())
    }

    fn by_partition(&self) -> bool {
        false
    }

    fn open(&self, part: Part, _planned: &[Planned]) -> Bytes {
        self.open_file(part)
    }
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn requests_come_back_from_their_bytes() {
        let (shuffle, file) = (7, 70_000);
        for request in [
            Request::Append { shuffle, file },
            Request::Open { shuffle, file },
            Request::Remove { shuffle },
        ] {
            assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
        }
        assert_eq!(Request::from_bytes(&[9; 9]), None);
        assert_eq!(Request::from_bytes(&[0; 8]), None);
    }
}
