// SPDX-License-Identifier: Apache-2.0
//! Random messages come back as they went; random bytes never panic and never make the decoder take
//! more memory than its bound. proptest prints the seed of a failure.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod counting;

use bytes::{Bytes, BytesMut};
use lodestone_model::{
    AppAttempt, AppId, Code, Crc32c, GenerationId, LaidRun, LaidSegment, MapId, MapIndex,
    MergeStatus, ReduceId, Segment, ShuffleId, ShuffleKey,
};
use lodestone_wire::Message;
use lodestone_wire::codec::MAX_AMPLIFICATION;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::fetch::{
    FetchSegments, PartitionLayout, SegmentLayout, SegmentLayoutReply,
};
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::{Done, Refused};
use lodestone_wire::frame::{ChunkId, Frame, FrameDecoder, Limits};
use lodestone_wire::spark;
use proptest::collection::vec;
use proptest::prelude::*;

/// Memory that decoding may take besides its part of the payload: reservations of nested arrays,
/// errors.
const FIXED_BYTES: usize = 256 << 10;

fn bounded<T>(payload: usize, decode: impl FnOnce() -> T) -> T {
    let (result, taken) = counting::most_held_by(decode);
    let bound = payload * MAX_AMPLIFICATION + FIXED_BYTES;
    assert!(
        taken <= bound,
        "{taken} bytes taken for a payload of {payload}, bound {bound}"
    );
    result
}

fn decode_as_anything(bytes: &[u8]) {
    macro_rules! all {
        ($($message:ty),* $(,)?) => {
            $(
                let mut with_id = bytes.to_vec();
                if let Some(first) = with_id.first_mut() {
                    *first = <$message>::ID;
                }
                let _ = bounded(bytes.len(), || <$message>::from_bytes(&with_id).map(drop));
            )*
        };
    }
    all!(
        Hello,
        HelloReply,
        RenewLease,
        LeaseReply,
        RegisterShuffle,
        PushBatch,
        PushBatchReply,
        SegmentLayout,
        SegmentLayoutReply,
        FetchSegments,
        CommitMap,
        AbortMap,
        EndApplication,
        Done,
        Refused,
        spark::originals::OpenBlocks,
        spark::originals::FetchShuffleBlocks,
        spark::originals::DiagnoseCorruption,
        spark::originals::CorruptionCause,
        spark::register::RegisterExecutor,
        spark::register::GetLocalDirsForExecutors,
        spark::register::LocalDirsForExecutors,
        spark::push::PushBlockStream,
        spark::push::BlockPushReturnCode,
        spark::finalize::FinalizeShuffleMerge,
        spark::fetch::FetchShuffleBlockChunks,
        spark::fetch::StreamHandle,
        spark::remove::RemoveBlocks,
        spark::remove::BlocksRemoved,
        spark::remove::RemoveShuffleMerge,
    );
    // A bitmap may be large in memory: one container of a few bytes stands for 8 KiB.
    let mut statuses = bytes.to_vec();
    if let Some(first) = statuses.first_mut() {
        *first = spark::finalize::MergeStatuses::ID;
    }
    let _ = spark::finalize::MergeStatuses::from_bytes(&statuses);
}

fn index() -> impl Strategy<Value = u32> {
    0..=i32::MAX as u32
}

fn status() -> impl Strategy<Value = Code> {
    prop::sample::select(Code::ALL)
}

prop_compose! {
    fn key()(app in "[a-zA-Z0-9_é-]{1,40}", app_attempt: i32, incarnation: i64, shuffle_id: i32,
             generation: i32) -> ShuffleAddress {
        let shuffle = ShuffleKey {
            app: AppId::new(&app).unwrap(),
            attempt: Some(AppAttempt(app_attempt)),
            shuffle: ShuffleId(shuffle_id),
            generation: GenerationId(generation),
        };
        ShuffleAddress { shuffle, incarnation }
    }
}

prop_compose! {
    fn segment()(reduce_id in index(), sequence in index(), length in index(), records: i32,
                 crc: u32) -> Segment {
        Segment { reduce_id: ReduceId(reduce_id), sequence, length, records, crc32c: Crc32c(crc) }
    }
}

prop_compose! {
    fn laid()(map_index in index(), map_id: i64, sequence in index(), length in index(),
              records: i32, crc: u32) -> LaidSegment {
        LaidSegment {
            map_index: MapIndex(map_index),
            map_id: MapId(map_id),
            sequence,
            length,
            records,
            crc32c: Crc32c(crc),
        }
    }
}

