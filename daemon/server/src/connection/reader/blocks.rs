// SPDX-License-Identifier: Apache-2.0
//! Removes blocks of executors, those on each disk for themselves. A disk that hangs keeps its
//! blocks until it works again; those on other disks are removed meanwhile.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lodestone_store::NamedBlocks;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use super::carry_out;
use crate::connection::CloseReason;
use crate::handler::{self, Answer, Call};
use crate::service::lanes::Kind;

/// How long some hundred names of a request wait for their disks. Much longer than a disk in use
/// needs for them, and much less than Spark waits for the answer. Once that was too short, the next
/// names of the request do not wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The memory of a name, beside its text.
const NAME_BYTES: u64 = 48;

/// The removal of the blocks of one request.
pub(super) struct BlockRemoval {
    call: Call,
    /// A disk took too long for earlier names: the next ones do not wait for theirs.
    is_late: bool,
}

/// What is under way.
#[derive(Default)]
struct Parts {
    tasks: JoinSet<Part>,
    /// Names that are not removed yet, and their memory.
    names: u32,
    bytes: u64,
    removed: u32,
}

/// The blocks on one disk, and how many of them were removed.
struct Part {
    names: u32,
    bytes: u64,
    done: Result<Result<u32, Answer>, JoinError>,
}

/// Removes the blocks of a request, and answers. Their names are decoded in parts, each on a thread
/// for calls that use memory only: a request may have 8 MiB of them, and the threads for removals
/// may hang.
pub(super) async fn remove_blocks(call: &Call, body: Bytes) -> Result<Answer, CloseReason> {
    let begin = move |call: &Call| handler::Removal::begin(call, body);
    let mut left = match carry_out(call.clone(), Kind::Control, begin).await? {
        Ok(left) => left,
        Err(answer) => return Ok(answer),
    };
    let (mut removal, mut removed) = (BlockRemoval::new(call.clone()), 0);
    loop {
        let decode = move |call: &Call| {
            let by_place = left.next_by_place(call);
            (left, by_place)
        };
        let (rest, by_place) = carry_out(call.clone(), Kind::Control, decode).await?;
        left = rest;
        match by_place {
            Ok(none) if none.is_empty() => return Ok(handler::removed(removed)),
            Ok(by_place) => match removal.remove(by_place).await? {
                Ok(count) => removed += count,
                Err(answer) => return Ok(answer),
            },
            Err(answer) => return Ok(answer),
        }
    }
}

impl BlockRemoval {
    pub(super) fn new(call: Call) -> Self {
        Self {
            call,
            is_late: false,
        }
    }

    /// Removes these blocks, and counts them. If a disk takes too long, its blocks count as removed
    /// and are removed later, unless too many wait already: then the request waits for its disk.
    pub(super) async fn remove(
        &mut self,
        by_place: Vec<NamedBlocks>,
    ) -> Result<Result<u32, Answer>, CloseReason> {
        let mut parts = Parts::default();
        for some in by_place {
            parts.begin(&self.call, some);
        }
        let longest = match self.is_late {
            true => Duration::ZERO,
            false => LONGEST_WAIT,
        };
        if let Ok(done) = timeout(longest, parts.end()).await {
            return done;
        }
        self.is_late = true;
        match self.call.service.removals.try_reserve(parts.bytes) {
            Some(mut memory) => {
                let counted = parts.removed + parts.names;
                tokio::spawn(async move {
                    while let Some(part) = parts.tasks.join_next().await {
                        parts.bytes -= part.map_or(0, |part| part.bytes);
                        memory.shrink_to(parts.bytes);
                    }
                });
                Ok(Ok(counted))
            }
            None => parts.end().await,
        }
    }
}

impl Parts {
    fn begin(&mut self, call: &Call, some: NamedBlocks) {
        let place = some.place();
        let names = u32::try_from(some.names().len()).unwrap_or(u32::MAX);
        let texts = some.names().iter();
        let bytes = texts.map(|name| name.len() as u64 + NAME_BYTES).sum();
        self.names += names;
        self.bytes += bytes;
        let (service, call) = (Arc::clone(&call.service), call.clone());
        self.tasks.spawn(async move {
            let remove = move || handler::remove_some(&call, &some);
            let done = service.lanes.run_at(Kind::Removal, &[place], remove).await;
            Part { names, bytes, done }
        });
    }

    /// Waits for all of them. May be given up, and begun again.
    async fn end(&mut self) -> Result<Result<u32, Answer>, CloseReason> {
        while let Some(part) = self.tasks.join_next().await {
            let part = part.map_err(|_| CloseReason::Panic)?;
            self.names -= part.names;
            self.bytes -= part.bytes;
            match part.done.map_err(|_| CloseReason::Panic)? {
                Ok(count) => self.removed += count,
                Err(answer) => return Ok(Err(answer)),
            }
        }
        Ok(Ok(self.removed))
    }
}
