// SPDX-License-Identifier: Apache-2.0
//! Drivers: they register, remove, keep leases, and go on to the next thing.

use lodestone_model::{AppAttempt, AppId, GenerationId, Mode, ShuffleId, ShuffleKey, ShuffleSpec};
use lodestone_wire::Message;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::lease::RenewLease;
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::spark::remove::RemoveShuffleMerge;

use super::{Clients, Driver, SHUFFLES, Slot};
use crate::dice::Dice;
use crate::model::attempt_of;
use crate::network::{Network, Packet};

impl Clients {
    pub(super) fn register(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let (driver, at) = self.choose(dice, |slot| !slot.is_ripe);
        self.register_slot(connection, driver, at, dice, network);
    }

    pub(super) fn register_slot(
        &mut self,
        connection: u64,
        driver: usize,
        at: usize,
        dice: &mut Dice,
        network: &mut Network,
    ) {
        let (mut key, told) = (self.key_of(driver, at), self.told);
        if let Some(slot) = self.slot_mut(driver, at) {
            slot.registered = told;
            slot.is_ripe = false;
        }
        if dice.chance(8)
            && let Some(past) = dice.pick(&self.past)
        {
            key = past;
        }
        let slot = self.slot(driver, at);
        let register = RegisterShuffle {
            key,
            spec: ShuffleSpec {
                mode: slot.mode,
                num_maps: slot.maps,
                num_partitions: slot.partitions + u32::from(dice.chance(3)),
                format: "spark-stream".to_owned(),
            },
        };
        let packet = Packet::Rpc(register.to_bytes());
        self.send(connection, packet, None, dice, network);
    }

    pub(super) fn renew(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let key = self.key(dice, |slot| slot.is_ripe);
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
        let key = self.key(dice, |slot| slot.is_ripe);
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
        let key = self.key(dice, |slot| slot.is_ripe);
        let end = EndApplication {
            app_attempt: attempt_of(&key.shuffle),
            app: key.shuffle.app,
        };
        let packet = Packet::Rpc(end.to_bytes());
        self.send(connection, packet, None, dice, network);
    }

    /// A driver goes on: to the next shuffle, to a new generation, rarely to a new attempt.
    pub(super) fn replace(&mut self, dice: &mut Dice) {
        let at = dice.below(self.drivers.len());
        let Some(driver) = self.drivers.get_mut(at) else {
            return;
        };
        let at = driver.shuffles.iter().position(|slot| slot.is_ripe);
        let at = at.unwrap_or_else(|| dice.below(SHUFFLES));
        let old = driver.shuffles.get(at).copied();
        self.past
            .extend(old.map(|slot| driver.key(slot, self.told)));
        let mut fresh = driver.new_slot(dice);
        match (dice.below(20), old) {
            (0, _) => driver.attempt.0 += 1,
            (1..10, Some(old)) => {
                fresh = Slot {
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
            .for_each(|slot| *slot = fresh);
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
            let slot = driver.new_slot(dice);
            driver.shuffles.push(slot);
        }
        driver
    }

    pub(super) fn new_slot(&mut self, dice: &mut Dice) -> Slot {
        self.next_shuffle += 1;
        let mode = match dice.chance(40) {
            true => Mode::Remote,
            false => Mode::Merge,
        };
        Slot {
            mode,
            shuffle: ShuffleId(self.next_shuffle),
            generation: GenerationId(0),
            maps: 1 + dice.below(8) as u32,
            partitions: 1 + dice.below(6) as u32,
            registered: 0,
            is_ripe: false,
        }
    }

    pub(super) fn key(&self, slot: Slot, incarnation: i64) -> ShuffleAddress {
        ShuffleAddress {
            shuffle: ShuffleKey {
                app: self.app.clone(),
                attempt: Some(self.attempt),
                shuffle: slot.shuffle,
                generation: slot.generation,
            },
            incarnation,
        }
    }
}