prop_compose! {
    fn run()(first in index(), segments in vec(laid(), 0..5)) -> LaidRun {
        LaidRun { first, segments }
    }
}

prop_compose! {
    fn partition()(reduce_id in index(), code in status(),
                   runs in vec(run(), 0..5)) -> PartitionLayout {
        PartitionLayout { reduce_id: ReduceId(reduce_id), code, runs }
    }
}

fn round_trip<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
    let bytes = message.to_bytes();
    assert_eq!(&M::from_bytes(&bytes).unwrap(), message);
    for end in 0..bytes.len() {
        let cut = bytes.get(..end).unwrap();
        assert!(
            M::from_bytes(cut).is_err(),
            "{} cut to {end} bytes was accepted",
            M::NAME
        );
    }
}

proptest! {
    #[test]
    fn random_batches_come_back_and_no_cut_one_is_accepted(
        key in key(), map_index in index(), map_id: i64, first_segment in index(), is_whole: bool,
        segments in vec(segment(), 0..20),
    ) {
        let (map_index, map_id) = (MapIndex(map_index), MapId(map_id));
        round_trip(&PushBatch { key, map_index, map_id, first_segment, is_whole, segments });
    }

    #[test]
    fn random_layouts_come_back_and_no_cut_one_is_accepted(
        incarnation: i64, format: String, partitions in vec(partition(), 0..5),
    ) {
        round_trip(&SegmentLayoutReply { incarnation, format, partitions });
    }

    #[test]
    fn random_refusals_come_back_and_no_cut_one_is_accepted(
        code in status(), incarnation: i64, detail: String,
    ) {
        round_trip(&Refused { code, incarnation, detail });
    }

    #[test]
    fn random_original_requests_come_back(
        app in "[a-z]{1,9}", exec_id: String, shuffle_id: i32, batch: bool,
        blocks in vec((any::<i64>(), vec(index(), 0..4)), 0..9),
    ) {
        let (app, shuffle_id) = (AppId::new(&app).unwrap(), ShuffleId(shuffle_id));
        let blocks = blocks
            .into_iter()
            .map(|(map, reduces)| (MapId(map), reduces.into_iter().map(ReduceId).collect()))
            .collect();
        let message =
            spark::originals::FetchShuffleBlocks { app, exec_id, shuffle_id, blocks, batch };
        round_trip(&message);
    }

    #[test]
    fn random_local_dirs_come_back(
        executors in vec((any::<String>(), vec(any::<String>(), 0..4)), 0..5),
    ) {
        round_trip(&spark::register::LocalDirsForExecutors { executors });
    }

    #[test]
    fn random_bitmaps_come_back(
        maps in proptest::collection::btree_set(0..1_000_000u32, 0..300), run in 0..9_000u32,
    ) {
        let mut maps: roaring::RoaringBitmap = maps.into_iter().collect();
        maps.insert_range(5..5 + run);
        maps.optimize();
        let status = |reduce_id| MergeStatus {
            reduce_id: ReduceId(reduce_id), maps: maps.clone(), bytes: 7,
        };
        let message = spark::finalize::MergeStatuses {
            shuffle_id: ShuffleId(1), shuffle_merge_id: GenerationId(0),
            partitions: vec![status(0), status(1)],
        };
        let decoded = spark::finalize::MergeStatuses::from_bytes(&message.to_bytes()).unwrap();
        prop_assert_eq!(decoded, message);
    }

    #[test]
    fn random_bytes_are_decoded_within_bounds(bytes in vec(any::<u8>(), 0..600)) {
        decode_as_anything(&bytes);
    }

    #[test]
    fn small_numbers_at_random_offsets_are_decoded_within_bounds(
        // Mostly zeros with a few small bytes: counts and lengths that are plausible.
        bytes in vec(prop_oneof![6 => Just(0u8), 2 => 0..8u8, 1 => any::<u8>()], 0..2000),
    ) {
        decode_as_anything(&bytes);
    }

    #[test]
    fn random_bytes_as_frames_never_panic_and_never_loop(bytes in vec(any::<u8>(), 0..300)) {
        let decoder = FrameDecoder::new(Limits::SERVER);
        let mut buffer = BytesMut::from(&bytes[..]);
        let mut frames = 0;
        while let Ok(Some(_)) = decoder.next(&mut buffer) {
            frames += 1;
            prop_assert!(frames <= bytes.len());
        }
    }

    #[test]
    fn small_random_frames_never_panic(
        kind in 0..14u8, payload in vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..80),
    ) {
        let mut bytes = ((payload.len() + 9) as u64).to_be_bytes().to_vec();
        bytes.push(kind);
        bytes.extend(payload);
        let decoder = FrameDecoder::new(Limits::SERVER);
        let mut buffer = BytesMut::from(&bytes[..]);
        if let Ok(Some(frame)) = decoder.next(&mut buffer) {
            let again = decoder.next(&mut BytesMut::from(&frame.to_bytes()[..])).unwrap();
            prop_assert_eq!(again, Some(frame));
        }
    }

    #[test]
    fn frames_are_found_wherever_the_bytes_are_split(
        bodies in vec(vec(any::<u8>(), 0..50), 1..8), split in 1..60usize,
    ) {
        let chunk = ChunkId { stream_id: 4, chunk_index: 2 };
        let frames: Vec<Frame> = bodies
            .iter()
            .map(|body| Frame::ChunkFetchSuccess { chunk, body: Bytes::copy_from_slice(body) })
            .collect();
        let mut stream = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut stream));
        let decoder = FrameDecoder::new(Limits::SERVER);
        let (mut found, mut buffer) = (Vec::new(), BytesMut::new());
        for piece in stream.chunks(split) {
            buffer.extend_from_slice(piece);
            while let Some(frame) = decoder.next(&mut buffer).unwrap() {
                found.push(frame);
            }
        }
        prop_assert_eq!(found, frames);
    }
}

