// SPDX-License-Identifier: Apache-2.0
//! From the ids of the wire to those of the store.

use lodestone_store::{AppAttempt, AppId, Code, MergeId, Refusal, ShuffleId, ShuffleKey};
use lodestone_wire::extension::MergeKey;
use lodestone_wire::spark;

use super::Call;

pub(super) fn app_id(app: &lodestone_wire::AppId) -> Result<AppId, Refusal> {
    AppId::new(app.as_str())
}

/// The key of an extension message; refused unless it means this life of the daemon.
pub(super) fn merge_key(call: &Call, key: &MergeKey) -> Result<ShuffleKey, Refusal> {
    check_incarnation(call, key.incarnation)?;
    Ok(ShuffleKey {
        app: app_id(&key.app)?,
        attempt: Some(AppAttempt(key.app_attempt)),
        shuffle: ShuffleId(key.shuffle_id),
        merge: MergeId(key.merge_id),
    })
}

pub(super) fn check_incarnation(call: &Call, told: i64) -> Result<(), Refusal> {
    let ours = call.service.incarnation();
    if told == ours {
        return Ok(());
    }
    let detail = format!("this is incarnation {ours:016x}, the request is for {told:016x}");
    Err(Code::StaleIncarnation.because(detail))
}

/// The key of Spark's messages that carry an attempt.
pub(super) fn spark_key(key: &spark::ShuffleKey) -> Result<ShuffleKey, Refusal> {
    Ok(ShuffleKey {
        app: app_id(&key.app)?,
        attempt: Some(AppAttempt(key.app_attempt)),
        shuffle: ShuffleId(key.shuffle_id),
        merge: MergeId(key.merge_id),
    })
}
