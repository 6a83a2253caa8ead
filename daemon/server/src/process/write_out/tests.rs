// SPDX-License-Identifier: Apache-2.0
//! When a daemon that was asked to stop closes.

use std::path::PathBuf;

use lodestone_model::{
    AppAttempt, AppId, Code, Crc32c, GenerationId, MapId, MapIndex, Mode, ReduceId, Segment,
    ShuffleId, ShuffleKey, ShuffleSpec,
};
use lodestone_store::fs::fake::{Errno, FakeFs};
use lodestone_store::{Batch, Environment, StoreConfig};
use tokio::runtime::Builder;
use tokio::time::{Instant, advance};

use super::*;
use crate::process::write_threads::WriteThreads;

/// Runs on a clock that jumps to the next time-out.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(work)
}

/// Returns how, and when, it ends if less is left after each of these pauses, and there is no
/// progress then.
async fn ending_after(pauses: &[Duration]) -> (Ending, Duration) {
    let (left_out, left_in) = watch::channel(0);
    let began = Instant::now();
    let following = tokio::spawn(async move { (follow(left_in).await, began.elapsed()) });
    for pause in pauses {
        tokio::task::yield_now().await;
        advance(*pause).await;
        let _ = left_out.send(0);
    }
    following.await.unwrap()
}

#[test]
fn a_disk_that_stands_still_does_not_keep_the_daemon_from_closing() {
    let (ending, after) = run(ending_after(&[NO_LESS_FOR / 2]));
    assert_eq!((ending, after), (Ending::NoLess, NO_LESS_FOR / 2 * 3));
}

#[test]
fn a_slow_disk_is_waited_for_and_not_for_ever() {
    let pauses = [NO_LESS_FOR / 2; 20];
    assert_eq!(run(ending_after(&pauses)), (Ending::TooLong, LIMIT));
}

/// A store of 66 MiB of a remote shuffle.
fn loaded(fs: &FakeFs) -> Arc<Store> {
    let environment = Environment {
        fs: Arc::new(fs.clone()),
        ..Environment::os()
    };
    let config = StoreConfig::of(vec![PathBuf::from("/disk")], 256 << 20);
    let store = Store::open(config, environment).unwrap();
    let key = ShuffleKey {
        app: AppId::new("app-1").unwrap(),
        attempt: Some(AppAttempt::NONE),
        shuffle: ShuffleId(1),
        generation: GenerationId(0),
    };
    let spec = ShuffleSpec {
        mode: Mode::Remote,
        num_maps: 66,
        num_partitions: 66,
        format: String::new(),
    };
    store.register_shuffle(&key, spec).unwrap();
    let body = vec![7; 1 << 20];
    for number in 0..66 {
        let segment = Segment {
            reduce_id: ReduceId(number),
            sequence: 0,
            length: 1 << 20,
            records: 1,
            crc32c: Crc32c(crc32c::crc32c(&body)),
        };
        let batch = Batch {
            map_index: MapIndex(number),
            map_id: MapId(1),
            first_segment: 0,
            segments: &[segment],
            body: &body,
        };
        assert_eq!(store.push_batch(&key, &batch).unwrap(), [Code::Ok]);
    }
    store
}

/// Returns the bytes that are left when the writing ends.
fn left_of(store: &Arc<Store>) -> u64 {
    let _threads = WriteThreads::start(store).unwrap();
    let (left_out, left_in) = watch::channel(store.unwritten_bytes());
    let (_going, goes_on) = mpsc::channel();
    write_out(store, &left_out, &goes_on);
    *left_in.borrow()
}

#[test]
fn little_is_left_to_write_after_the_daemon_has_closed() {
    let store = loaded(&FakeFs::with_dirs(["/disk"]));
    let left = left_of(&store);
    assert!(left <= STEP_BYTES, "{left}");
}

/// Far less than the time after which a daemon gives up.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_daemon_whose_threads_all_hang_writes_out_before_it_closes() {
    let store = loaded(&FakeFs::with_dirs(["/disk"]));
    let _threads = WriteThreads::start(&store).unwrap();
    let runtime = Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let (held, hang) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || hang.recv().ok());
    let stop = Stop::default();
    stop.ask();
    let closing = when_asked(Arc::clone(&store), stop.clone());
    let ended = runtime.block_on(async { timeout(SOON, closing).await });
    drop(held);
    assert!(ended.is_ok(), "it still waits");
    assert!(*stop.watch().borrow(), "it does not close");
    let left = store.unwritten_bytes();
    assert!(left <= STEP_BYTES, "{left}");
}

#[test]
fn disks_that_take_nothing_do_not_keep_the_daemon_from_closing() {
    let fs = FakeFs::with_dirs(["/disk"]);
    let store = loaded(&fs);
    fs.break_dir("/disk".as_ref(), Errno::NOSPC);
    assert_eq!(left_of(&store), 66 << 20);
}

#[test]
fn a_daemon_that_closes_writes_nothing_more_while_it_could_be_asked() {
    let store = loaded(&FakeFs::with_dirs(["/disk"]));
    let (left_out, _left_in) = watch::channel(store.unwritten_bytes());
    let (going, goes_on) = mpsc::channel();
    drop(going);
    write_out(&store, &left_out, &goes_on);
    assert_eq!(store.write_out_as_called(0), 0, "no thread was called");
}
