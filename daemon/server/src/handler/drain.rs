// SPDX-License-Identifier: Apache-2.0
//! Drain: an operator takes the service away.

use lodestone_store::{Code, Refusal};
use lodestone_wire::extension::drain::{Drain, Holdings, Wish};

use super::Call;

pub(super) fn drain(call: &Call, message: Drain) -> Result<Holdings, Refusal> {
    if message.wish != Wish::Look && !call.is_from_here {
        let detail = "a service is drained from its own host: run `lodestone drain` there";
        return Err(Code::Malformed.because(detail));
    }
    let store = &call.service.store;
    let connection = call.connection;
    match message.wish {
        Wish::Begin => {
            if store.drain() {
                tracing::info!(connection, "drained: nothing new is taken");
            }
        }
        Wish::Cancel => {
            tracing::info!(connection, "no longer drained");
            store.cancel_drain();
        }
        Wish::Look | Wish::Leave => {}
    }
    let holdings = store.holdings();
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let reply = Holdings {
        incarnation: call.service.incarnation(),
        draining: holdings.draining,
        shuffles: holdings.shuffles,
        applications: holdings.applications,
        bytes: signed(holdings.bytes),
        unwritten_bytes: signed(holdings.unwritten_bytes),
        executors: holdings.executors,
        lease_left_ms: signed(holdings.lease_left_ms),
    };
    if message.wish == Wish::Leave && reply.draining && reply.is_nothing() {
        call.service.drained.send_replace(true);
    }
    Ok(reply)
}
