// SPDX-License-Identifier: Apache-2.0
//! Register: shuffles of the plugin, executors of Spark.

use lodestone_model::{AppAttempt, Code, Refusal};
use lodestone_store::ExecutorInfo;
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::status::Done;
use lodestone_wire::spark::register::{
    GetLocalDirsForExecutors, LocalDirsForExecutors, RegisterExecutor,
};

use super::{Call, answers_of_connection, generation};

/// Bytes of directories in one answer: far more than the executors of one host have.
const DIRS_BYTES_MAX: u64 = 8 << 20;

/// Memory of a name beside its bytes.
const NAME_BYTES: usize = 32;

/// A connection has a share of the memory for answers, and an answer needs twice its bytes: as
/// values, and encoded.
fn dirs_bytes_most(call: &Call) -> usize {
    (answers_of_connection(call) / 2).min(DIRS_BYTES_MAX) as usize
}

pub(super) fn shuffle(call: &Call, message: RegisterShuffle) -> Result<Done, Refusal> {
    let key = generation(call, &message.key)?;
    call.service.store.register_shuffle(key, message.spec)?;
    call.service.metrics.register_shuffles_total.inc();
    tracing::info!(connection = call.connection, shuffle = %key, "shuffle registered");
    Ok(Done {
        incarnation: call.service.incarnation(),
    })
}

pub(super) fn executor(call: &Call, message: RegisterExecutor) -> Result<(), Refusal> {
    let app = message.app;
    let push = PushSettings::of(&message.shuffle_manager)?;
    let info = ExecutorInfo {
        local_dirs: message.local_dirs,
        sub_dirs: message.sub_dirs_per_local_dir,
        merge_dir: push.merge_dir,
    };
    call.service
        .store
        .register_executor(&app, &message.exec_id, push.attempt, info)?;
    call.service.metrics.register_executors_total.inc();
    let connection = call.connection;
    tracing::info!(connection, %app, executor = message.exec_id, "executor registered");
    Ok(())
}

/// The places of the disks on which the directories of the executor are.
pub(super) fn places(call: &Call, message: &RegisterExecutor) -> Vec<usize> {
    call.service.store.places_of_dirs(&message.local_dirs)
}

/// Memory for the directories, and for the answer that contains them.
pub(super) fn local_dirs_memory(call: &Call, message: &GetLocalDirsForExecutors) -> u64 {
    let (store, most) = (&call.service.store, dirs_bytes_most(call));
    let mut bytes = 0;
    for exec in &message.exec_ids {
        // The answer is a refusal if an executor is not known, or if there are too many bytes.
        match store.local_dirs_size(&message.app, exec) {
            Some((names, dirs)) if bytes < most => {
                bytes += exec.len() + dirs + (1 + names) * NAME_BYTES;
            }
            _ => return 0,
        }
    }
    2 * bytes as u64
}

/// Memory for the answer to a request that is too long to be looked at: as much as any may have.
pub(super) fn local_dirs_memory_most(call: &Call) -> u64 {
    2 * dirs_bytes_most(call) as u64
}

pub(super) fn local_dirs(
    call: &Call,
    message: GetLocalDirsForExecutors,
) -> Result<LocalDirsForExecutors, Refusal> {
    let mut executors = Vec::new();
    let (mut bytes, most) = (0, dirs_bytes_most(call));
    for exec in message.exec_ids {
        let dirs = call.service.store.local_dirs(&message.app, &exec)?;
        let names: usize = dirs.iter().map(|dir| dir.len() + NAME_BYTES).sum();
        bytes += exec.len() + NAME_BYTES + names;
        if bytes > most {
            let detail = format!("over {most} bytes of directories: ask in parts");
            return Err(Code::TooLarge.because(detail));
        }
        executors.push((exec, dirs));
    }
    Ok(LocalDirsForExecutors { executors })
}

/// The settings that Spark hides in the name of the shuffle manager when push is on.
#[derive(Debug, PartialEq)]
struct PushSettings {
    merge_dir: Option<String>,
    attempt: AppAttempt,
}

impl PushSettings {
    /// `<class>` or `<class>:<JSON>`. Spark writes two closing braces too many after the JSON, so
    /// only its first value is read.
    fn of(shuffle_manager: &str) -> Result<Self, Refusal> {
        let none = Self {
            merge_dir: None,
            attempt: AppAttempt::NONE,
        };
        let Some((_, json)) = shuffle_manager.split_once(':') else {
            return Ok(none);
        };
        let mut values = serde_json::Deserializer::from_str(json).into_iter::<serde_json::Value>();
        let Some(Ok(settings)) = values.next() else {
            return Err(Code::Malformed.because("the text after the shuffle manager is no JSON"));
        };
        let text = |name: &str| settings.get(name).and_then(|value| value.as_str());
        let attempt = match text("attemptId").map(str::parse) {
            None => AppAttempt::NONE,
            Some(Ok(attempt)) => AppAttempt(attempt),
            Some(Err(_)) => return Err(Code::Malformed.because("attemptId is no number")),
        };
        Ok(Self {
            merge_dir: text("mergeDir").map(str::to_owned),
            attempt,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_settings_are_read_in_spite_of_the_braces_too_many() {
        let both = r#"org.X:{"mergeDir":"merge_manager_1","attemptId":"1"}}}"#;
        let settings = PushSettings::of(both).unwrap();
        assert_eq!(settings.merge_dir.as_deref(), Some("merge_manager_1"));
        assert_eq!(settings.attempt, AppAttempt(1));
        let no_attempt = PushSettings::of(r#"org.X:{"mergeDir":"m"}}}"#).unwrap();
        assert_eq!(no_attempt.attempt, AppAttempt::NONE);
        assert_eq!(PushSettings::of("org.X").unwrap().merge_dir, None);
        assert!(PushSettings::of("org.X:nonsense").is_err());
        assert!(PushSettings::of(r#"org.X:{"attemptId":"x"}"#).is_err());
    }
}
