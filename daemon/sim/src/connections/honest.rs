// SPDX-License-Identifier: Apache-2.0
//! Clients that keep the rules: a driver, whose requests use memory only, and applications that
//! push, commit and read what they pushed.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lodestone_model::{
    AppAttempt, AppId, Code, Crc32c, GenerationId, Ledger, MapId, MapIndex, Mode, ReduceId,
    Segment, ShuffleId, ShuffleKey, ShuffleSpec,
};
use lodestone_wire::Message;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::CommitMap;
use lodestone_wire::extension::fetch::SegmentLayoutReply;
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::{Done, Refused};
use lodestone_wire::spark::fetch::StreamHandle;
use tokio::time::sleep;

use super::session::{Asked, BACKOFF, MEMORY_ONLY, Session, Work};
use crate::client::{full_fetch, full_layout};
use crate::dice::Dice;

/// The longest time for requests that may wait for a lock of the store.
const QUESTION: Duration = Duration::from_secs(15);

/// The longest time for pushes and chunks, which wait for memory and threads.
pub(super) const DATA: Duration = Duration::from_secs(15);

/// Attempts at a request that the daemon refuses because it has no room.
const REFUSALS: usize = 2_000;

/// Segments of a push whose list takes more than 64 KiB.
const WIDE_SEGMENTS: u32 = 4_000;

/// Number of the first shuffle for such pushes.
const WIDE_SHUFFLES: usize = 1_000;

/// A driver that asks for what needs memory only.
pub(super) async fn drive(mut session: Session, rounds: usize) -> Work {
    for round in 0..rounds {
        let incarnation = session.incarnation().await?;
        let key = key(&session, round, incarnation)?;
        register(&mut session, &key, Mode::Merge, (1, 1)).await?;
        end(&mut session, &key).await?;
        sleep(Duration::from_millis(session.dice.below(4_000) as u64)).await;
    }
    Ok(())
}

/// An application: it pushes, commits, reads and removes one shuffle after another.
pub(super) async fn work(mut session: Session, rounds: usize) -> Work {
    for round in 0..rounds {
        let incarnation = session.incarnation().await?;
        let key = key(&session, round, incarnation)?;
        let mode = match session.dice.chance(50) {
            true => Mode::Merge,
            false => Mode::Remote,
        };
        let maps = 1 + session.dice.below(4) as u32;
        let partitions = 1 + session.dice.below(6) as u32;
        register(&mut session, &key, mode, (maps, partitions)).await?;
        let mut pushed = Vec::new();
        for map in 0..maps {
            push(&mut session, &key, mode, map, partitions, &mut pushed).await?;
        }
        if session.dice.chance(20) {
            push_wide(&mut session, round, incarnation).await?;
        }
        for _ in 0..1 + session.dice.below(3) {
            read(&mut session, &key, partitions, &pushed).await?;
        }
        end(&mut session, &key).await?;
    }
    Ok(())
}

pub(super) fn key(session: &Session, round: usize, incarnation: i64) -> Work<ShuffleAddress> {
    let app = AppId::new(&session.name).map_err(|error| error.to_string())?;
    Ok(ShuffleAddress {
        shuffle: ShuffleKey {
            app,
            attempt: Some(AppAttempt::NONE),
            shuffle: ShuffleId(round as i32),
            generation: GenerationId(0),
        },
        incarnation,
    })
}

pub(super) async fn register(
    session: &mut Session,
    key: &ShuffleAddress,
    mode: Mode,
    (num_maps, num_partitions): (u32, u32),
) -> Work {
    let register = RegisterShuffle {
        key: key.clone(),
        spec: ShuffleSpec {
            mode,
            num_maps,
            num_partitions,
            format: "spark-stream".to_owned(),
        },
    };
    let _: Done = session.rpc(&register.to_bytes(), MEMORY_ONLY).await?;
    Ok(())
}

async fn end(session: &mut Session, key: &ShuffleAddress) -> Work {
    let end = EndApplication {
        app: key.shuffle.app.clone(),
        app_attempt: AppAttempt::NONE,
    };
    let _: Done = session.rpc(&end.to_bytes(), MEMORY_ONLY).await?;
    Ok(())
}

/// A block of a map output.
#[derive(Clone, Debug)]
pub(super) struct Block {
    map: u32,
    reduce: u32,
    bytes: Bytes,
}

/// Pushes the output of a map in one or several batches, and commits it.
async fn push(
    session: &mut Session,
    key: &ShuffleAddress,
    mode: Mode,
    map: u32,
    partitions: u32,
    pushed: &mut Vec<Block>,
) -> Work {
    let map_id = MapId(i64::from(map));
    let batches = 1 + session.dice.below(2) as u32;
    let mut ledger = Ledger::default();
    let mut first_segment = 0;
    for batch in 0..batches {
        let blocks = (0..partitions).filter(|reduce| reduce % batches == batch);
        let blocks: Vec<Block> = blocks
            .map(|reduce| Block {
                map,
                reduce,
                bytes: content(&mut session.dice, session.block_bytes),
            })
            .collect();
        let request = batch_of(key, mode, (map, first_segment, batches == 1), &blocks);
        first_segment += blocks.len() as u32;
        if blocks.is_empty() {
            continue;
        }
        ledger = ledger.and(request.ledger());
        push_batch(session, &request, &blocks, DATA).await?;
        pushed.extend(blocks);
    }
    let commit = CommitMap {
        key: key.clone(),
        map_index: MapIndex(map),
        map_id,
        pushed: ledger,
    };
    let _: Done = session.rpc(&commit.to_bytes(), QUESTION).await?;
    Ok(())
}

