// SPDX-License-Identifier: Apache-2.0
//! The events of a run: a hash of all of them, and on request the story.

use std::fmt::Debug;

use lodestone_wire::extension::{commit, fetch, hello, lease, push, register, remove, status};
use lodestone_wire::{Message, spark};

/// Longest message in the story.
const WORDS_CHARS: usize = 400;

/// The events of a run, in order.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    events: u64,
    story: Option<Vec<String>>,
}

impl Trace {
    /// Returns a trace that only hashes, or one that keeps the story too.
    pub fn new(keeps_story: bool) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            events: 0,
            story: keeps_story.then(Vec::new),
        }
    }

    /// Records an event and its bytes. Only the story needs the words.
    pub fn record(&mut self, event: &str, bytes: &[u8], words: impl FnOnce() -> String) {
        // The checksum stands for long bodies: hashing byte by byte is slow in test builds.
        let checksum = crc32c::crc32c(bytes).to_be_bytes();
        for byte in event.as_bytes().iter().chain(&checksum) {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.events += 1;
        if let Some(story) = &mut self.story {
            story.push(format!("{event} {}", words()));
        }
    }

    /// Hash of everything so far: the same for the same seed.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the last events in words, if the trace keeps the story.
    pub fn last(&self, count: usize) -> &[String] {
        let story = self.story.as_deref().unwrap_or_default();
        story
            .get(story.len().saturating_sub(count)..)
            .unwrap_or_default()
    }
}

/// A message in words, if it is one of a certain kind.
type Show = fn(&[u8]) -> Option<String>;

/// A message of the simulation in words.
pub fn words(message: &[u8]) -> String {
    fn shown<M: Message + Debug>(bytes: &[u8]) -> Option<String> {
        M::from_bytes(bytes)
            .ok()
            .map(|message| format!("{message:?}"))
    }
    let shows: [Show; 26] = [
        shown::<hello::Hello>,
        shown::<hello::HelloReply>,
        shown::<lease::RenewLease>,
        shown::<lease::LeaseReply>,
        shown::<register::RegisterShuffle>,
        shown::<push::PushBatch>,
        shown::<push::PushBatchReply>,
        shown::<commit::CommitMap>,
        shown::<commit::AbortMap>,
        shown::<fetch::SegmentLayout>,
        shown::<fetch::SegmentLayoutReply>,
        shown::<fetch::FetchSegments>,
        shown::<spark::fetch::StreamHandle>,
        shown::<spark::remove::RemoveShuffleMerge>,
        shown::<spark::remove::RemoveBlocks>,
        shown::<spark::register::RegisterExecutor>,
        shown::<spark::register::GetLocalDirsForExecutors>,
        shown::<spark::originals::OpenBlocks>,
        shown::<spark::originals::FetchShuffleBlocks>,
        shown::<spark::push::PushBlockStream>,
        shown::<spark::push::BlockPushReturnCode>,
        shown::<spark::finalize::FinalizeShuffleMerge>,
        shown::<spark::finalize::MergeStatuses>,
        shown::<spark::fetch::FetchShuffleBlockChunks>,
        shown::<remove::EndApplication>,
        shown::<status::Done>,
    ];
    let known = shows.into_iter().find_map(|show| show(message));
    let text = known
        .or_else(|| shown::<status::Refused>(message))
        .unwrap_or_default();
    text.chars().take(WORDS_CHARS).collect()
}
