// SPDX-License-Identifier: Apache-2.0
//! Drivers: they register, remove, keep leases, and replace shuffles.

use lodestone_model::{AppAttempt, AppId, GenerationId, Mode, ShuffleId, ShuffleKey, ShuffleSpec};
use lodestone_wire::Message;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::lease::RenewLease;
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::spark::remove::RemoveShuffleMerge;

use super::{Clients, Driver, SHUFFLES, SimShuffle};
use crate::dice::Dice;
use crate::model::attempt_of;
use crate::network::{Network, Packet};

impl Clients {
    pub(super) fn register(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let (driver, at) = self.choose(dice, |shuffle| !shuffle.is_ripe);
        self.register_shuffle(connection, driver, at, dice, network);
    }

    pub(super) fn register_shuffle(
        &mut self,
        connection: u64,
        driver: usize,
        at: usize,
        dice: &mut Dice,
        network: &mut Network,
    ) {
        let (mut key, incarnation) = (self.key_of(driver, at), self.incarnation);
        if let Some(shuffle) = self.shuffle_mut(driver, at) {
            shuffle.registered = incarnation;
            shuffle.is_ripe = false;
        }
        if dice.chance(8)
            && let Some(past) = dice.pick(&self.past)
        {
            key = past;
        }
        let shuffle = self.shuffle(driver, at);
        let register = RegisterShuffle {
            key,
            spec: ShuffleSpec {
                mode: shuffle.mode,
                num_maps: shuffle.maps,
                num_partitions: shuffle.partitions + u32::from(dice.chance(3)),
                format: "spark-stream".to_owned(),
            },
        };
        let packet = Packet::Rpc(register.to_bytes());
        self.send(connection, packet, None, dice, network);
    }

    pub(super) fn renew(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let key = self.key(dice, |shuffle| shuffle.is_ripe);
        let renew = RenewLease {
            app_attempt: attempt_of(&key.shuffle),
            app: key.shuffle.app,
            incarnation: if dice.chance(20) { 0 } else { key.incarnation },
            ttl_ms: dice.pick(&[1, 30_000, 200_000, i64::MAX]).unwrap_or(1),
        };
        let packet = Packet::Rpc(renew.to_bytes());
        self.send(connection, packet, None, dice, network);
    }

    pub(super) fn remove(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let key = self.key(dice, |shuffle| shuffle.is_ripe);
        let mut key = key.shuffle;
        if dice.chance(30) {
            key.generation = GenerationId(-1);
        }
        let remove = RemoveShuffleMerge { key };
        let packet = Packet::OneWay(remove.to_bytes());
        self.send(connection, packet, None, dice, network);
    }

    pub(super) fn end_application(
        &mut self,
        connection: u64,
        dice: &mut Dice,
        network: &mut Network,
    ) {
        let key = self.key(dice, |shuffle| shuffle.is_ripe);
        let end = EndApplication {
            app_attempt: attempt_of(&key.shuffle),
            app: key.shuffle.app,
        };
        let packet = Packet::Rpc(end.to_bytes());
        self.send(connection, packet, None, dice, network);
    }

    /// A driver replaces a shuffle: by the next one, by a new generation, rarely by one of a new
    /// attempt.
    pub(super) fn replace(&mut self, dice: &mut Dice) {
        let at = dice.below(self.drivers.len());
        let Some(driver) = self.drivers.get_mut(at) else {
            return;
        };
        let at = driver.shuffles.iter().position(|shuffle| shuffle.is_ripe);
        let at = at.unwrap_or_else(|| dice.below(SHUFFLES));
        let old = driver.shuffles.get(at).copied();
        self.past
            .extend(old.map(|shuffle| driver.key(shuffle, self.incarnation)));
        let mut fresh = driver.new_shuffle(dice);
        match (dice.below(20), old) {
            (0, _) => driver.attempt.0 += 1,
            (1..10, Some(old)) => {
                fresh = SimShuffle {
                    generation: GenerationId(old.generation.0 + 1),
                    registered: 0,
                    is_ripe: false,
                    ..old
                };
            }
            _ => {}
        }
        driver
            .shuffles
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|shuffle| *shuffle = fresh);
    }
}

impl Driver {
    pub(super) fn new(app: AppId, dice: &mut Dice) -> Self {
        let mut driver = Self {
            app,
            attempt: AppAttempt(1),
            next_shuffle: 0,
            shuffles: Vec::new(),
        };
        for _ in 0..SHUFFLES {
            let shuffle = driver.new_shuffle(dice);
            driver.shuffles.push(shuffle);
        }
        driver
    }

    pub(super) fn new_shuffle(&mut self, dice: &mut Dice) -> SimShuffle {
        self.next_shuffle += 1;
        let mode = match dice.chance(40) {
            true => Mode::Remote,
            false => Mode::Merge,
        };
        SimShuffle {
            mode,
            shuffle: ShuffleId(self.next_shuffle),
            generation: GenerationId(0),
            maps: 1 + dice.below(8) as u32,
            partitions: 1 + dice.below(6) as u32,
            registered: 0,
            is_ripe: false,
        }
    }

    pub(super) fn key(&self, shuffle: SimShuffle, incarnation: i64) -> ShuffleAddress {
        ShuffleAddress {
            shuffle: ShuffleKey {
                app: self.app.clone(),
                attempt: Some(self.attempt),
                shuffle: shuffle.shuffle,
                generation: shuffle.generation,
            },
            incarnation,
        }
    }
}
