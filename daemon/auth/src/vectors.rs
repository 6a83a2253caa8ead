// SPDX-License-Identifier: Apache-2.0
//! Handshakes that Spark's own classes made: `protocol/vectors/authentication.txt`.

use std::collections::BTreeMap;

use lodestone_model::AppId;

use crate::{Fresh, Secret};

/// One handshake: the values of its lines, by their first words.
pub(crate) struct Vector(BTreeMap<String, String>);

impl Vector {
    pub(crate) fn text(&self, name: &str) -> &str {
        &self.0[name]
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let digits: Vec<char> = self.0[name].chars().collect();
        let pairs = digits.chunks(2).map(String::from_iter);
        pairs
            .map(|pair| u8::from_str_radix(&pair, 16).unwrap())
            .collect()
    }

    pub(crate) fn array<const N: usize>(&self, name: &str) -> [u8; N] {
        self.bytes(name).try_into().unwrap()
    }

    pub(crate) fn secret(&self) -> Secret {
        Secret::new(self.text("secret").as_bytes()).unwrap()
    }
}

/// The handshakes of one way; each begins with a line of this name.
pub(crate) fn read(kind: &str) -> Vec<Vector> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../protocol/vectors/authentication.txt"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let mut vectors = Vec::new();
    for block in text.split("\n\n") {
        let lines = block.lines().filter(|line| !line.starts_with('#'));
        let values: BTreeMap<String, String> = lines
            .map(|line| {
                let (name, value) = line.split_once(' ').unwrap();
                (name.to_owned(), value.to_owned())
            })
            .collect();
        if values.contains_key(kind) {
            vectors.push(Vector(values));
        }
    }
    vectors
}

pub(crate) fn app() -> AppId {
    AppId::new("application_1").unwrap()
}

/// Bytes that are as good as random ones for a test.
pub(crate) fn fresh(seed: u8) -> Fresh {
    Fresh {
        private: [seed; 32],
        salt: [seed; 16],
        iv: [seed; 12],
        nonce: [seed; 30],
    }
}
