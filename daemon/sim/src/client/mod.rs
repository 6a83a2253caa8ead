// SPDX-License-Identifier: Apache-2.0
//! Drivers, map attempts and readers: the messages that they send, and what readers do with the
//! answers. They know of the daemon only its answers, are wrong about it now and then, and repeat
//! requests.

mod attempt;
mod driver;
mod executor;
mod mapper;
mod reader;
mod spark_push;

use std::collections::{BTreeMap, VecDeque};

use lodestone_model::{
    AppAttempt, AppId, Code, GenerationId, LaidSegment, Mode, ShuffleId, ShuffleKey,
};
use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::extension::drain::{Drain, Wish};
use lodestone_wire::extension::fetch::{SegmentLayout, SegmentLayoutReply};
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::{PROTOCOL_VERSION, ShuffleAddress};
use lodestone_wire::spark::fetch::StreamHandle;

use crate::dice::Dice;
use crate::model::{attempt_of, refusal};
use crate::network::{Envelope, Network, Packet};

use attempt::{Attempt, AttemptKey};
pub use executor::{Deed, EXECUTOR_APP, EXECUTOR_DIRS, EXECUTOR_DISKS, every_executor, path_of};
pub use reader::{fetch_one, full_fetch, full_layout};
pub use spark_push::{
    MERGE_DIRS, PUSHING_APP, PUSHING_ATTEMPT, PUSHING_DIRS, PUSHING_EXECUTOR, ask_for_pushing,
    fetch_merged, finalize_merge, meta_request, remove_merged,
};

/// Connections that the clients have between them.
pub const CONNECTIONS: u64 = 4;

/// Packets that may be sent again.
const REMEMBERED: usize = 64;

/// Layouts that readers keep.
const KEPT_LAYOUTS: usize = 8;

/// Shuffles that an application works on at a time.
const SHUFFLES: usize = 3;

/// The work of all clients.
#[derive(Debug)]
pub struct Clients {
    seed: u64,
    large: bool,
    drivers: Vec<Driver>,
    /// The incarnation in the daemon's last answer, and those before.
    incarnation: i64,
    former_incarnations: Vec<i64>,
    /// Keys of shuffles that were replaced.
    past: Vec<ShuffleAddress>,
    /// Map attempts, as their writers see them.
    attempts: BTreeMap<AttemptKey, Attempt>,
    /// Layouts that readers have, and may come back to.
    layouts: VecDeque<(SegmentLayout, SegmentLayoutReply)>,
    executors: executor::Executors,
    pushing: spark_push::Pushing,
    sent: VecDeque<Envelope>,
    asked: BTreeMap<u64, Asked>,
    requests: u64,
}

#[derive(Debug)]
struct Driver {
    app: AppId,
    attempt: AppAttempt,
    next_shuffle: i32,
    shuffles: Vec<SimShuffle>,
}

#[derive(Clone, Copy, Debug)]
struct SimShuffle {
    mode: Mode,
    shuffle: ShuffleId,
    generation: GenerationId,
    maps: u32,
    partitions: u32,
    /// The incarnation that the shuffle was registered with.
    registered: i64,
    /// True if an attempt was to commit: there may be something to read.
    is_ripe: bool,
}

/// The use of an answer.
#[derive(Debug)]
enum Asked {
    Hello,
    Layout(SegmentLayout),
    Stream(Vec<Vec<LaidSegment>>),
    Chunk(Vec<LaidSegment>),
    Pushed(AttemptKey, PushBatch),
    Originals,
    Merged(ShuffleKey),
}

impl Clients {
    /// Returns clients that have done nothing yet. `large`: some segments are larger than a tail
    /// may be.
    pub fn new(seed: u64, large: bool, dice: &mut Dice) -> Self {
        let apps = ["app-20261121-0001", "local-7"];
        let drivers = apps.iter().filter_map(|name| AppId::new(name).ok());
        Self {
            seed,
            large,
            drivers: drivers.map(|app| Driver::new(app, dice)).collect(),
            incarnation: 0,
            former_incarnations: Vec::new(),
            past: Vec::new(),
            attempts: BTreeMap::new(),
            layouts: VecDeque::new(),
            executors: executor::Executors::default(),
            pushing: spark_push::Pushing::default(),
            sent: VecDeque::new(),
            asked: BTreeMap::new(),
            requests: 0,
        }
    }

    /// One of the clients does something.
    pub fn act(&mut self, dice: &mut Dice, network: &mut Network) {
        let connection = dice.bits() % CONNECTIONS;
        if self.incarnation == 0 || dice.chance(3) {
            self.hello(connection, dice, network);
            return;
        }
        match dice.weighted(&[44, 6, 16, 16, 4, 2, 1, 8, 5, 2, 14, 14]) {
            0 => self.push(connection, dice, network),
            1 => self.register(connection, dice, network),
            2 => self.end_attempt(connection, dice, network),
            3 => self.layout(connection, dice, network),
            4 => self.renew(connection, dice, network),
            5 => self.remove(connection, dice, network),
            6 => self.end_application(connection, dice, network),
            7 => self.repeat(dice, network),
            8 => self.replace(dice),
            9 => self.drain(connection, dice, network),
            10 => self.executor(connection, dice, network),
            _ => self.spark_push(connection, dice, network),
        }
    }

    fn send(
        &mut self,
        connection: u64,
        packet: Packet,
        asked: Option<Asked>,
        dice: &mut Dice,
        network: &mut Network,
    ) {
        self.requests += 1;
        let request = self.requests;
        if let Some(asked) = asked {
            self.asked.insert(request, asked);
        }
        let envelope = Envelope {
            connection,
            request,
            packet,
        };
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back(envelope.clone());
        network.send(envelope, dice);
    }

