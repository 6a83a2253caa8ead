// SPDX-License-Identifier: Apache-2.0
//! The end of an application. A single shuffle is removed with Spark's own `RemoveShuffleMerge`.
//! The answer is `Done`.
//!
//! ```text
//! EndApplication 78  appId, i32 appAttempt
//! ```

use lodestone_model::{AppAttempt, AppId};

use crate::codec::message;

message! { strict, 78;
    /// Drop what the driver registered; from an operator, everything of the application.
    pub struct EndApplication {
        /// The application.
        pub app: AppId,
        /// Application attempt, -1 where there is none.
        pub app_attempt: AppAttempt,
    }
}
