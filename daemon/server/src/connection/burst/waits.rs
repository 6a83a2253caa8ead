// SPDX-License-Identifier: Apache-2.0
//! Waits in the middle of a chunk: for the client, and for whoever holds up its partition.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::super::answer_wait::AnswerWait;
use super::super::socket::Socket;
use super::super::{CloseReason, STALL_TIMEOUT};
use super::Burst;
use crate::service::clock;

/// When a client has taken nothing of a chunk for so long in all, and again after each such time,
/// its memory is looked at.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// The rest of a chunk whose partition another thread holds up is looked for again after this time.
const HELD_UP: Duration = Duration::from_millis(100);

impl Burst {
    /// Returns true if the socket has taken bytes that the client could not take yet. They must not
    /// wait for the disk of the next chunk. (An error shows at the next call.)
    pub(super) fn keeps_bytes(&self) -> bool {
        let flushed = self.socket.try_flush();
        flushed.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Waits until the client takes bytes. While memory is short, a slow one holds none of the
    /// store: thousands of them would hold all of it.
    pub(super) async fn wait_for_client(
        &mut self,
        answer_wait: &mut AnswerWait,
    ) -> Result<(), CloseReason> {
        let socket = Arc::clone(&self.socket);
        let mut writable = pin!(answer_wait.writable(&socket));
        loop {
            let began = clock::now();
            let waited = timeout(self.look_in, &mut writable).await;
            self.look_in = self.look_in.saturating_sub(began.elapsed());
            if let Ok(writable) = waited {
                return writable;
            }
            if self.service.store.is_short_of_memory() {
                if let Some(begun) = self.sending.set_aside() {
                    self.wait_again_for([begun].into_iter());
                }
                // While memory is short, the rest will not be held either.
                return writable.await;
            }
            self.look_in = LOOK;
        }
    }

    /// Waits before the rest of a chunk is looked for again. A thread that holds up its partition
    /// may wait for a disk: as long as for a client.
    pub(super) async fn wait_for_partition(&self) -> Result<(), CloseReason> {
        let held_up = self.held_up_since.map(|since| since.elapsed());
        if held_up >= Some(STALL_TIMEOUT) {
            let reason = io::Error::other("its partition is held up");
            return Err(CloseReason::Chunk(reason));
        }
        sleep(HELD_UP).await;
        Ok(())
    }
}
