// SPDX-License-Identifier: Apache-2.0
//! Hello: the first words of a connection.

use lodestone_model::{Code, Refusal};
use lodestone_wire::extension::PROTOCOL_VERSION;
use lodestone_wire::extension::hello::{Hello, HelloReply};

use super::Call;

/// Longest part of a client's name that is logged.
const NAME_LOG_CHARS: usize = 200;

pub(super) fn hello(call: &Call, message: Hello) -> Result<HelloReply, Refusal> {
    if message.protocol_version != PROTOCOL_VERSION {
        let theirs = message.protocol_version;
        let detail =
            format!("the client speaks version {theirs}, this daemon version {PROTOCOL_VERSION}");
        return Err(Code::VersionMismatch.because(detail));
    }
    let client: String = message.client_name.chars().take(NAME_LOG_CHARS).collect();
    tracing::info!(connection = call.connection, client, "hello");
    Ok(HelloReply {
        protocol_version: PROTOCOL_VERSION,
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        incarnation: call.service.incarnation(),
        load: call.service.load_of_fullest(),
        zone: call.service.zone.clone(),
    })
}
