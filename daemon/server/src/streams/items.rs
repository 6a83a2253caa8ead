// SPDX-License-Identifier: Apache-2.0
//! The items of one stream. A stream of small blocks may have hundreds of thousands, so an original
//! takes eight bytes, and a chunk of segments eight and as many for each run of slots.

use std::borrow::Cow;
use std::ops::Range;

use lodestone_model::{GenerationId, MapId, ReduceId, SegmentRun, ShuffleId};

use super::{StreamItem, one};

/// Memory of a run whose chunk is being sent: a part of a file, or of a page in memory.
const PART_BYTES: usize = 128;

/// The items of a stream, in its order.
#[derive(Debug)]
pub enum Items {
    /// The same partitions of these map outputs, as one block of each: what a reduce task of Spark
    /// requests.
    Originals {
        /// The shuffle.
        shuffle: ShuffleId,
        /// The partitions.
        reduces: Range<ReduceId>,
        /// The map task attempts.
        maps: Vec<MapId>,
    },
    /// Segments of one shuffle.
    Segments {
        /// The shuffle.
        shuffle: ShuffleId,
        /// Its generation.
        generation: GenerationId,
        /// The partition of each chunk, and how many runs the chunks before have.
        chunks: Vec<(ReduceId, u32)>,
        /// The runs of all chunks.
        runs: Vec<SegmentRun>,
    },
    /// All others.
    Mixed(Vec<StreamItem>),
}

impl Items {
    /// Blocks of Spark's own: of each map output these partitions, one by one.
    pub fn originals(shuffle: ShuffleId, blocks: &[(MapId, Vec<ReduceId>)]) -> Self {
        let first = blocks.first().and_then(|(_, reduces)| reduces.first());
        match first {
            Some(&reduce) if blocks.iter().all(|(_, reduces)| *reduces == [reduce]) => {
                Self::Originals {
                    shuffle,
                    reduces: one(reduce),
                    maps: blocks.iter().map(|(map, _)| *map).collect(),
                }
            }
            _ => {
                let each = blocks.iter().flat_map(|(map, reduces)| {
                    let item = |reduce: &ReduceId| StreamItem::original(shuffle, *map, *reduce);
                    reduces.iter().map(item)
                });
                Self::Mixed(each.collect())
            }
        }
    }

    /// Batches of Spark's: of each map output a range of partitions, as one block.
    pub fn batches(shuffle: ShuffleId, blocks: Vec<(MapId, Range<ReduceId>)>) -> Self {
        match blocks.first() {
            Some((_, first)) if blocks.iter().all(|(_, reduces)| reduces == first) => {
                Self::Originals {
                    shuffle,
                    reduces: first.clone(),
                    maps: blocks.iter().map(|(map, _)| *map).collect(),
                }
            }
            _ => {
                let item = |(map, reduces)| StreamItem::Original {
                    shuffle,
                    map,
                    reduces,
                };
                Self::Mixed(blocks.into_iter().map(item).collect())
            }
        }
    }

    /// Chunks of segments: of each, the partition and the slots.
    pub fn segments(
        shuffle: ShuffleId,
        generation: GenerationId,
        wanted: impl ExactSizeIterator<Item = (ReduceId, Vec<SegmentRun>)>,
    ) -> Self {
        let (mut chunks, mut runs) = (Vec::with_capacity(wanted.len()), Vec::new());
        for (reduce, slots) in wanted {
            // A request has far fewer runs than 32 bits count.
            chunks.push((reduce, runs.len() as u32));
            runs.extend(slots);
        }
        runs.shrink_to_fit();
        Self::Segments {
            shuffle,
            generation,
            chunks,
            runs,
        }
    }

    /// The number of items.
    pub fn count(&self) -> usize {
        match self {
            Self::Originals { maps, .. } => maps.len(),
            Self::Segments { chunks, .. } => chunks.len(),
            Self::Mixed(items) => items.len(),
        }
    }

    /// Returns an item by its index.
    pub fn get(&self, index: usize) -> Option<Cow<'_, StreamItem>> {
        match self {
            Self::Originals {
                shuffle,
                reduces,
                maps,
            } => Some(Cow::Owned(StreamItem::Original {
                shuffle: *shuffle,
                map: *maps.get(index)?,
                reduces: reduces.clone(),
            })),
            Self::Segments {
                shuffle,
                generation,
                chunks,
                runs,
            } => {
                let &(reduce, first) = chunks.get(index)?;
                let end = chunks
                    .get(index + 1)
                    .map_or(runs.len(), |(_, next)| *next as usize);
                Some(Cow::Owned(StreamItem::Segments {
                    shuffle: *shuffle,
                    generation: *generation,
                    reduce,
                    slots: runs.get(first as usize..end)?.into(),
                }))
            }
            Self::Mixed(items) => items.get(index).map(Cow::Borrowed),
        }
    }

    /// The most runs that one item has.
    pub fn runs_most(&self) -> usize {
        match self {
            Self::Originals { .. } => 1,
            Self::Segments { chunks, runs, .. } => {
                let begins = chunks.iter().map(|(_, first)| *first as usize);
                let ends = begins.clone().skip(1).chain([runs.len()]);
                let runs = begins.zip(ends).map(|(begin, end)| end - begin);
                runs.max().unwrap_or_default()
            }
            Self::Mixed(items) => {
                let runs = items.iter().map(|item| match item {
                    StreamItem::Segments { slots, .. } => slots.len(),
                    _ => 1,
                });
                runs.max().unwrap_or_default()
            }
        }
    }

    /// The memory that they need until the last one is sent. A connection sends one at a time, and
    /// has room for an item of one run.
    pub fn memory(&self) -> usize {
        self.bytes() + self.runs_most().saturating_sub(1) * PART_BYTES
    }

    /// The memory of the list alone.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Originals { maps, .. } => maps.len() * size_of::<MapId>(),
            Self::Segments { chunks, runs, .. } => {
                size_of_val(chunks.as_slice()) + size_of_val(runs.as_slice())
            }
            Self::Mixed(items) => size_of_val(items.as_slice()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(of: &[(i64, &[u32])]) -> Items {
        let block = |(map, reduces): &(i64, &[u32])| {
            (
                MapId(*map),
                reduces.iter().map(|id| ReduceId(*id)).collect(),
            )
        };
        let all: Vec<_> = of.iter().map(block).collect();
        Items::originals(ShuffleId(1), &all)
    }

    fn all(items: &Items) -> Vec<(i64, u32)> {
        let get = |index| match items.get(index).unwrap().into_owned() {
            StreamItem::Original { map, reduces, .. } => (map.0, reduces.start.0),
            other => panic!("{other:?}"),
        };
        (0..items.count()).map(get).collect()
    }

    #[test]
    fn blocks_come_in_the_order_of_the_request_whichever_form_they_have() {
        assert_eq!(all(&blocks(&[])), []);
        let same = blocks(&[(7, &[3]), (5, &[3]), (6, &[3])]);
        assert_eq!(all(&same), [(7, 3), (5, 3), (6, 3)]);
        assert_eq!(same.bytes(), 24, "8 bytes each");
        assert_eq!(same.get(3), None);
        let several = blocks(&[(7, &[3, 4]), (5, &[]), (6, &[2])]);
        assert_eq!(all(&several), [(7, 3), (7, 4), (6, 2)]);
        assert_eq!(several.get(3), None);
        let different = blocks(&[(7, &[3]), (5, &[4])]);
        assert_eq!(all(&different), [(7, 3), (5, 4)]);
    }
}
