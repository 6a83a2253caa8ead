// SPDX-License-Identifier: Apache-2.0
//! What must hold for any bytes: `make fuzz` looks for those for which it does not.

pub mod decode;
mod fence;
pub mod serve;
pub mod start;
