// SPDX-License-Identifier: Apache-2.0
//! Messages on their way: delayed, overtaken, sent twice, lost.

use bytes::Bytes;
use lodestone_wire::frame::MergedBlockMetaRequest;

use crate::dice::Dice;

/// Messages in flight at once; clients wait past it.
pub const IN_FLIGHT_MAX: usize = 32;

/// A message of a client.
#[derive(Clone, Debug)]
pub enum Packet {
    /// Body of an `RpcRequest`.
    Rpc(Bytes),
    /// Body of a `OneWayMessage`.
    OneWay(Bytes),
    /// An `UploadStream`.
    Upload {
        /// The message.
        meta: Bytes,
        /// The bytes after the frame.
        body: Bytes,
    },
    /// A `MergedBlockMetaRequest`.
    Meta(MergedBlockMetaRequest),
    /// A `ChunkFetchRequest`.
    Chunk {
        /// Id of the stream.
        stream: i64,
        /// Which chunk.
        index: i32,
    },
}

/// A packet with its connection and number.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The client's connection.
    pub connection: u64,
    /// Number of the request; a repetition has the same.
    pub request: u64,
    /// The message.
    pub packet: Packet,
}

/// The faults of the network, in percent.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Sent twice.
    pub duplicated: usize,
    /// Lost.
    pub lost: usize,
    /// Overtaken by any other message.
    pub overtaken: usize,
}

/// The network between clients and the daemon's port.
#[derive(Debug)]
pub struct Network {
    in_flight: Vec<Envelope>,
    weather: Weather,
}

impl Network {
    /// An empty network.
    pub fn new(weather: Weather) -> Self {
        Self {
            in_flight: Vec::new(),
            weather,
        }
    }

    /// Sends a packet.
    pub fn send(&mut self, envelope: Envelope, dice: &mut Dice) {
        if dice.chance(self.weather.duplicated) {
            self.in_flight.push(envelope.clone());
        }
        if !dice.chance(self.weather.lost) {
            self.in_flight.push(envelope);
        }
    }

    /// Returns true if clients must wait.
    pub fn is_full(&self) -> bool {
        self.in_flight.len() >= IN_FLIGHT_MAX
    }

    /// Returns true if nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// The next packet that arrives.
    pub fn arrive(&mut self, dice: &mut Dice) -> Option<Envelope> {
        if self.in_flight.is_empty() {
            return None;
        }
        let at = match dice.chance(self.weather.overtaken) {
            true => dice.below(self.in_flight.len()),
            false => 0,
        };
        Some(self.in_flight.remove(at))
    }
}
