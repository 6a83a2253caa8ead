// SPDX-License-Identifier: Apache-2.0
//! `lodestone`: the daemon, and the commands for its operators.

use std::process::ExitCode;

fn main() -> ExitCode {
    lodestone_server::serve::start::run()
}
