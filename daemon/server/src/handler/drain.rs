// SPDX-License-Identifier: Apache-2.0
//! Drain: an operator takes the service away.

use std::time::Duration;

use lodestone_model::{Code, Refusal};
use lodestone_wire::Message;
use lodestone_wire::extension::drain::{Drain, Holdings, Wish};

use super::{Answer, Call};

/// How long a request waits for the data in memory to be written out. Operators ask again.
const WRITES_WAIT: Duration = Duration::from_secs(1);

/// The refusal of a drain that comes to the port of the service.
pub(super) fn not_here() -> Refusal {
    Code::Malformed.because("a service is drained on its own host: run `lodestone drain` there")
}

/// Returns true if the daemon ends because of this request and its answer.
pub(super) fn leaves(request: &[u8], answer: &Answer) -> bool {
    let Answer::Response(answer) = answer else {
        return false;
    };
    match (Drain::from_bytes(request), Holdings::from_bytes(answer)) {
        (Ok(Drain { wish: Wish::Leave }), Ok(Holdings { held, .. })) => {
            held.draining && held.is_nothing()
        }
        _ => false,
    }
}

pub(super) fn drain(call: &Call, message: Drain) -> Result<Holdings, Refusal> {
    let store = &call.service.store;
    match message.wish {
        Wish::Begin => {
            if store.drain() {
                tracing::info!("drained: nothing new is taken");
            }
            store.wait_until_written(WRITES_WAIT);
        }
        Wish::Cancel => {
            tracing::info!("no longer drained");
            store.cancel_drain();
        }
        Wish::Look | Wish::Leave => {}
    }
    let held = store.held_data();
    Ok(Holdings {
        incarnation: call.service.incarnation(),
        held,
    })
}
