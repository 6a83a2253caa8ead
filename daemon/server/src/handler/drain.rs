// SPDX-License-Identifier: Apache-2.0
//! Drain: an operator takes the service away.

use lodestone_model::{Code, Refusal};
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
    let held = store.held_data();
    if message.wish == Wish::Leave && held.draining && held.is_nothing() {
        call.service.drained.send_replace(true);
    }
    Ok(Holdings {
        incarnation: call.service.incarnation(),
        held,
    })
}
