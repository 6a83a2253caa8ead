// SPDX-License-Identifier: Apache-2.0
//! Requests with more elements than the daemon takes, which it refuses before it decodes them: an
//! element that takes four bytes of a request may take many times as much as a value.

use lodestone_model::{Code, Refusal};
use lodestone_store::{EXECUTORS_MAX, LOCAL_DIRS_MAX};
use lodestone_wire::Message;
use lodestone_wire::extension::fetch::FetchSegments;
use lodestone_wire::spark::fetch::FetchShuffleBlockChunks;
use lodestone_wire::spark::originals::{FetchShuffleBlocks, OpenBlocks};
use lodestone_wire::spark::register::{GetLocalDirsForExecutors, RegisterExecutor};

use crate::streams::{MAX_BYTES, MAX_CHUNKS, StreamItem};

/// Requests up to this size are no harm, whatever is in them.
const SHORT_BYTES: usize = 16 << 10;

/// Elements of a list whose stream has this size for each.
const MIXED: usize = MAX_BYTES / size_of::<StreamItem>();

/// Where the number of elements is: behind so many strings, and so many bytes.
struct Count {
    strings: usize,
    bytes: usize,
    most: usize,
}

impl Count {
    fn of(id: u8) -> Option<Self> {
        let (strings, bytes, most) = match id {
            OpenBlocks::ID => (2, 0, MIXED),
            FetchShuffleBlocks::ID => (2, 4, MAX_CHUNKS),
            FetchShuffleBlockChunks::ID => (2, 8, MIXED),
            GetLocalDirsForExecutors::ID => (1, 0, EXECUTORS_MAX),
            RegisterExecutor::ID => (2, 0, LOCAL_DIRS_MAX),
            // Attempt, incarnation, shuffle, generation.
            FetchSegments::ID => (1, 20, MAX_CHUNKS),
            _ => return None,
        };
        Some(Self {
            strings,
            bytes,
            most,
        })
    }

    /// The number of elements. `None`: the request ends before that, as its decoder will say.
    fn read(&self, body: &[u8]) -> Option<usize> {
        let mut rest = body.get(1..)?;
        for _ in 0..self.strings {
            let length = number(rest)?;
            rest = rest.get(4..)?.get(length..)?;
        }
        number(rest.get(self.bytes..)?)
    }
}

fn number(bytes: &[u8]) -> Option<usize> {
    let number = i32::from_be_bytes(*bytes.first_chunk()?);
    usize::try_from(number).ok()
}

/// Refuses a request with too many elements.
pub(super) fn check(body: &[u8]) -> Result<(), Refusal> {
    if body.len() <= SHORT_BYTES {
        return Ok(());
    }
    let count = body.first().and_then(|id| Count::of(*id));
    match count.and_then(|count| Some((count.read(body)?, count.most))) {
        Some((count, most)) if count > most => {
            let detail = format!("a request with {count} names, at most {most}: ask in parts");
            Err(Code::TooLarge.because(detail))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use lodestone_model::{AppId, MapId, ReduceId, ShuffleId};

    use super::*;

    fn app() -> AppId {
        AppId::new("application_1").unwrap()
    }

    fn names(count: usize) -> OpenBlocks {
        OpenBlocks {
            app: app(),
            exec_id: "1".to_owned(),
            block_ids: vec![String::new(); count],
        }
    }

    #[test]
    fn more_elements_than_a_stream_may_have_are_refused_by_their_number() {
        assert_eq!(check(&names(MIXED).to_bytes()), Ok(()));
        let refusal = check(&names(MIXED + 1).to_bytes()).unwrap_err();
        assert_eq!(refusal.code, Code::TooLarge);
        let blocks = |count| FetchShuffleBlocks {
            app: app(),
            exec_id: "1".to_owned(),
            shuffle_id: ShuffleId(0),
            blocks: vec![(MapId(0), vec![ReduceId(0)]); count],
            batch: false,
        };
        assert_eq!(check(&blocks(MAX_CHUNKS).to_bytes()), Ok(()));
        assert!(check(&blocks(MAX_CHUNKS + 1).to_bytes()).is_err());
    }

    #[test]
    fn a_request_that_ends_too_early_is_left_to_its_decoder() {
        let whole = names(MIXED + 1).to_bytes();
        let mut cut = whole.slice(..20).to_vec();
        cut.resize(SHORT_BYTES + 1, 0xff);
        assert_eq!(check(&cut), Ok(()));
    }
}
