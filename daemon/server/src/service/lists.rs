// SPDX-License-Identifier: Apache-2.0
//! Memory for the lists of items in open streams. Each connection and each application has a share
//! of it. A list that is larger than a share gets in when it has all of the share.

use lodestone_model::AppId;

use super::pool::{Pool, Reserved};
use super::shares::Shares;

/// One connection may hold a quarter of the memory.
const PART_OF_CONNECTION: u64 = 4;

/// One application may hold half of the memory.
const PART_OF_APPLICATION: u64 = 2;

/// All memory for lists.
#[derive(Debug)]
pub struct Lists {
    all: Pool,
    of_applications: Shares,
}

impl Lists {
    /// Memory of this size.
    pub fn new(bytes: u64) -> Self {
        Self {
            all: Pool::new(bytes),
            of_applications: Shares::new(PART_OF_APPLICATION),
        }
    }

    /// The size of the memory.
    pub fn capacity_bytes(&self) -> u64 {
        self.all.capacity_bytes()
    }

    /// Bytes that are reserved now.
    pub fn used_bytes(&self) -> u64 {
        self.all.used_bytes()
    }

    /// The share of a new connection.
    pub(crate) fn share(&self) -> Pool {
        self.all.share(PART_OF_CONNECTION)
    }

    /// Takes memory that is free now, and for which nobody waits.
    pub(crate) fn try_reserve(
        &self,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> Option<Vec<Reserved>> {
        let of_connection = connection.try_reserve(bytes)?;
        let of_application = self.of_applications.of(&self.all, app).try_reserve(bytes)?;
        let all = self.all.try_reserve(bytes)?;
        Some(vec![all, of_application, of_connection])
    }

    /// Waits for the memory, first for that of its own shares.
    pub(crate) async fn reserve(
        &self,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> Vec<Reserved> {
        let of_connection = connection.reserve(bytes).await;
        let of_application = self.of_applications.of(&self.all, app).reserve(bytes).await;
        let all = self.all.reserve(bytes).await;
        vec![all, of_application, of_connection]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn neither_a_connection_nor_an_application_has_all_of_it() {
        let lists = Lists::new(80 * KIB);
        let (one, other) = (AppId::new("one").unwrap(), AppId::new("other").unwrap());
        let connections: Vec<Pool> = (0..4).map(|_| lists.share()).collect();
        let of_one =
            |connection: usize| lists.try_reserve(&one, &connections[connection], 20 * KIB);
        let held = [of_one(0).unwrap(), of_one(1).unwrap()];
        assert!(
            lists.try_reserve(&other, &connections[0], KIB).is_none(),
            "a connection"
        );
        assert!(of_one(2).is_none(), "an application");
        assert!(
            lists
                .try_reserve(&other, &connections[2], 30 * KIB)
                .is_some(),
            "its whole share"
        );
        drop(held);
        assert_eq!(lists.used_bytes(), 0);
        assert!(of_one(2).is_some());
    }
}
