// SPDX-License-Identifier: Apache-2.0
//! Clients that harm others if they can: they announce and do not send, ask and do not read, hold
//! what they opened, or send what is no request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lodestone_model::{
    AppAttempt, AppId, Crc32c, GenerationId, MapId, MapIndex, Mode, ReduceId, Segment, ShuffleId,
    ShuffleKey, ShuffleSpec,
};
use lodestone_wire::extension::fetch::SegmentLayoutReply;
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::{PROTOCOL_VERSION, ShuffleAddress};
use lodestone_wire::frame::ChunkId;
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::{Frame, Message};
use tokio::time::sleep;

use super::client::{Client, Ended, upload};
use super::machine::Machine;
use crate::client::{full_fetch, full_layout};
use crate::dice::Dice;

/// All of them are one application: more of them have no larger share.
pub(super) const APP: &str = "unfair";

/// Requests that are sent without a look at an answer. More than the daemon has in work.
const UNREAD: usize = 200;

/// Bytes of its own shuffle, which it asks for.
const OWN_BYTES: usize = 200_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Announces a push, and sends a part of it or nothing.
    Announces,
    /// Begins a large frame, of an upload or of another request, and sends a byte now and then.
    Trickles,
    /// Asks, and does not read the answers.
    ReadsNoAnswer,
    /// Asks for chunks, and does not read them.
    ReadsNoChunk,
    /// Opens streams, and asks for none of their chunks.
    HoldsStreams,
    /// Is silent.
    Idles,
    /// Sends bytes of any kind.
    SendsNoFrames,
}

impl Kind {
    pub(super) const ALL: [Self; 7] = [
        Self::Announces,
        Self::Trickles,
        Self::ReadsNoAnswer,
        Self::ReadsNoChunk,
        Self::HoldsStreams,
        Self::Idles,
        Self::SendsNoFrames,
    ];
}

/// Works against the others, over one connection after another, until all others are done.
pub(super) async fn harm(machine: Arc<Machine>, kind: Kind, seed: u64) {
    let mut dice = Dice::new(seed);
    while !machine.is_over() {
        let (_, mut client) = machine.connect();
        // It is over when the daemon closes the connection, which is all that it waits for.
        if once(&mut client, kind, &mut dice).await.is_ok() {
            client.closed().await;
        }
        sleep(Duration::from_millis(dice.below(2_000) as u64)).await;
    }
}

async fn once(client: &mut Client, kind: Kind, dice: &mut Dice) -> Result<(), Ended> {
    match kind {
        Kind::Announces => announce(client, dice).await,
        Kind::Trickles => trickle(client, dice).await,
        Kind::ReadsNoAnswer => {
            let (key, _) = own_shuffle(client, dice, 0).await?;
            let body = full_layout(&key, 1 + dice.below(2_000) as u32);
            ask_often(client, &body).await
        }
        Kind::ReadsNoChunk => ask_for_chunks(client, dice).await,
        Kind::HoldsStreams => {
            let (key, layout) = own_shuffle(client, dice, OWN_BYTES).await?;
            let mut fetch = full_fetch(&key, &layout);
            let chunks = fetch.chunks.clone();
            (0..dice.below(100)).for_each(|_| fetch.chunks.extend(chunks.iter().cloned()));
            ask_often(client, &fetch.to_bytes()).await
        }
        Kind::Idles => Ok(()),
        Kind::SendsNoFrames => {
            let count = dice.below(100_000);
            client.send(&dice.bytes(count)).await
        }
    }
}

async fn announce(client: &mut Client, dice: &mut Dice) -> Result<(), Ended> {
    let (key, _) = own_shuffle(client, dice, 0).await?;
    let length = 20_000 + dice.below(2_000_000);
    let batch = batch(&key, length as u32, 0);
    client.send(&upload(7, &batch, length)).await?;
    let sent = dice.below(length.min(40_000));
    client.send(&vec![0; sent]).await
}

