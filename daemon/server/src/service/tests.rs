// SPDX-License-Identifier: Apache-2.0
//! What drivers and operators hear of the memory.

use std::path::PathBuf;

use lodestone_model::AppId;
use lodestone_store::fs::fake::FakeFs;
use lodestone_store::{Environment, StoreConfig};

use super::*;

const MEMORY: u64 = 256 << 20;

/// From this part on drivers avoid a service.
const STRAINED: f64 = 0.85;

fn service() -> Arc<Service> {
    let dirs = vec![PathBuf::from("/disk")];
    let environment = Environment {
        fs: Arc::new(FakeFs::with_dirs(dirs.clone())),
        ..Environment::os()
    };
    let split = MemorySplit::of(MEMORY);
    let config = StoreConfig::of(dirs, split.store_bytes);
    Service::new(Store::open(config, environment).unwrap(), split)
}

fn share(load: &Load) -> f64 {
    load.memory_used as f64 / load.memory_limit as f64
}

#[tokio::test]
async fn a_driver_hears_that_the_memory_for_pushes_is_full_while_most_of_the_budget_is_free() {
    let service = service();
    assert!(share(&service.load_of_fullest()) < STRAINED);
    let size = service.uploads.most_bytes() / 8;
    let mut held = Vec::new();
    // One application has half at most, and one connection a quarter.
    for number in 0..8 {
        let app = AppId::new(&format!("app-{}", number % 2)).unwrap();
        let connection = service.uploads.share();
        held.push(service.uploads.reserve(&app, &connection, size).await);
    }
    assert!(share(&service.load()) < STRAINED / 2.0, "of the whole");
    let heard = service.load_of_fullest();
    assert!(share(&heard) > STRAINED, "{heard:?}");
    let parts = service.seen().parts;
    assert_eq!(parts.map(|part| part.name), [STORE, PUSHES]);
    assert_eq!(
        (parts[1].used, parts[1].limit),
        (heard.memory_used, heard.memory_limit)
    );
    drop(held);
    assert!(share(&service.load_of_fullest()) < STRAINED);
}
