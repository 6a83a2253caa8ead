// SPDX-License-Identifier: Apache-2.0
//! The outcome of an application's shuffles, and the reasons. Its driver sends it, the daemon keeps
//! it, and people ask for it (`lodestone explain`). The daemon does not look into reports.
//!
//! ```text
//! ReportApplication  81  appId, i32 appAttempt, bool ended, string report (JSON)
//! ExplainApplication 82  string appId ("" = a list)
//! Explanation        83  i64 incarnation, ReportKept[]
//! ```

use lodestone_model::{AppAttempt, AppId};

use crate::codec::{message, record};

message! { strict, 81;
    /// Keep this report in place of the last one. Answered with `Done`.
    pub struct ReportApplication {
        /// The application.
        pub app: AppId,
        /// Application attempt, -1 where there is none.
        pub app_attempt: AppAttempt,
        /// No newer report will come.
        pub ended: bool,
        /// JSON.
        pub report: String,
    }
}

message! { strict, 82;
    /// The last report of an application.
    pub struct ExplainApplication {
        /// Its id; empty for a list of all, without their reports.
        pub app: String,
    }
}

record! {
    /// A report, as it is kept.
    pub struct ReportKept {
        /// The application.
        pub app: AppId,
        /// Application attempt.
        pub app_attempt: AppAttempt,
        /// Whether it is the last one.
        pub ended: bool,
        /// Milliseconds since it came.
        pub age_ms: i64,
        /// JSON; empty in a list.
        pub report: String,
    }
}

message! { strict, 83;
    /// The reports of all attempts of the application, or a list.
    pub struct Explanation {
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// In the order of ids and attempts.
        pub applications: Vec<ReportKept>,
    }
}
