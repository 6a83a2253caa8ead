// SPDX-License-Identifier: Apache-2.0
//! Drain: new shuffles and segments are refused, existing ones stay, and the data that would be
//! missed is counted.

use lodestone_model::{Code, Mode};
use lodestone_server::handler::Answer;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::drain::{Drain, Holdings, Wish};

use super::refusal::{Judged, agree, breach, refused_or};
use super::{Model, Shuffle};

impl Model {
    pub(super) fn drain(&mut self, request: &Drain, answer: &Answer) -> Judged {
        match request.wish {
            Wish::Begin => self.draining = true,
            Wish::Cancel => self.draining = false,
            Wish::Look | Wish::Leave => {}
        }
        let reply: Option<Holdings> = refused_or(answer, self.incarnation, Ok(()))?;
        let Some(reply) = reply else {
            return breach("the daemon does not say what it holds");
        };
        agree("incarnation", &reply.incarnation, &self.incarnation)?;
        agree("draining", &reply.held.draining, &self.draining)?;
        let held: Vec<usize> = self
            .applications
            .values()
            .map(|application| application.shuffles.values().filter(is_remote).count())
            .filter(|count| *count > 0)
            .collect();
        let shuffles: usize = held.iter().sum();
        agree(
            "remote shuffles held",
            &reply.held.shuffles,
            &(shuffles as u32),
        )?;
        agree(
            "their applications",
            &reply.held.applications,
            &(held.len() as u32),
        )?;
        let (unwritten, bytes) = (reply.held.unwritten_bytes, reply.held.bytes);
        match unwritten <= bytes {
            true => Ok(()),
            false => breach(format!("{unwritten} of {bytes} bytes are in memory")),
        }
    }

    /// While the service is drained, only known shuffles may register again.
    pub(super) fn check_news(&mut self, key: &ShuffleAddress) -> Result<(), Code> {
        match self.draining && self.shuffle(key, Code::UnknownShuffle).is_err() {
            true => Err(Code::Draining),
            false => Ok(()),
        }
    }
}

fn is_remote(shuffle: &&Shuffle) -> bool {
    shuffle.mode == Mode::Remote
}
