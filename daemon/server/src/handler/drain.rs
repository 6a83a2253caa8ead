// SPDX-License-Identifier: Apache-2.0
//! Drain: an operator takes the service away.

use lodestone_model::{Code, Refusal};
use lodestone_wire::extension::drain::{Drain, Holdings, Wish};

use super::Call;

/// The refusal of a drain that comes to the port of the service.
pub(super) fn not_here() -> Refusal {
    Code::Malformed.because("a service is drained on its own host: run `lodestone drain` there")
}

pub(super) fn drain(call: &Call, message: Drain) -> Result<Holdings, Refusal> {
    let store = &call.service.store;
    match message.wish {
        Wish::Begin => {
            if store.drain() {
                tracing::info!("drained: nothing new is taken");
            }
        }
        Wish::Cancel => {
            tracing::info!("no longer drained");
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