async fn trickle(client: &Client, dice: &mut Dice) -> Result<(), Ended> {
    let content: Bytes = vec![0; 100_000 + dice.below(3_000_000)].into();
    let frame = match dice.chance(50) {
        true => rpc(1, &content),
        false => Frame::UploadStream {
            request_id: 1,
            meta: content,
            body_bytes: 1,
        }
        .to_bytes(),
    };
    let (begin, rest) = frame.split_at(dice.below(60_000));
    client.send(begin).await?;
    for byte in rest {
        sleep(Duration::from_millis(500)).await;
        client.send(&[*byte]).await?;
    }
    Ok(())
}

async fn ask_for_chunks(client: &mut Client, dice: &mut Dice) -> Result<(), Ended> {
    let (key, layout) = own_shuffle(client, dice, OWN_BYTES).await?;
    let fetch = full_fetch(&key, &layout).to_bytes();
    let mut streams = Vec::new();
    for _ in 0..UNREAD {
        let answer = client.rpc(&fetch).await?.unwrap_or_default();
        let Ok(handle) = StreamHandle::from_bytes(&answer) else {
            break;
        };
        streams.push(handle.stream_id);
    }
    for stream_id in streams {
        let chunk_index = 0;
        let chunk = ChunkId {
            stream_id,
            chunk_index,
        };
        let request = Frame::ChunkFetchRequest(chunk).to_bytes();
        client.send(&request).await?;
    }
    Ok(())
}

/// Asks the same again and again, without a look at the answers.
async fn ask_often(client: &Client, body: &Bytes) -> Result<(), Ended> {
    for request_id in 0..UNREAD as i64 {
        client.send(&rpc(request_id, body)).await?;
    }
    Ok(())
}

fn rpc(request_id: i64, body: &Bytes) -> Bytes {
    let body = body.clone();
    Frame::RpcRequest { request_id, body }.to_bytes()
}

/// A shuffle of its own, with so many bytes in one committed output, and its layout.
async fn own_shuffle(
    client: &mut Client,
    dice: &mut Dice,
    bytes: usize,
) -> Result<(ShuffleAddress, SegmentLayoutReply), Ended> {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        client_name: APP.to_owned(),
    };
    let answer = client.rpc(&hello.to_bytes()).await?.unwrap_or_default();
    let incarnation = HelloReply::from_bytes(&answer).map_or(0, |reply| reply.incarnation);
    let app = AppId::new(APP).map_err(|_| Ended)?;
    let key = ShuffleAddress {
        shuffle: ShuffleKey {
            app,
            attempt: Some(AppAttempt::NONE),
            shuffle: ShuffleId(dice.below(4) as i32),
            generation: GenerationId(0),
        },
        incarnation,
    };
    let register = RegisterShuffle {
        key: key.clone(),
        spec: ShuffleSpec {
            mode: Mode::Merge,
            num_maps: 1,
            num_partitions: 2_000,
            format: "spark-stream".to_owned(),
        },
    };
    let _ = client.rpc(&register.to_bytes()).await?;
    if bytes == 0 {
        let nothing = SegmentLayoutReply {
            incarnation,
            format: String::new(),
            partitions: Vec::new(),
        };
        return Ok((key, nothing));
    }
    let content: Bytes = vec![1; bytes].into();
    let batch = batch(&key, bytes as u32, crc32c::crc32c(&content));
    let _ = client.push(&batch, &content).await?;
    let layout = client.rpc(&full_layout(&key, 1)).await?.unwrap_or_default();
    let layout = SegmentLayoutReply::from_bytes(&layout).map_err(|_| Ended)?;
    Ok((key, layout))
}

fn batch(key: &ShuffleAddress, length: u32, checksum: u32) -> PushBatch {
    PushBatch {
        key: key.clone(),
        map_index: MapIndex(0),
        map_id: MapId(0),
        first_segment: 0,
        is_whole: true,
        segments: vec![Segment {
            reduce_id: ReduceId(0),
            sequence: 1,
            length,
            records: 1,
            crc32c: Crc32c(checksum),
        }],
    }
}
