// SPDX-License-Identifier: Apache-2.0
//! The daemon of this source tree. The tests of the bench start it.

use std::process::ExitCode;

fn main() -> ExitCode {
    lodestone_server::serve::start::run()
}
