// SPDX-License-Identifier: Apache-2.0
//! Frames and messages: no bytes make a decoder panic, and what it reads it writes back.

use bytes::{Bytes, BytesMut};
use lodestone_wire::extension::{
    commit, drain, explain, fetch, hello, lease, push, register, remove, status,
};
use lodestone_wire::spark;
use lodestone_wire::{Frame, FrameDecoder, Limits, Message};

/// The first byte says where the rest is cut: a network delivers a frame in pieces. The frames are
/// the same however they come.
pub fn frames(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else {
        return;
    };
    let whole = decoded(rest, rest.len().max(1));
    let in_pieces = decoded(rest, usize::from(*first).max(1));
    assert_eq!(whole, in_pieces, "the cuts change the frames");
    for frame in whole {
        match frame {
            Frame::RpcRequest { body, .. }
            | Frame::RpcResponse { body, .. }
            | Frame::OneWay { body }
            | Frame::UploadStream { meta: body, .. } => messages(&body),
            _ => {}
        }
    }
}

fn decoded(bytes: &[u8], piece: usize) -> Vec<Frame> {
    let decoder = FrameDecoder::new(Limits::SERVER);
    let mut buffer = BytesMut::new();
    let mut found = Vec::new();
    for some in bytes.chunks(piece) {
        buffer.extend_from_slice(some);
        loop {
            match decoder.next(&mut buffer) {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(_) => return found,
            }
        }
    }
    found
}

/// Tries the bytes as each message.
pub fn messages(bytes: &[u8]) {
    read_and_write::<hello::Hello>(bytes);
    read_and_write::<hello::HelloReply>(bytes);
    read_and_write::<lease::RenewLease>(bytes);
    read_and_write::<lease::LeaseReply>(bytes);
    read_and_write::<remove::EndApplication>(bytes);
    read_and_write::<status::Done>(bytes);
    read_and_write::<status::Refused>(bytes);
    read_and_write::<explain::ReportApplication>(bytes);
    read_and_write::<explain::ExplainApplication>(bytes);
    read_and_write::<explain::Explanation>(bytes);
    read_and_write::<register::RegisterShuffle>(bytes);
    read_and_write::<fetch::SegmentLayout>(bytes);
    read_and_write::<fetch::SegmentLayoutReply>(bytes);
    read_and_write::<fetch::FetchSegments>(bytes);
    read_and_write::<commit::CommitMap>(bytes);
    read_and_write::<commit::AbortMap>(bytes);
    read_and_write::<drain::Drain>(bytes);
    read_and_write::<drain::Holdings>(bytes);
    read_and_write::<push::PushBatch>(bytes);
    read_and_write::<push::PushBatchReply>(bytes);
    read_and_write::<spark::originals::OpenBlocks>(bytes);
    read_and_write::<spark::originals::FetchShuffleBlocks>(bytes);
    read_and_write::<spark::originals::DiagnoseCorruption>(bytes);
    read_and_write::<spark::originals::CorruptionCause>(bytes);
    read_and_write::<spark::register::RegisterExecutor>(bytes);
    read_and_write::<spark::register::GetLocalDirsForExecutors>(bytes);
    read_and_write::<spark::register::LocalDirsForExecutors>(bytes);
    read_and_write::<spark::fetch::StreamHandle>(bytes);
    read_and_write::<spark::fetch::FetchShuffleBlockChunks>(bytes);
    read_and_write::<spark::push::PushBlockStream>(bytes);
    read_and_write::<spark::push::BlockPushReturnCode>(bytes);
    read_and_write::<spark::finalize::FinalizeShuffleMerge>(bytes);
    read_and_write::<spark::finalize::MergeStatuses>(bytes);
    read_and_write::<spark::remove::RemoveBlocks>(bytes);
    read_and_write::<spark::remove::BlocksRemoved>(bytes);
    read_and_write::<spark::remove::RemoveShuffleMerge>(bytes);
    read_and_write::<spark::authenticate::SaslMessage>(bytes);
    read_and_write::<spark::authenticate::AuthMessage>(bytes);
}

fn read_and_write<M: Message>(bytes: &[u8]) {
    let Ok(message) = M::from_bytes(bytes) else {
        return;
    };
    let written: Bytes = message.to_bytes();
    if M::STRICT {
        assert_eq!(written, bytes, "{} is written otherwise", M::NAME);
    }
    let again = M::from_bytes(&written).map(|message| message.to_bytes());
    assert_eq!(
        again,
        Ok(written),
        "{} does not read what it wrote",
        M::NAME
    );
}
