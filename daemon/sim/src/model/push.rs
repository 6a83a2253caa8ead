// SPDX-License-Identifier: Apache-2.0
//! Push: the code that each segment of a batch must get, and the segments that are there after it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use bytes::Bytes;
use lodestone_model::{Code, ReduceId, Segment, ShuffleId};
use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::spark::push::PushBlockStream;

use super::refusal::{Judged, agree, refused_or};
use super::{Laid, Model, Shuffle, Trouble, decoded};
use crate::world::disk::Written;

impl Model {
    /// Judges a refusal that came before the body: only for an unknown shuffle, or an error that is
    /// visible in the request, may it come so early.
    pub fn refused_upload(&mut self, meta: &[u8], body: &Bytes, answer: &Answer) -> Judged {
        if meta.first() == Some(&PushBlockStream::ID) {
            return self.refused_block(answer);
        }
        let batch: PushBatch = decoded(meta)?;
        let expected = match self.shuffle(&batch.key, Code::TooLate) {
            Err(code) if code != Code::TooLate => Err(code),
            _ if sum(&batch) != body.len() as u64 => Err(Code::Malformed),
            _ => Ok(()),
        };
        refused_or::<PushBatchReply>(answer, self.incarnation, expected).map(|_| ())
    }

    /// Judges the answer to a batch.
    pub fn upload(
        &mut self,
        meta: &[u8],
        body: &Bytes,
        answer: &Answer,
        trouble: Trouble,
    ) -> Judged {
        let batch: PushBatch = decoded(meta)?;
        let (incarnation, draining) = (self.incarnation, self.draining);
        let found = self.shuffle(&batch.key, Code::TooLate);
        let expected = match &found {
            Err(Code::TooLate) => Ok(()),
            Err(code) => Err(*code),
            Ok(shuffle) if shuffle.is_malformed(&batch, body) => Err(Code::Malformed),
            Ok(_) => Ok(()),
        };
        let reply: Option<PushBatchReply> = refused_or(answer, incarnation, expected)?;
        let Some(reply) = reply else {
            return Ok(());
        };
        agree("incarnation", &reply.incarnation, &incarnation)?;
        agree("codes", &reply.codes.len(), &batch.segments.len())?;
        match found {
            Ok(shuffle) => {
                shuffle.take(&batch, body, &reply.codes, trouble, draining)?;
                shuffle.commit_whole(&batch, &reply)
            }
            Err(_) => {
                let late = vec![Code::TooLate; reply.codes.len()];
                agree("codes of a late push", &reply.codes, &late)?;
                agree("commit of a late push", &reply.is_committed, &false)
            }
        }
    }
}

impl Model {
    /// Takes writes that worked: segments whose bytes are in them are on file now.
    pub fn written(&mut self, writes: &[Written]) {
        for write in writes {
            if let Some(shuffle) = self.shuffle_of(&write.path) {
                shuffle.written(&write.bytes);
            }
        }
    }

    /// The shuffle of a file: `<application>-s<shuffle>-m<generation>-<n>/<name>.data`.
    fn shuffle_of(&mut self, path: &Path) -> Option<&mut Shuffle> {
        let dir = path.parent()?.file_name()?.to_str()?;
        let (name, _) = dir.rsplit_once('-')?;
        let (name, generation) = name.rsplit_once("-m")?;
        let (app, shuffle) = name.rsplit_once("-s")?;
        let application = self.applications.get_mut(app)?;
        let shuffle = ShuffleId(shuffle.parse().ok()?);
        let shuffle = application.shuffles.get_mut(&shuffle)?;
        (shuffle.generation.to_string() == generation).then_some(shuffle)
    }
}

/// This many bytes distinguish a segment from all others.
const UNIQUE_BYTES: usize = 16;

impl Shuffle {
    /// Looks for segments in the written bytes. A tail is written as a whole and in order, so all
    /// segments before one that is found are on file too, also those that are too short to be
    /// distinguished.
    fn written(&mut self, bytes: &[u8]) {
        let mut waiting: HashMap<&[u8], (ReduceId, usize, &Bytes)> = HashMap::new();
        for (reduce, laid) in &self.laid {
            for (at, laid) in laid.iter().enumerate().filter(|(_, laid)| !laid.on_file) {
                if let Some(start) = laid.bytes.get(..UNIQUE_BYTES) {
                    waiting.insert(start, (*reduce, at, &laid.bytes));
                }
            }
        }
        let mut found: BTreeMap<ReduceId, usize> = BTreeMap::new();
        let mut rest = bytes;
        while let Some(start) = rest.get(..UNIQUE_BYTES) {
            let skipped = match waiting.get(start) {
                Some((reduce, at, whole)) if rest.starts_with(whole) => {
                    let last = found.entry(*reduce).or_default();
                    *last = (*last).max(*at);
                    whole.len()
                }
                _ => 1,
            };
            rest = rest.get(skipped..).unwrap_or_default();
        }
        for (reduce, last) in found {
            let laid = self.laid.get_mut(&reduce).into_iter().flatten();
            // It is unknown whether segments that may be gone were in the tail.
            for laid in laid.take(last + 1).filter(|laid| laid.sure) {
                laid.on_file = true;
            }
        }
    }
}

impl Shuffle {
    fn is_malformed(&self, batch: &PushBatch, body: &Bytes) -> bool {
        let bad = |segment: &Segment| {
            let sequence = segment.sequence;
            let ends = sequence > 1 && sequence % 2 == 1 && segment.records == 0;
            segment.reduce_id.0 >= self.partitions || (segment.length == 0 && !ends)
        };
        batch.map_index.0 >= self.maps
            || batch.segments.iter().any(bad)
            || sum(batch) != body.len() as u64
    }
}

/// The segments of a batch, with their bytes.
pub(super) fn pieces<'a>(batch: &'a PushBatch, body: &'a Bytes) -> impl Iterator<Item = Laid> + 'a {
    let mut start = 0;
    batch.segments.iter().map(move |segment| {
        let end = start + segment.length as usize;
        let bytes = body.slice(start..end);
        start = end;
        Laid {
            segment: segment.laid(batch.map_index, batch.map_id),
            bytes,
            on_file: false,
            sure: true,
            gone: false,
        }
    })
}

/// Returns true for the codes of a disk that is full or fails.
pub(super) fn is_disk(code: Code) -> bool {
    matches!(
        code,
        Code::DiskFull | Code::DiskFailed | Code::Overloaded | Code::Quota
    )
}

fn sum(batch: &PushBatch) -> u64 {
    let lengths = batch.segments.iter().map(|s| u64::from(s.length));
    lengths.sum()
}
