// SPDX-License-Identifier: Apache-2.0
//! The real handlers, called as a connection calls them.

use bytes::Bytes;
use lodestone_model::Refusal;
use lodestone_server::handler::{self, Answer, Call, NoRoom, Upload};
use lodestone_server::streams::source::{Job, Opened};
use lodestone_store::{ChunkData, Wait};
use lodestone_wire::Message;
use lodestone_wire::extension::drain::Drain;

use crate::world::disk::Disk;

/// The real handlers.
#[derive(Debug)]
pub(super) struct Handlers {
    disk: Disk,
    is_short: bool,
}

impl Handlers {
    /// Handlers over this disk.
    pub(super) fn new(disk: Disk) -> Self {
        Self {
            disk,
            is_short: false,
        }
    }

    /// Carries out an RPC.
    pub(super) fn rpc(&mut self, call: &Call, request: &Bytes) -> Answer {
        match request.first() {
            // It comes to another socket, and no network is between.
            Some(&Drain::ID) => handler::operator(call, request),
            _ => self.rpc_of_connection(call, request),
        }
    }

    /// Carries out an RPC as a connection does: at once, if it need not wait.
    fn rpc_of_connection(&mut self, call: &Call, request: &Bytes) -> Answer {
        let at_once = match self.is_short() {
            true => {
                let call = call.without_waiting();
                self.disk.untouched(|| handler::rpc_now(&call, request))
            }
            false => None,
        };
        at_once.unwrap_or_else(|| {
            handler::rpc(call, request)
                .unwrap_or_else(|NoRoom(refusal)| handler::without_stream(call, request, &refusal))
        })
    }

    /// Every other request counts as one that is too long to be carried out at once.
    fn is_short(&mut self) -> bool {
        self.is_short = !self.is_short;
        self.is_short
    }

    /// Merges an upload.
    pub(super) fn upload(&mut self, call: &Call, upload: &Upload, body: &Bytes) -> Answer {
        let at_once = match self.is_short() {
            true => {
                let call = call.without_waiting();
                self.disk
                    .untouched(|| handler::upload_now(&call, upload, body))
            }
            false => Err(Vec::new()),
        };
        at_once.unwrap_or_else(|before| {
            let begun = match upload {
                Upload::Block(block) => handler::begin_block(call, block),
                Upload::Batch(_) => None,
            };
            begun.unwrap_or_else(|| handler::upload(call, upload, body, &before))
        })
    }

    /// Opens a chunk as the writer of a connection does.
    pub(super) fn open(&self, call: &Call, job: &Job) -> Result<ChunkData, Refusal> {
        let store = &call.service.store;
        let mut opened = self
            .disk
            .untouched(|| job.open_at(Wait::Never, &[], None, store));
        loop {
            match opened {
                Opened::Here(opened, _) => return opened,
                Opened::Elsewhere(places, found) => {
                    opened = job.open_at(Wait::InTime, &places, found, store);
                }
            }
        }
    }
}
