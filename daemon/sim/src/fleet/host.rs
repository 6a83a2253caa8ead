// SPDX-License-Identifier: Apache-2.0
//! One host with its daemon, as clients see it through a bad network.

use bytes::Bytes;
use lodestone_model::Code;
use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::extension::drain::{Drain, Holdings, Wish};
use lodestone_wire::extension::push::PushBatchReply;

use crate::dice::Dice;
use crate::model::refusal;
use crate::world::{Machine, World};

/// The connection of all clients: other runs check which client is served on which connection.
const CONNECTION: u64 = 1;

/// How often a request is sent. More than ever get lost in a row.
const TRIES: usize = 40;

/// Memory of a store: enough for some of what a run pushes.
const MEMORY_BYTES: u64 = 256 << 10;

/// Longer than any lease.
const SILENCE_MS: u64 = 130_000;

/// A daemon in one incarnation, as in the plugin's `ServiceLocation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServiceLocation {
    pub(super) host: usize,
    pub(super) incarnation: i64,
}

/// Why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Refused(Code),
    /// The daemon is not there.
    Silent,
}

/// A message that the network keeps back, and delivers once more at any time.
#[derive(Debug)]
enum Stray {
    Rpc(Bytes),
    Upload { meta: Bytes, body: Bytes },
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) world: World,
    /// The incarnation of its daemon, or of the one that handed its shuffles over.
    pub(super) incarnation: i64,
    pub(super) draining: bool,
    strays: Vec<Stray>,
}

impl Host {
    pub(super) fn new(seed: u64) -> Self {
        let machine = Machine {
            seed,
            disks: 1,
            memory_bytes: MEMORY_BYTES,
        };
        let mut host = Self {
            world: World::new(&machine),
            incarnation: 0,
            draining: false,
            strays: Vec::new(),
        };
        host.start();
        host
    }

    pub(super) fn start(&mut self) {
        self.draining = false;
        if let Some(incarnation) = self.world.start() {
            self.incarnation = incarnation;
        }
    }

    /// Kills the daemon: its data is gone.
    pub(super) fn kill(&mut self) {
        self.world.kill();
        self.incarnation = 0;
    }

    /// Stops the daemon: it hands its shuffles over.
    pub(super) fn stop(&mut self) {
        self.world.stop();
    }

    /// The daemon gets no lease of the application for too long: its data of the application is
    /// gone, and it runs on. No message stays on the network for this long.
    pub(super) fn forget(&mut self) {
        self.strays.clear();
        self.world.clock.advance_ms(SILENCE_MS);
        self.world.expire_leases();
    }

    /// Returns true if the clients pushed to this daemon, or to the one whose shuffles it will take
    /// over.
    pub(super) fn has(&self, service: ServiceLocation) -> bool {
        self.incarnation == service.incarnation
    }

    pub(super) fn rpc<A: Message>(
        &mut self,
        dice: &mut Dice,
        request: &impl Message,
    ) -> Result<A, Trouble> {
        let body = request.to_bytes();
        if dice.chance(3) {
            self.strays.push(Stray::Rpc(body.clone()));
        }
        let answer = self.ask(dice, |world| world.rpc(CONNECTION, &body))?;
        decoded(&answer)
    }

    pub(super) fn push(
        &mut self,
        dice: &mut Dice,
        meta: &Bytes,
        body: &Bytes,
    ) -> Result<PushBatchReply, Trouble> {
        if dice.chance(3) {
            let (meta, body) = (meta.clone(), body.clone());
            self.strays.push(Stray::Upload { meta, body });
        }
        let answer = self.ask(dice, |world| upload(world, meta, body))?;
        decoded(&answer)
    }

    /// Without an answer, and perhaps without effect.
    pub(super) fn send_one_way(&mut self, dice: &mut Dice, request: &impl Message) {
        if !dice.chance(5) {
            self.world.one_way(CONNECTION, &request.to_bytes());
        }
    }

    /// Opens and reads the next chunk of a stream.
    pub(super) fn chunk(&mut self, stream: i64, index: i32) -> Result<Vec<u8>, Trouble> {
        match self.world.open_chunk(CONNECTION, stream, index) {
            Some(Ok(data)) => self.world.read(&data).map_err(|_| Trouble::Silent),
            _ => Err(Trouble::Silent),
        }
    }

    /// The network delivers something a second time, long after.
    pub(super) fn deliver_stray(&mut self, dice: &mut Dice) {
        if self.strays.is_empty() {
            return;
        }
        let at = dice.below(self.strays.len());
        match self.strays.swap_remove(at) {
            Stray::Rpc(body) => drop(self.world.rpc(CONNECTION, &body)),
            Stray::Upload { meta, body } => drop(upload(&mut self.world, &meta, &body)),
        }
    }

    /// An operator begins or cancels a drain. A daemon that holds nothing any more ends, and starts
    /// again.
    pub(super) fn drain(&mut self, dice: &mut Dice, wish: Wish) {
        let held: Result<Holdings, _> = self.rpc(dice, &Drain { wish });
        let Ok(Holdings { held, .. }) = held else {
            return;
        };
        self.draining = held.draining;
        if held.draining && held.shuffles == 0 {
            self.stop();
            self.incarnation = 0;
            self.start();
        }
    }

    /// Requests and answers get lost; clients ask again.
    fn ask(
        &mut self,
        dice: &mut Dice,
        mut work: impl FnMut(&mut World) -> Option<Answer>,
    ) -> Result<Answer, Trouble> {
        for _ in 0..TRIES {
            if dice.chance(5) {
                continue;
            }
            let answer = work(&mut self.world).ok_or(Trouble::Silent)?;
            if dice.chance(4) {
                let _ = work(&mut self.world);
            }
            if !dice.chance(5) {
                return Ok(answer);
            }
        }
        Err(Trouble::Silent)
    }
}

fn upload(world: &mut World, meta: &Bytes, body: &Bytes) -> Option<Answer> {
    match world.admit(CONNECTION, meta, body)? {
        Ok(upload) => world.upload(CONNECTION, &upload, body),
        Err(refused) => Some(refused),
    }
}

fn decoded<A: Message>(answer: &Answer) -> Result<A, Trouble> {
    if let Some(refused) = refusal(answer) {
        return Err(Trouble::Refused(refused.code));
    }
    match answer {
        Answer::Response(bytes) => A::from_bytes(bytes).map_err(|_| Trouble::Silent),
        Answer::Failure(_) | Answer::Close => Err(Trouble::Silent),
    }
}
