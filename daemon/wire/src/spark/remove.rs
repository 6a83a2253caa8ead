// SPDX-License-Identifier: Apache-2.0
//! Files that are no longer wanted.
//!
//! ```text
//! RemoveBlocks        7 appId, string execId, string[] blockIds
//! BlocksRemoved       8 i32 count
//! RemoveShuffleMerge 19 appId, i32 appAttempt, i32 shuffleId, i32 shuffleMergeId (-1 = all)
//! ```
//!
//! `RemoveShuffleMerge` travels one way: there is no answer.

use lodestone_model::{AppId, ShuffleKey};

use crate::codec::{DecodeError, FieldError, Message, Problem, Reader, message};

message! { lenient, 7;
    /// Delete blocks of an executor that is gone.
    pub struct RemoveBlocks {
        /// The application.
        pub app: AppId,
        /// The executor that wrote them.
        pub exec_id: String,
        /// Names of the blocks.
        pub block_ids: Vec<String>,
    }
}

/// The beginning of a [`RemoveBlocks`], before its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoveBlocksHead {
    /// The application.
    pub app: AppId,
    /// The executor that wrote them.
    pub exec_id: String,
    /// How many names follow.
    pub names: usize,
    /// Bytes of this beginning, without the type id.
    pub bytes: usize,
}

impl RemoveBlocksHead {
    /// Decodes what is behind the type id. `None`: these bytes do not reach to the first name.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut input = Reader::new(bytes);
        let mut fields = || {
            Ok::<_, FieldError>(Self {
                app: input.field("app")?,
                exec_id: input.field("exec_id")?,
                names: input
                    .size()
                    .map_err(|problem| FieldError::from(problem).at("block_ids"))?,
                bytes: bytes.len() - input.remaining(),
            })
        };
        match fields().map_err(FieldError::into_parts) {
            Ok(head) => Ok(Some(head)),
            Err((_, Problem::Truncated { .. })) => Ok(None),
            Err((field, problem)) => Err(in_removal(field, problem)),
        }
    }
}

/// Decodes the whole names at the beginning of some bytes, up to this number. Returns them with the
/// bytes that they take.
pub fn names_in(bytes: &[u8], most: usize) -> Result<(Vec<String>, usize), DecodeError> {
    let mut input = Reader::new(bytes);
    let mut names = Vec::new();
    let mut taken = 0;
    while names.len() < most {
        match input.str() {
            Ok(name) => names.push(name.to_owned()),
            Err(Problem::Truncated { .. }) => break,
            Err(problem) => return Err(in_removal("block_ids", problem)),
        }
        taken = bytes.len() - input.remaining();
    }
    Ok((names, taken))
}

fn in_removal(field: &'static str, problem: Problem) -> DecodeError {
    DecodeError {
        message: RemoveBlocks::NAME,
        field,
        problem,
    }
}

message! { lenient, 8;
    /// How many were deleted.
    pub struct BlocksRemoved {
        /// Blocks.
        pub count: u32,
    }
}

message! { lenient, 19;
    /// Drop what was merged of a shuffle.
    pub struct RemoveShuffleMerge {
        /// Which shuffle; -1 for whatever generation is current.
        pub key: ShuffleKey,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_read_in_parts_of_whole_names_wherever_it_is_cut() {
        let names: Vec<_> = (0..40)
            .map(|map| format!("shuffle_0_{map}_0.data"))
            .collect();
        let whole = RemoveBlocks {
            app: AppId::new("application_1").unwrap(),
            exec_id: "7".to_owned(),
            block_ids: names.clone(),
        };
        let bytes = whole.to_bytes().slice(1..);
        let head = RemoveBlocksHead::read(&bytes).unwrap().unwrap();
        assert_eq!((head.exec_id.as_str(), head.names), ("7", 40));
        for cut in 0..bytes.len() {
            if cut < head.bytes {
                assert_eq!(RemoveBlocksHead::read(&bytes[..cut]).unwrap(), None);
                continue;
            }
            let (mut found, taken) = names_in(&bytes[head.bytes..cut], 40).unwrap();
            let rest = &bytes[head.bytes + taken..];
            found.extend(names_in(rest, 40 - found.len()).unwrap().0);
            assert_eq!(found, names, "cut at {cut}");
        }
        assert!(names_in(&[0xff; 8], 1).is_err(), "a negative length");
    }
}
