// SPDX-License-Identifier: Apache-2.0
//! Comparing an answer with the right one.

use std::fmt::Debug;

use lodestone_model::Code;
use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::extension::status::Refused;

/// Nothing, or a description of the breach.
pub type Judged<T = ()> = Result<T, String>;

pub(super) fn breach<T>(text: impl Into<String>) -> Judged<T> {
    Err(text.into())
}

pub(super) fn agree<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Judged {
    match found == expected {
        true => Ok(()),
        false => breach(format!("{what}: is {found:?}, must be {expected:?}")),
    }
}

/// Returns the decoded answer if there must be one, or nothing if the request was rightly refused.
pub(super) fn refused_or<M: Message>(
    answer: &Answer,
    incarnation: i64,
    expected: Result<(), Code>,
) -> Judged<Option<M>> {
    let Answer::Response(bytes) = answer else {
        return breach(format!("answered with a text: {answer:?}"));
    };
    match (expected, refusal(answer)) {
        (Err(expected), Some(found)) => {
            agree("refused with", &found.code, &expected)?;
            agree("incarnation", &found.incarnation, &incarnation)?;
            Ok(None)
        }
        (Ok(()), None) => match M::from_bytes(bytes) {
            Ok(message) => Ok(Some(message)),
            Err(error) => breach(format!("the answer is no {}: {error}", M::NAME)),
        },
        (Ok(()), Some(refused)) => breach(format!(
            "{} was refused: {:?}, {}",
            M::NAME,
            refused.code,
            refused.detail
        )),
        (Err(expected), None) => breach(format!("no refusal, must be {expected:?}")),
    }
}

/// The refusal, if the answer is one.
pub fn refusal(answer: &Answer) -> Option<Refused> {
    match answer {
        Answer::Response(bytes) => Refused::from_bytes(bytes).ok(),
        Answer::Failure(_) | Answer::Close => None,
    }
}
