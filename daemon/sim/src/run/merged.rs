// SPDX-License-Identifier: Apache-2.0
//! Blocks of Spark's own push, and what was merged of them.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use lodestone_model::{ReduceId, ShuffleKey};
use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::frame::MergedBlockMetaRequest;
use lodestone_wire::spark::finalize::FinalizeShuffleMerge;
use lodestone_wire::spark::push::{BlockPushReturnCode, PushBlockStream, PushCode};

use super::rest::LAST;
use super::{Judged, Run};
use crate::client::{
    MERGE_DIRS, fetch_merged, finalize_merge, meta_request, path_of, remove_merged,
};
use crate::model::{MergedFiles, Seen, Trouble};
use crate::network::{Envelope, Packet};

/// Where a file of a merged partition is.
fn merged_path(key: &ShuffleKey, reduce: ReduceId, end: &str) -> PathBuf {
    let ShuffleKey {
        app,
        shuffle,
        generation,
        ..
    } = key;
    let name = format!("shuffleMerged_{app}_{shuffle}_{generation}_{reduce}.{end}");
    path_of(&MERGE_DIRS.map(str::to_owned), &name)
}

impl Run {
    /// Judges the answer to a block of Spark's own push.
    pub(super) fn judge_block(
        &mut self,
        meta: &Bytes,
        body: &Bytes,
        answer: &Answer,
        trouble: Trouble,
    ) -> Judged {
        let block = PushBlockStream::from_bytes(meta).map_err(|error| error.to_string())?;
        let index = merged_path(&block.key, block.reduce_id, "index");
        let seen = Seen {
            was_finalized: self.world.disk.fake.content(&index).is_some(),
            has_begun: self.world.has_begun(&block.key),
        };
        self.model.block((meta, body), answer, trouble, seen)?;
        if trouble.removals {
            // Threads that write out work after the answer too: what it took may be gone now.
            self.model.doubt_blocks();
        }
        let code = match answer {
            Answer::Response(bytes) => BlockPushReturnCode::from_bytes(bytes).ok(),
            _ => None,
        };
        self.count(match code.map(|reply| reply.code) {
            Some(PushCode::Success) => "block merged",
            Some(PushCode::TooLate) => "block that is too late",
            Some(PushCode::Stale) => "block of an older generation",
            Some(PushCode::TooOldAttempt) => "block of another application attempt",
            Some(PushCode::Collision) => return Err("a block collided".to_owned()),
            None => "block not merged",
        });
        Ok(())
    }

    /// Executors on the host read these files themselves when a finalize is answered.
    pub(super) fn check_merged_files(&mut self, request: &[u8]) -> Judged {
        let Ok(FinalizeShuffleMerge { key }) = FinalizeShuffleMerge::from_bytes(request) else {
            return Ok(());
        };
        self.count("finalized");
        let fake = &self.world.disk.fake;
        self.model.merged_files(&key, |reduce| {
            let content = |end| fake.content(&merged_path(&key, reduce, end));
            Some(MergedFiles {
                data: content("data")?,
                index: content("index")?,
                meta: content("meta")?,
            })
        })
    }

    pub(super) fn meta(&mut self, envelope: &Envelope, request: &MergedBlockMetaRequest) -> Judged {
        let connection = envelope.connection;
        let Some(answer) = self.world.merged_meta(connection, request) else {
            return Ok(());
        };
        let bytes = answer
            .as_ref()
            .map_or(Bytes::new(), |(_, bytes)| bytes.clone());
        self.trace
            .record("chunks of a merged partition", &bytes, || {
                format!("{request:?}: {answer:?}")
            });
        let Some(trouble) = self.settle()? else {
            return Ok(());
        };
        let is_troubled = trouble.metadata;
        self.model.merged_meta(request, &answer, is_troubled)?;
        if let Ok((chunks, _)) = answer {
            self.count("chunks of a merged partition");
            let way = (&mut self.dice, &mut self.network);
            self.clients.hear_meta(connection, request, chunks, way);
        }
        Ok(())
    }

    /// Finalizes what is open, reads all of it, and has it removed: no file of it stays.
    pub(super) fn end_spark_push(&mut self) -> Judged {
        for key in self.model.merges() {
            self.ask(&finalize_merge(key.clone()))?;
            // Files of others may be of a daemon that was killed.
            let merged = self.model.merged_partitions(&key);
            for reduce in &merged {
                let request = meta_request(&key, *reduce);
                let Some(answer) = self.world.merged_meta(LAST, &request) else {
                    continue;
                };
                self.model.merged_meta(&request, &answer, false)?;
                if let Ok((chunks, _)) = answer {
                    let stream = self.ask(&fetch_merged(&request, chunks))?;
                    self.read_stream(&stream.unwrap_or_default())?;
                }
            }
            let body = remove_merged(key.clone());
            let envelope = Envelope {
                connection: LAST,
                request: 0,
                packet: Packet::OneWay(body.clone()),
            };
            self.one_way(&envelope, &body)?;
            for reduce in merged {
                for end in ["data", "index", "meta"] {
                    self.check_gone(&merged_path(&key, reduce, end))?;
                }
            }
        }
        Ok(())
    }

    fn check_gone(&self, path: &Path) -> Judged {
        match self.world.disk.fake.content(path) {
            Some(_) => Err(format!("{} is left of a removed merge", path.display())),
            None => Ok(()),
        }
    }
}
