// SPDX-License-Identifier: Apache-2.0
//! RenewLease: the application is alive.

use lodestone_model::{Code, Refusal};
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};

use super::{Call, check_incarnation};

pub(super) fn renew(call: &Call, message: RenewLease) -> Result<LeaseReply, Refusal> {
    if message.incarnation != 0 {
        check_incarnation(call, message.incarnation)?;
    }
    let Ok(ttl_ms) = u64::try_from(message.ttl_ms) else {
        return Err(Code::Malformed.because(format!("ttl of {} ms", message.ttl_ms)));
    };
    let (app, attempt) = (&message.app, message.app_attempt);
    let granted = call.service.store.renew_lease(app, attempt, ttl_ms)?;
    Ok(LeaseReply {
        incarnation: call.service.incarnation(),
        granted_ttl_ms: i64::try_from(granted).unwrap_or(i64::MAX),
        load: call.service.load_of_fullest(),
    })
}
