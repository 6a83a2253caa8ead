// SPDX-License-Identifier: Apache-2.0
//! The law, applied to this repository.

use std::path::Path;

use lodestone_tidy::check;
use lodestone_tidy::repository::Repository;

#[test]
fn the_repository_keeps_the_house_law() -> std::io::Result<()> {
    let repository = Repository::read(Path::new(env!("CARGO_MANIFEST_DIR")))?;
    assert!(
        repository.sources().count() > 20,
        "the repository was not found"
    );
    let breaches: Vec<String> = check(&repository).iter().map(ToString::to_string).collect();
    assert!(
        breaches.is_empty(),
        "{} breaches:\n{}",
        breaches.len(),
        breaches.join("\n")
    );
    Ok(())
}