#[test]
fn an_array_of_empty_strings_stays_within_the_bound() {
    let count = 1_000_000u32;
    let mut bytes = vec![
        spark::originals::OpenBlocks::ID,
        0,
        0,
        0,
        1,
        b'a',
        0,
        0,
        0,
        0,
    ];
    bytes.extend(count.to_be_bytes());
    bytes.resize(bytes.len() + 4 * count as usize, 0);
    let blocks = bounded(bytes.len(), || {
        spark::originals::OpenBlocks::from_bytes(&bytes)
    })
    .unwrap();
    assert_eq!(blocks.block_ids.len(), count as usize);
}

#[test]
fn a_count_that_cannot_be_true_is_refused_before_memory_is_taken() {
    let mut bytes = vec![
        spark::originals::OpenBlocks::ID,
        0,
        0,
        0,
        1,
        b'a',
        0,
        0,
        0,
        0,
    ];
    bytes.extend(i32::MAX.to_be_bytes());
    let (result, taken) =
        counting::most_held_by(|| spark::originals::OpenBlocks::from_bytes(&bytes));
    assert_eq!(result.unwrap_err().field, "block_ids");
    assert!(taken < 4096, "{taken} bytes were taken");
}

#[test]
fn lengths_out_of_bounds_are_errors_as_soon_as_they_are_seen() {
    let decoder = FrameDecoder::new(Limits::SERVER);
    let with_length = |length: i64, kind: u8| {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.push(kind);
        decoder.frame_bytes(&bytes)
    };
    for bad in [i64::MIN, -1, 0, 8, (8 << 20) + 1, i64::MAX] {
        assert!(with_length(bad, 3).is_err(), "{bad} was accepted");
    }
    assert!(with_length(9, 13).is_err(), "type 13 was accepted");
    assert!(with_length(9, 255).is_err(), "type -1 was accepted");
    assert_eq!(with_length(8 << 20, 3), Ok(Some(8 << 20)));
    assert_eq!(decoder.frame_bytes(&[0; 8]), Ok(None));
}

#[test]
fn an_upload_over_a_limit_is_an_error() {
    let limits = Limits {
        frame_bytes: 1000,
        meta_bytes: 10,
        upload_bytes: 100,
    };
    let decoder = FrameDecoder::new(limits);
    let upload = |meta: usize, body_bytes| {
        let meta = Bytes::from(vec![0; meta]);
        let frame = Frame::UploadStream {
            request_id: 1,
            meta,
            body_bytes,
        };
        decoder.next(&mut BytesMut::from(&frame.to_bytes()[..]))
    };
    assert!(upload(10, 100).is_ok());
    assert!(upload(11, 100).is_err());
    assert!(upload(10, 101).is_err());
    assert!(
        upload(10, u64::MAX).is_err(),
        "a negative body length was accepted"
    );
}
