// SPDX-License-Identifier: Apache-2.0
//! One run: the seed decides the next event, and every event is judged.

mod chunks;
mod executors;
mod merged;
mod mishap;
mod rest;
pub mod trace;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use lodestone_planted::{Bug, plant};
use lodestone_server::handler::{Answer, Upload};
use lodestone_wire::Message;
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::push::PushBatchReply;
use lodestone_wire::spark::finalize::FinalizeShuffleMerge;
use lodestone_wire::spark::push::PushBlockStream;
use lodestone_wire::spark::remove::{RemoveBlocks, RemoveShuffleMerge};

use crate::check::{self, Foreign};
use crate::client::{Clients, EXECUTOR_DIRS, PUSHING_APP, PUSHING_DIRS, ask_for_pushing};
use crate::dice::Dice;
use crate::model::{Judged, Model, refusal};
use crate::network::{Envelope, Network, Packet, Weather};
use crate::world::disk::Written;
use crate::world::{Machine, World};

use chunks::OpenChunk;
use executors::OpenRemoval;
use trace::{Trace, words};

/// Draws of one run.
const STEPS: usize = 400;

/// Memory of a store: too little for all that a run pushes, or enough.
const MEMORY_BYTES: [u64; 4] = [64 << 10, 64 << 10, 256 << 10, 8 << 20];

/// Uploads and chunks that a daemon works on at a time.
const PENDING_MAX: usize = 8;

/// The settings of a run that its seed does not decide.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimSetup {
    /// The seed.
    pub seed: u64,
    /// The bug in the daemon.
    pub bug: Option<Bug>,
    /// True if the events are kept in words.
    pub keeps_story: bool,
}

/// How a run ended.
#[derive(Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// The breach of the daemon, if there was one.
    pub breach: Option<String>,
    /// Everything that happened.
    pub trace: Trace,
    /// How often each kind of event happened, to see what runs reach.
    pub tally: BTreeMap<&'static str, u64>,
}

/// Work that the daemon has begun.
enum Pending {
    Body {
        envelope: Envelope,
        upload: Upload,
        meta: Bytes,
        body: Bytes,
    },
    Chunk(OpenChunk),
    Removal(OpenRemoval),
}

/// The faults that may happen in this run.
#[derive(Clone, Copy, Debug)]
struct Climate {
    kills: bool,
    disk_faults: bool,
    memory_changes: bool,
}

struct Run {
    dice: Dice,
    climate: Climate,
    world: World,
    model: Model,
    clients: Clients,
    network: Network,
    pending: Vec<Pending>,
    foreign: Foreign,
    trouble_until_ms: u64,
    /// A disk failed since the daemon started: a file may have stayed that should have gone.
    untidy: bool,
    incarnation: Option<i64>,
    /// By the last call, if all of its writes worked.
    written: Vec<Written>,
    trace: Trace,
    tally: BTreeMap<&'static str, u64>,
}

