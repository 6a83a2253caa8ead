// SPDX-License-Identifier: Apache-2.0
//! The exchanges in the plans of queries. Metrics of an exchange tell its blocks from those of
//! another exchange that the same tasks read.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A deeper plan is left out. The stack has room for it.
const MAX_DEPTH: usize = 1500;

/// Metrics beyond these are left out; each takes some ten bytes, and an exchange has seven.
const MAX_METRICS: usize = 10_000_000;

/// Names an exchange: the metric of the bytes that its map tasks write.
pub(super) type ExchangeId = i64;

/// What a metric of an exchange counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    Written,
    BlocksRead,
    BytesRead,
    Partitions,
}

/// All exchanges of an application.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    metrics: BTreeMap<i64, (ExchangeId, Metric)>,
    /// Exchanges that tasks read map output by map output.
    in_place: BTreeMap<ExchangeId, bool>,
    /// Exchanges that were too many, each time that a plan had them.
    pub(super) left_out: u64,
}

impl Exchanges {
    /// Returns the exchange and the meaning of a metric.
    pub(super) fn metric(&self, id: i64) -> Option<(ExchangeId, Metric)> {
        self.metrics.get(&id).copied()
    }

    pub(super) fn is_read_in_place(&self, id: ExchangeId) -> bool {
        self.in_place.get(&id).copied().unwrap_or(false)
    }

    /// Takes the plan of an event. The last plan of a query counts.
    pub(super) fn take(&mut self, line: &[u8]) -> Result<(), serde_json::Error> {
        let mut json = serde_json::Deserializer::from_slice(line);
        json.disable_recursion_limit();
        let mut found = Vec::new();
        EventSeed(&mut found).deserialize(&mut json)?;
        for exchange in found {
            let written = exchange.metrics.iter().find(|m| m.1 == Metric::Written);
            let Some((id, _)) = written.copied() else {
                continue;
            };
            if self.metrics.len() >= MAX_METRICS && !self.metrics.contains_key(&id) {
                self.left_out += 1;
                continue;
            }
            for (metric, meaning) in exchange.metrics {
                self.metrics.insert(metric, (id, meaning));
            }
            self.in_place.insert(id, exchange.is_in_place);
        }
        Ok(())
    }
}

/// An exchange in one plan.
#[derive(Debug, Default)]
struct Found {
    metrics: Vec<(i64, Metric)>,
    is_in_place: bool,
}

#[derive(Deserialize)]
struct PlanMetric {
    name: String,
    #[serde(rename = "accumulatorId")]
    id: i64,
}

impl PlanMetric {
    fn meaning(&self) -> Option<(i64, Metric)> {
        let metric = match self.name.as_str() {
            "shuffle bytes written" => Metric::Written,
            "local blocks read" | "remote blocks read" => Metric::BlocksRead,
            "local bytes read" | "remote bytes read" => Metric::BytesRead,
            "number of partitions" => Metric::Partitions,
            _ => return None,
        };
        Some((self.id, metric))
    }
}

/// Reads the plan of an event.
struct EventSeed<'a>(&'a mut Vec<Found>);

impl<'de> DeserializeSeed<'de> for EventSeed<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventSeed<'_> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "sparkPlanInfo" {
                map.next_value_seed(NodeSeed(self.0, MAX_DEPTH))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Reads a node and all below it. serde's own structures would have no limit of depth.
struct NodeSeed<'a>(&'a mut Vec<Found>, usize);

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a node of a plan")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut name, mut text) = (String::new(), String::new());
        let (mut metrics, mut below) = (Vec::new(), Vec::new());
        let depth = self.1.checked_sub(1);
        let depth = depth.ok_or_else(|| A::Error::custom("the plan is too deep"))?;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "nodeName" => name = map.next_value()?,
                "simpleString" => text = map.next_value()?,
                "metrics" => metrics = map.next_value::<Vec<PlanMetric>>()?,
                "children" => map.next_value_seed(ChildrenSeed(&mut below, depth))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        // The exchange that such a node reads is the first one below it.
        if name == "AQEShuffleRead"
            && text.split_whitespace().any(|word| word == "local")
            && let Some(first) = below.first_mut()
        {
            first.is_in_place = true;
        }
        let metrics: Vec<_> = metrics.iter().filter_map(PlanMetric::meaning).collect();
        if metrics.iter().any(|(_, metric)| *metric == Metric::Written) {
            self.0.push(Found {
                metrics,
                is_in_place: false,
            });
        }
        self.0.append(&mut below);
        Ok(())
    }
}

struct ChildrenSeed<'a>(&'a mut Vec<Found>, usize);

impl<'de> DeserializeSeed<'de> for ChildrenSeed<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ChildrenSeed<'_> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("the children of a node")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut children: A) -> Result<(), A::Error> {
        while children
            .next_element_seed(NodeSeed(self.0, self.1))?
            .is_some()
        {}
        Ok(())
    }
}
