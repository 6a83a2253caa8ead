// SPDX-License-Identifier: Apache-2.0
//! A pool of which each connection and each application may hold a share. A request for more than
//! a share waits until it can have all of the share.

use std::iter;
use std::sync::Arc;

use lodestone_model::AppId;

use super::app_lines::AppLines;
use super::connection_share::ConnectionShare;
use super::line::{Hurry, Line};
use super::pool::{Pool, Reserved};

/// One connection may hold a quarter of the memory.
pub(crate) const PART_OF_CONNECTION: u64 = 4;

/// The memory, and what each application may hold.
#[derive(Debug)]
pub struct SharedPool {
    all: Arc<Line>,
    of_applications: AppLines,
}

impl SharedPool {
    /// A pool of this size, of which an application may hold half. Nobody hears when one waits for
    /// its own: many clients of one that is honest do so all the time.
    pub fn new(bytes: u64) -> Self {
        Self {
            all: Arc::new(Line::new(bytes)),
            of_applications: AppLines::new(bytes / 2),
        }
    }

    /// A pool of this size, with this share for each application. Those that have memory of it hear
    /// also when others wait for the share of an application.
    pub fn with_share(bytes: u64, application_bytes: u64) -> Self {
        let all = Arc::new(Line::new(bytes));
        Self {
            of_applications: AppLines::heard_by(application_bytes, all.hasten()),
            all,
        }
    }

    /// The size of the pool.
    pub fn capacity_bytes(&self) -> u64 {
        self.all.capacity_bytes()
    }

    /// Bytes that are reserved now.
    pub fn used_bytes(&self) -> u64 {
        self.all.used_bytes()
    }

    /// For a request that has got memory.
    pub(crate) fn hurry(&self) -> Hurry {
        self.all.hurry()
    }

    /// The share of an application, and its line.
    pub(crate) fn of_application(&self, app: &AppId) -> Arc<Line> {
        self.of_applications.of(app)
    }

    /// The share of a new connection.
    pub(crate) fn share(&self) -> Pool {
        self.all.share(PART_OF_CONNECTION)
    }

    /// A share of this part for a new connection, which counts what the connection has.
    pub(crate) fn connection_share(&self, part: u64) -> ConnectionShare {
        ConnectionShare::new(self.all.share(part), Arc::clone(&self.all))
    }

    /// Takes memory that is free now, and for which nobody waits.
    pub(crate) fn try_reserve(
        &self,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> Option<Vec<Reserved>> {
        let [of_application, of_connection] = self.try_shares(app, connection, bytes)?;
        let all = self.all.try_reserve(bytes)?;
        Some(vec![all, of_application, of_connection])
    }

    /// Takes shares that are free now, and for which nobody waits.
    pub(crate) fn try_shares(
        &self,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> Option<[Reserved; 2]> {
        let of_connection = connection.try_reserve(bytes)?;
        let of_application = self.of_application(app).try_reserve(bytes)?;
        Some([of_application, of_connection])
    }

    /// Waits for the memory. The shares come first: a client with many requests waits for its own.
    pub(crate) async fn reserve(
        &self,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> Vec<Reserved> {
        let shares = self.reserve_shares(app, connection, bytes).await;
        self.reserve_all(shares, bytes).await
    }

    /// Waits for the shares of the connection and of the application.
    pub(crate) async fn reserve_shares(
        &self,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> [Reserved; 2] {
        let of_connection = connection.reserve(bytes).await;
        let of_application = self.of_application(app).reserve(bytes).await;
        [of_application, of_connection]
    }

    /// Waits for the memory of a request that has these shares.
    pub(crate) async fn reserve_all(&self, shares: [Reserved; 2], bytes: u64) -> Vec<Reserved> {
        let all = self.all.reserve(bytes).await;
        iter::once(all).chain(shares).collect()
    }

    /// Waits for memory of a request whose application is not known.
    pub(crate) async fn reserve_for_unknown(&self, connection: &Pool, bytes: u64) -> Vec<Reserved> {
        let of_connection = connection.reserve(bytes).await;
        vec![self.all.reserve(bytes).await, of_connection]
    }

    /// Takes memory that is free now, without a share.
    pub(crate) fn try_reserve_for_unknown(&self, bytes: u64) -> Option<Reserved> {
        self.all.try_reserve(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn neither_a_connection_nor_an_application_has_all_of_it() {
        let pool = SharedPool::new(80 * KIB);
        let (one, other) = (AppId::new("one").unwrap(), AppId::new("other").unwrap());
        let connections: Vec<Pool> = (0..4).map(|_| pool.share()).collect();
        let of_one = |connection: usize| pool.try_reserve(&one, &connections[connection], 20 * KIB);
        let held = [of_one(0).unwrap(), of_one(1).unwrap()];
        assert!(
            pool.try_reserve(&other, &connections[0], KIB).is_none(),
            "a connection"
        );
        assert!(of_one(2).is_none(), "an application");
        assert!(
            pool.try_reserve(&other, &connections[2], 30 * KIB)
                .is_some(),
            "its whole share"
        );
        drop(held);
        assert_eq!(pool.used_bytes(), 0);
        assert!(of_one(2).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_application_that_wants_more_than_its_share_waits_and_another_one_does_not() {
        let pool = SharedPool::new(80 * KIB);
        let (one, other) = (AppId::new("one").unwrap(), AppId::new("other").unwrap());
        let connections: Vec<Pool> = (0..5).map(|_| pool.share()).collect();
        let reserve = |app, connection: usize| {
            let reserving = pool.reserve(app, &connections[connection], 20 * KIB);
            timeout(Duration::from_secs(1), reserving)
        };
        let _held = [
            reserve(&one, 0).await.unwrap(),
            reserve(&one, 1).await.unwrap(),
        ];
        assert!(reserve(&one, 2).await.is_err(), "more than its share");
        let _more = [
            reserve(&other, 3).await.unwrap(),
            reserve(&other, 4).await.unwrap(),
        ];
    }
}