/// A batch of a map attempt: its map, the number of its first segment, and whether it is all.
fn batch_of(
    key: &ShuffleAddress,
    mode: Mode,
    (map, first_segment, is_whole): (u32, u32, bool),
    blocks: &[Block],
) -> PushBatch {
    let segments = (first_segment..)
        .zip(blocks)
        .map(|(number, block)| Segment {
            reduce_id: ReduceId(block.reduce),
            sequence: match mode {
                Mode::Merge => 1,
                Mode::Remote => 2 * number + 1,
            },
            length: block.bytes.len() as u32,
            records: 1,
            crc32c: Crc32c(crc32c::crc32c(&block.bytes)),
        });
    PushBatch {
        key: key.clone(),
        map_index: MapIndex(map),
        map_id: MapId(i64::from(map)),
        first_segment,
        is_whole,
        segments: segments.collect(),
    }
}

/// Pushes a batch whose list of segments is a large frame, to a shuffle of its own.
async fn push_wide(session: &mut Session, round: usize, incarnation: i64) -> Work {
    let key = key(session, WIDE_SHUFFLES + round, incarnation)?;
    register(session, &key, Mode::Merge, (1, WIDE_SEGMENTS)).await?;
    let blocks: Vec<Block> = (0..WIDE_SEGMENTS)
        .map(|reduce| Block {
            map: 0,
            reduce,
            bytes: Bytes::from_static(b"x"),
        })
        .collect();
    let request = batch_of(&key, Mode::Merge, (0, 0, true), &blocks);
    push_batch(session, &request, &blocks, DATA).await
}

/// Pushes a batch until each of its segments is there.
async fn push_batch(
    session: &mut Session,
    request: &PushBatch,
    blocks: &[Block],
    limit: Duration,
) -> Work {
    let mut body = BytesMut::new();
    blocks
        .iter()
        .for_each(|block| body.extend_from_slice(&block.bytes));
    for _ in 0..REFUSALS {
        let answer = session.ask(Asked::Push(request, &body), limit).await?;
        let reply = match PushBatchReply::from_bytes(&answer) {
            Ok(reply) => reply,
            Err(_) => match Refused::from_bytes(&answer) {
                // A long list of segments does not wait for long for the memory of its bytes.
                Ok(refused) if refused.code == Code::Overloaded => {
                    sleep(BACKOFF).await;
                    continue;
                }
                refused => return session.breach(format!("a batch was refused: {refused:?}")),
            },
        };
        let is_there = |code: &Code| matches!(code, Code::Ok | Code::Duplicate);
        if reply.codes.iter().all(is_there) {
            return Ok(());
        }
        let is_usual = |code: &Code| is_there(code) || *code == Code::Overloaded;
        if !reply.codes.iter().all(is_usual) {
            return session.breach(format!("codes of a push: {:?}", reply.codes));
        }
        sleep(BACKOFF).await;
    }
    session.breach("a push was refused for too long")
}

/// Reads all partitions, and compares them with what was pushed.
async fn read(
    session: &mut Session,
    key: &ShuffleAddress,
    partitions: u32,
    pushed: &[Block],
) -> Work {
    let layout: SegmentLayoutReply = session.rpc(&full_layout(key, partitions), QUESTION).await?;
    let shown: usize = layout
        .partitions
        .iter()
        .flat_map(|partition| &partition.runs)
        .map(|run| run.segments.len())
        .sum();
    if shown != pushed.len() {
        return session.breach(format!("{shown} of {} segments are shown", pushed.len()));
    }
    let mut wanted = Vec::new();
    for partition in &layout.partitions {
        for run in &partition.runs {
            let mut bytes = BytesMut::new();
            for segment in &run.segments {
                let own = pushed.iter().find(|block| {
                    MapIndex(block.map) == segment.map_index
                        && ReduceId(block.reduce) == partition.reduce_id
                });
                match own {
                    Some(block) => bytes.extend_from_slice(&block.bytes),
                    None => return session.breach("a segment is shown that was not pushed"),
                }
            }
            wanted.push(bytes.freeze());
        }
    }
    let fetch = full_fetch(key, &layout).to_bytes();
    for _ in 0..REFUSALS {
        if stream(session, &fetch, &wanted).await? {
            return Ok(());
        }
    }
    session.breach("a stream was refused for too long")
}

/// Takes all chunks of a stream. Returns false if the connection ended before the last one.
async fn stream(session: &mut Session, fetch: &Bytes, wanted: &[Bytes]) -> Work<bool> {
    let answer = session.ask(Asked::Rpc(fetch), QUESTION).await?;
    let handle = match (
        StreamHandle::from_bytes(&answer),
        Refused::from_bytes(&answer),
    ) {
        (Ok(handle), _) => handle,
        // Streams that others hold take all of the memory for lists.
        (_, Ok(refused)) if refused.code == Code::Overloaded => {
            sleep(BACKOFF).await;
            return Ok(false);
        }
        (_, refused) => return session.breach(format!("no stream: {refused:?}")),
    };
    if handle.num_chunks as usize != wanted.len() {
        return session.breach("a stream of another length");
    }
    for (index, wanted) in (0..).zip(wanted) {
        let asked = Asked::Chunk(handle.stream_id, index);
        let Some(bytes) = session.once(&asked, DATA).await? else {
            return Ok(false);
        };
        if bytes != wanted {
            return session.breach(format!("chunk {index} has other bytes than were pushed"));
        }
    }
    Ok(true)
}

/// The bytes of a block. Few are large.
fn content(dice: &mut Dice, most: usize) -> Bytes {
    let length = match dice.below(100) {
        0..70 => 1 + dice.below(most / 64),
        70..95 => 1 + dice.below(most / 8),
        _ => 1 + dice.below(most),
    };
    dice.bytes(length).into()
}