    /// Sends an earlier request again: its answer was lost, or came too late.
    fn repeat(&mut self, dice: &mut Dice, network: &mut Network) {
        let at = dice.below(self.sent.len());
        if let Some(mut envelope) = self.sent.get(at).cloned() {
            if dice.chance(30) {
                envelope.connection = dice.bits() % CONNECTIONS;
            }
            network.send(envelope, dice);
        }
    }

    /// An operator. Most drains are cancelled soon, or a run would see little else.
    fn drain(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let wish = match dice.below(10) {
            0..3 => Wish::Begin,
            3 => Wish::Look,
            _ => Wish::Cancel,
        };
        let packet = Packet::Rpc(Drain { wish }.to_bytes());
        self.send(connection, packet, None, dice, network);
    }

    fn hello(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION + i32::from(dice.chance(5)),
            client_name: "simulation".to_owned(),
        };
        let packet = Packet::Rpc(hello.to_bytes());
        self.send(connection, packet, Some(Asked::Hello), dice, network);
    }

    /// A key that is mostly right, of a shuffle that is mostly one `wanted`.
    fn key(&mut self, dice: &mut Dice, wanted: fn(&SimShuffle) -> bool) -> ShuffleAddress {
        if dice.chance(8)
            && let Some(mut key) = dice.pick(&self.past)
        {
            if dice.chance(50) {
                key.incarnation = self.incarnation;
            }
            return key;
        }
        let (driver, at) = self.choose(dice, wanted);
        let mut key = self.key_of(driver, at);
        match dice.below(100) {
            0..3 => key.incarnation = dice.pick(&self.former_incarnations).unwrap_or(-7),
            3 => key.shuffle.generation.0 += 1,
            4 => key.shuffle.generation.0 -= 1,
            5 => {
                let AppAttempt(attempt) = attempt_of(&key.shuffle);
                key.shuffle.attempt = Some(AppAttempt(attempt - 1));
            }
            6 => key.shuffle.shuffle.0 += 100,
            _ => {}
        }
        key
    }

    /// A driver and one of its shuffles.
    fn choose(&self, dice: &mut Dice, wanted: fn(&SimShuffle) -> bool) -> (usize, usize) {
        let driver = dice.below(self.drivers.len());
        let mut at = dice.below(SHUFFLES);
        for _ in 0..SHUFFLES {
            if wanted(self.shuffle(driver, at)) || dice.chance(10) {
                break;
            }
            at = (at + 1) % SHUFFLES;
        }
        (driver, at)
    }

    fn shuffle(&self, driver: usize, at: usize) -> &SimShuffle {
        let shuffle = self.drivers.get(driver).and_then(|d| d.shuffles.get(at));
        shuffle.unwrap_or_else(|| unreachable!("every driver has {SHUFFLES} shuffles"))
    }

    fn shuffle_mut(&mut self, driver: usize, at: usize) -> Option<&mut SimShuffle> {
        self.drivers.get_mut(driver)?.shuffles.get_mut(at)
    }

    fn key_of(&self, driver: usize, at: usize) -> ShuffleAddress {
        let shuffle = *self.shuffle(driver, at);
        match self.drivers.get(driver) {
            Some(driver) => driver.key(shuffle, self.incarnation),
            None => unreachable!("slots have drivers"),
        }
    }

    /// An answer has come.
    pub fn hear(
        &mut self,
        envelope: &Envelope,
        answer: &Answer,
        dice: &mut Dice,
        network: &mut Network,
    ) {
        let Answer::Response(response) = answer else {
            return;
        };
        if refusal(answer).is_some_and(|refused| refused.code == Code::StaleIncarnation)
            && dice.chance(50)
        {
            // The daemon is another one: the next request asks for its incarnation.
            self.former_incarnations
                .push(std::mem::take(&mut self.incarnation));
        }
        let connection = envelope.connection;
        match self.asked.remove(&envelope.request) {
            Some(Asked::Hello) => {
                if let Ok(reply) = HelloReply::from_bytes(response) {
                    let before = std::mem::replace(&mut self.incarnation, reply.incarnation);
                    self.former_incarnations.push(before);
                }
            }
            Some(Asked::Layout(layout)) => {
                if let Ok(reply) = SegmentLayoutReply::from_bytes(response) {
                    self.read(connection, (layout, reply), dice, network);
                }
            }
            Some(Asked::Pushed(attempt, batch)) => {
                if let Ok(reply) = PushBatchReply::from_bytes(response) {
                    self.acknowledge(&attempt, &batch, &reply);
                    if reply.is_committed {
                        let key = &batch.key.shuffle;
                        self.ripen(key.app.as_str(), (key.shuffle, key.generation));
                    }
                }
            }
            Some(Asked::Stream(chunks)) => {
                let Ok(handle) = StreamHandle::from_bytes(response) else {
                    return;
                };
                for (index, chunk) in (0..).zip(chunks) {
                    let stream = handle.stream_id;
                    let packet = Packet::Chunk { stream, index };
                    let asked = Some(Asked::Chunk(chunk));
                    self.send(connection, packet, asked, dice, network);
                }
            }
            Some(Asked::Merged(key)) => {
                self.merged(connection, &key, response, (dice, network));
            }
            Some(Asked::Originals) => {
                let handle = StreamHandle::from_bytes(response);
                let count = handle.as_ref().map_or(0, |handle| handle.num_chunks);
                let stream = handle.map_or(0, |handle| handle.stream_id);
                for index in 0..count.cast_signed() {
                    let packet = Packet::Chunk { stream, index };
                    self.send(connection, packet, None, dice, network);
                }
            }
            other => {
                other.map(|other| self.asked.insert(envelope.request, other));
            }
        }
    }
}
