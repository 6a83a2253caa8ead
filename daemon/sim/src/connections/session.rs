// SPDX-License-Identifier: Apache-2.0
//! A client that keeps the rules, over one connection after another. Its connections break now and
//! then, and it repeats what was not answered. Every answer must come in time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lodestone_server::service::clock;
use lodestone_wire::Message;
use lodestone_wire::extension::PROTOCOL_VERSION;
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::extension::status::Refused;
use tokio::time::{sleep, timeout};

use super::client::{Client, Ended};
use super::machine::Machine;
use crate::dice::Dice;
use crate::model::Judged;

/// The longest time for requests that use memory only, whatever the others do. A new connection may
/// wait 2 s for a place.
pub(super) const MEMORY_ONLY: Duration = Duration::from_secs(4);

/// The longest time for any request while disks hang, or the daemon stands still.
const EVER: Duration = Duration::from_secs(1_000);

/// A client waits so long before it asks again.
pub(super) const BACKOFF: Duration = Duration::from_millis(300);

/// So many times in a row may a full table turn away a client.
const TURNED_AWAY: usize = 60;

/// So many percent of all requests lose their connection.
const CUT_PERCENT: usize = 3;

/// A block takes this part of the memory for uploads at most, and a batch has up to six.
const PART_OF_UPLOADS: usize = 32;

/// Ends the work of a client.
#[derive(Debug)]
pub(super) enum Stop {
    /// The daemon stops: nothing more can be expected.
    Stopping,
    /// The daemon did something wrong.
    Breach(String),
}

impl From<String> for Stop {
    fn from(breach: String) -> Self {
        Self::Breach(breach)
    }
}

pub(super) type Work<T = ()> = Result<T, Stop>;

/// An honest client, over one connection after another.
pub(super) struct Session {
    pub(super) machine: Arc<Machine>,
    pub(super) name: String,
    pub(super) dice: Dice,
    open: Option<(u64, Client)>,
    /// Its longest block.
    pub(super) block_bytes: usize,
}

/// What is asked for.
pub(super) enum Asked<'a> {
    Rpc(&'a Bytes),
    Push(&'a PushBatch, &'a [u8]),
    Chunk(i64, i32),
}

impl fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rpc(body) => write!(f, "message {}", body.first().copied().unwrap_or(0)),
            Self::Push(_, body) => write!(f, "a push of {} bytes", body.len()),
            Self::Chunk(stream, index) => write!(f, "chunk {index} of stream {stream}"),
        }
    }
}

impl Session {
    pub(super) fn new(machine: &Arc<Machine>, name: String, seed: u64) -> Self {
        let uploads = machine.service.uploads.capacity_bytes() as usize;
        Self {
            block_bytes: uploads / PART_OF_UPLOADS,
            machine: Arc::clone(machine),
            name,
            dice: Dice::new(seed),
            open: None,
        }
    }

    pub(super) fn breach<T>(&self, what: impl fmt::Display) -> Work<T> {
        Err(Stop::Breach(format!("{}: {what}", self.name)))
    }

    /// Asks once. `None` if the connection ended, which only a cut, a full table and the end of the
    /// daemon may do.
    pub(super) async fn once(&mut self, asked: &Asked<'_>, limit: Duration) -> Work<Option<Bytes>> {
        let (number, mut client) = match self.open.take() {
            Some(open) => open,
            None => self.machine.connect(),
        };
        let begin = clock::now();
        let is_cut = self.dice.chance(CUT_PERCENT);
        let after = Duration::from_millis(self.dice.below(300) as u64);
        let answer = async {
            match asked {
                Asked::Rpc(body) => client.rpc(body).await,
                Asked::Push(batch, body) => client.push(batch, body).await,
                Asked::Chunk(stream, index) => client.chunk(*stream, *index).await,
            }
        };
        let answered = timeout(if is_cut { after } else { EVER }, answer).await;
        let took = match limit {
            MEMORY_ONLY => self.machine.time_since(begin),
            _ => self.machine.well_time_since(begin),
        };
        match answered {
            Err(_) if is_cut => Ok(None),
            Err(_) => self.breach("no answer, ever"),
            Ok(_) if took > limit => {
                self.breach(format!("{} ms for the answer to {asked}", took.as_millis()))
            }
            Ok(Ok(answer)) => {
                self.open = Some((number, client));
                match answer {
                    Ok(body) => Ok(Some(body)),
                    Err(error) => self.breach(error),
                }
            }
            Ok(Err(Ended)) => self.ended(number).await,
        }
    }

    async fn ended(&self, number: u64) -> Work<Option<Bytes>> {
        if self.machine.is_stopping() {
            return Err(Stop::Stopping);
        }
        // The daemon notes the reason after its end of the connection is closed.
        sleep(BACKOFF).await;
        match self.machine.reason(number).as_deref() {
            Some("MadeWay" | "TurnedAway") if self.machine.is_small() => Ok(None),
            Some("Idle") => Ok(None),
            reason => self.breach(format!("its connection was closed: {reason:?}")),
        }
    }

    pub(super) async fn ask(&mut self, asked: Asked<'_>, limit: Duration) -> Work<Bytes> {
        for _ in 0..TURNED_AWAY {
            if let Some(answer) = self.once(&asked, limit).await? {
                return Ok(answer);
            }
            if self.machine.is_stopping() {
                return Err(Stop::Stopping);
            }
            sleep(BACKOFF).await;
        }
        self.breach("turned away for too long")
    }

    pub(super) async fn rpc<M: Message>(&mut self, request: &Bytes, limit: Duration) -> Work<M> {
        let answer = self.ask(Asked::Rpc(request), limit).await?;
        M::from_bytes(&answer).or_else(|error| match Refused::from_bytes(&answer) {
            Ok(refused) => self.breach(format!("{} was refused: {refused:?}", M::NAME)),
            Err(_) => self.breach(format!("{}: {error}", M::NAME)),
        })
    }

    pub(super) async fn incarnation(&mut self) -> Work<i64> {
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            client_name: self.name.clone(),
        };
        let reply: HelloReply = self.rpc(&hello.to_bytes(), MEMORY_ONLY).await?;
        Ok(reply.incarnation)
    }
}

/// The end of a client's work as a judgement.
pub(super) fn judged(work: Work) -> Judged {
    match work {
        Ok(()) | Err(Stop::Stopping) => Ok(()),
        Err(Stop::Breach(breach)) => Err(breach),
    }
}