/// Runs a seed.
pub fn run(setup: SimSetup) -> Report {
    let mut run = Run::new(setup);
    plant(setup.bug);
    let judged = catch_unwind(AssertUnwindSafe(|| run.live()));
    plant(None);
    let breach = match judged {
        Ok(Ok(())) => None,
        Ok(Err(breach)) => Some(breach),
        Err(panic) => Some(format!("a panic: {}", panic_text(panic.as_ref()))),
    };
    Report {
        seed: setup.seed,
        breach,
        trace: run.trace,
        tally: run.tally,
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("of another kind")
        .to_owned()
}

impl Run {
    fn new(setup: SimSetup) -> Self {
        let mut dice = Dice::new(setup.seed);
        let large = dice.chance(6);
        let machine = Machine {
            seed: dice.bits(),
            disks: 1 + dice.below(2),
            memory_bytes: dice.pick(&MEMORY_BYTES).unwrap_or(8 << 20),
        };
        let climate = Climate {
            kills: dice.chance(50),
            disk_faults: dice.chance(70),
            memory_changes: dice.chance(60),
        };
        let weather = Weather {
            duplicated: dice.below(12),
            lost: dice.below(8),
            overtaken: dice.below(70),
        };
        Self {
            climate,
            world: World::new(&machine),
            model: Model::default(),
            clients: Clients::new(setup.seed, large, &mut dice),
            network: Network::new(weather),
            pending: Vec::new(),
            foreign: Foreign::new(),
            trouble_until_ms: 0,
            untidy: false,
            incarnation: None,
            written: Vec::new(),
            trace: Trace::new(setup.keeps_story),
            tally: BTreeMap::new(),
            dice,
        }
    }

    fn live(&mut self) -> Judged {
        for dir in EXECUTOR_DIRS.iter().chain(&PUSHING_DIRS) {
            self.world.disk.fake.add_dir(Path::new(dir));
        }
        for path in [
            "/disk0/notes.txt",
            "/disk0/lodestone-00000000000000aa/x-s1-m0-0/0.data",
        ] {
            self.leave_foreign(path.into());
        }
        for _ in 0..STEPS {
            self.step()?;
            if !self.sends_a_chunk() {
                check::no_open_files(&self.world)?;
            }
        }
        self.come_to_rest()?;
        self.read_everything()?;
        self.clear_up()?;
        let writes = self.world.disk.fake.writes();
        self.tally.insert("disk writes", writes);
        self.tally.insert("segment dropped", self.model.dropped());
        Ok(())
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn step(&mut self) -> Judged {
        if !self.world.is_up() {
            if !self.dice.chance(40) {
                return self.lose_one();
            }
            if self.climate.kills && self.dice.chance(15) {
                self.announce_death();
            }
            return self.start();
        }
        match self.dice.weighted(&[40, 45, 8, 7]) {
            0 if !self.network.is_full() => {
                self.clients.act(&mut self.dice, &mut self.network);
                self.executors_write();
                Ok(())
            }
            2 => self.finish_one(),
            3 => self.mishap(),
            _ => self.arrive(),
        }
    }

    /// No daemon listens on the port.
    fn lose_one(&mut self) -> Judged {
        if self.network.arrive(&mut self.dice).is_some() {
            self.count("request lost at a closed port");
        }
        Ok(())
    }

    fn arrive(&mut self) -> Judged {
        let Some(envelope) = self.network.arrive(&mut self.dice) else {
            return Ok(());
        };
        match envelope.packet.clone() {
            Packet::Rpc(body) if body.first() == Some(&RemoveBlocks::ID) => {
                self.begin_removal(&envelope, &body)
            }
            Packet::Rpc(body) => self.rpc(&envelope, &body).map(|_| ()),
            Packet::OneWay(body) => self.one_way(&envelope, &body),
            Packet::Upload { meta, body } => self.upload(envelope, meta, body),
            Packet::Meta(request) => self.meta(&envelope, &request),
            Packet::Chunk { stream, index } => self.chunk(envelope, stream, index),
        }
    }

    fn rpc(&mut self, envelope: &Envelope, body: &Bytes) -> Judged<Option<Answer>> {
        let connection = envelope.connection;
        self.model.ask(body);
        let Some(answer) = self.world.rpc(connection, body) else {
            return Ok(None);
        };
        self.record_answer("rpc", body, &answer);
        let Some(trouble) = self.settle()? else {
            return Ok(None);
        };
        let now_ms = self.world.now_ms();
        self.model.rpc(now_ms, connection, body, &answer, trouble)?;
        if trouble.writes {
            // Threads that write out work after the answer too: what it shows may be gone now.
            self.model.doubt();
        }
        if refusal(&answer).is_none() {
            self.attempt_ended(body);
        }
        if body.first() == Some(&FinalizeShuffleMerge::ID) && matches!(answer, Answer::Response(_))
        {
            self.check_merged_files(body)?;
        }
        self.clients
            .hear(envelope, &answer, &mut self.dice, &mut self.network);
        Ok(Some(answer))
    }

    fn attempt_ended(&mut self, request: &[u8]) {
        if AbortMap::from_bytes(request).is_ok() {
            self.forget_open_chunks();
        }
        if CommitMap::from_bytes(request).is_ok_and(|commit| commit.pushed.segments > 0) {
            self.count("committed what it pushed");
        }
    }

    fn one_way(&mut self, envelope: &Envelope, body: &Bytes) -> Judged {
        let request = RemoveShuffleMerge::from_bytes(body).map_err(|error| error.to_string())?;
        if request.key.app.as_str() == PUSHING_APP && self.model.pushing_is_doubtful() {
            // Nothing shows whether the daemon takes the removal.
            self.rpc(envelope, &ask_for_pushing())?;
        }
        self.trace.record("one way", body, || words(body));
        if self.world.one_way(envelope.connection, body).is_none() || self.settle()?.is_none() {
            return Ok(());
        }
        self.model.remove(&request);
        self.check_floor()
    }

    fn upload(&mut self, envelope: Envelope, meta: Bytes, body: Bytes) -> Judged {
        match self.world.admit(envelope.connection, &meta, &body) {
            None => {}
            Some(Ok(upload)) => self.pending.push(Pending::Body {
                envelope,
                upload,
                meta,
                body,
            }),
            Some(Err(answer)) => {
                self.record_answer("upload refused", &meta, &answer);
                if self.settle()?.is_some() {
                    self.model.refused_upload(&meta, &body, &answer)?;
                }
            }
        }
        match self.pending.len() {
            ..PENDING_MAX => Ok(()),
            _ => self.finish_one(),
        }
    }

    fn finish_one(&mut self) -> Judged {
        if self.pending.is_empty() {
            return Ok(());
        }
        let at = self.dice.below(self.pending.len());
        match self.pending.remove(at) {
            Pending::Body {
                envelope,
                upload,
                meta,
                body,
            } => {
                let Some(answer) = self.world.upload(envelope.connection, &upload, &body) else {
                    return Ok(());
                };
                self.record_answer("upload", &meta, &answer);
                match self.settle()? {
                    Some(trouble) => {
                        match meta.first() {
                            Some(&PushBlockStream::ID) => {
                                self.judge_block(&meta, &body, &answer, trouble)?;
                            }
                            _ => self.model.upload(&meta, &body, &answer, trouble)?,
                        }
                        self.model.written(&self.written);
                        self.clients
                            .hear(&envelope, &answer, &mut self.dice, &mut self.network);
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
            Pending::Chunk(chunk) => self.send_chunk(&chunk),
            Pending::Removal(removal) => self.remove_some(removal),
        }
    }

    fn record_answer(&mut self, what: &str, request: &Bytes, answer: &Answer) {
        let bytes: &[u8] = match answer {
            Answer::Response(bytes) => bytes,
            Answer::Failure(text) => text.as_bytes(),
            Answer::Close => b"the connection closes",
        };
        self.trace.record(what, request, || words(request));
        self.trace.record("  answered with", bytes, || words(bytes));
        let refused = refusal(answer);
        self.count(refused.map_or("answer", |refused| refused.code.name()));
        if let Ok(reply) = PushBatchReply::from_bytes(bytes) {
            let names = reply.codes.iter().map(|code| code.name());
            names.for_each(|name| self.count(name));
        }
    }
}
