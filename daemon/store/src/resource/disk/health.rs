// SPDX-License-Identifier: Apache-2.0
//! Whether a disk accepts writes, and when it is probed.

use lodestone_model::Code;

use super::RETRY_MS;

#[derive(Clone, Copy, Debug)]
pub(super) enum Health {
    Well,
    Bad {
        code: Code,
        /// The last probe said nothing of the disk: this process lacked what it needs.
        is_doubtful: bool,
        retry_at_ms: u64,
    },
}

impl Health {
    /// Returns that of a disk that failed, with the time of the next probe.
    pub(super) fn bad(code: Code, retry_at_ms: u64) -> Self {
        Self::Bad {
            code,
            is_doubtful: false,
            retry_at_ms,
        }
    }

    /// Claims a probe if it is time to, so that other callers are refused meanwhile and do not wait
    /// for it. Returns until when; nothing if the disk is well.
    pub(super) fn claim(&mut self, now_ms: u64) -> Result<Option<u64>, Code> {
        match self {
            Self::Well => Ok(None),
            Self::Bad {
                code,
                is_doubtful,
                retry_at_ms,
            } if now_ms < *retry_at_ms => Err(match is_doubtful {
                true => Code::Overloaded,
                false => *code,
            }),
            Self::Bad { retry_at_ms, .. } => {
                *retry_at_ms = now_ms + RETRY_MS;
                Ok(Some(*retry_at_ms))
            }
        }
    }

    /// Gives back a claim, which no one else has followed with a failure. Until a probe says more,
    /// callers get OVERLOADED: what they hold must not be dropped.
    pub(super) fn doubt(&mut self, claimed_until_ms: u64, again_at_ms: u64) {
        if let Self::Bad {
            is_doubtful,
            retry_at_ms,
            ..
        } = self
            && *retry_at_ms == claimed_until_ms
        {
            *is_doubtful = true;
            *retry_at_ms = again_at_ms;
        }
    }

    /// Ok if it is well; otherwise why it is not.
    pub(super) fn known(&self) -> Result<(), Code> {
        match self {
            Self::Well => Ok(()),
            Self::Bad { code, .. } => Err(*code),
        }
    }

    /// True if it had trouble, and may be probed again.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        matches!(self, Self::Bad { retry_at_ms, .. } if now_ms >= *retry_at_ms)
    }
}
