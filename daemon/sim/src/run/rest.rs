// SPDX-License-Identifier: Apache-2.0
//! The end of a run: all faults end, everything that must be there is read, and everything is
//! removed.

use bytes::Bytes;
use lodestone_model::AppId;
use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::extension::fetch::{FetchSegments, SegmentLayoutReply};
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::spark::fetch::StreamHandle;

use super::{Judged, Run};
use std::path::Path;

use crate::check;
use crate::client::{EXECUTOR_DIRS, EXECUTOR_DISKS, PUSHING_DIRS, every_executor};
use crate::network::{Envelope, Packet};

/// A daemon may be killed while it starts, or meet an announced fault: the next one does not.
const STARTS_MAX: usize = 3;

/// Longer than a bad disk is out of use.
const REST_MS: u64 = 6_000;

/// The connection of the last reader.
pub(super) const LAST: u64 = 99;

impl Run {
    /// Nothing goes wrong any more, and messages on their way arrive.
    pub(super) fn come_to_rest(&mut self) -> Judged {
        self.mend();
        self.world.clock.advance_ms(REST_MS);
        for _ in 0..STARTS_MAX {
            if !self.world.is_up() {
                self.start()?;
            }
        }
        if !self.world.is_up() {
            return Err("the daemon does not start".to_owned());
        }
        while !self.network.is_empty() || !self.pending.is_empty() {
            self.arrive()?;
            self.finish_one()?;
        }
        Ok(())
    }

    pub(super) fn ask(&mut self, body: &Bytes) -> Judged<Option<Bytes>> {
        let envelope = Envelope {
            connection: LAST,
            request: 0,
            packet: Packet::Rpc(body.clone()),
        };
        match self.rpc(&envelope, body)? {
            Some(Answer::Response(response)) => Ok(Some(response)),
            _ => Ok(None),
        }
    }

    /// Commits every attempt, reads every segment of every shuffle, and asks for those that must
    /// not be there.
    pub(super) fn read_everything(&mut self) -> Judged {
        for commit in self.model.commits() {
            self.ask(&commit.to_bytes())?;
        }
        for (key, partitions) in self.model.shuffles() {
            let layout = crate::client::full_layout(&key, partitions);
            let answer = self.ask(&layout)?.unwrap_or_default();
            let Ok(layout) = SegmentLayoutReply::from_bytes(&answer) else {
                continue;
            };
            self.read(&crate::client::full_fetch(&key, &layout))?;
        }
        for (key, reduce, slot) in self.model.gone() {
            self.read(&crate::client::fetch_one(&key, reduce, slot))?;
        }
        match self.sends_a_chunk() {
            true => Err("a chunk was not sent".to_owned()),
            false => Ok(()),
        }
    }

    /// Takes all chunks of a stream.
    fn read(&mut self, fetch: &FetchSegments) -> Judged {
        let answer = self.ask(&fetch.to_bytes())?.unwrap_or_default();
        self.read_stream(&answer)
    }

    pub(super) fn read_stream(&mut self, answer: &[u8]) -> Judged {
        let Ok(handle) = StreamHandle::from_bytes(answer) else {
            return Ok(());
        };
        let stream = handle.stream_id;
        for index in 0..handle.num_chunks.cast_signed() {
            let packet = Packet::Chunk { stream, index };
            let envelope = Envelope {
                connection: LAST,
                request: 0,
                packet,
            };
            self.chunk(envelope, stream, index)?;
            self.finish_one()?;
        }
        Ok(())
    }

    /// Ends every application, and the daemon; starts another one, and looks for files that were
    /// left.
    pub(super) fn clear_up(&mut self) -> Judged {
        self.check_files()?;
        self.read_originals()?;
        self.end_spark_push()?;
        for disk in EXECUTOR_DISKS {
            self.world.disk.fake.wipe(Path::new(disk));
        }
        for dir in EXECUTOR_DIRS.iter().chain(&PUSHING_DIRS) {
            self.model.vanish(dir);
        }
        self.end_applications()?;
        self.check_floor()?;
        check::no_open_files(&self.world)?;
        self.stop()?;
        self.start()?;
        // A daemon that could not read its directories may have left something to this one.
        self.end_applications()?;
        self.stop()?;
        check::leftovers(&self.world, None, &self.foreign)
    }

    /// Asks for every executor, and reads all of their blocks.
    fn read_originals(&mut self) -> Judged {
        for question in every_executor() {
            let answer = self.ask(&question)?.unwrap_or_default();
            self.read_stream(&answer)?;
        }
        Ok(())
    }

    fn end_applications(&mut self) -> Judged {
        for (name, app_attempt) in self.model.applications() {
            if let Ok(app) = AppId::new(&name) {
                self.ask(&EndApplication { app, app_attempt }.to_bytes())?;
            }
        }
        Ok(())
    }
}
