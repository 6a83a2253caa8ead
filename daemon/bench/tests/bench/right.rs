// SPDX-License-Identifier: Apache-2.0
//! A right server passes, and every byte is accounted for.

use lodestone_bench::dialect::Dialect;
use lodestone_bench::run::files::{forget, write_originals};
use lodestone_bench::run::scene::{Slow, register_originals};
use lodestone_bench::workload::BlockSize;
use lodestone_bench::workload::payload::Payload;

use crate::support::{QUICK, World, app, progress, small};

const SIZES: [BlockSize; 2] = [BlockSize::Fixed(10_000), BlockSize::Mixed];

/// Pushed blocks come back, and the figures are those of the work.
async fn comes_back(world: World) {
    let dialect = world.server.dialect;
    for size in SIZES {
        let workload = small(size);
        let shuffle = world.shuffle(workload).await;
        let (pushed, ready) = world.prepare(&[shuffle]).await;
        let refused: u64 = pushed.refused.values().sum();
        assert_eq!(pushed.blocks + refused, workload.blocks());
        assert!(
            dialect == Dialect::Spark || refused == 0,
            "{:?}",
            pushed.refused
        );
        let merged = ready[0].merged.totals();
        assert_eq!(merged, (workload.blocks(), workload.total()));

        let fetched = world.fetch(&ready, QUICK).await.unwrap();
        assert_eq!(
            (fetched.blocks, fetched.bytes),
            (workload.blocks(), workload.total())
        );
        assert!(fetched.requests > 0 && fetched.requests <= workload.blocks());
        for one in [&pushed, &fetched] {
            let usage = one.server_usage.unwrap();
            assert!(one.seconds > 0.0 && usage.peak_rss_bytes > 0, "{one:?}");
            assert!(one.latency.p50_ms > 0.0 && one.latency.p50_ms <= one.latency.max_ms);
        }
        ready[0].shuffle.remove().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shuffles_at_once_each_get_their_own_blocks_back() {
    for dialect in [Dialect::Lodestone, Dialect::Spark, Dialect::Bare] {
        let world = World::of(dialect).await;
        let workload = small(BlockSize::Mixed);
        let mut shuffles = Vec::new();
        for number in 1..=3 {
            shuffles.push(world.shuffle(workload.of_shuffle(number)).await);
        }
        let (pushed, ready) = world.prepare(&shuffles).await;
        let fetched = world.fetch(&ready, QUICK).await.unwrap();
        let all = (3 * workload.blocks(), 3 * workload.total());
        assert_eq!((fetched.blocks, fetched.bytes), all);
        assert_eq!((pushed.planned_blocks, pushed.planned_bytes), all);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_pushed_in_lodestones_protocol_come_back() {
    comes_back(World::of(Dialect::Lodestone).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_pushed_in_sparks_protocol_come_back() {
    comes_back(World::of(Dialect::Spark).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_pushed_to_the_bare_loop_come_back() {
    comes_back(World::of(Dialect::Bare).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_pushed_to_the_bare_loop_in_memory_come_back() {
    comes_back(World::bare_in_memory().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn original_blocks_are_read_from_the_files_of_map_tasks() {
    let world = World::of(Dialect::Spark).await;
    for size in SIZES {
        let (workload, payload) = (small(size), Payload::of(size));
        let home = world.dir.path().join(size.to_string());
        write_originals(&home, workload, &payload, &progress(workload)).unwrap();
        register_originals(&world.server, &app(), &home)
            .await
            .unwrap();
        let index_bytes = 8 * u64::from(workload.partitions + 1) * u64::from(workload.maps);
        assert_eq!(forget(&home).unwrap(), workload.total() + index_bytes);
        let fetched = world.fetch_originals(workload, &payload).await.unwrap();
        assert_eq!(
            (fetched.blocks, fetched.bytes),
            (workload.blocks(), workload.total())
        );
        assert_eq!(
            fetched.requests,
            workload.blocks(),
            "each is asked for by itself"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_connections_read_beside_the_work_and_are_not_counted_as_work() {
    let world = World::of(Dialect::Lodestone).await;
    let shuffle = world.shuffle(small(BlockSize::Fixed(10_000))).await;
    let total = shuffle.workload.total();
    let (_, pushed) = world.prepare(&[shuffle]).await;
    let slow = Slow {
        connections: 2,
        bytes_a_second: 1_000_000,
    };
    let fetched = world.fetch(&pushed, slow).await.unwrap();
    assert_eq!(fetched.bytes, total);
    assert!(fetched.slow_bytes.unwrap() < total, "they are slow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_connections_push_beside_the_work_and_are_not_counted_as_work() {
    for dialect in [Dialect::Lodestone, Dialect::Spark, Dialect::Bare] {
        let world = World::of(dialect).await;
        let workload = small(BlockSize::Fixed(10_000));
        let shuffle = world.shuffle(workload).await;
        let noise = world.shuffle(workload.of_shuffle(9)).await;
        let slow = Slow {
            connections: 2,
            bytes_a_second: 100_000,
        };
        let beside = Some((&noise, slow));
        let (pushed, ready) = world.prepare_beside(beside, &[shuffle]).await;
        assert_eq!(pushed.planned_blocks, workload.blocks());
        let refused: u64 = pushed.refused.values().sum();
        assert_eq!(pushed.blocks + refused, workload.blocks());
        let bytes = pushed.slow_bytes.unwrap();
        assert!(bytes > 0, "{dialect:?}: they began");
        assert!(bytes < workload.total(), "{dialect:?}: they are slow");

        noise.remove().await.unwrap();
        let fetched = world.fetch(&ready, QUICK).await.unwrap();
        assert_eq!(fetched.bytes, workload.total(), "{dialect:?}");
        assert_eq!(fetched.slow_bytes, None);
    }
}
