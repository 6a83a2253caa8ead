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
            if !store.holdings().draining {
                tracing::info!(connection, "drained: nothing new is taken");
            }
            store.drain();
        }
        Wish::Cancel => {
            tracing::info!(connection, "no longer drained");
            store.cancel_drain();
        }
        Wish::Look | Wish::Leave => {}
    }
    let holdings = store.holdings();
    if message.wish == Wish::Leave && holdings.draining && holdings.is_nothing() {
        call.service.drained.send_replace(true);
    }
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    Ok(Holdings {
        incarnation: call.service.incarnation(),
        draining: holdings.draining,
        shuffles: holdings.shuffles,
        applications: holdings.applications,
        bytes: signed(holdings.bytes),
        unwritten_bytes: signed(holdings.unwritten_bytes),
        executors: holdings.executors,
        lease_left_ms: signed(holdings.lease_left_ms),
    })
}
