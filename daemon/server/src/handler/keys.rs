// SPDX-License-Identifier: Apache-2.0
//! Which incarnation of the daemon a request names.

use lodestone_model::{Code, Refusal, ShuffleKey};
use lodestone_planted::{self as planted, Bug};
use lodestone_wire::extension::ShuffleAddress;

use super::Call;

/// Returns the generation that an extension message names. Refuses a message for another
/// incarnation.
pub(super) fn generation<'key>(
    call: &Call,
    key: &'key ShuffleAddress,
) -> Result<&'key ShuffleKey, Refusal> {
    check_incarnation(call, key.incarnation)?;
    Ok(&key.shuffle)
}

pub(super) fn check_incarnation(call: &Call, incarnation: i64) -> Result<(), Refusal> {
    let ours = call.service.incarnation();
    if incarnation == ours || planted::is(Bug::IncarnationIgnored) {
        return Ok(());
    }
    let detail = format!("this is incarnation {ours:016x}, the request is for {incarnation:016x}");
    Err(Code::StaleIncarnation.because(detail))
}
