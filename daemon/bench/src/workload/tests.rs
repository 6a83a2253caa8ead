// SPDX-License-Identifier: Apache-2.0

use super::payload::{BlockCheck, Payload};
use super::{Block, BlockSize, MAX_BLOCK_BYTES, MIN_BLOCK_BYTES, PushRange, Workload};

#[test]
fn a_size_of_blocks_is_shown_as_it_can_be_written() {
    let small = MIN_BLOCK_BYTES..=(1 << 17);
    let powers = (4..=25).map(|shift| 1 << shift);
    let multiples = (1..=64).flat_map(|n| [n * 1_000, n * 1_000_000, n << 10, n << 20]);
    let near = |bytes: u64| [bytes - 1, bytes, bytes + 1];
    let large = powers.chain(multiples).flat_map(near);
    let allowed = large.filter(|bytes| (MIN_BLOCK_BYTES..=MAX_BLOCK_BYTES).contains(bytes));
    let fixed = small
        .chain(allowed)
        .map(|bytes| BlockSize::Fixed(bytes as u32));
    for size in fixed.chain([BlockSize::Mixed]) {
        assert_eq!(size.to_string().parse(), Ok(size), "{size}");
    }
}

#[test]
fn a_size_of_blocks_has_the_largest_unit_that_divides_it() {
    for (text, shown) in [
        ("10000b", "10000b"),
        ("1000000b", "1000000b"),
        ("17b", "17b"),
        ("10k", "10KiB"),
        ("1536k", "1536KiB"),
        ("1m", "1MiB"),
        ("mixed", "mixed"),
    ] {
        assert_eq!(text.parse::<BlockSize>().unwrap().to_string(), shown);
    }
    assert!("15b".parse::<BlockSize>().is_err(), "no room for a head");
}

#[test]
fn a_plan_has_the_total_that_was_asked_for() {
    let square = Workload::plan(BlockSize::Fixed(10_000), 100_000_000, None, None).unwrap();
    assert_eq!((square.maps, square.partitions), (100, 100));
    assert_eq!(square.total(), 100_000_000);
    let wide = Workload::plan(BlockSize::Fixed(10_000), 100_000_000, None, Some(1000)).unwrap();
    assert_eq!((wide.maps, wide.partitions), (10, 1000));
    let mixed = Workload::plan(BlockSize::Mixed, 1_000_000_000, None, None).unwrap();
    let off = mixed.total() as f64 / 1e9;
    assert!((0.95..1.05).contains(&off), "{off} of what was asked");
    assert!(Workload::plan(BlockSize::Fixed(16), 1 << 40, None, None).is_err());
}

#[test]
fn push_ranges_hold_every_block_once_and_keep_to_their_size() {
    for size in [BlockSize::Fixed(1000), BlockSize::Mixed] {
        let workload = Workload::plan(size, 20_000_000, Some(7), None).unwrap();
        let most = 3_000_000;
        let mut seen = vec![0; workload.blocks() as usize];
        for range in workload.ranges(most) {
            assert!(workload.range_bytes(range) <= most);
            for block in range.blocks() {
                seen[(block.map * workload.partitions + block.reduce) as usize] += 1;
            }
        }
        assert!(seen.iter().all(|count| *count == 1), "{size}");
    }
}

#[test]
fn blocks_of_any_cut_are_recognized_and_a_flipped_bit_is_not() {
    let workload = Workload::plan(BlockSize::Mixed, 3_000_000, None, None).unwrap();
    let payload = Payload::of(workload.size);
    let (map, from, to) = (1, 0, workload.partitions);
    let mut bytes = Vec::new();
    for block in (PushRange { map, from, to }).blocks() {
        payload.write(workload, block, &mut bytes).unwrap();
    }
    for cut in [1, 7, 16, 17, 5000, bytes.len()] {
        let (mut check, mut found) = (BlockCheck::default(), Vec::new());
        for piece in bytes.chunks(cut) {
            let mut each = |block| {
                found.push(block);
                Ok(())
            };
            check.feed(&payload, workload, piece, &mut each).unwrap();
        }
        assert!(check.is_at_an_end());
        assert_eq!(
            found,
            (PushRange { map, from, to }).blocks().collect::<Vec<_>>()
        );
    }
    for at in [0, 3, 9, 13, 16, bytes.len() / 2, bytes.len() - 1] {
        let mut wrong = bytes.clone();
        wrong[at] ^= 4;
        let mut check = BlockCheck::default();
        let mut found = Vec::new();
        let mut each = |block| {
            found.push(block);
            Ok(())
        };
        let verdict = check.feed(&payload, workload, &wrong, &mut each);
        let expected: Vec<Block> = (PushRange { map, from, to }).blocks().collect();
        assert!(verdict.is_err() || found != expected, "byte {at}");
    }
}

#[test]
fn bytes_of_another_shuffle_are_not_taken_for_these() {
    let workload = Workload::plan(BlockSize::Fixed(100), 10_000, None, None).unwrap();
    let payload = Payload::of(workload.size);
    let (map, reduce) = (2, 3);
    let mut bytes = Vec::new();
    let block = Block { map, reduce };
    payload
        .write(workload.of_shuffle(8), block, &mut bytes)
        .unwrap();
    let mut check = BlockCheck::default();
    let verdict = check.feed(&payload, workload.of_shuffle(9), &bytes, &mut |_| Ok(()));
    assert!(verdict.is_err());
}
