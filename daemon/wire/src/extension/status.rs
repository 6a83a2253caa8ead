// SPDX-License-Identifier: Apache-2.0
//! Status codes, and the two answers that carry nothing else.
//!
//! ```text
//! Done    79  i64 incarnation
//! Refused 80  i8 code, i64 incarnation, string detail
//! ```

use lodestone_model::Code;

use crate::codec::{byte, message};

byte!(Code);

message! { strict, 79;
    /// The request was carried out.
    pub struct Done {
        /// Incarnation of the daemon.
        pub incarnation: i64,
    }
}

message! { strict, 80;
    /// The request was not carried out.
    pub struct Refused {
        /// Why.
        pub code: Code,
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// For the log; never to be parsed.
        pub detail: String,
    }
}
